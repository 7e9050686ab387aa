"""Kolmogorov and Wasserstein distances of two laws, refined where they may still be wrong; the entropy of one."""

from __future__ import annotations

from math import hypot
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from netsor.numeric.estimate import Estimate, jackknife
from netsor.numeric.statistics import Replicated, between, graded_grid, ks, panels

Array = NDArray[np.float64]

_ROUNDS = 8
_WORST = 8  # cells that are refined in a round
_PARTS = np.arange(1, 10) / 10  # of such a cell
_ROUNDING = 1e-15  # of a distribution function


class Integrable(Replicated, Protocol):
    """A law whose distribution function has a known integral.  Shapes: (points,) to (replicates, 2, points)."""

    def integrals(self, t: Array) -> Array: ...


def ks_between(p: Replicated, q: Replicated) -> Estimate:
    """sup |F - G| on 400 points, and then on more where a larger difference may hide.

    Between points the difference exceeds a parabola's top by at most its second difference, an eighth of it at equal
    distances. That resolves a smooth difference to 1e-14, and steps as far as the error says.
    """
    t, _ = graded_grid(p, q)
    f, g = p.cdfs(t), q.cdfs(t)
    for left in reversed(range(_ROUNDS)):
        d = np.abs(f.mean(axis=0) - g.mean(axis=0))
        bend = np.zeros(d.size)
        bend[1:-1] = np.abs(2 * d[1:-1] - d[:-2] - d[2:])
        rise = d + bend - d.max()
        at = np.argsort(rise)[-_WORST:]
        at = at[(rise[at] > _ROUNDING) & (at > 0) & (at < d.size - 1)]
        if not (at.size and left):
            break
        t, f, g = refined(t, np.union1d(at - 1, at), (p.cdfs, f), (q.cdfs, g))
    value, error = between(ks, f, g)
    return Estimate(value, hypot(error, max(float(rise.max()), 0.0) + 4 * _ROUNDING * (value > 0)))


def wasserstein1_between(p: Integrable, q: Integrable) -> Estimate:
    """∫ |F - G| dt, by the integrals of F and G between the places where they cross.

    Only these places are searched for, from 400 points on; `doubts` is what they may still be worth.
    """
    t, _ = graded_grid(p, q)
    least = _ROUNDING * (t[-1] - t[0])
    f, g = p.integrals(t), q.integrals(t)
    for left in reversed(range(_ROUNDS)):
        doubt = doubts(t, f.mean(axis=0) - g.mean(axis=0))
        at = np.argsort(doubt)[-_WORST:]
        at = at[doubt[at] > least]
        if not (at.size and left):
            break
        t, f, g = refined(t, np.sort(at), (p.integrals, f), (q.integrals, g))
    value, error = between(lambda f, g: areas(t, f - g), f, g)
    return Estimate(value, hypot(error, float(doubt.sum()) + 4 * least * (value > 0)))


def areas(t: Array, gap: Array) -> float:
    """∫ |d| for the function d = gap[0] with the integral gap[1]: exact but in the cells where d changes sign, and linear
    there."""
    d, integral = gap
    (before,) = np.nonzero(changes(d))
    after = before + 1
    start, stop = np.append(0, after), np.append(before, t.size - 1)
    a, b = np.abs(d[before]), np.abs(d[after])
    return float(np.abs(integral[stop] - integral[start]).sum() + (t[after] - t[before]) @ ((a * a + b * b) / (a + b)) / 2)


def changes(d: Array) -> Array:
    """The cells where d changes sign; where it is a rounding error it has the sign of the point before."""
    known = np.maximum.accumulate(np.where(np.abs(d) > _ROUNDING, np.arange(d.size), -1))
    sign = np.where(known < 0, 0.0, np.sign(d[known]))
    return np.asarray(sign[:-1] * sign[1:] < 0)


def doubts(t: Array, gap: Array) -> Array:
    """What ∫ |d| over a cell may be wrong by: nothing where d keeps its sign.

    A cell where d(x) = (1 - x) a + x b - 4 dip x (1 - x), as its integral h ((a + b)/2 - 2/3 dip) says, has a change of
    sign inside if 4 dip > (√a + √b)²; half of that is enough to look. Where a and b differ in sign, a step may be anywhere.
    """
    d, integral = gap
    a, b, h = d[:-1], d[1:], np.diff(t)
    dip = 1.5 * np.abs((a + b) / 2 - np.diff(integral) / h)
    cross = changes(d)
    size, other = np.abs(a), np.abs(b)
    inside = 8 * dip > (np.sqrt(size) + np.sqrt(other)) ** 2
    doubt = h * np.where(cross, dip + np.minimum(size, other), np.where(inside, dip, 0.0))
    return np.asarray(np.where(np.maximum(size, other) + dip > _ROUNDING, doubt, 0.0))


def refined(t: Array, cells: Array, *curves: tuple[object, Array]) -> tuple[Array, ...]:
    """The points with nine more in each of the cells, and the curves there.  Shapes: curves (..., points)."""
    new = (t[cells, None] + (t[cells + 1] - t[cells])[:, None] * _PARTS).ravel()
    order = np.argsort(np.concatenate([t, new]), kind="stable")
    grown = [np.concatenate([old, curve(new)], axis=-1)[..., order] for curve, old in curves]  # type: ignore[operator]
    return np.concatenate([t, new])[order], *grown


def entropy_of(law: Replicated) -> Estimate:
    """-∫ f log f, in nats.  Raises: NS402 where there is no density."""
    weights, (logs,), bound = panels(law)
    peak = logs.max()

    def functional(means: tuple[Array, ...]) -> float:
        density = means[0]
        logarithm = np.log(np.maximum(density, np.finfo(float).tiny)) + peak
        return -float(weights @ (density * np.exp(peak) * logarithm))

    value, error = jackknife(functional, np.exp(logs - peak))
    return Estimate(value, hypot(float(error), bound))
