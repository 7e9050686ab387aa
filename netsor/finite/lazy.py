"""The lazy engine: a matrix is known only where it has acted. Exact, in memory O(n) for each vector."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

import numpy as np

from netsor.algebra.moments import Moments
from netsor.finite.basis import extended
from netsor.finite.dense import Dense, own_letters
from netsor.finite.shards import Setting
from netsor.ir import Index, Member, Slot, Term, make
from netsor.numeric.interpreter import entry
from netsor.numeric.named import Named, count, extent
from netsor.numeric.streams import stream
from netsor.rules.matmul import MatMul, Record, Sigma2


class Lazy(Dense):
    """W x = B Q^T x + |x_perp| g: Q an orthonormal basis of what W has met before, B = W Q, g a new Gaussian vector.

    Given Q and B, W is Gaussian on the complement of Q and independent of them, so this is the law of W x exactly,
    for inputs that depend on earlier outputs, repeated inputs, and more inputs than coordinates. (For W^T the rows of B
    would be a basis on the left, kept beside this one.)

    Random: images of matrix W[a] from stream ("matrix", W, a, shard), vector x from ("vector", x, shard).
    """

    name = "lazy"

    def __init__(self, moments: Moments, roots: Iterable[Term], setting: Setting, coordinates: int) -> None:
        super().__init__(moments, roots, setting, coordinates)
        self._images: dict[tuple[bytes, tuple[int, ...]], Images] = {}

    def product_cost(self, record: Record, product: Term) -> tuple[int, int]:
        rows, columns = self.rows_drawn(record, product), record.columns.at(self.setting.width)
        met = count(i for t in self.patterns.values() if is_product(t, record) for i in t.free if i not in own_letters(t))
        return count(product.free) * rows, count(product.free) * met * (rows + 4 * columns)

    @staticmethod
    def steps_of(term: Term) -> int:
        return 5 + 20 * count(term.free)

    def matrix(self, record: Record, product: Term) -> Met:
        return Met(self, record, product.own, self.rows_drawn(record, product))

    def images(self, record: Record, copy: tuple[int, ...], rows: int) -> Images:
        key = (record.token, copy)
        if key not in self._images:
            source = stream(self.setting.seed, "matrix", record.name, copy, self.setting.shard)
            self._images[key] = Images(source, self.setting.runs, record.columns.at(self.setting.width), rows)
        return self._images[key]


def is_product(term: Term, record: Record) -> bool:
    return isinstance(term.op, MatMul) and term.op.matrix.token == record.token


class Images:
    """What is known of one matrix: Q, an orthonormal basis of its inputs, and B = W Q, in every run.

    Shapes: Q (runs, b, columns), B (runs, b, rows).
    """

    def __init__(self, source: np.random.Generator, runs: int, columns: int, rows: int) -> None:
        self.source = source
        self.Q, self.B = np.zeros((runs, 0, columns)), np.zeros((runs, 0, rows))

    def of(self, X: np.ndarray) -> np.ndarray:
        """G X for a matrix G of standard normals.  Shapes: (runs, s, columns) to (runs, s, rows)."""
        self.Q, C = extended(self.Q, X)
        fresh = self.source.standard_normal((X.shape[-2], len(X), self.B.shape[-1]))
        self.B = np.concatenate([self.B, np.moveaxis(fresh, 0, 1)], axis=1)
        return np.asarray(C @ self.B)


class Met:
    """The independent copies of one matrix, as far as they have acted."""

    def __init__(self, at: Lazy, record: Record, own: tuple[Slot, ...], rows: int) -> None:
        self.at, self.record, self.own, self.rows = at, record, own, rows

    def __matmul__(self, x: Named) -> Named:
        """W[own] @ x over the letters of both."""
        letters = [s for s in dict.fromkeys(self.own) if isinstance(s, Index)]
        over = (*letters, *(i for i in x.over if i not in letters))
        runs, columns = self.at.setting.runs, self.record.columns.at(self.at.setting.width)
        data = x.full(over)
        data = np.broadcast_to(data, (*data.shape[:-2], runs, columns))
        out = np.empty((*data.shape[:-1], self.rows))
        for members in product(*(range(extent(i.plate)) for i in letters)):
            copy = tuple(s.at if isinstance(s, Member) else members[letters.index(s)] for s in self.own)
            vectors = data[members].reshape(-1, runs, columns)
            image = self.at.images(self.record, copy, self.rows).of(np.moveaxis(vectors, 0, 1))
            out[members] = np.moveaxis(image, 1, 0).reshape(out[members].shape)
        sigma2 = entry(Sigma2(self.record), make(Sigma2(self.record))).data.item()
        return Named(over, out * np.sqrt(sigma2 / columns))
