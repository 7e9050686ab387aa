"""Quadrature against closed forms, against the trapezoid rule (which shares nothing with it), and against itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import mpmath
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.special import dawsn, erf, expit, gamma, ndtr, owens_t

from netsor.errors import Numerical
from netsor.numeric import quadrature
from netsor.numeric.quadrature import Feature, Pace, doubted1, expect1, expect2, nodes1, nodes2
from netsor.numeric.routes import doubted

Function = Callable[[np.ndarray], np.ndarray]
KINK = (Feature(0.0),)
ENDS = (Feature(-1.0), Feature(1.0))
ENTIRE = (Feature(0.0, 1.0),)


def relu(x):
    return np.maximum(x, 0)


def step(x):
    return np.where(x > 0, 1.0, 0.0)


def clip(x):
    return np.clip(x, -1, 1)


def gelu(x):
    return x * ndtr(x)


def pdf(x):
    return np.exp(-x * x / 2) / np.sqrt(2 * np.pi)


# ------------------------------------------------------------------------------------------------- one variable


@dataclass(frozen=True)
class Known:
    """A function, its features, E f(U) in closed form and how well that is rounded, and how wide U may be."""

    f: Function
    features: tuple[Feature, ...]
    exact: Callable[[np.ndarray, np.ndarray], np.ndarray]
    largest: float = 1e3
    rounding: float = 0.0


def relu_mean(m, s):
    return m * ndtr(m / s) + s * pdf(m / s)


def gelu_mean(m, s):
    t = np.sqrt(1 + s * s)
    return m * ndtr(m / t) + s * s / t * pdf(m / t)


KNOWN = {
    "relu": Known(relu, KINK, relu_mean),
    "relu^2": Known(lambda x: relu(x) ** 2, KINK, lambda m, s: (m * m + s * s) * ndtr(m / s) + m * s * pdf(m / s)),
    "step": Known(step, KINK, lambda m, s: ndtr(m / s)),
    "clip": Known(clip, ENDS, lambda m, s: relu_mean(m + 1, s) - relu_mean(m - 1, s) - 1, 10, 1e-15),
    "erf": Known(erf, ENTIRE, lambda m, s: erf(m / np.sqrt(1 + 2 * s * s))),
    "gelu": Known(gelu, ENTIRE, gelu_mean),
    "sin": Known(np.sin, (), lambda m, s: np.exp(-s * s / 2) * np.sin(m), 4),
    "exp": Known(np.exp, (), lambda m, s: np.exp(m + s * s / 2), 2.5),
    "x^6": Known(lambda x: x**6, (), lambda m, s: m**6 + 15 * m**4 * s**2 + 45 * m**2 * s**4 + 15 * s**6),
}
SMOOTH = {
    "tanh(3x)": (lambda x: np.tanh(3 * x), (Feature(0.0, np.pi / 6),)),
    "tanh(3x)^2": (lambda x: np.tanh(3 * x) ** 2, (Feature(0.0, np.pi / 6),)),
    "sigmoid": (expit, (Feature(0.0, np.pi),)),
    "softplus": (lambda x: np.logaddexp(0, x), (Feature(0.0, np.pi),)),
}


def rms(f, m, s):
    """The scale of an error: sqrt(E f(U)^2), to a few digits."""
    z = np.linspace(-12, 12, 4001)
    return np.sqrt(np.sum(f(np.asarray(m)[..., None] + np.asarray(s)[..., None] * z) ** 2 * pdf(z), axis=-1) * (z[1] - z[0]))


@pytest.mark.parametrize("name", KNOWN)
def test_closed_forms(name):
    known = KNOWN[name]
    m, s = np.meshgrid([-3, -1, -0.2, 0, 1e-3, 0.7, 2], [1e-150, 1e-8, 1e-3, 0.1, 0.5, 1, 2, 4, 30, 1e3])
    m, s = m[s <= known.largest], s[s <= known.largest]
    error = np.abs(expect1(known.f, m, s**2, known.features) - known.exact(m, s))
    assert np.all(error <= 2e-14 * rms(known.f, m, s) + 1e-15 * np.abs(m) + known.rounding + 1e-300)


@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_functions_against_the_trapezoid_rule(name):
    f, features = SMOOTH[name]
    m, s = np.meshgrid([-3, 0, 0.4, 2], [0.01, 1, 3, 20])
    z = 0.002 * np.arange(-6000, 6000)
    reference = np.sum(f(m[..., None] + s[..., None] * z) * pdf(z), axis=-1) * 0.002
    assert np.max(np.abs(expect1(f, m, s**2, features) - reference)) < 1e-13


@pytest.mark.parametrize("var", [1e-300, 1e-30, 1.0, 1e30, 1e100])
def test_any_scale(var):
    s = np.sqrt(var)
    assert expect1(relu, 0.0, var, KINK) == pytest.approx(s / np.sqrt(2 * np.pi), rel=1e-14, abs=0)
    assert expect1(relu, s, var, KINK) == pytest.approx(relu_mean(1, 1) * s, rel=1e-14, abs=0)
    assert expect1(np.tanh, 0.5, var, (Feature(0.0, np.pi / 2),)) == pytest.approx(
        expect1(np.tanh, 0.5, var, (Feature(0.0, np.pi / 2),), level=2), abs=1e-15
    )


def test_variance_zero_evaluates():
    m = np.array([-1.3, 0.0, 0.1, 1e8])
    assert np.array_equal(expect1(np.cos, m, 0.0, KINK), np.cos(m))
    assert expect1(np.cos, 0.1, 0.0).shape == ()
    assert np.array_equal(expect2(lambda u, v: u / (2 + v), m, 0.3, 0, 0, 0, KINK, KINK), m / 2.3)


def test_a_very_narrow_transition_is_a_kink():
    for width in (1e-3, 1e-8, 1e-16, 1e-40):
        near = expect1(lambda x, a=width: np.tanh(x / a) * x, 0.3, 1.0, (Feature(0.0, width * np.pi / 2),))
        assert near == pytest.approx(expect1(np.abs, 0.3, 1.0, KINK), abs=width**2 + 1e-14)


def test_a_singularity_is_graded():
    sharp = (Feature(0.0, 1e-12),)
    log = expect1(lambda x: np.log(np.abs(x)), 0.0, [1.0, 9.0], sharp)
    assert np.allclose(log, -(np.euler_gamma + np.log(2)) / 2 + np.log([1, 3]), rtol=0, atol=1e-13)
    root = expect1(lambda x: np.sqrt(np.abs(x)), [0.0, 0.3], 1.0, sharp)
    assert root[0] == pytest.approx(2**0.25 * gamma(0.75) / np.sqrt(np.pi), abs=1e-14)
    assert root[1] == pytest.approx(expect1(lambda x: np.sqrt(np.abs(x)), 0.3, 1.0, sharp, level=3), abs=1e-14)


def test_features_and_closures_that_depend_on_the_entry():
    at = np.array([-0.5, 0.0, 2.0])
    mean, var = np.zeros((4, 3)), np.array([[1e-4], [1], [2], [100]])
    got = expect1(lambda u: np.maximum(u, at[:, None]), mean, var, (Feature(at),))
    assert np.allclose(got, at + relu_mean(-at, np.sqrt(var)), rtol=0, atol=1e-14)
    both = expect2(
        lambda u, v: np.maximum(u, at[:, None]) * np.maximum(v, at[:, None]),
        0,
        mean,
        1,
        var,
        0,
        (Feature(at),),
        (Feature(at),),
    )
    assert np.allclose(both, (at + relu_mean(-at, 1)) * got, rtol=0, atol=1e-13)


@given(st.sampled_from(sorted(KNOWN)), st.floats(-5, 5), st.floats(-8, 2), st.integers(0, 1))
def test_the_difference_of_levels_bounds_the_error(name, mean, log_scale, level):
    known = KNOWN[name]
    s = min(10**log_scale, 2 * known.largest)
    coarse, fine = (expect1(known.f, mean, s * s, known.features, level=k) for k in (level, level + 1))
    rounding = 1e-13 * max(rms(known.f, mean, s), abs(known.f(mean))) + 10 * known.rounding
    assert abs(fine - known.exact(mean, s)) <= 10 * abs(fine - coarse) + rounding + 1e-25  # what lies beyond 11 sigma


@pytest.mark.parametrize("name", ["relu", "relu^2", "step", "clip", "sin"])
def test_the_difference_of_levels_sees_what_was_not_declared(name):
    """Over 64 means at once, since a single wrong value may agree with another by chance."""
    known, m, s = KNOWN[name], np.linspace(-2, 2, 64), {"sin": 60.0}.get(name, 1.0)
    coarse, fine = (expect1(known.f, m, s * s, level=k) for k in (0, 1))
    error = np.max(np.abs(fine - known.exact(m, s)))
    assert 1e-9 < error <= 10 * np.max(np.abs(fine - coarse))  # the first half: these tests can fail


@pytest.mark.parametrize("place", [7.5, 9.0, 10.9, 12.0, 20.0, 37.0])
def test_a_kink_far_out(place):
    """E relu(Z - D) = phi(D) - D Phi(-D), and the same on the other side and in units of its own, to 1e-12 of the value."""
    with mpmath.workdps(30):
        exact = float(mpmath.npdf(place) - place * mpmath.ncdf(-place))
    for m, s in ((0, 1), (-3, 1e-2), (1e3, 7)):
        at = m + s * place
        assert expect1(lambda x, at=at: relu(x - at), m, s * s, (Feature(at),)) == pytest.approx(s * exact, rel=1e-10, abs=0)
    near = expect1(lambda x: relu(x - place), 0, 1, (Feature(place),))
    mirrored = expect1(lambda x: relu(-x - place), 0, 1, (Feature(-place),))
    assert [near, mirrored] == pytest.approx([exact, exact], rel=1e-12, abs=0)


@pytest.mark.parametrize("s", [1.0, 4.0, 10.0, 20.0])
@pytest.mark.parametrize("features", [(), KINK, ENTIRE], ids=str)
def test_what_grows_exponentially(s, features):
    """E exp(U), whose mass lies s deviations out."""
    found = expect1(np.exp, 0.3, s * s, features, pace=Pace(high=1.0))
    assert found == pytest.approx(np.exp(0.3 + s * s / 2), rel=1e-11, abs=0)
    assert expect1(lambda u: np.exp(-u), 0.3, s * s, features, pace=Pace(low=-1.0)) == pytest.approx(
        np.exp(-0.3 + s * s / 2), rel=1e-11, abs=0
    )
    coarse = expect1(np.exp, 0.3, s * s, features)
    assert s < 4 or abs(coarse / found - 1) > 1e-12  # without its pace the line ends too early


@pytest.mark.parametrize("pace", [1.0, 10.0, 100.0, 200.0])
def test_fast_waves(pace):
    """E cos(a Z) = exp(-a^2/2), and beside a kink E |Z| sin^2(a Z), where the panels have to resolve the wave: E |Z| cos(b Z)
    is sqrt(2/pi) (1 - sqrt(2) b D(b/sqrt(2))), D Dawson's function."""
    assert expect1(lambda z: np.cos(pace * z), 0, 1, KINK, pace=Pace(wave=pace)) == pytest.approx(
        np.exp(-(pace**2) / 2), abs=1e-15
    )
    found = expect1(lambda z: np.abs(z) * np.cos(pace * z), 0, 1, KINK, pace=Pace(wave=pace))
    exact = np.sqrt(2 / np.pi) * (1 - np.sqrt(2) * pace * dawsn(pace / np.sqrt(2)))
    assert found == pytest.approx(exact, abs=3e-15)
    assert pace < 50 or abs(expect1(lambda z: np.abs(z) * np.cos(pace * z), 0, 1, KINK) - exact) > 1e-3


