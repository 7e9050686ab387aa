"""The lazy engine: a matrix is known only where it has acted. Exact, in memory O(n) for each vector."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from netsor.algebra.moments import Moments
from netsor.finite.arithmetic import Source
from netsor.finite.basis import extended
from netsor.finite.dense import Copies, Dense, own_letters
from netsor.finite.shards import Setting
from netsor.ir import Slot, Term
from netsor.numeric.named import count
from netsor.rules.matmul import MatMul, Record


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
            source = self.setting.stream("matrix", record.name, copy, self.setting.shard)
            self._images[key] = Images(source, self.setting.runs, record.columns.at(self.setting.width), rows)
        return self._images[key]


def is_product(term: Term, record: Record) -> bool:
    return isinstance(term.op, MatMul) and term.op.matrix.token == record.token


class Images:
    """What is known of one matrix: Q, an orthonormal basis of its inputs, and B = W Q, in every run.

    Shapes: Q (runs, b, columns), B (runs, b, rows).
    """

    def __init__(self, source: Source, runs: int, columns: int, rows: int) -> None:
        self.source = source
        self.Q, self.B = np.zeros((runs, 0, columns)), np.zeros((runs, 0, rows))

    def of(self, X: np.ndarray) -> np.ndarray:
        """G X for a matrix G of standard normals.  Shapes: (runs, s, columns) to (runs, s, rows)."""
        self.Q, C = extended(self.Q, X)
        fresh = self.source.standard_normal((X.shape[-2], len(X), self.B.shape[-1]))
        self.B = np.concatenate([self.B, np.moveaxis(fresh, 0, 1)], axis=1)
        return np.asarray(C @ self.B)


class Met(Copies):
    """The independent copies of one matrix, as far as they have acted."""

    def __init__(self, at: Lazy, record: Record, own: tuple[Slot, ...], rows: int) -> None:
        super().__init__(at.setting, record, own, rows)
        self.at = at

    def act(self, copy: tuple[int, ...], x: np.ndarray) -> np.ndarray:
        vectors = np.moveaxis(x.reshape(-1, *x.shape[-2:]), 0, 1)
        images = self.at.images(self.record, copy, self.rows).of(vectors)
        return np.moveaxis(images, 1, 0).reshape(*x.shape[:-1], self.rows)
