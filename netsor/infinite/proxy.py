"""Sub-Gaussianity by structure: a bound of the conditional variance of a limit, for every value of the scores.

If Z given the scores is N(0, V) and V <= v, then E exp(tZ) = E exp(t² V/2) <= exp(t² v/2): v is a variance proxy, and
P(|Z| > t) <= 2 exp(-t²/(2v)). With N(x) = ess sup of E[x² | scores],

    N(W x)            = σ² N(x)                      an average over coordinates
    N(Σ_j A_j x_j)    <= max_j N(x_j)                A on the simplex: x -> E[x² | scores] is convex
    N(x + y)          <= N(x) + N(y)                 E[xy | scores] = 0; else (√N(x) + √N(y))²
    N(c x)            <= sup c² N(x)

Source: docs/theory.md, Corollary 9; Sakai, Karakida, Imaizumi 2025, Corollary 3.2, for the claim.
"""

from __future__ import annotations

from functools import cached_property
from math import inf, sqrt

import numpy as np

from netsor.algebra.pivots import is_score
from netsor.algebra.poly import Poly
from netsor.algebra.ranges import Ranges
from netsor.algebra.scores import score_covariance
from netsor.infinite.engine import Engine, Sampling
from netsor.infinite.values import LimitValues
from netsor.ir import Member, Slot, Term, postorder
from netsor.numeric.proxy import VarianceProxy
from netsor.ops import Along, Average, Map, Param
from netsor.rules.matmul import MatMul

SIMPLEX = ("softmax",)  # along a plate: weights >= 0 that sum to 1 (or are all 0)


class Unbounded(Exception):
    """Why there is no bound."""


def variance_proxy(engine: Engine, term: Term) -> VarianceProxy | str:
    """A bound of Var(Z | scores) for every value of the scores, with the argument; or why there is none."""
    try:
        return Proxies(engine).of(term)
    except Unbounded as why:
        return str(why)


