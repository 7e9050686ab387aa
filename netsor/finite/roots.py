"""Triangular roots of Gram matrices that grow, for all runs at once, singular ones included."""

from __future__ import annotations

import numpy as np

NEGLIGIBLE = 1e-15
"""What is left of a squared length is a rounding error of zero below this part of it."""
DOUBTFUL = 1e-6
"""Below this part it has lost so many digits that the vectors are orthonormalised once more."""
NOTHING = 1e-10
"""What is left, in square, of a vector that was orthonormalised once and belongs to the span of the others."""


class Root:
    """R, lower triangular, with R R^T the Gram matrix of the vectors met so far.

    Shapes: R (*batch, runs, k, k).
    """

    def __init__(self, R: np.ndarray) -> None:
        self.R = R

    def rows(self, gram: np.ndarray, least: float = 0.0) -> np.ndarray:
        """The rows of the root that belong to new vectors, given their inner products with old and new ones.

        A squared length that is left over counts as 0 up to `least`; a direction of length 0 carries no component.
        Shapes: gram (*batch, runs, s, k + s) to the same.
        """
        k, s = self.R.shape[-1], gram.shape[-2]
        out = np.zeros(gram.shape)
        for t in range(k):
            rest = gram[..., t] - np.einsum("...sk,...k->...s", out[..., :t], self.R[..., t, :t])
            out[..., t] = divided(rest, self.R[..., t, t, None])
        whole = np.diagonal(gram[..., k:], axis1=-2, axis2=-1)
        left = gram[..., k:] - out[..., :k] @ np.swapaxes(out[..., :k], -1, -2)
        for t in range(s):
            rest = left[..., t, t]
            pivot = np.sqrt(np.where(rest > np.maximum(NEGLIGIBLE * whole[..., t], least), rest, 0.0))
            column = divided(left[..., t:, t], pivot[..., None])
            column[..., 0] = pivot
            out[..., t:, k + t] = column
            left[..., t:, t:] -= column[..., :, None] * column[..., None, :]
        return out

    def extended(self, rows: np.ndarray) -> Root:
        """The root with new rows."""
        k = self.R.shape[-1]
        R = np.zeros((*rows.shape[:-2], rows.shape[-1], rows.shape[-1]))
        R[..., :k, :k], R[..., k:, :] = self.R, rows
        return Root(R)

    @property
    def doubtful(self) -> bool:
        """Has a vector, in some run, little of its own beside the ones before it?"""
        pivots, lengths = squares(self.R)
        return bool(np.any((pivots < DOUBTFUL * lengths) & (lengths > 0)))

    @property
    def guarded(self) -> np.ndarray:
        """R with pivots that can be divided by: at least sqrt(NEGLIGIBLE) of the length of their row."""
        pivots, lengths = squares(self.R)
        out, each = self.R.copy(), np.arange(self.R.shape[-1])
        out[..., each, each] = np.sqrt(np.where(lengths > 0, np.maximum(pivots, NEGLIGIBLE * lengths), 1.0))
        return out


def squares(R: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Squares of the pivots, and of the lengths of rows."""
    return np.diagonal(R, axis1=-2, axis2=-1) ** 2, np.einsum("...tk,...tk->...t", R, R)


def divided(x: np.ndarray, pivot: np.ndarray) -> np.ndarray:
    """x / pivot, and 0 where the pivot is 0."""
    return np.where(pivot > 0, x / np.where(pivot > 0, pivot, 1.0), 0.0)


def forward(R: np.ndarray, x: np.ndarray) -> np.ndarray:
    """R^{-1} x for a lower triangular R, row by row.  Shapes: R (..., k, k), x (..., k, n)."""
    out = np.empty(np.broadcast_shapes((*R.shape[:-1], 1), x.shape))
    for t in range(R.shape[-1]):
        part = np.einsum("...k,...kn->...n", R[..., t, :t], out[..., :t, :])
        out[..., t, :] = (x[..., t, :] - part) / R[..., t, t, None]
    return out
