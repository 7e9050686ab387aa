"""Roots and pseudo-inverses of covariance matrices, singular or not, and quasi-random normals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest

from netsor.errors import Numerical
from netsor.numeric.linear import psd_pinv, psd_root, sobol_normals


def gram(seed: int, rank: int, size: int, stack: tuple[int, ...] = ()) -> np.ndarray:
    """A covariance matrix of any rank, in which vectors are repeated and differ widely in length."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(*stack, size, rank)) * 10.0 ** rng.integers(-2, 3, size=(*stack, size, 1))
    x = x[..., rng.integers(0, size, size=size), :]
    return x @ np.swapaxes(x, -1, -2)


def trace(C: np.ndarray) -> np.ndarray:
    return np.trace(C, axis1=-2, axis2=-1)[..., None, None]


grams = st.builds(gram, st.integers(0, 2**32), st.integers(0, 5), st.integers(1, 5), st.sampled_from([(), (3,), (2, 3)]))


@given(grams)
def test_root(C):
    R = psd_root(C)
    assert R.shape == C.shape
    assert np.all(np.abs(R @ np.swapaxes(R, -1, -2) - C) <= 1e-10 * trace(C))


@given(grams)
def test_root_has_the_rank_of_the_matrix(C):
    """No noise in the null space: at most as many singular values as there are eigenvalues above 1e-11 of the trace."""
    size = trace(C)[..., 0]
    singular = np.linalg.svd(psd_root(C), compute_uv=False)
    rank = np.sum(singular > 1e-7 * np.sqrt(size), axis=-1)
    assert np.all(rank <= np.sum(np.linalg.eigvalsh(C) > 0.9e-11 * size, axis=-1) + (C.shape[-1] == 1))


@given(st.lists(st.just(0.0) | st.floats(1e-300, 1e100), min_size=1, max_size=5))
def test_a_diagonal_is_exact(variances):
    C = np.diag(variances)
    assert np.array_equal(psd_root(C), np.sqrt(C))


def test_one_by_one_is_the_square_root():
    C = np.array([2.0, 0.0, 1e-300, 3.0]).reshape(2, 2, 1, 1)
    assert np.array_equal(psd_root(C), np.sqrt(C))


def test_a_diagonal_in_a_stack_of_others():
    C = np.array([[[4.0, 0.0], [0.0, 1e-30]], [[1.0, 1.0], [1.0, 1.0]]])
    R = psd_root(C)
    assert np.array_equal(R[0], [[2, 0], [0, 1e-15]])
    assert np.allclose(R[1] @ R[1].T, C[1], rtol=0, atol=1e-15)
    assert np.linalg.matrix_rank(R[1]) == 1


@given(grams)
def test_pseudo_inverse(C):
    """Moore-Penrose, on matrices whose eigenvalues are clearly zero or clearly not."""
    values, vectors = np.linalg.eigh(C)
    values = np.where(values > 1e-6 * trace(C)[..., 0], values, 0)
    C = (vectors * values[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    P = psd_pinv(C)
    assert np.all(np.abs(C @ P @ C - C) <= 1e-8 * trace(C))
    assert np.all(np.abs(P @ C @ P - P) <= 1e-8 * np.abs(P).max(axis=(-1, -2), keepdims=True))
    assert np.allclose(C @ P, P @ C, rtol=0, atol=1e-8)


def test_pseudo_inverse_of_a_diagonal():
    assert np.array_equal(psd_pinv(np.diag([4.0, 0.0, 0.5, 1e-12])), np.diag([0.25, 0, 2, 0]))
    assert np.array_equal(psd_pinv(np.zeros((3, 2, 2))), np.zeros((3, 2, 2)))


@pytest.mark.parametrize("f", [psd_root, psd_pinv])
def test_empty(f):
    assert f(np.zeros((0, 0))).shape == (0, 0)
    assert f(np.zeros((0, 2, 2))).shape == (0, 2, 2)


@pytest.mark.parametrize("f", [psd_root, psd_pinv])
def test_indefinite_is_refused(f):
    with pytest.raises(Numerical, match=r"NS402(.|\n)*-0\.5"):
        f([np.eye(2), [[1, 1.5], [1.5, 1]]])
    with pytest.raises(Numerical, match="NS402"):
        f([[-1e-3]])
    with pytest.raises(Numerical, match="not finite"):
        f([[np.inf, 0], [0, 1]])
    f([[1, 1 + 1e-9], [1 + 1e-9, 1]])  # a rounding error is not refused


def test_sobol_normals_are_normal():
    """Each row meets every interval of length 1/points once, so that the bound holds for every seed."""
    z = sobol_normals(7, 4096, np.random.default_rng(1))
    assert z.shape == (7, 4096)
    assert all(kstest(row, "norm").statistic < 1 / 1024 for row in z)
    assert np.allclose(z @ z.T / 4096, np.eye(7), rtol=0, atol=5e-3)


def test_sobol_normals_are_drawn_from_the_stream():
    first, again, other = (sobol_normals(3, 64, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.any(first == other)


def test_sobol_normals_of_any_shape():
    for dimensions, points in [(0, 5), (3, 0), (1, 1), (2, 100), (21201, 2)]:
        z = sobol_normals(dimensions, points, np.random.default_rng(0))
        assert z.shape == (dimensions, points)
        assert np.isfinite(z).all()
    assert np.array_equal(
        sobol_normals(2, 100, np.random.default_rng(0)), sobol_normals(2, 128, np.random.default_rng(0))[:, :100]
    )
    with pytest.raises(ValueError, match="21201"):
        sobol_normals(21202, 1, np.random.default_rng(0))