class Proxies:
    """Bounds for the vectors of one program, and the steps that led to them."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.moments = engine, engine.moments
        self.ranges = Ranges(lambda term: None)
        self.steps: list[str] = []
        self._norms: dict[Term, float] = {}

    @cached_property
    def _values(self) -> LimitValues:
        at, _ = next(iter(self.engine.replicates([], Sampling(16, np.random.SeedSequence(0)), level=2)))
        return at

    def number(self, poly: Poly) -> float:
        """The value of a polynomial without scores."""
        return float(self._values.poly(poly).data.item())

    def of(self, term: Term) -> VarianceProxy:
        """Raises: Unbounded."""
        if is_score(term):
            left, right = term.args[:2]
            if self.moments.scored(left) or self.moments.scored(right):
                raise Unbounded("a score whose sides depend on earlier scores")
            value = self.number(score_covariance(self.moments, term, term))
            self.steps.append(f"the score is N(0, V), V = {value:.6g} whatever happens")
            return VarianceProxy(value, tuple(self.steps))
        if term.width is None or not self.moments.affine(term):
            raise Unbounded("it is not Gaussian given the scores")
        if self.moments.expect(term):
            raise Unbounded("its mean given the scores is not 0")
        value = self.norm(term)
        self.steps.append(f"so V = Var(Z | scores) <= {value:.6g}, and P(|Z| > t) <= 2 exp(-t²/{2 * value:.6g})")
        return VarianceProxy(value, tuple(self.steps))

    def norm(self, x: Term) -> float:
        """A bound of E[x² | scores]."""
        if x not in self._norms:
            self._norms[x] = self._norm(x)
        return self._norms[x]

    def _norm(self, x: Term) -> float:
        if not self.moments.scored(x):
            second = self.moments.expect(x, x)
            if any(isinstance(f.op, Average) for f in postorder(x, *(s for m in second for s in m.scalars))):
                raise Unbounded("an average over infinitely many members, which is known with an error only")
            return self.number(second)
        op = x.op
        if isinstance(op, MatMul):
            return self.product(x)
        if isinstance(op, Along) and op.fn.name == "sum":
            return self.sum_of(x)
        if isinstance(op, Map):
            name, args = op.fn.name, x.args
            if name in ("add", "sub"):
                return self.together(*args)
            if name in ("mul", "div"):
                scalars = [a for a in args if a.width is None]
                vectors = [a for a in args if a.width is not None]
                if len(vectors) == 1:
                    sup = self.supremum(scalars[0], name == "div")
                    value = sup**2 * self.norm(vectors[0])
                    self.say(f"a factor of at most {sup:.6g}: at most {value:.6g}")
                    return value
        raise Unbounded(f"nothing is known of {shown(op)} after scores")

    def product(self, x: Term) -> float:
        assert isinstance(x.op, MatMul)
        sigma = x.op.matrix.sigma
        sigma2 = float((sigma.value or 0) if isinstance(sigma, Param) else sigma) ** 2
        value = sigma2 * self.norm(x.args[0])
        self.say(f"{x.op.matrix.name} multiplies by σ² = {sigma2:.6g}: at most {value:.6g}")
        return value

    def sum_of(self, x: Term) -> float:
        """Weights on the simplex, or a plain sum of members."""
        (letter,), args = x.open()
        extent = letter.plate.extent
        if extent is None or letter.plate.infinite:
            raise Unbounded(f"the size of plate {letter.plate.name} is not a number")
        weight, vector = weighted(args[0])
        if weight is not None and on_simplex(weight, letter):
            parts = [self.norm(vector.at({letter: Member(letter.plate, k)})) for k in range(extent)]
            value = max(parts)
            plate = letter.plate.name
            self.say(f"weights on the simplex over {plate}: E x² is convex in them, at most that of one {plate}: {value:.6g}")
            return value
        members = []
        for k in range(extent):
            to: dict[Slot, Slot] = {letter: Member(letter.plate, k)}
            members.append(args[0].at(to))
        values = [self.norm(m) for m in members]
        distinct = self.independent(args[0], letter)
        value = sum(values) if distinct else sum(map(sqrt, values)) ** 2
        how = "independent given the scores: the bounds add up" if distinct else "by Minkowski's inequality"
        self.say(f"sum over {letter.plate.name}, {how} to {value:.6g}")
        return value

    def independent(self, x: Term, letter: Slot) -> bool:
        """Are members of a family uncorrelated given the scores, and centred? Every source has a copy for each member."""
        if self.moments.expect(x):
            return False
        for m in self.moments.expand(x, deep=False):
            for a in m.atoms:
                if not (isinstance(a.op, MatMul) and letter in a.own):
                    return False
        return True

    def together(self, x: Term, y: Term) -> float:
        """A sum or difference. Without a common source E[xy | scores] = E[x | scores] E[y | scores]."""
        one, two = self.norm(x), self.norm(y)
        common = self.moments.sources(x) & self.moments.sources(y)
        apart = not common and not (self.moments.expect(x) and self.moments.expect(y))
        value = one + two if apart else (sqrt(one) + sqrt(two)) ** 2
        self.say(f"a sum of two, {'uncorrelated given the scores' if apart else 'by Minkowski'}: at most {value:.6g}")
        return value

    def supremum(self, c: Term, inverse: bool) -> float:
        if not self.moments.scored(c):
            value = float(self._values.value(c).data.item())
            return abs(1 / value if inverse else value)
        lo, hi = self.ranges.of(c)
        if inverse:
            lo, hi = (1 / hi, 1 / lo) if lo > 0 else (-inf, inf)
        if max(-lo, hi) == inf:
            raise Unbounded(f"a weight, {shown(c.op)}, is not bounded, and not on the simplex")
        return max(-lo, hi)

    def say(self, step: str) -> None:
        if step not in self.steps:
            self.steps.append(step)


def weighted(x: Term) -> tuple[Term | None, Term]:
    """A scalar weight times a vector."""
    if isinstance(x.op, Map) and x.op.fn.name == "mul":
        one, two = x.args
        if one.width is None and two.width is not None:
            return one, two
        if two.width is None and one.width is not None:
            return two, one
    return None, x


def on_simplex(weight: Term, letter: Slot) -> bool:
    """Is it >= 0 with a sum of at most 1 over the letter? A softmax or top-1 entry at that letter, or 1/size."""
    op = weight.op
    if isinstance(op, Along) and op.keeps and weight.own == (letter,):
        return op.fn.name in SIMPLEX or (op.fn.name == "top_k" and op.fn.params == (1,))
    return False


def shown(op: object) -> str:
    if isinstance(op, Map | Along):
        return op.fn.name
    return type(op).__name__
