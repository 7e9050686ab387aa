"""The same request gives the same bits, and memory is flat."""

import tracemalloc
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from joint_tests import drawn

from netsor import Plate, Program, dot, matrix, mean, relu, simulate, vector
from netsor.finite import collapsed, dense
from netsor.finite.simulate import simulation
from netsor.ir import Term
from netsor.numeric.draws import Output


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


def crowd() -> dict[str, Term]:
    """More vectors than coordinates: the room is R^m, and images of a matrix are among its explicit vectors."""
    i, j = Plate("token", 70).indices("i j")
    g = matrix("V", i) @ vector("u")
    return {"gy": mean(g * relu(g)[{i: j}]), "h": matrix("W") @ (g + relu(g))}


@pytest.mark.parametrize(("program", "width"), [(streams, 1000), (crowd, 100)])
def test_bits_do_not_depend_on_what_is_kept(
    program: Callable[[], dict[str, Term]], width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks that are kept and blocks that are drawn again are one and the same."""
    terms = program()
    monkeypatch.setattr(collapsed, "BLOCK", 1)  # many blocks
    kept = drawn(terms, "collapsed", width, 5)
    monkeypatch.setattr(collapsed, "KEPT", 0)
    np.testing.assert_array_equal(kept, drawn(terms, "collapsed", width, 5))


def test_bits_do_not_depend_on_how_much_of_a_matrix_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    terms = streams()
    whole = drawn(terms, "dense", 24, 50)
    monkeypatch.setattr(dense, "MATRIX_CELLS", 1)  # a run at a time
    np.testing.assert_array_equal(whole, drawn(terms, "dense", 24, 50))


@pytest.mark.parametrize("engine", ["dense", "lazy", "collapsed"])
def test_bits_do_not_depend_on_the_order_of_shards(engine: str) -> None:
    """A request is its shards, each drawn alone, in any order, and its variables in any order."""
    outputs = {name: Output(t, 2) for name, t in streams().items()}
    choice = simulation(outputs, width=24, runs=10, engine=engine).choice
    choice = replace(choice, costs=tuple(replace(c, shard=4) for c in choice.costs))
    seed = np.random.SeedSequence(3)
    forth = [{n: o.array(at.value(o.term), runs, 24) for n, o in outputs.items()} for runs, at in choice.shards(24, 10, seed)]
    later = list(choice.shards(24, 10, seed))
    assert [runs for runs, _ in later] == [4, 4, 2]
    for (runs, at), arrays in reversed(list(zip(later, forth, strict=True))):
        for n, o in reversed(outputs.items()):
            np.testing.assert_array_equal(arrays[n], o.array(at.value(o.term), runs, 24))
    assert not np.array_equal(forth[0]["y"][..., :2, :], forth[2]["y"])


def test_memory_is_flat() -> None:
    """A million coordinates of eight explicit vectors are 64 MB; what is held is a block."""
    tracemalloc.start()
    try:
        drawn(streams(), "collapsed", 10**6, 1)
        assert tracemalloc.get_traced_memory()[1] < 40e6
    finally:
        tracemalloc.stop()
