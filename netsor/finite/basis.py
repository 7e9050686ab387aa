"""Orthonormal bases that grow, one for each run."""

from __future__ import annotations

import numpy as np

NEGLIGIBLE = 1e-13
"""What is left of a vector beyond the basis is a rounding error below this part of its length."""


def extended(Q: np.ndarray, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(Q', C) with X = C Q', Q' = Q and one more row for each row of X: orthonormal, or 0 where X adds no direction.

    Gram and Schmidt's method, every projection done twice: a vector that differs from the span of the others by 1e-8 of
    its length keeps that difference to 1e-8 of its size, which a Gram matrix would lose.

    Shapes: Q (..., b, n), X (..., s, n); Q' (..., b + s, n), C (..., s, b + s).
    Source: Giraud, Langou, Rozloznik 2005: twice is enough.
    """
    b, s = Q.shape[-2], X.shape[-2]
    lead = np.broadcast_shapes(Q.shape[:-2], X.shape[:-2])
    basis = np.zeros((*lead, b + s, X.shape[-1]))
    basis[..., :b, :] = Q
    C = np.zeros((*lead, s, b + s))
    for t in range(s):
        k = b + t
        x = np.broadcast_to(X[..., t, :], (*lead, X.shape[-1]))
        whole = np.sqrt(np.einsum("...n,...n->...", x, x))
        for _ in range(2 if k else 0):
            part = np.einsum("...kn,...n->...k", basis[..., :k, :], x)
            x = x - np.einsum("...kn,...k->...n", basis[..., :k, :], part)
            C[..., t, :k] += part
        rest = np.sqrt(np.einsum("...n,...n->...", x, x))
        new = rest > NEGLIGIBLE * whole
        C[..., t, k] = np.where(new, rest, 0.0)
        basis[..., k, :] = np.where(new[..., None], x / np.where(new, rest, 1.0)[..., None], 0.0)
    return basis, C