HIDDEN = {
    "kink": (lambda x, c: np.maximum(x - c, 0), lambda c: pdf(c) - c * ndtr(-c)),
    "jump": (lambda x, c: np.where(x > c, 1.0, 0.0), lambda c: ndtr(-c)),
    "near a cut": (lambda x, c: np.maximum(x - c / 30, 0), lambda c: pdf(c / 30) - c / 30 * ndtr(-c / 30)),
}


@pytest.mark.parametrize("features", [(), KINK], ids=["no cut", "cut at 0"])
@pytest.mark.parametrize("name", HIDDEN)
def test_the_error_covers_a_hidden_kink(name, features):
    """At 10,000 places, with no factor: the change from the level below and the doubts at the last coefficients of the panels.
    The change alone covers nine of ten."""
    f, exact = HIDDEN[name]
    c = np.random.default_rng(0).uniform(-3, 3, 10_000)
    coarse = expect1(lambda x: f(x, c[:, None]), np.zeros(c.size), 1.0, features, level=0)
    value, doubt = doubted1(lambda x: f(x, c[:, None]), np.zeros(c.size), 1.0, features)
    off, change = np.abs(value - exact(c)), np.abs(coarse - value)
    assert (off <= change + doubted(coarse, value, doubt) + 1e-15).all()
    assert np.median(doubt) < 20 * np.median(off)
    assert (off > change + 1e-15).mean() > 0.01  # the first line can fail


