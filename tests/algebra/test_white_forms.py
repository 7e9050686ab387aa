"""Scores as polynomials in white forms: for which there are any, and that names of letters do not matter."""

import pytest

from netsor import Plate, dot, matrix, relu, softmax, sum_over, vector
from netsor.algebra.forms import White, plain_copies, product, sides, white_forms
from netsor.algebra.moments import Moments
from netsor.algebra.pivots import Pivots
from netsor.algebra.poly import Poly
from netsor.ir import Term, lift

HEAD, TOKEN = Plate("head", 3), Plate("token", 2)
a, b, c = HEAD.indices("a b c")
i, j, k = TOKEN.indices("i j k")
x, own = vector("x", i), vector("own", i, a)
Q, K, V, one, both = matrix("Q", a), matrix("K", a), matrix("V", a), matrix("one"), matrix("both", a, b)
U = matrix("U")
shifted = vector("shifted", mean=2)


def forms_of(*scores: Term) -> list[Poly] | None:
    moments = Moments()
    return white_forms(moments, Pivots(moments), scores)


HEADS = dot(Q @ x, K @ x[j])
LAYER = sum_over(softmax(HEADS, over=j) * (V @ x[j]), j)
SCORES: dict[str, tuple[list[Term], bool]] = {
    "all heads": ([HEADS], True),
    "all heads of two layers": ([HEADS, dot(Q @ relu(LAYER), K @ relu(LAYER.at({i: j})))], True),
    "one head twice": ([dot(Q[0] @ x, one @ x), dot(Q[0] @ x[j], one @ relu(x))], True),
    "one head, then all": ([dot(Q[0] @ x, shifted), dot(Q @ x, shifted)], False),
    "a head, then another, of one pivot": ([dot(Q[0] @ x, shifted), dot(Q[1] @ x, shifted)], False),
    "one letter twice": ([dot(both[a, a] @ x, shifted)], False),
    "two letters": ([dot(both @ x, shifted)], True),
    "no order": ([dot(one @ relu(U @ x), U @ x), dot(U @ relu(one @ x), one @ x)], False),
    "a pivot of which nothing is free": ([dot(one @ x, one @ x)], False),
}


@pytest.mark.parametrize("name", SCORES)
def test_white_forms(name: str) -> None:
    scores, exist = SCORES[name]
    assert (forms_of(*scores) is not None) == exist


def test_a_score_of_an_initial_vector_has_its_mean_as_well() -> None:
    """<x + 2, W y> is the form of x's fluctuations and twice one of W with the constant vector."""
    y = vector("y")
    (poly,) = forms_of(dot(shifted, one @ y)) or []
    names = [{s.op.name for s in m.scalars if isinstance(s.op, White)} for m in poly]
    assert sorted(map(sorted, names)) == [["one"], ["one"]] or sorted(map(sorted, names)) == [["one"], ["shifted"]]


def forms_in(*scores: Term) -> list[Term]:
    return [s for p in forms_of(*scores) or [] for m in p for s in m.scalars if isinstance(s.op, White)]


@pytest.mark.parametrize("score", [HEADS, dot(Q @ own, K @ own[j]), dot(Q[b] @ own, K[b] @ own[j])])
def test_sides_do_not_depend_on_the_names_of_letters(score: Term) -> None:
    (form,) = forms_in(score)
    renamed = form.at({a: c, i: k, j: i, b: a})
    assert sides(form) == sides(renamed) != form.args
    for side, mark in zip(sides(form), "lr", strict=True):
        assert all(s.name.startswith((f"#{mark}", "#copy")) for s in side.free)
        assert len(side.free) == len(form.args["lr".index(mark)].free)
    copies = [{s.name for s in side.free if s.name.startswith("#copy")} for side in sides(form)]
    assert set().union(*copies) <= {"#copy0"}


def test_copies_of_one_source() -> None:
    assert plain_copies([])
    assert plain_copies(forms_of(HEADS) or [])


def test_products() -> None:
    assert product([]) == lift(1)
    assert product([x]) == x
    assert product([x, own, x]) == x * own * x
