"""E f(U) and E f(U, V) for Gaussian arguments: the trapezoid rule where f is analytic, panels where it is not.

The line is standardised. For a function that is analytic in a strip the trapezoid rule converges like exp(-2 pi d/h), d the
distance of the nearest pole and h the step (Trefethen, Weideman 2014); it serves where every `Feature` has a width. Elsewhere,
and where a narrow strip would take more nodes, the line is cut into panels of equal width with a Gauss-Lobatto rule each, and
cut again at every feature: once at a kink, and in geometric progression around a soft transition, so that f is analytic well
beyond every panel. Each entry of the arrays of means and covariances has its own cuts, but all have equally many, and all are
integrated in one call of f. A cut that falls off the line or onto another cut leaves a panel of weight zero.

The line ends at R = 9 + 2 level standard deviations, and where a tail is all there is, later: a function that grows like
exp(a U) moves the mass by a s, so that the end moves with it, and beyond a feature at D >> 1 the tail e^{-D t - t^2/2} has
panels of its own, up to sqrt(D^2 + R^2), where it has fallen by as much as the whole density at R. A wave cuts panels in
which it turns by half a radian for each node.

Every part of the resolution (reach of the line, panels, nodes in a panel) depends on `level`, so that the difference
between two levels sees a tail that was cut off and a feature that was not declared: it is the error estimate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, reduce
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

_TAIL = 7.0  # deviations: the tail beyond a feature this far out is cut in panels of its own
_FAR = 38.6  # deviations: the density beyond is below the smallest double
_SMOOTH = 12.0  # deviations: how far out a smooth feature lengthens the trapezoid rule of all entries
_FASTEST = 200.0  # radians in a deviation that panels resolve; beyond, the error says so
_FURTHEST = 60.0  # deviations that the ends may move
_OFF = 200.0  # beyond every end
_SHARES = np.array([1 / 8, 3 / 8, 1])  # of a tail, by its panels
_ANALYTIC = 1 / 4  # ratio of successive pairs of null rules where the integrand is analytic
_ROUNDING = 64 * 2.0**-53  # of the first coefficients: null rules below are nothing
_INSIDE = 1e-6  # of a half-width: how far the outermost nodes are from the ends of a panel
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


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a function turns and grows, in units of its variable: like a wave of frequency `wave`, and like sums of
    exp(a x) with `low` <= a <= `high`."""

    wave: float = 0.0
    low: float = 0.0
    high: float = 0.0

    def __add__(self, other: Pace) -> Pace:
        """That of a product."""
        return Pace(self.wave + other.wave, self.low + other.low, self.high + other.high)

    def along(self, slope: Array) -> Drift:
        """The same along the standardised line, of which the variable is an affine function."""
        if self == STILL:
            return _REST
        moves = np.clip(self.low * slope, -_FURTHEST, _FURTHEST), np.clip(self.high * slope, -_FURTHEST, _FURTHEST)
        return Drift(self.wave * np.abs(slope), np.minimum(*moves), np.maximum(*moves))


STILL = Pace()


@dataclass(frozen=True, slots=True)
class Drift:
    """A pace along the standardised line, for every entry: radians in a deviation, and by how much the mass moves."""

    wave: Array
    low: Array
    high: Array

    def __add__(self, other: Drift) -> Drift:
        if self is _REST or other is _REST:
            return other if self is _REST else self
        return Drift(self.wave + other.wave, self.low + other.low, self.high + other.high)


_REST = Drift(np.zeros(()), np.zeros(()), np.zeros(()))


def expect1(
    f: Callable[[Array], Array],
    mean: ArrayLike,
    var: ArrayLike,
    features: Sequence[Feature] = (),
    level: int = 1,
    pace: Pace = STILL,
) -> Array:
    """E f(U), U ~ N(mean, var), for every entry of the broadcast arrays `mean` and `var`; f(mean) where var = 0.

    An f that grows exponentially, and does not say so by its `pace`, is integrated up to exp(3 U / s) at level 1.

    Shapes: the result has the broadcast shape; f maps (*shape, nodes) to itself, nodes = `nodes1(...)`.
    Raises: NS402 where a mean is not finite or a variance is not a finite number >= 0.
    """
    return doubted1(f, mean, var, features, level, pace)[0]


