"""Every program in programs/ derives, checks, evaluates and is simulated; the deep one in detail."""

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from calibrated import assert_detects, assert_within, average
from mutants import scores_of_twice_the_size

from netsor import OutsideTheorem, Program, mean, simulate
from netsor.cli import main
from netsor.loading import load
from netsor.numeric.draws import Draws
from netsor.numeric.estimate import Estimate

DIRECTORY = Path(__file__).parents[1] / "programs"
PROGRAMS = sorted(file.stem for file in DIRECTORY.glob("*.py"))
LEGAL = [name for name in PROGRAMS if name != "tied_attention"]


@pytest.mark.parametrize(
    ("name", "settings"), [*((name, {}) for name in LEGAL), ("low_rank_attention", {"wide": "1"}), ("gpt", {"layers": "3"})]
)
def test_program(name: str, settings: dict[str, str]) -> None:
    """Nothing is refused, and the last variable has a law in the limit and draws of its shape at width 16."""
    P = load(name, settings)
    assert not [d for d in P.check() if d.severity == "refused"]
    L = P.limit()
    assert set(L) == set(P)
    last = list(P)[-1]
    law = L.law(last, runs=64, **{i.name: 0 for i in P[last].free})
    assert np.isfinite([float(law.mean), float(law.variance)]).all()
    assert law.variance > 0
    D = simulate(P, width=16, runs=3, rng=0)
    drawn = L.sample(3, rng=0)
    assert set(D) == set(drawn) == set(P)
    for variable in P:
        assert D[variable].shape == drawn[variable].shape
        assert np.isfinite(D[variable]).all()
        assert np.isfinite(drawn[variable]).all()


def test_tied_attention_is_refused() -> None:
    with pytest.raises(OutsideTheorem, match="NS101"):
        load("tied_attention", {}).limit()
    with pytest.raises(SystemExit, match="3"):
        main(["derive", str(DIRECTORY / "tied_attention.py")])


# --------------------------------------------------------------------------------------------------- the deep transformer


def gpt(**settings: int) -> Program:
    return load("gpt", {name: str(value) for name, value in settings.items()})


def test_formulas_do_not_grow_with_depth() -> None:
    """6 layers, 4 heads, 8 tokens: the text of layer 6 is that of layer 3 with other digits."""
    L = gpt(layers=6, heads=4, tokens=8).limit()
    for name in ("p", "A", "u", "x"):
        third, sixth = (re.sub(r"\d+", "#", str(L[f"{name}{layer}"])) for layer in (3, 6))
        assert third == sixth


@pytest.mark.parametrize("draw", [lambda P: P.limit().sample(50, rng=0), lambda P: simulate(P, width=8, runs=5, rng=0)])
def test_the_first_token_sees_itself_alone(draw: Callable[[Program], Draws]) -> None:
    D = draw(gpt())
    for layer in "12":
        A = D[f"A{layer}"]
        assert (A[:, 0, 0] == 1).all()
        assert (A[:, 0, 1:] == 0).all()
        assert (A[:, 1, 0] < 1).all()


def measured() -> Program:
    """The first two layers: second moments of the stream, and attention of the second layer."""
    P = gpt(layers=2, tokens=4, heads=2)
    (i,) = P["x2"].free
    return Program("measured", square=mean(P["x2"] * P["x2"]), product=mean(P["x2"] * P["x2"][i.prime]), A=P["A2"])


def statistics(D: Draws) -> dict[str, Estimate]:
    """Variance, correlation of the last two tokens, entropy of the last token's attention; per run, then averaged."""
    V, C, A = D["square"], D["product"], D["A"][:, 3]
    runs = {
        "variance": V.mean(0),
        "correlation": C[2, 3] / np.sqrt(V[2] * V[3]),
        "correlation squared": C[2, 3] ** 2 / (V[2] * V[3]),
        "entropy": -(A * np.log(A)).sum(1).mean(0),
    }
    return {name: average(x)[()] for name, x in runs.items()}


SMALL = {16: 4000, 32: 4000, 64: 2000}


@cache
def simulated(width: int, runs: int) -> dict[str, Estimate]:
    return statistics(simulate(measured(), width=width, runs=runs, rng=width))


def check_two_layers(runs: dict[int, int], terms: int, draws: int) -> None:
    """The limit against the first terms of a + b/n + c/n², by weighted least squares."""
    limit = statistics(measured().limit().sample(draws, rng=0))
    found = {width: simulated(width, number) for width, number in runs.items()}
    for name, expected in limit.items():
        y, error = np.array([(float(s[name]), s[name].error) for s in found.values()]).T
        to_a = np.linalg.pinv(np.vander(1 / np.array(list(runs)), terms, increasing=True) / error[:, None])[0]
        assert_within(Estimate(to_a @ (y / error), np.linalg.norm(to_a)), expected, replicates=min(runs.values()))


def test_two_layers_against_small_widths() -> None:
    """False alarm 1e-6 for each of four numbers; finds 5 % of the variance, 14 % of the correlation, 25 % of its square,
    4 % of the entropy."""
    check_two_layers(SMALL, 3, 2**13)


def test_scores_of_twice_the_size_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    scores_of_twice_the_size(monkeypatch)
    assert_detects(check_two_layers, SMALL, 3, 2**13)


@pytest.mark.nightly
def test_two_layers_against_dense_simulation() -> None:
    """The same from large widths, where a + b/n is enough: finds 2 %, 8 % and 2 %."""
    check_two_layers({128: 8000, 256: 2000, 512: 400}, 2, 2**15)
