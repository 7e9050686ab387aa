"""Attention in numbers: bounds that hold in every draw, and identities in mean."""

from functools import cache
from math import log
from typing import Any

import numpy as np
import pytest
from calibrated import assert_within, average

from netsor.loading import load


@cache
def limit(**settings: float) -> Any:
    return load("attention_observables", {key: str(value) for key, value in settings.items()}).limit()


def test_bounds() -> None:
    drawn = limit(beta=2).sample(2000, rng=0)
    squares, participation, entropy = (drawn[name] for name in ("squares", "participation", "entropy"))
    assert squares.min() >= 0.25
    assert squares.max() <= 1
    assert np.allclose(squares * participation, 1)
    assert entropy.min() >= -1e-12
    assert entropy.max() <= log(4) + 1e-12
    assert (log(4) - entropy >= -1e-12).all()
    assert (entropy >= -np.log(squares) - 1e-12).all()  # the entropies of Rényi fall with their order


@pytest.mark.parametrize("heads", [1, 3])
def test_variance_given_the_scores(heads: int) -> None:
    """E V = E Σ A² for independent tokens and any number of heads; Cov(y_1², y_2²) = Var V between two coordinates."""
    L = limit(heads=heads)
    assert_within(L.mean("V")[0], L.mean("squares")[0, 0])
    y = L.sample(2**18, names=["y"], coordinates=2, rng=1)["y"][0]
    one, two = y.T
    assert_within(average(one * two), 0.0, replicates=500)
    assert_within(average(one**2 * two**2 - one**2 * two[::-1] ** 2), L.law("V", i=0).variance, replicates=16)


def test_heads_share_the_variance() -> None:
    one, four = (limit(heads=H).law("V", i=0).variance for H in (1, 4))
    assert 4 * four == pytest.approx(one, abs=5 * np.hypot(one.error, 4 * four.error))


def test_rank_collapse() -> None:
    """Tokens are drawn together; entirely so at infinite temperature, not at all far from it."""
    assert float(limit(correlation=0.5).mean("before")) == pytest.approx(0.5)
    assert float(limit(beta=1e-3).mean("after")) == pytest.approx(1, abs=1e-4)
    means = [float(limit(beta=beta).mean("after", runs=2**12)) for beta in (0.5, 1, 2, 4)]
    assert sorted(means, reverse=True) == means
    assert float(limit(correlation=0.5).mean("after")) > 0.5


def test_sigma_is_a_temperature() -> None:
    """Queries and keys of twice the size are scores of four times the size."""
    assert_within(limit(sigma=2).mean("squares")[0, 0], limit(beta=4).mean("squares")[0, 0])
