"""Moments at width n that are known exactly."""

import numpy as np
import pytest
from joint_tests import drawn
from scipy.stats import norm

from netsor import Plate, Program, dot, matrix, simulate, sum_over, vector
from netsor.finite.laws import finite_law

ALARM = 1e-7  # two-sided, of one number


def within(value: float, error: float, expected: float) -> None:
    assert abs(value - expected) <= norm.isf(ALARM / 2) * error, f"{value} ± {error} for {expected}"


def score(engine: str, n: int, runs: int) -> None:
    """E p^2 = 1 + 2/n and excess kurtosis (3 + 6/n)(1 + 4/n)(1 + 6/n)/(1 + 2/n) - 3 of p = n^{-1/2} <W^Q x, W^K x>.

    Given x, p is a product of chi variables and a normal. Errors by the delta method from the draws themselves.
    """
    x = vector("x")
    p = drawn({"p": dot(matrix("Q") @ x, matrix("K") @ x)}, engine, n, runs)[:, 0]
    second, fourth = p**2, p**4
    within(second.mean(), second.std() / np.sqrt(runs), 1 + 2 / n)
    ratio = fourth.mean() / second.mean() ** 2
    slope = fourth / second.mean() ** 2 - 2 * ratio * second / second.mean()
    within(ratio, slope.std() / np.sqrt(runs), (3 + 6 / n) * (1 + 4 / n) * (1 + 6 / n) / (1 + 2 / n))


@pytest.mark.parametrize(("engine", "n", "runs"), [("dense", 8, 50_000), ("lazy", 64, 20_000), ("collapsed", 64, 10**6)])
def test_a_score(engine: str, n: int, runs: int) -> None:
    """Detects 0.7 % of the variance at a million runs."""
    score(engine, n, runs)


@pytest.mark.nightly
@pytest.mark.parametrize("n", [64, 256])
@pytest.mark.parametrize("engine", ["dense", "lazy", "collapsed"])
def test_a_score_at_length(engine: str, n: int) -> None:
    score(engine, n, 10**6)


def identity_layers(heads: int) -> Program:
    """Two layers of attention without softmax on one token."""
    a = Plate("head", heads).index("a")
    x, out = vector("x"), {}
    for layer in (1, 2):
        WQ, WK, WV, WO = (matrix(f"W{r}{layer}", a) for r in "QKVO")
        p = dot(WQ @ x, WK @ x)
        x = sum_over(WO @ (p * (WV @ x)), a) / heads**0.5
        out |= {f"p{layer}": p, f"y{layer}": x}
    return Program("identity", **out)


@pytest.mark.parametrize("heads", [1, 2, 8])
def test_two_layers_of_identity_attention(heads: int) -> None:
    """E p2^2 = (H + 2)/H and E y2^2 = (H + 2)(H + 4)/H^2 in the limit, from n = 4096 and 16384 extrapolated in 1/n."""
    program, runs = identity_layers(heads), 200_000
    p, y = [], []
    for n in (4096, 16384):
        law = finite_law(program["y2"], width=n, runs=runs, rng=n)
        y.append((law.moment(2), law.moment(2).error))
        draws = simulate(program, width=n, runs=runs, rng=n, outputs={"p2": {"a": 0}})["p2"] ** 2
        p.append((draws.mean(), draws.std() / np.sqrt(runs)))
    for (coarse, fine), expected in ((p, (heads + 2) / heads), (y, (heads + 2) * (heads + 4) / heads**2)):
        value = fine[0] + (fine[0] - coarse[0]) / 3
        within(value, np.hypot(4 / 3 * fine[1], coarse[1] / 3), expected)


@pytest.mark.parametrize("engine", ["dense", "lazy", "collapsed"])
def test_the_last_source_is_integrated_out(engine: str) -> None:
    """The mixture given all but the last matrix has the variance of the draws, exactly that of the score: 1 + 2/n."""
    x = vector("x")
    p = dot(matrix("Q") @ x, matrix("K") @ x)
    law = finite_law(p, width=16, runs=16 * 1024, rng=0, engine=engine)
    assert type(law).__name__ == "Mixture"
    assert abs(law.variance - (1 + 2 / 16)) <= 8 * law.variance.error  # Student's t with 15 degrees: 1e-6 at 7.9
    assert law.variance.error < 0.02
