"""Terms: letters, identity, and what is refused while a program is written."""

from __future__ import annotations

import math
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import Draft, World, programs, slots

from netsor.algebra.moments import Moments
from netsor.algebra.poly import Poly
from netsor.errors import IllFormed, NetsorError, OutsideTheorem
from netsor.functions import erf, max_over, mean_over, relu, softmax, sqrt, sum_over, tanh, top_k
from netsor.ir import Index, Member, Plate, Slot, Term, Width, distinct, postorder
from netsor.numeric.named import Named
from netsor.rules.dot import dot
from netsor.rules.input import vector
from netsor.rules.matmul import matrix
from netsor.rules.mean import mean

token, head = Plate("token", 3), Plate("head", 2)
i, j, k = token.indices("i j k")
a = head.index("a")


def refused(code: str, build: Callable[[], Any], *words: str, kind: type[NetsorError] = IllFormed) -> None:
    """Building is refused with this code, and the message has these words in it."""
    with pytest.raises(kind) as caught:
        build()
    assert caught.value.code == code, str(caught.value)
    for word in words:
        assert word in str(caught.value)


def close(left: Named, right: Named) -> None:
    """Equal arrays over the same letters."""
    assert set(left.over) == set(right.over)
    x, y = np.broadcast_arrays(left.full(left.over), right.full(left.over))
    np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-9)


# ------------------------------------------------------------------------------------------------------- free letters


@given(programs())
def test_free_letters_are_those_of_the_parts_without_the_bound_ones(draft: Draft) -> None:
    for name, piece in draft.statements.items():
        assert set(piece.term.free) == piece.free, f"{name} = {piece.text}"
        assert len(piece.term.free) == len(piece.free), "a letter stands once among the free ones"


@given(programs(sized=False))
def test_letters_need_no_sizes(draft: Draft) -> None:
    for piece in draft.statements.values():
        assert set(piece.term.free) == piece.free


def test_letters_come_in_declared_order() -> None:
    x = vector("x", i)
    q, p = matrix("W", a) @ x, dot(matrix("Q", a) @ x, matrix("K", a) @ x[j])
    assert q.free == (a, i)
    assert p.free == (a, i, j)
    assert softmax(p, over=i).free == (a, i, j)
    assert sum_over(p, i).free == (a, j)
    assert (x[j] + x).free == (j, i)


def test_a_repeated_letter_is_the_diagonal() -> None:
    x = vector("x", i)
    q, k_ = matrix("Q") @ x, matrix("K") @ x
    p = dot(q, k_[j])
    assert dot(q[i], k_[i]).free == (i,)
    assert p[i, i].free == (i,)
    assert p[{j: i}] == p[i, i] != dot(q[i], k_[i]), "the diagonal of a family is not the family of the diagonal"
    close(World().value(p[i, i]), World().value(dot(q[i], k_[i])))


def test_a_member_keeps_its_plate() -> None:
    x = vector("x", i)
    assert x[0].slots == (Member(token, 0),)
    assert x[0].free == ()
    assert (matrix("W", a) @ x[2])[1].slots == (Member(head, 1), Member(token, 2))
    assert x[0] == x[Member(token, 0)] != x[1]


def test_a_member_of_an_open_plate_may_be_any() -> None:
    x = vector("x", Plate("step").index("t"))
    assert x[10**6].free == ()


# ------------------------------------------------------------------------------------------------------- substitution


@given(st.data())
def test_renaming_and_back_is_the_identity(data: st.DataObject) -> None:
    draft = data.draw(programs())
    for term in draft.variables.values():
        for letter in term.free:
            fresh = Index("z", letter.plate)
            moved = term[{letter: fresh}]
            assert moved.free == tuple(fresh if s == letter else s for s in term.free)
            assert moved != term
            assert moved.family is term.family, "nothing is copied"
            assert moved[{fresh: letter}] == term


@given(st.data())
def test_a_value_with_letters_replaced_is_the_value_of_the_term_with_letters_replaced(data: st.DataObject) -> None:
    """Letters that coincide, members, and letters that are bound further inside: nothing is captured."""
    draft = data.draw(programs())
    world = World()
    for term in draft.variables.values():
        to: dict[Slot, Slot] = {s: data.draw(slots(draft, s)) for s in term.free}
        close(World().value(term.at(to)), world.value(term).relabel(to))


