"""Sweeps: rows are the laws of the settings, a sweep is one job that resumes, and its files say what was found."""

import csv
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netsor import IllFormed, Mixture, NetsorError, OutsideTheorem, Sweep, load, simulate
from netsor.cli import main
from netsor.finite.laws import finite_law
from netsor.runs.run import How
from netsor.sweep import settings_grid

ROOT = Path(__file__).parents[1]
SMALL: dict[str, Any] = {"runs": 512}


def test_grids() -> None:
    assert settings_grid({"tokens": "2, 4", "phi": "relu,elu(1,2)"}) == [
        {"tokens": "2", "phi": "relu"},
        {"tokens": "2", "phi": "elu(1,2)"},
        {"tokens": "4", "phi": "relu"},
        {"tokens": "4", "phi": "elu(1,2)"},
    ]
    assert settings_grid({}) == [{}]
    with pytest.raises(IllFormed, match="NS306"):
        settings_grid({name: ",".join("12345678") for name in "abcdefg"})


def test_rows_are_the_laws_of_the_settings(tmp_path: Path) -> None:
    sweep = Sweep.of(
        "attention",
        {"tokens": "2,3"},
        observe=["variance", "excess_kurtosis", "mean", "entropy", "A:entropy", "p:mean"],
        **SMALL,
    )
    rows = sweep.run()
    assert [row["tokens"] for row in rows] == ["2", "3"]
    for row in rows:
        P = load("attention", {"tokens": row["tokens"]})
        law = P.limit().law("y", i=0, runs=512)
        assert row["y variance"] == law.variance
        assert row["y variance"].error == law.variance.error
        assert row["y excess kurtosis"] == law.excess_kurtosis
        assert row["y entropy"] == law.entropy
        drawn = P.limit().sample(20_000, names=["A"], rng=1)
        weights = np.moveaxis(drawn["A"], drawn.dims["A"].index("j"), 0)
        entropy = -(weights * np.log(weights)).sum(0).mean()
        assert abs(row["A entropy"] - entropy) < 5 * row["A entropy"].error
    assert sweep.run(workers=2, out=tmp_path) == rows
    assert sweep.run(out=tmp_path) == rows


def test_at_finite_width() -> None:
    rows = Sweep.of("attention", {"heads": "1"}, observe=["variance", "A:entropy"], widths=[8, 16], at={"i": 1}, **SMALL).run()
    P = load("attention", {"heads": "1"})
    assert [row["width"] for row in rows] == [8, 16]
    for row in rows:
        term = P["y"][1]
        assert row["y variance"] == finite_law(term, width=row["width"], runs=512, rng=0).variance
        weights = simulate(P, width=row["width"], runs=512, rng=0, outputs={"A": {"a": 0, "i": 1}})["A"]
        assert np.isclose(row["A entropy"], -(weights * np.log(weights)).sum(0).mean())


@pytest.mark.parametrize("deviation", [1.0, 1e-3, 50.0])
def test_the_entropy_of_a_gaussian(deviation: float) -> None:
    law = Mixture([[3.0]], [[deviation**2]])
    assert np.isclose(law.entropy, 0.5 * np.log(2 * np.pi * np.e * deviation**2), atol=1e-10)
    mixed = Mixture(np.array([[-100.0, 100.0]]), np.array([[1.0, 1.0]]))
    assert np.isclose(mixed.entropy, 0.5 * np.log(2 * np.pi * np.e) + np.log(2), atol=1e-9)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"observe": ["colour"]}, "NS311"),
        ({"observe": [":variance"]}, "NS311"),
        ({"observe": []}, "NS311"),
        ({"observe": ["nothing:variance"]}, "NS311"),
        ({"settings": {"tokens": "2,two"}}, "NS311"),
        ({"settings": {"tokens": "0"}}, "NS306"),
        ({"runs": 1}, "NS306"),
        ({"at": {"i": 9}}, "NS302"),
        ({"file": "nowhere"}, "NS310"),
    ],
)
def test_what_cannot_be_swept(arguments: dict[str, Any], code: str) -> None:
    request = {"file": "attention", "settings": {"tokens": "2"}, **SMALL, **arguments}
    with pytest.raises(NetsorError, match=code):
        Sweep.of(request.pop("file"), request.pop("settings"), **request).run()


def test_a_program_outside_the_theorem_is_refused_before_anything_is_drawn(tmp_path: Path) -> None:
    with pytest.raises(OutsideTheorem, match="NS101"):
        Sweep.of("tied_attention", {}, **SMALL).run(out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_row_is_there_before_the_next_is_drawn() -> None:
    rows = Sweep.of("attention", {"tokens": "2,3,4"}, **SMALL).rows(How())
    assert next(rows)["tokens"] == "2"
    assert [row["tokens"] for row in rows] == ["3", "4"]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "runs"
    command = ["sweep", "attention", "-s", "tokens=2,3", "-s", "heads=1,2", "--observe", "variance,A:entropy", "--runs", "256"]
    with pytest.raises(SystemExit, match="0"):
        main([*command, "--out", str(out)])
    said = capsys.readouterr().out
    assert said.splitlines()[0].split() == ["tokens", "heads", "width", "y", "variance", "A", "entropy"]
    with (out / "table.csv").open(encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    assert [(r["tokens"], r["heads"], r["width"]) for r in table] == [(t, h, "oo") for t in "23" for h in "12"]
    rows = Sweep.of("attention", {"tokens": "2,3", "heads": "1,2"}, observe=["variance", "A:entropy"], runs=256).run()
    assert [float(r["y_variance"]) for r in table] == [float(r["y variance"]) for r in rows]
    assert [float(r["A_entropy_error"]) for r in table] == [r["A entropy"].error for r in rows]
    assert (out / "figure.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(SystemExit, match="2"):
        main([*command, "--seed", "1", "--out", str(out)])
    assert "NS312" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="0"):
        main([*command, "--json", "--workers", "2", "--out", str(out)])


def test_an_interrupted_sweep_continues(tmp_path: Path) -> None:
    out = tmp_path / "runs"
    arguments = ["sweep", "attention", "-s", "tokens=2,4,6,8", "--width", "64,128", "--runs", "20000", "-o", str(out)]
    code = "from netsor.cli import main; main()"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code, *arguments]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    while process.poll() is None and len(list((out / "parts").glob("*.npz"))) < 3:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "128 parts are finished" in err
    assert not (out / "table.csv").exists()
    before = {path: path.stat().st_mtime_ns for path in (out / "parts").iterdir()}
    assert 3 <= len(before) < 128
    assert subprocess.run(command, env=environment, check=True, capture_output=True).returncode == 0
    after = {path: path.stat().st_mtime_ns for path in (out / "parts").iterdir()}
    assert before.items() <= after.items()
    rows = Sweep.of("attention", {"tokens": "2,4,6,8"}, widths=[64, 128], runs=20000).run()
    with (out / "table.csv").open(encoding="utf-8") as file:
        assert [float(r["y_variance"]) for r in csv.DictReader(file)] == [float(r["y variance"]) for r in rows]
