"""Wrong limits that several files of tests must catch."""

from itertools import count
from typing import Any

import numpy as np
import pytest

from netsor import limit
from netsor.algebra import forms
from netsor.algebra.moments import Moments
from netsor.algebra.pivots import Pivots
from netsor.algebra.poly import Mono, Poly
from netsor.infinite import coordinates
from netsor.infinite.forms import Form
from netsor.infinite.values import LimitValues
from netsor.ir import Term
from netsor.numeric.demand import instance
from netsor.numeric.named import Named


def pivots_score_by_score(patch: pytest.MonkeyPatch) -> None:
    """Every other score takes its first matrix as the pivot where the others take their last."""
    calls, right = count(), forms.white_form

    def white_form(moments: Moments, pivots: Pivots, score: Term, rank: dict[bytes, int]) -> Poly | None:
        sign = (-1) ** next(calls)
        return right(moments, pivots, score, {source: sign * r for source, r in rank.items()})

    patch.setattr(forms, "white_form", white_form)


def scores_of_twice_the_size(patch: pytest.MonkeyPatch) -> None:
    """Every score doubled."""
    right = LimitValues.masked

    def masked(self: LimitValues, score: Term, value: Named) -> Named:
        value = right(self, score, value)
        return Named(value.over, 2 * value.data)

    patch.setattr(LimitValues, "masked", masked)


def scores_of_a_tenth_more_variance(patch: pytest.MonkeyPatch) -> None:
    """In draws only."""
    right = LimitValues.masked

    def masked(self: LimitValues, score: Term, value: Named) -> Named:
        value = right(self, score, value)
        return Named(value.over, np.sqrt(1.1) * value.data)

    patch.setattr(LimitValues, "masked", masked)


def printed_covariance_of_a_tenth_more(patch: pytest.MonkeyPatch) -> None:
    """In the derived covariance of scores only."""
    right = limit.score_covariance
    patch.setattr(limit, "score_covariance", lambda *args: right(*args).scaled(1.1))


def first_pairing_only(patch: pytest.MonkeyPatch) -> None:
    """The covariance of two scores as E[a a'] E[b b'], without the second pairing E[a b'] E[b a']."""

    def score_covariance(moments: Moments, p: Term, q: Term) -> Poly:
        (a, b, *_), (c, d, *_) = p.args, q.args
        return moments.expect(a, c) * moments.expect(b, d)

    patch.setattr(limit, "score_covariance", score_covariance)
    patch.setattr(LimitValues, "score_covariance", lambda self, p, q: score_covariance(self.moments, p, q))


def stages_independent(patch: pytest.MonkeyPatch) -> None:
    """Scores of two layers that share their matrices drawn from noise of their own."""

    def white(self: LimitValues, form: Term) -> Named:
        pattern = self.plan.whites[form.family.key]
        if form.family.key not in self._whites:
            plates = [i.plate for i in forms.copies_of(pattern)]
            mine = len(self._whites)

            def normals(key: Any, k: int) -> np.ndarray:
                right = self._normals(key, k)
                return np.random.default_rng([mine, int(abs(right.flat[0]) * 1e9)]).standard_normal(right.shape)

            noise = Form(self, pattern.op.source, pattern.op.name, plates, normals)
            self._whites[form.family.key] = noise(pattern)
        return self._whites[form.family.key].relabel(instance(pattern, form))

    patch.setattr(LimitValues, "white", white)


def heads_share_their_matrices(patch: pytest.MonkeyPatch) -> None:
    """MatMul without the Kronecker delta between copies of a matrix."""
    patch.setattr("netsor.rules.matmul.same", lambda left, right: Poly((Mono(1),)))


def output_gaussian(patch: pytest.MonkeyPatch) -> None:
    """MatMul outputs with the average of the conditional covariance, as if they were Gaussian and independent of the scores."""
    right = coordinates.draw_jointly

    def averaged(at: LimitValues, *args: Any) -> list[Named]:
        return right(Averaged(at), *args)

    class Averaged:
        def __init__(self, at: LimitValues) -> None:
            self.at, self.slack = at, at.slack

        def poly(self, *args: Any) -> Named:
            value = self.at.poly(*args)
            return Named(value.over, value.data.mean(-2, keepdims=True))

        def value(self, term: Term) -> Named:
            value = self.at.value(term)
            return Named(value.over, value.data.mean(-2, keepdims=True))

    patch.setattr(coordinates, "draw_jointly", averaged)


def every_score_is_legal(patch: pytest.MonkeyPatch) -> None:
    """The naive variance E[(Z^a Z^b)^2], whatever fluctuates below."""
    patch.setattr(Pivots, "violations", lambda self, use: [])
