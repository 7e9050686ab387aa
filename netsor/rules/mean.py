"""Moment: the average over the coordinates of a vector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from netsor import semantics
from netsor.algebra.moments import Moments
from netsor.algebra.poly import Poly
from netsor.ir import Term, lift, make
from netsor.ops import Generator
from netsor.rules.need import vector_argument


@dataclass(frozen=True, slots=True)
class Mean(Generator):
    """theta = n^{-1} sum_alpha x_alpha. Limit: E[Z^x | scores], a number when no score is involved.

    Source: Yang 2020, Tensor Programs III (arXiv 2009.10685), Moment.
    """


def mean(x: Any) -> Term:
    """n^{-1} sum_alpha x_alpha over the width of x. The score under 1/n scaling is `mean(q * k)`."""
    x = vector_argument("mean(...)", lift(x))
    return make(Mean(), children=(x,))


@semantics.limit.register
def _(op: Mean, term: Term, at: Moments) -> Poly | None:
    return at.expect(term.args[0])


@semantics.draw.register
def _(op: Mean, term: Term, at: Any) -> Any:
    return at.average(term.args[0])
