"""Polynomials in the atoms of a program: finite sums of  number * Sum_{bound letters} (scalars) * (vector atoms).

Scalars are scalar terms (scores, Moments, expectations, deltas); atoms are vector terms, Gaussian generators or nonlinear.
Kronecker deltas are eliminated here, by substitution, so that neither reader ever sums one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from netsor.checks import Number
from netsor.ir import Index, Member, Size, Slot, Term, fresh_letters, make
from netsor.ops import Compare, Const, Map, Op


@dataclass(frozen=True, slots=True)
class Delta(Op):
    """Kronecker's delta of two letters."""


@dataclass(frozen=True, slots=True)
class Expect(Op):
    """E[Z^x1 Z^x2 ... | scores]: a leaf that `Moments.define` unfolds by one step."""


@dataclass(frozen=True, slots=True)
class Covariance(Op):
    """Cov(Z^x, Z^y | scores), for numbers: a leaf that `Moments.define_covariance` unfolds by one step."""


@dataclass(frozen=True, slots=True)
class Mono:
    """number * Sum_{bound} scalars * atoms."""

    number: Number
    bound: tuple[Index, ...] = ()
    scalars: tuple[Term, ...] = ()
    atoms: tuple[Term, ...] = ()

    @property
    def letters(self) -> set[Slot]:
        return {s for t in (*self.scalars, *self.atoms) for s in t.slots}

    def at(self, to: Mapping[Slot, Slot]) -> Mono:
        """Free letters replaced; bound letters give way, so that none is captured."""
        moved = {to.get(s, s) for s in self.letters if s not in self.bound}
        apart = self.apart(moved)
        return apart.relabelled({s: t for s, t in to.items() if s not in apart.bound}, apart.bound)

    def apart(self, avoid: Iterable[Slot]) -> Mono:
        """The same with its bound letters named apart from `avoid`."""
        avoid = set(avoid)
        if not avoid.intersection(self.bound):
            return self
        new = fresh_letters([b.plate for b in self.bound], avoid | self.letters)
        return self.relabelled(dict(zip(self.bound, new, strict=True)), new)

    def relabelled(self, to: Mapping[Slot, Slot], bound: tuple[Index, ...]) -> Mono:
        return Mono(self.number, bound, tuple(s.at(to) for s in self.scalars), tuple(a.at(to) for a in self.atoms))

    def __mul__(self, other: Mono) -> Mono:
        left = self.apart(other.letters - set(other.bound))
        right = other.apart(left.letters | set(left.bound))
        return Mono(
            left.number * right.number,
            left.bound + right.bound,
            left.scalars + right.scalars,
            left.atoms + right.atoms,
        )


@dataclass(frozen=True, slots=True)
class Poly:
    """A sum of monomials; like terms are collected, so the empty sum is zero."""

    terms: tuple[Mono, ...] = ()

    def __iter__(self) -> Iterator[Mono]:
        return iter(self.terms)

    def __len__(self) -> int:
        return len(self.terms)

    def __add__(self, other: Poly) -> Poly:
        if not (self.terms and other.terms):
            return self if self.terms else other
        return total((*self.terms, *other.terms))

    def __mul__(self, other: Poly) -> Poly:
        return total(m for a in self for b in other if (m := simplify(a * b)) is not None)

    def scaled(self, factor: Number) -> Poly:
        return Poly(tuple(Mono(m.number * factor, m.bound, m.scalars, m.atoms) for m in self)) if factor else ZERO

    def at(self, to: Mapping[Slot, Slot]) -> Poly:
        return total(m for t in self if (m := simplify(t.at(to))) is not None)

    @property
    def free(self) -> set[Slot]:
        return {s for m in self for s in m.letters - set(m.bound)}


def constant(value: Number) -> Poly:
    return Poly((Mono(value),)) if value else ZERO


def scalar(term: Term) -> Poly:
    """A scalar term as a polynomial."""
    m = simplify(Mono(1, (), (term,)))
    return Poly(() if m is None else (m,))


def atom(term: Term) -> Poly:
    return Poly((Mono(1, (), (), (term,)),))


def delta(left: Slot, right: Slot) -> Term:
    return make(Delta(), own=(left, right))


def same(left: Iterable[Slot], right: Iterable[Slot]) -> Poly:
    """1 where the letters agree one by one, else 0."""
    m = simplify(Mono(1, (), tuple(delta(i, k) for i, k in zip(left, right, strict=True))))
    return Poly(() if m is None else (m,))


def bind(poly: Poly, bound: tuple[Index, ...]) -> Poly:
    """Sum_{bound} of a polynomial in which these letters stand free."""
    if not bound:
        return poly
    opened = (Mono(m.number, bound + m.bound, m.scalars, m.atoms) for m in poly)
    return total(x for m in opened if (x := simplify(m)) is not None)