def doubted1(
    f: Callable[[Array], Array],
    mean: ArrayLike,
    var: ArrayLike,
    features: Sequence[Feature] = (),
    level: int = 1,
    pace: Pace = STILL,
) -> tuple[Array, Array]:
    """`expect1`, and how far off a feature that was not declared makes it (see `Rule.integral`)."""
    mean, var = _broadcast(mean, var)
    u, rule = line(mean, var, features, level, pace)
    values = _evaluate(f, u)
    value, doubt = rule.integral(values)
    return np.where(var == 0, values[..., 0], value), np.where(var == 0, 0, doubt)


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
    paces: tuple[Pace, Pace] = (STILL, STILL),
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
    return doubted2(f, mean1, mean2, var1, var2, cov, features1, features2, level, paces)[0]


def doubted2(
    f: Callable[[Array, Array], Array],
    mean1: ArrayLike,
    mean2: ArrayLike,
    var1: ArrayLike,
    var2: ArrayLike,
    cov: ArrayLike,
    features1: Sequence[Feature] = (),
    features2: Sequence[Feature] = (),
    level: int = 1,
    paces: tuple[Pace, Pace] = (STILL, STILL),
) -> tuple[Array, Array]:
    """`expect2`, and how far off a feature that was not declared makes it."""
    mean1, mean2, var1, var2, cov = _broadcast(mean1, mean2, var1, var2, cov)
    scale1, scale2 = _scale(mean1, var1), _scale(mean2, var2)
    r, q = _correlation(var1, var2, cov)
    cuts2 = _cuts(features2, mean2, scale2)
    drift = paces[0].along(scale1) + paces[1].along(scale2 * r)
    outer = _rule(_cuts(features1, mean1, scale1) + _crossings(cuts2, r, q), drift, var1.shape, level)
    z = outer.z
    mean1, mean2, scale1, scale2, r, q = (a[..., None] for a in (mean1, mean2, scale1, scale2, r, q))
    cuts = [(_ratio(at[..., None] - r * z, q), _ratio(w[..., None], q)) for at, w in cuts2]
    inner = _rule(cuts, paces[1].along(scale2 * q), z.shape, level, tails=False)
    y = inner.z
    u = np.broadcast_to((mean1 + scale1 * z)[..., None], y.shape)
    v = (mean2 + scale2 * r * z)[..., None] + (scale2 * q)[..., None] * y
    flat = (*var1.shape, y.shape[-2] * y.shape[-1])
    values = _evaluate(f, u.reshape(flat), v.reshape(flat))
    given, doubts = inner.integral(values.reshape(y.shape))
    value, doubt = outer.integral(given)
    certain = (var1 == 0) & (var2 == 0)
    return np.where(certain, values[..., 0], value), np.where(certain, 0, doubt + total(outer.weights, doubts))


def line(mean: Array, var: Array, features: Sequence[Feature], level: int, pace: Pace = STILL) -> tuple[Array, Rule]:
    """Nodes u and the rule for E f(U), U ~ N(mean, var).  Shapes: (...) to (..., nodes)."""
    scale = _scale(mean, var)
    rule = _rule(_cuts(features, mean, scale), pace.along(scale), var.shape, level)
    return mean[..., None] + scale[..., None] * rule.z, rule


def given(
    mean1: Array,
    mean2: Array,
    var1: Array,
    var2: Array,
    cov: Array,
    features1: Sequence[Feature] = (),
    features2: Sequence[Feature] = (),
    level: int = 1,
    paces: tuple[Pace, Pace] = (STILL, STILL),
) -> tuple[Array, Rule]:
    """Nodes u and the rule for E[f(U) E[g(V) | U]], cut at the features of f and where V passes those of g.

    Shapes: (n) to (n, nodes), nodes = `nodes_given(...)`.  Raises: as `expect2`.
    """
    scale1 = _scale(mean1, var1)
    rule = _rule(*_given(mean1, mean2, var1, var2, cov, features1, features2, paces), var1.shape, level)
    return mean1[:, None] + scale1[:, None] * rule.z, rule


