"""The arithmetic of one shard, by numpy or compiled: normals, multiples of them, Gram matrices."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from netsor.finite.roots import Root


class Source(Protocol):
    """What engines ask of a generator."""

    def standard_normal(self, size: tuple[int, ...], *, out: np.ndarray | None = None) -> np.ndarray: ...
    def chisquare(self, df: np.ndarray | float, size: tuple[int, ...]) -> np.ndarray: ...


class Arithmetic:
    """By numpy alone."""

    def source(self, generator: np.random.Generator) -> Source:
        return generator

    def multiples(self, source: Source, scale: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Standard normals times numbers, written over `out`.  Shapes: scale broadcasts to (*out.shape[:-1], 1)."""
        source.standard_normal(out.shape, out=out)
        out *= scale
        return out

    def rows(self, R: np.ndarray, gram: np.ndarray, least: float = 0.0) -> np.ndarray:
        """The rows that extend a root."""
        return Root(R).rows(gram, least)

    def gram(self, x: np.ndarray, new: int) -> np.ndarray:
        """Inner products of the last `new` rows with all.  Shapes: (..., rows, n) to (..., new, rows)."""
        rows = x.shape[-2]
        out = np.empty((*x.shape[:-2], new, rows))
        skipped = int(new == rows)  # numpy takes x @ x.T for a symmetric product, which is slow for few rows
        if skipped:
            out[..., 0, 0] = np.einsum("...n,...n->...", x[..., 0, :], x[..., 0, :])
        np.matmul(x[..., rows - new + skipped :, :], np.swapaxes(x, -1, -2), out=out[..., skipped:, :])
        if skipped:
            out[..., 0, 1:] = out[..., 1:, 0]
        return out
