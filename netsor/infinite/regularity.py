"""Where a function is not continuous at the limit of its arguments: jumps on atoms, division by zero, ties."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np

from netsor import semantics
from netsor.algebra.moments import Moments
from netsor.algebra.poly import Poly, constant, is_map
from netsor.errors import NetsorError, NoRule, OutsideTheorem
from netsor.infinite.engine import Engine, Sampling
from netsor.infinite.plan import generators_below
from netsor.infinite.values import LimitValues
from netsor.ir import Family, Index, Term, postorder
from netsor.numeric.joint import dense_covariance
from netsor.numeric.named import Named, extent
from netsor.ops import Along, Const, Generator, Map
from netsor.walks import generic

RUNS = 64  # draws of the scores in which a degenerate value is looked for
ZERO = 1e-12  # relative to the sizes of what cancels
RANK = 1e-10  # of the trace: a smaller eigenvalue is a deficiency


class Regularity:
    """Checks of every function of one program, by structure first and in numbers where all sizes are bound."""

    def __init__(self, moments: Moments, variables: Mapping[str, Term]) -> None:
        self.moments, self.variables = moments, variables

    @cached_property
    def draw(self) -> LimitValues:
        """A few runs of all scores of the program, drawn once for all checks."""
        sampling = Sampling(RUNS, np.random.SeedSequence(0))
        at, _ = next(iter(Engine(self.moments).replicates(list(self.variables.values()), sampling)))
        return at

    def is_zero(self, poly: Poly) -> bool:
        """Is the polynomial 0 in every run, at different members for different letters?"""
        poly = self.moments.resolved(poly)
        if not poly:
            return True
        free = tuple(i for i in poly.free if isinstance(i, Index))
        try:
            parts = np.broadcast_arrays(*(self.draw.poly(Poly((m,)), free).full(free) for m in poly))
            apart = distinct_members(free)
        except NetsorError:  # something is unbound: only structure can tell
            return False
        return bool((np.abs(sum(parts)) <= ZERO * sum(map(np.abs, parts)))[apart].all())

    def value(self, term: Term) -> Named | None:
        """The value of a scalar over its letters and runs; None where it cannot be computed (yet)."""
        try:
            return self.draw.value(term)
        except NetsorError:
            return None

    # ---- one statement

    def check(self) -> Iterator[tuple[Family, NetsorError]]:
        for family in postorder(*self.variables.values()):
            term = generic(family)
            op = family.op
            if isinstance(op, Map):
                found = self.division(term) or self.jump(term)
                if found is not None:
                    yield family, found
            elif isinstance(op, Along) and op.fn.jumps:
                found = self.tie(term)
                if found is not None:
                    yield family, found

    def division(self, term: Term) -> NetsorError | None:
        """A scalar denominator whose limit is zero."""
        assert isinstance(term.op, Map)
        divisor = term.args[-1]
        if not term.op.fn.singular or divisor.width is not None or isinstance(divisor.op, Const):
            return None
        if self.vanishes(divisor):
            return OutsideTheorem(
                "NS104",
                hypothesis="a function of Moments must be continuous at their limits (Yang 2019, Appendix I), and this "
                "denominator tends to 0",
                consequence="0/0: the quotient depends on fluctuations that the limit does not see",
                repair="normalise a vector that does not vanish, or add eps: layernorm(x, eps=1e-5)",
            )
        return None

    def vanishes(self, scalar: Term) -> bool:
        if is_map(scalar, "sqrt"):
            return self.vanishes(scalar.args[0])
        if self.is_zero(self.moments.expand(scalar)):
            return True
        value = self.value(scalar)
        return value is not None and bool((np.abs(value.data) <= ZERO).all())

    def jump(self, term: Term) -> NetsorError | None:
        """A discontinuous function where its argument has an atom."""
        assert isinstance(term.op, Map)
        jumps = term.op.fn.jumps
        if not jumps:
            return None
        arg = term.args[0]
        if arg.width is None:
            value = self.value(arg)
            hit = value is not None and any((np.abs(value.data - place) <= ZERO).any() for place in jumps)
            return self.atom() if hit else None
        if self.moments.affine(arg):
            mean = self.moments.expect(arg)
            variance = self.moments.expect(arg, arg) + (mean * mean).scaled(-1)
            if not self.is_zero(variance):
                return None
            hit = any(self.is_zero(mean + constant(-place)) for place in jumps)
            return self.atom() if hit else None
        return self.composed(arg)

    def composed(self, arg: Term) -> NetsorError | None:
        """A jump of a nonlinear function: fine where the Gaussians below are nondegenerate and no Moment moves it."""
        moments = [
            f for f in postorder(arg) if isinstance(f.op, Generator) and f.width is None and not self.moments.scored(generic(f))
        ]
        if not moments and self.nondegenerate(arg):
            return None
        return NoRule(
            "NS204",
            hypothesis="a jump of a nonlinear function that involves Moments, or of degenerate Gaussians, may lie where the "
            "limit has mass (docs/theory.md, Theorem B); netsor cannot certify that it does not",
            consequence="the limit of the function need not be the function of the limit",
            repair="apply the jump to an affine combination, or replace it by a continuous function",
        )

    def nondegenerate(self, arg: Term) -> bool:
        """Have the Gaussians below, of each source, a covariance of full rank? (Taken as so where sizes are unbound.)"""
        groups: dict[bytes | None, list[Term]] = {}
        for pattern in generators_below([arg]):
            groups.setdefault(semantics.source(pattern.op), []).append(pattern)
        try:
            for patterns in groups.values():
                values = np.linalg.eigvalsh(dense_covariance(self.draw, patterns, self.covariance))
                if (values[..., 0] <= RANK * values.sum(-1)).any():
                    return False
        except NetsorError:
            return True
        return True

    def covariance(self, g: Term, h: Term) -> Poly:
        return semantics.cumulant(g.op, (g, h), self.moments)

    def atom(self) -> NetsorError:
        return OutsideTheorem(
            "NS103",
            hypothesis="a Nonlin must be continuous almost everywhere under the law of its arguments (docs/theory.md, "
            "Theorem B); here it jumps at a value that the limit takes with probability one",
            consequence="the limit would say the value at the jump, while at every width the argument is off it",
            repair="apply the function to something whose limit has positive variance, or use a continuous function",
        )

    def tie(self, term: Term) -> NetsorError | None:
        """Entries that are equal in the limit, so that the largest is decided by fluctuations."""
        arg = term.args[0]
        if arg.width is not None:
            return self.composed(arg)
        (over,), (opened, *_) = term.open()
        if over.plate.extent == 1:
            return None
        value = self.value(opened)
        if value is None or (over in value.over and self.apart(value, over)):
            return None
        return OutsideTheorem(
            "NS107",
            hypothesis="the choice of the largest entries is continuous only where no two are equal (docs/theory.md, "
            "Theorem 4), and here two are equal "
            "in the limit",
            consequence="which one is chosen is decided by fluctuations of size n^{-1/2}, at every width",
            repair="use softmax, or scores whose differences have positive variance (1/sqrt(n) scaling)",
        )

    def apart(self, value: Named, over: Index) -> bool:
        """Do any two entries along a letter differ, in every run?"""
        ordered = np.sort(value.data, axis=value.over.index(over))
        gaps = np.diff(ordered, axis=value.over.index(over))
        return bool((gaps > ZERO * np.abs(ordered).max()).all())


def distinct_members(letters: Sequence[Index]) -> np.ndarray:
    """Over the members of the letters: are those of one plate all different?"""
    at = np.indices([extent(i.plate) for i in letters])
    apart = np.ones(at.shape[1:], dtype=bool)
    for x, i in enumerate(letters):
        for y, k in enumerate(letters[:x]):
            if i.plate == k.plate:
                apart &= at[x] != at[y]
    return apart
