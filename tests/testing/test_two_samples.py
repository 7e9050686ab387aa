"""The tests of netsor.testing.statistics are tested: p-values are uniform where laws are equal, small where they are not.

Uniformity: the Kolmogorov distance of 400 p-values from the uniform law, at a false alarm rate of 1e-6; it finds a distance
of 0.2. The seeds are fixed.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from scipy.stats import kstest

from netsor.testing import statistics
from netsor.testing.statistics import Test, covariance_is, energy, fourier, grams, marginals

Array = np.ndarray
ROOT = np.array([[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.0, 0.0, 1.0]])


def gaussian(rng: np.random.Generator, runs: int) -> Array:
    return rng.standard_normal((runs, 3)) @ ROOT.T


def heavy(rng: np.random.Generator, runs: int) -> Array:
    """Mixtures of Gaussians, as outputs of attention are."""
    return gaussian(rng, runs) * np.sqrt(0.5 + rng.random((runs, 1)))


TESTS: dict[str, Callable[[Array, Array], Test]] = {
    "fourier": partial(fourier, frequencies=8),
    "grams": grams,
    "energy": partial(energy, permutations=99),
    "energy, exact": partial(energy, permutations=99, exact=True),
    "marginals": lambda x, y: marginals(x[:, :1], y[:, :1]),
}


UNIFORM = [(name, law) for name in TESTS for law in (gaussian, heavy)]
SLOW = ("energy", "energy, exact")  # for one law only, where minutes matter


@pytest.mark.parametrize(
    ("name", "law"),
    [pytest.param(n, f, marks=[pytest.mark.nightly] if n in SLOW and f is heavy else []) for n, f in UNIFORM],
)
def test_p_values_are_uniform_under_the_null(name: str, law: Callable) -> None:
    rng = np.random.default_rng(1)
    runs = 600 if name in ("fourier", "grams") else 80
    pvalues = [TESTS[name](law(rng, runs), law(rng, runs + 30)).pvalue for _ in range(400)]
    jitter = rng.random(400) / 100 if name == "energy, exact" else 0  # its values are k/100
    assert kstest(np.clip(np.array(pvalues) - jitter, 0, 1), "uniform").pvalue > 1e-6


def test_a_right_covariance_has_a_uniform_p_value() -> None:
    rng = np.random.default_rng(2)
    pvalues = [covariance_is(gaussian(rng, 1000), ROOT @ ROOT.T).pvalue for _ in range(400)]
    assert kstest(pvalues, "uniform").pvalue > 1e-6


def test_many_marginals_and_atoms_alarm_less_often() -> None:
    rng = np.random.default_rng(3)
    pvalues = np.array([marginals(np.round(gaussian(rng, 100)), np.round(gaussian(rng, 100))).pvalue for _ in range(400)])
    assert (pvalues < 0.1).mean() < 0.1 + 5 * np.sqrt(0.09 / 400)


ALTERNATIVES: dict[str, Callable[[Array, np.random.Generator], Array]] = {
    "variance 10 % larger": lambda x, _: x * np.sqrt(1.1),
    "mean off by a tenth": lambda x, _: x + 0.1,
    "columns independent": lambda x, rng: np.stack([rng.permutation(c) for c in x.T], axis=1),
    "a Gaussian for the mixture": lambda x, rng: rng.standard_normal(x.shape) @ np.linalg.cholesky(np.cov(x.T)).T,
    "variance doubled": lambda x, _: x * np.sqrt(2),
    "a sign": lambda x, _: x * [1, -1, 1],
}

SEES = {
    "fourier": list(ALTERNATIVES),
    "grams": ["variance 10 % larger", "columns independent", "a sign"],
    "energy": ["variance doubled", "a sign"],
    "marginals": ["mean off by a tenth"],
}


@pytest.mark.parametrize(("name", "alternative"), [(n, a) for n, found in SEES.items() for a in found])
def test_power(name: str, alternative: str) -> None:
    """Found at 1e-6 with 50,000 runs a side (of which energy uses 1,000); the same samples without the change are not."""
    rng = np.random.default_rng(4)
    x, y = heavy(rng, 50_000), heavy(rng, 50_000)
    test = partial(TESTS[name], frequencies=24) if name == "fourier" else TESTS[name]
    assert test(x, y).pvalue > 1e-6
    assert test(x, ALTERNATIVES[alternative](y, rng)).pvalue < 1e-6


def test_the_effect_called_detectable_is_detected() -> None:
    """A shift of one feature's mean by the effect stated: nine of ten alarms (at least 75 of 100: 1e-5)."""
    rng = np.random.default_rng(5)
    shift = statistics.hotelling("f", rng.standard_normal((1000, 1)), rng.standard_normal((1000, 1)), 1e-3).detectable
    found = [
        statistics.hotelling("f", rng.standard_normal((1000, 1)) + shift, rng.standard_normal((1000, 1)), 1e-3).pvalue < 1e-3
        for _ in range(100)
    ]
    assert sum(found) >= 75


def test_constants_are_compared_exactly() -> None:
    ones = np.ones((50, 2))
    assert fourier(ones, ones).pvalue == 1
    assert fourier(ones, ones + 1e-3).pvalue == 0
    assert energy(ones, ones).pvalue == 1
    assert grams(ones, ones).pvalue == 1


def test_more_features_than_runs_are_refused() -> None:
    x = np.random.default_rng(6).standard_normal((20, 3))
    with pytest.raises(ValueError, match="more runs"):
        fourier(x, x)


def test_a_test_says_what_it_found() -> None:
    x = np.random.default_rng(7).standard_normal((1000, 2))
    assert str(grams(x, 2 * x)).startswith("second moments: p = ")
