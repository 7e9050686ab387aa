"""Polynomials against their value at every choice of members: no step changes it, and like terms are one term."""

from collections.abc import Iterator
from functools import cache
from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from netsor import Plate, vector
from netsor.algebra.poly import (
    ONE,
    ZERO,
    Delta,
    Mono,
    Poly,
    atom,
    bind,
    constant,
    decided,
    delta,
    is_map,
    same,
    scalar,
    simplify,
    total,
)
from netsor.binding import table
from netsor.ir import Index, Member, Size, Slot, Term, distinct, lift
from netsor.ops import Compare, Const

TOKEN, PAIR = Plate("token", 3), Plate("pair", 2)
i, j, k = TOKEN.indices("i j k")
a, b = PAIR.indices("a b")
LETTERS = (i, j, k, a, b)
T0, T1, P1 = Member(TOKEN, 0), Member(TOKEN, 1), Member(PAIR, 1)

tokens: st.SearchStrategy[Slot] = st.sampled_from([i, j, k, T0, T1])
pairs: st.SearchStrategy[Slot] = st.sampled_from([a, b, P1])
S, C, X, Y = table("s", i), table("c", i, a), vector("x", i), vector("y", i, a)
scalars = st.one_of(
    st.tuples(tokens, tokens).map(lambda s: delta(*s)),
    st.tuples(pairs, pairs).map(lambda s: delta(*s)),
    st.tuples(st.sampled_from(["!=", "<", "<="]), tokens, tokens).map(lambda x: compared(*x)),
    tokens.map(lambda s: S.at({i: s})),
    st.tuples(tokens, pairs).map(lambda s: C.at({i: s[0], a: s[1]})),
    st.sampled_from([lift(2), lift(0), TOKEN.size]),
)
atoms = st.one_of(tokens.map(lambda s: X.at({i: s})), st.tuples(tokens, pairs).map(lambda s: Y.at({i: s[0], a: s[1]})))
letters = st.lists(st.sampled_from(LETTERS), max_size=2, unique=True).map(tuple)
monos = st.builds(
    Mono,
    st.sampled_from([1, -1, 2, 0]),
    letters,
    st.lists(scalars, max_size=4).map(tuple),
    st.lists(atoms, max_size=2).map(tuple),
)
polys = st.lists(monos, max_size=3).map(lambda ms: total(m for x in ms if (m := simplify(x)) is not None))


def compared(relation: str, left: Slot, right: Slot) -> Term:
    return (
        distinct(i, j).at({i: left, j: right})
        if relation == "!="
        else (i < j if relation == "<" else i <= j).at({i: left, j: right})
    )


def number(t: Term, at: dict[Slot, int]) -> int:
    """The value of a factor: what is a variable has any value of its own at each choice of members. Exact: an integer."""
    place = [s.at if isinstance(s, Member) else at[s] for s in t.own]
    if isinstance(t.op, Delta):
        return int(place[0] == place[1])
    if isinstance(t.op, Compare):
        return int({"!=": place[0] != place[1], "<": place[0] < place[1], "<=": place[0] <= place[1]}[t.op.relation])
    if isinstance(t.op, Size):
        return int(t.op.plate.extent or 0)
    if isinstance(t.op, Const):
        return int(t.op.value)
    return drawn(t.family.order, *place)


@cache
def drawn(order: bytes, *place: int) -> int:
    return int(np.random.default_rng([*order, *place]).integers(1, 50))


def value(p: Poly | Mono, at: dict[Slot, int]) -> int:
    if isinstance(p, Poly):
        return sum(value(m, at) for m in p)
    inner = [
        {**at, **dict(zip(p.bound, members, strict=True))}
        for members in product(*(range(b.plate.extent or 0) for b in p.bound))
    ]
    return sum(int(p.number) * prod(number(t, x) for t in (*p.scalars, *p.atoms)) for x in inner)


def everywhere(slots: tuple[Index, ...] = LETTERS) -> Iterator[dict[Slot, int]]:
    for members in product(*(range(s.plate.extent or 0) for s in slots)):
        yield dict(zip(slots, members, strict=True))


SOME = list(everywhere())[::11]


