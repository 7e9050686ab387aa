"""Affine sources integrated out: the law of total variance."""

import pytest

from netsor import Plate, dot, matrix, mean, relu, semantics, softmax, sum_over, tanh, vector
from netsor.algebra.affine import affine_sources, integrate, last_sources
from netsor.algebra.moments import Moments
from netsor.algebra.poly import ZERO, Expect, Poly, bind, scalar
from netsor.algebra.poly import Mono as M
from netsor.ir import Term
from netsor.rules.input import Law

i, j = Plate("token", 3).indices("i j")
W, V, U, H = matrix("W"), matrix("V", sigma=2), matrix("U", i), matrix("H")
x, e, shifted = vector("x"), vector("e"), vector("s", mean=3, cov=2)
bit = vector("bit", law=Law("bit", moment=lambda k: 1 - k % 2, quantile=lambda q: 2 * (q > 0.5) - 1))
many, own = vector("X", i), vector("O", i, cov=[[2, 1, 0], [1, 2, 1], [0, 1, 2]], mean=1)
p = dot(matrix("Q") @ vector("a"), matrix("K") @ vector("b", j))
AFFINE: dict[str, tuple[Term, list[Term]]] = {
    "a sum": (2 * x + 3 * (W @ x), [x, W @ x]),
    "a mean": (shifted + 1, [shifted]),
    "a mean beside a factor": (tanh(W @ x) * shifted + tanh(W @ x), [shifted]),
    "two terms with a mean": (tanh(e) * shifted + relu(e) * shifted, [shifted]),
    "two terms of one source": (tanh(e) * (W @ x) + 2 * (W @ relu(x)), [W @ x]),
    "a function of it": (tanh(x) + x, []),
    "a product of two": ((W @ x) * (V @ x), []),
    "one of two": ((W @ e) * tanh(x) + (V @ x), [W @ e, V @ x]),
    "another law": (bit + x, [x]),
    "a square": (x * x + e, [e]),
    "scores": (sum_over(softmax(p, over=j) * (U @ x)[0], j) + e, [U @ x, e]),
    "a sum over members": (sum_over(U @ x, i) + sum_over(tanh(W @ x) * many, i), [U @ x, many]),
    "members that depend on each other": (sum_over(own * tanh(W @ x), i), [own]),
    "two members": (many[0] + many[1] + e, [many, e]),
    "a number": (x * 0 + 1, []),
}


def tokens(terms: list[Term]) -> set[bytes | None]:
    return {semantics.source(t.op) for t in terms}


def expected(moments: Moments, poly: Poly) -> Poly:
    """E[poly | scores] without a leaf that can still be unfolded."""
    out = ZERO
    for m in moments.expect_poly(poly):
        whole = Poly((M(m.number, (), ()),))
        for s in m.scalars:
            inner = moments.define(s) if isinstance(s.op, Expect) else None
            whole = whole * (scalar(s) if inner is None else expected(moments, inner))
        out = out + bind(whole, m.bound)
    return out


@pytest.mark.parametrize("name", AFFINE)
def test_total_variance(name: str) -> None:
    """E mean = E x and E variance + E mean² = E x²; neither holds an atom of a source that is integrated out."""
    term, free = AFFINE[name]
    moments = Moments()
    poly = moments.expand(term)
    found = affine_sources(moments, poly)
    if name != "a product of two":  # one of them, whichever
        assert found == tokens(free)
    average, variance = integrate(moments, poly, found, lambda g, h: semantics.cumulant(g.op, (g, h), moments))
    assert not {s for q in (average, variance) for m in q for a in m.atoms for s in moments.sources(a)} & found
    second = expected(moments, variance) + expected(moments, average * average)
    assert not expected(moments, average) + expected(moments, poly).scaled(-1)
    assert not second + expected(moments, poly * poly).scaled(-1)


def test_of_a_product_of_two_one_is_kept() -> None:
    moments = Moments()
    assert len(affine_sources(moments, moments.expand((W @ x) * (V @ x)))) == 1


@pytest.mark.parametrize(
    ("term", "last"),
    [
        (W @ x, [W @ x]),
        (x + W @ e, [x, W @ e]),
        (x + W @ x, [W @ x]),
        (W @ tanh(V @ x) + V @ e, [W @ x]),
        (tanh(V @ x) * (W @ e), [W @ x]),
        (mean(x * tanh(e)) * x + e, []),
        (mean(x * x) * (W @ x), [W @ x]),
        (dot(W @ e, x) * (W @ x) + V @ x, [V @ x]),
        (W @ relu(W @ x), []),
        (x, [x]),
    ],
)
def test_sources_on_which_nothing_else_depends(term: Term, last: list[Term]) -> None:
    moments = Moments()
    assert last_sources(moments, moments.expand(term)) == tokens(last)