@given(st.data())
def test_the_normal_form_with_letters_replaced_has_the_same_value(data: st.DataObject) -> None:
    draft = data.draw(programs())
    world, moments = World(), Moments()
    for term in draft.variables.values():
        to: dict[Slot, Slot] = {s: data.draw(slots(draft, s)) for s in term.free}
        close(value_of(world, moments.expand(term).at(to), term.at(to)), world.value(term.at(to)))


def value_of(world: World, poly: Poly, term: Term) -> Named:
    return Named(term.free, world.poly(poly, term.free).full(term.free))


def test_a_free_letter_is_not_captured_by_the_sum_it_is_put_into() -> None:
    """y[i] = Sum_j A[i,j] v[j], so y[j] = Sum_j' A[j,j'] v[j'], and not Sum_j A[j,j] v[j]."""
    x = vector("x", i)
    A = softmax(dot(matrix("Q") @ x, matrix("K") @ x[j]), over=j)
    v = matrix("V") @ x[j]
    y = sum_over(A * v, j)
    assert y.free == (i,)
    assert y[j].free == (j,)
    world = World()
    close(world.value(y[j]), world.value(y).relabel({i: j}))
    (m,) = Moments().expand(y[j])
    (bound,) = m.bound
    assert bound != j
    assert [s.slots for s in m.scalars] == [(j, bound)]
    assert [s.slots for s in m.atoms] == [(bound,)]
    wrong = sum_over(A[{i: j}] * v, j)
    assert wrong.free == ()
    assert not np.allclose(world.value(wrong).data, world.value(y[0]).data)


def test_letters_are_exchanged_at_once() -> None:
    p = vector("x", i, j)
    assert p[j, i].slots == (j, i)
    assert p[{i: j, j: i}] == p[j, i]
    assert p[j, i][j, i] == p[j, i], "by position, in the order of the free letters"
    assert p[j, i][{i: j, j: i}] == p


# ----------------------------------------------------------------------------------------------------------- identity


@given(st.data())
def test_the_name_of_a_bound_letter_does_not_matter(data: st.DataObject) -> None:
    draft = data.draw(programs())
    for term in draft.variables.values():
        for letter in term.free:
            other, where = Index("z", letter.plate), distinct(letter, 0)
            renamed = term[{letter: other}]
            assert sum_over(renamed, other) == sum_over(term, letter)
            assert max_over(renamed, other, where=distinct(other, 0)) == max_over(term, letter, where=where)
            kept = softmax(renamed, over=other)
            assert kept != softmax(term, over=letter), "the entry that softmax returns is a free letter"
            assert kept[{other: letter}] == softmax(term, over=letter)


def test_the_same_construction_twice_is_one_term() -> None:
    x, W = vector("x", i), matrix("W", a)

    def build() -> Term:
        h = relu(W @ x) / sqrt(head.size) + 2
        return sum_over(softmax(dot(h, h[j]), over=j, where=j <= i) * h[j], j)

    assert build() == build()
    assert hash(build()) == hash(build())
    assert build().family.key == build().family.key


def test_two_objects_of_one_name_are_two() -> None:
    x = vector("x", i)
    assert matrix("W") @ x != matrix("W") @ x
    assert vector("x", i) != x
    one, two = (matrix("W") @ x).family, (matrix("W") @ x).family
    assert one.order == two.order, "but sorting and streams go by the name alone"


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (lambda x: relu(x), lambda x: erf(x)),
        (lambda x: x + 1, lambda x: x + 2),
        (lambda x: x - x[j], lambda x: x[j] - x),
        (lambda x: sum_over(x, i), lambda x: mean_over(x, i)),
        (lambda x: top_k(x, 1, over=i), lambda x: top_k(x, 2, over=i)),
        (lambda x: sum_over(x, i, where=i <= j), lambda x: sum_over(x, i, where=j <= i)),
        (lambda x: i < j, lambda x: i <= j),
        (lambda x: token.size, lambda x: head.size),
        (lambda x: dot(x, x[j]), lambda x: dot(x, x[j], where=distinct(i, j))),
    ],
)
def test_different_terms_differ(left: Callable[[Term], Term], right: Callable[[Term], Term]) -> None:
    x = vector("x", i)
    assert left(x) != right(x)
    assert left(x) == left(x)


