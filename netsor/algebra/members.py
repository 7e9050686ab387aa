"""Averages over the members of a plate that are independent given what they share."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from netsor.algebra.diagonal import diagonal
from netsor.algebra.moments import Moments
from netsor.algebra.pivots import is_score
from netsor.algebra.poly import Mono, Poly, is_map
from netsor.algebra.scores import score_covariance
from netsor.ir import Index, Plate, Size, Term
from netsor.ops import Compare, Const, Offset, Table, Typical


def size_power(factor: Term, plate: str) -> tuple[Fraction, bool]:
    """(exponent, is that all) of factor = size^exponent * rest."""
    if isinstance(factor.op, Size):
        return (Fraction(1), True) if factor.op.plate.name == plate else (Fraction(0), False)
    if is_map(factor, "mul", "div"):
        (e, a), (f, b) = (size_power(x, plate) for x in factor.args)
        return (e + f if is_map(factor, "mul") else e - f), a and b
    if is_map(factor, "sqrt"):
        e, whole = size_power(factor.args[0], plate)
        return e / 2, whole
    return Fraction(0), isinstance(factor.op, Const) and factor.op.value == 1


@dataclass(frozen=True, slots=True)
class Split:
    """V = shared + H^{-1} Sum_a V_a with V_a independent and of one law: E V^2 = (E V)^2 + Var(V_a) / H."""

    plate: Plate
    letter: Index
    shared: Poly
    member: Poly


def split(moments: Moments, variance: Poly) -> Split | None:
    """A conditional variance as an average over one plate, or None if it is not one."""
    for plate in dict.fromkeys(b.plate for m in variance for b in m.bound):
        averaged: list[Mono] = []
        rest: list[Mono] = []
        for m in variance:
            (averaged if is_average(m, plate) else rest).append(m)
        if averaged and not any(moments.scored(s) for m in rest for s in m.scalars):
            letter = next(b for b in averaged[0].bound if b.plate == plate)
            members = [member(m, plate, letter) for m in averaged]
            if all(independent(moments, list(m.scalars), letter) for m in members):
                return Split(plate, letter, Poly(tuple(rest)), Poly(tuple(members)))
    return None


def is_average(m: Mono, plate: Plate) -> bool:
    powers = [size_power(s, plate.name) for s in m.scalars]
    return sum(b.plate == plate for b in m.bound) == 1 and sum(e for e, _ in powers) == -1 and all(w for e, w in powers if e)


def member(m: Mono, plate: Plate, letter: Index) -> Mono:
    """The summand of one member."""
    own = next(b for b in m.bound if b.plate == plate)
    scalars = tuple(s for s in m.scalars if not size_power(s, plate.name)[0])
    return Mono(m.number, m.bound, scalars).relabelled({own: letter}, tuple(b for b in m.bound if b != own))


def independent(moments: Moments, scalars: list[Term], letter: Index) -> bool:
    """Are the members of one law, and independent, given what they share (but for infinite plates)?

    What tells them apart by more than a copy of their own (a table, a mask, a covariance over members) spoils the first;
    a score that they share, or scores that are correlated between members, the second.
    """
    scores: list[Term] = []
    todo, seen = list(scalars), set()
    while todo:
        t = todo.pop()
        if t in seen:
            continue
        seen.add(t)
        correlated = isinstance(getattr(t.op, "cov", None), tuple)
        if letter in t.own and (correlated or isinstance(t.op, Table | Compare | Offset)):
            return False
        if is_score(t):
            scores.append(t)
        todo += [] if isinstance(t.op, Typical) else t.args
    primed = [q.at({i: i.prime for i in q.free}) for q in scores]
    return all(diagonal(moments, score_covariance(moments, p, q), letter) for p in scores for q in primed)
