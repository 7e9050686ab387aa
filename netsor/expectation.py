"""Gaussian expectations of any function of the language, over arrays of means and covariances."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import mul
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsor.algebra.moments import Moments
from netsor.algebra.poly import Expect, Poly
from netsor.binding import table
from netsor.errors import IllFormed, Numerical
from netsor.functions import elementwise
from netsor.infinite.engine import REPLICATES
from netsor.infinite.integrable import Integrability
from netsor.infinite.plan import ScorePlan
from netsor.infinite.regularity import Regularity
from netsor.infinite.values import LimitValues
from netsor.ir import Index, Plate, Slot, Term, lift
from netsor.listing import statement
from netsor.names import Names
from netsor.numeric.estimate import Estimate, EstimateArray
from netsor.numeric.named import Named, named
from netsor.numeric.routes import Routes
from netsor.numeric.streams import Rng, seed_of
from netsor.ops import Fn, Table
from netsor.rules.input import Prior, unknown, vector
from netsor.rules.mean import mean as average

Array = NDArray[np.float64]

LEVELS = (1, 2, 3)
UNIT = 2.0**-53
SLACK = 1e-9  # of a correlation beyond 1


class Expected(Estimate):
    """A number with its error, and how it was found."""

    __slots__ = ("routes",)
    routes: Counter[str]

    def explain(self) -> str:
        """The routes by which the expectations in it were computed, each with its number of entries."""
        return explained(self.routes)


@dataclass(frozen=True, eq=False)
class ExpectedArray(EstimateArray):
    """Numbers with their errors, and how they were found."""

    routes: Counter[str] = field(default_factory=Counter)

    def explain(self) -> str:
        """The routes by which the expectations in it were computed, each with its number of entries."""
        return explained(self.routes)


ROUTES = {
    "algebra": "moments of Gaussians alone: Isserlis' theorem",
    "closed": "closed form, by Stein's lemma from the pieces of the functions",
    "line": "quadrature over one variable",
    "half": "quadrature over one variable, closed form given it",
    "plane": "quadrature over two variables",
    "space": "quadrature over three variables",
    "sampled": "scrambled Sobol points, error from 16 randomisations",
}


def explained(routes: Counter[str]) -> str:
    return "\n".join(f"{ROUTES[name]} ({routes[name]} entries)" for name in ROUTES if routes[name])


def expect(
    f: Callable[..., Any] | Sequence[Callable[..., Any]],
    *,
    mean: ArrayLike = 0.0,
    cov: ArrayLike = 1.0,
    tol: float | None = None,
    rng: Rng = 0,
) -> Expected | ExpectedArray:
    """E f(X_1, .., X_d) for jointly Gaussian X ~ N(mean, cov), for every entry of arrays of means and covariances.

    f: a function of the language (`relu`), a Python function that computes with terms (`lambda x, y: relu(x) * y**2`), a
    sequence of functions of one variable each (`(relu, tanh)` is E relu(X_1) tanh(X_2)), a sympy Lambda, or a function of
    numpy arrays (integrated numerically; its growth is taken on trust).

    Products and sums are taken apart first. What is left has a closed form where netsor knows one that is accurate, else it
    is integrated: on a line, in the plane, in space, or by Sobol points. `.explain()` names the routes.

    Shapes: d = 1: mean and cov (the variance) broadcast. d > 1: mean (..., d), cov (..., d, d); a number stands for equal
        means, or a multiple of the identity. The result has the shape of what is left.
    Error: a bound from rounding (closed forms), from refinement (quadrature), or one standard error (Sobol points).
    tol: resolution is raised until every error is at most tol.
    Raises: NS305 where cov is no covariance, NS306 where an entry is not finite, NS106 where the expectation does not exist,
        NS401 where tol is not reached, NS402 where the result overflows.
    """
    term, means, covariances = posed(f, mean, cov)
    shape = means.shape[1:]
    flat = Question(term, means.reshape(len(means), -1), covariances.reshape(*covariances.shape[:2], -1), rng)
    value, error, routes = flat.answered(tol)
    if not shape:
        number = Expected(value[0], error[0])
        number.routes = routes
        return number
    return ExpectedArray(value.reshape(shape), error.reshape(shape), routes)


# ---- what is asked


def posed(f: Any, mean: ArrayLike, cov: ArrayLike) -> tuple[Term, Array, Array]:
    """The function as a term of vectors x[0] .. x[d-1], means (d, ...) and covariances (d, d, ...)."""
    m, c = np.asarray(mean, dtype=float), np.asarray(cov, dtype=float)
    if not (np.isfinite(m).all() and np.isfinite(c).all()):
        raise IllFormed(
            "NS306",
            statement="expect(..., mean=, cov=)",
            hypothesis="means and covariances are finite numbers",
            repair="see numpy.isfinite",
        )
    if isinstance(f, str) or not (callable(f) or isinstance(f, Sequence)):
        raise IllFormed(
            "NS309",
            statement=f"expect({f!r})",
            hypothesis="a function is an object, and no text is ever evaluated",
            repair="expect(relu), expect(lambda x, y: relu(x) * y), expect((relu, tanh)), or a sympy Lambda",
        )
    d = arity(f, m, c)
    if d == 1:
        if c.ndim >= 2 and c.shape[-2:] == (1, 1):
            m, c = m[..., 0] if m.shape[-1:] == (1,) else m, c[..., 0, 0]
        try:
            m, c = np.broadcast_arrays(m, c)
        except ValueError:
            raise misshapen(m, c, d) from None
        means, covariances = m[None], c[None, None]
    else:
        m, c = m if m.ndim else np.full(d, m), c if c.ndim else c * np.eye(d)
        check_shapes(m, c, d)
        batch = np.broadcast_shapes(m.shape[:-1], c.shape[:-2])
        means = np.moveaxis(np.broadcast_to(m, (*batch, d)), -1, 0)
        covariances = np.moveaxis(np.broadcast_to(c, (*batch, d, d)), (-2, -1), (0, 1))
    check_covariance(covariances)
    i = Plate("variable", d).index("i")
    x, shift = vector("x", i, cov=unknown), table("mean", i)
    return applied(f, [x[k] + shift[k] if means[k].any() else x[k] for k in range(d)]), means, covariances


def arity(f: Any, mean: Array, cov: Array) -> int:
    """How many variables f has; where f does not say, as many as the covariance."""
    if isinstance(f, Sequence):
        return len(f)
    known = f.arity if isinstance(f, Fn) else len(f.variables) if hasattr(f, "variables") else None
    if known is not None:
        return int(known)
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        parameters = {}.values()
    fixed = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty]
    if fixed and not any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return len(fixed)
    return cov.shape[-1] if cov.ndim >= 2 else mean.shape[-1] if mean.ndim else 1


def check_shapes(m: Array, c: Array, d: int) -> None:
    batches = m.shape[:-1], c.shape[:-2]
    fits = all(a == b or 1 in (a, b) for a, b in zip(*(s[::-1] for s in batches), strict=False))
    if m.shape[-1:] != (d,) or c.shape[-2:] != (d, d) or not fits:
        raise misshapen(m, c, d)


def misshapen(m: Array, c: Array, d: int) -> IllFormed:
    return IllFormed(
        "NS305",
        statement=f"expect of {d} variable{'s' * (d > 1)} with mean of shape {m.shape} and cov of shape {c.shape}",
        hypothesis=f"the mean has shape (..., {d}) and the covariance (..., {d}, {d}); for one variable both are arrays that "
        "broadcast",
        repair="give one entry for each variable, batches first",
    )


def check_covariance(c: Array) -> None:
    """Symmetric and positive semidefinite, in units of the standard deviations."""
    variances = np.einsum("ii...->i...", c)
    unit = np.sqrt(np.where(variances > 0, variances, 1))
    r = np.moveaxis(c / unit / unit[:, None], (0, 1), (-2, -1))
    symmetric = np.abs(r - np.swapaxes(r, -1, -2)).max(initial=0) <= SLACK
    if symmetric and (variances >= 0).all() and (np.linalg.eigvalsh(r)[..., 0] >= -SLACK).all():
        return
    raise IllFormed(
        "NS305",
        statement="expect(..., cov=)",
        hypothesis="a covariance is symmetric and has no negative eigenvalue",
        repair="check variances, |c| <= sqrt(v w), and that cov[..., i, k] = cov[..., k, i]",
    )


def applied(f: Any, x: Sequence[Term]) -> Term:
    """f(x): by computing with terms, else as an opaque function of arrays."""
    if isinstance(f, Sequence):
        return reduce(mul, (applied(g, [y]) for g, y in zip(f, x, strict=True)))
    if hasattr(f, "variables") or not callable(f):
        return elementwise(f)(*x)
    try:
        made = f(*x)
        return lift(made)
    except (TypeError, AttributeError, ValueError, IllFormed):
        return elementwise(f, name="f")(*x)


# ---- the answer


class Batch(LimitValues):
    """The limit of one vector over variables; the runs are the entries of the arrays."""

    def __init__(
        self, moments: Moments, level: int, seed: np.random.SeedSequence, replicate: int, mean: Array, cov: Array
    ) -> None:
        super().__init__(moments, ScorePlan([], None), no_normals, level, (seed, replicate))
        self.mean, self.cov = mean, cov
        self.routes = Routes(level, refined=True)

    def _value(self, term: Term) -> Named:
        if isinstance(term.op, Prior):
            return entries(self.cov, term.own)
        if isinstance(term.op, Table) and term.op.values is None:
            return entries(self.mean, term.own)
        return super()._value(term)

    def error(self, poly: Poly) -> Named:
        """A bound of the error of a polynomial in expectations, from theirs and from rounding."""
        total = named(0.0)
        for m in poly:
            sizes = [np.abs(self.value(s).data) for s in m.scalars]
            errors = [self.error_of(s).data for s in m.scalars]
            size = abs(float(m.number)) * reduce(np.multiply, sizes, np.ones((1, 1)))
            off = (len(sizes) + 2) * UNIT * size
            for k, e in enumerate(errors):
                off = off + abs(float(m.number)) * e * reduce(np.multiply, (*sizes[:k], *sizes[k + 1 :]), np.ones((1, 1)))
            total = Named((), total.data + off)
        return total

    def error_of(self, scalar: Term) -> Named:
        if not isinstance(scalar.op, Expect):
            return named(0.0)
        defined = self.moments.define(scalar)
        return self.error(defined) if defined is not None else self.errors.get(scalar.family.key, named(0.0))


def entries(data: Array, own: Sequence[Slot]) -> Named:
    """An array over variables and entries, at the letters or members that stand there."""
    letters = tuple(Index(f"@t{k}", slot.plate) for k, slot in enumerate(own))
    return Named(letters, data[..., None]).relabel(dict(zip(letters, own, strict=True)))


def no_normals(key: object, n: int) -> Array:
    raise AssertionError("an expectation draws no scores")


@dataclass(frozen=True)
class Question:
    """One term, and flat arrays of means (d, n) and covariances (d, d, n)."""

    term: Term
    mean: Array
    cov: Array
    rng: Rng

    def answered(self, tol: float | None) -> tuple[Array, Array, Counter[str]]:
        moments = Moments()
        poly = moments.expect(self.term) if self.term.width is not None else Poly()
        for level in LEVELS if tol is not None else LEVELS[:1]:
            value, error, routes = self.at_level(moments, poly, level)
            if tol is None or (error <= tol).all():
                return value, error, routes
        raise Numerical(
            "NS401",
            statement=f"expect(..., tol={tol:g})",
            hypothesis=f"the largest error reached is {error.max():.2g}, at the value {value[error.argmax()]:.12g}",
            repair="ask for less, or give elementwise(f, kinks=..., jumps=...) the places where f is not smooth",
        )

    def check(self, at: Batch) -> None:
        """Refuses, before anything is integrated, an expectation that does not exist."""
        variables = {"E": average(self.term)}
        regularity = Regularity(at.moments, variables)
        regularity.draw = at
        for severity, _, error in Integrability(regularity, variables).check():
            if severity == "refused":
                error.statement = f"expect of {statement(self.term, Names({}))}"
                raise error

    def at_level(self, moments: Moments, poly: Poly, level: int) -> tuple[Array, Array, Counter[str]]:
        seed = seed_of(self.rng)
        values: list[Array] = []
        error, routes = np.zeros(self.mean.shape[1]), Counter[str]()
        replicates = 1
        while len(values) < replicates:
            at = Batch(moments, level, seed, len(values), self.mean, self.cov)
            if not values and self.term.width is not None:
                self.check(at)
            with np.errstate(all="ignore"):
                values.append(self.finite(at, poly))
            if len(values) == 1:
                error = self.spread(at.error(poly))
                routes = Counter(at.routes.taken) or Counter(algebra=self.mean.shape[1])
                if at.sampled:
                    replicates = REPLICATES
        stacked = np.stack(values)
        if replicates > 1:
            error = error + stacked.std(0, ddof=1) / np.sqrt(replicates)
        return stacked.mean(0), error, routes

    def finite(self, at: Batch, poly: Poly) -> Array:
        value = self.spread(at.poly(poly))
        bad = np.flatnonzero(~np.isfinite(value))
        if bad.size:
            k = bad[0]
            raise Numerical(
                "NS402",
                statement=f"an expectation at mean {self.mean[:, k].tolist()}, cov {self.cov[..., k].tolist()}",
                hypothesis="the value is too large for a double (overflow)",
                repair="scale the variables down",
            )
        return value

    def spread(self, x: Named) -> Array:
        return np.array(np.broadcast_to(x.data[..., 0].reshape(-1), self.mean.shape[1:]))
