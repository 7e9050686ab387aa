"""Laws of E f(X) g(Y) that hold for all functions, each with mutants of the recursion that break it; and products of more."""

from collections.abc import Callable
from dataclasses import replace
from math import pi, sqrt
from typing import Any

import numpy as np
import pytest
from calibrated import Deviates, assert_detects
from expectations import KNOWN, expect, expect2, matrices, piece_at
from hypothesis import example, given
from hypothesis import strategies as st

import netsor
from netsor import functions
from netsor.functions import cos, erf, exp, gelu, probit, relu, sign, step
from netsor.numeric.closed import Arrays, Bounded
from netsor.ops import ABS, Fn, Gate, Piece

CONTINUOUS = [f for f in KNOWN if not f.jumps]
SMOOTH = [f for f in KNOWN if all(width for _, width in f.features)]
CAREFUL = 1e-12
"""Of sqrt(E f² E g²): a hundred times the error of one closed form (1e-14), for both sides are sums of a few."""

any_f, continuous, smooth = (st.sampled_from(fs) for fs in (KNOWN, CONTINUOUS, SMOOTH))
variances = st.floats(-2, 0.7).map(lambda x: float(10.0**x))
correlations = st.floats(-0.95, 0.95)
means = st.just((0.0, 0.0)) | st.tuples(st.floats(-2, 2), st.floats(-2, 2))


def size(f: Fn, g: Fn, m: tuple[float, float], v: float, w: float) -> float:
    one, two = (expect2(h, h, s, s, s, np.array([[k], [k]]))[0] for h, k, s in ((f, m[0], v), (g, m[1], w)))
    return float(sqrt(one * two))


def check_close(value: Any, expected: Any, tolerance: float, what: str = "") -> None:
    off = np.abs(np.asarray(value) - expected).max()
    if not off <= tolerance:
        raise Deviates(f"{what}: off by {off:.3g}, allowed {tolerance:.3g}")


# ---------------------------------------------------------------------------------------------------------------- two functions


def check_symmetry(f: Fn, g: Fn, m: tuple[float, float], v: float, w: float, r: float) -> None:
    """E f(X) g(Y) = E g(Y) f(X), X and Y named the other way round."""
    c = r * sqrt(v * w)
    one, two = expect2(f, g, v, w, c, np.array(m)[:, None]), expect2(g, f, w, v, c, np.array(m[::-1])[:, None])
    check_close(one, two, CAREFUL * size(f, g, m, v, w), f"{f} {g}")


@given(any_f, any_f, means, variances, variances, correlations)
def test_symmetry(f: Fn, g: Fn, m: tuple[float, float], v: float, w: float, r: float) -> None:
    check_symmetry(f, g, m, v, w, r)


def derivative(f: Fn) -> Fn:
    """f' of a continuous function by its pieces: no term for the kinks, where the pieces of f' jump."""
    made: list[Piece] = []
    for p in f.pieces:
        made.append(replace(p, number=p.number * p.power, power=max(p.power - 1, 0)))
        made.append(replace(p, number=p.number * p.rate))
        made.append(replace(p, number=-2 * p.number * p.bend, power=p.power + 1))
        if p.wave is not None:
            even, pace = p.wave
            made.append(replace(p, number=p.number * (-pace if even else pace), wave=(not even, pace)))
        if p.gate is not None and p.gate.noise:
            assert not p.gate.at
            bell = 2 / sqrt(2 * pi * p.gate.noise)
            made.append(replace(p, number=p.number * bell, bend=p.bend + 1 / (2 * p.gate.noise), gate=None))
    pieces = tuple(p for p in made if p.number)
    features = tuple({*f.features, (0.0, 0.5)} if any(p.bend for p in pieces) else f.features)
    return replace(
        f,
        name=f"{f.name}'",
        numpy=lambda x: np.sum([piece_at(p, x) for p in pieces], 0) + 0 * x,
        pieces=pieces,
        features=features,
    )


