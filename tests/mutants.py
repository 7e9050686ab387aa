"""Wrong limits that several files of tests must catch."""

from itertools import count

import pytest

from netsor.algebra import forms
from netsor.algebra.moments import Moments
from netsor.algebra.pivots import Pivots
from netsor.algebra.poly import Poly
from netsor.infinite.values import LimitValues
from netsor.ir import Term
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
