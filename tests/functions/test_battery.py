"""Every public function: numpy against sympy, kinks and jumps where they are declared, Gaussian expectations to 1e-10.

A new coordinatewise function is tested by being public; a factory needs an instance in `MADE`, expectations.py.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import mpmath
import numpy as np
import pytest
import sympy
from calibrated import Deviates, assert_detects
from expectations import MADE, expect1, expect2, matrices, piece_at
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import expit

from netsor import functions
from netsor.binding import table
from netsor.closed.product import multiplied
from netsor.functions import (
    cos,
    elementwise,
    erf,
    hardmax,
    layernorm,
    max_over,
    mean_over,
    relu,
    rmsnorm,
    sigmoid,
    sign,
    silu,
    softmax,
    step,
    sum_over,
    tanh,
    top_k,
)  # fmt: skip
from netsor.ir import Function, Index, Plate, Term
from netsor.limit import Limit
from netsor.numeric import quadrature
from netsor.numeric.closed import closed
from netsor.numeric.interpreter import Interpreter
from netsor.numeric.quadrature import Feature
from netsor.ops import Fn, Gate
from netsor.program import Program
from netsor.rules import matrix, vector
from netsor.simulation import simulate

ALONG = {"hardmax", "max_over", "mean_over", "softmax", "sum_over", "top_k"}
PROGRAMS = {"layernorm", "maximum", "minimum", "rmsnorm"}  # functions of terms
POSITIVE = {"log", "sqrt"}  # defined on half of the line: a vector as argument is refused


def public() -> dict[str, Function]:
    """The coordinatewise functions by name."""
    named = {name: MADE.get(name, getattr(functions, name)) for name in functions.__all__}
    return {name: f for name, f in named.items() if isinstance(f, Function)}


FUNCTIONS = public()
ON_THE_LINE = [f for name, f in FUNCTIONS.items() if name not in POSITIVE]
every = pytest.mark.parametrize("f", FUNCTIONS.values(), ids=str)
on_the_line = pytest.mark.parametrize("f", ON_THE_LINE, ids=str)


def check_close(value: np.ndarray | float, expected: np.ndarray | float, tolerance: np.ndarray | float) -> None:
    excess = np.abs(np.subtract(value, expected)) - tolerance
    if not (excess <= 0).all():
        raise Deviates(f"off by {np.max(excess):.3g} more than {np.max(tolerance):.3g}")


def test_every_public_function_has_its_battery() -> None:
    assert set(functions.__all__) == {*FUNCTIONS, *ALONG, *PROGRAMS, "elementwise"}


# --------------------------------------------------------------------------------------------------------- numpy and sympy


@cache
def exact(f: Fn) -> Callable[[mpmath.mpf], mpmath.mpf]:
    x = sympy.Symbol("x", real=True)
    return sympy.lambdify(x, f.sympy(sympy, x), "mpmath")


def check_sympy(f: Fn, x: float) -> None:
    with mpmath.workdps(400):
        expected = float(exact(f)(mpmath.mpf(x)))
    check_close(float(f.numpy(np.array([x]))[0]), expected, 1e-14 * abs(expected))


@every
@given(x=st.floats(-8, 8).map(lambda x: x + 0.0))
@example(x=0.0)
@example(x=1.5)
@example(x=-1.5)
def test_numpy_is_sympy(f: Fn, x: float) -> None:
    """To 1e-14 of the value, 400 digits (exp(x) - 1 at 1e-300) against doubles."""
    positive = f.name in POSITIVE
    check_sympy(f, abs(x) + 1e-3 if positive else x if abs(x) > 1e-300 else 0.0)


# ---------------------------------------------------------------------------------------------------------- kinks and jumps


def places(x: np.ndarray, hit: np.ndarray) -> list[float]:
    """Where runs of hits lie, to 1e-3."""
    found: list[float] = []
    for at in x[hit]:
        if not found or at - found[-1] > 1e-2:
            found.append(float(at))
    return [round(at, 3) + 0.0 for at in found]


def check_smoothness(f: Fn) -> None:
    """The slope or its slope changes by more than 0.1 within 3e-4 at the declared kinks only, the value at the jumps only."""
    lo, step_ = (0.5 if f.name in POSITIVE else -4.0), 1e-4
    x = np.arange(lo - 0.3 * step_, 4, step_)
    values = f.numpy(x)
    kinks = places(x[1:-2], np.abs(np.diff(values, 3)) > 0.1 * step_**2)
    jumps = places(x[1:], np.abs(np.diff(values)) > 0.1)
    declared = sorted(place for place, width in f.features if width == 0 and place >= lo)
    assert kinks == declared, f"{f}: the slope jumps at {kinks}, declared are {declared}"
    assert jumps == sorted(f.jumps), f"{f}: it jumps at {jumps}, declared are {f.jumps}"


@every
def test_kinks_and_jumps_are_declared(f: Fn) -> None:
    check_smoothness(f)


# ------------------------------------------------------------------------------------------------------ Gaussian expectations

ROOT = np.array([[1, 0], [-1.5, 0], [0, 0.8], [0.72, 0.96], [1, 0], [0, 0]])  # correlations ±1, 0, 0.6, and a constant
COV = ROOT @ ROOT.T
MEAN = np.array([0.0, 0.3, -0.7, 0.0, 0.0, 0.4])
EDGES = np.linspace(-12, 12, 49)
NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)

Real = Callable[[np.ndarray], np.ndarray]


def gauss(f: Real, mean: np.ndarray, deviation: float, kinks: Sequence[float]) -> np.ndarray:
    """E f(mean + deviation Z): panels of half a standard deviation, cut at the kinks. Shapes: (k,) to (k,)."""
    if deviation == 0:
        return f(mean)
    cuts = np.clip((np.array(kinks) - mean[:, None]) / deviation, -12, 12)
    edges = np.sort(np.concatenate([np.broadcast_to(EDGES, (len(mean), EDGES.size)), cuts], 1), 1)
    half = np.diff(edges)[..., None] / 2
    z = edges[:, :-1, None] + half * (1 + NODES)
    values = f((mean[:, None, None] + deviation * z).ravel()).reshape(z.shape)
    return (half * WEIGHTS * np.exp(-z * z / 2) * values).sum((1, 2)) / np.sqrt(2 * np.pi)


def pair(f: Real, kinks: Sequence[float], m: Sequence[float], v: float, w: float, c: float) -> float:
    """E f(X) f(Y), means m, variances v, w, covariance c, the second given the first. At correlation ±1, and where X
    is constant, one integral, whose kinks are those of both factors."""
    if v == 0:
        return float(f(np.array([m[0]]))[0] * gauss(f, np.array([m[1]]), np.sqrt(w), kinks)[0])
    slope, left = c / v, max(w - c * c / v, 0.0)
    left = left if left > 1e-14 * w else 0.0
    pulled = [m[0] + (k - m[1]) / slope for k in kinks] if left == 0 and slope else []

    def product(x: np.ndarray) -> np.ndarray:
        return f(x) * gauss(f, m[1] + slope * (x - m[0]), np.sqrt(left), kinks)

    return float(gauss(product, np.array([m[0]]), np.sqrt(v), [*kinks, *pulled])[0])


def kinks_of(f: Fn) -> list[float]:
    return [place for place, width in f.features if width == 0]


def limit_of(f: Function) -> Limit:
    i = Plate("point", len(MEAN)).index("i")
    x = vector("x", i, cov=COV) + table("m", i, values=list(MEAN))
    return Program("test", y=f(x)).limit()


@on_the_line
def test_expectations_of_the_limit(f: Function) -> None:
    """E f(X_i) and Cov(f(X_i), f(X_j)) at correlations -1, 0, 0.6, 1, other means and variances, and at a constant, to
    1e-10 of sqrt(E f² E f²)."""
    kinks, indices = kinks_of(f), range(len(MEAN))
    mean = np.array([gauss(f.numpy, MEAN[[i]], np.sqrt(COV[i, i]), kinks)[0] for i in indices])
    second = np.array(
        [[pair(f.numpy, kinks, (MEAN[i], MEAN[j]), COV[i, i], COV[j, j], COV[i, j]) for j in indices] for i in indices]
    )
    L, size = limit_of(f), np.sqrt(second.diagonal())
    check_close(L.mean("y").value, mean, 1e-10 * size)
    check_close(L.covariance("y").value, second - np.outer(mean, mean), 1e-10 * np.outer(size, size))


@cache
def covariances() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """200 random ones, a quarter of them with a correlation within 1e-3 of ±1."""
    rng = np.random.default_rng(0)
    v, w = np.exp(rng.uniform(-2, 2, (2, 200)))
    r = rng.uniform(-1, 1, 200)
    r[:50] = np.sign(r[:50]) * (1 - 1e-3 * np.abs(r[:50]))
    return v, w, r * np.sqrt(v * w)


@cache
def by_quadrature(name: str) -> np.ndarray:
    """E f(X) f(Y) in the plane."""
    f = FUNCTIONS[name]
    features = [Feature(place, width) for place, width in f.features]

    def product(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return f.numpy(x) * f.numpy(y)

    parts = [[a[k : k + 10] for a in covariances()] for k in range(0, 200, 10)]
    return np.concatenate([quadrature.expect2(product, 0, 0, *vwc, features, features, level=2) for vwc in parts])


def check_pieces(f: Fn) -> None:
    """The pieces are the function: E f(X) f(Y) and E f(X) by them are those of its numpy."""
    v, w, c = covariances()
    expected = by_quadrature(f.name)
    size = np.sqrt(expect2(f, f, v, v, v) * expect2(f, f, w, w, w))
    tolerance = np.maximum(1e-12 * np.abs(expected), 1e-14 * size)
    check_close(expect2(f, f, v, w, c), expected, tolerance)
    m = np.linspace(-3, 3, v.size)
    mean = np.array([gauss(f.numpy, m[[k]], np.sqrt(v[k]), kinks_of(f))[0] for k in range(v.size)])
    spread = 1e-14 * np.sqrt(expect2(f, f, v, v, v, np.array([m, m])))
    check_close(expect1(f, m, v), mean, np.maximum(1e-12 * np.abs(mean), spread))
    terms = multiplied([(0, f.pieces), (1, f.pieces)], 2)
    assert terms is not None
    value, error = closed(terms, np.zeros((2, v.size)), matrices(v, w, c))
    check_close(value, expected, tolerance + error)
    assert np.median(error / size) < 1e-13, "a closed form that is not used"


WITH_PIECES = [f for f in FUNCTIONS.values() if f.pieces]


@pytest.mark.parametrize("f", WITH_PIECES, ids=str)
def test_closed_forms(f: Fn) -> None:
    """At 200 covariances to 1e-12 of the value, or 1e-14 of sqrt(E f² E f²) where it cancels; the bound of the rounding error
    is one, and small."""
    check_pieces(f)


def check_values(f: Fn) -> None:
    """The sum of the pieces, evaluated at numbers, is the function: 1e-14 of the largest piece."""
    x = np.linspace(-4.1, 4.1, 82)
    values = np.array([piece_at(p, x) for p in f.pieces])
    check_close(values.sum(0), f.numpy(x), 1e-14 * np.abs(values).max(0))


@pytest.mark.parametrize("f", WITH_PIECES, ids=str)
def test_pieces_are_the_function(f: Fn) -> None:
    check_values(f)


def test_relu_keeps_its_digits_at_opposite_arguments() -> None:
    """(2 · 1e-8)^(3/2) / 6π at ρ = -1 + 1e-8, where the textbook formula has none; and exact correlations ±1."""
    assert expect2(relu, relu, 1.0, 1.0, -1 + 1e-8) == pytest.approx(1.500527e-13, rel=1e-6)
    assert expect2(relu, relu, 4.0, 9.0, np.array([-6.0, 0.0, 6.0])) == pytest.approx([0, 3 / np.pi, 3])


# ----------------------------------------------------------------------------------------------------------- along a plate


def evaluated(make: Callable[[Term, Index], Term], x: np.ndarray) -> np.ndarray:
    i = Plate("token", len(x)).index("i")
    value = Interpreter().value(make(table("x", i, values=list(x)), i))
    return value.full(value.over)[..., 0, 0]


rows = arrays(float, st.integers(1, 6), elements=st.floats(-1e3, 1e3))


@given(rows, st.floats(-1e3, 1e3))
@example(np.array([1e3, -1e3, 0.0]), 0.0)
def test_softmax(x: np.ndarray, shift: float) -> None:
    """Weights that sum to 1, are ordered like x, do not see a shift (to its rounding), and are exp(x) normalised."""
    A = evaluated(lambda t, i: softmax(t, over=i), x)
    assert A.sum() == pytest.approx(1, abs=1e-14)
    assert (np.diff(A[np.argsort(x, kind="stable")]) >= 0).all()
    assert np.abs(A - evaluated(lambda t, i: softmax(t + shift, over=i), x)).max() < 1e-12
    with mpmath.workdps(30):
        e = [mpmath.exp(v) for v in x]
        assert np.abs(A - [float(v / sum(e)) for v in e]).max() < 1e-14


@given(rows, st.data())
def test_masks_of_functions_along_a_plate(x: np.ndarray, data: st.DataObject) -> None:
    """A masked member counts as if it were not there; where all are masked the value is 0, or no weight."""
    first = data.draw(st.integers(0, len(x) - 1))
    kept = x[: first + 1]
    A = evaluated(lambda t, i: softmax(t, over=i, where=i <= first), x)
    assert (A[first + 1 :] == 0).all()
    assert np.abs(A[: first + 1] - evaluated(lambda t, i: softmax(t, over=i), kept)).max() < 1e-14
    for f, expected in ((sum_over, kept.sum()), (max_over, kept.max()), (mean_over, kept.mean())):
        found = evaluated(lambda t, i, f=f: f(t, i, where=i <= first), x)
        assert found == pytest.approx(expected, abs=1e-9)
    for f in (softmax, sum_over, max_over, hardmax):
        assert (evaluated(lambda t, i, f=f: f(t, i, where=i < 0), x) == 0).all()


@given(arrays(float, st.integers(1, 6), elements=st.floats(-1e3, 1e3), unique=True), st.integers(1, 7))
def test_top_k(x: np.ndarray, k: int) -> None:
    """1 for the k largest."""
    A = evaluated(lambda t, i: top_k(t, k, over=i), x)
    chosen = min(k, len(x))
    assert set(np.flatnonzero(A)) == set(np.argsort(x)[len(x) - chosen :])
    assert A.sum() == chosen
    assert (evaluated(lambda t, i: hardmax(t, over=i), x) == (x == x.max())).all()


# ------------------------------------------------------------------------------------------------- a user's own function


@pytest.mark.parametrize(
    ("own", "built_in"),
    [
        (elementwise(sympy.Lambda(sympy.Symbol("t"), sympy.tanh(sympy.Symbol("t")))), tanh),
        (elementwise(np.cos), cos),
        (elementwise(lambda x: np.maximum(x, 0), name="ramp", kinks=[0]), relu),
        (elementwise(lambda x: (x > 0) * 1, name="jump", jumps=[0]), step),
    ],
    ids=str,
)
def test_elementwise_is_the_function(own: Function, built_in: Function) -> None:
    """In draws to the bit of rounding, and in the limit to 1e-10."""
    one, two = limit_of(own), limit_of(built_in)
    check_close(one.mean("y").value, two.mean("y").value, 1e-10)
    check_close(one.covariance("y").value, two.covariance("y").value, 1e-10)
    g = matrix("W") @ vector("x")
    D = simulate(Program("test", own=own(g), built_in=built_in(g)), width=4, runs=50, rng=0)
    check_close(D["own"], D["built_in"], 1e-15)


def test_elementwise_of_two_arguments() -> None:
    s, t = sympy.symbols("s t")
    x, y = vector("x"), vector("y")
    both = elementwise(sympy.Lambda((s, t), s**2 * t))(x, y + 1)
    D = simulate(Program("test", x=x, y=y, z=both), width=4, runs=50, rng=0)
    check_close(D["z"], D["x"] ** 2 * (D["y"] + 1), 1e-14)
    assert float(Program("test", z=both).limit().mean("z")) == pytest.approx(1, abs=1e-10)


@pytest.mark.parametrize("f", [lambda x: 2.5, sympy.Lambda(sympy.Symbol("t"), sympy.Rational(5, 2))])
def test_a_constant_function_gives_a_vector(f: Callable[..., float]) -> None:
    """All n coordinates, of which a matrix takes the average square 6.25."""
    y = elementwise(f, name="constant")(vector("x"))
    P = Program("test", y=y, z=matrix("W") @ y)
    D = simulate(P, width=7, runs=3, rng=0, outputs={"y": {"coordinates": 7}})
    assert (D["y"] == np.full((3, 7), 2.5)).all()
    assert P.limit().law("z").variance == pytest.approx(6.25, abs=1e-12)


# ------------------------------------------------------------------------------------------------------------------ norms


@pytest.mark.parametrize(("norm", "kernel"), [(layernorm, 0.4264223420127391), (rmsnorm, 0.6089977810442293)])
def test_norms(norm: Callable[[Term], Term], kernel: float) -> None:
    """In every run a mean square of 1 (and a mean of 0); in the limit the kernel of relu at correlation 1/2, normalised."""
    i = Plate("point", 2).index("i")
    y = norm(relu(matrix("W") @ vector("x", i, cov=[[1, 0.5], [0.5, 1]])))
    D = simulate(Program("test", y=y), width=64, runs=20, rng=0, outputs={"y": {"coordinates": 64}})["y"]
    check_close((D**2).mean(-1), 1, 1e-12)
    if norm is layernorm:
        check_close(D.mean(-1), 0, 1e-12)
    L = Program("test", y=y).limit()
    m = L.mean("y").value
    check_close(L.covariance("y").value + np.outer(m, m), np.array([[1, kernel], [kernel, 1]]), 1e-11)


# ----------------------------------------------------------------------------------------------------------------- mutants


@pytest.mark.parametrize(
    ("mutant", "x"),
    [
        (replace(silu, numpy=lambda x: x * expit(1.0001 * x)), 0.5),
        (replace(step, numpy=lambda x: np.where(x >= 0, 1.0, 0.0)), 0.0),
        (replace(sigmoid, numpy=lambda x: 0.5 + np.tanh(x / 2) / 2), -8.0),  # no digits on the left
    ],
)
def test_another_function_is_caught(mutant: Fn, x: float) -> None:
    assert_detects(check_sympy, mutant, x)


@pytest.mark.parametrize(
    "mutant",
    [
        replace(relu, features=()),
        replace(tanh, features=((0.0, 0.0),)),
        replace(sign, jumps=()),
        replace(functions.clip(1.5), features=((-1.5, 0.0), (1.0, 0.0))),
    ],
)
def test_wrong_kinks_are_caught(mutant: Fn) -> None:
    with pytest.raises(AssertionError, match="declared are"):
        check_smoothness(mutant)


WRONG = [
    (relu, 1, {"number": 0.5 + 1e-11}),
    (relu, 1, {"gate": Gate(at=1e-5)}),
    (erf, 0, {"gate": Gate(noise=0.5 + 1e-10)}),
    (functions.gelu, 0, {"power": 0}),
    (functions.clip(1.5), 2, {"gate": Gate(at=1.5 + 1e-9)}),
    (functions.rbf(), 0, {"bend": 1 + 1e-10}),
    (functions.elu(), 2, {"rate": 1 + 1e-9}),
    (functions.sin, 0, {"wave": (False, 1 + 1e-10)}),
    (functions.hermite(3), 0, {"number": -3 - 1e-10}),
]


@pytest.mark.parametrize(("f", "k", "wrong"), WRONG, ids=lambda x: str(x))
def test_wrong_closed_forms_are_caught(f: Fn, k: int, wrong: dict) -> None:
    """A number, a gate, a power, a rate, a bend or a frequency of one piece, off by as little as a part in 10^11."""
    pieces = list(f.pieces)
    pieces[k] = replace(pieces[k], **wrong)
    mutant = replace(f, pieces=tuple(pieces))
    assert_detects(check_pieces, mutant)


def test_wrong_pieces_are_caught() -> None:
    for k, wrong in enumerate(({"number": 0.5 + 1e-12}, {"gate": Gate(at=0.1)})):
        assert_detects(check_values, replace(relu, pieces=(relu.pieces[1 - k], replace(relu.pieces[k], **wrong))))


def test_a_hidden_kink_is_caught() -> None:
    """The limit's own quadrature, not told of a kink, is off and says so; told, it is right."""
    kink = 0.37
    told = elementwise(lambda x: np.abs(x - kink), name="told", kinks=[kink])
    hidden = elementwise(lambda x: np.abs(x - kink), name="hidden")
    exact = gauss(told.numpy, MEAN[:1], 1.0, [kink])[0]
    one, two = (limit_of(f).mean("y") for f in (told, hidden))
    check_close(float(one[0]), exact, 1e-13)
    assert abs(float(two[0]) - exact) > 1e-10
    assert abs(float(two[0]) - exact) <= two[0].error