@pytest.mark.parametrize("name", sorted({*KNOWN} - {"exp", "x^6"}))
def test_smooth_functions_raise_no_doubts(name):
    """Beside a level below, from which they do not differ: less than 1e-13 of sqrt(E f^2)."""
    known = KNOWN[name]
    m, s = (a.ravel() for a in np.meshgrid(np.linspace(-3, 3, 41), [0.03, 0.3, 1, 3]))
    coarse = expect1(known.f, m, s * s, known.features, level=0)
    value, doubt = doubted1(known.f, m, s * s, known.features)
    left = doubted(coarse, value, doubt)
    assert np.median(left) <= 1e-15
    assert (left <= 1e-10 * rms(known.f, m, s) + 1e-15).all()


# ------------------------------------------------------------------------------------------------ two variables

CORRELATIONS = (-1, -0.9999, -0.9, -0.5, 0, 0.5, 0.9, 0.999, 0.9999999, 1)
MARGINALS = [(0, 0, 1, 1), (0.3, -1, 1, 4), (3, 2, 1e3, 1e-3), (-0.5, 3, 1e-2, 1), (1, 1, 1, 1)]
PAIRS = {
    "relu": (relu, KINK),
    "step": (step, KINK),
    "clip": (clip, ENDS),
    "abs": (np.abs, KINK),
    "tanh": (np.tanh, (Feature(0.0, np.pi / 2),)),
    "erf": (erf, ENTIRE),
    "gelu": (gelu, ENTIRE),
}


