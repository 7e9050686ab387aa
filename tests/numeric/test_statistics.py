"""The jackknife against formulas, and distances on grids against closed forms."""

from math import exp, log, pi, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import ndtr
from scipy.stats import norm

from netsor.numeric import statistics
from netsor.numeric.estimate import LATTICES, lattice_error
from netsor.numeric.law import Mixture
from netsor.numeric.statistics import (
    graded_grid,
    inverse,
    jackknife,
    kl_on_grid,
    ks,
    mixture_mean,
    panels,
    wasserstein1,
)

T = np.linspace(-20, 20, 4001)
DT = np.full(T.size, T[1] - T[0])


@given(arrays(float, (7, 3), elements=st.floats(-1e3, 1e3)))
def test_jackknife_of_a_mean_is_its_standard_error(x: np.ndarray) -> None:
    value, error = jackknife(lambda m: m[0], x)
    assert np.allclose(value, x.mean(axis=0), rtol=1e-12, atol=1e-9)
    assert np.allclose(error, x.std(axis=0, ddof=1) / sqrt(7), rtol=1e-9, atol=1e-9)


def test_jackknife_of_a_square() -> None:
    """Replicates 0, 1, 5: means without one are 3, 2.5, 0.5."""
    value, error = jackknife(lambda m: m[0] ** 2, np.array([0.0, 1.0, 5.0]))
    assert value == 4
    assert error == pytest.approx(sqrt(2 / 3 * np.sum((np.array([9, 6.25, 0.25]) - 15.5 / 3) ** 2)), rel=1e-14)


def test_jackknife_of_several_arrays() -> None:
    x, y = np.array([1.0, 2.0, 6.0]), np.array([[1.0, 1.0], [2.0, 5.0], [0.0, 3.0]])
    value, error = jackknife(lambda m: m[0] * m[1], (x, y))
    assert value.tolist() == [3.0, 9.0]
    deleted = np.array([(8 / 2) * np.array([2, 8]) / 2, (7 / 2) * np.array([1, 4]) / 2, (3 / 2) * np.array([3, 6]) / 2])
    assert np.allclose(error, np.sqrt(2 / 3 * np.square(deleted - deleted.mean(axis=0)).sum(axis=0)), rtol=1e-14)


@given(st.floats(-1e6, 1e6), st.integers(1, 20))
def test_jackknife_of_equal_replicates_is_exact(x: float, count: int) -> None:
    value, error = jackknife(lambda m: np.sin(m[0]) / 3, np.full((count, 2), x))
    assert (value == np.sin(x) / 3).all()
    assert (error == 0).all()


def test_jackknife_refuses_different_numbers_of_replicates() -> None:
    with pytest.raises(ValueError, match=r"\[3, 4\]"):
        jackknife(lambda m: m[0], (np.zeros(3), np.zeros(4)))


def test_jackknife_estimates_the_variance_of_a_nonlinear_functional() -> None:
    """The mean of error² is Var(m²) = 4 μ² σ²/R (1 + O(σ²)): 1 to 3.5%, where its own deviation is 0.52% (6.7 sigma,
    false alarm 2e-11). The factor (R-1)/R is 6%, so leaving it out is found."""
    count, sigma = 16, 0.01
    x = 1 + sigma * np.random.default_rng(0).standard_normal((count, 5000))
    _, error = jackknife(lambda m: m[0] ** 2, x)
    assert np.mean(error**2) / (4 * sigma**2 / count) == pytest.approx(1, abs=0.035)


@given(st.floats(-3, 3), st.floats(0.2, 2))
def test_kl_on_a_grid_of_two_gaussians(mean: float, scale: float) -> None:
    log_p, log_q = norm.logpdf(T), norm.logpdf(T, mean, scale)
    expected = log(scale) + (1 + mean**2) / (2 * scale**2) - 0.5
    assert kl_on_grid(log_p, log_q, DT) == pytest.approx(expected, rel=1e-11, abs=1e-13)