def nodes_given(
    mean1: Array,
    mean2: Array,
    var1: Array,
    var2: Array,
    cov: Array,
    features1: Sequence[Feature],
    features2: Sequence[Feature],
    level: int,
    paces: tuple[Pace, Pace] = (STILL, STILL),
) -> int:
    """How many nodes `given` makes for each entry."""
    return _count(*_given(mean1, mean2, var1, var2, cov, features1, features2, paces), level)


def _given(
    mean1: Array,
    mean2: Array,
    var1: Array,
    var2: Array,
    cov: Array,
    features1: Sequence[Feature],
    features2: Sequence[Feature],
    paces: tuple[Pace, Pace],
) -> tuple[list[Cut], Drift]:
    """Cuts and drift of the line of U: its own, and those of E[g(V) | U]."""
    scale1, scale2 = _scale(mean1, var1), _scale(mean2, var2)
    r, q = _correlation(var1, var2, cov, 0)
    cuts = _cuts(features1, mean1, scale1) + _crossings(_cuts(features2, mean2, scale2), r, q)
    return cuts, paces[0].along(scale1) + paces[1].along(scale2 * r)


def nodes1(
    features: Sequence[Feature] = (), level: int = 1, var: ArrayLike = 1.0, mean: ArrayLike = 0.0, pace: Pace = STILL
) -> int:
    """How many nodes `expect1` hands to f for each entry at level 1: about 80 for a function with one smooth transition, 225
    and 15 for each kink otherwise, a few panels more for a transition that is narrow against sqrt(var), for a kink far from
    the mean, for a wave. Part of the entries never needs more than all of them.
    """
    mean, var = _broadcast(mean, var)
    scale = np.sqrt(var)
    return _count(_cuts(features, mean, scale), pace.along(scale), level)


def nodes2(
    features1: Sequence[Feature] = (),
    features2: Sequence[Feature] = (),
    level: int = 1,
    var1: ArrayLike = 1.0,
    var2: ArrayLike = 1.0,
    cov: ArrayLike = 0.0,
    mean1: ArrayLike = 0.0,
    mean2: ArrayLike = 0.0,
    paces: tuple[Pace, Pace] = (STILL, STILL),
) -> int:
    """How many nodes (outer times inner) `expect2` hands to f for each entry: at level 1, 7,000 for smooth transitions,
    61,000 with a kink in each variable, 130,000 if moreover a correlation is 0.9999999. Part of the entries never
    needs more than all of them.
    """
    mean1, mean2, var1, var2, cov = _broadcast(mean1, mean2, var1, var2, cov)
    r, q = _correlation(var1, var2, cov)
    scale1, scale2 = np.sqrt(var1), np.sqrt(var2)
    cuts1, cuts2 = _cuts(features1, mean1, scale1), _cuts(features2, mean2, scale2)
    outer = _count(cuts1 + _crossings(cuts2, r, q), paces[0].along(scale1) + paces[1].along(scale2 * r), level)
    inner = [(at, _ratio(width, q)) for at, width in cuts2]
    return outer * _count(inner, paces[1].along(scale2 * q), level, tails=False)


def _resolution(level: int) -> tuple[int, int, int]:
    """Reach of the standardised line, number of regular panels (odd: no cut at 0), nodes in a panel."""
    return 9 + 2 * level, 13 + 2 * level, 11 + 4 * level


def _rungs(width: Array) -> int:
    """How many steps of ratio 3 lead from the smallest positive width to a width of 1, where regular panels suffice."""
    soft = width[(width > 0) & (width < 1)]
    return 1 + ceil(-log(max(soft.min(), _FINEST)) / log(_RATIO)) if soft.size else 0


def _step(cuts: Sequence[Cut], wave: float, level: int) -> float | None:
    """The step of the trapezoid rule: a seventh of the distance of the nearest pole, and so many to a turn that aliases lie
    9 deviations from the frequencies of the density; None at a kink, or if nothing is known."""
    nearest = min((float(np.min(width, initial=np.inf)) for _, width in cuts), default=0.0)
    return min(0.3, nearest / 7, 2 * pi / (wave + 9)) * 0.85 ** (level - 1) if nearest > 0 else None


