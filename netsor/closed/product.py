"""Products of known functions, multiplied out into terms that one recursion can integrate.

A known function is a sum of pieces  number * x^power * exp(rate x - bend x^2) * gate * wave  (`ops.Piece`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product

from netsor.checks import Number
from netsor.ops import Gate, Piece

LARGEST = 4096  # terms of a product; beyond it a quadrature is quicker
HALF = Fraction(1, 2)

Wave = tuple[bool, tuple[tuple[int, Number], ...]]
"""cos (True) or sin (False) of a sum of frequencies times variables."""


@dataclass(frozen=True, slots=True)
class Term:
    """number * prod_i x_i^powers[i] * exp(sum_i tilts) * prod gates * wave; gates are (variable, gate)."""

    number: Number
    powers: tuple[int, ...]
    tilts: tuple[tuple[int, Number, Number], ...] = ()
    gates: tuple[tuple[int, Gate], ...] = ()
    wave: Wave | None = None


Factor = tuple[int, tuple[Piece, ...]]
"""A variable, and the pieces of a function of it."""


def multiplied(factors: Sequence[Factor], variables: int) -> tuple[Term, ...] | None:
    """The product of the factors as terms; None where there are too many, or a wave beside a gate."""
    count = 1
    for _, pieces in factors:
        count *= len(pieces)
    if count > LARGEST:
        return None
    collected: dict[Term, Number] = {}
    for chosen in product(*(pieces for _, pieces in factors)):
        for term in one([(i, p) for (i, _), p in zip(factors, chosen, strict=True)], variables):
            if term.wave and term.gates:
                return None
            key = replace(term, number=1)
            collected[key] = collected.get(key, 0) + term.number
    return tuple(replace(t, number=n) for t, n in collected.items() if n)


def centred(terms: Iterable[Term]) -> tuple[Term, ...]:
    """The same expectation for centred variables: z and -z have one law, so that mirror images are added."""
    collected: dict[Term, Number] = {}
    for t in terms:
        key, image = replace(t, number=1), mirror(t)
        if replace(image, number=1) in collected:
            key, t = replace(image, number=1), image
        collected[key] = collected.get(key, 0) + t.number
    odd = (t for t in collected if mirror(t) == replace(t, number=-1))
    for t in tuple(odd):
        del collected[t]
    return tuple(replace(t, number=n) for t, n in collected.items() if n)


def mirror(t: Term) -> Term:
    """The term at -z."""
    flips = sum(t.powers) + len(t.gates) + (t.wave is not None and not t.wave[0])
    gates = ((i, replace(g, at=-g.at)) for i, g in t.gates)
    tilts = tuple((i, -rate, bend) for i, rate, bend in t.tilts)
    return Term(t.number * (-1) ** flips, t.powers, tilts, ordered(gates), t.wave)


def settled(terms: Iterable[Term], signs: Mapping[tuple[int, Gate], int]) -> tuple[Term, ...]:
    """The terms where these gates have the one sign only."""
    collected: dict[Term, Number] = {}
    for t in terms:
        number = t.number
        for gate in t.gates:
            number = number * signs.get(gate, 1)
        key = replace(t, number=1, gates=tuple(gate for gate in t.gates if gate not in signs))
        collected[key] = collected.get(key, 0) + number
    return tuple(replace(t, number=n) for t, n in collected.items() if n)


def ordered(gates: Iterable[tuple[int, Gate]]) -> tuple[tuple[int, Gate], ...]:
    return tuple(sorted(gates, key=lambda g: (g[0], g[1].at, g[1].noise)))


def one(chosen: Sequence[tuple[int, Piece]], variables: int) -> Iterator[Term]:
    """One piece of each factor: powers and tilts add, gates and waves of one kind are multiplied out."""
    number: Number = 1
    powers = [0] * variables
    rates: dict[int, Number] = {}
    bends: dict[int, Number] = {}
    for i, p in chosen:
        number = number * p.number
        powers[i] += p.power
        rates[i] = rates.get(i, 0) + p.rate
        bends[i] = bends.get(i, 0) + p.bend
    tilts = tuple((i, rates[i], bends[i]) for i in sorted(rates) if rates[i] or bends[i])
    for gain, gates in gated([(i, p.gate) for i, p in chosen if p.gate is not None]):
        for weight, wave in waves([(p.wave[0], ((i, p.wave[1]),)) for i, p in chosen if p.wave is not None]):
            yield Term(number * gain * weight, tuple(powers), tilts, gates, wave)


def gated(gates: Iterable[tuple[int, Gate]]) -> list[tuple[int, tuple[tuple[int, Gate], ...]]]:
    """A product of gates as a sum: for a < b, sgn(x - a) sgn(x - b) = 1 - sgn(x - a) + sgn(x - b), and sgn^2 = 1."""
    terms: list[tuple[int, tuple[tuple[int, Gate], ...]]] = [(1, ())]
    for i, gate in gates:
        out: list[tuple[int, tuple[tuple[int, Gate], ...]]] = []
        for n, done in terms:
            met = next((g for g in done if g[0] == i and not (g[1].noise or gate.noise)), None)
            if met is None:
                out.append((n, (*done, (i, gate))))
                continue
            rest = tuple(g for g in done if g is not met)
            out.append((n, rest))
            if met[1].at != gate.at:
                low, high = sorted((met[1], gate), key=lambda g: g.at)
                out += [(-n, (*rest, (i, low))), (n, (*rest, (i, high)))]
        terms = out
    return [(n, ordered(gs)) for n, gs in terms]


def waves(factors: Sequence[Wave]) -> list[tuple[Number, Wave | None]]:
    """A product of cosines and sines as a sum of single ones."""
    if not factors:
        return [(1, None)]
    terms: list[tuple[Number, Wave]] = [(1, factors[0])]
    for second in factors[1:]:
        terms = [(n * weight, wave) for n, first in terms for weight, wave in beat(first, second)]
    return list(terms)


def beat(first: Wave, second: Wave) -> list[tuple[Number, Wave]]:
    """cos a cos b, sin a sin b, sin a cos b and cos a sin b by the angles a + b and a - b."""
    (even, a), (other, b) = first, second
    plus, minus = angle(a, b, 1), angle(a, b, -1)
    if even and other:
        return [(HALF, (True, plus)), (HALF, (True, minus))]
    if not even and not other:
        return [(-HALF, (True, plus)), (HALF, (True, minus))]
    return [(HALF, (False, plus)), (HALF if other else -HALF, (False, minus))]


def angle(a: Sequence[tuple[int, Number]], b: Sequence[tuple[int, Number]], sign: int) -> tuple[tuple[int, Number], ...]:
    total = dict(a)
    for i, frequency in b:
        total[i] = total.get(i, 0) + sign * frequency
    return tuple(sorted((i, f) for i, f in total.items() if f))
