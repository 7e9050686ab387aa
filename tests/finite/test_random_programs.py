"""Random programs: one law in every engine, and linear identities exactly."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joint_tests import assert_same_law, drawn
from strategies import Draft, programs

from netsor import Plate, Program, clip, dot, matrix, mean, relu, simulate, softmax, sum_over, vector
from netsor.errors import Numerical
from netsor.finite import collapsed
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


@pytest.mark.parametrize("engine", ["dense", "lazy", "collapsed"])
def test_what_is_not_asked_for_changes_nothing(engine: str) -> None:
    token = Plate("token", 2)
    i, j = token.indices("i j")
    WQ, x = matrix("WQ"), relu(matrix("V") @ vector("u", i))
    p = dot(WQ @ x, matrix("WK") @ x[j])
    request = {"width": 12, "runs": 50, "outputs": {"p": {}}, "engine": engine}
    alone = simulate(Program("alone", p=p), rng=0, **request)
    beside = simulate(Program("beside", extra=relu(WQ @ (WQ @ x)), p=p, r=dot(p * vector("v"), x)), rng=0, **request)
    np.testing.assert_array_equal(alone["p"], beside["p"])
    assert not np.array_equal(alone["p"], simulate(Program("alone", p=p), rng=1, **request)["p"])


def streams() -> dict[str, Term]:
    """Explicit vectors of two stages that meet."""
    i, j = Plate("token", 2).indices("i j")
    x = relu(matrix("V") @ vector("u", i))
    y = relu(matrix("W") @ x) + x
    return {"yy": mean(y * y[j]), "y": y, "xy": mean(x * y)}


def test_bits_do_not_depend_on_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks that are kept and blocks that are drawn again are one and the same."""
    terms = streams()
    monkeypatch.setattr(collapsed, "BLOCK", 1)  # many blocks
    kept = drawn(terms, "collapsed", 1000, 5)
    monkeypatch.setattr(collapsed, "KEPT", 0)
    np.testing.assert_array_equal(kept, drawn(terms, "collapsed", 1000, 5))


def test_memory_is_flat() -> None:
    """A million coordinates of eight explicit vectors are 64 MB; what is held is a block."""
    tracemalloc.start()
    try:
        drawn(streams(), "collapsed", 10**6, 1)
        assert tracemalloc.get_traced_memory()[1] < 40e6
    finally:
        tracemalloc.stop()
