"""Distances between two laws, on a given grid and on one made for them, and the curves of Gaussian mixtures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import hypot, pi, sqrt
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from netsor.numeric.estimate import LATTICES, Estimate, lattice_error
from netsor.numeric.estimate import jackknife as jackknife

Array = NDArray[np.float64]

_POINTS = 400  # of a graded grid; even, so that a symmetric grid has no point at its centre
_ORDER = 16  # Gauss-Legendre nodes in a panel
_DEFECT = 1e-12  # of a panel, in mass and in KL divergence
_PANELS = 4096
_HALVINGS = 60
_FLOAT = np.finfo(np.float64)
_BLOCK = 2**17  # numbers in a temporary array: a megabyte stays in the cache
_REACH = 12.0  # of the standardised line in `mixture_mean`: f may tilt the weight by 4 standard deviations
_GOLDEN = (sqrt(5) - 1) / 2


def kl_on_grid(log_p: Array, log_q: Array, weights: Array) -> float:
    """KL(p || q) = ∫ p log(p/q) - p + q: every term is >= 0, and the last two cancel for normalised densities.

    Densities are given by logarithms, since q may be below the smallest float where p log(p/q) is not negligible.

    Shapes: (points,) each; `weights` are those of a quadrature rule.
    """
    p = np.exp(log_p)
    return float(weights @ (p * (log_p - log_q) - p + np.exp(log_q)))


def ks(cdf_p: Array, cdf_q: Array) -> float:
    """sup |F - G| over the points of the grid.  Shapes: (points,) each."""
    return float(np.abs(cdf_p - cdf_q).max())


def wasserstein1(cdf_p: Array, cdf_q: Array, weights: Array) -> float:
    """∫ |F - G| dt by a trapezoid rule, without its error at the kinks of |F - G|.

    Where F - G passes from -a to b in a cell of length h, that error is h (ab/(a+b) - (a+b)/6) + O(h³).

    Shapes: (points,) each, points in order; `weights` are those of the trapezoid rule in some smooth variable.
    """
    gap = cdf_p - cdf_q
    size = np.abs(gap)
    at = np.flatnonzero(gap[:-1] * gap[1:] < 0)
    a, b, h = size[at], size[at + 1], (weights[at] + weights[at + 1]) / 2
    return float(weights @ size - h @ (a * b / (a + b) - (a + b) / 6))


class Window(NamedTuple):
    """A law has all but 1e-18 of its mass in [lo, hi], with lo < hi, and nothing but steps is narrower than `scale`."""

    lo: float
    hi: float
    centre: float
    scale: float
    symmetric: bool


class Replicated(Protocol):
    """A law in several replicates.  Shapes: the curves map (points,) to (replicates, points)."""

    def window(self) -> Window: ...
    def cdfs(self, t: Array) -> Array: ...
    def log_pdfs(self, t: Array) -> Array: ...


def graded_grid(*laws: Replicated) -> tuple[Array, Array]:
    """Points t = c + s sinh(u), u equidistant, c and s those of the narrowest law, and weights dt."""
    windows = [law.window() for law in laws]
    narrow = min(windows, key=lambda w: w.scale)
    lo, hi = min(w.lo for w in windows), max(w.hi for w in windows)
    scale = max(narrow.scale, 1e-9 * (hi - lo))
    start, stop = np.arcsinh((np.array([lo, hi]) - narrow.centre) / scale)
    u, step = np.linspace(start, stop, _POINTS, retstep=True)
    return narrow.centre + scale * np.sinh(u), step * scale * np.cosh(u)


def panels(*laws: Replicated) -> tuple[Array, list[Array], float]:
    """Gauss-Legendre panels for the KL divergence of two laws, halved until all of them are resolved.

    On a panel every density has to integrate to its exact mass there, so that no narrow component is missed: its mass
    would be. And the Legendre coefficients of the integrand have to fall: log(p/q) may turn sharply, from one component
    to the next, where p is smooth. With 4096 panels the rest becomes an error bound, a missing mass 1 + |log(p/q)|
    times.

    Shapes: weights (points,); log densities (replicates, points) of each law; the bound.
    """
    windows = [law.window() for law in laws]
    lo, hi = min(w.lo for w in windows), max(w.hi for w in windows)
    folds = all(w.symmetric and w.centre == windows[0].centre for w in windows)
    nodes, rule = np.polynomial.legendre.leggauss(_ORDER)
    to_coefficients = rule[:, None] * np.polynomial.legendre.legvander(nodes, _ORDER - 1) * (np.arange(_ORDER) + 0.5)
    edges = np.linspace(windows[0].centre if folds else lo, hi, _ORDER // (1 + folds) + 1)
    a, b = edges[:-1], edges[1:]
    done: list[tuple[Array, ...]] = []
    bound, count = 0.0, 0
    for halving in range(_HALVINGS + 1):
        half = (b - a) / 2
        middle = a + half
        weights = half[:, None] * rule
        t = (middle[:, None] + half[:, None] * nodes).ravel()
        logs = [law.log_pdfs(t).reshape(-1, *weights.shape) for law in laws]
        pooled = np.stack([log_mean(log) for log in logs])
        masses = np.stack([law.cdfs(b).mean(axis=0) - law.cdfs(a).mean(axis=0) for law in laws])
        defect = np.abs((np.exp(pooled) * weights).sum(axis=-1) - masses).sum(axis=0)
        ratio = pooled[0] - pooled[-1]
        integrand = np.exp(pooled[0]) * ratio - np.exp(pooled[0]) + np.exp(pooled[-1])
        size = np.abs(integrand @ to_coefficients)
        # What is left out is at most of the size of the last coefficients. (The rule is exact to twice their degree, but to
        # take their square would trust them to fall geometrically, and behind a sharp turn of log(p/q) they do not.)
        miss = half * size[:, -4:].sum(axis=-1)
        kept = np.maximum(defect, miss) <= _DEFECT
        if halving == _HALVINGS or count + 2 * a.size > _PANELS:
            kept[:] = True
        bound += float(((1 + np.abs(ratio).max(axis=-1)) * defect + miss)[kept].sum())
        count += int(kept.sum())
        done.append((weights[kept].ravel(), *(log[:, kept].reshape(len(log), -1) for log in logs)))
        if kept.all():
            break
        a, b = np.concatenate([a[~kept], middle[~kept]]), np.concatenate([middle[~kept], b[~kept]])
    total, *curves = (np.concatenate(part, axis=-1) for part in zip(*done, strict=True))
    return total * (1 + folds), curves, bound * (1 + folds)


def log_mean(logs: Array) -> Array:
    """log of the mean over the first axis of exp(logs)."""
    return np.asarray(np.logaddexp.reduce(logs, axis=0) - np.log(len(logs)))


def kl_between(p: Replicated, q: Replicated) -> Estimate:
    """KL(p || q).  Raises: NS402 where a law has no density."""
    weights, logs, bound = panels(p, q)
    # Relative to the largest replicate: the mean of the densities themselves may be below the smallest float.
    peaks = [log.max(axis=0) for log in logs]

    def distance(f: Array, g: Array) -> float:
        log_f, log_g = (np.log(np.maximum(h, _FLOAT.tiny)) + peak for h, peak in zip((f, g), peaks, strict=True))
        return kl_on_grid(log_f, log_g, weights)

    value, error = between(distance, *(np.exp(log - peak) for log, peak in zip(logs, peaks, strict=True)))
    return Estimate(max(value, 0.0), hypot(error, bound))


def kl_coupled(p: Replicated, q: Replicated) -> tuple[Estimate, float]:
    """KL(p || q) of laws whose replicates are driven by the same normals, pair by pair, and what it would show by noise.

    Only the noise of the ratio counts: noise df, dg adds ∫ (df - (f/g) dg)² / 2f to leading order, also in tails where f
    is far from g, and the second number is the mean of that. Errors leave out one pair at a time.
    Raises: NS402 where a law has no density.
    """
    weights, logs, bound = panels(p, q)
    peak = np.maximum(logs[0].max(axis=0), logs[1].max(axis=0))
    f, g = (np.exp(log - peak) for log in logs)

    def distance(means: tuple[Array, ...]) -> float:
        log_f, log_g = (np.log(np.maximum(h, _FLOAT.tiny)) + peak for h in means)
        return kl_on_grid(log_f, log_g, weights)

    value, error = jackknife(distance, (f, g))
    ratio = f.mean(axis=0) / np.maximum(g.mean(axis=0), _FLOAT.tiny)
    noise = np.exp(peak) * (f - ratio * g).var(axis=0, ddof=1) / len(f) / np.maximum(2 * f.mean(axis=0), _FLOAT.tiny)
    return Estimate(max(float(value), 0.0), hypot(float(error), bound)), float(weights @ noise)


def half_distances(law: Replicated, splits: int, rng: np.random.Generator, density: bool) -> tuple[float, float, float]:
    """Mean KL (0 without density), KS and W1 of two random halves of the replicates.  Random: a permutation a split."""
    t, step = graded_grid(law)
    cdfs = law.cdfs(t)
    weights, (logs,), _ = panels(law) if density else (np.zeros(0), [np.zeros((len(cdfs), 0))], 0.0)
    found: list[tuple[float, float, float]] = []
    for _ in range(splits):
        order = rng.permutation(len(cdfs))
        one, two = order[: len(order) // 2], order[len(order) // 2 : len(order) // 2 * 2]
        f, g = cdfs[one].mean(axis=0), cdfs[two].mean(axis=0)
        divergence = kl_on_grid(log_mean(logs[one]), log_mean(logs[two]), weights)
        found.append((divergence, ks(f, g), wasserstein1(f, g, step)))
    kl, kolmogorov, w1 = np.mean(found, axis=0)
    return float(kl), float(kolmogorov), float(w1)


def inverse(curve: Callable[[Array], Array], levels: Array, lo: float, hi: float, width: float) -> Array:
    """The smallest t in (lo, hi] with curve(t) >= level, `curve` increasing from 0 to 1, to within `width` above.

    Inverse quadratic interpolation where that is safe, else bisection. The root lies between a and b; c is the point
    before them.

    Shapes: those of `levels`, which `curve` maps to themselves.
    Source: Chandrupatla 1997.
    """
    a, b = np.full(levels.shape, lo), np.full(levels.shape, hi)
    at_a, at_b = -levels, 1 - levels
    step = np.full(levels.shape, 0.5)
    while True:
        t = a + step * (b - a)
        at_t = curve(t) - levels
        same = (at_t >= 0) == (at_a >= 0)
        c, at_c = np.where(same, a, b), np.where(same, at_a, at_b)
        b, at_b = np.where(same, b, a), np.where(same, at_b, at_a)
        a, at_a = t, at_t
        least = (width + 4 * _FLOAT.eps * np.abs(a) + _FLOAT.tiny) / np.abs(b - a)
        if (least >= 1).all():
            return np.where(at_a >= 0, a, b)
        xi, phi = (a - b) / (c - b), (at_a - at_b) / (at_c - at_b)
        with np.errstate(divide="ignore", invalid="ignore"):
            quadratic = at_a / (at_b - at_a) * at_c / (at_b - at_c) + (
                (c - a) / (b - a) * at_a / (at_c - at_a) * at_b / (at_c - at_b)
            )
        least = np.minimum(least, 0.5)
        step = np.clip(np.where((phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi), quadratic, 0.5), least, 1 - least)


def between(distance: Callable[[Array, Array], float], f: Array, g: Array) -> tuple[float, float]:
    """distance(E f, E g), and its error over the replicates of f and of g, which are independent."""
    value, first = jackknife(lambda m: distance(m[0], g.mean(axis=0)), f)
    _, second = jackknife(lambda m: distance(f.mean(axis=0), m[0]), g)
    return float(value), float(np.hypot(first, second))


def mixture_mean(f: Callable[[Array], ArrayLike], means: Array, variances: Array) -> tuple[Array, float]:
    """E f(X) for X ~ N(m, V), by the trapezoid rule on the standardised line of every run, 128 nodes or more.

    Every run shifts its nodes by another part of a coarse step. That changes nothing for an analytic f; the errors at
    kinks and jumps then differ in sign and are added in quadrature, from a bound for every run. What lies beyond the
    nodes is bounded by 12 times the last integrand.

    Shapes: `means` and `variances` broadcast to (replicates, runs); the result is (replicates,), and its error.
    """
    replicates, runs = np.broadcast_shapes(means.shape, variances.shape)
    nodes = LATTICES * max(32, _BLOCK // (8 * replicates * runs))
    step = 2 * _REACH / nodes
    total, square, tail = np.zeros(replicates), 0.0, 0.0
    for r, start, m, v in _blocks(means, variances, nodes):
        shift = (r * runs + start + np.arange(max(len(m), len(v)))[:, None]) * _GOLDEN % 1
        z = step * (np.arange(nodes) + LATTICES * shift) - _REACH
        values = np.exp(-z * z / 2) / sqrt(2 * pi) * f(m + np.sqrt(v) * z)
        parts = step * LATTICES * values.reshape(len(z), -1, LATTICES).sum(axis=1)
        total[r] += parts.mean(axis=1).sum()
        square += float(np.square(lattice_error(parts)).sum())
        tail += float(np.abs(values[:, [0, -1]]).sum())
    return total / runs, (sqrt(square) + _REACH * tail) / (replicates * runs)


def mixture_cdf(t: Array, means: Array, variances: Array) -> Array:
    """E Φ((t - m) / √V), a step where V = 0.  Shapes: (points,) and two that broadcast to (replicates, runs)."""
    replicates, runs = np.broadcast_shapes(means.shape, variances.shape)
    total = np.zeros((replicates, t.size))
    for r, _, m, v in _blocks(means, variances, t.size):
        with np.errstate(divide="ignore", invalid="ignore"):
            z = (t - m) / np.sqrt(v)
        if not v.all():
            z[(t == m) & (v == 0)] = np.inf  # an atom counts from its place on
        total[r] += ndtr(z, out=z).sum(axis=0)
    return np.asarray(total / runs)


def mixture_integrals(t: Array, means: Array, variances: Array) -> Array:
    """F = E Φ(z) and its integral E √V (z Φ(z) + φ(z)), z = (t - m) / √V.  Shapes: as for `mixture_cdf`, between them 2."""
    replicates, runs = np.broadcast_shapes(means.shape, variances.shape)
    total = np.zeros((replicates, 2, t.size))
    for r, _, m, v in _blocks(means, variances, t.size):
        distance, deviation = t - m, np.sqrt(v)
        with np.errstate(divide="ignore", invalid="ignore"):
            z = distance / deviation
        if not v.all():
            z[(distance == 0) & (v == 0)] = np.inf
        below = ndtr(z)
        rise = distance * below
        rise += deviation * np.exp(-np.square(np.clip(z, -40, 40)) / 2) / sqrt(2 * pi)
        total[r] += below.sum(axis=0), rise.sum(axis=0)
    return np.asarray(total / runs)


def mixture_log_pdf(t: Array, means: Array, variances: Array) -> Array:
    """log E φ((t - m) / √V) / √V, V > 0, never log 0.  Shapes: as for `mixture_cdf`."""
    replicates, runs = np.broadcast_shapes(means.shape, variances.shape)
    t = np.clip(t, -1e100, 1e100)  # inf - inf is nan
    result = np.full((replicates, t.size), -np.inf)
    for r, _, m, v in _blocks(means, variances, t.size):
        square = -np.square(t - m) / 2
        if len(m) == 1:  # then the widest run has the largest exponent at every t
            top = square[0] / v.max()
            exponent = (1 / v - 1 / v.max()) * square
        else:
            exponent = square / v
            top = exponent.max(axis=0)
            exponent -= top
        np.exp(exponent, out=exponent)
        density = np.broadcast_to(1 / np.sqrt(2 * pi * v[:, 0]), len(exponent)) @ exponent
        result[r] = np.logaddexp(result[r], top + np.log(density))
    return np.asarray(result - np.log(runs))


def _blocks(means: Array, variances: Array, points: int) -> Iterator[tuple[int, int, Array, Array]]:
    """Replicate, first run, means and variances of runs few enough for (runs, points).  Shapes: (runs or 1, 1)."""
    replicates, runs = np.broadcast_shapes(means.shape, variances.shape)
    size = max(1, _BLOCK // points)
    for r in range(replicates):
        rows = [a[min(r, len(a) - 1)][:, None] for a in (means, variances)]
        for start in range(0, runs, size):
            m, v = (row[start : start + size] if len(row) > 1 else row for row in rows)
            yield r, start, m, v
