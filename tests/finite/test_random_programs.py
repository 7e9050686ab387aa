"""Random programs: one law in every engine, and linear identities exactly."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joint_tests import assert_same_law, drawn
from strategies import Draft, programs

from netsor import Plate, clip, dot, matrix, mean, relu, softmax, sum_over, vector
from netsor.errors import Numerical
from netsor.ir import Term

WIDTHS = st.sampled_from([1, 2, 5, 16, 24])


def one_law(draft: Draft, width: int, runs: int) -> None:
    """1e-9 false alarms a comparison, since there are many: detects differences of 0.15 at 1,000 runs, 0.05 at 10,000."""
    try:
        dense = drawn(draft.variables, "dense", width, runs, rng=1)
    except Numerical:
        return  # the program divides by zero, which no engine can help
    assert_same_law(dense, drawn(draft.variables, "lazy", width, runs, rng=2), 1e-9)
    assert_same_law(dense, drawn(draft.variables, "collapsed", width, runs, rng=3), 1e-9)


@settings(max_examples=25)
@given(programs(), WIDTHS)
def test_engines_agree(draft: Draft, width: int) -> None:
    one_law(draft, width, 1_000)


@pytest.mark.nightly
@given(programs(), WIDTHS)
def test_engines_agree_at_length(draft: Draft, width: int) -> None:
    one_law(draft, width, 10_000)


@pytest.mark.parametrize("engine", ["dense", "lazy", "collapsed"])
@pytest.mark.parametrize("width", [1, 2, 8, 40])
@pytest.mark.parametrize("curved", [False, True])
def test_a_matrix_is_linear(engine: str, width: int, curved: bool) -> None:
    """W(x + y) = W x + W y in every run, for vectors in a frame and explicit ones, coordinates and inner products."""
    token = Plate("token", 3)
    i, j = token.indices("i j")
    W, V, u = matrix("W"), matrix("V"), vector("u", i)
    x = relu(V @ u) if curved else V @ u
    y = clip(1)(W @ u) if curved else W @ u
    difference = W @ (x + 2 * y) - W @ x - 2 * (W @ y)
    moved = W @ sum_over(softmax(dot(x, matrix("U") @ x[j]), over=j) * x[j], j)
    again = sum_over(softmax(dot(x, matrix("T") @ x[j]), over=j) * (W @ x[j]), j)
    terms: dict[str, Term] = {"d": difference, "dd": mean(difference * difference[j]), "m": mean((W @ (x + y)) * x)}
    terms |= {"mx": mean((W @ x) * x), "my": mean((W @ y) * x), "moved": moved, "again": again}
    rows = drawn(terms, engine, width, 200)
    coordinates = 3 * min(2, width)
    d, dd, rest = np.split(rows, [coordinates, coordinates + 9], axis=1)
    m, mx, my = np.split(rest[:, :9], 3, axis=1)
    scale = 1 + np.abs(rows).max(axis=1, keepdims=True)
    assert (np.abs(d) <= 1e-10 * scale).all()
    assert (np.abs(dd) <= 1e-10 * scale).all()
    assert (np.abs(m - mx - my) <= 1e-10 * scale).all()
    assert rows.std() > 0
