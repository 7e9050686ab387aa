"""Statistical assertions: a correct program fails one with probability `alarm`, and seeds are fixed: a failure is a change.

A deviation is measured in standard errors that were themselves estimated, from the spread of independent replicates, so
it follows Student's law with one degree of freedom less than there are replicates. Joint laws: netsor.testing.statistics.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import t

from netsor.numeric.estimate import Estimate, EstimateArray
from netsor.numeric.law import Sampled
from netsor.testing.statistics import fourier

ALARM = 1e-6
REPLICATES = 16  # of every law and average of the library
BATCHES = 500  # of draws; Student's law then is the normal one: 4.96 standard errors at 1e-6
ROUNDING = 1e-12  # of the largest entry: what is computed without sampling comes with error 0


class Deviates(AssertionError):
    """A number is not what it should be, beyond what chance explains."""


def errors_allowed(alarm: float = ALARM, replicates: float = REPLICATES) -> float:
    """The two-sided quantile: 7.9 standard errors at 1e-6 from 16 replicates, 4.96 from 500, 4.89 from infinitely many."""
    return float(t.isf(alarm / 2, replicates - 1))


def assert_within(value: Any, expected: Any, alarm: float = ALARM, replicates: float = REPLICATES) -> None:
    """value = expected, both numbers or arrays with or without errors. All entries together raise `alarm` false alarms
    (Bonferroni). `replicates`: behind the error, the fewer if there are two."""
    x, y = np.broadcast_arrays(np.asarray(value, float), np.asarray(expected, float))
    gap, error = np.abs(x - y), np.hypot(error_of(value), error_of(expected))
    rounding = ROUNDING * max(np.abs(x).max(), np.abs(y).max())
    bound = np.broadcast_to(errors_allowed(alarm / gap.size, replicates) * error + rounding, gap.shape)
    if not (gap <= bound).all():
        k = np.argmax(gap - bound)
        raise Deviates(f"{x.flat[k]:.6g}, not {y.flat[k]:.6g}: off by {gap.flat[k]:.3g}, allowed {bound.flat[k]:.3g}")


def assert_detects(test: Callable[..., None], *args: Any) -> None:
    """A mutant fails the test, by a deviation and not by an accident."""
    with pytest.raises(Deviates):
        test(*args)


def error_of(value: Any) -> Any:
    return value.error if isinstance(value, Estimate | EstimateArray) else 0.0


def draws(x: np.ndarray, replicates: int = BATCHES) -> Sampled:
    """The empirical law of independent runs, in equal batches; what is left over is dropped."""
    return Sampled(x[: x.size // replicates * replicates].reshape(replicates, -1))


def average(x: np.ndarray) -> EstimateArray:
    """The mean over the last axis, which are independent runs, with its standard error."""
    return EstimateArray(x.mean(-1), x.std(-1, ddof=1) / np.sqrt(x.shape[-1]))


def assert_same_law(x: np.ndarray, y: np.ndarray, alarm: float = ALARM) -> None:
    """Two independent samples have one joint law, by their characteristic functions at 8 random frequencies: at 1e-6 a
    difference of 8/sqrt(runs) is found.

    Shapes: (runs, d) and (other runs, d).
    """
    test = fourier(x, y, frequencies=8, alarm=alarm)
    if not test.pvalue > alarm:
        raise Deviates(f"joint laws differ: {test}")
