"""Exact moments at width n, as rational functions of n, of scalars that are polynomials in Gaussian matrices and vectors.

A monomial is a product of inner products. Wick's rule (Isserlis 1918) for one matrix W, independent of all it meets:

    E (W u)_a (W v)_b = δ_ab σ² N^{-1} <u, v>            N columns
    E x_a y_b = δ_ab Cov(x, y)                           initial vectors

A pairing of W u in <W u, r> with W v in <W v, s> joins the rests to <r, s>; within one product <W u, W v> it closes a
loop, which is worth the number of rows. Matrices go from the last to the first, initial vectors at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import sympy as sp

from netsor import semantics
from netsor.errors import IllFormed
from netsor.ir import Member, Size, Slot, Term, Width, postorder
from netsor.ops import Along, Compare, Const, Map, Param, Table
from netsor.rules.dot import Dot
from netsor.rules.input import Input
from netsor.rules.matmul import MatMul
from netsor.rules.mean import Mean
from netsor.symbolic.sympy_form import number

Vector = Term | None  # None: the vector of ones
Pair = tuple[Vector, Vector]


@dataclass(frozen=True)
class Mono:
    """number * inner products * coordinatewise product of vectors (for a vector: one, or none for the vector of ones)."""

    number: Any
    pairs: tuple[tuple[Pair, Width], ...] = ()
    atoms: tuple[Term, ...] = ()

    def __mul__(self, other: Mono) -> Mono:
        return Mono(self.number * other.number, self.pairs + other.pairs, self.atoms + other.atoms)


def finite_moment(term: Term, power: int = 1) -> Any:
    """E term^power at width n, exactly: an expression of sympy in n, the name of the width.

    term: a scalar without free indices, made from initial vectors, matrices, sums, products with scalars, `dot` and
    `mean`: `finite_moment(P["p"][0, 0, 0], 4)`.
    Raises: NS309 for a nonlinearity, a law that is not centred Gaussian, or a matrix that acts on what it made; NS302 for
    free indices or a vector; NS304 for a size or parameter that is not bound.
    """
    if term.free or term.width is not None:
        raise IllFormed(
            "NS302",
            statement=f"finite_moment of a {'vector' if term.width is not None else 'family'}",
            hypothesis="a moment is that of one number",
            repair="name a member of each index, P['p'][0, 0, 0]; of a coordinate of y take mean(y * y)",
        )
    if isinstance(power, bool) or not isinstance(power, int) or power < 0:
        raise IllFormed("NS306", statement=f"power = {power!r}", repair="a power is an integer >= 0")
    wick = Wick()
    factors = wick.expand(term)
    total = sp.Integer(0)
    for chosen in product(factors, repeat=power):
        mono = Mono(sp.Integer(1))
        for m in chosen:
            mono = mono * m
        total += mono.number * wick.expectation(mono.pairs)
    return sp.factor(sp.expand(total))


@dataclass
class Wick:
    """Expectations of products of inner products; known ones are kept."""

    known: dict[Any, Any] = field(default_factory=dict)
    sources: dict[bytes, frozenset[bytes]] = field(default_factory=dict)

    # ---- terms as polynomials

    def expand(self, term: Term) -> list[Mono]:
        op = term.op
        if isinstance(op, Dot | Mean):
            return list(self.averages(term))
        if isinstance(op, Input) and (op.law is not None or isinstance(op.mean, Param) or op.mean != 0):
            raise no_rule(f"vector {op.name}", "not centred Gaussian")
        if isinstance(op, MatMul | Input):
            return [Mono(sp.Integer(1), (), (term,))]
        if isinstance(op, Along) and op.fn.name == "sum":
            return [m for args in members(term) for m in times(*map(self.expand, args))]
        if isinstance(op, Map):
            args = [self.expand(a) for a in term.args]
            if op.fn.name == "add":
                return args[0] + args[1]
            if op.fn.name == "sub":
                return args[0] + [Mono(-m.number, m.pairs, m.atoms) for m in args[1]]
            if op.fn.name == "mul":
                return times(*args)
            if op.fn.name == "div" and numeric(args[1]):
                return times(args[0], [Mono(1 / total(args[1]))])
            if op.fn.name == "pow" and numeric(args[1]) and not numeric(args[0]):
                exponent = total(args[1])
                if exponent.is_Integer and exponent > 0:
                    return times(*[args[0]] * int(exponent))
            if all(map(numeric, args)) and op.fn.sympy is not None:
                return [Mono(op.fn.sympy(sp, *map(total, args)))]
        value = constant(term)
        if value is None:
            raise no_rule(f"{op.fn.name}(...)" if isinstance(op, Map | Along) else type(op).__name__, "no polynomial")
        return [Mono(value)]

    def averages(self, term: Term) -> Iterator[Mono]:
        """n^{-1/2} <g, h> or n^{-1} <x, 1>."""
        root = isinstance(term.op, Dot)
        vectors = term.args[:2] if root else term.args
        width = next(v.width for v in vectors if v.width is not None)
        scale = dimension(width) ** (-sp.Rational(1, 2) if root else -1)
        for m in times(*map(self.expand, vectors)):
            if len(m.atoms) > 2:
                raise no_rule("a product of three vectors", "no inner product of two")
            one, two = (*m.atoms, None, None)[:2]
            yield Mono(m.number * scale, (*m.pairs, ((one, two), width)))

    # ---- expectations

    def expectation(self, pairs: tuple[tuple[Pair, Width], ...]) -> Any:
        key = tuple(sorted((tuple(sorted(map(name_of, p))), str(w), w.ratio) for p, w in pairs))
        if key not in self.known:
            self.known[key] = sp.expand(self.contract(pairs))
        return self.known[key]

    def contract(self, pairs: tuple[tuple[Pair, Width], ...]) -> Any:
        """Wick's rule for the first vector of a source that no other vector is made from."""
        places = [(k, side, v) for k, (pair, _) in enumerate(pairs) for side, v in enumerate(pair) if v is not None]
        if not places:
            return sp.Mul(*(dimension(w) for _, w in pairs))
        k, side, first = self.last(places)
        rest, width = pairs[k][0][1 - side], pairs[k][1]
        source = semantics.source(first.op)
        out = sp.Integer(0)
        for other, at, v in places:
            if (other, at) == (k, side) or semantics.source(v.op) != source:
                continue
            kept = tuple(p for j, p in enumerate(pairs) if j not in (k, other))
            if other == k:
                joined, factor = kept, dimension(width)
            else:
                joined, factor = (*kept, ((rest, pairs[other][0][1 - at]), width)), sp.Integer(1)
            for m in self.second(first, v):
                out += factor * m.number * self.expectation(joined + m.pairs)
        return out

    def last(self, places: list[tuple[int, int, Term]]) -> tuple[int, int, Term]:
        below = frozenset().union(*(self.below(v) for _, _, v in places))
        for place in places:
            if semantics.source(place[2].op) not in below:
                return place
        raise no_rule("a matrix that acts on what it made", "not independent of what it meets")

    def below(self, v: Term) -> frozenset[bytes]:
        """Sources of what a vector is made from."""
        if v.family.key not in self.sources:
            found = (semantics.source(f.op) for a in v.args for f in postorder(a))
            self.sources[v.family.key] = frozenset(s for s in found if s is not None)
        return self.sources[v.family.key]

    def second(self, x: Term, y: Term) -> list[Mono]:
        """Covariance of a coordinate of two vectors of one source, given all that they are made from."""
        op = x.op
        if isinstance(op, MatMul):
            if x.own != y.own:
                return []
            sigma = op.matrix.sigma
            value = number(sigma.value if isinstance(sigma, Param) else sigma) if not unbound(sigma) else None
            if value is None:
                raise unbound_error(f"sigma of matrix {op.matrix.name}")
            columns = op.matrix.columns
            out = []
            for m in times(self.expand(x.args[0]), self.expand(y.args[0])):
                left, right = split(m)
                out.append(Mono(m.number * value**2 / dimension(columns), (*m.pairs, ((left, right), columns))))
            return out
        assert isinstance(op, Input)
        if isinstance(op.cov, tuple):
            entry: Any = op.cov
            for s in (*x.own, *y.own):
                assert isinstance(s, Member)
                entry = entry[s.at]
            return [Mono(number(entry))] if entry else []
        if not isinstance(op.cov, int | float | sp.Basic) and not hasattr(op.cov, "numerator"):
            raise unbound_error(f"the covariance of vector {op.name}")
        return [Mono(number(op.cov))] if x.own == y.own else []


