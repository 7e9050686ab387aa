"""One recursion for all closed forms.

For jointly Gaussian z, U_1, .., U_r (the gates: U = z_i - at + sqrt(noise) N) and h = prod_k sgn(U_k),

    E[z_i f(z) h] = m_i E[f h] + sum_l S_il E[d_l f h] + 2 sum_k Cov(z_i, U_k) p_k(0) E[f prod_{l != k} sgn(U_l) | U_k = 0],

p_k the density of U_k (Stein's lemma, with 2 delta for the derivative of sgn). It ends in E sgn U = erf(h / sqrt 2),
E sgn U sgn V (Sheppard; Owen) and, for centred U, V, W, E sgn U sgn V sgn W = 0. An exponential tilts the Gaussian first;
a wave is cos or sin of one more Gaussian.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from netsor.checks import Number
from netsor.closed.product import Term
from netsor.ops import Gate

Value = Any
"""An element of the field; it adds, subtracts, multiplies and divides, also with numbers."""


class Field(Protocol):
    """What the recursion needs to know of its numbers, beyond arithmetic."""

    def number(self, value: Number) -> Value: ...

    def is_zero(self, x: Value) -> bool:
        """Is x zero for sure, so that what it multiplies need not be computed?"""
        ...

    def exp(self, x: Value) -> Value: ...

    def cos(self, x: Value) -> Value: ...

    def sin(self, x: Value) -> Value: ...

    def root(self, x: Value) -> Value: ...

    def schur(self, a: Value, b: Value, c: Value, d: Value) -> Value:
        """a - b c / d."""
        ...

    def density(self, m: Value, v: Value) -> Value:
        """The density of N(m, v) at 0."""
        ...

    def sign(self, m: Value, v: Value) -> Value:
        """E sgn U, U ~ N(m, v)."""
        ...

    def signs(self, m: Value, n: Value, v: Value, w: Value, c: Value) -> Value:
        """E sgn U sgn V, means m and n, variances v and w, covariance c."""
        ...


class NotClosed(Exception):
    """The recursion ends in an orthant probability that has no closed form."""


class Gaussian:
    """A joint Gaussian law over a field. Moments of a conditional law are computed when they are asked for."""

    def __init__(self, field: Field, mean: Sequence[Value], cov: Sequence[Sequence[Value]]) -> None:
        self.field = field
        self._means = dict(enumerate(mean))
        self._covs = {(i, k): c for i, row in enumerate(cov) for k, c in enumerate(row[: i + 1])}
        self._parent: tuple[Gaussian, int] | None = None

    def __len__(self) -> int:
        return len(self._means)

    def mean(self, i: int) -> Value:
        if i not in self._means:
            law, g = self._parent  # type: ignore[misc]
            self._means[i] = self.field.schur(law.mean(i), law.cov(i, g), law.mean(g), law.cov(g, g))
        return self._means[i]

    def cov(self, i: int, k: int) -> Value:
        key = (i, k) if i >= k else (k, i)
        if key not in self._covs:
            law, g = self._parent  # type: ignore[misc]
            self._covs[key] = self.field.schur(law.cov(i, k), law.cov(i, g), law.cov(g, k), law.cov(g, g))
        return self._covs[key]

    def given_zero(self, g: int) -> Gaussian:
        """The law given that variable g is 0."""
        law = Gaussian(self.field, (), ())
        law._parent = (self, g)
        return law

    def tilted(self, i: int, rate: Value, bend: Value) -> tuple[Value, Value, Gaussian]:
        """x, s and the law with this weight, where E exp(rate z_i - bend z_i^2) = exp(x) sqrt(s)."""
        every, one, v = range(len(self)), self.field.number(1), self.cov(i, i)
        shrink = one / (one + 2 * bend * v) if bend else one
        moved = shrink * (rate - 2 * bend * self.mean(i))
        mean = [self.mean(j) + self.cov(j, i) * moved for j in every]
        if bend:
            mean[i] = shrink * (self.mean(i) + rate * v)
        exponent = (self.mean(i) * (rate - 2 * bend * mean[i]) + rate * mean[i]) / 2
        if not bend:
            return exponent, one, Gaussian(self.field, mean, [[self.cov(j, k) for k in every] for j in every])
        wide = v + one / (2 * bend)

        def left(j: int, k: int) -> Value:
            c = self.cov(j, k)
            return shrink * c if i in (j, k) else self.field.schur(c, self.cov(j, i), self.cov(i, k), wide)

        return exponent, shrink, Gaussian(self.field, mean, [[left(j, k) for k in every] for j in every])

    def joined(self, forms: Iterable[tuple[Sequence[tuple[int, Value]], Value, Value]]) -> Gaussian:
        """With more variables: sum of numbers times z_i, plus a constant, plus independent noise of a variance."""
        every = range(len(self))
        mean, cov = [self.mean(j) for j in every], [[self.cov(j, k) for k in every] for j in every]
        for weights, constant, noise in forms:
            row = [self.total(weights, c) for c in cov]
            mean.append(self.total(weights, mean) + constant if constant else self.total(weights, mean))
            variance = self.total(weights, row)
            for c, r in zip(cov, row, strict=True):
                c.append(r)
            cov.append([*row, variance + noise if noise else variance])
        return Gaussian(self.field, mean, cov)

    def total(self, weights: Sequence[tuple[int, Value]], values: Sequence[Value]) -> Value:
        parts = [values[i] if f == 1 else f * values[i] for i, f in weights]
        return sum(parts[1:], parts[0]) if parts else self.field.number(0)


class Units(Protocol):
    """Scales: variable i of the problem is `variable(i)` times the one whose law is given."""

    def variable(self, i: int) -> Value: ...

    def gate(self, i: int, noise: Number) -> Value:
        """A scale for z_i + sqrt(noise) N."""
        ...


def expectation(
    field: Field, terms: Iterable[Term], mean: Sequence[Value], cov: Sequence[Sequence[Value]], units: Units | None = None
) -> Value:
    """The sum of the expectations of the terms.  Raises: NotClosed."""
    shared: dict[Any, Recursion] = {}
    total = field.number(0)
    for t in terms:
        key = (t.tilts, t.gates, t.wave)
        if key not in shared:
            shared[key] = Recursion.of(field, t, mean, cov, units)
        value = shared[key](t.powers) * t.number
        if units is not None:
            for i in (i for i, power in enumerate(t.powers) for _ in range(power)):
                value = value * units.variable(i)
        total = total + value
    return total


def rescaled(tilts: Sequence[tuple[int, Number, Number]], units: Units) -> list[tuple[int, Value, Value]]:
    """exp(rate z - bend z^2) in terms of z / unit."""
    every = [(i, rate, bend, units.variable(i)) for i, rate, bend in tilts]
    return [(i, rate * u if rate else 0, bend * u * u if bend else 0) for i, rate, bend, u in every]


def gate_form(i: int, gate: Gate, units: Units | None) -> tuple[Sequence[tuple[int, Value]], Value, Value]:
    """z_i - at and the variance of the noise, on a scale of its own."""
    if units is None:
        return ((i, 1),), -gate.at, gate.noise
    one = 1 / units.gate(i, gate.noise)
    return ((i, units.variable(i) * one),), -gate.at * one if gate.at else 0, gate.noise * one * one if gate.noise else 0


def tilted(law: Gaussian, tilts: Sequence[tuple[int, Value, Value]]) -> tuple[Gaussian, Value]:
    """The law with all these weights, and what they integrate to. Bends go first and exponents are added before exp, so that
    nothing overflows unless the whole does."""
    field, total, spread = law.field, law.field.number(0), law.field.number(1)
    bends, rates = ((i, 0, bend) for i, _, bend in tilts if bend), ((i, rate, 0) for i, rate, _ in tilts if rate)
    for tilt in (*bends, *rates):
        exponent, shrink, law = law.tilted(*tilt)
        total = total + exponent
        spread = spread * shrink if tilt[2] else spread
    return law, field.exp(total) * field.root(spread) if any(bend for _, _, bend in tilts) else field.exp(total)


class Recursion:
    """E[z^powers * gates * wave] under one tilted law, with everything that it meets kept."""

    def __init__(self, law: Gaussian, gates: tuple[int, ...], wave: int | None, even: bool, weight: Value) -> None:
        self.law, self.gates, self.wave, self.even, self.weight = law, gates, wave, even, weight
        self._values: dict[Any, Value] = {}
        self._laws: dict[tuple[int, ...], Gaussian] = {(): law}

    @classmethod
    def of(
        cls, field: Field, t: Term, mean: Sequence[Value], cov: Sequence[Sequence[Value]], units: Units | None = None
    ) -> Recursion:
        law, weight = Gaussian(field, mean, cov), field.number(1)
        tilts = t.tilts if units is None else rescaled(t.tilts, units)
        if tilts:
            law, weight = tilted(law, tilts)
        d = len(law)
        law = law.joined(gate_form(i, gate, units) for i, gate in t.gates)
        gates = tuple(range(d, d + len(t.gates)))
        if t.wave is None:
            return cls(law, gates, None, True, weight)
        even, angle = t.wave
        angle = angle if units is None else tuple((i, f * units.variable(i)) for i, f in angle)
        return cls(law.joined([(angle, 0, 0)]), gates, len(law), even, weight)

    def __call__(self, powers: tuple[int, ...]) -> Value:
        return self.weight * self.value(powers, self.gates, (), self.even)

    def value(self, powers: tuple[int, ...], gates: tuple[int, ...], given: tuple[int, ...], even: bool) -> Value:
        key = (powers, gates, given, even)
        if key not in self._values:
            self._values[key] = self._value(powers, gates, given, even)
        return self._values[key]

    def given(self, path: tuple[int, ...]) -> Gaussian:
        if path not in self._laws:
            self._laws[path] = self.given(path[:-1]).given_zero(path[-1])
        return self._laws[path]

    def _value(self, powers: tuple[int, ...], gates: tuple[int, ...], given: tuple[int, ...], even: bool) -> Value:
        law = self.given(given)
        field = law.field
        i = next((k for k, p in enumerate(powers) if p), None)
        if i is None:
            return self.orthant(law, gates, even)
        rest = lowered(powers, i)
        parts = [(law.mean(i), rest, even, 1)]
        parts += [(law.cov(i, l), lowered(rest, l), even, n) for l, n in enumerate(rest) if n]
        if self.wave is not None:
            parts.append((law.cov(i, self.wave), rest, not even, -1 if even else 1))
        total = field.number(0)
        for weight, left, phase, number in parts:
            if not field.is_zero(weight):
                total = total + number * weight * self.value(left, gates, given, phase)
        for g in gates:
            if not field.is_zero(law.cov(i, g)):
                others = tuple(k for k in gates if k != g)
                weight = 2 * law.cov(i, g) * self.density(g, given)
                total = total + weight * self.value(rest, others, (*given, g), even)
        return total

    def density(self, g: int, given: tuple[int, ...]) -> Value:
        """That of gate g at 0."""
        key = (g, given)
        if key not in self._values:
            law = self.given(given)
            self._values[key] = law.field.density(law.mean(g), law.cov(g, g))
        return self._values[key]

    def orthant(self, law: Gaussian, gates: tuple[int, ...], even: bool) -> Value:
        """E of the gates, or of the wave."""
        field = law.field
        if self.wave is not None:
            w = self.wave
            return field.exp(-law.cov(w, w) / 2) * (field.cos if even else field.sin)(law.mean(w))
        if not gates:
            return field.number(1)
        if len(gates) == 1:
            (g,) = gates
            return field.sign(law.mean(g), law.cov(g, g))
        if len(gates) == 2:
            g, h = gates
            return field.signs(law.mean(g), law.mean(h), law.cov(g, g), law.cov(h, h), law.cov(g, h))
        if len(gates) % 2 and all(field.is_zero(law.mean(g)) for g in gates):
            return field.number(0)
        raise NotClosed


def lowered(powers: tuple[int, ...], i: int) -> tuple[int, ...]:
    return (*powers[:i], powers[i] - 1, *powers[i + 1 :])