def check_simplify(m: Mono, places: list[dict[Slot, int]]) -> None:
    """The value stays; no delta of a bound letter, no constant, no unused bound letter, and no delta twice is left."""
    found = simplify(m)
    for at in places:
        assert (0 if found is None else value(found, at)) == value(m, at)
    if found is not None:
        deltas = [frozenset(t.own) for t in found.scalars if isinstance(t.op, Delta)]
        assert len(set(deltas)) == len(deltas)
        assert not any(d & set(found.bound) or len(d) < 2 or all(isinstance(s, Member) for s in d) for d in deltas)
        assert not any(isinstance(t.op, Const) for t in found.scalars)
        assert not any(isinstance(t.op, Compare) and decided(t.op.relation, *t.own) is not None for t in found.scalars)
        assert not any(
            isinstance(t.op, Compare) and t.op.relation != "<=" and frozenset(t.own) in deltas for t in found.scalars
        )
        assert set(found.bound) <= found.letters


@given(monos)
def test_simplify(m: Mono) -> None:
    check_simplify(m, SOME)


DELTAS = [delta(i, j), delta(j, i), delta(j, k), delta(i, T0), delta(T1, i), delta(T0, T1), delta(i, i)]
COMPARED = [distinct(i, j), i < j, j < i, i <= j, i < T1, T0 <= T1]


@pytest.mark.parametrize("bound", [(), (i,), (i, j), (j, k)])
def test_pairs_of_factors(bound: tuple[Index, ...]) -> None:
    places = [{**dict.fromkeys(LETTERS, 0), **at} for at in everywhere((i, j, k))][::5]
    for first, second in product([*DELTAS, *COMPARED, S], repeat=2):
        check_simplify(Mono(2, bound, (first, second), (X,)), places)


SHIFTED = Poly((Mono(1, (i,), (S,), (X,)),))
PAIRED = Poly((Mono(1, (a,), (), (Y.at({i: j}),)),))
CHAIN = Poly((Mono(1, (i, j, k), (S, delta(i, T0)), (Y, Y.at({i: j}), Y.at({i: k}), X.at({i: k}))),))


@pytest.mark.parametrize("other", [PAIRED, CHAIN])
@pytest.mark.parametrize(
    "alike",
    [
        SHIFTED,
        Poly((Mono(1, (i,), (S,)),)),
        Poly(
            (
                Mono(
                    1,
                    (i, j),
                    (S, C.at({i: j})),
                ),
            )
        ),
    ],
)
def test_products_of_sums_over_letters_that_are_alike(alike: Poly, other: Poly) -> None:
    """Sum_i S[i] Sum_j S[j] X[j] in either order, and sums over two plates: one key, so that they cancel."""
    one, two = Poly((Mono(1, (i,), (S,)),)), other
    for x, y in product([one, two, alike], repeat=2):
        assert not x * y + (y * x).scaled(-1)
        assert not x * y * two + (two * x * y).scaled(-1)


@given(polys, polys)
def test_sums_and_products(p: Poly, q: Poly) -> None:
    for at in SOME:
        assert value(p + q, at) == value(p, at) + value(q, at)
        assert value(p * q, at) == value(p, at) * value(q, at)
        assert value(p.scaled(3), at) == 3 * value(p, at)
    assert not p + p.scaled(-1)
    assert not (p + q) + q.scaled(-1) + p.scaled(-1)
    assert not p * q + (q * p).scaled(-1)
    assert not p.scaled(0)
    assert p + ZERO == p == ZERO + p
    assert len(p + p) == len(p)


@given(polys, letters)
def test_bound_sums(p: Poly, bound: tuple[Index, ...]) -> None:
    whole = bind(p, tuple(s for s in bound if not any(s in m.bound for m in p)))
    chosen = tuple(s for s in bound if not any(s in m.bound for m in p))
    for at in SOME:
        assert value(whole, at) == sum(value(p, {**at, **x}) for x in everywhere(chosen))
    assert not whole.free & set(chosen)