def split(m: Mono) -> Pair:
    """The vectors of a product of two expansions."""
    if len(m.atoms) > 2:
        raise no_rule("a matrix times a product of vectors", "no inner product of two")
    one, two = (*m.atoms, None, None)[:2]
    return one, two


def times(*factors: list[Mono]) -> list[Mono]:
    out = [Mono(sp.Integer(1))]
    for f in factors:
        out = [a * b for a in out for b in f]
    return out


def numeric(monos: list[Mono]) -> bool:
    return not any(m.pairs or m.atoms for m in monos)


def total(monos: list[Mono]) -> Any:
    return sp.Add(*(m.number for m in monos))


def members(term: Term) -> Iterator[tuple[Term, ...]]:
    """The arguments of a sum along a plate, member by member."""
    (letter,), args = term.open()
    if letter.plate.extent is None or letter.plate.infinite:
        raise unbound_error(f"the size of plate {letter.plate.name}")
    for k in range(letter.plate.extent):
        to: dict[Slot, Slot] = {letter: Member(letter.plate, k)}
        yield tuple(a.at(to) for a in args)


def constant(term: Term) -> Any:
    """The value of a scalar that is no random number, None for another term."""
    op = term.op
    if isinstance(op, Const):
        return number(op.value)
    if isinstance(op, Param | Size | Table):
        value: Any = op.plate.extent if isinstance(op, Size) else op.value if isinstance(op, Param) else op.values
        if value is None:
            raise unbound_error(op.plate.name if isinstance(op, Size) else op.name)
        for s in term.own if isinstance(op, Table) else ():
            assert isinstance(s, Member)
            value = value[s.at]
        return number(value)
    if isinstance(op, Compare):
        i, j = (s.at for s in term.own if isinstance(s, Member))
        return sp.Integer(int({"!=": i != j, "<": i < j, "<=": i <= j}[op.relation]))
    return None


def unbound(value: Any) -> bool:
    return isinstance(value, Param) and value.value is None


def dimension(width: Width) -> Any:
    return number(width.ratio) * sp.Symbol(width.name, integer=True, positive=True)


def name_of(v: Vector) -> tuple[bytes, tuple[int, ...]]:
    return (b"", ()) if v is None else (v.family.key, tuple(s.at for s in v.slots if isinstance(s, Member)))


def unbound_error(what: str) -> IllFormed:
    return IllFormed("NS304", statement=f"finite_moment: {what}", hypothesis="it has no value yet", repair="P.at(name=value)")


def no_rule(what: str, why: str) -> IllFormed:
    return IllFormed(
        "NS309",
        statement=f"finite_moment with {what}",
        hypothesis=f"Wick's rule needs polynomials in Gaussian matrices and vectors; this is {why}",
        repair="estimate the moment from simulate(...)",
    )