def check_price(f: Fn, g: Fn, m: tuple[float, float], v: float, w: float, r: float, s: float) -> None:
    """d/dc E f(X) g(Y) = E f'(X) g'(Y) (Price 1958), integrated from one covariance to the other: 40 nodes of Gauss-Legendre,
    exact to rounding as E f' g' is analytic for correlations within (-1, 1) and these end at 0.8."""
    low, high = (x * sqrt(v * w) for x in (r, s))
    x, weights = np.polynomial.legendre.leggauss(40)
    c = (low + high) / 2 + (high - low) / 2 * x
    mean = np.repeat(np.array(m)[:, None], 42, 1)
    ends = expect2(f, g, v, w, np.array([low, high]), mean[:, :2])
    slopes = expect2(derivative(f), derivative(g), v, w, c, mean[:, :40])
    scale = size(f, g, m, v, w) + size(derivative(f), derivative(g), m, v, w) * sqrt(v * w)
    check_close((high - low) / 2 * (weights @ slopes), ends[1] - ends[0], CAREFUL * scale, f"{f} {g}")


@given(continuous, continuous, means, variances, variances, st.floats(-0.8, 0.8), st.floats(-0.8, 0.8))
@example(gelu, gelu, (0.3, -0.2), 1.0, 2.0, -0.5, 0.75)
def test_price(f: Fn, g: Fn, m: tuple[float, float], v: float, w: float, r: float, s: float) -> None:
    check_price(f, g, m, v, w, r, s)


def check_monotone(f: Fn, m: float, v: float) -> None:
    """c -> E f(X) f(Y) does not fall for c >= 0 at equal laws: it is the sum of a_k² r^k over the Hermite expansion of f. At -r
    it is at most as large as at r."""
    r = np.linspace(0, 1, 33)
    mean = np.full((2, 33), m)
    up, down = (expect2(f, f, v, v, x * v, mean) for x in (r, -r))
    check_close(np.minimum(np.diff(up), 0), 0, CAREFUL * up[-1], f"{f} falls")
    check_close(np.maximum(np.abs(down) - up, 0), 0, CAREFUL * up[-1], f"{f} is larger at -r")


@given(any_f, st.just(0.0) | st.floats(-2, 2), variances)
@example(functions.clip(1.5), 0.0, 1.0)
def test_monotone(f: Fn, m: float, v: float) -> None:
    check_monotone(f, m, v)


def check_homogeneous(f: Fn, g: Fn, a: float, b: float, v: float, w: float, r: float) -> None:
    """E f(aX) g(bY) = a b E f(X) g(Y) for functions of degree one."""
    c = r * sqrt(v * w)
    scaled = expect2(f, g, a * a * v, b * b * w, a * b * c)
    check_close(scaled / (a * b), expect2(f, g, v, w, c), CAREFUL * size(f, g, (0.0, 0.0), v, w), f"{f} {g}")


degree_one = st.sampled_from([relu, ABS, functions.leaky_relu(0.2)])


@given(degree_one, degree_one, variances, variances, variances, variances, correlations)
def test_homogeneous(f: Fn, g: Fn, a: float, b: float, v: float, w: float, r: float) -> None:
    check_homogeneous(f, g, a, b, v, w, r)


GRID = 0.1 * np.arange(-120, 121)
BELL = 0.1 * np.exp(-GRID * GRID / 2) / sqrt(2 * pi)


def check_rotation(f: Fn, g: Fn, m: tuple[float, float], v: float, w: float, r: float) -> None:
    """E f(X) g(Y) over independent coordinates X = √v U, Y = √w (r U + √(1 - r²) V), by the trapezoid rule in the plane: for
    these entire functions, none of which grows faster than exp(2.5 |z|²) off the axes, it is exact to rounding at step 0.1."""
    U, V = GRID[:, None], GRID[None]
    values = f.numpy(m[0] + sqrt(v) * U) * g.numpy(m[1] + sqrt(w) * (r * U + sqrt(1 - r * r) * V))
    found = expect2(f, g, v, w, r * sqrt(v * w), np.array(m)[:, None])
    check_close(found, BELL @ values @ BELL, CAREFUL * size(f, g, m, v, w), f"{f} {g}")