def split(r):
    r = np.sign(r) if abs(r) > 1 - quadrature.SNAP else r
    return r, np.sqrt((1 - abs(r)) * (1 + abs(r)))


def orthant(h, k, r):
    """P(X > -h, Y > -k) for standard normals of correlation r, by Owen's T."""
    h, k, (r, q) = h + 0.0, k + 0.0, split(r)  # -0.0 would divide to the wrong infinity
    if q == 0:
        return ndtr(min(h, k)) if r > 0 else max(0.0, ndtr(h) + ndtr(k) - 1)
    if h == k == 0:
        return 0.25 + np.arcsin(r) / (2 * np.pi)
    with np.errstate(divide="ignore", over="ignore"):
        t = owens_t(h, np.divide(k - r * h, h * q)) + owens_t(k, np.divide(h - r * k, k * q))
    sign = np.sign(h) * np.sign(k)
    return (ndtr(h) + ndtr(k)) / 2 - t - (0 if sign > 0 or (sign == 0 and h + k >= 0) else 0.5)


def ramps(m1, m2, s1, s2, r):
    """E relu(U) relu(V)."""
    h, k, (r, q) = m1 / s1, m2 / s2, split(r)
    if q > 0:
        e = (h * k + r) * orthant(h, k, r) + k * pdf(h) * ndtr((k - r * h) / q) + h * pdf(k) * ndtr((h - r * k) / q)
        return s1 * s2 * (e + q / np.sqrt(2 * np.pi) * pdf(np.sqrt(h * h - 2 * r * h * k + k * k) / q))
    if r > 0:
        t = min(h, k)
        return s1 * s2 * ((h * k + 1) * ndtr(t) + (h + k - t) * pdf(t))
    p = ndtr(k) - ndtr(-h)
    e = h * k * p + (k - h) * (pdf(h) - pdf(k)) - (p - h * pdf(h) - k * pdf(k))
    return s1 * s2 * e if h + k > 0 else 0.0