def test_the_order_of_families_is_the_same_in_every_process() -> None:
    """Streams are keyed by it: an address in memory would give other numbers in every run."""
    code = """
from netsor.functions import hardmax, relu, softmax, sum_over
from netsor.ir import Plate, postorder
from netsor.rules import Law, dot, matrix, mean, vector
i, j = Plate("token", 3).indices("i j")
x = relu(matrix("W") @ vector("x", i, law=Law("Rademacher", lambda k: 1 - k % 2, lambda u: u)))
A = softmax(dot(x, matrix("V") @ x[j]), over=j, where=j <= i)
for f in postorder(sum_over(A * x[j], j), hardmax(mean(x), over=i)):
    print(f.op.label.split("(")[0], f.order.hex())
"""
    one, two = (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout for _ in range(2)
    )
    assert len(one.splitlines()) > 10
    assert one == two


def test_equal_constants_of_two_kinds_of_number_are_one_term() -> None:
    x = vector("x")
    assert x + 1 == x + np.int64(1)
    assert x * 0.5 == x * np.float64(0.5)


@given(programs())
def test_where_a_term_was_written_is_not_part_of_it(draft: Draft) -> None:
    for family in postorder(*draft.variables.values()):
        assert family.origin is not None
        assert "netsor/netsor" not in family.origin[0]


# -------------------------------------------------------------------------------------------------------------- size


def residual(layers: int) -> Term:
    x = vector("x", i)
    for layer in range(layers):
        x = x + matrix(f"W{layer}") @ tanh(x)
    return x


def test_a_deep_program_has_as_many_families_as_statements() -> None:
    assert len(postorder(residual(96))) == 1 + 3 * 96


def test_building_takes_a_constant_number_of_steps_a_layer() -> None:
    """Counted in calls, not in seconds."""

    def calls(layers: int) -> int:
        count = 0

        def tick(frame: object, event: str, arg: object) -> None:
            nonlocal count
            count += event == "call"

        sys.setprofile(tick)
        try:
            residual(layers)
        finally:
            sys.setprofile(None)
        return count

    assert calls(96) - calls(48) == calls(48) - calls(0)


def test_no_program_is_too_deep_to_build_index_and_walk() -> None:
    x = residual(5 * sys.getrecursionlimit())
    assert x[j].free == (j,)
    assert len(postorder(x)) == 1 + 15 * sys.getrecursionlimit()


@given(programs())
def test_children_come_before_their_parents_and_each_family_once(draft: Draft) -> None:
    walk = postorder(*draft.variables.values())
    place = {f.key: n for n, f in enumerate(walk)}
    assert len(place) == len(walk)
    assert all(place[c.key] < n for n, f in enumerate(walk) for c, _ in f.children)


@pytest.mark.parametrize("build", [lambda: vector("x", i), lambda: matrix("W", a) @ vector("x", i)[0], lambda: i <= j])
def test_a_term_survives_pickling(build: Callable[[], Term]) -> None:
    term = build()
    copy = pickle.loads(pickle.dumps(term))
    assert copy == term
    assert copy.free == term.free


# ----------------------------------------------------------------------------------------------------------- refusals


def test_indexing_that_does_not_fit_says_what_is_wrong() -> None:
    x, q, p = vector("x", i), matrix("W", a) @ vector("x", i), vector("x", i, j)
    refused("NS302", lambda: x[a], "[a]", "[i]")
    refused("NS302", lambda: x[0][j], "no free")
    refused("NS302", lambda: p[k], "2 free indices", "i, j", "t[{i: j}]")
    refused("NS302", lambda: p[i, j, k], "takes 2 free indices [i, j], not 3")
    refused("NS302", lambda: q[0], "2 free indices")
    refused("NS302", lambda: q[{j: k}], "no free index j", "a, i")
    refused("NS302", lambda: q[{i: a}], "i runs over plate token, a over head")
    refused("NS302", lambda: q["i"], "[i]")
    refused("NS302", lambda: x[3], "member 3 of plate token", "0 to 2")
    refused("NS302", lambda: x[-1], "member -1")
    refused("NS302", lambda: x[True], "True")
    refused("NS302", lambda: matrix("W", a)[i], "matrix W has no free indices")
    refused("NS302", lambda: matrix("W", i, i), "distinct", "i, i")
    refused("NS302", lambda: vector("x", i, 0), "vector('x', ...)")  # type: ignore[arg-type]


