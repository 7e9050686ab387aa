"""Do two independent samples have one joint law? Tests with a p-value, the effect seen, and the effect that they find.

Rows are runs, columns are numbers of a run; shapes are (runs, d) and (other runs, d). A test raises a false alarm at the
rate at which its p-value is compared with; `detectable` is the effect that it finds in nine samples of ten at that rate.
Where a law is that of many runs (all but the permutations), p-values below 1/runs^2 are orders of magnitude only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import kolmogorov
from scipy.stats import f as fisher
from scipy.stats import gamma, ncx2

from netsor.numeric.streams import Rng, seed_of

Array = NDArray[np.float64]

NOTHING = 1e-14  # standard deviations of means of features, which are rounded to 1e-12
POWER = 0.9
ALARM = 1e-6


@dataclass(frozen=True)
class Test:
    """One test. `effect` and `detectable` are in the unit named by `of`."""

    __test__ = False  # pytest: not a class of tests

    name: str
    pvalue: float
    effect: float
    detectable: float
    of: str

    def __str__(self) -> str:
        return f"{self.name}: p = {self.pvalue:.2g}; {self.of} {self.effect:.3g}, detectable {self.detectable:.2g}"


def fourier(x: Array, y: Array, *, frequencies: int = 24, alarm: float = ALARM, rng: Rng = 0) -> Test:
    """Characteristic functions at random frequencies, a joint test.

    Means of cos(w.z) and sin(w.z), a third of the frequencies in all columns and two thirds in at most two of them, where
    a difference is not washed out; columns are measured in their median absolute deviations, as tails may be heavy. The
    squared Mahalanobis distance of the differences is Hotelling's: F with as many degrees of freedom as their covariance
    has. Detects a difference of characteristic functions of about 6/sqrt(runs) at one of 24 frequencies, at 1e-6.
    Random: the frequencies, from `rng`; the p-value is right for any of them that do not depend on the data.
    """
    w = waves(spread(np.concatenate([x, y])), frequencies, seed_of(rng))
    return hotelling("characteristic functions", features(x, w), features(y, w), alarm)


def waves(scale: Array, count: int, seed: np.random.SeedSequence) -> Array:
    """Frequencies for columns of these scales. Shapes: (d,) to (d, count)."""
    rng = np.random.default_rng(seed)
    d = len(scale)
    w = rng.standard_normal((d, count)) / np.sqrt(d)
    for k in range(count // 3, count):
        some = rng.choice(d, size=min(2, d), replace=False)
        w[:, k] = 0
        w[some, k] = rng.standard_normal(len(some))
    return np.asarray(w / scale[:, None])


def features(x: Array, w: Array) -> Array:
    """Rounded, so that what is constant is so in every bit."""
    angle = x @ w
    return np.round(np.concatenate([np.cos(angle), np.sin(angle)], axis=1), 12)


def spread(x: Array) -> Array:
    """The median absolute deviation of each column, its standard deviation where that is 0, and 1 for a constant."""
    mad = np.median(np.abs(x - np.median(x, axis=0)), axis=0)
    deviation = x.std(0)
    return np.where(mad > 0, mad, np.where(deviation > 0, deviation, 1.0))


def hotelling(name: str, f: Array, g: Array, alarm: float = ALARM) -> Test:
    """Are the means of bounded (or light-tailed) features equal? Shapes: (runs, k), (other runs, k)."""
    gap = f.mean(0) - g.mean(0)
    covariance = np.atleast_2d(np.cov(f.T)) / len(f) + np.atleast_2d(np.cov(g.T)) / len(g)
    return distance(name, gap, covariance, min(len(f), len(g)), alarm)


def distance(name: str, gap: Array, covariance: Array, runs: int, alarm: float = ALARM) -> Test:
    """Is a vector of mean 0, its covariance estimated from `runs` runs? Directions without variance must be exactly 0."""
    entries = np.sqrt(np.diag(covariance))
    moving = entries > NOTHING
    entries, covariance = np.where(moving, entries, 0.0), np.where(np.outer(moving, moving), covariance, 0.0)
    unit = np.where(entries > 0, entries, 1.0)
    values, vectors = np.linalg.eigh(covariance / np.outer(unit, unit))
    kept = values > 1e-9 * max(float(values.max(initial=0.0)), 1e-300)
    turned = vectors.T @ (gap / unit)
    exact = bool(np.abs(gap[entries == 0]).max(initial=0.0) > 1e-9)
    k = int(kept.sum())
    effect = float(np.abs(gap).max(initial=0.0))
    if exact or k == 0:
        return Test(name, 0.0 if exact else 1.0, effect, 0.0, "largest difference of means")
    squared = float(np.sum(turned[kept] ** 2 / values[kept]))
    if k < runs - 2:
        pvalue = float(fisher.sf(squared * (runs - k) / (k * max(runs - 1, 1)), k, runs - k))
    else:
        raise ValueError(f"{k} features of {runs} runs: a test needs more runs than features")
    critical = float(fisher.isf(alarm, k, runs - k)) * k * (runs - 1) / (runs - k)
    detectable = float(np.median(entries[entries > 0])) * np.sqrt(noncentrality(critical, k))
    return Test(name, pvalue, effect, detectable, "largest difference of means")


def noncentrality(critical: float, k: int) -> float:
    """The noncentrality at which a chi-square with k degrees of freedom exceeds the critical value in nine of ten."""
    high = 1.0
    while ncx2.sf(critical, k, high) < POWER:
        high *= 2
    return float(brentq(lambda at: ncx2.sf(critical, k, at) - POWER, 1e-9, high, rtol=1e-4))


def marginals(x: Array, y: Array, *, alarm: float = ALARM) -> Test:
    """The largest distance of distribution functions over all columns, with Kolmogorov's law and Bonferroni's correction.

    The p-value is at most d times the bound of Dvoretzky, Kiefer, Wolfowitz and Massart, 2 exp(-2 m D^2) with
    1/m = 1/runs + 1/other runs. It is uniform for one column of a continuous law, and larger for atoms and more columns.
    """
    m = len(x) * len(y) / (len(x) + len(y))
    largest = max(float(np.abs(gap).max()) for gap in (steps(a, b) for a, b in zip(x.T, y.T, strict=True)))
    pvalue = min(1.0, x.shape[1] * float(kolmogorov(np.sqrt(m) * largest)))
    quantile = np.sqrt(np.log(2 * x.shape[1] / alarm) / (2 * m))
    return Test("marginal laws", pvalue, largest, float(quantile + np.sqrt(np.log(10.0) / (2 * m))), "distance of cdfs")


def steps(a: Array, b: Array) -> Array:
    """Differences of two empirical distribution functions at all jumps."""
    at = np.sort(np.concatenate([a, b]))
    first, second = (np.searchsorted(np.sort(z), at, "right") / len(z) for z in (a, b))
    return np.asarray(first - second)


def grams(x: Array, y: Array, *, alarm: float = ALARM) -> Test:
    """Second moments E z_i z_j, all of them jointly, columns in units of their spread: a wrong number of degrees of
    freedom or a wrong correlation, that no marginal shows. Needs four moments; detects 6/sqrt(runs) at 1e-6."""
    scale = spread(np.concatenate([x, y]))
    return hotelling("second moments", products(x / scale), products(y / scale), alarm)


def covariance_is(x: Array, covariance: Array, *, alarm: float = ALARM) -> Test:
    """E z z^T of one sample is this matrix."""
    scale = spread(x)
    p = products(x / scale)
    d = range(x.shape[1])
    expected = np.array([covariance[i, j] / (scale[i] * scale[j]) for i in d for j in range(i + 1)])
    return distance("second moments", p.mean(0) - expected, np.atleast_2d(np.cov(p.T)) / len(p), len(p), alarm)


def products(z: Array) -> Array:
    d = range(z.shape[1])
    return np.stack([z[:, i] * z[:, j] for i in d for j in range(i + 1)], axis=1)


def energy(
    x: Array, y: Array, *, permutations: int = 199, exact: bool = False, most: int = 1000, alarm: float = ALARM, rng: Rng = 0
) -> Test:
    """The energy distance 2 E|X - Y| - E|X - X'| - E|Y - Y'|, columns in units of their spread; 0 for equal laws only.

    exact=True: the share of relabellings with at least this distance, a valid p-value at any number of runs, never below
    1/(permutations + 1). Otherwise the tail of the gamma law with the mean, variance and skewness of the relabelled
    distances, which approximates the weighted sum of chi-squares that the distance tends to.
    most: only the first so many runs of each sample are used, as the work grows with their square.
    Random: the relabellings, from `rng`.
    """
    x, y = x[:most], y[:most]
    pooled = np.concatenate([x, y])
    z = pooled / spread(pooled)
    squares = np.sum(z**2, axis=1)
    apart = np.sqrt(np.maximum(squares[:, None] + squares[None, :] - 2 * z @ z.T, 0))
    n, m = len(x), len(y)
    sign = np.concatenate([np.full(n, 1 / n), np.full(m, -1 / m)])
    random = np.random.default_rng(seed_of(rng))
    signs = np.stack([sign, *(random.permutation(sign) for _ in range(permutations))])
    values = -np.einsum("ri,ri->r", signs @ apart, signs)
    seen, others = float(values[0]), values[1:]
    if exact:
        pvalue = (1 + int((others >= seen).sum())) / (permutations + 1)
        least = float(np.quantile(others, 1 - max(alarm, 1 / (permutations + 1))))
    else:
        pvalue, least = tail(others, seen, alarm)
    return Test("energy distance", float(pvalue), seen, least, "distance")


def tail(values: Array, seen: float, alarm: float) -> tuple[float, float]:
    """Of the shifted gamma law with the first three moments of the values: its upper tail, and its upper quantile."""
    mean, deviation = float(values.mean()), float(values.std(ddof=1))
    if deviation == 0:
        return float(seen <= mean + 1e-12 * abs(mean)), mean
    shape = 4 / max(float(np.mean(((values - mean) / deviation) ** 3)), 0.1) ** 2
    root = np.sqrt(shape)
    return (
        float(gamma.sf(shape + root * (seen - mean) / deviation, shape)),
        float(mean + deviation * (gamma.isf(alarm, shape) - shape) / root),
    )
