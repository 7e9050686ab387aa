"""Fresh forms: which terms of a product have one, and what becomes of a score that has none."""

import pytest
import sympy

from netsor import Plate, dot, elementwise, matrix, mean, relu, sum_over, tanh, unknown, vector
from netsor.algebra.moments import Moments
from netsor.algebra.pivots import Pivots, Use, acyclic, is_score, meets, uses
from netsor.algebra.poly import ONE, atom
from netsor.ir import Term, distinct
from netsor.rules.input import Law

TOKEN = Plate("token", 3)
i, j, k = TOKEN.indices("i j k")
W, V, U, Q, K = (matrix(name) for name in "WVUQK")
C, D = matrix("C", i), matrix("D", i)
x, e, b = vector("x"), vector("e"), vector("b", mean=1)
X, linked, own = vector("X", i), vector("linked", i, cov=unknown), vector("own", i, law=Law("l", lambda k: 1 - k % 2, float))
tw = W @ relu(W @ x)  # of which nothing is fresh

SCORES: dict[str, tuple[Term, list[str]]] = {
    "two matrices": (dot(Q @ x, K @ x), []),
    "one matrix": (dot(Q @ x, relu(x)), []),
    "two initial vectors": (dot(x, e), []),
    "a vector with itself": (dot(x, x), ["diverges"]),
    "relu with itself": (dot(relu(x), relu(x)), ["diverges"]),
    "a matrix again": (dot(tw, e), []),
    "a matrix again, alone": (dot(tw, 1), ["not fresh"]),
    "each acts on the other": (dot(W @ relu(V @ x), V @ relu(W @ x)), ["extrapolated"]),
    "one matrix on both sides": (dot(tw, W @ relu(tw)), ["diverges"]),
    "an initial vector and what depends on it": (dot(e, W @ relu(W @ e)), ["not fresh"]),
    "the same, exchanged": (dot(W @ relu(W @ e), e), ["not fresh"]),
    "a mean": (dot(b, tw), ["not fresh"]),
    "no mean": (dot(e, tw), []),
    "a sum, the first": (dot(tw + e, 1), ["not fresh"]),
    "a sum, the second": (dot(e + tw, 1), ["not fresh"]),
    "tokens": (dot(X, X[j]), ["diverges"]),
    "tokens with their covariance": (dot(linked, linked[j]), ["diverges", "diverges"]),
    "tokens of another law": (dot(own, own[j]), ["diverges"]),
    "different tokens": (dot(X, X[j], where=distinct(i, j)), []),
    "two tokens by name": (dot(X[0], X[1]), []),
    "one token by name": (dot(X[0], X), ["diverges"]),
    "copies": (dot(C @ relu(D @ x), (D @ relu(C @ x))[j]), ["extrapolated"]),
    "the other tokens": (dot(X, sum_over(X[j], j, where=distinct(i, j))), []),
    "all tokens": (dot(X, sum_over(X[j], j)), ["diverges"]),
    "two small averages": (dot(mean(x) * tw, mean(e) * relu(tw)), []),
    "one small average": (dot(mean(x) * tw, relu(tw)), ["not fresh"]),
    "averages that are not small": (dot(mean(x * x) * tw, mean(e * e) * tw), ["diverges"]),
    "averages of limit 0, perhaps larger": (dot(mean(tw) * tw, mean(tw) * tw), ["not fresh"]),
}


@pytest.mark.parametrize("name", SCORES)
def test_verdicts(name: str) -> None:
    score, verdicts = SCORES[name]
    found = Pivots(Moments()).violations(Use(score))
    assert sorted(v.verdict for v in found) == sorted(verdicts)


def test_a_violation_names_what_is_wrong() -> None:
    """The pattern of letters, the term without a fresh form, and the mean at distinct letters."""
    (v,) = Pivots(Moments()).violations(Use(dot(X, X[j])))
    assert v.pattern == {i: i, j: i}
    assert v.mean == ONE
    assert v.term.atoms == (X, X)
    first, second = Pivots(Moments()).violations(Use(dot(linked, linked[j])))
    assert {first.pattern[j], second.pattern[j]} == {i, j}
    assert not Pivots(Moments()).violations(Use(dot(X, X[j]), (i < j,)))
    assert Pivots(Moments()).violations(Use(dot(X, X[j]), (i <= j,)))


def test_what_is_zero_in_numbers_does_not_diverge() -> None:
    (v,) = Pivots(Moments(), is_zero=lambda poly: True).violations(Use(dot(x, x)))
    assert v.verdict == "not fresh"


def test_letters_that_stand_for_any_member_meet_all() -> None:
    assert meets((b"s", (i,)), (b"s", (i,)))
    assert not meets((b"s", (i,)), (b"s", (j,)))
    assert not meets((b"s", (i,)), (b"t", (i,)))
    assert meets((b"s", (None,)), (b"s", (j,)))
    assert meets((b"s", (i,)), (b"s", (None,)))
    assert meets((b"s", (None,)), (b"s", (None,)))
    assert not meets((b"s", (None, i)), (b"s", (None, j)))
    assert meets((b"s", ()), (b"s", ()))