def clips(m1, m2, s1, s2, r):
    terms = [(1, 1), (-1, -1)]  # clip(x) = relu(x + 1) - relu(x - 1) - 1
    e = sum(a * b * ramps(m1 + i, m2 + j, s1, s2, r) for a, i in terms for b, j in terms)
    return e - sum(a * (relu_mean(m1 + i, s1) + relu_mean(m2 + i, s2)) for a, i in terms) + 1


def erfs(m1, m2, s1, s2, r):
    t1, t2 = np.sqrt(1 + 2 * s1 * s1), np.sqrt(1 + 2 * s2 * s2)
    h, k = np.sqrt(2) * m1 / t1, np.sqrt(2) * m2 / t2  # erf(x) = 2 ndtr(sqrt(2) x) - 1
    return 4 * orthant(h, k, 2 * r * s1 * s2 / (t1 * t2)) - 2 * ndtr(h) - 2 * ndtr(k) + 1


def gelus(m1, m2, s1, s2, r):
    assert m1 == m2 == 0
    v1, v2, c = s1 * s1, s2 * s2, r * s1 * s2
    d = (1 + v1) * (1 + v2) - c * c
    tail = (v1 * v2 - c * c + c * c * (1 / (1 + v1) + 1 / (1 + v2))) / (2 * np.pi * np.sqrt(d))
    return c / 4 + c / (2 * np.pi) * np.arcsin(c / np.sqrt((1 + v1) * (1 + v2))) + tail


def trapezoid(f, m1, m2, s1, s2, r):
    """For smooth functions, U the wider of the two."""
    r, q = split(r)
    step1, step2 = 0.2 / max(1, s1), 0.15 / max(1, s2)
    z, y = (h * np.arange(-int(10 / h), int(10 / h) + 1) for h in (step1, step2))
    z = z[:, None]
    return np.sum(f(m1 + s1 * z) * f(m2 + s2 * (r * z + q * y)) * pdf(z) * pdf(y)) * step1 * step2


EXACT = {
    "relu": ramps,
    "step": lambda m1, m2, s1, s2, r: orthant(m1 / s1, m2 / s2, r),
    "clip": clips,
    "abs": lambda m1, m2, s1, s2, r: sum(ramps(a * m1, b * m2, s1, s2, a * b * r) for a in (1, -1) for b in (1, -1)),
    "erf": erfs,
}


@pytest.mark.parametrize("marginals", MARGINALS, ids=str)
@pytest.mark.parametrize("name", PAIRS)
def test_two_variables(name, marginals):
    (f, features), (m1, m2, v1, v2) = PAIRS[name], marginals
    s1, s2 = np.sqrt(v1), np.sqrt(v2)
    cov = np.array(CORRELATIONS) * s1 * s2
    exact = EXACT.get(name, lambda *a: trapezoid(f, *a) if s1 >= s2 else trapezoid(f, a[1], a[0], a[3], a[2], a[4]))
    reference = [exact(m1, m2, s1, s2, c / s1 / s2) for c in cov]
    got = expect2(lambda u, v: f(u) * f(v), m1, m2, v1, v2, cov, features, features)
    assert np.max(np.abs(got - reference)) <= 1e-12 * rms(f, m1, s1) * rms(f, m2, s2) + 1e-15 * (s1 * s2 + abs(m1 * m2))