@dataclass(frozen=True, slots=True)
class Rule:
    """Nodes and weights for E g(Z), Z ~ N(0, 1).  Shapes: (*shape, nodes) each.

    order: nodes in a panel, 0 for the trapezoid rule.
    """

    z: Array
    weights: Array
    order: int

    def integral(self, values: Array) -> tuple[Array, Array]:
        """The weighted sum, and by how much a kink or a jump inside a panel may have spoiled it.

        Null rules, the coefficients of the last Legendre polynomials in each panel, in pairs E_1 (the last), E_2, .. At a
        kink they fall like k^{-3/2}, at a jump like k^{-1/2}, and the error is at most 1.4 max(E_1, E_2) wherever it lies,
        since the first and the last node are the ends of the panel: 2 max(E_1, E_2) is said. Where they fall by 4 from pair
        to pair on average (at a kink or jump by at most 3.7) the integrand is analytic, and its error is that of twice the
        degree.
        Source: Berntsen, Espelid 1991 (ACM TOMS 17), for null rules and their ratios.
        """
        parts, value = _parts(self.weights, values)
        if not self.order:
            return value, np.zeros_like(value)
        with np.errstate(invalid="ignore", over="ignore"):
            a = parts.reshape(*parts.shape[:-1], -1, self.order) @ _null_rules(self.order)
            a *= a
            size, last, *others, second, first = np.moveaxis(a[..., 0::2] + a[..., 1::2], -1, 0)  # squares
            largest = np.maximum(first, second)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            ratio = (first / last) ** (1 / (len(others) + 2))
            off = np.where(ratio < _ANALYTIC**2, first * ratio ** (self.order // 2 - 1), largest)
        return value, np.asarray(2 * np.sqrt(np.where(largest > _ROUNDING**2 * size, off, 0)).sum(-1))


@cache
def _lobatto(order: int) -> tuple[Array, Array]:
    """Gauss-Lobatto nodes and weights on [-1, 1], drawn together by a millionth: a node on a jump would take a side."""
    inner = np.polynomial.legendre.legroots(np.polynomial.legendre.legder(np.eye(order)[-1])).real
    x = np.concatenate([[-1.0], (np.sort(inner) - np.sort(inner)[::-1]) / 2, [1.0]]) * (1 - _INSIDE)
    w = np.linalg.solve(np.polynomial.legendre.legvander(x, order - 1).T, 2 * np.eye(order)[0])
    return x, (w + w[::-1]) / 2


@cache
def _null_rules(order: int) -> Array:
    """The Legendre polynomials of degree 0, 1 and the last eight or ten at the nodes, of norm 1: a column each."""
    x, _ = _lobatto(order)
    degrees = [0, 1, *range(order - min(10, order // 4 * 4), order)]
    return np.asarray(np.polynomial.legendre.legvander(x, order - 1)[:, degrees] * np.sqrt(np.array(degrees) + 0.5))


@dataclass(frozen=True, slots=True)
class _Plan:
    """Regular panels of every entry between `low` and `high`, or as many nodes of a trapezoid rule; and the tails beyond
    features far out, with where they start and end (both 0 where an entry has none)."""

    low: Array
    high: Array
    tails: list[Cut]
    panels: int
    trapezoid: tuple[float, int, int] | None = None
    """The step, and how many nodes there are on either side of 0."""


def _plan(cuts: Sequence[Cut], drift: Drift, level: int, tails: bool) -> _Plan:
    reach, panels, order = _resolution(level)
    low, high = np.minimum(drift.low, 0) - reach, np.maximum(drift.high, 0) + reach
    length, wave = float(np.max(high - low, initial=0)), min(float(np.max(drift.wave, initial=0)), _FASTEST)
    panels = max(panels, ceil(panels * length / (2 * reach)), ceil(2 * length * wave / order))
    beyond = [t for cut in cuts if (t := _tail(cut, drift, reach)) is not None] if tails else []
    plan = _Plan(low, high, beyond, panels | 1)
    step = _step(cuts, wave, level)
    if step is None or step < 1e-3:
        return plan
    smooth = [np.where(np.abs(start) < _SMOOTH, end, 0) for start, end in beyond]
    ends = [float(f([f(x, initial=0) for x in (side, *smooth)])) for side, f in ((low, np.min), (high, np.max))]
    left, right = (ceil(abs(end) / step) for end in ends)
    return replace(plan, trapezoid=(step, left, right)) if left + right < _panels(cuts, plan, level) else plan


def _tail(cut: Cut, drift: Drift, reach: int) -> Cut | None:
    """The tail beyond a feature far from where the mass is; None where no entry has one."""
    centre, width = cut
    moved = np.where(centre > 0, np.maximum(drift.high, 0), np.minimum(drift.low, 0))
    far = np.abs(centre) - np.abs(moved)
    here = (far > _TAIL) & (far < _FAR) & (width <= 1)
    if not here.any():
        return None
    end = moved + np.sign(centre) * np.hypot(far, reach)
    return np.where(here, centre, 0), np.where(here, end, 0)


def _count(cuts: Sequence[Cut], drift: Drift, level: int, tails: bool = True) -> int:
    plan = _plan(cuts, drift, level, tails)
    return _panels(cuts, plan, level) if plan.trapezoid is None else 1 + sum(plan.trapezoid[1:])


def _panels(cuts: Sequence[Cut], plan: _Plan, level: int) -> int:
    *_, order = _resolution(level)
    return order * (plan.panels + sum(1 + 2 * _rungs(width) for _, width in cuts) + len(_SHARES) * len(plan.tails))


def _rule(cuts: Sequence[Cut], drift: Drift, shape: tuple[int, ...], level: int, tails: bool = True) -> Rule:
    """For E g(Z), Z ~ N(0, 1)."""
    plan = _plan(cuts, drift, level, tails)
    if plan.trapezoid is not None:
        step, left, right = plan.trapezoid
        z = np.broadcast_to(step * np.arange(-left, right + 1), (*shape, left + right + 1))
        return Rule(z, step * np.exp(-z * z / 2) / sqrt(2 * pi), 0)
    middle, half = (plan.low + plan.high)[..., None] / 2, (plan.high - plan.low)[..., None] / 2
    ends = [end for _, end in plan.tails]
    bottom, top = reduce(np.minimum, ends, plan.low), reduce(np.maximum, ends, plan.high)
    bottom, top = bottom[..., None], top[..., None]
    edges = [middle + half * np.linspace(-1, 1, plan.panels + 1)]
    for centre, width in cuts:
        ladder = np.where(width > 0, np.clip(width, _FINEST, 1), 0)[..., None] * _RATIO ** np.arange(_rungs(width))
        steps = np.concatenate([-ladder, np.zeros((*width.shape, 1)), ladder], axis=-1)
        edges.append(np.clip(np.clip(centre, -_OFF, _OFF)[..., None] + steps, bottom, top))
    for start, end in plan.tails:
        inside = start[..., None] + (end - start)[..., None] * _SHARES
        edges.append(np.where((end != 0)[..., None], inside, top))
    edge = np.sort(np.concatenate([np.broadcast_to(e, (*shape, e.shape[-1])) for e in edges], axis=-1), axis=-1)
    x, w = _lobatto(_resolution(level)[2])
    half = np.diff(edge)[..., None] / 2
    z = (edge[..., :-1, None] + half * (1 + x)).reshape(*shape, x.size * half.shape[-2])
    return Rule(z, (half * w).reshape(z.shape) * np.exp(-z * z / 2) / sqrt(2 * pi), x.size)


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
    return _parts(weights, values)[1]


def _parts(weights: Array, values: Array) -> tuple[Array, Array]:
    """What is summed, and the sum."""
    with np.errstate(invalid="ignore", over="ignore"):
        parts = np.where(weights > 0, weights * values, 0)
        out = np.asarray(parts.sum(axis=-1))
    unknown = np.isnan(out)
    return parts, np.where(unknown & ~np.isnan(parts).any(-1), np.inf, out) if unknown.any() else out
