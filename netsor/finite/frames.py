"""The frame of one room: coordinates of Gaussian and of explicit vectors in orthonormal directions revealed one by one.

Let f_1, .., f_k be the directions revealed so far and xi a standard Gaussian vector of R^m, independent of all of them. Then
<xi, f_1>, .., <xi, f_k> are iid N(0, 1), and what is left of xi has length chi_{m-k} and defines f_{k+1}: Bartlett's
decomposition of a Wishart matrix, one column at a time. A leaf, whose own length nobody asks for, stops at the slots of the
others: it is N(0, 1) on each, revealed or not.
"""

from __future__ import annotations

import numpy as np

from netsor.finite.arithmetic import Source
from netsor.finite.roots import Root


class Frame:
    """One frame for each run and each member of the batch.

    heads     unit vectors at the start; where they are all of R^m, coordinates are what they are called
    slots     length of coordinate vectors
    filled    how many are revealed: heads (unit vectors), then directions of explicit vectors and of drawn ones as they come
    root      explicit vectors in terms of their own orthonormal directions
    Shapes: vectors (*batch, vectors, runs, slots), kept in memory with runs running fastest where slots are few.
    """

    def __init__(self, batch: tuple[int, ...], runs: int, slots: int, heads: int, dimension: int) -> None:
        self.batch, self.runs, self.slots, self.heads, self.dimension = batch, runs, slots, heads, dimension
        self.filled = heads
        self.drawn = False
        self.root = Root(np.zeros((*batch, runs, 0, 0)))
        self.directions = self.zeros(0)

    def zeros(self, vectors: int) -> np.ndarray:
        return np.swapaxes(np.zeros((*self.batch, vectors, self.slots, self.runs)), -1, -2)

    def leaf(self, vectors: int, source: Source) -> np.ndarray:
        """Standard Gaussian vectors on the slots of the frame.  Random: a normal a slot."""
        if self.heads == self.dimension:
            return source.standard_normal((*self.batch, vectors, self.runs, self.slots))
        return np.swapaxes(source.standard_normal((*self.batch, vectors, self.slots, self.runs)), -1, -2)

    def gaussian(self, vectors: int, source: Source) -> np.ndarray:
        """Standard Gaussian vectors, each of which reveals a direction.

        Random: normals on what is revealed, normals on each other's directions, chi-squares with m - k degrees of freedom.
        """
        out, start = self.zeros(vectors), self.filled
        shape = (*self.batch, vectors, start, self.runs)
        out[..., :start] = np.swapaxes(source.standard_normal(shape), -1, -2)
        row, column = np.tril_indices(vectors, -1)
        out[..., row, :, start + column] = source.standard_normal((len(row), *self.batch, self.runs))
        freedom = self.dimension - start - np.arange(vectors)
        chi = np.sqrt(source.chisquare(freedom[:, None], (*self.batch, vectors, self.runs)))
        each = np.arange(vectors)
        out[..., each, :, start + each] = np.moveaxis(chi, len(self.batch), 0)
        self.filled += vectors
        self.drawn = True
        return out

    def explicit(self, head: np.ndarray, rows: np.ndarray, source: Source) -> np.ndarray:
        """Coordinates of explicit vectors: the head, and `rows` (their part of the root) on the explicit directions."""
        out = self.zeros(rows.shape[-2])
        out[..., : self.heads] = head
        if self.heads == self.dimension:
            return out
        self._reveal(rows.shape[-2], source)
        beyond = np.einsum("...rtk,...krs->...trs", rows, self.directions[..., : rows.shape[-1], :, :])
        return np.asarray(out + beyond)

    def _reveal(self, vectors: int, source: Source) -> None:
        """Directions of new explicit vectors, orthogonal to the older explicit ones.

        Beside Gaussian vectors that are drawn already such a direction is uniform on the sphere of the complement: Gaussian
        on what is revealed there, chi_{m-k} beyond, then normalised.
        """
        for _ in range(vectors):
            new = self.zeros(1)
            k = self.filled
            if self.drawn:
                g = np.swapaxes(source.standard_normal((*self.batch, 1, k - self.heads, self.runs)), -1, -2)
                new[..., self.heads : k] = g
                for _ in range(2):
                    part = np.einsum("...krs,...jrs->...rkj", self.directions, new)
                    new = new - np.einsum("...rkj,...krs->...jrs", part, self.directions)
                new[..., k] = np.sqrt(source.chisquare(self.dimension - k, (*self.batch, 1, self.runs)))
                new = new / np.sqrt(np.einsum("...s,...s->...", new, new))[..., None]
            else:
                new[..., k] = 1.0
            self.directions = np.concatenate([self.directions, new], axis=-3)
            self.filled += 1