def test_gelu_closed_form():
    v1, v2, r = (a.ravel() for a in np.meshgrid([1e-6, 1, 50], [1, 9], CORRELATIONS))
    got = expect2(lambda u, v: gelu(u) * gelu(v), 0, 0, v1, v2, r * np.sqrt(v1 * v2), ENTIRE, ENTIRE, level=0)
    reference = [gelus(0, 0, *a) for a in zip(np.sqrt(v1), np.sqrt(v2), r, strict=True)]
    assert np.all(np.abs(got - reference) <= 1e-11 * rms(gelu, 0, np.sqrt(v1)) * rms(gelu, 0, np.sqrt(v2)))


def test_different_functions_of_the_two_arguments():
    """E X psi(Y) = c E psi'(Y) for a centred pair (Stein), and a density that depends on both at once."""
    r = np.array([-1, -0.3, 0, 0.9999, 1])
    assert np.allclose(
        expect2(lambda u, v: u * step(v - 0.4), 0, 0, 4, 1, 2 * r, (), (Feature(0.4),)),
        2 * r * pdf(0.4),
        rtol=0,
        atol=1e-13,
    )
    got = expect2(lambda u, v: np.exp(-((u + v) ** 2)), 0, 0, 1, 1, r)
    assert np.allclose(got, 1 / np.sqrt(1 + 2 * (2 + 2 * r)), rtol=0, atol=1e-13)


scales = st.sampled_from([0.0, 1e-140, 1e-6, 1.0, 1e4]) | st.floats(0.01, 10)
sizes = st.floats(-3, 3).map(lambda x: x if abs(x) > 1e-100 else 0.0)  # the bounds below square them
covariances = st.tuples(scales, scales | sizes, st.sampled_from([0.0, 1e-9, 1e-7, 1e-4]) | sizes.map(abs))


@given(covariances, sizes, sizes, st.sampled_from(["relu", "step", "tanh"]))
@example((0.0, 0.0, 0.0), 0.0, 0.0, "step")
@example((1.0, 1.0, 0.0), 0.0, 0.0, "step")
@example((1.0, -1.0, 1e-7), 0.0, 0.0, "relu")
def test_any_covariance(root, m1, m2, name):
    """Never nan, within the Cauchy-Schwarz bound, the same with the variables exchanged, and an honest error."""
    (a, b, d), (f, features) = root, PAIRS[name]
    v1, v2, cov = a * a, b * b + d * d, a * b
    s1, s2 = np.sqrt(v1), np.sqrt(v2)
    size = (s1 + abs(m1)) * (s2 + abs(m2))
    coarse, fine = (expect2(lambda u, v: f(u) * f(v), m1, m2, v1, v2, cov, features, features, k) for k in (0, 1))
    other = expect2(lambda u, v: f(u) * f(v), m2, m1, v2, v1, cov, features, features, 0)
    units = [s + abs(m) or 1.0 for m, s in ((m1, s1), (m2, s2))]  # squares of what is tiny would underflow
    roots = [
        t * np.sqrt(expect1(lambda u, t=t: (f(u) / t) ** 2, m, v, features))
        for m, v, t in ((m1, v1, units[0]), (m2, v2, units[1]))
    ]
    bound = roots[0] * roots[1]
    assert np.isfinite(fine)
    assert abs(fine) <= bound * (1 + 1e-12)
    assert abs(fine - other) <= 1e-10 * bound + 1e-16 * size  # beyond 9 sigma
    if name == "relu" and s1 > 0 and s2 > 0:
        r, q = split(np.clip(cov / s1 / s2, -1, 1))
        rounding = (1e-13 + 1e-15 / (q or 1)) * size  # of the closed form, not ours
        assert abs(fine - ramps(m1, m2, s1, s2, r)) <= 10 * abs(fine - coarse) + rounding


