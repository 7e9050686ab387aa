"""Coincidences of letters, against all assignments of members."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netsor import Plate
from netsor.algebra.patterns import LARGEST_CHECK, partitions, patterns, possible, truth
from netsor.binding import table
from netsor.ir import Index, Member, Slot, Term, distinct, lift

TOKEN, PAIR, LOOSE = Plate("token", 4), Plate("pair", 2), Plate("loose")
i, j, k = TOKEN.indices("i j k")
a, b, c = PAIR.indices("a b c")
u, v, w = LOOSE.indices("u v w")
T0, T2, L0, L7 = Member(TOKEN, 0), Member(TOKEN, 2), Member(LOOSE, 0), Member(LOOSE, 7)
SLOTS: list[Slot] = [i, j, k, a, b, c, T0, T2]


def assignments(slots: list[Slot], loose: int = 12) -> list[dict[Slot, int]]:
    sizes = [range(loose if s.plate.extent is None else s.plate.extent) if isinstance(s, Index) else (s.at,) for s in slots]
    return [dict(zip(slots, values, strict=True)) for values in product(*sizes)]


def coincidences(at: dict[Slot, int]) -> frozenset[frozenset[Slot]]:
    classes: dict[tuple[Plate, int], set[Slot]] = {}
    for s, value in at.items():
        classes.setdefault((s.plate, value), set()).add(s)
    return frozenset(map(frozenset, classes.values()))


def classes_of(pattern: dict[Slot, Slot]) -> frozenset[frozenset[Slot]]:
    return frozenset(frozenset(s for s, r in pattern.items() if r == leader) for leader in pattern.values())


@given(st.lists(st.sampled_from(SLOTS), max_size=5))
def test_patterns_are_the_coincidences_that_occur(slots: list[Slot]) -> None:
    """Each once; a member stands for the letters that are it."""
    found = list(patterns(slots))
    distinct_slots = list(dict.fromkeys(slots))
    assert sorted(map(sizes, map(classes_of, found))) == sorted(
        map(sizes, {coincidences(x) for x in assignments(distinct_slots)})
    )
    assert {classes_of(p) for p in found} == {coincidences(x) for x in assignments(distinct_slots)}
    for p in found:
        assert all(p[r] == r for r in p.values())
        assert all(p[s] == s for s in p if isinstance(s, Member))


def sizes(classes: frozenset[frozenset[Slot]]) -> list[int]:
    return sorted(map(len, classes))


@pytest.mark.parametrize(("n", "bell"), [(0, 1), (1, 1), (2, 2), (3, 5), (4, 15)])
def test_partitions_are_counted_by_bell(n: int, bell: int) -> None:
    assert len(list(partitions([u, v, w, LOOSE.index("z")][:n]))) == bell


# -------------------------------------------------------------------------------------------------------------------- masks

atoms = st.sampled_from(
    [distinct(i, j), i < j, i <= j, j < k, distinct(i, T2), i < T2, k <= T0, distinct(j, k), lift(1), lift(0)]
)
masks = st.recursive(
    atoms,
    lambda m: st.one_of(
        m.map(lambda x: ~x), st.tuples(m, m).map(lambda x: x[0] & x[1]), st.tuples(m, m).map(lambda x: x[0] | x[1])
    ),
)


def holds(mask: Term, at: dict[Slot, int]) -> bool:
    """A predicate by its numpy function."""
    if not mask.args:
        values = [at[s] if isinstance(s, Index) else s.at for s in mask.own]
        return (
            {"!=": lambda x, y: x != y, "<": lambda x, y: x < y, "<=": lambda x, y: x <= y}[mask.op.relation](*values)
            if values
            else bool(mask.op.value)
        )
    return bool(mask.op.fn.numpy(*(holds(m, at) for m in mask.args)))


@given(masks)
def test_truth(mask: Term) -> None:
    assert all(truth(mask, at) == holds(mask, at) for at in assignments([i, j, k]))


@given(st.lists(masks, max_size=2), st.none() | masks)
def test_possible(wanted: list[Term], against: Term | None) -> None:
    """Some assignment with exactly these coincidences has all masks, and not the other one."""
    every = assignments([i, j, k])
    for pattern in patterns([i, j, k]):
        exactly = [x for x in every if coincidences(x) == classes_of(pattern)]
        found = any(all(holds(m, x) for m in wanted) and not (against is not None and holds(against, x)) for x in exactly)
        assert possible(pattern, wanted, against) == found


@pytest.mark.parametrize(
    ("masks", "so"),
    [
        ([u < L0], False),
        ([u <= L0], True),
        ([u < L7], True),
        ([u > L7], True),
        ([u > L7, u < v, v < w], True),
        ([u < v, v < u], False),
        ([u < v, v < w, w < L0], False),
        ([u < L7, v < u, ~(w < L7)], True),
        ([u < Member(LOOSE, 2), v < Member(LOOSE, 2), w < Member(LOOSE, 2)], False),  # three in two places
        ([u < Member(LOOSE, 3), v < Member(LOOSE, 3), w < Member(LOOSE, 3)], True),
        (
            [
                u > L7,
                v > L7,
                w > L7,
                distinct(u, Member(LOOSE, 8)),
                distinct(v, Member(LOOSE, 8)),
                distinct(w, Member(LOOSE, 8)),
            ],
            True,
        ),
    ],
)
def test_plates_without_a_size_are_as_large_as_it_takes(masks: list[Term], so: bool) -> None:
    assert possible({s: s for s in (u, v, w)}, masks) == so


def test_a_letter_that_is_a_member_of_large_number() -> None:
    """Where u is member 7, v lies beyond it or before it, and two before member 1 are one too many."""
    at: dict[Slot, Slot] = {u: L7, L7: L7, v: v, w: w}
    assert possible(at, [u < v, v < w])
    assert possible(at, [v < u, w < v])
    assert possible({**at, u: Member(LOOSE, 2)}, [v < u, w < v])
    assert not possible({**at, u: Member(LOOSE, 1)}, [v < u, w < v])
    assert not possible({i: T2, T2: T2, j: j, k: k}, [i < j, i < k])  # of four tokens


UNKNOWN = table("m", i)


@pytest.mark.parametrize(
    ("mask", "value"),
    [
        (UNKNOWN, None),
        (~UNKNOWN, None),
        (UNKNOWN & lift(1), None),
        (UNKNOWN & lift(0), False),
        (lift(0) & UNKNOWN, False),
        (UNKNOWN | lift(0), None),
        (UNKNOWN | lift(1), True),
        (lift(1) | UNKNOWN, True),
        (i < j, None),
        (i > T0, None),
        (i < T2, None),
    ],
)
def test_truth_of_what_is_not_known(mask: Term, value: bool | None) -> None:
    assert truth(mask, {k: 0}) is value


def test_what_cannot_be_decided_counts_as_possible() -> None:
    assert possible({i: i}, [UNKNOWN])
    assert possible({i: i}, [~UNKNOWN])
    assert not possible({i: i}, [UNKNOWN, i < T0])
    huge = Plate("huge", LARGEST_CHECK + 1)
    x, y = huge.indices("x y")
    assert not possible({x: x}, [x < 3, Member(huge, 3) < x])
    assert possible({x: x, y: y}, [x < 3, Member(huge, 300) < x])  # too many to try
    assert possible({x: x}, [])
