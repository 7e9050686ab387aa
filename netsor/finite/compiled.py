"""The arithmetic of a shard, compiled by numba: the same normals from the same generators, one or two times 10^-9 s each.

Opt-in: `simulate(..., fast=True)`, with the extra `netsor[fast]`. Nonlinearities are always numpy's.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numba  # the extra `fast`; this module is imported where it is asked for, never because numba is there
import numpy as np
from numba.np.random import _constants as ziggurat
from numpy.typing import NDArray

from netsor.finite.arithmetic import Arithmetic, Source
from netsor.finite.roots import NEGLIGIBLE

Array = NDArray[np.float64]
Words = NDArray[np.uint64]

U = np.uint64
INSIDE = np.tile(np.array(ziggurat.ki_double, dtype=np.int64), 2)  # by layer, 8 bits, and sign, one bit
WIDTH = np.concatenate([ziggurat.wi_double, -ziggurat.wi_double])
HEIGHT = np.array(ziggurat.fi_double)
TAIL, BEYOND = float(ziggurat.ziggurat_nor_r), float(ziggurat.ziggurat_nor_inv_r)
UNIT = 1.0 / 9007199254740992.0  # 2^-53

compiled = numba.njit(cache=True, error_model="numpy")


@compiled
def word(state: Words) -> Any:
    """The next 64 bits of SFC64.  Source: Doty-Humphrey, PractRand."""
    t = state[0] + state[1] + state[3]
    state[3] += U(1)
    state[0] = state[1] ^ (state[1] >> U(11))
    state[1] = state[2] + (state[2] << U(3))
    state[2] = ((state[2] << U(24)) | (state[2] >> U(40))) + t
    return t


@compiled
def uniform(state: Words) -> Any:
    return (word(state) >> U(11)) * UNIT


@compiled
def rare(bits: Any, state: Words) -> Any:
    """A normal, where the bits do not fall inside a layer of the ziggurat: 1.2 % of all."""
    while True:
        layer, signed = bits & U(0xFF), bits & U(0x1FF)
        place = np.int64((bits >> U(9)) & U(0xFFFFFFFFFFFFF))
        x = place * WIDTH[signed]
        if place < INSIDE[signed]:
            return x
        if layer == 0:
            while True:
                beyond, y = -BEYOND * np.log1p(-uniform(state)), -np.log1p(-uniform(state))
                if y + y > beyond * beyond:
                    return -(TAIL + beyond) if (place >> 8) & 1 else TAIL + beyond
        if (HEIGHT[layer - U(1)] - HEIGHT[layer]) * uniform(state) + HEIGHT[layer] < np.exp(-0.5 * x * x):
            return x
        bits = word(state)


@compiled
def fill(state: Words, out: Array, scale: Array) -> None:
    """Standard normals, each row times a number.  Shapes: out (rows, n), scale (rows,).

    Source: Marsaglia and Tsang 2000, with the tables and the order of numpy.
    """
    a, b, c, count = state[0], state[1], state[2], state[3]
    for r in range(out.shape[0]):
        s = scale[r]
        for k in range(out.shape[1]):
            bits = a + b + count
            count += U(1)
            a = b ^ (b >> U(11))
            b = c + (c << U(3))
            c = ((c << U(24)) | (c >> U(40))) + bits
            signed, place = bits & U(0x1FF), np.int64((bits >> U(9)) & U(0xFFFFFFFFFFFFF))
            x = place * WIDTH[signed]
            if place >= INSIDE[signed]:
                state[0], state[1], state[2], state[3] = a, b, c, count
                x = rare(bits, state)
                a, b, c, count = state[0], state[1], state[2], state[3]
            out[r, k] = x * s
    state[0], state[1], state[2], state[3] = a, b, c, count


@compiled
def chisquares(state: Words, freedom: Array, out: Array) -> None:
    """Chi-square variates, more than 2 degrees of freedom in each row.  Shapes: freedom (rows,), out (rows, n).

    Source: Marsaglia and Tsang 2000 (gamma variables), in the order of numpy.
    """
    for r in range(out.shape[0]):
        b = freedom[r] / 2 - 1 / 3
        c = 1 / np.sqrt(9 * b)
        for k in range(out.shape[1]):
            while True:
                x = rare(word(state), state)
                v = 1 + c * x
                while v <= 0:
                    x = rare(word(state), state)
                    v = 1 + c * x
                v = v * v * v
                u = uniform(state)
                if u < 1 - 0.0331 * (x * x) * (x * x) or np.log(u) < 0.5 * x * x + b * (1 - v + np.log(v)):
                    out[r, k] = 2 * (b * v)
                    break


@compiled
def rows(R: Array, gram: Array, least: float, negligible: float, out: Array) -> None:
    """As `Root.rows`.  Shapes: R (runs, k, k), gram and out (runs, s, k + s)."""
    k, s = R.shape[1], gram.shape[1]
    for r in range(gram.shape[0]):
        for i in range(s):
            for t in range(k + i + 1):
                rest = gram[r, i, t]
                for q in range(t):
                    rest -= out[r, i, q] * (R[r, t, q] if t < k else out[r, t - k, q])
                if t < k + i:
                    pivot = R[r, t, t] if t < k else out[r, t - k, t]
                    out[r, i, t] = rest / pivot if pivot > 0 else 0.0
                else:
                    out[r, i, t] = np.sqrt(rest) if rest > max(negligible * gram[r, i, t], least) else 0.0


@numba.njit(cache=True, fastmath={"reassoc", "contract", "nsz"})
def grams(x: Array, new: int, out: Array) -> None:
    """Shapes: x (batch, rows, runs, n), out (batch, runs, new, rows)."""
    batch, rows, runs, n = x.shape
    for b in range(batch):
        for r in range(runs):
            for s in range(rows - new, rows):
                for t in range(s + 1):
                    total = 0.0
                    for k in range(n):
                        total += x[b, s, r, k] * x[b, t, r, k]
                    out[b, r, s - rows + new, t] = total
                    if t >= rows - new:
                        out[b, r, t - rows + new, s] = total


class Stream:
    """A generator of which normals are drawn here."""

    def __init__(self, generator: np.random.Generator) -> None:
        self.generator = generator
        self.state = self._read()

    def standard_normal(self, size: tuple[int, ...], *, out: Array | None = None) -> Array:
        out = np.empty(size) if out is None else out
        fill(self.state, out.reshape(1, -1), np.ones(1))
        return out

    def chisquare(self, df: Any, size: tuple[int, ...]) -> Array:
        if np.min(df) > 2 and np.broadcast_to(df, size).strides[-1] == 0:
            drawn = np.empty(size)
            chisquares(self.state, np.broadcast_to(df, size)[..., 0].reshape(-1).astype(float), drawn.reshape(-1, size[-1]))
            return drawn
        whole: Any = self.generator.bit_generator.state
        whole["state"]["state"] = self.state
        self.generator.bit_generator.state = whole
        out = self.generator.chisquare(df, size)
        self.state = self._read()
        return out

    def _read(self) -> Words:
        whole: Any = self.generator.bit_generator.state
        return np.array(whole["state"]["state"], dtype=np.uint64)


class Compiled(Arithmetic):
    def source(self, generator: np.random.Generator) -> Source:
        return Stream(generator)

    def multiples(self, source: Source, scale: Array, out: Array) -> Array:
        assert isinstance(source, Stream)
        fill(source.state, out.reshape(-1, out.shape[-1]), np.broadcast_to(scale, (*out.shape[:-1], 1)).reshape(-1))
        return out

    def rows(self, R: Array, gram: Array, least: float = 0.0) -> Array:
        out, runs = np.zeros(gram.shape), prod(gram.shape[:-2])
        old = np.broadcast_to(R, (*gram.shape[:-2], *R.shape[-2:])).reshape(runs, *R.shape[-2:])
        new = gram.reshape(runs, *gram.shape[-2:])
        rows(np.ascontiguousarray(old), np.ascontiguousarray(new), least, NEGLIGIBLE, out.reshape(new.shape))
        return out

    def gram(self, x: Array, new: int) -> Array:
        lead, (rows, n) = x.shape[:-2], x.shape[-2:]
        if not lead:
            return super().gram(x, new)
        runs = lead[-1]
        out = np.empty((*lead, new, rows))
        by_rows = np.ascontiguousarray(np.swapaxes(x, -2, -3))
        grams(by_rows.reshape(-1, rows, runs, n), new, out.reshape(-1, runs, new, rows))
        return out
