"""Do two engines have one joint law? Tests of independent samples, with a stated rate of false alarms."""

from collections.abc import Mapping

import numpy as np
from scipy.stats import chi2

from netsor import Program
from netsor.finite.simulate import simulation
from netsor.ir import Term
from netsor.numeric.draws import Output

ALARM = 1e-7  # of one test, so that all tests of this folder together stay below 1e-5
FREQUENCIES = 24


class Differ(AssertionError):
    """Two samples do not have one law, beyond what chance explains."""


def drawn(terms: Mapping[str, Term], engine: str, width: int, runs: int, coordinates: int = 2, rng: int = 0) -> np.ndarray:
    """Everything that is asked for, one row a run: scores, averages, and first coordinates, all jointly."""
    Program("drawn", **terms)  # no two things of one name: they would be independent, and share their streams
    outputs = {name: Output(t, coordinates) for name, t in terms.items()}
    rows = []
    for size, arrays in simulation(outputs, width=width, runs=runs, engine=engine).shards(rng):
        columns = []
        for name, t in terms.items():
            axis = len(t.free)
            columns.append(np.moveaxis(arrays[name], axis, 0).reshape(size, -1))
        rows.append(np.concatenate(columns, axis=1))
    return np.concatenate(rows)


def assert_same_law(x: np.ndarray, y: np.ndarray, alarm: float = ALARM) -> None:
    """Two independent samples have one joint law.

    Means of cos(w.z) and sin(w.z) at 24 random frequencies: 8 for all columns together, 16 for at most two of them, where a
    difference is not washed out. Columns are measured in their median absolute deviations, as tails may be heavy. The
    Mahalanobis distance of the 48 differences is chi-square with as many degrees of freedom as their covariance has.
    Detects at 200,000 runs a side differences of 0.03 in one characteristic function.
    Shapes: (runs, d), (other runs, d).
    """
    pooled = np.concatenate([x, y])
    spread = np.median(np.abs(pooled - np.median(pooled, axis=0)), axis=0)
    spread = np.where(spread > 0, spread, np.where(pooled.std(0) > 0, pooled.std(0), 1.0))
    rng = np.random.default_rng(0)
    w = rng.standard_normal((x.shape[1], FREQUENCIES)) / np.sqrt(x.shape[1])
    for k in range(8, FREQUENCIES):
        w[:, k] = 0
        some = rng.choice(x.shape[1], size=min(2, x.shape[1]), replace=False)
        w[some, k] = rng.standard_normal(len(some))
    w = w / spread[:, None]
    f, g = (np.concatenate([np.cos(z @ w), np.sin(z @ w)], axis=1) for z in (x, y))
    gap = f.mean(0) - g.mean(0)
    covariance = np.cov(f.T) / len(f) + np.cov(g.T) / len(g)
    values, vectors = np.linalg.eigh(covariance)
    kept = values > 1e-9 * values.max()
    distance = float(np.sum((vectors[:, kept].T @ gap) ** 2 / values[kept]))
    if not distance <= chi2.isf(alarm, int(kept.sum())):
        raise Differ(f"joint laws differ: chi-square {distance:.0f} with {kept.sum()} degrees of freedom")
