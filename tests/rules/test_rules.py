"""What each rule answers: sources, cumulants, pivots, and labels that are the same in every process."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from netsor import (
    IllFormed,
    Plate,
    Program,
    Width,
    dot,
    matrix,
    mean,
    oo,
    param,
    semantics,
    sqrt,
    sum_over,
    table,
    unknown,
    vector,
)
from netsor.algebra.moments import Moments
from netsor.algebra.poly import ONE, ZERO, Poly, constant, delta, same, scalar
from netsor.functions import relu, softmax, tanh
from netsor.ir import Term, make, postorder
from netsor.ops import Average
from netsor.rules.clt import Clt
from netsor.rules.input import Law, Prior
from netsor.rules.matmul import Sigma2

i, j = Plate("token", 2).indices("i j")
a = Plate("head").index("a")
COV = [[2, 1], [1, 3]]


def rademacher() -> Law:
    return Law("Rademacher", moment=lambda k: 1 - k % 2, quantile=lambda u: np.sign(u - 0.5))


def heads() -> tuple[Term, Term]:
    """A head of attention and the sum of all."""
    x = vector("x", i)
    o = matrix("O", a) @ sum_over(softmax(dot(matrix("Q", a) @ x, matrix("K", a) @ x[j]), over=j) * (matrix("V", a) @ x[j]), j)
    return o, sum_over(o, a) / sqrt(a.plate.size)


# ------------------------------------------------------------------------------------------------------------------- labels

BUILT: dict[str, Callable[[], Term]] = {
    "another law": lambda: vector("x", i, law=rademacher()),
    "a covariance": lambda: vector("x", i, cov=COV, mean=0.5),
    "its entry": lambda: make(Prior(vector("x", i, cov=COV).op), (i, j)),
    "a matrix": lambda: matrix("W", i, sigma=2) @ vector("x"),
    "its sigma": lambda: make(Sigma2(matrix("W", sigma=3).record)),
    "infinitely many heads": lambda: Program("heads", y=heads()[1]).at(head=oo)["y"],
}


@pytest.mark.parametrize("name", BUILT)
def test_labels_are_those_of_the_text(name: str) -> None:
    """Built twice: two different objects, of one label and one order."""
    first, second = BUILT[name](), BUILT[name]()
    assert first.op.label == second.op.label
    assert first.family.order == second.family.order
    assert first.family.key != second.family.key
    assert "0x" not in first.op.label


# ----------------------------------------------------------------------------------------------------------------- cumulants


@pytest.mark.parametrize(
    ("moment", "cumulants"),
    [
        (lambda k: math.factorial(k), [1, 1, 2, 6, 24, 120]),
        (lambda k: 1 - k % 2, [0, 1, 0, -2, 0, 16]),
        (lambda k: 2**k, [2, 0, 0, 0, 0, 0]),
        (lambda k: round(stats.poisson(3).moment(k)) if k else 1, [3, 3, 3, 3, 3, 3]),
        (lambda k: round(stats.norm(2, 3).moment(k)) if k else 1, [2, 9, 0, 0, 0, 0]),
    ],
)
def test_cumulants_of_a_law(moment: Callable[[int], int], cumulants: list[int]) -> None:
    law = Law("own", moment=moment, quantile=lambda u: u)
    assert [law.cumulant(k) for k in range(1, 7)] == cumulants


def test_a_law_is_its_name() -> None:
    """Built again, by the same program or from a file, its functions are other objects."""
    assert rademacher() == rademacher()
    assert rademacher() != Law("sign", rademacher().moment, rademacher().quantile)
    first, second = (Law("one", lambda k, c=c: c, float) for c in (1, 2))
    assert first == second


def cumulant(*terms: Term) -> Poly:
    return semantics.cumulant(terms[0].op, terms, Moments())


def test_cumulants_of_initial_vectors() -> None:
    iid, free, one = vector("x", i, cov=3, mean=2), vector("f", mean=param("m")), vector("one")
    assert cumulant(iid) == constant(2)
    assert cumulant(one) == ZERO
    assert cumulant(one, one) == ONE
    assert cumulant(iid, iid[j]) == constant(3) * scalar(delta(i, j))
    assert cumulant(iid[0], iid[1]) == ZERO
    assert cumulant(iid, iid, iid) == ZERO
    assert cumulant(free) == scalar(param("m"))
    for cov in (COV, unknown):
        v = vector("v", i, cov=cov)
        assert cumulant(v, v[j]) == scalar(make(Prior(v.op), (i, j))) != ZERO
    other = vector("r", i, law=rademacher())
    assert cumulant(other) == ZERO
    assert cumulant(other, other[j]) == same((i,), (j,))
    assert cumulant(other, other, other, other) == constant(-2)
    assert cumulant(other[0], other[0], other[1], other[0]) == ZERO


def test_cumulants_of_a_matrix() -> None:
    W, x, y = matrix("W", i, sigma=3), vector("x"), vector("y", cov=2, mean=1)
    sigma2 = scalar(make(Sigma2(W.record)))
    assert cumulant(W @ x) == ZERO
    assert cumulant(W @ y, W @ y) == sigma2 * constant(3)
    assert cumulant(W @ y, W[j] @ y) == sigma2 * constant(3) * scalar(delta(i, j))
    assert cumulant(W @ x, W @ y) == ZERO
    assert cumulant(W @ x, W @ x, W @ x) == cumulant(*[W @ x] * 4) == ZERO


def test_infinitely_many_heads_are_gaussian() -> None:
    """Their covariance is that of one head, averaged over its scores; other cumulants vanish; independent of other matrices."""
    head, total = heads()
    P = Program("heads", o=head, y=total).at(head=oo)
    y, one = P["y"], P["o"]
    assert isinstance(y.op, Clt)
    assert cumulant(y) == cumulant(y, y, y) == ZERO
    (m,) = cumulant(y, y.at({i: j}))
    (average,) = m.scalars
    assert isinstance(average.op, Average)
    assert set(average.free) == {i, j}
    other = Program("heads", y=heads()[1]).at(head=oo)["y"]
    moments = Moments()
    assert len({*moments.sources(y), *moments.sources(other), *moments.sources(one)}) == 3
    assert moments.expect(relu(y), tanh(other)) == moments.expect(relu(y)) * moments.expect(tanh(other))
    assert moments.expect(relu(y), tanh(one)) == moments.expect(relu(y)) * moments.expect(tanh(one))


def test_infinitely_many_heads_have_no_value_at_a_width() -> None:
    y = Program("heads", y=heads()[1]).at(head=oo)["y"]
    with pytest.raises(IllFormed, match=r"P\.at\(head=16\)") as caught:
        semantics.draw(y.op, y, None)
    assert caught.value.code == "NS304"


# -------------------------------------------------------------------------------------------------------- pivots and binding


def test_pivots() -> None:
    """Members of a family with a covariance are one source; the copies of an iid one, or of a matrix, are told apart."""
    W, x = matrix("W", i), vector("x", i, cov=2)
    for v in (x, vector("r", i, law=rademacher())):
        assert semantics.pivot(v.op, v) == semantics.Pivot(v.op.token, (i,), None)
    for cov in (COV, unknown):
        v = vector("v", i, cov=cov)
        assert semantics.pivot(v.op, v) == semantics.Pivot(v.op.token, (None,), None)
    assert semantics.pivot((W @ x).op, W @ x) == semantics.Pivot(W.record.token, (i,), x)
    assert semantics.pivot(tanh(x).op, tanh(x)) is None


def test_parameters_are_bound_in_place() -> None:
    m, s = param("m"), param("s")
    P = Program("open", y=matrix("W", sigma=s) @ vector("x", mean=m), z=matrix("V", sigma=param("t", 3)) @ vector("z", mean=4))
    Q = P.at(m=2, s=5)
    assert Q.limit().covariance("y").item() == pytest.approx(25 * 5)
    assert Q.limit().covariance("z").item() == pytest.approx(9 * 17)
    assert P.at(m=2)["y"].op.matrix.sigma.value is None
    assert P.at(s=5)["y"].op.matrix.sigma.value == 5
    assert {f.op.mean.value for f in postorder(P.at(s=5)["y"]) if hasattr(f.op, "mean")} == {None}


# ------------------------------------------------------------------------------------------------------------------- refusals

z = vector("z")


@pytest.mark.parametrize(
    ("code", "call"),
    [
        ("NS309", lambda: vector("x", mean=mean(z * z))),
        ("NS309", lambda: vector("x", mean=table("t", i))),
        ("NS309", lambda: matrix("x", sigma=mean(z * z))),
        ("NS306", lambda: matrix("x", sigma=param("s", -1))),
        ("NS305", lambda: vector("x", law=rademacher(), mean=1)),
        ("NS305", lambda: vector("x", law=rademacher(), cov=1)),
        ("NS309", lambda: vector("x", width=3)),
        ("NS309", lambda: matrix("x", shape=3)),
        ("NS309", lambda: matrix("x", shape=(Width(),))),
        ("NS309", lambda: matrix("x", shape=(Width(), 3))),
        ("NS309", lambda: matrix("x", shape=(3, Width()))),
        ("NS309", lambda: dot(3, param("s"))),
        ("NS309", lambda: mean(param("s"))),
    ],
)
def test_refused(code: str, call: Callable[[], Any]) -> None:
    with pytest.raises(IllFormed) as caught:
        call()
    assert caught.value.code == code


def test_accepted() -> None:
    assert matrix("W", sigma=param("s", 0)).record.sigma.value == 0
    assert matrix("W", sigma=param("s")).record.sigma.value is None
    assert matrix("W").record.sigma == matrix("W", sigma=1).record.sigma == 1
    assert vector("x").op.mean == 0
    assert vector("x", law=rademacher(), mean=0).op.law is not None
