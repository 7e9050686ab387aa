"""Random programs of netsor.testing: inside the theorem, or outside it for the reason given; readable, and small."""

from itertools import product

import numpy as np
import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from strategies import World

from netsor import Program, simulate
from netsor.algebra.pivots import is_score
from netsor.functions import relu
from netsor.ir import Function, Term, postorder
from netsor.numeric.named import extent
from netsor.rules.matmul import MatMul
from netsor.rules.mean import Mean
from netsor.testing import Draft, Illegal, covariances, illegal_programs, nonlinearities, programs, terms
from netsor.testing.illegal import LANGUAGE, SCHEMAS

SEARCH = settings(max_examples=3_000, derandomize=True, database=None, deadline=None, phases=(Phase.generate, Phase.shrink))


def depth(term: Term) -> int:
    """Scores above each other."""
    deepest: dict[bytes, int] = {}
    for f in postorder(term):
        deepest[f.key] = max((deepest[c.key] for c, _ in f.children), default=0) + (f.op.__class__.__name__ == "Dot")
    return deepest[term.family.key]


FEATURES = {
    "two plates": lambda d: len({i.plate for t in d.variables.values() for i in t.free}) == 2,
    "a mask": lambda d: "where=" in d.code and "softmax" in d.code,
    "a Moment": lambda d: any(isinstance(f.op, Mean) for f in postorder(*d.variables.values())),
    "a matrix that acts twice": lambda d: (
        max(
            [
                sum(isinstance(f.op, MatMul) and f.op.matrix.name == name for f in postorder(*d.variables.values()))
                for name in d.matrices
            ],
            default=0,
        )
        >= 2
    ),
    "a score": lambda d: any(is_score(t) for t in d.variables.values()),
    "scores at two depths": lambda d: any(depth(t) >= 2 for t in d.variables.values()),
    "a residual layer": lambda d: "sum_over(softmax(" in d.code,
}


@pytest.mark.parametrize("feature", FEATURES)
def test_what_a_program_may_have(feature: str) -> None:
    """Each is found among 3,000 programs, and shrinks to at most four statements."""
    assert len(find(programs(), FEATURES[feature], settings=SEARCH).variables) <= 4


@given(programs())
def test_programs_have_limits_and_read_as_code(draft: Draft) -> None:
    """The text is Python, and builds a program with the same listing."""
    names = {**LANGUAGE}
    exec("from netsor import *\n" + draft.code, names)
    again = Program("random", **{name: names[name] for name in draft.variables})
    assert str(again) == str(draft.program)
    assert draft.code.splitlines()[-1].strip() in repr(draft)
    assert len(draft.program.limit()) == len(draft.variables)


def check_runs(draft: Draft, width: int, runs: int = 8) -> None:
    """Derived, unrolled, evaluated and simulated without an exception; every number is finite, and a program without plates
    has the values of the program with plates."""
    program = draft.program
    limit = program.limit()
    assert str(limit)
    world, flat = World(), program.unroll()
    for name, term in program.items():
        whole = world.value(term).full(term.free)
        for at in product(*(range(extent(i.plate)) for i in term.free)):
            alone = world.value(flat["_".join((name, *map(str, at)))])
            np.testing.assert_allclose(*np.broadcast_arrays(alone.data, whole[at]), rtol=1e-9, atol=1e-9)
    drawn = [limit.sample(runs, rng=0), simulate(program, width=width, runs=runs, rng=0)]
    assert all(np.isfinite(a).all() for d in drawn for a in d.arrays.values())


@settings(max_examples=40)
@given(programs(), st.sampled_from([1, 2, 5]))
def test_programs_run(draft: Draft, width: int) -> None:
    check_runs(draft, width)


@pytest.mark.nightly
@settings(max_examples=5_000)
@given(programs(statements=8), st.sampled_from([1, 2, 5, 16]))
def test_five_thousand_programs_run(draft: Draft, width: int) -> None:
    check_runs(draft, width)


@given(terms(vector=True, statements=3))
def test_terms_are_of_the_kind_asked_for(term: Term) -> None:
    assert term.width is not None
    assert str(Program("one", y=relu(term)))


@given(covariances())
def test_covariances(cov: np.ndarray) -> None:
    assert np.array_equal(cov, cov.T)
    scale = np.sqrt(np.outer(np.diag(cov), np.diag(cov)))
    scaled = np.divide(cov, scale, out=np.zeros_like(cov), where=scale > 0)
    assert np.linalg.eigvalsh(scaled).min() >= -1e-12


@pytest.mark.parametrize(
    "kind",
    [
        lambda c: c.shape[0] > 1 and np.linalg.matrix_rank(c) < len(c) and c.any(),
        lambda c: 0 < np.diag(c).max() < 1e-11,
        lambda c: np.diag(c).min() > 0 and np.diag(c).max() > 1e12 * np.diag(c).min(),
        lambda c: len(c) > 1 and c.any() and np.array_equal(c[0], c[-1]),
        lambda c: not c.any(),
    ],
    ids=["singular", "tiny", "ill-scaled", "repeated", "zero"],
)
def test_kinds_of_covariances(kind) -> None:
    find(covariances(), kind, settings=SEARCH)


@given(nonlinearities(continuous=False))
def test_nonlinearities(f: Function) -> None:
    assert Program("f", y=f(Term.__add__(LANGUAGE["vector"]("x"), 1))).limit()["y"]


@given(illegal_programs())
def test_illegal_programs_are_refused(illegal: Illegal) -> None:
    assert illegal.is_refused_rightly(), [(e.code, e.statement) for e in illegal.refusals()]


@pytest.mark.nightly
@settings(max_examples=2_000)
@given(illegal_programs(statements=6))
def test_two_thousand_illegal_programs_are_refused(illegal: Illegal) -> None:
    assert illegal.is_refused_rightly(), [(e.code, e.statement) for e in illegal.refusals()]


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda s: f"{s.code}-{s.why}")
def test_every_way_out_is_drawn(schema) -> None:
    found = find(illegal_programs(schema.code), lambda p: p.why == schema.why, settings=SEARCH)
    assert found.is_refused_rightly()
    assert schema.text in repr(found)


def test_a_legal_statement_is_not_called_illegal() -> None:
    right = Illegal("NS101", "bad", "none", "", lambda: Program("p", bad=LANGUAGE["vector"]("x")))
    assert not right.is_refused_rightly()