def test_reach() -> None:
    """Copies by their letters; those that are summed, or of a member that depends on the others, by any."""
    pivots = Pivots(Moments())
    c, d = C.record.token, D.record.token
    assert pivots.reach(x) == {(x.op.token, ())}
    assert pivots.reach(relu(C @ X)) == {(c, (i,)), (X.op.token, (i,))}
    assert pivots.reach(C @ X[j]) == {(c, (i,)), (X.op.token, (j,))}
    assert pivots.reach(sum_over(C @ X, i)) == {(c, (None,)), (X.op.token, (None,))}
    assert pivots.reach(D @ sum_over(C @ X[j], i)) == {(d, (i,)), (c, (None,)), (X.op.token, (j,))}
    assert pivots.reach(linked) == {(linked.op.token, (None,))}
    assert pivots.reach(mean(x * x) * e) == {(e.op.token, ())}
    assert pivots.reach(dot(Q @ x, e) * tanh(e)) == {(e.op.token, ())}


def test_candidates() -> None:
    """For each term of the product the fresh sources; where none is fresh, all that might be."""
    pivots = Pivots(Moments())
    q, kk, w, v = (m.record.token for m in (Q, K, W, V))
    assert pivots.candidates(dot(Q @ x, K @ x)) == [{q, kk}]
    assert pivots.candidates(dot(Q @ x, K @ relu(Q @ x))) == [{kk}]
    assert pivots.candidates(dot(Q @ x + e, K @ x)) == [{q, kk}, {e.op.token, kk}]
    assert pivots.candidates(dot(W @ relu(V @ x), V @ relu(W @ x))) == [{w, v}]


@pytest.mark.parametrize(
    ("scores", "before"),
    [
        ([dot(Q @ x, 1)], [(x, Q)]),
        ([dot(Q @ tanh(K @ x), K @ e)], [(K, Q)]),
        ([dot(Q @ tanh(K @ x), K @ e), dot(U @ tanh(Q @ x), Q @ e)], [(K, Q), (Q, U)]),
        ([dot(Q @ x, K @ x), dot(K @ tanh(Q @ x), 1)], [(Q, K)]),  # the first term has a choice
        ([dot(K @ tanh(Q @ x), 1), dot(Q @ x, K @ x)], [(Q, K)]),
        ([dot(e, tw)], [(W, e)]),
    ],
)
def test_order(scores: list[Term], before: list[tuple[object, object]]) -> None:
    """The other factors of every score come before its pivot."""
    rank = Pivots(Moments()).order(scores)
    assert rank is not None
    assert sorted(rank.values()) == list(range(len(rank)))
    for early, late in before:
        assert rank[token(early)] < rank[token(late)]


def token(source: object) -> bytes:
    return source.op.token if isinstance(source, Term) else source.record.token  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "scores",
    [
        [dot(K @ tanh(Q @ x), 1), dot(Q @ tanh(K @ x), 1)],
        [dot(tw, 1)],
        [dot(Q @ x, 1), dot(tw, relu(tw))],
    ],
)
def test_no_order(scores: list[Term]) -> None:
    assert Pivots(Moments()).order(scores) is None


def test_what_vanishes_needs_no_pivot() -> None:
    assert Pivots(Moments()).order([dot(mean(x) * tw, mean(e) * relu(tw))]) == {}


def test_acyclic() -> None:
    assert acyclic({})
    assert acyclic({b"a": {b"b", b"c"}, b"b": {b"c"}})
    assert not acyclic({b"a": {b"b"}, b"b": {b"a"}})
    assert not acyclic({b"a": {b"a"}})


def test_initial_vectors_are_split_into_mean_and_fluctuation() -> None:
    centred = Pivots(Moments()).centred
    assert centred(atom(b)) == atom(b) + ONE
    assert centred(atom(e) * atom(b)) == atom(e) * atom(b) + atom(e)
    assert centred(atom(e) + atom(b)) == atom(e) + atom(b) + ONE
    assert centred(atom(tanh(x))) == atom(tanh(x))
    assert centred(ONE) == ONE


def test_scores() -> None:
    assert is_score(dot(x, e))
    assert not is_score(mean(x))
    assert not is_score(x)
    assert not is_score(dot(x, e) * 2)


def test_uses() -> None:
    """Each score with the letters and masks under which it is used; masks count where their letters are still there."""
    p = dot(Q @ X, K @ X[j])
    inner = sum_over(p * (V @ X[j]), j, where=j <= i)
    (use,) = uses({"y": inner})
    assert is_score(use.term)
    assert not use.named
    assert [m.op.relation for m in use.masks] == ["<="]  # type: ignore[attr-defined]
    assert {use.masks[0].own[0], use.masks[0].own[1]} <= set(use.term.slots)
    named, masked = sorted(uses({"p": p, "y": inner}), key=lambda u: not u.named)
    assert named.named
    assert not named.masks
    assert masked.masks
    assert uses({"p": p, "y": inner})[0].named
    assert len(uses({"a": inner, "b": inner})) == 1
    outer = sum_over(sum_over(p * X[k], k, where=k <= i), i, where=i < j)
    assert {tuple(m.op.relation for m in u.masks) for u in uses({"z": outer})} == {("<",)}  # type: ignore[attr-defined]
    later = dot(U @ inner, X)
    assert {u.named for u in uses({"l": later})} == {True, False}
    three = elementwise(sympy.Lambda(sympy.symbols("r s t"), sympy.Max(*sympy.symbols("r s t"))))
    assert len(uses({"m": three(p, dot(x, e), dot(Q @ x, e))})) == 3
    mask = dot(Q @ X, K @ X[j], where=i < j)
    (only,) = uses({"m": mask})
    assert only.named
    assert not only.masks
