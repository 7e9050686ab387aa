"""assert_converges: programs of the theorem pass it, and wrong limits fail it, at the widths and runs of the fast suite.

Every call raises a false alarm at 1e-6, with fixed seeds. The mutants are found at that rate; what else would be found is
what the record calls detectable.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from mutants import (
    every_score_is_legal,
    first_pairing_only,
    heads_share_their_matrices,
    output_gaussian,
    pivots_score_by_score,
    printed_covariance_of_a_tenth_more,
    scores_of_a_tenth_more_variance,
    stages_independent,
)

from netsor import (
    IllFormed,
    OutsideTheorem,
    Plate,
    Program,
    distinct,
    dot,
    layernorm,
    matrix,
    mean,
    relu,
    softmax,
    sum_over,
    tanh,
    vector,
)
from netsor.loading import load
from netsor.testing import DoesNotConverge, Draft, assert_converges, converges, programs
from netsor.testing.convergence import fit

FAST: dict[str, Any] = {"widths": (16, 128, 1024), "runs": 2048}
SMALL: dict[str, dict[str, str]] = {
    "attention": {"tokens": "2", "heads": "1"},
    "mlp": {"depth": "2"},
    "two_layers": {"tokens": "2"},
    "gqa": {"tokens": "2"},
    "inverse_n_attention": {},
}


@pytest.mark.parametrize("name", SMALL)
def test_programs_converge(name: str) -> None:
    record = assert_converges(load(name, SMALL[name]), **FAST)
    assert record.passed
    assert all(0 < t.detectable < 0.5 for t in record.tests)


LONG = """attention cross_attention gpt gqa gru layernorm_attention low_rank_attention mlp moe rnn transformer_block two_layers
    universal_transformer"""


@pytest.mark.nightly
@pytest.mark.parametrize("name", LONG.split())
def test_programs_converge_at_length(name: str) -> None:
    assert_converges(load(name, {}), runs=8192)


def swapped() -> Program:
    """Correlated through the second pairing alone: 1/4."""
    x = vector("x")
    W, V = matrix("W"), matrix("V")
    return Program("swapped", p=dot(W @ x, relu(V @ x)), r=dot(V @ x, relu(W @ x)))


def cycle() -> Program:
    x = vector("x")
    W, V = matrix("W"), matrix("V")
    return Program("pivots", p=dot(W @ x, V @ relu(x)), r=dot(V @ x, W @ relu(x)))


def shared_layers() -> Program:
    """Two layers with the same queries and keys, and a residual connection."""
    i, j = Plate("token", 2).indices("i j")
    Q, K, V = (matrix(r) for r in "QKV")
    x = vector("x", i)
    p = dot(Q @ x, K @ x[j])
    y = x + sum_over(softmax(p, over=j) * (V @ x[j]), j)
    return Program("shared", p=p, r=dot(Q @ y, K @ y[j]))


def normalised() -> Program:
    x = vector("x")
    return Program("normalised", p=dot(layernorm(matrix("Q") @ x), relu(matrix("K") @ x)))


def two_heads() -> Program:
    i, j = Plate("token", 2).indices("i j")
    a = Plate("head", 2).index("a")
    x = vector("x", i)
    p = dot(matrix("Q", a) @ x, matrix("K", a) @ x[j])
    return Program("heads", p=p, o=matrix("O", a) @ sum_over(softmax(p, over=j) * x[j], j))


def one_head() -> Program:
    return load("attention", SMALL["attention"])


TENTH: dict[str, Any] = {"name": "p", "runs": 32768}
MUTANTS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], Callable[[], Program], dict[str, Any]]] = {
    "scores with 10 % more variance": (scores_of_a_tenth_more_variance, one_head, TENTH),
    "a printed covariance that is 10 % off": (
        printed_covariance_of_a_tenth_more,
        one_head,
        TENTH,
    ),
    "the first pairing only": (first_pairing_only, swapped, {}),
    "layers independent under weight sharing": (stages_independent, shared_layers, {}),
    "MatMul without its head delta": (heads_share_their_matrices, two_heads, {}),
    "pivots score by score": (pivots_score_by_score, cycle, {}),
    "the naive variance of layernorm(q) . relu(k)": (every_score_is_legal, normalised, {}),
    "the output Gaussian, independent of the scores": (output_gaussian, one_head, {"name": "y"}),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_limit_fails(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant, build, options = MUTANTS[name]
    if mutant is every_score_is_legal:
        with pytest.raises(OutsideTheorem):
            assert_converges(build(), **FAST)
    else:
        assert_converges(build(), **FAST | options)
    mutant(monkeypatch)
    with pytest.raises(DoesNotConverge) as caught:
        assert_converges(build(), **FAST | options)
    assert "FAIL" in str(caught.value)
    assert not caught.value.record.passed


def test_a_wrong_constant_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """mean(tanh(g)^2) with a limit that is 2 % off."""
    program = Program("constant", theta=mean(tanh(matrix("W") @ vector("x")) ** 2))
    record = assert_converges(program, **FAST)
    assert [t.name for t in record.tests] == ["constants", "rate of the constants"]
    monkeypatch.setattr("netsor.testing.convergence.stack", off_by_two_percent)
    assert not converges(program, **FAST).passed


def late() -> Program:
    """Scores with the variance theta^4, where theta is 0.4 in the limit and 0.4 +- 0.35 at n = 16."""
    theta = mean((matrix("W") @ vector("v")) ** 2) - 0.6
    y = theta * (matrix("V") @ vector("u"))
    return Program("late", p=dot(matrix("Q") @ y, matrix("K") @ y))


def test_small_widths_are_told_from_a_wrong_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three powers of n^{-1/2} are too few at n = 16: larger widths pass, and the record says both."""
    record = assert_converges(late(), **FAST)
    assert record.passed
    assert record.narrow is not None
    assert not record.narrow.passed
    assert record.widths == (256, 2048, 16384)
    assert "before, at widths 16, 128, 1024: scores at p = " in str(record)
    assert record.data()["narrow"]["passed"] is False
    scores_of_a_tenth_more_variance(monkeypatch)
    record = converges(late(), **FAST | {"runs": 32768})
    assert not record.passed
    assert record.narrow is not None