def test_operations_along_a_plate_need_a_letter_of_their_argument() -> None:
    x = vector("x", i)
    for f in (sum_over, mean_over, max_over, softmax):
        refused("NS302", lambda f=f: f(x, j), "over j", "[i]")
        refused("NS302", lambda f=f: f(x, token), "over=")
        refused("NS105", lambda f=f: f(x, Width("n")), "Nonlin", kind=OutsideTheorem)
    refused("NS302", lambda: sum_over(x[0], i), "[0]")


def test_only_letters_of_one_plate_are_compared() -> None:
    for build in (lambda: i <= a, lambda: i - a, lambda: distinct(i, a), lambda: i < 0.5):
        refused("NS302", build, "one plate")
    refused("NS302", lambda: i <= 3, "member 3 of plate token")


def test_widths_must_match() -> None:
    n = Width("n")
    x, y = vector("x"), vector("y", width=4 * n)
    refused("NS303", lambda: x + y, "add", "n and 4 n")
    refused("NS303", lambda: dot(x, y), "dot")
    refused("NS303", lambda: matrix("W") @ y, "W of shape (n, n)", "width 4 n")
    refused("NS303", lambda: matrix("W", shape=(n, 4 * n)) @ x, "W of shape (n, 4 n)")
    refused("NS303", lambda: (Fraction(1, 2) * n).at(3), "1/2 n at n = 3")
    assert (Fraction(1, 2) * n).at(4) == 2
    assert (matrix("W", shape=(n, 4 * n)) @ y + x).width == n
    assert 4 * n != n == Width("n")
    assert (x * mean(y)).width == n, "a scalar has no width and goes with every vector"


def test_a_bool_is_no_mask_and_a_term_no_bool() -> None:
    x = vector("x", i)
    for where in (True, i == j, i != j, x, 1, softmax(mean(x), over=i)):
        refused("NS307", lambda where=where: sum_over(x, i, where=where), "where=")
    refused("NS307", lambda: (i <= j) & x, "mask")
    refused("NS307", lambda: ~mean(x), "mask")
    refused("NS307", lambda: bool(i <= j), "truth value")
    refused("NS307", lambda: i <= j <= k, "truth value")
    refused("NS307", lambda: (i <= j) and (j <= k), "truth value")
    refused("NS307", lambda: dot(x, x[j], where=i == j), "where=False", "distinct(i, j)")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, np.nan, np.float64("inf")])
def test_numbers_are_finite(value: float) -> None:
    x = vector("x")
    refused("NS306", lambda: x + value)
    refused("NS306", lambda: value * x)
    refused("NS306", lambda: vector("y", mean=value))
    refused("NS306", lambda: vector("y", cov=value))
    refused("NS306", lambda: vector("y", i, cov=np.full((3, 3), value)))
    refused("NS306", lambda: matrix("W", sigma=value))


def test_what_is_not_a_number_or_a_term_is_refused() -> None:
    x = vector("x", i)
    for other in ("1", None, True, 1j, [1], np.ones(3), matrix("W")):
        refused("NS309", lambda other=other: x + other)
    refused("NS309", lambda: list(x), "sequence")
    refused("NS309", lambda: relu(x, x), "relu takes 1")
    refused("NS309", lambda: dot(1, mean(x)), "two scalars")
    refused("NS309", lambda: mean(mean(x)), "scalar")
    refused("NS309", lambda: matrix("W") @ mean(x), "scalar")


@pytest.mark.parametrize("name", ["", "1x", "x y", "x.y", None])
def test_names_are_identifiers(name: Any) -> None:
    for build in (vector, matrix, Plate, Width, token.index):
        refused("NS309", lambda build=build: build(name))


@pytest.mark.parametrize("extent", [0, -1, 2.0, True, "3"])
def test_the_size_of_a_plate_is_a_positive_integer(extent: Any) -> None:
    refused("NS306", lambda: Plate("token", extent))


def test_letters_are_found_in_another_process() -> None:
    """Their hashes are computed once, and strings hash differently in every process."""
    letter = Plate("token", 3).index("i")
    found = f"import pickle; from netsor import Plate; x = pickle.loads({pickle.dumps(letter)!r}); "
    check = found + 'assert x in {Plate("token", 3).index("i")} and x.plate in {Plate("token", 3)}'
    for seed in ("1", "2"):
        subprocess.run([sys.executable, "-c", check], check=True, env={**os.environ, "PYTHONHASHSEED": seed})
