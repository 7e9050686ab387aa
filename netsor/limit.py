"""The infinite-width limit of a program: derived formulas, and numbers from them."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping
from concurrent.futures import Executor
from functools import cached_property
from typing import Any

import numpy as np

from netsor.algebra.forms import shared_with
from netsor.algebra.patterns import truth
from netsor.algebra.pivots import is_score
from netsor.algebra.scores import score_covariance
from netsor.errors import IllFormed, Numerical
from netsor.infinite.averages import average
from netsor.infinite.engine import DEFAULT_RUNS, Engine, Sampling
from netsor.infinite.laws import law_of
from netsor.infinite.proxy import variance_proxy
from netsor.infinite.values import LimitValues
from netsor.ir import Size, Term, postorder
from netsor.jobs import Sampled
from netsor.legality import Legality
from netsor.listing import indexed
from netsor.names import instance
from netsor.numeric.draws import Draws, at_members, checked_count
from netsor.numeric.estimate import EstimateArray
from netsor.numeric.law import Law
from netsor.numeric.named import Named, combine, extent
from netsor.numeric.streams import Rng, seed_of
from netsor.ops import Param
from netsor.rules.matmul import MatMul
from netsor.runs.run import How, results
from netsor.symbolic.derive import Derivation
from netsor.symbolic.variable import Expand, Variable

LARGEST_RUNS = 2**22


class Limit:
    """`L[name]` is the derived law of a variable; `print(L)` shows all. Numbers: `law`, `mean`, `covariance`, `sample`.

    Raises: OutsideTheorem with the first refusal; all of them are its `diagnostics`.
    """

    def __init__(self, name: str, legality: Legality) -> None:
        refused = [d.error for d in legality.diagnostics if d.severity == "refused"]
        if refused:
            refused[0].diagnostics = list(legality.diagnostics)
            raise refused[0]
        self.name, self.variables, self.moments = name, legality.variables, legality.moments
        self._derivation = Derivation(legality.variables, legality.moments, legality.pivots, legality.unfresh)
        self._engine = Engine(legality.moments)

    # ---- formulas

    def __getitem__(self, name: str) -> Variable:
        return self._derivation.derived[self.known(name)]

    def __iter__(self) -> Iterator[str]:
        return iter(self.variables)

    def __len__(self) -> int:
        return len(self.variables)

    def items(self) -> ItemsView[str, Variable]:
        return self._derivation.derived.items()

    def __contains__(self, name: object) -> bool:
        return name in self.variables

    def __str__(self) -> str:
        return f"limit of {self.name}\n{self._derivation}"

    def text(self, expand: Expand = "E") -> str:
        """As `print`, with irreducible expectations as E[..] ("E"), in closed form ("closed"), or moreover with bound sizes,
        sigmas and parameters as numbers ("numbers")."""
        return f"limit of {self.name}\n{self._derivation.expanded(expand)}"

    def __repr__(self) -> str:
        return f"<Limit of {self.name}: {', '.join(self.variables)}>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{n}</td><td>{v.kind}</td><td style='text-align:left'>$\\displaystyle {line}$</td></tr>"
            for n, v in self.items()
            for line in v.latex().split(r" \\ ")
        )
        return f"<table><tr><th>variable</th><th>kind</th><th>limit</th></tr>{rows}</table>"

    @cached_property
    def values(self) -> dict[str, Any]:
        """Numbers that formulas write by name: sizes, sigmas, parameters."""
        out: dict[str, Any] = {}
        for family in postorder(*self.variables.values()):
            op = family.op
            counted = [op.plate] if isinstance(op, Size) else []
            for plate in (*family.plates, *family.bound, *counted):
                if plate.extent is not None:
                    out[plate.symbol or f"N_{plate.name}"] = plate.extent
            if isinstance(op, MatMul):
                sigma = op.matrix.sigma
                if not isinstance(sigma, Param):
                    out[f"sigma_{op.matrix.name}"] = sigma
                op = sigma if isinstance(sigma, Param) else op
            if isinstance(op, Param) and op.value is not None:
                out[op.name] = op.value
        return out

    # ---- numbers

    def mean(self, name: str, *, runs: int = DEFAULT_RUNS, rng: Rng = 0) -> EstimateArray:
        """E Z over the plates of the variable, averaged over scores.

        Shapes: one axis for each index. Random: scores, from `rng`.
        """
        return self._mean(self.variables[self.known(name)], Sampling(checked_count("runs", runs), seed_of(rng)))

    def _mean(self, term: Term, sampling: Sampling) -> EstimateArray:
        if self._centred(term):
            zero = np.zeros([extent(i.plate) for i in term.free])
            return EstimateArray(zero, zero)
        return average(self._engine, [term], lambda at: self._given(at, term), term.free, sampling)

    def covariance(self, name: str, other: str | None = None, *, runs: int = DEFAULT_RUNS, rng: Rng = 0) -> EstimateArray:
        """Cov of two variables (of one with itself) over the scores and the Gaussian atoms.

        Shapes: the indices of the first, then those of the second. Random: scores, from `rng`.
        """
        sampling = Sampling(checked_count("runs", runs), seed_of(rng))
        x = self.variables[self.known(name)]
        y = self.variables[self.known(other or name)]
        y = y.at({i: i.prime for i in y.free})
        over = (*x.free, *y.free)

        means = [self._mean(t, sampling) for t in (x, y)]
        a, b = (Named(t.free, m.value[..., None, None]) for t, m in zip((x, y), means, strict=True))

        def second(at: LimitValues) -> Named:
            """Cov(x, y | scores) + (E[x | scores] - E x) (E[y | scores] - E y)."""
            if x.family == y.family and self._centred(x):
                return at.masked(x, at.masked(y, at.poly(score_covariance(self.moments, x, y), over)))
            between = combine(lambda m, a, n, b: (m - a) * (n - b), self._given(at, x), a, self._given(at, y), b)
            return combine(np.add, between, at.poly(self.moments.covariance(x, y), over)) if vectors else between

        vectors = x.width is not None and y.width is not None
        found = average(self._engine, [x, y], second, over, sampling)
        return EstimateArray(found.value, np.hypot(found.error, np.multiply.outer(means[0].error, means[1].error)))

    def _centred(self, term: Term) -> bool:
        """Is it a score, centred Gaussian given the scores below it?"""
        return is_score(term) and not shared_with(self.moments, self._derivation.pivots, term)

    def _given(self, at: LimitValues, term: Term) -> Named:
        """E of the variable given the scores."""
        return at.value(term) if term.width is None else at.poly(self.moments.expect(term), term.free)

    def law(self, name: str, /, *, tol: float | None = None, runs: int = DEFAULT_RUNS, rng: Rng = 0, **members: int) -> Law:
        """The law of one coordinate of a vector, or of one scalar: `L.law("y", i=0)`.

        A mixture of Gaussians over the scores where some Gaussian atom is affine (it is integrated out), else the law of
        draws, or a point mass. tol: the standard error of the variance asked for; runs are doubled until it is met.
        Raises: NS302 for a missing index, NS304 for unbound sizes, NS401 when tol is not met.
        """
        term = one_member(name, self.variables[self.known(name)], members)
        check_exists(name, self.variables[name], term)
        runs = checked_count("runs", runs)
        while True:
            law = law_of(self._engine, term, Sampling(runs, seed_of(rng)))
            if tol is None or law.variance.error <= tol:
                law.proxy = lambda: variance_proxy(self._engine, term)  # decided when asked for
                return law
            if 2 * runs > LARGEST_RUNS:
                raise Numerical(
                    "NS401",
                    statement=f"law of {name} with tol={tol:g}",
                    hypothesis=f"{runs} runs leave a standard error of {law.variance.error:.2g} in the variance",
                    repair="ask for less",
                )
            runs *= 2

    def sample(
        self,
        runs: int,
        *,
        coordinates: int = 1,
        names: list[str] | None = None,
        rng: Rng = None,
        workers: int = 1,
        executor: Executor | None = None,
    ) -> Draws:
        """Joint draws of the limit: scores of a run, and coordinates that are independent given them.

        workers, executor: as for `simulate`; they change no bit.
        Shapes: (indices, runs, coordinates) for a vector, (indices, runs) for a scalar.
        Random: scores and coordinates, from `rng`, in blocks that the request fixes.
        """
        spec = {self.known(n): {"coordinates": coordinates} for n in (names or list(self.variables))}
        job = Sampled(self.name, self.variables, spec, checked_count("runs", runs), seed_of(rng))
        return Draws.joined(f"{self.name}: the limit, {runs} runs", job.outputs, list(results(job, How(workers, executor))))

    # ---- helpers

    def known(self, name: str) -> str:
        if name not in self.variables:
            raise IllFormed(
                "NS311",
                statement=f"{name!r} in the limit of {self.name}",
                hypothesis="there is no variable of that name",
                repair="the variables are " + ", ".join(self.variables),
            )
        return name


def one_member(name: str, term: Term, members: Mapping[str, int]) -> Term:
    """The variable at a member of each of its indices."""
    chosen = at_members(name, term, members)
    if chosen.free:
        missing = ", ".join(f"{i}=0" for i in chosen.free)
        raise IllFormed(
            "NS302",
            statement=f"the law of {indexed(name, term.free)}",
            hypothesis="a law is that of one number, and some indices are open",
            repair=f"name a member of each: {missing}",
        )
    return chosen


def check_exists(name: str, pattern: Term, term: Term) -> None:
    """An entry of a score outside its own mask does not exist."""
    if is_score(term) and any(truth(mask, {}) is False for mask in term.args[2:]):
        raise IllFormed(
            "NS308",
            statement=f"the law of {shown(name, pattern, term)}",
            hypothesis="the score has a mask, and this entry is outside it",
            repair="ask for an entry inside the mask",
        )


def shown(name: str, pattern: Term, term: Term) -> str:
    """An instance of a variable, with what stands in place of its free letters."""
    known = instance((name, pattern.slots), term)
    assert known is not None
    return indexed(*known)
