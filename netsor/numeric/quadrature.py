"""E f(U) and E f(U, V) for Gaussian arguments: the trapezoid rule where f is analytic, panels where it is not.

The line is standardised. For a function that is analytic in a strip the trapezoid rule converges like exp(-2 pi d/h), d the
distance of the nearest pole and h the step (Trefethen, Weideman 2014); it serves where every `Feature` has a width. Elsewhere,
and where a narrow strip would take more nodes, the line is cut into panels of equal width with a Gauss-Legendre rule each, and
cut again at every feature: once at a kink, and in geometric progression around a soft transition, so that f is analytic well
beyond every panel. Each entry of the arrays of means and covariances has its own cuts, but all have equally many, and all are
integrated in one call of f. A cut that falls off the line or onto another cut leaves a panel of weight zero.

Every part of the resolution (reach of the line, panels, nodes in a panel) depends on `level`, so that the difference
between two levels sees a tail that was cut off and a feature that was not declared: it is the error estimate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, log, pi, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsor.errors import Numerical
from netsor.numeric.linear import determinant, power_of_two

Array = NDArray[np.float64]
Cut = tuple[Array, Array]
"""Centre and width of a feature on the standardised line, for every entry."""

SNAP = 1e-12
"""Correlations this close to +-1 count as +-1. Two ramps feel it by 1e-12, two jumps at the same place by 2e-7."""

_RATIO = 3.0  # of successive distances from a soft feature: the pole is then 2 half-widths from the panel's midpoint
_FINEST = 1e-100  # width on the standardised line; a bump of this width still counts beside zeros


@dataclass(frozen=True, slots=True)
class Feature:
    """A place `at` on the line where a function is not smooth at unit scale, and the `width` of what happens there.

    Width 0 is a kink or a jump. A smooth transition has the distance of the nearest complex pole (pi/2a for tanh(ax),
    pi for sigmoid), or the scale itself for an entire function (1/a for erf(ax)). A singularity such as sqrt|x| or
    log|x| wants a tiny positive width (1e-12 standard deviations), which grades the panels towards it.

    Shapes: `at` is a number or an array that broadcasts to the shape of the means and covariances.
    """

    at: float | Array
    width: float = 0.0


def expect1(
    f: Callable[[Array], Array],
    mean: ArrayLike,
    var: ArrayLike,
    features: Sequence[Feature] = (),
    level: int = 1,
) -> Array:
    """E f(U), U ~ N(mean, var), for every entry of the broadcast arrays `mean` and `var`; f(mean) where var = 0.

    The line ends at 9 + 2 level standard deviations: enough for polynomial growth, and for exp(aU) up to a s = 3 at
    level 1 (mass lies around z = a s).

    Shapes: the result has the broadcast shape; f maps (*shape, nodes) to itself, nodes = `nodes1(...)`.
    Raises: NS402 where a mean is not finite or a variance is not a finite number >= 0.
    """
    mean, var = _broadcast(mean, var)
    scale = _scale(mean, var)
    z, weights = _rule(_cuts(features, mean, scale), var.shape, level)
    values = _evaluate(f, mean[..., None] + scale[..., None] * z)
    return np.where(var == 0, values[..., 0], total(weights, values))


def expect2(
    f: Callable[[Array, Array], Array],
    mean1: ArrayLike,
    mean2: ArrayLike,
    var1: ArrayLike,
    var2: ArrayLike,
    cov: ArrayLike,
    features1: Sequence[Feature] = (),
    features2: Sequence[Feature] = (),
    level: int = 1,
) -> Array:
    """E f(U, V) for a bivariate Gaussian, for every entry of the broadcast arrays; any correlation, any variance >= 0.

    `features1` are those of u -> f(u, v) for every v, and `features2` those of v -> f(u, v) for every u; a kink along
    another line, such as that of max(u, v), is not seen. With U = m1 + s1 z and V = m2 + s2 (r z + q y), the inner
    integral over y is cut at V's features, and the outer one over z at U's features and where V's cross y = 0, since
    E[f | z] has a transition of width q/|r| there (a kink for q = 0). Only the correlation r decides how hard this is,
    not the scales, so neither variable is better as the outer one. Where a variance is zero, so is the covariance.

    Shapes: the result has the broadcast shape; f maps two arrays (*shape, nodes) to one, nodes = `nodes2(...)`.
    Raises: NS402 where a mean or covariance is not finite, a variance is not a finite number >= 0, or the matrix
        has an eigenvalue below about -1e-8 of its trace.
    """
    mean1, mean2, var1, var2, cov = _broadcast(mean1, mean2, var1, var2, cov)
    scale1, scale2 = _scale(mean1, var1), _scale(mean2, var2)
    r, q = _correlation(var1, var2, cov)
    cuts2 = _cuts(features2, mean2, scale2)
    z, outer = _rule(_cuts(features1, mean1, scale1) + _crossings(cuts2, r, q), var1.shape, level)
    mean1, mean2, scale1, scale2, r, q = (a[..., None] for a in (mean1, mean2, scale1, scale2, r, q))
    y, inner = _rule([(_ratio(at[..., None] - r * z, q), _ratio(w[..., None], q)) for at, w in cuts2], z.shape, level)
    u = np.broadcast_to((mean1 + scale1 * z)[..., None], y.shape)
    v = (mean2 + scale2 * r * z)[..., None] + (scale2 * q)[..., None] * y
    flat = (*var1.shape, y.shape[-2] * y.shape[-1])
    values = _evaluate(f, u.reshape(flat), v.reshape(flat))
    return np.where((var1 == 0) & (var2 == 0), values[..., 0], total(outer, total(inner, values.reshape(y.shape))))


def line(mean: Array, var: Array, features: Sequence[Feature], level: int) -> tuple[Array, Array]:
    """Nodes u and weights for E f(U), U ~ N(mean, var).  Shapes: (n) to (n, nodes) twice."""
    scale = _scale(mean, var)
    z, weights = _rule(_cuts(features, mean, scale), var.shape, level)
    return mean[:, None] + scale[:, None] * z, weights


def given(
    mean1: Array,
    mean2: Array,
    var1: Array,
    var2: Array,
    cov: Array,
    features1: Sequence[Feature] = (),
    features2: Sequence[Feature] = (),
    level: int = 1,
) -> tuple[Array, Array]:
    """Nodes u and weights for E[f(U) E[g(V) | U]], cut at the features of f and where V passes those of g.

    Shapes: (n) to (n, nodes) twice, nodes = `nodes_given(...)`.  Raises: as `expect2`.
    """
    scale1, scale2 = _scale(mean1, var1), _scale(mean2, var2)
    crossings = _crossings(_cuts(features2, mean2, scale2), *_correlation(var1, var2, cov, 0))
    z, weights = _rule(_cuts(features1, mean1, scale1) + crossings, var1.shape, level)
    return mean1[:, None] + scale1[:, None] * z, weights


def nodes_given(
    var1: Array, var2: Array, cov: Array, features1: Sequence[Feature], features2: Sequence[Feature], level: int
) -> int:
    """How many nodes `given` makes for each entry."""
    cuts1, cuts2 = (_cuts(fs, np.zeros(()), np.sqrt(v)) for fs, v in ((features1, var1), (features2, var2)))
    return _count(cuts1 + _crossings(cuts2, *_correlation(var1, var2, cov, 0)), level)


def nodes1(features: Sequence[Feature] = (), level: int = 1, var: ArrayLike = 1.0) -> int:
    """How many nodes `expect1` hands to f for each entry at level 1: about 80 for a function with one smooth transition, 210
    and 14 for each kink otherwise, a few panels more for a transition that is narrow against sqrt(var).
    Part of the entries never needs more than all of them.
    """
    scale = np.sqrt(np.asarray(var, dtype=np.float64))
    return _count(_cuts(features, np.zeros(()), scale), level)


def nodes2(
    features1: Sequence[Feature] = (),
    features2: Sequence[Feature] = (),
    level: int = 1,
    var1: ArrayLike = 1.0,
    var2: ArrayLike = 1.0,
    cov: ArrayLike = 0.0,
) -> int:
    """How many nodes (outer times inner) `expect2` hands to f for each entry: at level 1, 7,000 for smooth transitions,
    53,000 with a kink in each variable, 110,000 if moreover a correlation is 0.9999999. Part of the entries never
    needs more than all of them.
    """
    var1, var2, cov = _broadcast(var1, var2, cov)
    r, q = _correlation(var1, var2, cov)
    cuts1, cuts2 = (_cuts(fs, np.zeros(()), np.sqrt(v)) for fs, v in ((features1, var1), (features2, var2)))
    outer = _count(cuts1 + _crossings(cuts2, r, q), level)
    return outer * _count([(at, _ratio(width, q)) for at, width in cuts2], level)


def _resolution(level: int) -> tuple[int, int, int]:
    """Reach of the standardised line, number of regular panels (odd: no cut at 0), nodes in a panel."""
    return 9 + 2 * level, 13 + 2 * level, 10 + 4 * level


def _rungs(width: Array) -> int:
    """How many steps of ratio 3 lead from the smallest positive width to a width of 1, where regular panels suffice."""
    soft = width[(width > 0) & (width < 1)]
    return 1 + ceil(-log(max(soft.min(), _FINEST)) / log(_RATIO)) if soft.size else 0


def _step(cuts: Sequence[Cut], level: int) -> float | None:
    """The step of the trapezoid rule: a seventh of the distance of the nearest pole; None at a kink, or if nothing is known."""
    nearest = min((float(np.min(width, initial=np.inf)) for _, width in cuts), default=0.0)
    return min(0.3, nearest / 7) * 0.85 ** (level - 1) if nearest > 0 else None


def _trapezoid(cuts: Sequence[Cut], level: int) -> int | None:
    """How many nodes it has on each side of 0; None where panels have fewer, or there is a kink."""
    reach, *_ = _resolution(level)
    step = _step(cuts, level)
    side = None if step is None or step < 1e-3 else ceil(reach / step)
    return side if side is not None and 2 * side < _panels(cuts, level) else None


def _count(cuts: Sequence[Cut], level: int) -> int:
    side = _trapezoid(cuts, level)
    return _panels(cuts, level) if side is None else 2 * side + 1


def _panels(cuts: Sequence[Cut], level: int) -> int:
    _, panels, order = _resolution(level)
    return order * (panels + sum(1 + 2 * _rungs(width) for _, width in cuts))


def _rule(cuts: Sequence[Cut], shape: tuple[int, ...], level: int) -> tuple[Array, Array]:
    """Nodes z and weights for E g(Z), Z ~ N(0, 1).  Shapes: (*shape, nodes) each."""
    reach, panels, order = _resolution(level)
    side = _trapezoid(cuts, level)
    if side is not None:
        step = reach / side
        z = np.broadcast_to(step * np.arange(-side, side + 1), (*shape, 2 * side + 1))
        return z, step * np.exp(-z * z / 2) / sqrt(2 * pi)
    edges = [np.linspace(-reach, reach, panels + 1)]
    for centre, width in cuts:
        ladder = np.where(width > 0, np.clip(width, _FINEST, 1), 0)[..., None] * _RATIO ** np.arange(_rungs(width))
        steps = np.concatenate([-ladder, np.zeros((*width.shape, 1)), ladder], axis=-1)
        edges.append(np.clip(np.clip(centre, -2 * reach, 2 * reach)[..., None] + steps, -reach, reach))
    edge = np.sort(np.concatenate([np.broadcast_to(e, (*shape, e.shape[-1])) for e in edges], axis=-1), axis=-1)
    x, w = np.polynomial.legendre.leggauss(order)
    half = np.diff(edge)[..., None] / 2
    z = (edge[..., :-1, None] + half * (1 + x)).reshape(*shape, order * half.shape[-2])
    return z, (half * w).reshape(z.shape) * np.exp(-z * z / 2) / sqrt(2 * pi)


def _cuts(features: Sequence[Feature], mean: Array, scale: Array) -> list[Cut]:
    return [(_ratio(np.asarray(f.at - mean), scale), _ratio(np.asarray(f.width), scale)) for f in features]


def _crossings(cuts: Sequence[Cut], r: Array, q: Array) -> list[Cut]:
    """Where and how fast z -> E[f | z] changes because r z + q Y passes a feature of f."""
    return [(_ratio(centre, r), _ratio(np.hypot(q, width), np.abs(r))) for centre, width in cuts]


def _correlation(var1: Array, var2: Array, cov: Array, snap: float = SNAP) -> tuple[Array, Array]:
    """(r, sqrt(1 - r^2)), with r = 0 where a variance is 0, and +-1 where it is as close as `snap`."""
    with np.errstate(over="ignore"):
        trace = np.where(var1 + var2 == 0, 1, var1 + var2)
        excess = (cov / trace) ** 2 - (var1 / trace) * (var2 / trace)
    if not np.all(excess <= 1e-8):
        raise _refusal(
            f"E f(U, V) with a covariance matrix whose smallest eigenvalue is about {-np.max(excess):.3g} of its trace"
            if np.all(np.isfinite(cov))
            else "E f(U, V) with a covariance that is not finite",
            "a covariance satisfies cov^2 <= var1 var2",
        )
    r = np.where((var1 == 0) | (var2 == 0), 0, _ratio(_ratio(cov, np.sqrt(var1)), np.sqrt(var2)))
    unit1, unit2 = power_of_two(np.sqrt(var1)), power_of_two(np.sqrt(var2))
    v, w, c = var1 / unit1 / unit1, var2 / unit2 / unit2, np.where(r == 0, 0, cov / unit1 / unit2)
    q = np.where(r == 0, 1, np.sqrt(np.maximum(_ratio(determinant(v, c, c, w), v * w), 0)))
    close = np.abs(r) > 1 - snap
    return np.where(close, np.sign(r), r), np.where(close & (snap > 0), 0, q)


def _scale(mean: Array, var: Array) -> Array:
    """The standard deviation, where mean and variance are in order."""
    bad = ~(np.isfinite(mean) & np.isfinite(var) & (var >= 0))
    if bad.any():
        raise _refusal(
            f"E f(U) with U ~ N({mean[bad][0]:.17g}, {var[bad][0]:.17g})",
            "a mean is a finite number and a variance a finite number >= 0",
        )
    return np.sqrt(var)


def _refusal(statement: str, hypothesis: str) -> Numerical:
    return Numerical(
        "NS402",
        statement=statement,
        hypothesis=hypothesis,
        consequence="a square root would be nan, and so would everything computed from it",
        repair="round a variance that is negative within 1e-12 of its scale up to 0; more than that is not a rounding "
        "error: the covariance was computed wrongly, or overflowed",
    )


def _broadcast(*arrays: ArrayLike) -> tuple[Array, ...]:
    return np.broadcast_arrays(*(np.asarray(a, dtype=np.float64) for a in arrays))


def _ratio(a: Array, b: Array) -> Array:
    """a/b, and infinity (off the line) where b = 0."""
    a, b = np.broadcast_arrays(a, b)
    with np.errstate(over="ignore"):
        return np.asarray(np.divide(a, b, out=np.full(a.shape, np.inf), where=b != 0))


def _evaluate(f: Callable[..., Array], *arguments: Array) -> Array:
    """f at the nodes. An empty panel may put them on a singularity, so that 1/0 there is no reason to warn."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return f(*arguments)


def total(weights: Array, values: Array) -> Array:
    """The weighted sum, in which a node of weight zero counts for nothing even if f is infinite there; infinite where
    infinities of both signs meet, which is an overflow of f and no number."""
    with np.errstate(invalid="ignore", over="ignore"):
        parts = np.where(weights > 0, weights * values, 0)
        out = np.asarray(parts.sum(axis=-1))
    unknown = np.isnan(out)
    return np.where(unknown & ~np.isnan(parts).any(-1), np.inf, out) if unknown.any() else out
