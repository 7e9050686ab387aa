"""Covariances of vectors whose means are far above their deviations: no product of means is subtracted from one like it.

Tolerances: what a double of the mean's size can hold, once and not squared.
"""

from fractions import Fraction

import numpy as np
import pytest
from calibrated import assert_within

from netsor import Law, Plate, Program, dot, layernorm, matrix, mean, relu, softmax, sum_over, tanh, vector
from netsor.algebra.moments import Moments
from netsor.algebra.poly import Poly
from netsor.infinite import covariances
from netsor.ir import Term
from netsor.limit import Limit

COV = np.array([[1, 0.3, 0.2], [0.3, 1.7, -0.1], [0.2, -0.1, 0.6]])
LARGE = [1e3, 1e6, 1e8]
i, j = Plate("point", 3).indices("i j")


def limit(**variables: Term) -> Limit:
    return Program("test", **variables).limit()


def shifted(m: float) -> Term:
    return vector("x", i, mean=m, cov=COV.tolist())


@pytest.mark.parametrize("m", [0.0, -2.5, *LARGE])
def test_affine_vectors(m: float) -> None:
    """To the last bit: the vector, with a constant, in a sum, in a residual stream; and its law, which is no point mass."""
    x = shifted(m)
    W = matrix("W")
    centred = W @ relu(x - m)
    kernel = limit(y=centred).covariance("y").value
    L = limit(x=x, y=x + 1e8, z=3 * x + m, r=(x + m) + (centred + m), s=sum_over(x, i))
    assert (L.covariance("x").value == COV).all()
    assert (L.covariance("y").value == COV).all()
    assert (L.covariance("x", "y").value == COV).all()
    assert L.covariance("z").value == pytest.approx(9 * COV, rel=1e-15)
    assert L.covariance("r").value == pytest.approx(COV + kernel, rel=1e-14)
    assert float(L.covariance("s").value) == pytest.approx(COV.sum(), rel=1e-14)
    assert float(L.law("y", i=2).variance) == COV[2, 2]
    assert float(L.law("x", i=1).mean) == m


@pytest.mark.parametrize("m", LARGE)
def test_what_a_nonlinearity_sees(m: float) -> None:
    """tanh(x + m - m): the covariance of its input is that of x."""
    x = shifted(m)
    y = vector("x", i, cov=COV.tolist())
    one, two = limit(y=tanh(x - m)).covariance("y").value, limit(y=tanh(y)).covariance("y").value
    assert np.abs(one - two).max() < 1e-14


@pytest.mark.parametrize("m", LARGE)
def test_functions_beside_an_independent_factor(m: float) -> None:
    """Cov(f v, f) = E v Var f with f = relu(z + m), which is z + m."""
    f, v = relu(vector("z") + m), vector("v", mean=2)
    assert float(limit(a=f * v, b=f).covariance("a", "b").value) == pytest.approx(2, rel=1e-9 + 1e-15 * m)


@pytest.mark.parametrize("m", LARGE)
def test_products(m: float) -> None:
    """Cov(x_i x_j, x_k x_l) = sum of pairings with a pair across, means and all."""
    x = shifted(m)
    D = np.diag(COV)
    L = limit(w=x * x, u=x)
    assert L.covariance("w").value == pytest.approx(4 * m * m * COV + 2 * COV**2, rel=1e-15)
    assert L.covariance("w", "u").value == pytest.approx(2 * m * COV, rel=1e-15)
    a, b = vector("a", mean=m), vector("b", mean=Fraction(1, 3), cov=D[1])
    assert float(limit(w=a * b).covariance("w").value) == pytest.approx(D[1] + m * m * D[1] + 1 / 9, rel=1e-14)
    assert float(limit(w=a * b + 1e8).covariance("w").value) == pytest.approx(D[1] + m * m * D[1] + 1 / 9, rel=1e-14)


def test_another_law() -> None:
    """Cumulants of every order: Var x^2 = E x^4 - 1 of Rademacher is 0, Cov(x, x^3) = 1."""
    coin = Law("Rademacher", moment=lambda k: 1 - k % 2, quantile=lambda u: np.sign(u - 0.5))
    x = vector("x", law=coin)
    L = limit(a=(x + 1e6) * 2, w=x * x, u=x, c=x * x * x)
    assert float(L.covariance("w").value) == 0
    assert float(L.covariance("u", "c").value) == 1
    assert float(L.covariance("a").value) == 4


