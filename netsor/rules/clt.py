"""Clt: a vector summed over infinitely many independent members of a plate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from netsor import semantics
from netsor.algebra.moments import Moments, leaf_of
from netsor.algebra.poly import ZERO, Poly, scalar
from netsor.errors import IllFormed
from netsor.ir import Term, fresh_letters, make
from netsor.ops import Average, Generator, Typical
from netsor.rules.matmul import Record


@dataclass(frozen=True, slots=True)
class Clt(Generator, Typical):
    """lim H^{-1/2} Sum_a x[a] over members a that are independent given what they share, x[a] linear in the copy W[a].

    Limit: centred Gaussian, Cov(Z^y, Z^y') = E over the scores of one member of E[Z^x Z^x' | scores]; independent of the
    scores. Source: Hron et al. 2020 (arXiv 2006.10540), Theorem 3; docs/theory.md, Theorem 8.
    """

    matrix: Record

    @property
    def label(self) -> str:
        return repr(Clt(replace(self.matrix, token=b"")))


@semantics.source.register
def _(op: Clt) -> bytes | None:
    return b"clt" + op.matrix.token


@semantics.cumulant.register
def _(op: Clt, terms: tuple[Term, ...], at: Moments) -> Poly:
    if len(terms) != 2:
        return ZERO
    (letter,) = fresh_letters(terms[0].family.bound, [s for t in terms for s in t.slots])
    x, y = (child.at({bound: letter}) for t in terms for (bound,), (child,) in (t.open(),))
    given = at.expect(x, y)
    return scalar(make(Average(), children=(leaf_of([x, y]),), bound=(letter,))) if letter in given.free else given


@semantics.draw.register
def _(op: Clt, term: Term, at: Any) -> Any:
    raise infinite_at_finite_width(term)


def infinite_at_finite_width(term: Term) -> IllFormed:
    plate = term.family.bound[0].name
    return IllFormed(
        "NS304",
        statement=f"a simulation with infinitely many members of {plate}",
        hypothesis="a finite width has finitely many of everything",
        repair=f"simulate the program before the limit in {plate}: P.at({plate}=16)",
    )