def test_a_stack_is_its_entries():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(6, 2, 2))
    c = root @ np.swapaxes(root, -1, -2)
    m = rng.normal(size=(6, 2))
    arguments = np.stack([m[:, 0], m[:, 1], c[:, 0, 0], c[:, 1, 1], c[:, 0, 1]])
    together = expect2(lambda u, v: relu(u) * np.tanh(v), *arguments.reshape(5, 2, 3), KINK, ENTIRE)
    alone = [expect2(lambda u, v: relu(u) * np.tanh(v), *a, KINK, ENTIRE) for a in arguments.T]
    assert together.shape == (2, 3)
    assert np.allclose(together.ravel(), alone, rtol=0, atol=1e-13)


def test_the_number_of_nodes_is_announced():
    seen = []
    f1, f2 = (lambda u: seen.append(u.shape) or u), (lambda u, v: seen.append(u.shape) or seen.append(v.shape) or u * v)
    var, cov = np.array([[0.0], [1.0], [1e4]]), np.array([0.0, 0.5, 0.99999, 1.0])
    features = (Feature(0.0), Feature(1.0, 0.2), Feature(np.array([1.0, 2, 3, 4]), 1e-3))
    expect1(f1, 0, var + 0 * cov, features, level=0)
    expect2(f2, 0, 0, var, var, cov * var, features, KINK, level=0)
    pairs = nodes2(features, KINK, 0, var, var, cov * var)
    assert seen == [(3, 4, nodes1(features, 0, var)), (3, 4, pairs), (3, 4, pairs)]
    assert (nodes1(), nodes1(KINK), nodes2(), nodes2(KINK, KINK)) == (225, 240, 225**2, 255 * 240)


def test_no_entries():
    assert expect1(relu, np.zeros((0, 3)), 1.0, KINK).shape == (0, 3)
    assert expect2(np.multiply, np.zeros((0, 3)), 0, 1, 1, 0.999, KINK, KINK).shape == (0, 3)


@pytest.mark.parametrize("bad", [(0, -1e-20), (0, np.nan), (0, np.inf), (np.nan, 1), (np.inf, 1)])
def test_numbers_outside_their_domain(bad):
    with pytest.raises(Numerical, match="NS402"):
        expect1(relu, [0.0, bad[0]], [1.0, bad[1]])
    with pytest.raises(Numerical, match="NS402"):
        expect2(np.multiply, 0, bad[0], 1, bad[1], 0)


@pytest.mark.parametrize("bad", [(1, 1, 1.001), (1, 1, np.nan), (1, 1, -np.inf), (0, 1, 0.1), (0, 0, 1), (1e-300, 0, 1)])
def test_not_a_covariance(bad):
    with pytest.raises(Numerical, match="covariance"):
        expect2(np.multiply, 0, 0, *bad)


# ------------------------------------------------------------------------------ mutants: what the battery catches


def test_mutant_without_the_crossings(monkeypatch):
    """The outer integral must be cut where V's kink crosses: without that, strong correlations are wrong."""
    cov = np.array([0.99, 0.9999999, 1])
    monkeypatch.setattr(quadrature, "_crossings", lambda *_: [])
    got = expect2(lambda u, v: step(u) * step(v), 1, 0.3, 1, 1, cov, KINK, KINK)
    assert np.all(np.abs(got - [orthant(1, 0.3, r) for r in cov])[1:] > 1e-9)


def test_mutant_without_the_inner_cuts():
    got = expect2(lambda u, v: relu(u) * relu(v), 0.3, -1, 1, 4, 1, KINK, ())
    assert abs(got - ramps(0.3, -1, 1, 2, 0.5)) > 1e-9
