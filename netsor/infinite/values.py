"""One block of runs of the limit: scores drawn, everything else computed given them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from netsor import semantics
from netsor.algebra.forms import White, copies_of
from netsor.algebra.moments import Moments
from netsor.algebra.pivots import is_score
from netsor.algebra.poly import Covariance, Expect, Poly
from netsor.algebra.scores import score_covariance
from netsor.infinite.covariances import covariance
from netsor.infinite.forms import Form
from netsor.infinite.kernels import POINTS, kernel
from netsor.infinite.plan import ScorePlan, generators_below
from netsor.ir import Term
from netsor.numeric.demand import instance
from netsor.numeric.interpreter import Interpreter
from netsor.numeric.joint import Normals, draw_given
from netsor.numeric.linear import sobol_normals
from netsor.numeric.named import Named, combine, count
from netsor.numeric.routes import Routes
from netsor.numeric.streams import stream
from netsor.ops import Average, Generator
from netsor.walks import below


class LimitValues(Interpreter):
    """Scalars of the limit over (letters, runs). `plan`: scores to draw; `level`: resolution of the quadratures."""

    def __init__(
        self,
        moments: Moments,
        plan: ScorePlan,
        normals: Normals,
        level: int,
        kernels: tuple[np.random.SeedSequence, int],
    ) -> None:
        super().__init__()
        self.moments, self.plan, self.level = moments, plan, level
        self.routes = Routes(level)
        self.errors: dict[bytes, Named] = {}  # of the closed forms and the quadratures, by leaf
        self.found: dict[Term, tuple[Named, Named]] = {}  # values and errors of leaves
        self.finer: LimitValues | None = None  # the same at a finer level, if its errors are to be shown
        self.sampled = False  # did a quasi-Monte Carlo kernel contribute?
        self._kernels, self._normals = kernels, normals
        self._todo = [list(stage) for stage in plan.stages]
        self._scores: dict[bytes, tuple[Term, Named]] = {}
        self._forms: dict[bytes, Form] = {}
        self._whites: dict[bytes, Named] = {}

    @property
    def integrated(self) -> bool:
        """Did a quadrature contribute?"""
        return any(route != "closed" and route != "sampled" for route in self.routes.taken)

    @property
    def slack(self) -> float:
        """How far covariances may be from positive semidefinite, as part of their trace: entries come from Sobol points."""
        return float(POINTS[self.level] ** -0.5) if self.sampled else 0.0

    def _value(self, term: Term) -> Named:
        if isinstance(term.op, Expect):
            defined = self.moments.define(term)
            if defined is None:
                return self.checked(term, kernel(self, term))
            if len(term.args) == 2 and any(map(self.moments.shifted, term.args)) and all(map(self.moments.expect, term.args)):
                return combine(lambda m, n, c: c + m * n, *self.variable(*term.args))  # of constants no squares cancel
            return self.poly(defined, term.free)
        if isinstance(term.op, Covariance):
            return covariance(self, term)
        if isinstance(term.op, White):
            return self.white(term)
        if isinstance(term.op, Average):
            (inner,) = below(term)
            value = self.value(inner)
            return Named(value.over, value.data.mean(-2, keepdims=True))
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
            self.draw_stage(self._todo.pop(0))
        pattern, value = self._scores[term.family.key]
        return value.relabel(instance(pattern, term))

    def draw_stage(self, stage: Sequence[Term]) -> None:
        """All scores of a stage: by white forms where the pivots can be ordered, else by regression on earlier scores."""
        if self.plan.forms is not None:
            values = [self.poly(self.plan.forms[p.family.key], p.free) for p in stage]
        else:
            earlier = list(self._scores.values())
            values = draw_given(self, self.moments, stage, earlier, self.score_covariance, self._normals)
        for pattern, value in zip(stage, values, strict=True):
            self._scores[pattern.family.key] = (pattern, self.masked(pattern, value))

    def white(self, form: Term) -> Named:
        """The value of a white form, drawn as its most general instance."""
        pattern = self.plan.whites[form.family.key]
        if form.family.key not in self._whites:
            assert isinstance(pattern.op, White)
            plates = [i.plate for i in copies_of(pattern)]
            noise = self._forms.setdefault(
                pattern.op.source, Form(self, pattern.op.source, pattern.op.name, plates, self._normals)
            )
            self._whites[form.family.key] = noise(pattern)
        return self._whites[form.family.key].relabel(instance(pattern, form))

    def masked(self, score: Term, value: Named) -> Named:
        """Entries outside a score's own mask do not exist; they are stored as 0."""
        if len(score.args) < 3:
            return value
        return combine(lambda v, on: np.where(on > 0, v, 0.0), value, self.value(score.args[2]))

    def score_covariance(self, p: Term, q: Term) -> Poly:
        return score_covariance(self.moments, p, q)

    def variable(self, x: Term, y: Term) -> tuple[Named, Named, Named]:
        """Means of two vectors and their covariance, given the scores, over the letters of both."""
        over = tuple(dict.fromkeys((*x.free, *y.free)))
        mean_x, mean_y = (self.poly(self.moments.expect(t), t.free) for t in (x, y))
        return mean_x, mean_y, self.poly(self.moments.covariance(x, y), over)

    def kernel_normals(self, leaf: Term, points: int) -> Normals:
        """Sobol normals for the coordinates of one leaf, shared by all runs of the block."""
        self.sampled = True
        place: dict[Hashable, int] = {}
        dimensions = 0
        for pattern in generators_below(leaf.args):
            place[pattern.family.order] = dimensions
            dimensions += count(pattern.free)
        seed, replicate = self._kernels
        z = sobol_normals(dimensions, points, stream(seed, "kernel", leaf.family.order, replicate))
        return lambda key, n: z[place[key] : place[key] + n, None, :]