def test_kl_on_a_grid_where_the_second_density_underflows() -> None:
    assert norm.pdf(8, 0, 0.1) == 0
    assert kl_on_grid(norm.logpdf(T), norm.logpdf(T, 0, 0.1), DT) == pytest.approx(49.5 - log(10), rel=1e-11)


@given(arrays(float, (2, 9), elements=st.floats(-30, 30)), arrays(float, 9, elements=st.floats(0, 10)))
def test_kl_on_a_grid_is_a_sum_of_nonnegative_terms(logs: np.ndarray, weights: np.ndarray) -> None:
    assert kl_on_grid(*logs, weights) >= -1e-14 * float(weights @ np.exp(logs).sum(axis=0))


def test_ks_and_w1_of_a_shift_and_of_a_scale() -> None:
    """The points lie a third of a cell off the crossing at 0, where the plain rule misses 1e-6 of the second W1."""
    t = T + DT[0] / 3
    f = ndtr(t)
    assert ks(f, ndtr(T - 1)) < ks(ndtr(T), ndtr(T - 1)) + DT[0]
    assert ks(ndtr(T), ndtr(T - 1)) == pytest.approx(2 * ndtr(0.5) - 1, rel=1e-12)
    assert wasserstein1(f, ndtr(t - 1), DT) == pytest.approx(1, rel=1e-12)
    exact = sqrt(2 / pi)
    assert wasserstein1(f, ndtr(t / 2), DT) == pytest.approx(exact, rel=1e-9)
    assert abs(DT @ np.abs(f - ndtr(t / 2)) / exact - 1) > 1e-6


@given(st.floats(-1, 1), st.floats(-2, 2), st.booleans())
def test_lattice_error_bounds_that_of_a_jump_and_of_a_kink(at: float, slope: float, jump: bool) -> None:
    step = 0.3
    z = -12 + step * np.arange(80)

    def f(z: np.ndarray) -> np.ndarray:
        return (z <= at).astype(float) if jump else slope * np.abs(z - at)

    exact = ndtr(at) if jump else slope * (at * (2 * ndtr(at) - 1) + 2 * norm.pdf(at))
    terms = (step * norm.pdf(z) * f(z)).reshape(-1, LATTICES).sum(axis=0)
    assert abs(terms.sum() - exact) <= lattice_error(LATTICES * terms) + 1e-12


def test_lattice_error_is_sharp_to_a_small_factor() -> None:
    step = 0.3
    z = -12 + step * np.arange(80)
    terms = (step * norm.pdf(z) * np.abs(z)).reshape(-1, LATTICES).sum(axis=0)
    assert lattice_error(LATTICES * terms) < 10 * abs(terms.sum() - sqrt(2 / pi))


@given(st.floats(-3, 3), st.floats(1e-5, 1))
def test_a_graded_grid_resolves_the_narrow_and_reaches_the_wide(mean: float, scale: float) -> None:
    t, weights = graded_grid(Mixture(0.0, 1.0), Mixture(mean, scale**2))
    assert (np.diff(t) > 0).all()
    assert weights @ norm.pdf(t, mean, scale) == pytest.approx(1, abs=1e-10)
    assert weights @ norm.pdf(t, 0, 1) == pytest.approx(1, abs=1e-3)


@settings(max_examples=25)
@given(st.floats(-5, 5), st.floats(-6, 0).map(lambda x: 10**x))
def test_panels_find_a_narrow_component_anywhere(mean: float, scale: float) -> None:
    law = Mixture(np.array([[0.0, mean]]), np.array([[1.0, scale**2]]))
    weights, (log_p, log_q), bound = panels(law, Mixture(0.0, 1.0))
    assert weights @ np.exp(log_p[0]) == pytest.approx(1, abs=1e-10)
    assert weights @ np.exp(log_q[0]) == pytest.approx(1, abs=1e-10)
    assert bound < 1e-8