@given(polys, st.dictionaries(st.sampled_from([i, j, k]), tokens), st.dictionaries(st.sampled_from([a, b]), pairs))
@example(Poly((Mono(1, (j,), (S, C.at({i: j})), (X.at({i: j}),)),)), {i: j, j: k}, {})
@example(Poly((Mono(1, (j,), (S, C.at({i: j})), (X.at({i: j}),)),)), {j: i}, {a: b})
def test_letters_replaced(p: Poly, one: dict[Slot, Slot], two: dict[Slot, Slot]) -> None:
    """By letters, perhaps those of a bound sum, or by members."""
    to = {**one, **two}
    for at in SOME:
        moved = {s: at[t] if isinstance(t, Index) else t.at for s in LETTERS for t in (to.get(s, s),)}
        assert value(p.at(to), at) == value(p, moved)


@given(monos, st.permutations(range(4)), st.permutations(range(2)))
def test_like_terms_are_collected(m: Mono, order: list[int], other: list[int]) -> None:
    """Whatever their bound letters are called, and in whatever order their factors stand."""
    m = simplify(m) or Mono(1)
    renamed = m.apart(m.bound)
    assert not set(renamed.bound) & set(m.bound)
    mixed = Mono(
        -m.number,
        renamed.bound,
        tuple(renamed.scalars[n] for n in order if n < len(m.scalars)) + renamed.scalars[4:],
        tuple(renamed.atoms[n] for n in other if n < len(m.atoms)),
    )
    factors = (*m.scalars, *m.atoms)
    alike = len({(t.family.key, tuple(s in m.bound or s for s in t.slots)) for t in factors}) < len(factors)
    if not alike:  # which of two like factors names the bound letters first is left open
        assert total([m, mixed]) == ZERO


def test_bound_letters_exchange_their_names() -> None:
    """Sum_{i,j} c[i,a] c[j,b] = Sum_{j,i} c[j,a] c[i,b]."""

    def term(first: Index, second: Index) -> Mono:
        return Mono(1, (first, second), (C.at({i: first}), C.at({i: second, a: b})))

    assert len(total([term(i, j), term(j, i)])) == 1
    assert len(total([term(i, j), Mono(1, (i, j), (C, C.at({i: j})))])) == 2


def test_unlike_terms_are_kept_apart() -> None:
    unlike = [
        Mono(1, (), (S,), (X,)),
        Mono(1, (), (S,), (X.at({i: j}),)),
        Mono(1, (), (S.at({i: j}),), (X,)),
        Mono(1, (i,), (S,), (X,)),
        Mono(1, (i,), (S,), (X.at({i: j}),)),
        Mono(1, (), (S, S), (X,)),
        Mono(1, (), (), (X, Y)),
        Mono(1, (), (delta(i, j), S), (X,)),
        Mono(1, (), (i < j, S), (X,)),
        Mono(1, (), (j < i, S), (X,)),
    ]
    assert total(unlike).terms == tuple(unlike)
    assert total([Mono(1, (), (delta(i, j),)), Mono(1, (), (delta(j, i),))]) == Poly((Mono(2, (), (delta(i, j),)),))


def test_small_ones() -> None:
    assert constant(0) == ZERO
    assert constant(2) == Poly((Mono(2),))
    assert scalar(lift(0)) == ZERO
    assert scalar(lift(1)) == ONE
    assert scalar(S) == Poly((Mono(1, (), (S,)),))
    assert atom(X) == Poly((Mono(1, (), (), (X,)),))
    assert same((i, a), (i, a)) == ONE
    assert same((i, a), (j, a)) == scalar(delta(i, j))
    assert same((T0,), (T1,)) == ZERO
    assert same((), ()) == ONE
    assert bind(ONE, ()) is ONE
    assert is_map(X + 1, "sub", "add")
    assert not is_map(X + 1, "mul")
    assert not is_map(X, "add")


@pytest.mark.parametrize("relation", ["!=", "<", "<="])
def test_decided_by_the_letters_alone(relation: str) -> None:
    """A relation is decided where it has one value at all members (neither member named is the first or the last)."""
    s, t = Plate("wide", 4).indices("s t")
    for left, right in product([s, t, Member(s.plate, 1), Member(s.plate, 2)], repeat=2):
        term = {"!=": distinct(s, t), "<": s < t, "<=": s <= t}[relation].at({s: left, t: right})
        values = {bool(number(term, at)) for at in everywhere((s, t))}
        assert decided(relation, left, right) == (values.pop() if len(values) == 1 else None)
