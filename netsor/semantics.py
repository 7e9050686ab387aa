"""The questions that an interpreter asks of a rule. Each rule answers them beside its class, in netsor/rules/.

source      which randomness a vector generator draws from
cumulant    the joint cumulant of generators of one source, given the scores
limit       the almost sure limit of a scalar generator, given the scores (None: it stays random)
pivot       the letters that tell its independent copies apart, and the vector it acts on
draw        the value at finite width
bound       the same operation with parameters bound by name
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import singledispatch
from typing import TYPE_CHECKING, Any

from netsor.checks import Number
from netsor.ir import Slot, Term
from netsor.ops import Op, Param

if TYPE_CHECKING:
    from netsor.algebra.moments import Moments
    from netsor.algebra.poly import Poly


@dataclass(frozen=True, slots=True)
class Pivot:
    """A Gaussian family of independent copies, told apart by `letters` (None: all copies depend on each other), acting
    on `arg` (None: an initial vector)."""

    source: bytes
    letters: tuple[Slot | None, ...]
    arg: Term | None


@singledispatch
def source(op: Op) -> bytes | None:
    """The token of the randomness that this operation makes; None for everything that makes none of its own."""
    return None


@singledispatch
def cumulant(op: Op, terms: tuple[Term, ...], at: Moments) -> Poly:
    """The joint cumulant, given the scores, of one coordinate of generators that share the source of `op`."""
    raise NotImplementedError(op)


@singledispatch
def limit(op: Op, term: Term, at: Moments) -> Poly | None:
    """The almost sure limit of a scalar generator given the scores; None when it stays random."""
    return None


@singledispatch
def pivot(op: Op, term: Term) -> Pivot | None:
    """What the term offers as the pivot of a score; None when it offers nothing."""
    return None


@singledispatch
def draw(op: Op, term: Term, at: Any) -> Any:
    """The value at finite width, by the finite interpreter `at`."""
    raise NotImplementedError(op)


@singledispatch
def bound(op: Op, values: Mapping[str, Number]) -> Op:
    """The operation with the parameters of that name bound."""
    return op


@bound.register
def _(op: Param, values: Mapping[str, Number]) -> Op:
    return Param(op.name, values[op.name]) if op.value is None and op.name in values else op
