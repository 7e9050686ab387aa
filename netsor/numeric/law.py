"""Laws of one scalar quantity: mixtures of Gaussians over runs, empirical laws, constants."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from math import hypot
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsor.errors import Numerical
from netsor.numeric import distances, statistics
from netsor.numeric.estimate import Estimate, jackknife
from netsor.numeric.proxy import VarianceProxy

Array = NDArray[np.float64]
Rng = int | np.random.SeedSequence | np.random.Generator | None

_TAILS = 9.0  # standard deviations beyond which lies a mass of 1e-19
_FAR = 38.0  # and beyond which lies none
_REPLICATES = 8  # enough to split at random
_HANDS = 32


class Law(ABC):
    """The law of one number: an equal mixture, over runs, of N(mean, variance); a variance may be 0.

    Replicates are independent randomisations (scrambles of a Sobol sequence, or batches). Nothing is assumed about the
    runs within one, so every error comes from the spread between replicates, by the delete-one jackknife for what is
    not a mean; a single replicate means a law that is known exactly. Quadrature adds a bound of its own error.

    Shapes: `means` and `variances` broadcast to (replicates, runs); an array of one value is kept as (1, 1).
    Raises: NS402 where a mean is not finite, or a variance is not a finite number >= 0.
    """

    proxy: Callable[[], VarianceProxy | str] = staticmethod(lambda: "the law is not that of a limit")

    def __init__(self, means: ArrayLike, variances: ArrayLike) -> None:
        self.means, self.variances = _matrix(means), _matrix(variances)
        self.shape = np.broadcast_shapes(self.means.shape, self.variances.shape)
        if not (np.isfinite(self.means).all() and np.isfinite(self.variances).all() and self.variances.min() >= 0):
            raise _refusal(
                "a mixture of Gaussians with a mean or variance that is nan or infinite, or a variance below 0",
                "means are finite numbers, variances finite numbers >= 0",
                "look where the runs overflow; round a variance up to 0 that is negative by a rounding error",
            )

    def __repr__(self) -> str:
        kurtosis = f", excess kurtosis {self.excess_kurtosis}" if self.variance else ""
        return f"<{type(self).__name__}: mean {self.mean}, variance {self.variance}{kurtosis}>"

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key != "proxy"}  # which holds the program

    @abstractmethod
    def expect(self, f: Callable[[Array], ArrayLike]) -> Estimate:
        """E f(X).  Shapes: f maps an array to one of its shape, or a number.  Raises: NS402 where f is not finite."""

    @abstractmethod
    def cdfs(self, t: Array) -> Array:
        """P(X <= t) in every replicate.  Shapes: (points,) to (replicates, points)."""

    @abstractmethod
    def integrals(self, t: Array) -> Array:
        """P(X <= t) in every replicate, and E max(t - X, 0), its integral.  Shapes: (points,) to (replicates, 2, points)."""

    @abstractmethod
    def log_pdfs(self, t: Array) -> Array:
        """The logarithm of the density in every replicate.  Shapes: (points,) to (replicates, points)."""

    @property
    def mean(self) -> Estimate:
        """E X."""
        return self.moment(1)

    @property
    def variance(self) -> Estimate:
        """Var X = E V + Var m."""
        u = self.means - self.means.mean()
        return self._functional(lambda m: m[0] + m[1] - m[2] ** 2, self.variances, u**2, u)

    @property
    def excess_kurtosis(self) -> Estimate:
        """(3 Var V + 6 Cov(V, d²) + E d⁴ - 3 (E d²)²) / (Var X)², d = m - E X; exactly 0.0 where m and V are constant.

        Raises: NS402 where the variance is 0.
        """
        u, v0 = self.means - self.means.mean(), self.variances[0, 0]
        v = self.variances - v0

        def stat(moments: tuple[Array, ...]) -> Array:
            e1, e2, e3, e4, v1, v2, v1e1, v1e2 = moments
            between = e2 - e1**2
            covariance = v1e2 - 2 * e1 * v1e1 + e1**2 * v1 - v1 * between
            fourth = e4 - 4 * e1 * e3 + 6 * e1**2 * e2 - 3 * e1**4
            cumulant = 3 * (v2 - v1**2) + 6 * covariance + fourth - 3 * between**2
            return np.asarray(cumulant / (v0 + v1 + between) ** 2)

        if not self.variance:
            raise _refusal("the excess kurtosis of a constant", "the variance, squared, divides it", "ask for the mean")
        return self._functional(stat, u, u**2, u**3, u**4, v, v**2, v * u, v * u**2)

    def moment(self, k: int) -> Estimate:
        """E X^k, from E[X^k | run] = m E[X^(k-1) | run] + (k-1) V E[X^(k-2) | run]."""
        before, now = np.zeros((1, 1)), np.ones((1, 1))
        for order in range(k):
            before, now = now, self.means * now + order * self.variances * before
        return self._functional(lambda m: m[0], now)

    def pdf(self, t: ArrayLike) -> Estimate | Array:
        """The density at t: an array like t, or a number with its error.  Raises: NS402 where there is none."""
        return _like(t, lambda points: np.exp(self.log_pdfs(points)))

    def cdf(self, t: ArrayLike) -> Estimate | Array:
        """P(X <= t): an array like t, or a number with its error."""
        return _like(t, self.cdfs)

    def quantile(self, q: ArrayLike) -> Estimate | Array:
        """The smallest t with P(X <= t) >= q: an array like q, or a number with its error.

        The error is half the distance between the quantiles at q ± e, e the error of P(X <= t).

        Raises: ValueError outside 0 < q < 1.
        Source: Woodruff 1952, for the error.
        """
        q = np.asarray(q, dtype=np.float64)
        if not ((q > 0) & (q < 1)).all():
            raise ValueError("a quantile is asked for at a level strictly between 0 and 1")
        lo, hi, _, scale, _ = self.window(_FAR)

        def solve(levels: Array) -> Array:
            return statistics.inverse(lambda t: self.cdfs(t).mean(axis=0), levels, lo, hi, 1e-12 * scale)

        t = solve(q.ravel()).reshape(q.shape)
        if q.ndim > 0:
            return t
        error = jackknife(lambda m: m[0], self.cdfs(t[None]))[1]
        around = solve(np.clip(q + np.append(-error, error), q / 2, (1 + q) / 2)) if error > 0 else t
        return Estimate(t, np.ptp(around) / 2)

    def sample(self, runs: int, rng: Rng = None) -> Array:
        """Independent draws.  Shapes: (runs,).  Random: a run for every draw, then a normal for every draw."""
        generator = np.random.default_rng(rng)
        pick = np.unravel_index(generator.integers(self.shape[0] * self.shape[1], size=runs), self.shape)
        mean, variance = (np.broadcast_to(a, self.shape)[pick] for a in (self.means, self.variances))
        return np.asarray(mean + np.sqrt(variance) * generator.standard_normal(runs))

    @property
    def variance_proxy(self) -> VarianceProxy:
        """A sub-Gaussian variance proxy, by the structure of the program and not by its draws; `.explain()` is the argument.

        Raises: NS402 where the structure gives none.
        """
        found = self.proxy()
        if isinstance(found, str):
            raise _refusal("the variance proxy of this law", f"the conditional variance has no known bound: {found}", "use cdf")
        return found

    def gaussian(self) -> Mixture:
        """The Gaussian law of equal mean and variance, taken as known exactly.

        The error of self.kl(self.gaussian()) stays right: KL(self || .) is stationary at that Gaussian.
        """
        return Mixture(self.mean, self.variance)

    def kl(self, other: Law) -> Estimate:
        """KL(self || other) = ∫ f log(f/g).  Raises: NS402 where one of the two has no density."""
        return statistics.kl_between(self, other)

    @property
    def entropy(self) -> Estimate:
        """-∫ f log f, in nats.  Raises: NS402 where there is no density."""
        return distances.entropy_of(self)

    def ks(self, other: Law) -> Estimate:
        """The Kolmogorov distance sup |F - G|."""
        return distances.ks_between(self, other)

    def wasserstein1(self, other: Law) -> Estimate:
        """∫ |F - G| dt, which is E|X - c| where one law is a constant c."""
        return other.wasserstein1(self) if isinstance(other, PointMass) else distances.wasserstein1_between(self, other)

    def window(self, deviations: float = _TAILS) -> statistics.Window:
        """The part of the line that lies within so many standard deviations of a run."""
        deviation = np.sqrt(self.variances)
        lo, hi = (self.means - deviations * deviation).min(), (self.means + deviations * deviation).max()
        scale = deviation[deviation > 0].min() if deviation.any() else self.means.std()
        below = float(np.nextafter(lo, -np.inf))
        return statistics.Window(below, float(hi), float(self.means.mean()), float(scale), self.means.size == 1)

    def _functional(self, stat: Callable[[tuple[Array, ...]], Array], *values: Array) -> Estimate:
        """stat(E[values]), where an array of values is (replicates or 1, runs or 1)."""
        return Estimate(*jackknife(stat, tuple(np.broadcast_to(v.mean(axis=1), self.shape[:1]) for v in values)))


class Mixture(Law):
    """∫ N(m, V) over the law of (m, V): given means and variances, densities, distribution function, moments are exact.

    Source: Blackwell 1947 (the conditional law in place of draws from it).
    """

    def expect(self, f: Callable[[Array], ArrayLike]) -> Estimate:
        return _expectation(*statistics.mixture_mean(f, self.means, self.variances))

    def cdfs(self, t: Array) -> Array:
        return statistics.mixture_cdf(t, self.means, self.variances)

    def integrals(self, t: Array) -> Array:
        return statistics.mixture_integrals(t, self.means, self.variances)

    def log_pdfs(self, t: Array) -> Array:
        if not self.variances.all():
            raise _refusal(
                "the density of a mixture that has a run of variance 0",
                "every run has a positive variance; one without is an atom of the law",
                "use cdf, quantile or expect",
            )
        return statistics.mixture_log_pdf(t, self.means, self.variances)


class _Atoms(Law):
    """Runs without variance."""

    _why: ClassVar[str]

    def __init__(self, draws: ArrayLike) -> None:
        super().__init__(draws, 0.0)
        self._ordered = np.sort(self.means, axis=1)

    def expect(self, f: Callable[[Array], ArrayLike]) -> Estimate:
        return _expectation(np.broadcast_to(f(self.means), self.shape).mean(axis=1))

    def cdfs(self, t: Array) -> Array:
        counts = [np.searchsorted(row, t, side="right") for row in self._ordered]
        return np.asarray(np.stack(counts) / self.shape[1])

    def integrals(self, t: Array) -> Array:
        counts = np.stack([np.searchsorted(row, t, side="right") for row in self._ordered])
        sums = np.concatenate([np.zeros((len(counts), 1)), np.cumsum(self._ordered, axis=1)], axis=1)
        below = np.take_along_axis(sums, counts, axis=1)
        return np.asarray(np.stack([counts, counts * t - below], axis=1) / self.shape[1])

    def log_pdfs(self, t: Array) -> Array:
        raise _refusal(f"the density of a {type(self).__name__} law", self._why, "use cdf, quantile or expect")


class Sampled(_Atoms):
    """The empirical law of draws, where no Gaussian atom is left affine.  Shapes: (replicates, runs)."""

    _why = "a density comes from a Gaussian atom that enters affinely; here none is left affine"


class PointMass(_Atoms):
    """A constant: a number, or an Estimate whose error mean, moments and E f carry on to first order."""

    _why = "a density needs randomness; this quantity is a constant"

    def __init__(self, value: float) -> None:
        super().__init__(float(value))
        self.value = value if isinstance(value, Estimate) else Estimate(value)

    def moment(self, k: int) -> Estimate:
        return self.expect(lambda x: x**k)

    def expect(self, f: Callable[[Array], ArrayLike]) -> Estimate:
        around = np.array([self.value - self.value.error, self.value + self.value.error])
        return _expectation(super().expect(f), np.ptp(np.broadcast_to(f(around), 2)) / 2)

    def wasserstein1(self, other: Law) -> Estimate:
        distance = other.expect(lambda x: np.abs(x - self.value))
        return Estimate(distance, hypot(distance.error, self.value.error))


def noise_floor(p: Law, q: Law, splits: int = 16, rng: Rng = 0) -> dict[str, float]:
    """What KL, KS and W1 between p and q (keys kl, ks, w1) would show if the two laws were equal.

    With D(p) the mean distance between random halves of p,

        kl = (D(p) + D(q)) / 4        ks, w1 = √(D(p)² + D(q)²) / 2.

    A half has twice the squared noise of the whole, and two of them make up D: four times that of p against the truth,
    for KL, which is quadratic in the noise; KS and W1 are linear. For N and M independent runs of one law this is
    D(p) (1/N + 1/M) N/4, and its root. A law that is known exactly adds nothing. There is no kl without densities.

    Halves are halves of the replicates. With fewer than 8 of them (finite width in one batch) the runs are taken to be
    independent and are dealt at random to 32 new replicates: this is the only place where runs count as independent.

    Random: the dealing of p and its splits, then those of q.
    """
    generator = np.random.default_rng(rng)
    density = bool(p.variances.all() and q.variances.all())
    (kl_p, ks_p, w1_p), (kl_q, ks_q, w1_q) = (_half_distances(law, splits, generator, density) for law in (p, q))
    floor = {"kl": (kl_p + kl_q) / 4} if density else {}
    return floor | {"ks": hypot(ks_p, ks_q) / 2, "w1": hypot(w1_p, w1_q) / 2}


def _half_distances(law: Law, splits: int, rng: np.random.Generator, density: bool) -> tuple[float, float, float]:
    """Mean KL, KS and W1 between random halves; 0 for a law that is known exactly."""
    if law.shape == (1, 1):
        return 0.0, 0.0, 0.0
    if law.shape[0] < _REPLICATES:
        runs = law.shape[0] * law.shape[1]
        hands = min(_HANDS, runs)
        order = rng.permutation(runs)[: runs // hands * hands].reshape(hands, -1)
        means, variances = (np.broadcast_to(a, law.shape).ravel()[order] for a in (law.means, law.variances))
        law = Mixture(means, variances) if variances.any() else Sampled(means)
    return statistics.half_distances(law, splits, rng, density)


def _matrix(values: ArrayLike) -> Array:
    array = np.atleast_2d(np.asarray(values, dtype=np.float64))
    return array[:1, :1] if (array == array[0, 0]).all() else array


def _like(t: ArrayLike, curves: Callable[[Array], Array]) -> Estimate | Array:
    t = np.asarray(t, dtype=np.float64)
    value, error = jackknife(lambda m: m[0], curves(t.ravel()))
    return value.reshape(t.shape) if t.ndim > 0 else Estimate(value[0], error[0])


def _expectation(values: ArrayLike, bound: float = 0.0) -> Estimate:
    """The mean over replicates of E f(X), its error with that of the quadrature."""
    mean, error = jackknife(lambda m: m[0], np.reshape(values, -1))
    if not np.isfinite(mean) or not np.isfinite(bound):
        raise _refusal(
            f"E f(X) = {mean}",
            "f is finite where the law has mass, and grows more slowly than the law decays",
            "clip f, or ask for a quantile",
        )
    return Estimate(mean, hypot(error, bound))


def _refusal(statement: str, hypothesis: str, repair: str) -> Numerical:
    consequence = "the number would be infinite or nan"
    return Numerical("NS402", statement=statement, hypothesis=hypothesis, consequence=consequence, repair=repair)