def total(terms: Iterable[Mono]) -> Poly:
    """The sum of simplified monomials, like terms collected."""
    found: dict[Any, Mono] = {}
    for m in terms:
        key = normal(m)
        old = found.get(key)
        found[key] = m if old is None else Mono(old.number + m.number, old.bound, old.scalars, old.atoms)
    return Poly(tuple(m for m in found.values() if m.number))


def normal(m: Mono) -> tuple[Any, ...]:
    """A key that is equal for monomials that differ in their number, the names of bound letters and the order of factors."""
    names = names_by_place(m)

    def shown(t: Term) -> tuple[Any, ...]:
        slots = tuple(names.get(s) or str(s) for s in t.slots)
        return (t.family.order, t.family.key, tuple(sorted(slots)) if isinstance(t.op, Delta) else slots)

    plates = tuple(b.plate for b in sorted(m.bound, key=lambda b: names[b]))
    return tuple(sorted(map(shown, m.scalars))), tuple(sorted(map(shown, m.atoms))), plates


def names_by_place(m: Mono) -> dict[Slot, str]:
    """Names of the bound letters by where they stand: letters with one name are told apart by the names beside them, as often
    as that tells more apart, and then by taking one of those that are alike first.

    Source: Weisfeiler, Leman 1968 (the refinement).
    """
    names: dict[Slot, str] = dict.fromkeys(m.bound, "#")
    terms, apart = (*m.scalars, *m.atoms), len(m.bound[:1])
    while apart < len(m.bound):
        places: dict[Slot, list[tuple[Any, ...]]] = {b: [] for b in m.bound}
        for t in terms:
            slots = tuple(names.get(s) or str(s) for s in t.slots)
            for k, s in enumerate(t.slots):
                if s in places:
                    places[s].append((t.family.order, t.family.key, k, slots))
        keys = {b: (names[b], b.plate.name, sorted(places[b])) for b in m.bound}
        ranks: list[Any] = []
        for key in sorted(keys.values()):
            if not ranks or ranks[-1] != key:
                ranks.append(key)
        names = {b: f"#{ranks.index(key):03}" for b, key in keys.items()}
        if len(ranks) == apart:
            alike = list(names.values())
            first = next(b for b in m.bound if alike.count(names[b]) > 1)
            names[first] += "'"
            apart += 1
        else:
            apart = len(ranks)
    return names


def simplify(m: Mono) -> Mono | None:
    """The monomial without removable deltas, decided predicates, constants and free-standing sums; None for zero."""
    bound, scalars, atoms, number = list(m.bound), list(m.scalars), m.atoms, m.number
    kept: list[Term] = []
    while scalars:
        s = scalars.pop(0)
        if isinstance(s.op, Const):
            number = number * s.op.value
        elif isinstance(s.op, Compare) and (truth := decided(s.op.relation, *s.own)) is not None:
            if not truth:
                return None
        elif isinstance(s.op, Delta):
            left, right = s.own
            if left == right:
                continue
            if isinstance(left, Member) and isinstance(right, Member):
                return None
            if right in bound:
                left, right = right, left
            if isinstance(left, Index) and left in bound:
                bound.remove(left)
                to: dict[Slot, Slot] = {left: right}
                scalars = [t.at(to) for t in (*kept, *scalars)]
                atoms = tuple(a.at(to) for a in atoms)
                kept = []
            elif not any(isinstance(t.op, Delta) and set(t.own) == {left, right} for t in kept):
                kept.append(s)
        else:
            kept.append(s)
    if not number:
        return None
    deltas = [{*t.own} for t in kept if isinstance(t.op, Delta)]
    if any(isinstance(t.op, Compare) and t.op.relation in ("!=", "<") and {*t.own} in deltas for t in kept):
        return None
    used = {s for t in (*kept, *atoms) for s in t.slots}
    for b in [b for b in bound if b not in used]:
        bound.remove(b)
        kept.append(make(Size(b.plate)))
    return Mono(number, tuple(bound), tuple(kept), atoms)


def decided(relation: str, left: Slot, right: Slot) -> bool | None:
    """The truth of a relation that the letters alone decide."""
    if left == right:
        return relation == "<="
    if isinstance(left, Member) and isinstance(right, Member):
        return {"!=": True, "<": left.at < right.at, "<=": left.at <= right.at}[relation]
    return None


def is_map(term: Term, *names: str) -> bool:
    return isinstance(term.op, Map) and term.op.fn.name in names


ZERO, ONE = Poly(), Poly((Mono(1),))