def test_vectors_that_are_constant() -> None:
    """A softmax over one member is 1, a sum over none 0: their features have no variance, nor one of rounding errors."""
    i, k = Plate("token", 1).indices("i k")
    x = vector("x", i)
    program = Program("still", x=x, one=softmax(x[k], k), none=sum_over(x, i, where=distinct(i, i)))
    for seed in range(4):
        assert_converges(program, rng=seed, **FAST)


def off_by_two_percent(draws: Any, names: Any, runs: int) -> np.ndarray:
    return 1.02 * np.array([draws[n] for n in names]).reshape(len(names), runs).T


@pytest.mark.parametrize("powers", [(0.0, 0.5, 1.0), (0.0, 1.0, 2.0), (0.5, 1.0, 2.0)])
@pytest.mark.parametrize("widths", [(16, 128, 1024), (8, 16, 32, 64, 128)])
def test_the_fit_gives_its_first_coefficient(widths: tuple[int, ...], powers: tuple[float, ...]) -> None:
    n = np.array(widths)
    values = sum(c * (n / widths[0]) ** -p for c, p in zip((7, -3, 2), powers, strict=True))
    assert fit(widths, powers) @ values == pytest.approx(7, rel=1e-9)


def test_names_and_numbers_that_do_not_fit() -> None:
    program = one_head()
    with pytest.raises(IllFormed, match="NS311"):
        converges(program, "nothing", **FAST)
    with pytest.raises(IllFormed, match="NS306"):
        converges(program, widths=(16, 32))
    with pytest.raises(IllFormed, match="NS306"):
        converges(program, runs=3)


def test_the_same_seed_gives_the_same_record() -> None:
    program = Program("g", g=matrix("W") @ vector("x"))
    first, again, other = (converges(program, "g", rng=seed, **FAST) for seed in (3, 3, 4))
    assert str(first) == str(again) != str(other)


def check_converges(draft: Draft) -> None:
    """At 1e-3 / 500; a failure is repeated before it counts."""
    assert_converges(draft.program, widths=(64, 512, 4096), runs=1024, false_alarm=2e-6)


WHOLE = (Phase.explicit, Phase.generate)  # shrinking would take hours: minutes a program


@settings(max_examples=2, phases=WHOLE)
@given(programs(statements=4))
def test_random_programs_converge(draft: Draft) -> None:
    check_converges(draft)


@pytest.mark.nightly
@settings(max_examples=500, phases=WHOLE)
@given(programs())
def test_five_hundred_programs_converge(draft: Draft) -> None:
    check_converges(draft)
