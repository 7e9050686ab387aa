"""Routes of expectations at covariances where a simpler way loses digits: extreme scales, correlations near ±1, overflow."""

from dataclasses import replace

import numpy as np
import pytest
from expectations import KNOWN, expect1, expect2, integral
from hypothesis import example, given, settings
from hypothesis import strategies as st

import netsor
from netsor import functions
from netsor.functions import cos, elu, erf, exp, gelu, rbf, relu, sign, sin, step
from netsor.numeric.integral import Part
from netsor.numeric.routes import Routes
from netsor.ops import ABS, Fn

# ---------------------------------------------------------------------------------------------------- near perfect correlation


def test_relu_at_opposite_arguments() -> None:
    """(2 · 1e-8)^(3/2) / 6π to first order at ρ = -1 + 1e-8; the reference is an integral at 30 digits."""
    assert expect2(relu, relu, 1.0, 1.0, -1 + 1e-8)[0] == pytest.approx(1.50052720565512230507e-13, rel=1e-12, abs=0)


def test_gelu_at_opposite_arguments_of_huge_variance() -> None:
    """At c = -1e8 exactly and at c = -1e8 + 1: integrals at 30 digits."""
    found = expect2(gelu, gelu, 1e8, 1e8, np.array([-1e8, -1e8 + 1]))
    assert found == pytest.approx([-1.87565896779797024830e-5, -1.32629114574701168527e-5], rel=1e-9, abs=0)


@pytest.mark.parametrize("gap", [1e-5, 1e-12, 1e-13, 1e-14, 3e-16])
def test_jumps_of_one_variable_beside_a_narrow_transition(gap: float) -> None:
    """E clip(X) sign(Y), Y = 1e-9 X all but for `gap`: a conditional mean of width sqrt(2 gap), which a quadrature has to find
    however narrow it is. By the arcsine law E sign sign = 2/π asin r, from which clip differs by at most its width."""
    v, w = 2.0**60, 2.0**2
    c = (1 - gap) * 2.0**31
    found = expect2(functions.clip(1), sign, v, w, c)[0]
    assert found == pytest.approx(2 / np.pi * np.arctan2(c, np.sqrt((2.0**31 - c) * (2.0**31 + c))), abs=2e-9)


def test_a_bump_in_huge_noise() -> None:
    """E exp(-X²) exp(-Y²) = 1/sqrt(det(1 + 2C)), X and Y almost opposite: nearly all of the line has no weight."""
    v, w, c = 2.0**170, 2.0**70, -(2.0**120) * (1 - 2.0**-50)
    exact = 1 / np.sqrt(4 * 2.0**240 * (2.0**-49 - 2.0**-100) + 2 * v + 2 * w + 1)
    assert expect2(rbf(), rbf(), v, w, c)[0] == pytest.approx(exact, rel=1e-12, abs=0)


# -------------------------------------------------------------------------------------------------------------------- scales

powers = st.integers(-480, 240)


def check_scales(f: Fn, g: Fn, degree: int, a: int, b: int, r: float, m: tuple[float, float]) -> None:
    """E f(2^a X) g(2^b Y) = 2^(degree (a + b)) E f(X) g(Y), to 1e-12 of the value or 1e-14 of the variables."""
    size, other = 2.0**a, 2.0**b
    mean = np.array(m)[:, None]
    scaled = expect2(f, g, size**2, other**2, r * size * other, mean * np.array([[size], [other]]))[0]
    unit = size**degree * other**degree
    assert scaled == pytest.approx(unit * expect2(f, g, 1.0, 1.0, r, mean)[0], rel=1e-12, abs=1e-14 * unit)


@given(
    st.sampled_from([(relu, 1), (ABS, 1), (functions.leaky_relu(0.2), 1), (sign, 0), (step, 0)]),
    powers,
    powers,
    st.floats(-0.875, 1),
    st.tuples(*[st.floats(-2, 2)] * 2) | st.just((0.0, 0.0)),
)
@example((relu, 1), -480, -480, 0.5, (0.0, 0.0))
def test_homogeneous_functions_at_any_scale(f: tuple[Fn, int], a: int, b: int, r: float, m: tuple[float, float]) -> None:
    """Variances from 1e-289 to 1e144."""
    if max(m, key=abs) == 0 or abs(r) < 0.875:
        check_scales(f[0], f[0], f[1], a, b, r, m)


@pytest.mark.parametrize("m", [5e-324, 3e-320, 1e-200])
def test_means_below_all_digits(m: float) -> None:
    """A mean that is denormal changes nothing: the ratios in Owen's function keep their digits."""
    r = np.linspace(-0.9, 0.9, 19)
    for f in (ABS, step, relu, functions.clip(1)):
        tiny = expect2(f, f, 1.0, 1.0, r, np.array([np.full(19, m), np.full(19, -2 * m)]))
        assert tiny == pytest.approx(expect2(f, f, 1.0, 1.0, r), rel=1e-13, abs=1e-15)


def test_small_variances_linearise() -> None:
    """E f(X) f(Y) -> f'(0)² c for an odd f, at variances whose products are below the smallest double."""
    tiny = 1e-200
    for f, slope in ((erf, 2 / np.sqrt(np.pi)), (sin, 1.0), (functions.clip(1), 1.0), (functions.hard_sigmoid, None)):
        found = expect2(f, f, tiny, tiny, tiny / 2)[0]
        assert found == pytest.approx(0.25 if slope is None else slope**2 * tiny / 2, rel=1e-12, abs=0)
    assert expect2(elu(), elu(), tiny, tiny, tiny / 2)[0] == pytest.approx(tiny / 2, rel=1e-12, abs=0)


