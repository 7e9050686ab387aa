"""Roots and pseudo-inverses of covariance matrices that may be singular, and quasi-random normals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri
from scipy.stats import qmc

from netsor.errors import Numerical

Array = NDArray[np.float64]

TOLERANCE = 1e-11
"""An eigenvalue below this part of the trace is a rounding error of zero."""

INDEFINITE = -1e-8
"""An eigenvalue below this part of the trace is not a rounding error."""


def psd_root(C: ArrayLike, tol: float = TOLERANCE, slack: float = 0.0) -> Array:
    """R with R R^T = C: the Cholesky factor, or the symmetric root where C is singular; exactly sqrt(C) if C is diagonal.

    Both are continuous functions of C, and eigenvectors of equal eigenvalues are not: draws change little when C does.
    Eigenvalues below `tol` of the trace count as 0.

    slack: the part of the trace by which entries that were sampled may be off; eigenvalues down to minus that are 0, too.
    Shapes: (..., m, m) to (..., m, m); every matrix of the stack has its own trace.
    Raises: NS402 where C is not finite or has an eigenvalue below -1e-8 of its trace.
    """
    C = np.asarray(C, dtype=np.float64)
    if (lower := _cholesky(C, tol * np.trace(C, axis1=-2, axis2=-1))) is not None:
        return lower
    values, vectors, trace, diagonal = _spectrum(C, slack=slack)
    kept = np.where(diagonal, values > 0, values > tol * trace)
    return _symmetric(vectors, np.sqrt(np.where(kept, values, 0)))


def psd_pinv(C: ArrayLike, tol: float = TOLERANCE, slack: float = 0.0) -> Array:
    """The Moore-Penrose inverse of C, eigenvalues below `tol` of the trace counting as 0.

    Shapes: (..., m, m) to (..., m, m); every matrix of the stack has its own trace.
    Raises: NS402 where C is not finite or has an eigenvalue below -1e-8 of its trace.
    """
    values, vectors, trace, _ = _spectrum(C, slack=slack)
    kept = values > tol * trace
    return _symmetric(vectors, np.where(kept, 1 / np.where(kept, values, 1), 0))


def psd_factors(C: ArrayLike, size: ArrayLike, slack: float = 0.0) -> tuple[Array, Array]:
    """R with R R^T = C and the Moore-Penrose inverse of R^T, for a C that is left over from matrices of this size.

    Eigenvalues below 1e-11 of `size` are rounding errors of zero, so that nothing left over by cancellation becomes a
    direction of its own.

    Shapes: (..., m, m) and (...) to twice (..., m, m).
    Raises: NS402 where C is not finite or has an eigenvalue below -1e-8 of size.
    """
    C, size = np.asarray(C, dtype=np.float64), np.asarray(size, dtype=np.float64)[..., None]
    if (lower := _cholesky(C, TOLERANCE * size[..., 0])) is not None:
        return lower, np.swapaxes(np.linalg.inv(lower), -1, -2)
    values, vectors, _, _ = _spectrum(C, size, slack)
    kept = values > TOLERANCE * size
    root = np.sqrt(np.where(kept, values, 0.0))
    inverse = np.where(kept, 1 / np.where(kept, root, 1.0), 0.0)
    return _symmetric(vectors, root), _symmetric(vectors, inverse)


def sobol_normals(dimensions: int, points: int, rng: np.random.Generator) -> Array:
    """Standard normals at the points of a scrambled Sobol sequence; every point alone is normally distributed.

    The sequence lives on a grid of 2^30 cells a side; their midpoints keep the normals finite (below 6.3).

    Shapes: (dimensions, points), best balanced for points = 2^k.
    Raises: ValueError above 21201 dimensions.
    Random: one scrambling, from `rng`.
    """
    if dimensions == 0:
        return np.zeros((0, points))
    corners = qmc.Sobol(dimensions, bits=30, seed=rng).random_base2(max(points - 1, 0).bit_length())
    return np.ascontiguousarray(ndtri(corners[:points].T + 2.0**-31))


def _symmetric(vectors: Array, values: Array) -> Array:
    """V diag(values) V^T: unlike V itself, the same for every choice of eigenvectors of equal eigenvalues."""
    return np.asarray((vectors * values[..., None, :]) @ np.swapaxes(vectors, -1, -2))


def _cholesky(C: Array, least: Array) -> Array | None:
    """Lower triangular L with L L^T = C; None if a matrix of the stack has a pivot at or below `least`."""
    try:
        lower = np.linalg.cholesky(C).astype(np.float64, copy=False)
    except np.linalg.LinAlgError:
        return None
    pivots = np.diagonal(lower, axis1=-2, axis2=-1) ** 2
    return lower if np.isfinite(lower).all() and (pivots > least[..., None]).all() else None


def _spectrum(C: ArrayLike, size: Array | None = None, slack: float = 0.0) -> tuple[Array, Array, Array, Array]:
    """Eigenvalues (..., m), eigenvectors in columns, trace (..., 1), and whether C is diagonal (..., 1).

    What counts as negative is measured by `size`, or else by the trace.

    A diagonal matrix keeps its order and its digits: its eigenvectors are the unit vectors.
    """
    C = np.asarray(C, dtype=np.float64)
    if not np.isfinite(C).all():
        raise _refusal("a covariance matrix with an entry that is not finite")
    unit = np.eye(C.shape[-1])
    entries = np.diagonal(C, axis1=-2, axis2=-1)
    diagonal = ~np.any(C * (1 - unit), axis=(-2, -1))
    values, vectors = np.linalg.eigh((C + np.swapaxes(C, -1, -2)) / 2)
    values = np.where(diagonal[..., None], entries, values)
    vectors = np.where(diagonal[..., None, None], unit, vectors)
    trace = np.abs(entries).sum(axis=-1, keepdims=True)
    negative = values < (INDEFINITE - slack) * (trace if size is None else size)
    if np.any(negative):
        worst = values[negative].min()
        raise _refusal(f"a covariance matrix whose most negative eigenvalue is {worst:.6g}")
    return values, vectors, trace, diagonal[..., None]


def _refusal(statement: str) -> Numerical:
    return Numerical(
        "NS402",
        statement=statement,
        hypothesis="a covariance matrix is finite, and positive semidefinite up to 1e-8 of its trace",
        consequence="there are no Gaussian variables with these covariances",
        repair="compute the covariances from the variables themselves; an overflow or a wrong entry shows up here",
    )


def determinant(a: Any, b: Any, c: Any, d: Any) -> Any:
    """a d - b c to a few units of roundoff of the result: the products' rounding errors are added back
    (Kahan; Jeannerod, Louvet, Muller 2013)."""
    p, q = a * d, b * c
    correction = lost(a, d, p) - lost(b, c, q)
    exact = (p - q) + correction
    return np.where(np.isfinite(exact), exact, p - q)


def lost(x: Any, y: Any, product: Any) -> Any:
    """x y - fl(x y), exactly (Dekker 1971)."""
    (x1, x2), (y1, y2) = halves(x), halves(y)
    return x2 * y2 - (((product - x1 * y1) - x2 * y1) - x1 * y2)


def halves(x: Any) -> tuple[Any, Any]:
    big = 134217729.0 * x
    high = big - (big - x)
    return high, x - high


def power_of_two(size: Array) -> Array:
    """The one next to a size: division by it is exact."""
    return np.asarray(np.ldexp(1.0, np.frexp(size)[1]))


def left_over(cov: Array, others: Sequence[int], given: int) -> Array:
    """Covariances of the others given one variable."""
    unit = units(cov)
    r = cov / unit / unit[:, None]
    v = r[given, given]
    some = v > 0
    rows = [
        [np.where(some, determinant(r[i, k], r[i, given], r[given, k], v) / np.where(some, v, 1), r[i, k]) for k in others]
        for i in others
    ]
    return np.array(rows) * unit[others] * unit[others][:, None]


def units(cov: Array) -> Array:
    """A power of two near each standard deviation.  Shapes: (d, d, n) to (d, n)."""
    d = range(len(cov))
    return power_of_two(np.sqrt(cov[d, d]))


def isserlis(mean: Sequence[Array], cov: Array) -> Array:
    """E of a product of Gaussians with these means and covariances."""
    if not mean:
        return np.ones(())
    rest = range(1, len(mean))
    out: Array = mean[0] * isserlis(mean[1:], cov[1:, 1:])
    for k in rest:
        others = [j for j in rest if j != k]
        out = out + cov[0, k] * isserlis([mean[j] for j in others], cov[np.ix_(others, others)])
    return out