def check_nonlinear(m: float) -> None:
    """relu(x + m) is x + m where m is out of reach; alone, with x, in a sum."""
    x = shifted(0.0)
    L = limit(f=relu(x + m), x=x + m, s=x + relu(x + m))
    for name, other, expected in (("f", "f", COV), ("f", "x", COV), ("s", "s", 4 * COV)):
        value = L.covariance(name, other).value
        if not np.abs(value - expected).max() <= 1e-15 * m + 1e-11:
            raise AssertionError(f"{name}, {other}: {value}")


@pytest.mark.parametrize("m", [1e2, *LARGE])
def test_nonlinear_vectors(m: float, monkeypatch: pytest.MonkeyPatch) -> None:
    check_nonlinear(m)
    if m > 1e3:
        monkeypatch.setattr(covariances, "FEW", 0.0)
        with pytest.raises(AssertionError):
            check_nonlinear(m)


def test_few_digits_of_a_saturated_function() -> None:
    """Var tanh(x + 9) is 4 Var(e^{-2 (x + 9)}) up to e^{-18} of it: 16 digits below 1."""
    s = 0.25
    L = limit(f=tanh(vector("x", cov=s * s) + 9.0))
    expected = 4 * np.exp(-36) * (np.exp(8 * s * s) - np.exp(4 * s * s))
    assert float(L.covariance("f").value) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("m", LARGE)
def test_weighted_by_softmax(m: float) -> None:
    """Attention to values of a large mean: given the scores A, Cov = sum A A C, and the mean does not move."""
    x = vector("x", i, cov=COV.tolist())
    v = vector("v", j, mean=m, cov=COV.tolist())
    p = dot(matrix("Q") @ x, matrix("K") @ x[j])
    y = sum_over(softmax(p, over=j) * v, j)
    one, two = (limit(y=t) for t in (y, sum_over(softmax(p, over=j) * vector("u", j, cov=COV.tolist()), j)))
    assert np.abs(one.covariance("y").value - two.covariance("y").value).max() < 1e-14 + 1e-30 * m * m
    law, centred = one.law("y", i=0), two.law("y", i=0)
    assert float(law.variance) == pytest.approx(float(centred.variance), rel=1e-13)
    assert float(law.excess_kurtosis) == pytest.approx(float(centred.excess_kurtosis), rel=1e-12)


def test_means_that_depend_on_scores() -> None:
    """p v + 1e6 with v of mean 1: Var = E p^2 Var v + Var p, and Cov with the score itself is Var p, as without 1e6."""
    x, y = vector("x"), vector("y")
    p, v = dot(matrix("Q") @ x, y), vector("v", mean=1, cov=2)
    one, two = limit(s=p * v + 1e6, p=p + 1e6), limit(s=p * v, p=p)
    for name, other in (("s", "s"), ("s", "p"), ("p", "p")):
        with_mean, without = one.covariance(name, other), two.covariance(name, other)
        assert_within(with_mean, without)
        assert float(with_mean.error) < 1e-2


def test_a_variance_that_cancels_is_nothing() -> None:
    """x - x along another way, and the norm of a constant: point masses."""
    x = vector("x", mean=0.1, cov=0.7)
    W = matrix("W")
    assert "PointMass" in repr(limit(y=(x + W @ relu(x)) - (W @ relu(x)) - x).law("y"))
    assert float(limit(y=layernorm(x + 1e3)).covariance("y").value) == pytest.approx(1, rel=1e-11)
    assert float(limit(m=mean(x + 1e6)).mean("m").value) == pytest.approx(1e6 + 0.1, rel=1e-15)


def test_mutant_without_the_pairs_across(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the cumulants of products, all have to be there."""
    right = Moments.isserlis

    def fewer(at: Moments, atoms: list[Term], left: int = 0) -> Poly:
        return right(at, atoms[:2], 1) if left else right(at, atoms)

    monkeypatch.setattr(Moments, "isserlis", fewer)
    with pytest.raises(AssertionError):
        test_products(1e3)
