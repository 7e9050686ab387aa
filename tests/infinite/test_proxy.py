"""Variance proxies: known values, never below a conditional variance that is drawn, refused where there is none."""

import pickle
from typing import Any

import numpy as np
import pytest

from netsor import (
    Numerical,
    Plate,
    Program,
    dot,
    exp,
    hardmax,
    matrix,
    mean_over,
    relu,
    sigmoid,
    softmax,
    sqrt,
    sum_over,
    vector,
)
from netsor.finite.laws import finite_law
from netsor.loading import find, load

THREE = ((1, 0.5, 0.2), (0.5, 1.5, 0.4), (0.2, 0.4, 0.8))
PROGRAMS = sorted(file.stem for file in find.__globals__["shipped"]("programs").glob("*.py") if file.stem != "tied_attention")


def attention(weights: Any = softmax, cov: Any = None, heads: int = 2, sigma: float = 1, tokens: int = 3) -> Any:
    token, head = Plate("token", tokens), Plate("head", heads)
    i, j = token.indices("i j")
    a = head.index("a")
    x = vector("x", i, cov=cov)
    p = dot(matrix("WQ", a, sigma=3) @ x, matrix("WK", a) @ x[j])
    y = sum_over(weights(p, over=j) * (matrix("WV", a, sigma=sigma) @ x[j]), j, a) / sqrt(head.size)
    return Program("attention", y=y, u=x + 2 * y, f=dot(vector("v"), x[0])).limit()


@pytest.mark.parametrize("heads", [1, 2, 16])
@pytest.mark.parametrize(("cov", "expected"), [(None, 1), (THREE, 1.5), (0.25, 0.25)])
def test_attention(heads: int, cov: Any, expected: float) -> None:
    """max_j K_jj, for any number of heads; the largest variance that is drawn comes near it, from below, for one head."""
    law = attention(cov=cov, heads=heads).law("y", i=0, runs=2**12)
    assert law.variance_proxy == pytest.approx(expected, rel=1e-12)
    assert law.variances.max() <= expected * (1 + 1e-9)
    if heads == 1:
        assert law.variances.max() > 0.8 * expected


def test_sigma_residuals_and_scores() -> None:
    assert attention(sigma=2).law("y", i=0, runs=64).variance_proxy == pytest.approx(4)
    assert attention(sigma=2).law("u", i=0, runs=64).variance_proxy == pytest.approx(1 + 4 * 4)
    assert attention().law("f", runs=64).variance_proxy == pytest.approx(1)
    assert load("attention", {"phi": "relu"}).limit().law("y", i=0, runs=64).variance_proxy == pytest.approx(0.5)


def test_the_argument() -> None:
    text = attention().law("y", i=0, runs=64).variance_proxy.explain()
    assert "weights on the simplex over token" in text
    assert "independent given the scores" in text
    assert text.endswith("P(|Z| > t) <= 2 exp(-t²/2)")


def test_a_law_can_be_pickled() -> None:
    law = pickle.loads(pickle.dumps(attention().law("y", i=0, runs=64)))
    with pytest.raises(Numerical, match="not that of a limit"):
        _ = law.variance_proxy


def test_other_weights() -> None:
    """Hard attention and averages are on the simplex; bounded weights have a bound, which is larger."""
    assert attention(hardmax).law("y", i=0, runs=64).variance_proxy == pytest.approx(1)
    bounded = attention(lambda p, over: sigmoid(p)).law("y", i=0, runs=2**10)
    assert bounded.variances.max() <= bounded.variance_proxy <= 9
    shared = Program("m", y=mean_over(vector("x", i := Plate("t", 4).index("i")), i)).limit().law("y")
    assert shared.variance_proxy == pytest.approx(0.25)


def test_means_are_not_uncorrelated() -> None:
    """u = (1 + W1 z) + (1 + W2 z) has E u² = 4 + 2 E z², up to 6; added up as if uncorrelated the bounds give 4."""
    i, j = Plate("token", 3).indices("i j")
    x = vector("x", i)
    z = sum_over(softmax(9 * dot(matrix("Q") @ x, matrix("K") @ x[j]), over=j) * (matrix("V") @ x[j]), j)
    u = (1 + matrix("W1") @ z) + (1 + matrix("W2") @ z)
    law = Program("means", y=matrix("W") @ u).limit().law("y", i=0, runs=2**10)
    assert 5.9 < law.variances.max() <= law.variance_proxy <= 8 + 1e-9


@pytest.mark.parametrize("weights", [lambda p, over: p, lambda p, over: exp(p / 9), lambda p, over: relu(p)])
def test_no_claim_off_the_simplex(weights: Any) -> None:
    with pytest.raises(Numerical, match="not bounded, and not on the simplex"):
        _ = attention(weights).law("y", i=0, runs=64).variance_proxy


def test_no_claim_for_other_laws() -> None:
    """At width n tokens are random; after a nonlinearity the law is no mixture of centred Gaussians."""
    i = Plate("token", 2).index("i")
    with pytest.raises(Numerical, match="not that of a limit"):
        _ = finite_law(vector("x", i)[0], width=4, runs=32, rng=0).variance_proxy
    with pytest.raises(Numerical, match="not Gaussian given the scores"):
        _ = Program("r", y=relu(matrix("W") @ vector("x"))).limit().law("y", runs=64).variance_proxy
    with pytest.raises(Numerical, match="mean given the scores is not 0"):
        _ = Program("m", x=vector("x", mean=1)).limit().law("x", runs=64).variance_proxy
    with pytest.raises(Numerical, match="infinitely many"):
        _ = load("attention", {"heads": "0", "head": "oo"}).limit().law("y", i=0, runs=64).variance_proxy


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_program_exceeds_its_proxy(name: str) -> None:
    """Every variable of every program: no conditional variance that is drawn is above the proxy, where there is one."""
    P = load(name, {})
    L = P.limit()
    for variable, term in P.items():
        law = L.law(variable, runs=256, **{i.name: 0 for i in term.free})
        try:
            proxy = law.variance_proxy
        except Numerical:
            continue
        assert law.variances.max() <= proxy * (1 + 1e-9), variable
        t = np.array([0.5, 1.0, 2.0, 4.0]) * np.sqrt(float(proxy))
        tails = 1 - np.asarray(law.cdf(t)) + np.asarray(law.cdf(-t))
        assert (tails <= proxy.bound(t) + 1e-12).all(), variable