def test_plain_factors_on_other_scales() -> None:
    """E relu(X) relu(Y) Z by quadrature, X and Y measured in 1e-9 and 1e9: Z given both is no matter of units."""
    C = np.array([[1.0, 0.5, 0.25], [0.5, 1.0, 0.75], [0.25, 0.75, 1.0]])[..., None]
    unit = np.array([1e-9, 1e9, 1.0])[:, None]
    mean = np.array([[0.5], [0.25], [0.125]])
    ramp = replace(relu, pieces=())
    one, two = (
        Routes(1)(replace(integral([(0, ramp), (1, ramp), (2, ramp)], m, c), inputs=2, parts=PARTS))[0]
        for m, c in ((mean, C), (mean * unit, C * unit * unit[:, None]))
    )
    assert two == pytest.approx(one, rel=1e-12)


PARTS = tuple(Part((i,), lambda values, entries, i=i: relu.numpy(values[i])) for i in range(2))


# -------------------------------------------------------------------------------------------------------------------- overflow


def test_exponents_add_before_exp() -> None:
    """E exp(X) exp(Y) = exp((v + w)/2 + c) at v = w = 2000, where each alone overflows."""
    assert expect2(exp, exp, 2000.0, 2000.0, -1999.0)[0] == pytest.approx(np.e, rel=1e-11)
    assert expect2(exp, exp, 2000.0, 2000.0, 1999.0)[0] == np.inf


def test_a_fast_wave_keeps_its_closed_form() -> None:
    """E cos(X)² = 1/2 at a variance of 1e4, whose hundred periods no panel resolves."""
    assert expect2(cos, cos, 1e4, 1e4, np.array([1e4, -1e4])) == pytest.approx([0.5, 0.5], rel=1e-12)
    assert expect2(cos, sin, 1e4, 1e4, 1e4 - 1) == pytest.approx([0.0], abs=1e-12)


entries_ = st.floats(-300, 150).map(lambda x: float(10.0**x))
means = st.just(0.0) | st.tuples(st.sampled_from([-1.0, 1.0]), st.floats(-300, 75)).map(lambda t: float(t[0] * 10.0 ** t[1]))
correlations = st.sampled_from([-1.0, 0.0, 1.0]) | st.floats(-1, 1) | st.floats(-16, -1).map(lambda x: 1 - 10.0**x)


def check_never_nan(f: Fn, g: Fn, m: tuple[float, float], v: float, w: float, r: float) -> None:
    c = r * v if v == w else r * np.sqrt(v) * np.sqrt(w) * (1 - 1e-15)
    found = expect2(f, g, v, w, c, np.array(m)[:, None])[0]
    assert not np.isnan(found), f"{f} {g} at {m} {v} {w} {c}"
    one = expect1(f, np.array([m[0]]), np.array([v]))[0]
    assert not np.isnan(one), f"{f} at {m[0]} {v}"


@settings(max_examples=200)
@given(
    st.sampled_from(KNOWN),
    st.sampled_from(KNOWN),
    st.tuples(means, means),
    st.tuples(entries_, entries_) | entries_.map(lambda v: (v, v)),
    correlations,
)
@example(exp, functions.clip(1.5), (0.0, 0.0), (1e80, 1e60), 0.3)
@example(exp, step, (0.0, 0.0), (1e9, 1e9), -1.0)
@example(functions.hermite(3), functions.relu_power(2), (0.0, 0.0), (1e115, 1e141), -0.4)
def test_a_number_or_infinity_at_every_covariance(
    f: Fn, g: Fn, m: tuple[float, float], vw: tuple[float, float], r: float
) -> None:
    """Variances from 1e-300 to 1e150, means to 1e75. Infinity says that the value, or a number on the way, is too large."""
    check_never_nan(f, g, m, *vw, r)


def test_bounded_functions_are_bounded_at_every_covariance() -> None:
    """|E f(X) f(Y)| <= 1, and what overflows is exp and powers alone."""
    rng = np.random.default_rng(0)
    v, w = 10.0 ** rng.uniform(-300, 150, (2, 100))
    c = rng.uniform(-1, 1, 100) * np.sqrt(v) * np.sqrt(w)
    for f in (erf, sign, step, functions.probit, functions.hard_sigmoid, rbf()):
        assert (np.abs(expect2(f, f, v, w, c)) <= 1 + 1e-14).all()


# ------------------------------------------------------------------------------------------------------------- netsor.expect


def test_means_far_beyond_deviations() -> None:
    """Variances are those given, and no difference of E X² and (E X)²: cos and step see them at any mean."""
    assert float(netsor.expect(cos, mean=1e9, cov=1.0)) == pytest.approx(np.cos(1e9) * np.exp(-0.5), rel=1e-14)
    both = (np.cos(2e9) * np.exp(-1.5) + np.exp(-0.5)) / 2
    found = float(netsor.expect((cos, cos), mean=[1e9, 1e9], cov=[[1, 0.5], [0.5, 1]]))
    assert found == pytest.approx(both, abs=1e-7)  # a node near 1e9 is rounded at 1e-7
    assert float(netsor.expect((step, relu), mean=[-6e10, 1e-248], cov=np.full((2, 2), 2e-153))) == 0


def test_unknown_functions_at_tiny_variances() -> None:
    """By quadrature too: variables are not taken for multiples of each other because products of their variances vanish."""
    ramp = replace(relu, pieces=())
    found = expect2(ramp, ramp, 1e-200, 1e-200, 0.5e-200)
    assert found == pytest.approx(1e-200 * expect2(relu, relu, 1.0, 1.0, 0.5), rel=1e-12, abs=0)
