"""Compiled arithmetic: the same normals, and results equal to 1e-12."""

import sys
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import Draft, programs
from test_bits import crowd, streams
from test_engines_agree import PROGRAMS

from netsor import Program, simulate, vector
from netsor.errors import IllFormed, Numerical
from netsor.finite.arithmetic import Arithmetic
from netsor.finite.simulate import simulation
from netsor.ir import Term
from netsor.numeric.draws import Output

ENGINES = ["dense", "lazy", "collapsed"]


@pytest.fixture
def compiled() -> Arithmetic:
    pytest.importorskip("numba")
    from netsor.finite.compiled import Compiled

    return Compiled()


def both(terms: dict[str, Term], engine: str, width: int, runs: int) -> list[dict[str, np.ndarray]]:
    pytest.importorskip("numba")
    outputs = {name: Output(t, 3) for name, t in terms.items()}
    out = []
    for fast in (False, True):
        pieces = [arrays for _, arrays in simulation(outputs, width=width, runs=runs, engine=engine, fast=fast).shards(0)]
        out.append({name: np.concatenate([p[name] for p in pieces], axis=len(terms[name].free)) for name in terms})
    return out


def same(terms: dict[str, Term], engine: str, width: int, runs: int = 40) -> None:
    """Equal to 1e-12 of the largest number of the run: rounding errors grow with it."""
    slow, fast = both(terms, engine, width, runs)
    scale = 1.0 + max(np.abs(x).max(initial=0) for x in slow.values())
    for name in slow:
        np.testing.assert_allclose(slow[name], fast[name], rtol=1e-12, atol=1e-12 * scale)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("width", [1, 2, 16, 70])
@pytest.mark.parametrize("program", [p for p in PROGRAMS if p.__name__ not in ("near", "repeated")])
def test_draws_are_the_same(program: Callable[[], dict[str, Term]], width: int, engine: str) -> None:
    same(program(), engine, width)


@pytest.mark.parametrize("program", [streams, crowd])
def test_draws_are_the_same_in_many_blocks(program: Callable[[], dict[str, Term]]) -> None:
    same(program(), "collapsed", 3000)


@settings(max_examples=25)
@given(programs(), st.sampled_from([1, 2, 5, 16, 24]))
def test_draws_of_random_programs_are_the_same(draft: Draft, width: int) -> None:
    try:
        for engine in ENGINES:
            same(draft.variables, engine, width, 20)
    except Numerical:
        return  # the program divides by zero


def test_normals_have_the_same_bits(compiled: Arithmetic) -> None:
    """Four million, 50,000 of them from beside the layers and 1,000 from the tail, between chi variates of all shapes."""
    one, two = (np.random.Generator(np.random.SFC64(7)) for _ in range(2))
    fast = compiled.source(two)
    for k in range(1, 5):
        assert (one.standard_normal((1000, 1000)) == fast.standard_normal((1000, 1000))).all()
        for freedom in ([1.0, 2.0, 2.5, 10.0 * k], [2.01, 2.5, 5.0 * k, 1e9]):
            df = np.array(freedom)[:, None]
            assert (one.chisquare(df, (4, 20_000)) == fast.chisquare(df, (4, 20_000))).all()


@given(st.integers(1, 6), st.integers(1, 4), st.integers(1, 40), st.lists(st.integers(1, 3), min_size=1, max_size=3))
def test_grams(rows: int, new: int, n: int, lead: list[int]) -> None:
    pytest.importorskip("numba")
    from netsor.finite.compiled import Compiled

    x = np.moveaxis(np.random.default_rng(n).standard_normal((*lead[:-1], rows, lead[-1], n)), -3, -2)
    exact = np.einsum("...sn,...tn->...st", x, x)[..., -min(new, rows) :, :]
    for arithmetic in (Arithmetic(), Compiled()):
        np.testing.assert_allclose(arithmetic.gram(x, min(new, rows)), exact, rtol=1e-12, atol=1e-12)


@given(st.integers(0, 3), st.integers(1, 4), st.integers(1, 3), st.booleans())
def test_rows_of_roots(old: int, new: int, runs: int, singular: bool) -> None:
    pytest.importorskip("numba")
    from netsor.finite.compiled import Compiled

    x = np.random.default_rng(old).standard_normal((runs, old + new, 9))
    if singular:
        x[:, -1] = x[:, 0]
    gram = x @ np.swapaxes(x, -1, -2)
    R = Arithmetic().rows(np.zeros((runs, 0, 0)), gram[:, :old, :old])
    exact, fast = (a.rows(R, gram[:, old:]) for a in (Arithmetic(), Compiled()))
    np.testing.assert_allclose(fast[:, :-1], exact[:, :-1], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(fast[..., :-1], exact[..., :-1], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(fast[..., -1], exact[..., -1], rtol=1e-12, atol=1e-6)  # the root of a rounding error, or 0


def test_the_choice_does_not_depend_on_it() -> None:
    pytest.importorskip("numba")
    request = {"width": 64, "runs": 32, "rng": 0, "explain": True}
    slow, fast = (simulate(Program("P", x=vector("x")), fast=fast, **request) for fast in (False, True))
    assert slow.how.splitlines() == fast.how.splitlines()
    np.testing.assert_array_equal(slow["x"], fast["x"])


def test_without_numba_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing else needs it."""
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.delitem(sys.modules, "netsor.finite.compiled", raising=False)
    P = Program("P", x=vector("x"))
    assert simulate(P, width=4, runs=8, rng=0)["x"].shape == (8, 1)
    with pytest.raises(IllFormed, match=r"numba.*netsor\[fast\]|NS311"):
        simulate(P, width=4, runs=8, rng=0, fast=True)
