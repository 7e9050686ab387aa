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
    """R, lower triangular, with R R^T the Gram matrix of the explicit vectors met so far.

    Shapes: R (*batch, runs, k, k); runs may be 1.
    """

    def __init__(self, batch: tuple[int, ...], runs: int) -> None:
        self.R = np.zeros((*batch, runs, 0, 0))

    def extended(self, gram: np.ndarray, least: float = 0.0) -> tuple[np.ndarray, bool]:
        """The root of a Gram matrix of old and new vectors, and whether digits were lost. Changes nothing.

        A squared length that is left over counts as 0 up to `least`.
        """
        old, size = self.R.shape[-1], gram.shape[-1]
        lead = gram.shape[:-2]
        R = np.zeros((*lead, size, size))
        R[..., :old, :old] = self.R
        lengths = np.diagonal(gram, axis1=-2, axis2=-1)
        each = np.arange(old)
        pivots = self.R[..., each, each] ** 2
        lost = bool(np.any((pivots > 0) & (pivots < DOUBTFUL * lengths[..., :old])))
        for t in range(old, size):
            for k in range(t):
                rest = gram[..., t, k] - np.einsum("...k,...k->...", R[..., t, :k], R[..., k, :k])
                pivot = R[..., k, k]
                R[..., t, k] = np.where(pivot > 0, rest / np.where(pivot > 0, pivot, 1.0), 0.0)
            rest = lengths[..., t] - np.einsum("...k,...k->...", R[..., t, :t], R[..., t, :t])
            whole = lengths[..., t]
            lost |= bool(np.any(rest < DOUBTFUL * whole))
            R[..., t, t] = np.sqrt(np.where(rest > np.maximum(NEGLIGIBLE * whole, least), rest, 0.0))
        return R, lost


def guarded(R: np.ndarray) -> np.ndarray:
    """R with pivots that are at least sqrt(NEGLIGIBLE) of their row, so that it can be divided by."""
    lengths = np.sqrt(np.einsum("...tk,...tk->...t", R, R))
    least = np.where(lengths > 0, np.sqrt(NEGLIGIBLE) * lengths, 1.0)
    out = R.copy()
    each = np.arange(R.shape[-1])
    out[..., each, each] = np.maximum(out[..., each, each], least)
    return out
