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
    plain     explicit directions that are slots, the first after the heads, since nothing was drawn before them
    directions  the others
    root      explicit vectors in terms of their own orthonormal directions
    Shapes: vectors (*batch, vectors, runs, slots), kept in memory with runs running fastest where slots are few.
    """

    def __init__(self, batch: tuple[int, ...], runs: int, slots: int, heads: int, dimension: int) -> None:
        self.batch, self.runs, self.slots, self.heads, self.dimension = batch, runs, slots, heads, dimension
        self.filled = heads
        self.drawn, self.plain = False, 0
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
        out, new = self.zeros(rows.shape[-2]), rows.shape[-2]
        out[..., : self.heads] = head
        if self.heads == self.dimension:
            return out
        if self.drawn:
            self._reveal(new, source)
        else:
            self.plain += new
            self.filled += new
        rows = np.moveaxis(rows, -3, -1)
        out[..., self.heads : self.heads + self.plain] = np.swapaxes(rows[..., : self.plain, :], -1, -2)
        if self.directions.shape[-3]:
            beyond = np.ascontiguousarray(rows[..., self.plain :, :])
            out += np.swapaxes(np.einsum("...tkr,...ksr->...tsr", beyond, np.swapaxes(self.directions, -1, -2)), -1, -2)
        return out

    def _reveal(self, vectors: int, source: Source) -> None:
        """Directions of new explicit vectors, orthogonal to the older explicit ones.

        Beside Gaussian vectors that are drawn already such a direction is uniform on the sphere of the complement: Gaussian
        on what is revealed there, chi_{m-k} beyond, then normalised.
        """
        for _ in range(vectors):
            new, start, k = self.zeros(1), self.heads + self.plain, self.filled
            new[..., start:k] = np.swapaxes(source.standard_normal((*self.batch, 1, k - start, self.runs)), -1, -2)
            for _ in range(2):
                part = np.einsum("...krs,...jrs->...rkj", self.directions, new)
                new = new - np.einsum("...rkj,...krs->...jrs", part, self.directions)
            new[..., k] = np.sqrt(source.chisquare(self.dimension - k, (*self.batch, 1, self.runs)))
            new = new / np.sqrt(np.einsum("...s,...s->...", new, new))[..., None]
            self.directions = np.concatenate([self.directions, new], axis=-3)
            self.filled += 1
