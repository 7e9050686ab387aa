"""Where the values of a term lie: as sharp as interval arithmetic allows."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from netsor import Plate, Program, clip, dot, elementwise, exp, log, matrix, mean, oo, param, sqrt, sum_over, tanh, vector
from netsor.algebra.ranges import INF, Ranges, divided, hull, law_range, magnitude, multiplied, power
from netsor.binding import table
from netsor.functions import max_over, mean_over, softmax
from netsor.ir import Term, distinct
from netsor.rules.input import Law

TOKEN, LOOSE = Plate("token", 3), Plate("loose")
i, j = TOKEN.indices("i j")
k = LOOSE.index("k")
x, y = vector("x"), vector("y")
t, u = sympy.symbols("t u")
X, K = vector("X", i), vector("K", k)
P = dot(X, vector("Y", i))
half, far = clip(Fraction(1, 2)), 3 + clip(2)(x)  # in [-1/2, 1/2]; in [1, 5]
near = half(x) - 2  # in [-5/2, -3/2]


HEAD = Plate("head").index("a")
SCORE = dot(matrix("Q", HEAD) @ x, matrix("K", HEAD) @ y)
MANY = Program("many", m=sum_over(half(SCORE), HEAD) / HEAD.plate.size).at(head=oo)["m"]


def uniform(low: float, high: float) -> Term:
    return vector("u", law=Law("uniform", moment=lambda k: 0, quantile=lambda q: low + (high - low) * q))


def own(expression: Any) -> Any:
    return elementwise(sympy.Lambda((t, u), expression), name="own")


TERMS: dict[str, tuple[Term, float, float]] = {
    "a Gaussian": (x, -INF, INF),
    "a matrix times a vector": (matrix("W") @ tanh(x), -INF, INF),
    "a law with a support": (uniform(-1, 3), -1, 3),
    "a score": (P, -INF, INF),
    "a score of bounded vectors": (dot(half(x), half(y)), -INF, INF),
    "an average": (mean(far), 1, 5),
    "an average over infinitely many members": (MANY, -0.5, 0.5),
    "an average of a Gaussian": (mean(x), -INF, INF),
    "a parameter": (param("c", 3) * far, 3, 15),
    "a free parameter": (param("c"), -INF, INF),
    "a size": (1 / TOKEN.size, 1 / 3, 1 / 3),
    "an unbound size": (1 / LOOSE.size, 0, 1),
    "a predicate": (distinct(i, j) - 2 * (i < j), -2, 1),
    "a conjunction": (2 * (distinct(i, j) & (i < 2)), 0, 2),
    "a disjunction": (2 * (distinct(i, j) | (i < 2)), 0, 2),
    "a negation": (2 * ~distinct(i, j), 0, 2),
    "a table": (table("c", i, values=[2.0, -1.0, 5.0]), -1, 5),
    "an unbound table": (table("c", i), -INF, INF),
    "a sum": (far + half(x), 0.5, 5.5),
    "a difference": (far - half(x), 0.5, 5.5),
    "a product": (far * near, -12.5, -1.5),
    "a quotient": (far / near, -10 / 3, -0.4),
    "a quotient by what may vanish": (1 / half(x), -INF, INF),
    "a square": (half(x) * half(x), 0, 0.25),
    "a square of what is negative": (near**2, 2.25, 6.25),
    "a cube": (near**3, -(2.5**3), -(1.5**3)),
    "an inverse square": (near**-2, 1 / 6.25, 1 / 2.25),
    "a root": (sqrt(far), 1, math.sqrt(5)),
    "an inverse root": (far ** Fraction(-1, 2), 1 / math.sqrt(5), 1),
    "a power of a positive number": (2**x, 0, INF),
    "a power of a small number": (0.5**x, 0, INF),
    "a power of something": (half(x) ** x, -INF, INF),
    "|x|": (abs(x), 0, INF),
    "|.| of what is negative": (abs(near), 1.5, 2.5),
    "exp": (exp(half(x)), math.exp(-0.5), math.exp(0.5)),
    "exp of what is large": (exp(1000 + half(x)), INF, INF),
    "log": (log(far), 0, math.log(5)),
    "log of what is small": (log((half(x) + 1) / 2), math.log(0.25), math.log(0.75)),
    "log of a size": (log(abs(x)), -INF, INF),
    "maximum": (own(sympy.Max(t, u))(far, half(x)), 1, 5),
    "minimum": (own(sympy.Min(t, u))(far, half(x)), -0.5, 0.5),
    "a bounded function": (tanh(x), -1, 1),
    "pieces": (own(sympy.Piecewise((3, t > u), (sympy.tanh(t), True)))(x, y), -1, 3),
    "a sum over members": (sum_over(half(X) + 1, i), 1.5, 4.5),
    "a sum over some members": (sum_over(half(X) + 1, i, where=i < 2), 0, 4.5),
    "a sum of negative numbers over some members": (sum_over(half(X) - 1, i, where=i < 2), -4.5, 0),
    "a sum over members of both signs": (sum_over(half(X), i), -1.5, 1.5),
    "a sum over some members of both signs": (sum_over(half(X), i, where=i < 2), -1.5, 1.5),
    "a sum over a plate without a size": (sum_over(half(K) + 1, k), 0.5, INF),
    "a sum of negative numbers over one": (sum_over(half(K) - 1, k), -INF, -0.5),
    "an average over members": (mean_over(half(X) + 1, i), 0.5, 1.5),
    "the largest": (max_over(half(X) + 1, i), 0.5, 1.5),
    "the largest of some": (max_over(half(X) + 1, i, where=i < 2), 0, 1.5),
    "the largest of some negative ones": (max_over(half(X) - 1, i, where=i < 2), -1.5, 0),
    "softmax": (softmax(P, over=i), 0, 1),
}


@pytest.mark.parametrize("name", TERMS)
def test_range(name: str) -> None:
    term, low, high = TERMS[name]
    assert Ranges(lambda scalar: None).of(term) == pytest.approx((low, high))


def test_known_scalars() -> None:
    """What is known of a scalar in numbers counts where structure leaves its sign open, and only there."""
    asked: list[Term] = []

    def known(scalar: Term) -> tuple[float, float]:
        asked.append(scalar)
        return (1.0, 2.0)

    ranges = Ranges(known)
    assert ranges.of(mean(x)) == (1, 2)
    assert ranges.of(half(mean(x))) == (1, 2)
    n = len(asked)
    for open_sign_or_not in (mean(far), half(x), param("c", 0), mean(far - 6), x):
        assert ranges.of(open_sign_or_not) != (1, 2)
    assert len(asked) == n


# ---------------------------------------------------------------------------------------------------------------- intervals

ends = st.sampled_from([-INF, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, INF])
intervals = st.tuples(ends, ends).map(sorted).map(tuple).filter(lambda r: r[0] < INF and r[1] > -INF)


def inside(r: tuple[float, float]) -> np.ndarray:
    lo, hi = max(r[0], -50.0), min(r[1], 50.0)
    return np.unique([lo, hi, *np.linspace(lo, hi, 41), *(v for v in (-1e-3, 0.0, 1e-3) if lo <= v <= hi)])


Binary = Callable[[Any, Any], Any]


@pytest.mark.parametrize(
    ("f", "values"),
    [(multiplied, np.multiply), (divided, np.divide), (hull, lambda a, b: np.concatenate([a + 0 * b, b + 0 * a]))],
)
@given(intervals, intervals)
def test_two_intervals(f: Binary, values: Binary, a: tuple[float, float], b: tuple[float, float]) -> None:
    """Every value lies inside, and a finite end is reached."""
    lo, hi = f(a, b)
    with np.errstate(all="ignore"):
        found = values(inside(a)[:, None], inside(b)).ravel()
    check_hull(lo, hi, found[np.isfinite(found)])


@given(intervals, st.sampled_from([-3, -2, -1, -0.5, 0.5, 1, 1.5, 2, 3]))
def test_powers(a: tuple[float, float], k: float) -> None:
    with np.errstate(all="ignore"):
        found = inside(a) ** k
    found = found[np.isfinite(found)]
    if found.size and (k == int(k) or a[0] >= 0):
        check_hull(*power(a, k), found)


@given(intervals)
def test_magnitude(a: tuple[float, float]) -> None:
    check_hull(*magnitude(a), np.abs(inside(a)))


def check_hull(lo: float, hi: float, found: np.ndarray) -> None:
    if not found.size:
        return
    assert lo <= found.min() + 1e-12
    assert hi >= found.max() - 1e-12
    assert lo == -INF or lo >= found.min() - 0.2  # inside() ends at 50
    assert hi == INF or hi <= found.max() + 0.2


def test_powers_of_what_is_too_large() -> None:
    assert power((1.0, 1e200), 2) == (1, INF)
    assert power((-1e200, 1.0), 3) == (-INF, 1)
    assert [d.severity for d in Program("root", y=sqrt(clip(1e200)(x) ** 3)).check()] == ["refused"]


# --------------------------------------------------------------------------------------------------------------------- laws


@pytest.mark.parametrize(
    ("quantile", "support"),
    [
        (lambda q: 2 * q - 1, (-1, 1)),
        (lambda q: 1 - q, (-INF, INF)),  # falling: no quantile function
        (lambda q: math.log(q), (-INF, INF)),  # no value at 0
        (lambda q: q / (1 - q), (-INF, INF)),
        (lambda q: q[0], (-INF, INF)),
        (lambda q: math.nan, (-INF, INF)),
        (lambda q: 1.0, (1, 1)),
    ],
)
def test_support(quantile: Callable[[Any], Any], support: tuple[float, float]) -> None:
    assert law_range(Law("own", moment=lambda k: 0, quantile=quantile)) == support


def test_a_gaussian_has_the_line() -> None:
    assert law_range(None) == (-INF, INF)
