"""The experiments of the founding paper, each in small: what is run, resumed, said, drawn and written."""

import json
import re
from copy import deepcopy
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import gaussian_kde as reference

from netsor.errors import IllFormed
from netsor.loading import find
from netsor.report import paper as module
from netsor.report.experiments import EXPERIMENTS, Experiment
from netsor.report.kde import gaussian_kde, kde_kl
from netsor.report.page import Table, html, markdown
from netsor.report.paper import SUFFIXES, chosen, paper

NAMES = [e.name for e in EXPERIMENTS]

SMALL: dict[str, dict[str, Any]] = {
    "fig1a": {"widths": [8, 16], "runs": 256, "limit_runs": 2**10},
    "fig1b": {
        "runs": {8: 256, 16: 256, 32: 256},
        "slope": (8, 32),
        "kde_widths": [8, 32],
        "samples": 1000,
        "seeds": 2,
        "limit_runs": 2**10,
    },
    "fig2a": {"width": 16, "runs": 512},
    "fig2b": {"width": 16, "heads": {1: (256, 2**10), 4: (256, 2**10)}},
    "fig3": {
        "rank": 8,
        "heads": {1: 256, 2: 256},
        "small": [(1, 1), (1, 8), (2, 8)],
        "small_runs": 2**12,
        "limit_runs": 2**10,
        "score_runs": 2**12,
    },
    "s8": {"widths": [8, 16], "runs": 256, "limit_runs": 2**10},
    "relu": {"widths": [8, 16], "runs": 256, "limit_runs": 2**10},
    "tails": {"limit_runs": 2**10},
    "observables": {
        "sweeps": {"beta": [0.5, 1], "tokens": [2, 3], "heads": [1, 2], "sigma": [1], "correlation": [0.5]},
        "limit_runs": 256,
        "draws": 2**12,
    },
    "exact": {"widths": [4, 8], "powers": [2, 4], "runs": 1024},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of all experiments in small."""
    out = tmp_path_factory.mktemp("paper")
    with pytest.MonkeyPatch.context() as patch:
        small(patch)
        list(paper([], out, True, 0))
    return out


def small(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Experiment, "options", lambda self, quick: {**self.quick, **SMALL[self.name]})


def result(folder: Path, name: str) -> Any:
    return json.loads((folder / "results" / f"{name}.json").read_text(encoding="utf-8"))["result"]


def view(folder: Path, name: str, **changes: Any) -> Any:
    (experiment,) = chosen([name])
    return experiment.show({**deepcopy(result(folder, name)), **changes})


# ---- specs


def test_specs_are_well_formed() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert {*SMALL} == {*NAMES}
    for e in EXPERIMENTS:
        assert e.full.keys() <= e.quick.keys()
        assert all(find(Path(p)).is_file() for p in e.programs)
        assert json.loads(json.dumps(e.options(False)))
        assert e.options(True).keys() == e.options(False).keys() >= SMALL[e.name].keys()


def test_an_unknown_name() -> None:
    with pytest.raises(IllFormed, match="fig1a, fig1b"):
        chosen(["fig9"])


# ---- the report


@pytest.mark.parametrize("name", NAMES)
def test_every_experiment_is_shown(folder: Path, name: str) -> None:
    assert all((folder / f"{name}.{suffix}").stat().st_size > 3000 for suffix in SUFFIXES)
    text = (folder / "report.md").read_text(encoding="utf-8")
    shown = view(folder, name)
    assert shown.sentences
    for sentence in shown.sentences:
        assert sentence in text
        assert "nan" not in sentence
    assert f"netsor paper {name} --quick --seed 0" in text
    assert all(len(row) == len(t.columns) for t in shown.tables for row in t.rows)
    assert all(len(c.x) == len(c.y) for p in shown.panels for c in p.curves)


def test_the_page_needs_no_network(folder: Path) -> None:
    text = (folder / "report.html").read_text(encoding="utf-8")
    assert not re.search(r"https?://|//[a-z]|<script|<link|@import|url\(", text)
    linked = re.findall(r'(?:src|href)="([^"]*)"', text)
    assert linked
    assert all((folder / name).is_file() for name in linked)


def test_the_page_is_well_formed(folder: Path) -> None:
    class Stack(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.open: list[str] = []

        def handle_starttag(self, tag: str, attrs: Any) -> None:
            self.open += [tag] * (tag not in ("meta", "img"))

        def handle_endtag(self, tag: str) -> None:
            assert self.open.pop() == tag

    stack = Stack()
    stack.feed((folder / "report.html").read_text(encoding="utf-8"))
    assert stack.open == []


def test_text_is_escaped() -> None:
    table = Table(["<a|b>"], [[None], ["x<y"]])
    assert "<th>&lt;a|b&gt;</th>" in html("t", [table])
    assert "<a\\|b>" in markdown([table])


def test_resume(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A finished experiment is not run again; a changed option, seed or a broken file is said and run again."""
    small(monkeypatch)
    file = folder / "results" / "fig2a.json"
    before = file.read_bytes()
    assert "as it was computed before" in next(paper(["fig2a"], folder, True, 0))[0]
    assert file.read_bytes() == before
    assert "these changed: seed" in next(paper(["fig2a"], folder, True, 1))[0]
    monkeypatch.setitem(SMALL, "fig2a", {"width": 16, "runs": 256})
    assert "these changed: options" in next(paper(["fig2a"], folder, True, 1))[0]
    file.write_text("{}", encoding="utf-8")
    assert "cannot be read" in next(paper(["fig2a"], folder, True, 1))[0]
    file.write_bytes(before)


def test_versions_are_part_of_the_key(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch)
    monkeypatch.setattr(module, "versions", lambda: {"netsor": "0"})
    (experiment,) = chosen(["fig2a"])
    record, says = module.resumed(folder / "results" / "fig2a.json", module.key_of(experiment, True, 0))
    assert record is None
    assert "versions" in says


# ---- sentences are read off the results


@pytest.mark.parametrize("name", NAMES)
def test_sentences_follow_the_numbers(folder: Path, name: str) -> None:
    """All numbers of the result larger, errors by more than values: no sentence with a number stays as it was."""

    def scaled(x: Any, factor: float = 1.5) -> Any:
        if isinstance(x, dict):
            return {k: scaled(v) for k, v in x.items()}
        if isinstance(x, list):
            return [scaled(v, 1.5 + k / 4) for k, v in enumerate(x)]
        return factor * x if isinstance(x, float) else x

    old, new = view(folder, name), view(folder, name, **scaled(result(folder, name)))
    kept = [s for s in old.sentences if s in new.sentences]
    assert [s for s in kept if not s.startswith("The limit's variance")] == []


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("fig1a", {"kl_gaussian": [1e-9, 1e-12]}, "is not nearer to its limit"),
        ("fig1a", {"kl_gaussian": [1e3, 1e-12]}, "is nearer to its limit"),
        ("fig1b", {"slope": [-1.5, 0.01]}, "is not -2 within 0.1 (and is not"),
        ("fig1b", {"slope": [-1.95, 0.1]}, "is -2 within 0.1 (and is"),
        ("fig1b", {"kl_gaussian": [1.0, 0.1]}, "is not below the floor"),
        (
            "fig1b",
            {"kde": {"floor": [0.1, 0.11], "8": [0.9, 0.8], "32": [0.1, 0.12]}},
            "law at n = 8 from the limit; at n = 32",
        ),
        ("fig1b", {"kde": {"floor": [0.1, 0.11], "8": [0.1, 0.12], "32": [0.1, 0.12]}}, "One seed resolves no width"),
        ("fig1b", {"kde": {"floor": [0.1, 0.11], "8": [9, 8], "32": [9, 8]}}, "no width is lost"),
        ("fig2a", {"inverse_limit": {"value": [0.0, 0.0], "variance": [1.0, 0.0]}}, "is not a constant"),
        ("fig2b", {"infinite": {"variance": [9.0, 0.1], "excess_kurtosis": [0.0, 0.0]}}, "variance is not the same"),
        ("fig2b", {"deep": {"excess_kurtosis": [0.0, 0.1], "kl_gaussian": [0.0, 0.1]}}, "no sharper witness"),
        ("fig3", {"wide": {"variance": [0.1, 1e-9], "excess_kurtosis": [0.2, 0.1]}}, "n_H = 8 shows it"),
        ("tails", {"linear": {"variance": [4, 0.1], "excess_kurtosis": [1, 0.1], "proxy": 2.0, "why": ""}}, "there is one"),
        (
            "observables",
            {"squares": [0.0, 0.1], "correlation": [1.0, 0.1]},
            "and their squares are not (cov",
        ),
        ("fig3", {"scores": [{"rank": 1, "excess_kurtosis": [3.0, 0.1]}]}, "does not have excess kurtosis 6/n_H"),
    ],
)
def test_verdicts(folder: Path, name: str, change: dict[str, Any], says: str) -> None:
    assert says in " ".join(view(folder, name, **change).sentences)


# ---- the paper's estimator


def test_kde_is_that_of_scipy() -> None:
    x = np.random.default_rng(0).standard_normal(3000)
    t = np.linspace(-3, 3, 50)
    assert gaussian_kde(x, t) == pytest.approx(reference(x)(t), rel=1e-3, abs=1e-6)


def test_kde_kl() -> None:
    """Two samples of one law are not at distance 0; far laws are far; the floor keeps it finite."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 20_000))
    assert 1e-4 < kde_kl(x, y) < 3e-3
    assert kde_kl(x, x) == 0
    assert kde_kl(x, y + 1) == pytest.approx(0.5, rel=0.2)
    assert 5 < kde_kl(x, y + 100) < 30
