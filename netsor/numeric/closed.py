"""The recursion of `netsor.closed` over arrays, with a bound of its rounding error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import frexp
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from netsor.checks import Number
from netsor.closed.product import Term, centred, settled
from netsor.closed.stein import expectation
from netsor.numeric.linear import determinant, power_of_two

Array = NDArray[np.float64]

UNIT = 2.0**-53
HUGE = 2.0**160
FAR = 38.0  # deviations: the probability beyond is below the smallest double
CHUNK = 4096  # entries that are computed together, so that intermediate arrays stay in the cache


def closed(terms: Sequence[Term], mean: Array, cov: Array, sort: bool = False) -> tuple[Array, Array]:
    """E of the sum of the terms and a bound of its error; nan where a variance that divides is 0, or a number overflows.

    sort: entries that are far from a gate are computed without it, so that what it would cancel is not there.
    Shapes: mean (d, n), cov (d, d, n) to (n,) twice.  Raises: NotClosed.
    """
    n = mean.shape[1]
    values, errors = np.empty(n), np.empty(n)
    with np.errstate(all="ignore"):
        groups = far_from_gates(terms, mean, cov) if sort else [(np.arange(n), terms)]
        for here, left in groups:
            for start in range(0, here.size, CHUNK):
                part = here[start : start + CHUNK] if here.size < n else slice(start, start + CHUNK)
                total = at_once(left, mean[:, part], cov[..., part])
                values[part], errors[part] = total.value, UNIT * total.units
        for i, gate in {g for t in terms for g in t.gates}:
            errors[(cov[i, i] + float(gate.noise) == 0) & (mean[i] == float(gate.at))] = (
                np.nan
            )  # a jump's own value is its function's
    return values, errors


def at_once(terms: Sequence[Term], mean: Array, cov: Array) -> Bounded:
    """All entries together, on scales of their own where they are huge or tiny."""
    units = None
    if not mean.any():
        terms = centred(terms)
    if extreme(mean, cov):
        units = Scales(np.array([scale(m, v) for m, v in zip(mean, np.einsum("ii...->i...", cov), strict=True)]))
        mean, cov = mean / units.scales, cov / units.scales / units.scales[:, None]
    total: Bounded = expectation(FIELD, terms, [Bounded(m) for m in mean], [[Bounded(c) for c in row] for row in cov], units)
    return total


def far_from_gates(terms: Sequence[Term], mean: Array, cov: Array) -> Iterator[tuple[NDArray[np.intp], Sequence[Term]]]:
    """Entries in groups, and the terms for each: a gate that is more than FAR deviations away has one sign, to the last bit."""
    every = np.arange(mean.shape[1])
    gates = sorted({g for t in terms for g in t.gates}, key=repr)
    if not gates or any(t.tilts for t in terms):
        yield every, terms
        return
    gaps = [(mean[i] - float(g.at), np.sqrt(cov[i, i] + float(g.noise))) for i, g in gates]
    signs = np.array([np.sign(gap) * (np.abs(gap) > FAR * spread) for gap, spread in gaps])
    if not signs.any():
        yield every, terms
        return
    patterns, which = np.unique(signs, axis=1, return_inverse=True)
    for k, pattern in enumerate(patterns.T):
        known = {g: int(s) for g, s in zip(gates, pattern, strict=True) if s}
        yield np.flatnonzero(which.ravel() == k), settled(terms, known)


def extreme(mean: Array, cov: Array) -> bool:
    """Could a product of a few of these numbers overflow or lose digits below the smallest double?"""
    size = np.abs(cov)
    return bool(max(size.max(), np.abs(mean).max()) > HUGE or np.any((size < 1 / HUGE) & (size > 0)))


def scale(mean: Array, var: Array) -> Array:
    """The power of two next to the standard deviation, or to the mean of a constant: division by it is exact."""
    return power_of_two(np.where(var > 0, np.sqrt(var), np.abs(mean)))


@dataclass(frozen=True)
class Scales:
    """Powers of two, one row for each variable: to compute with numbers near 1, whatever the variances are."""

    scales: Array

    def variable(self, i: int) -> Bounded:
        return Bounded(self.scales[i])

    def gate(self, i: int, noise: Number) -> Bounded:
        return Bounded(scale(self.scales[i], self.scales[i] ** 2 + float(noise)))


@dataclass(frozen=True, slots=True)
class Bounded:
    """`value`, off by at most about `units` units of roundoff: running error analysis (Higham 2002, Section 3.3)."""

    value: Any
    units: Any = 0.0

    def __add__(self, other: Bounded | Number) -> Bounded:
        x, y = self, bounded(other)
        value = x.value + y.value
        return Bounded(value, x.units + y.units + np.abs(value))

    __radd__ = __add__

    def __neg__(self) -> Bounded:
        return Bounded(-self.value, self.units)

    def __sub__(self, other: Bounded | Number) -> Bounded:
        return self + -bounded(other)

    def __rsub__(self, other: Bounded | Number) -> Bounded:
        return -self + other

    def __mul__(self, other: Bounded | Number) -> Bounded:
        if not isinstance(other, Bounded):
            return self.times(float(other))
        x, y = self, other
        value = x.value * y.value
        return Bounded(value, np.abs(x.value) * y.units + np.abs(y.value) * x.units + np.abs(value))

    __rmul__ = __mul__

    def times(self, number: float) -> Bounded:
        """A power of two is exact; another number is itself rounded."""
        value, units = self.value * number, self.units * abs(number)
        return Bounded(value, units if abs(frexp(number)[0]) == 0.5 else units + 2 * np.abs(value))

    def __rtruediv__(self, other: Number) -> Bounded:
        return bounded(other) / self

    def __truediv__(self, other: Bounded | Number) -> Bounded:
        if not isinstance(other, Bounded) and abs(frexp(float(other))[0]) == 0.5:
            return self.times(1 / float(other))
        x, y = self, bounded(other)
        value = x.value / y.value
        return Bounded(value, (x.units + np.abs(value) * y.units) / np.abs(y.value) + np.abs(value))


def bounded(x: Bounded | Number) -> Bounded:
    return x if isinstance(x, Bounded) else Bounded(float(x))


class Arrays:
    """Arrays with a bound of their rounding error as a field."""

    def number(self, value: Number) -> Bounded:
        return bounded(value)

    def is_zero(self, x: Bounded) -> bool:
        return not np.any(x.value)

    def exp(self, x: Bounded) -> Bounded:
        value = np.exp(x.value)
        return Bounded(value, value * (1 + x.units))

    def cos(self, x: Bounded) -> Bounded:
        return Bounded(np.cos(x.value), 1 + x.units)

    def sin(self, x: Bounded) -> Bounded:
        value = np.sin(x.value)
        return Bounded(value, np.abs(value) + x.units)

    def root(self, x: Bounded) -> Bounded:
        value = np.sqrt(x.value)
        return Bounded(value, value + x.units / (2 * value))

    def schur(self, a: Bounded, b: Bounded, c: Bounded, d: Bounded) -> Bounded:
        value = determinant(a.value, b.value, c.value, d.value) / d.value
        ratio, other = np.abs(c.value / d.value), np.abs(b.value / d.value)
        units = a.units + ratio * b.units + other * c.units + ratio * other * d.units
        return Bounded(value, units + 3 * np.abs(value))

    def density(self, m: Bounded, v: Bounded) -> Bounded:
        half = m.value * m.value / (2 * v.value)
        value = np.exp(-half) / np.sqrt(2 * np.pi * v.value)
        half = np.minimum(half, 1e4)  # beyond, the density is 0
        slope = np.abs(m.value) * m.units + (half + 0.5) * v.units
        return Bounded(value, value * (3 + 3 * half + slope / v.value))

    def sign(self, m: Bounded, v: Bounded) -> Bounded:
        value = special.erf(m.value / np.sqrt(2 * v.value))
        slope = 2 * density(m.value, v.value)
        units = slope * (m.units + np.abs(m.value) / (2 * v.value) * v.units)
        return Bounded(value, units + 3 * np.abs(value))

    def signs(self, m: Bounded, n: Bounded, v: Bounded, w: Bounded, c: Bounded) -> Bounded:
        root = np.sqrt(determinant(v.value, c.value, c.value, w.value))
        value = 2 / np.pi * np.arctan2(c.value, root)
        units = 3 * np.abs(value)
        if np.any(m.value) or np.any(n.value):
            shifted = quadrants(m.value, n.value, v.value, w.value, c.value, root)
            centred = (m.value == 0) & (n.value == 0)
            value, units = np.where(centred, value, shifted), np.where(centred, units, 4.0)
        along = np.abs(c.value) / 2 * (v.units / v.value + w.units / w.value) + c.units
        units = units + 2 / np.pi * along / root
        for x, s in ((m, v), (n, w)):
            units = units + 2 * density(x.value, s.value) * (x.units + np.abs(x.value) / (2 * s.value) * s.units)
        return Bounded(value, units)


FIELD = Arrays()


def density(m: Any, v: Any) -> Any:
    return np.exp(-m * m / (2 * v)) / np.sqrt(2 * np.pi * v)


def quadrants(m: Any, n: Any, v: Any, w: Any, c: Any, root: Any) -> Any:
    """E sgn U sgn V by Owen's function: 1 - 4 T(h, a) - 4 T(k, b), or -1 - 4 T - 4 T where h and k differ in sign
    (Owen 1956), h = m/sqrt v, k = n/sqrt w; root = sqrt(v w - c^2)."""
    unit = -np.frexp(np.maximum(np.abs(m), np.abs(n)))[1]  # a and b are ratios, and means may be denormal
    x, y = np.ldexp(m, unit), np.ldexp(n, unit)
    a = slope(determinant(y, c, x, v), x * root, np.where(m < 0, -n, n))
    b = slope(determinant(x, c, y, w), y * root, np.where(n < 0, -m, m))
    product, sum_ = np.sign(m) * np.sign(n), np.sign(m) + np.sign(n)
    alike = (product > 0) | ((product == 0) & (sum_ >= 0))
    return np.where(alike, 1.0, -1.0) - 4 * (special.owens_t(m / np.sqrt(v), a) + special.owens_t(n / np.sqrt(w), b))


def slope(rise: Any, run: Any, sign: Any) -> Any:
    """rise / run, and infinity with the sign of the rise where there is no run."""
    return np.where(run == 0, np.copysign(np.inf, sign), rise / np.where(run == 0, 1, run))
