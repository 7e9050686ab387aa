"""Coordinates of the limit: draws of vectors, independent over coordinates given the scores of the run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from netsor import semantics
from netsor.algebra.poly import Poly
from netsor.infinite.plan import generators_below
from netsor.ir import Term
from netsor.numeric.demand import instance
from netsor.numeric.initial import initial
from netsor.numeric.interpreter import Interpreter
from netsor.numeric.joint import Normals, draw_jointly
from netsor.numeric.named import Named
from netsor.rules.input import Input

if TYPE_CHECKING:
    from netsor.infinite.values import LimitValues


class Coordinates(Interpreter):
    """Values of vectors over (letters, runs, coordinates), scalars taken from the limit they belong to."""

    def __init__(self, limit: LimitValues, roots: Iterable[Term], normals: Normals) -> None:
        super().__init__()
        self.limit = limit
        self._generators: dict[bytes, tuple[Term, Named]] = {}
        sources: dict[bytes | None, list[Term]] = {}
        for pattern in generators_below(roots):
            sources.setdefault(semantics.source(pattern.op), []).append(pattern)
        for patterns in sources.values():
            op = patterns[0].op
            values = (
                [initial(limit, limit.moments, op, p, normals) for p in patterns]
                if isinstance(op, Input)
                else draw_jointly(limit, limit.moments, patterns, self.covariance, normals)
            )
            for pattern, value in zip(patterns, values, strict=True):
                self._generators[pattern.family.key] = (pattern, value)

    def _value(self, term: Term) -> Named:
        return self.limit.value(term) if term.width is None else super()._value(term)

    def generator(self, term: Term) -> Named:
        pattern, value = self._generators[term.family.key]
        return value.relabel(instance(pattern, term))

    def covariance(self, g: Term, h: Term) -> Poly:
        return semantics.cumulant(g.op, (g, h), self.limit.moments)
