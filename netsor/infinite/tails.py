r"""Exponential moments of functions of Gaussian vectors.

For q(z) = z^T H z + b^T z, z ~ N(m, S), with S = L L^T, A = L^T H L, B = L^T (b + 2 H m),

    log E exp(p q(z)) = p q(m) - 1/2 log det(1 - 2 p A) + p^2/2 B^T (1 - 2 p A)^-1 B,

finite iff every eigenvalue of 2 p A (or 2 p H S) is below 1. The relative variance of the average over n coordinates of f^p is
(E f^2p / (E f^p)^2 - 1) / n, in which q(m) cancels; for f = exp(a z), p = 2, it is (exp(4 a^2 v) - 1) / n. Other functions of
one variable are integrated on the line, in logarithms.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from netsor import semantics
from netsor.algebra.moments import Moments
from netsor.algebra.poly import Mono, Poly, simplify
from netsor.infinite.plan import generators_below
from netsor.infinite.values import LimitValues
from netsor.ir import Index, Member, Slot, Term
from netsor.numeric.demand import instance
from netsor.numeric.interpreter import Interpreter
from netsor.numeric.named import Named, count, extent

LARGEST = 2e7  # numbers in one array
EDGE = 1e-12  # an eigenvalue this close to 1 counts as 1: at 1 the expectation is infinite
NEAR = np.linspace(0, 50, 2001)  # standard deviations on the line, and further out in proportion
LINE = np.concatenate([NEAR, np.geomspace(50, 1e140, 8001)[1:]])
LINE = np.concatenate([-LINE[:0:-1], LINE])


@dataclass
class Tails:
    """Moments at the values that the scalars of a program take in a few runs."""

    at: LimitValues
    moments: Moments

    def quadratic(self, poly: Poly, power: int) -> tuple[float, float]:
        """The largest eigenvalue of 2 p H S over members and runs, and log(E f^2p / (E f^p)^2)."""
        H, b, S, mean = self.form(poly)
        values, vectors = np.linalg.eigh(S)
        L = vectors * np.sqrt(np.maximum(values, 0))[..., None, :]
        A = np.swapaxes(L, -1, -2) @ H @ L
        lean = (np.swapaxes(L, -1, -2) @ (b + 2 * np.einsum("...ij,...j->...i", H, mean))[..., None])[..., 0]
        w, U = np.linalg.eigh(A)
        lean = np.einsum("...ji,...j->...i", U, lean)
        first, second = moment(w, lean, power), moment(w, lean, 2 * power)
        ratio = np.where(np.isinf(second), np.inf, second - 2 * np.where(np.isinf(second), 0.0, first))
        return float(2 * power * w.max()), float(ratio.max())

    def form(self, poly: Poly) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """H, b, covariance and mean of the generators in a quadratic polynomial, over (members..., runs)."""
        monos = [m for mono in poly for m in opened(mono) if m.atoms]
        atoms = list(dict.fromkeys(a for m in monos for a in m.atoms))
        free = tuple(dict.fromkeys(s for m in monos for t in (*m.scalars, *m.atoms) for s in t.slots if isinstance(s, Index)))
        at, moments = self.at, self.moments

        def number(p: Poly) -> np.ndarray:
            return at.poly(p, free).full(free)[..., 0]

        entries: dict[tuple[int, ...], np.ndarray] = {}
        for m in monos:
            key = tuple(atoms.index(a) for a in m.atoms)
            entries[key] = entries.get(key, 0.0) + number(Poly((Mono(m.number, (), m.scalars),)))
        pairs = [
            number(semantics.cumulant(g.op, (g, h), moments) if semantics.source(g.op) == semantics.source(h.op) else Poly())
            for g, h in product(atoms, atoms)
        ]
        means = [number(moments.expect(a)) for a in atoms]
        spread = np.broadcast_arrays(*entries.values(), *pairs, *means)
        shape, d = spread[0].shape, len(atoms)
        H, b = np.zeros((*shape, d, d)), np.zeros((*shape, d))
        for key, value in zip(entries, spread, strict=False):
            if len(key) == 1:
                b[..., key[0]] += value
            else:
                H[..., key[0], key[1]] += value / 2
                H[..., key[1], key[0]] += value / 2
        rest = spread[len(entries) :]
        return H, b, np.stack(rest[: d * d], -1).reshape(*shape, d, d), np.stack(rest[d * d :], -1)

    def of_one(self, b: Term, power: int) -> float:
        """log(E e^2pb / (E e^pb)^2) for a function of one Gaussian vector, the largest over members; nan for others."""
        generators = generators_below([b])
        if len(generators) != 1 or count(generators[0].free) * LINE.size > LARGEST:
            return float("nan")
        (g,) = generators
        mean = self.at.poly(self.moments.expect(g), g.free)
        variance = self.at.poly(semantics.cumulant(g.op, (g, g), self.moments), g.free)
        z = mean.full(g.free) + np.sqrt(np.maximum(variance.full(g.free), 0)) * LINE
        with np.errstate(all="ignore"):
            value = OnLine(self.at, g, Named(g.free, z)).value(b).data
        one, two = (log_mean(p * value) for p in (power, 2 * power))
        return float(np.max(two - 2 * one))


class OnLine(Interpreter):
    """Vectors as functions of one generator, at given values of it."""

    def __init__(self, limit: LimitValues, pattern: Term, given: Named) -> None:
        super().__init__()
        self.limit, self.pattern, self.given = limit, pattern, given

    def _value(self, term: Term) -> Named:
        return self.limit.value(term) if term.width is None else super()._value(term)

    def generator(self, term: Term) -> Named:
        return self.given.relabel(instance(self.pattern, term))


def log_mean(values: np.ndarray) -> np.ndarray:
    """log E exp(values) over the line, the standard Gaussian density in the weights."""
    logs = values - LINE**2 / 2 + np.log(np.gradient(LINE)) - np.log(2 * np.pi) / 2
    top = logs.max(-1)
    return np.asarray(top + np.log(np.exp(logs - top[..., None]).sum(-1)))


def opened(m: Mono) -> Iterator[Mono]:
    """The monomials of a sum, member by member."""
    for members in product(*(range(extent(i.plate)) for i in m.bound)):
        to: dict[Slot, Slot] = {i: Member(i.plate, k) for i, k in zip(m.bound, members, strict=True)}
        one = simplify(m.relabelled(to, ()))
        if one is not None:
            yield one


def moment(w: np.ndarray, lean: np.ndarray, power: int) -> np.ndarray:
    """log E exp(p q), q = sum_i w_i z_i^2 + lean_i z_i with independent standard z; infinite unless 2 p w < 1."""
    rest = 1 - 2 * power * w
    safe = np.where(rest > EDGE, rest, 1.0)
    value = (-np.log(safe) / 2 + power**2 * lean**2 / safe / 2).sum(-1)
    return np.where((rest > EDGE).all(-1), value, np.inf)