@pytest.mark.parametrize("most", [20, 40, 80, 160])
def test_panels_report_what_they_do_not_resolve(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    spikes, wide = Mixture(np.linspace(-1, 1, 30)[None], 1e-7), Mixture(0.0, 1.0)
    weights, (log_p, log_q), bound = panels(spikes, wide)
    assert bound < 1e-6
    exact = kl_on_grid(log_p[0], log_q[0], weights)
    monkeypatch.setattr(statistics, "_PANELS", most)
    weights, (log_p, log_q), bound = panels(spikes, wide)
    assert weights.size <= 16 * most
    assert abs(kl_on_grid(log_p[0], log_q[0], weights) - exact) <= bound


@settings(max_examples=30)
@given(st.lists(st.floats(1e-12, 1 - 1e-12), min_size=1, max_size=5), st.floats(-10, 10), st.floats(0.01, 10))
def test_inverse_of_a_smooth_curve(levels: list[float], mean: float, scale: float) -> None:
    q = np.array(levels)
    t = inverse(lambda t: ndtr((t - mean) / scale), q, mean - 40 * scale, mean + 40 * scale, 1e-12)
    exact = norm.ppf(q, mean, scale)
    assert np.allclose(t, exact, rtol=1e-12, atol=2e-12 + 1e-15 / norm.pdf(exact, mean, scale).min())


@pytest.mark.parametrize("level", [1e-6, 0.1, 0.5, 0.50001, 0.9])
def test_inverse_needs_few_evaluations(level: float) -> None:
    """Three scales, and a bracket a thousand times too wide: bisection alone takes 54 evaluations."""
    calls = 0

    def curve(t: np.ndarray) -> np.ndarray:
        nonlocal calls
        calls += 1
        return (ndtr(t) + ndtr(100 * t - 3) + ndtr((t - 1) / 5)) / 3

    inverse(curve, np.array([level]), -190.0, 190.0, 1e-14)
    assert calls < 25


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=8), st.floats(0.01, 0.99))
def test_inverse_of_steps_is_the_place_of_a_step(steps: list[int], level: float) -> None:
    """A level within 1e-9 of a plateau may go either way by rounding."""
    places = np.sort(steps)
    if abs(level * len(steps) - round(level * len(steps))) < 1e-9:
        level += 1e-6

    def curve(t: np.ndarray) -> np.ndarray:
        return np.searchsorted(places, t, side="right") / len(places)

    t = inverse(curve, np.array([level]), -51.0, 50.0, 1e-10)
    expected = places[int(np.ceil(level * len(places))) - 1]
    assert expected <= t[0] <= expected + 1e-9


@pytest.mark.parametrize(
    ("f", "exact"),
    [
        (np.abs, sqrt(2 / pi)),
        (lambda x: x <= 0.3, float(ndtr(0.3))),
        (lambda x: x <= 0, 0.5),
        (np.exp, exp(0.5)),
        (lambda x: np.exp(4 * x), exp(8)),
        (lambda x: x**12, 10395),
        (lambda x: np.exp(0.49 * x**2), 1 / sqrt(0.02)),  # a tenth of it lies beyond the nodes
        (lambda x: 1.0, 1),
    ],
)
def test_the_error_of_a_gaussian_mean_is_no_lie(f, exact: float) -> None:
    value, bound = mixture_mean(f, np.zeros((1, 1)), np.ones((1, 1)))
    assert abs(value[0] - exact) <= bound + 1e-14 * exact


@pytest.mark.parametrize(("f", "exact"), [(np.exp, exp(0.5)), (np.abs, sqrt(2 / pi)), (lambda x: x**12, 10395)])
def test_a_gaussian_mean_is_accurate(f, exact: float) -> None:
    value, bound = mixture_mean(f, np.zeros((1, 1)), np.ones((1, 1)))
    assert value[0] == pytest.approx(exact, rel=1e-7)
    assert bound < 1e-6 * exact
