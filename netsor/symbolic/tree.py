"""Formulas as small trees; each printer walks the same tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, TypeAlias

from netsor.checks import Number
from netsor.ir import Plate
from netsor.ops import Fn

Kind = Literal["constant", "size", "sigma", "score", "limit", "vector", "matrix"]


@dataclass(frozen=True, slots=True)
class Num:
    value: Number


@dataclass(frozen=True, slots=True)
class Letter:
    name: str


@dataclass(frozen=True, slots=True)
class Sym:
    """A named quantity with indices. kind "score": p°, "limit": the limit of another scalar, "vector": Z^x."""

    name: str
    kind: Kind = "constant"
    indices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Kronecker:
    left: str
    right: str


@dataclass(frozen=True, slots=True)
class Relation:
    relation: str
    left: str
    right: str


@dataclass(frozen=True, slots=True)
class Mean:
    """E[product of factors], given the scores or not."""

    factors: tuple[Tree, ...]
    given: bool


@dataclass(frozen=True, slots=True)
class Product:
    matrix: Tree
    vector: Tree


@dataclass(frozen=True, slots=True)
class Power:
    base: Tree
    exponent: Fraction


@dataclass(frozen=True, slots=True)
class Times:
    factors: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Quotient:
    top: Tree
    bottom: Tree


@dataclass(frozen=True, slots=True)
class Plus:
    terms: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Sum:
    """The sum of the body over letters, each with the plate it runs over."""

    letters: tuple[tuple[str, Plate], ...]
    body: Tree


@dataclass(frozen=True, slots=True)
class Apply:
    fn: Fn
    args: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Reduce:
    """fn along a letter of the body, restricted by a mask; `at` is the entry kept (softmax), or None."""

    fn: Fn
    letter: tuple[str, Plate]
    body: Tree
    mask: Tree | None
    at: str | None


Tree: TypeAlias = (
    Num | Letter | Sym | Kronecker | Relation | Mean | Product | Power | Times | Quotient | Plus | Sum | Apply | Reduce
)


def power(base: Tree, exponent: Fraction) -> Tree:
    if isinstance(base, Power):
        return power(base.base, base.exponent * exponent)
    if isinstance(base, Num) and exponent.denominator == 1 and isinstance(base.value, int | Fraction) and base.value:
        value = Fraction(base.value) ** int(exponent)
        return Num(int(value) if value.denominator == 1 else value)
    if isinstance(base, Times) and exponent.denominator == 1:
        return times([power(f, exponent) for f in base.factors])
    return base if exponent == 1 else Power(base, exponent)


def times(factors: Sequence[Tree]) -> Tree:
    """A product, numbers and equal bases collected."""
    value: Number = 1
    exponents: dict[Tree, Fraction] = {}
    todo = list(factors)
    while todo:
        f = todo.pop(0)
        if isinstance(f, Times):
            todo = [*f.factors, *todo]
        elif isinstance(f, Num):
            value = value * f.value
        else:
            base, exponent = (f.base, f.exponent) if isinstance(f, Power) else (f, Fraction(1))
            exponents[base] = exponents.get(base, Fraction(0)) + exponent
    for base, e in list(exponents.items()):
        if isinstance(base, Num) and e.denominator == 1 and base.value and not isinstance(base.value, float):
            value = value * Fraction(base.value) ** int(exponents.pop(base))
    value = int(value) if isinstance(value, Fraction) and value.denominator == 1 else value
    kept = [b if e == 1 else Power(b, e) for b, e in exponents.items() if e]
    kept.sort(key=place)
    if not value:
        return Num(0)
    if value != 1 or not kept:
        kept.insert(0, Num(value))
    return kept[0] if len(kept) == 1 else Times(tuple(kept))


def collected(factors: Sequence[Tree]) -> tuple[Tree, ...]:
    """Factors of an expectation, equal ones as powers, in the order in which they come."""
    counts = {f: factors.count(f) for f in dict.fromkeys(factors)}
    return tuple(f if n == 1 else Power(f, Fraction(n)) for f, n in counts.items())


def place(factor: Tree) -> int:
    """Where a factor stands in a product: deltas, then sizes, then sigmas, then everything else as it comes."""
    base = factor.base if isinstance(factor, Power) else factor
    if isinstance(base, Kronecker | Relation):
        return 0
    return {"size": 1, "sigma": 2}.get(base.kind, 3) if isinstance(base, Sym) else 3


def plus(terms: Sequence[Tree]) -> Tree:
    flat: list[Tree] = []
    for t in terms:
        flat += t.terms if isinstance(t, Plus) else () if t == Num(0) else (t,)
    return Num(0) if not flat else flat[0] if len(flat) == 1 else Plus(tuple(flat))


def letters_in(tree: Tree) -> set[str]:
    """Letters that occur free in a tree."""
    match tree:
        case Sym(indices=indices):
            return set(indices)
        case Letter(name):
            return {name}
        case Kronecker(left, right) | Relation(_, left, right):
            return {left, right}
        case Mean(factors) | Times(factors):
            return set().union(*map(letters_in, factors))
        case Product(matrix, vector):
            return letters_in(matrix) | letters_in(vector)
        case Power(base):
            return letters_in(base)
        case Quotient(top, bottom):
            return letters_in(top) | letters_in(bottom)
        case Plus(terms):
            return set().union(*map(letters_in, terms))
        case Sum(letters, body):
            return letters_in(body) - {name for name, _ in letters}
        case Apply(_, args):
            return set().union(*map(letters_in, args))
        case Reduce(_, letter, body, mask, at):
            inner = letters_in(body) | (letters_in(mask) if mask is not None else set())
            return (inner - {letter[0]}) | ({at} if at is not None else set())
    return set()
