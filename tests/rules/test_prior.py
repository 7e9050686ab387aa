"""Which arrays are covariances, and what is said of those that are none."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netsor import IllFormed, Plate
from netsor.rules.prior import ROUNDING, covariance_of

i, j, k = Plate("token", 3).index("i"), Plate("pair", 2).index("j"), Plate("loose").index("k")


def refusal(cov: object, *indices: object) -> str:
    with pytest.raises(IllFormed) as caught:
        covariance_of("x", indices or (k,), cov)  # type: ignore[arg-type]
    assert caught.value.code in ("NS305", "NS306")
    return caught.value.statement


@given(st.lists(st.integers(-3, 3), min_size=12, max_size=12), st.sampled_from([1e-3, 1, 1e4]), st.permutations(range(4)))
def test_gram_matrices_are_accepted_and_no_others(numbers: list[int], size: float, order: list[int]) -> None:
    """Of rank at most 3, in any order of rows; a root that is taken away spoils it."""
    root = np.array(numbers, dtype=float).reshape(4, 3)[order] * size
    gram = root @ root.T
    assert covariance_of("x", (k,), gram) == tuple(map(tuple, gram.tolist()))
    v = np.linalg.svd(root)[0][:, -1:]  # orthogonal to all columns
    largest = np.abs(gram).max()
    if largest:
        assert refusal(gram - 0.01 * largest * v @ v.T).startswith("cov of vector x: ")
        covariance_of("x", (k,), gram - 0.01 * ROUNDING * largest * v @ v.T)


@pytest.mark.parametrize(
    ("cov", "said"),
    [
        (-1, "its variance is -1"),
        ([[1, 0], [0, -1]], "entry (1,) has variance -1"),
        ([[4, 2.1], [2.1, 1]], "the pair (0,), (1,): covariance 2.1 is too large"),
        ([[0.5, 0.6], [0.6, 0.5]], "the pair (0,), (1,): covariance 0.6 is too large"),
        ([[1, 0, 0], [0, 0, 0.1], [0, 0.1, 0]], "the pair (1,), (2,): covariance 0.1 is too large"),
        ([[1, 0, 0], [0, 0, 2e-6], [0, 2e-6, 0]], "the pair (1,), (2,): covariance 2e-06 is too large"),
        ([[0, 1], [1, 0]], "the pair (0,), (1,): covariance 1 is too large"),
        ([[1, 0.9, 0], [0.9, 1, 0.9], [0, 0.9, 1]], "the pair (2,), (1,): covariance 0.9 is too large"),
        ([[1, 2e-6], [0, 1]], "entry (0, 1) is 2e-06, entry (1, 0) is 0"),
        ([[1, 0], [0.5, 1]], "entry (0, 1) is 0, entry (1, 0) is 0.5"),
        ([1, 1], "x[k] has shape (2,)"),
        ([[[1]]], "x[k] has shape (1, 1, 1)"),
        ([[1, 0], [0]], "values of x"),
    ],
)
def test_refused(cov: object, said: str) -> None:
    assert said in refusal(cov)


@pytest.mark.parametrize(
    "cov",
    [
        [[1, 2e-7], [0, 1]],  # float32
        [[1, 0, 0], [0, 0, 5e-7], [0, 5e-7, 0]],
        [[1, 1], [1, 1 - 5e-7]],
        [[0, 0], [0, 0]],
        [[1, 1, 1], [1, 1, 1], [1, 1, 1]],
        np.eye(3),
        ((1, 0), (0, 1)),
        [np.array([1, 0]), np.array([0, 1])],
    ],
)
def test_accepted(cov: object) -> None:
    found = covariance_of("x", (k,), cov)
    assert np.array_equal(np.array(found), np.array(cov))


def test_shapes() -> None:
    """The sizes of the indices twice; a plate without a size takes any; a number is one for all members."""
    full = np.eye(6).reshape(3, 2, 3, 2)
    assert np.array_equal(covariance_of("x", (i, j), full), full)
    assert "(2, 3, 2, 3)" in refusal(np.eye(6).reshape(2, 3, 2, 3), i, j)
    assert "(3, 2, 3, 2)" in refusal(full, j, i)
    assert "(6, 6)" in refusal(np.eye(6), i, j)
    assert "(2, 2)" in refusal(np.eye(2), i)
    for number in (2, np.float64(2), np.array(2)):
        assert covariance_of("x", (i, j), number) == 2
    assert covariance_of("x", (), 0) == 0
