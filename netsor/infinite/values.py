"""One block of runs of the limit: scores drawn, everything else computed given them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from netsor import semantics
from netsor.algebra.moments import Moments
from netsor.algebra.pivots import is_score
from netsor.algebra.poly import Expect, Poly
from netsor.algebra.scores import score_covariance
from netsor.infinite.kernels import kernel
from netsor.infinite.plan import generators_below
from netsor.ir import Term
from netsor.numeric.demand import instance
from netsor.numeric.interpreter import Interpreter
from netsor.numeric.joint import Normals, draw_jointly
from netsor.numeric.linear import sobol_normals
from netsor.numeric.named import Named, combine, count
from netsor.numeric.streams import stream
from netsor.ops import Generator


class LimitValues(Interpreter):
    """Scalars of the limit over (letters, runs). `level`: resolution of the quadratures; `stages`: scores to draw."""

    def __init__(
        self,
        moments: Moments,
        stages: Sequence[Sequence[Term]],
        normals: Normals,
        level: int,
        kernels: tuple[np.random.SeedSequence, int],
    ) -> None:
        super().__init__()
        self.moments, self.level = moments, level
        self.integrated = self.sampled = False  # did a quadrature, did a quasi-Monte Carlo kernel contribute?
        self._kernels = kernels
        self._normals = normals
        self._todo = [list(stage) for stage in stages]
        self._scores: dict[bytes, tuple[Term, Named]] = {}

    def _value(self, term: Term) -> Named:
        if isinstance(term.op, Expect):
            defined = self.moments.define(term)
            if defined is None:
                return self.checked(term, kernel(self, term))
            return self.poly(defined, term.free)
        return super()._value(term)

    def generator(self, term: Term) -> Named:
        if is_score(term):
            return self.score(term)
        assert isinstance(term.op, Generator)
        limit = semantics.limit(term.op, term, self.moments)
        assert limit is not None, term
        return self.poly(limit, term.free)

    def score(self, term: Term) -> Named:
        """The value of a score: its stage is drawn when it is first needed, earlier stages before it."""
        while term.family.key not in self._scores:
            stage = self._todo.pop(0)
            values = draw_jointly(self, self.moments, stage, self.score_covariance, self._normals)
            for pattern, value in zip(stage, values, strict=True):
                self._scores[pattern.family.key] = (pattern, self.masked(pattern, value))
        pattern, value = self._scores[term.family.key]
        return value.relabel(instance(pattern, term))

    def masked(self, score: Term, value: Named) -> Named:
        """Entries outside a score's own mask do not exist; they are stored as 0."""
        if len(score.args) < 3:
            return value
        mask = self.value(score.args[2]).spread(value.over)
        return Named(value.over, np.where(mask > 0, value.data, 0.0))

    def score_covariance(self, p: Term, q: Term) -> Poly:
        return score_covariance(self.moments, p, q)

    def variable(self, x: Term, y: Term) -> tuple[Named, Named, Named]:
        """Means of two vectors and their covariance, given the scores, over the letters of both."""
        over = tuple(dict.fromkeys((*x.free, *y.free)))
        mean_x, mean_y = (self.poly(self.moments.expect(t), t.free) for t in (x, y))
        second = self.poly(self.moments.expect(x, y), over)
        return mean_x, mean_y, combine(lambda e, m, n: e - m * n, second, mean_x, mean_y)

    def kernel_normals(self, leaf: Term, points: int) -> Normals:
        """Sobol normals for the coordinates of one leaf, shared by all runs of the block."""
        self.sampled = True
        place: dict[bytes, int] = {}
        dimensions = 0
        for pattern in generators_below(leaf.args):
            place[pattern.family.key] = dimensions
            dimensions += count(pattern.free)
        seed, replicate = self._kernels
        z = sobol_normals(dimensions, points, stream(seed, "kernel", leaf.family.order, replicate))
        return lambda term, n: z[place[term.family.key] : place[term.family.key] + n, None, :]