@given(smooth, smooth, means, variances, variances, correlations)
def test_rotation(f: Fn, g: Fn, m: tuple[float, float], v: float, w: float, r: float) -> None:
    check_rotation(f, g, m, v, w, r)


# ----------------------------------------------------------------------------------------------------------- products of more


def test_orthants() -> None:
    """P(X, Y, Z > 0) = 1/8 + sum of asin r / 4π: 1/4 at correlation 1/2 (Sheppard; David 1953)."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(3, 3, 50))
    C = np.einsum("ikn,jkn->ijn", A, A)
    C[..., 0] = 0.5 + 0.5 * np.eye(3)
    s = np.sqrt(np.einsum("iin->in", C))
    r = C / s / s[:, None]
    exact = 1 / 8 + sum(np.arcsin(r[i, j]) for i, j in ((0, 1), (0, 2), (1, 2))) / (4 * pi)
    assert exact[0] == pytest.approx(0.25)
    check_close(expect([(k, step) for k in range(3)], np.zeros((3, 50)), C), exact, 1e-14)


def test_moments() -> None:
    """E X⁴ Y⁴ = 9 + 72 r² + 24 r⁴ = 28.5 at correlation 1/2."""
    fourth = Fn("fourth", lambda x: x**4, pieces=(Piece(power=4),))
    r = np.linspace(-1, 1, 21)
    check_close(expect2(fourth, fourth, 1.0, 1.0, r), 9 + 72 * r**2 + 24 * r**4, 1e-12)
    assert float(netsor.expect(lambda x, y: x**4 * y**4, cov=[[1, 0.5], [0.5, 1]])) == pytest.approx(28.5, rel=1e-14)


@given(continuous, means, variances, variances, correlations)
def test_stein(f: Fn, m: tuple[float, float], v: float, w: float, r: float) -> None:
    """E X f(Y) = E X E f + Cov(X, Y) E f' (Stein 1972), X as a plain factor."""
    check_stein(f, m, v, w, r)


def check_stein(f: Fn, m: tuple[float, float], v: float, w: float, r: float) -> None:
    c = r * sqrt(v * w)
    cov, mean = matrices(*np.atleast_1d(w, v, c)), np.array(m[::-1])[:, None]
    alone = (mean[:1], cov[:1, :1])
    found = expect([(0, f)], mean, cov, inputs=1)[0]
    scale = size(f, f, (m[1], m[1]), w, w) + sqrt(v + m[0] ** 2) * size(derivative(f), f, (m[1], m[1]), w, w)
    scale = scale + sqrt(v + m[0] ** 2) * size(f, f, (m[1], m[1]), w, w) ** 0.5 * 2
    expected = m[0] * expect([(0, f)], *alone)[0] + c * expect([(0, derivative(f))], *alone)[0]
    check_close(found, expected, CAREFUL * max(scale, 1e-3), str(f))


@given(any_f, any_f, any_f, means, variances, variances, correlations)
def test_three_factors(f: Fn, g: Fn, h: Fn, m: tuple[float, float], v: float, w: float, r: float) -> None:
    """E f(X) g(X) h(Y) and E f(X) h(Y) X are expectations of two functions: the product, or x f, evaluated as one by quadrature
    (waves beside kinks: no faster than they turn at these variances)."""
    check_three(f, g, h, m, v, w, r)


def check_three(f: Fn, g: Fn, h: Fn, m: tuple[float, float], v: float, w: float, r: float) -> None:
    cov, mean = matrices(*np.atleast_1d(v, w, r * sqrt(v * w))), np.array(m)[:, None]
    for other in (g, Fn("x", lambda x: x, pieces=(Piece(power=1),))):
        features = (*f.features, *other.features, (0.0, 0.0))
        whole = Fn("whole", lambda x, other=other: f.numpy(x) * other.numpy(x), features=features)
        found, one = expect([(0, f), (0, other), (1, h)], mean, cov), expect([(0, whole), (1, h)], mean, cov)
        squares = expect([(0, whole), (0, whole)], mean[:1], cov[:1, :1]), expect([(0, h), (0, h)], mean[1:], cov[1:, 1:])
        check_close(found, one, 1e-11 * sqrt(squares[0][0] * squares[1][0]) + 1e-15, f"{f} {other} {h}")


