"""Exact moments at width n: against known formulas, and against dense draws at small n."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
import sympy as sp
from calibrated import ALARM, assert_within, average

from netsor import (
    IllFormed,
    Plate,
    Program,
    Width,
    clip,
    dot,
    finite_moment,
    matrix,
    mean,
    param,
    simulate,
    sqrt,
    sum_over,
    table,
    vector,
)
from netsor.loading import load

N = sp.Symbol("n", integer=True, positive=True)
RUNS = 200_000


def score() -> Any:
    x = vector("x")
    return dot(matrix("Q") @ x, matrix("K") @ x)


def test_a_score() -> None:
    second, fourth = (finite_moment(score(), k) for k in (2, 4))
    assert sp.simplify(second - (1 + 2 / N)) == 0
    kurtosis = (3 + 6 / N) * (1 + 4 / N) * (1 + 6 / N) / (1 + 2 / N)
    assert sp.simplify(fourth / second**2 - kurtosis) == 0


def test_powers() -> None:
    assert finite_moment(score(), 0) == 1
    assert finite_moment(score(), 1) == finite_moment(score(), 3) == 0


def test_other_formulas() -> None:
    """|x|²/n is chi-square over n; a matrix in front multiplies by another one; two tokens; a loop counts the rows."""
    x, z = vector("x"), vector("z")
    assert sp.simplify(finite_moment(mean(x * x), 2) - (1 + 2 / N)) == 0
    g = matrix("W") @ x
    assert sp.simplify(finite_moment(mean(g * g), 2) - (1 + 2 / N) ** 2) == 0
    assert finite_moment(dot(matrix("Q") @ x, matrix("K") @ z), 2) == 1
    wide = matrix("W", shape=(3 * Width(), Width()), sigma=2) @ x
    assert finite_moment(mean(wide * wide)) == 4
    assert finite_moment(dot(x, 1), 2) == 1
    assert finite_moment(mean(2 + 0 * x), 3) == 8


def test_every_number_is_exact() -> None:
    i = Plate("token", 2).index("i")
    x = vector("x", i, cov=[[1, Fraction(1, 3)], [Fraction(1, 3), 1]])
    moment = finite_moment(mean(x[0] * x[1]), 2)
    assert sp.simplify(moment - (sp.Rational(1, 9) + sp.Rational(10, 9) / N)) == 0


def test_the_limit_of_a_moment_is_that_of_the_limit() -> None:
    """Linear attention: E y² of the program, and in the limit."""
    P = load("linear_attention", {"tokens": "3"})
    y = P["y"][0]
    moment = finite_moment(mean(y * y))
    assert moment.limit(N, sp.oo) == 3
    assert float(moment.subs(N, 8)) > 3
    assert float(P.limit().law("p", i=0, j=1).variance) == float(finite_moment(P["p"][0, 1], 2))


def tied() -> Any:
    i = Plate("token", 2).index("i")
    x, W = vector("x", i, cov=[[1, 0.5], [0.5, 2]]), matrix("W", sigma=0.5)
    return dot(W @ x[0], W @ x[1])


def deep() -> Any:
    x = vector("x")
    h = x + matrix("W1") @ x
    return dot(matrix("W2") @ h - h, matrix("W3", sigma=2) @ x)


def heads() -> Any:
    head, token = Plate("head", 2), Plate("token", 2)
    a = head.index("a")
    i, j = token.indices("i j")
    x = vector("x", i)
    p = dot(matrix("Q", a) @ x, matrix("K") @ x[j])
    y = sum_over(sum_over(p * (matrix("V", a) @ x[j]), j, where=j <= i), a) / sqrt(head.size)
    return mean(y[1] * y[1])


def weighted() -> Any:
    i = Plate("token", 3).index("i")
    x = vector("x", i, cov=0.5)
    return sum_over(table("c", i, values=[1, -2, 0.5]) * dot(vector("v"), x), i) ** 2 + 1


def rectangular() -> Any:
    m, n = 2 * Width("n"), Width("n")
    x = vector("x", width=n)
    q, k = (matrix(r, shape=(m, n)) @ x for r in "QK")
    return dot(q, k + 0.5 * q) / 2


@pytest.mark.parametrize("build", [score, tied, deep, heads, weighted, rectangular])
@pytest.mark.parametrize("n", [2, 5])
@pytest.mark.filterwarnings("ignore:.*has no limit")
def test_against_dense_draws(build: Callable[[], Any], n: int) -> None:
    term = build()
    draws = simulate(Program("drawn", t=term), width=n, runs=RUNS, rng=n, outputs={"t": {}}, engine="dense")["t"]
    for power in (1, 2):
        exact = float(finite_moment(term, power).subs(N, n))
        assert_within(average(draws**power), exact, ALARM, 500)


@pytest.mark.parametrize(
    ("term", "power", "code"),
    [
        (lambda: mean(clip(1)(vector("x"))), 1, "NS309"),
        (lambda: mean(vector("x", mean=1)), 1, "NS309"),
        (lambda: dot(vector("x"), vector("y") * vector("z")), 1, "NS309"),
        (lambda: mean(matrix("W") @ (matrix("W") @ vector("x"))), 1, None),
        (lambda: (lambda W, x: dot(W @ (W @ x), W @ x))(matrix("W"), vector("x")), 2, "NS309"),
        (lambda: vector("x"), 1, "NS302"),
        (lambda: dot(vector("x", Plate("t", 2).index("i")), 1), 1, "NS302"),
        (lambda: score(), -1, "NS306"),
        (lambda: score(), 1.5, "NS306"),
        (lambda: param("beta") * score(), 2, "NS304"),
        (lambda: sum_over(dot(vector("x", i := Plate("t").index("i")), 1), i), 2, "NS304"),
    ],
)
def test_refusals(term: Callable[[], Any], power: Any, code: str | None) -> None:
    if code is None:
        assert finite_moment(term(), power) == 0
        return
    with pytest.raises(IllFormed, match=code):
        finite_moment(term(), power)