# ------------------------------------------------------------------------------------------------------------------- mutants


def unconditioned(patch: pytest.MonkeyPatch) -> None:
    """What is given does not change covariances."""
    patch.setattr(Arrays, "schur", lambda self, a, b, c, d: a)


def one_sided(patch: pytest.MonkeyPatch) -> None:
    """a - b b / d."""
    right = Arrays.schur
    patch.setattr(Arrays, "schur", lambda self, a, b, c, d: right(self, a, b, b, d))


def half_delta(patch: pytest.MonkeyPatch) -> None:
    """The derivative of sgn is delta and not 2 delta."""
    right = Arrays.density
    patch.setattr(Arrays, "density", lambda self, m, v: right(self, m, v) * 0.5)


def wrong_quadrants(patch: pytest.MonkeyPatch) -> None:
    """2/π c / sqrt(v w) for the arcsine."""

    def signs(self: Arrays, m: Bounded, n: Bounded, v: Bounded, w: Bounded, c: Bounded) -> Bounded:
        return Bounded(2 / pi * c.value / np.sqrt(v.value * w.value), 1.0)

    patch.setattr(Arrays, "signs", signs)


def no_sign(patch: pytest.MonkeyPatch) -> None:
    """Covariances of gates in absolute value."""
    right = Arrays.signs
    patch.setattr(Arrays, "signs", lambda self, m, n, v, w, c: right(self, m, n, v, w, Bounded(-c.value, c.units)))


def no_variance(patch: pytest.MonkeyPatch) -> None:
    """The density at 0 as if every variance were 1."""
    patch.setattr(Arrays, "density", lambda self, m, v: Bounded(np.exp(-m.value * m.value / 2) / sqrt(2 * pi), 1.0))


def wrong_wave(patch: pytest.MonkeyPatch) -> None:
    """A part in 10^9."""
    right = Arrays.cos
    patch.setattr(Arrays, "cos", lambda self, x: right(self, x) * (1 + 1e-9))


Mutant = Callable[[pytest.MonkeyPatch], None]
HALF = (0.0, 0.0), 1.0, 2.0, 0.5


@pytest.mark.parametrize(
    ("mutant", "check", "args"),
    [
        (one_sided, check_symmetry, (functions.relu_power(2), relu, *HALF)),
        (unconditioned, check_price, (relu, relu, *HALF, 0.1)),
        (half_delta, check_price, (gelu, erf, *HALF, 0.1)),
        (wrong_quadrants, check_price, (probit, erf, *HALF, 0.1)),
        (no_sign, check_monotone, (sign, 0.0, 1.0)),
        (no_variance, check_homogeneous, (relu, functions.leaky_relu(0.2), 2.0, 3.0, 1.0, 2.0, 0.5)),
        (wrong_quadrants, check_rotation, (erf, probit, *HALF)),
        (wrong_wave, check_rotation, (cos, cos, (0.5, 0.2), 1.0, 2.0, 0.5)),
        (unconditioned, check_stein, (relu, (0.3, 0.2), 1.0, 2.0, 0.5)),
        (unconditioned, check_three, (relu, exp, relu, *HALF)),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_a_mutant_breaks_its_law(
    mutant: Mutant, check: Callable[..., None], args: tuple, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(*args)
    mutant(monkeypatch)
    assert_detects(check, *args)


def test_a_wrong_gate_breaks_a_law() -> None:
    """A shifted gate, in the pieces of one function only."""
    wrong = replace(relu, pieces=(relu.pieces[0], replace(relu.pieces[1], gate=Gate(at=1e-3))))
    assert_detects(check_homogeneous, wrong, relu, 2.0, 3.0, 1.0, 2.0, 0.5)
