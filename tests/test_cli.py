"""The command line: every command on every program, JSON, exit codes, interrupts, files."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from mutants import scores_of_twice_the_size

from netsor import __version__
from netsor.cli import cli, main
from netsor.comparison import Comparison, compare
from netsor.errors import TITLES
from netsor.finite.engines import ENGINES
from netsor.loading import shipped
from netsor.report import tables
from netsor.report.experiments import Experiment

ROOT = Path(__file__).parent.parent
PROGRAMS = sorted(file.stem for file in shipped("programs").glob("*.py"))
LEGAL = [name for name in PROGRAMS if name != "tied_attention"]
SMALL = ["--runs", "512"]
COMMANDS = {
    "derive": [],
    "evaluate": SMALL,
    "simulate": ["--width", "8", "--runs", "64"],
    "compare": ["--width", "4", "--runs", "64"],
    "check": [],
    "graph": [],
    "explain": [],
}


class Result(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Result]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command line in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> Result:
        with pytest.raises(SystemExit) as stop:
            main([str(a) for a in arguments])
        captured = capsys.readouterr()
        code = stop.value.code or 0
        assert isinstance(code, int)
        return Result(code, captured.out, captured.err)

    return call


def started(*arguments: str, code: str = "main()", cwd: Path | None = None, **environment: str) -> "subprocess.Popen[str]":
    """The command line in a process of its own, with Ctrl-C at work even if the tests run in the background."""
    return subprocess.Popen(
        [sys.executable, "-c", f"import sys; from netsor.cli import main; {code}", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        cwd=cwd,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


# ---- every command on every program


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("command", COMMANDS)
def test_text(run: Run, command: str, program: str) -> None:
    result = run(command, program, *COMMANDS[command])
    refused = program == "tied_attention" and command not in ("simulate", "graph")
    assert result.code == (3 if refused else 0), result
    if refused and command != "check":
        assert result.err.startswith("NS101: the score diverges")
        for part in ("statement:", "place:", "hypothesis:", "otherwise:", "instead:"):
            assert part in result.err
    else:
        assert result.out.strip()
        assert bool(result.err) == (program == "tied_attention" and command == "simulate")


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("command", COMMANDS)
def test_json(run: Run, command: str, program: str) -> None:
    result = run(command, program, *COMMANDS[command], "--json")
    failed = program == "tied_attention" and command not in ("simulate", "graph", "check")
    data = result.json
    assert data["schema"] == ("netsor.error/1" if failed else f"netsor.{command}/1")
    if failed:
        assert data["code"] == "NS101"
        assert data["title"] == TITLES["NS101"]
        assert {"statement", "place", "hypothesis", "otherwise", "instead"} <= data.keys()
    else:
        assert data["program"] == program
    assert result.code == (3 if failed or (program == "tied_attention" and command == "check") else 0)


def test_every_command_is_tested() -> None:
    assert {*COMMANDS, "demo", "info", "paper", "sweep"} == set(cli.commands)  # sweep: test_sweep.py


def test_every_engine_is_an_option() -> None:
    (option,) = (p for p in cli.commands["simulate"].params if p.name == "engine")
    assert tuple(option.to_info_dict()["type"]["choices"]) == ENGINES


def test_derive(run: Run) -> None:
    text = run("derive", "attention", "-s", "tokens=64", "-s", "heads=16").out
    assert "p[a,i,j] = dot(q[a,i], k[a,j])" in text
    assert "Cov(p°[a,i,j], p°[a',i',j']) = δ(a,a') σ_WQ² σ_WK² E[x_i x_i'] E[x_j x_j']" in text
    latex = run("derive", "attention", "--latex").out
    assert latex.count(r"\begin{gather*}") == latex.count(r"\end{gather*}") == 8
    variables = {v["name"]: v for v in run("derive", "attention", "--json").json["variables"]}
    assert list(variables) == ["x", "q", "k", "v", "p", "A", "o", "y"]
    assert variables["y"]["kind"] == "conditional"
    assert variables["y"]["status"] == "proved"
    assert variables["y"]["text"][0] == "Z^y[i] = H^{-1/2} Σ_a Z^o[a,i]"


def test_evaluate(run: Run) -> None:
    result = run("evaluate", "transformer_block", "p", "A", "u", "--at", "i=1", "--at", "j=2", "--json")
    laws = {law["variable"]: law for law in result.json["laws"]}
    assert list(laws) == ["p", "A", "u"]
    assert laws["A"]["members"] == {"a": 0, "i": 1, "j": 2}
    assert [laws[name]["law"] for name in laws] == ["mixture", "sampled", "mixture"]
    assert laws["p"]["variance"] == {"value": 1.0, "error": 0.0}
    value, error = laws["u"]["variance"].values()
    assert value == pytest.approx(1.39197, abs=5 * error + 2e-4)
    assert 0 < error < 1e-3


def test_evaluate_a_constant(run: Run) -> None:
    text = run("evaluate", "inverse_n_attention", "p", "A").out
    assert re.search(r"p\[0,0\] +constant +point mass +0 +0 +-", text)
    data = run("evaluate", "inverse_n_attention", "A", "--json").json["laws"][0]
    assert data["mean"]["value"] == pytest.approx(0.25)
    assert data["excess_kurtosis"] is None


def test_seeds_and_runs_matter_and_repeat(run: Run) -> None:
    def variance(*options: str) -> float:
        return float(run("evaluate", "transformer_block", "u", "--json", *options).json["laws"][0]["variance"]["value"])

    assert variance() == variance("--seed", "0") != variance("--seed", "1")
    assert variance() != variance("--runs", "512")


def test_simulate_writes_what_it_drew(run: Run) -> None:
    result = run("simulate", "attention", "y", "p", "--width", 8, "--runs", 100, "-o", "draws.npz", "--json")
    assert [v["variable"] for v in result.json["variables"]] == ["y", "p"]
    with np.load("draws.npz") as saved:
        assert saved["y"].shape == (4, 100, 1)
        assert tuple(saved["y.dims"]) == ("i", "run", "coordinate")
        assert saved["p"].shape == (2, 4, 4, 100)
        assert tuple(saved["p.dims"]) == ("a", "i", "j", "run")
        assert result.json["variables"][1]["mean"]["value"] == pytest.approx(saved["p"][0, 0, 0, :96].mean())


def test_simulate_warns_outside_the_theorem(run: Run) -> None:
    result = run("simulate", "tied_attention", "--width", 8, "--runs", 64)
    assert result.err.startswith("warning: ")
    assert "NS101" in result.err
    assert run("simulate", "tied_attention", "x", "--width", 8, "--runs", 64).err == ""


@pytest.mark.parametrize("engine", ENGINES)
def test_simulate_in_an_engine(run: Run, engine: str) -> None:
    text = run("simulate", "attention", "y", "--width", 8, "--runs", 64, "--engine", engine, "--explain").out
    assert f"engine {engine}: as asked" in text
    assert all(re.search(rf"^  {name} +[\d,]+ normals a run", text, re.MULTILINE) for name in ENGINES)


def test_simulate_explains_its_choice(run: Run) -> None:
    asked = ("simulate", "attention", "y", "--width", 64, "--runs", 64)
    assert "normals a run" not in run(*asked).out
    assert "engine collapsed: the least work by the cost model" in run(*asked, "--explain").out
    assert run(*asked, "--json").json["how"].startswith("engine collapsed: ")


def test_compare(run: Run) -> None:
    result = run("compare", "inverse_n_attention", "--width", "8,16", "--runs", 128, "--json")
    data = result.json
    assert data["variable"] == "y[i=0]"
    assert [row["n"] for row in data["widths"]] == [8, 16]
    assert set(data["widths"][0]["floor"]) == {"kl", "ks", "w1"}
    assert data["limit"]["variance"]["value"] == pytest.approx(0.25)
    assert data["extrapolated"] == {}
    assert data["agrees"] is True


def test_compare_with_a_constant(run: Run) -> None:
    result = run("compare", "inverse_n_attention", "p", "--at", "j=1", "--width", "8,16", "--width", 32, "--runs", 64, "--json")
    assert result.json["variable"] == "p[i=0, j=1]"
    assert result.json["limit"]["law"] == "point mass"
    assert [row["kl"] for row in result.json["widths"]] == [None] * 3
    assert result.json["extrapolated"].keys() == {"variance"}


def test_a_comparison_that_fails(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Comparison, "agrees", False)
    result = run("compare", "mlp", "x", "--width", "8,16,32", "--runs", 64)
    assert result.code == 1
    assert "DISAGREE" in result.out


@pytest.mark.parametrize("suffix", ["png", "pdf", "svg"])
def test_figures(run: Run, suffix: str) -> None:
    assert run("compare", "mlp", "f", "--width", "8,16", "--runs", 64, "-o", f"f.{suffix}").code == 0
    assert Path(f"f.{suffix}").stat().st_size > 5000
    assert os.listdir() == [f"f.{suffix}"]


def test_check(run: Run) -> None:
    text = run("check", "attention").out
    assert text.startswith("legal: every variable has a limit")
    assert "proved: docs/theory.md" in text
    data = run("check", "tied_attention", "--json").json
    assert data["legal"] is False
    assert [d["severity"] for d in data["diagnostics"]] == ["refused"]


def test_lints_do_not_fail(run: Run) -> None:
    Path("diagonal.py").write_text(
        "from netsor import *\ni = Plate('token', 3).index('i')\nx = vector('x', i)\n"
        "P = Program('diagonal', p=dot(matrix('Q') @ x, matrix('K') @ x))\n"
    )
    result = run("check", "diagonal.py")
    assert result.code == 0
    assert "lint" in result.out
    assert "legal" in result.out


def test_graph(run: Run) -> None:
    assert run("graph", "mlp", "--format", "dot").out.startswith('digraph "mlp" {')
    run("graph", "mlp", "--format", "dot", "-o", "mlp.dot")
    assert Path("mlp.dot").read_text(encoding="utf-8").startswith('digraph "mlp" {')
    data = run("graph", "mlp", "--json").json
    names = {node["node"] for node in data["nodes"]}
    assert {"x", "g1", "f"} <= names
    assert all(edge["from"] in names and edge["to"] in names for edge in data["edges"])


def test_explain(run: Run) -> None:
    assert "pivot" in run("explain", "attention", "p").out
    for code in TITLES:
        text = run("explain", code).out
        assert text.startswith(f"## {code}")
        assert text.count("## NS") == 1
    assert run("explain", "ns101", "--json").json["title"] == TITLES["NS101"]
    assert "NS101, NS102" in run("explain", "NS999").err


def test_explain_without_the_docs(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("netsor.report.refusals.shipped", Path)
    assert run("explain", "NS101").out == f"NS101: {TITLES['NS101']}\n"


# ---- what goes wrong


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["derive"], 2, "Missing argument 'FILE'"),
        (["nonsense"], 2, "No such command"),
        (["derive", "attention", "--nonsense"], 2, "No such option"),
        (["evaluate", "attention", "tokens=8"], 2, "write -s tokens=8"),
        (["derive", "no_such_file.py"], 2, "attention, attention_observables, cross_attention"),
        (["derive", "attention", "-s", "tokens"], 2, "name=value"),
        (["derive", "attention", "-s", "tokens=2", "-s", "tokens=3"], 2, "once"),
        (["derive", "attention", "-s", "tokens=two"], 2, "NS311"),
        (["derive", "attention", "-s", "phi=clip(0)"], 2, "NS306"),
        (["derive", "attention", "-s", "width=3"], 2, "tokens, heads, phi"),
        (["evaluate", "attention", "z"], 2, "x, q, k, v, p, A, o, y"),
        (["evaluate", "attention", "y", "--at", "j=0"], 2, "NS302"),
        (["evaluate", "attention", "y", "--at", "i=4"], 2, "NS302"),
        (["evaluate", "attention", "y", "--at", "i=x"], 2, "number"),
        (["evaluate", "attention", "y", "--runs", "0"], 2, "--runs"),
        (["evaluate", "attention", "y", "--seed", "-1"], 2, "--seed"),
        (["evaluate", "attention", "-s", "tokens=None"], 2, "NS311"),
        (["simulate", "attention"], 2, "--width"),
        (["simulate", "attention", "z", "--width", "8"], 2, "NS311"),
        (["simulate", "attention", "--width", "8", "--engine", "sparse"], 2, "dense"),
        (["simulate", "attention", "--width", "8", "-o", "draws.csv"], 2, ".npz"),
        (["simulate", "attention", "--width", "8", "-o", "no/folder.npz"], 2, "folder"),
        (["compare", "attention", "--width", "8,x"], 2, "integers"),
        (["compare", "attention", "--width", "0"], 2, "NS306"),
        (["compare", "attention", "z"], 2, "NS311"),
        (["compare", "attention", "-o", "figure.gif"], 2, ".png or .pdf or .svg"),
        (["graph", "attention", "--format", "xml"], 2, "xml"),
        (["explain", "attention", "z"], 2, "NS311"),
        (["explain", "NS999"], 2, "NS311"),
        (["compare", "tied_attention"], 3, "NS101"),
    ],
)
def test_refusals(run: Run, arguments: list[str], code: int, says: str) -> None:
    result = run(*arguments)
    assert result.code == code
    assert says in result.err
    assert "Traceback" not in result.err
    as_json = run(*arguments, "--json")
    assert as_json.code == code
    assert as_json.json["schema"] == "netsor.error/1"


BAD_PROGRAMS = {
    "twice": ("NS301", "P = Program('twice', q=matrix('W') @ vector('x'), k=matrix('W') @ vector('y'))"),
    "over_another_plate": ("NS302", "vector('x', Plate('token', 4).index('i'))[Plate('head', 2).index('a')]"),
    "ambiguous": ("NS302", "i, j = Plate('token', 4).indices('i j'); dot(vector('x', i), vector('y', j))[0]"),
    "widths": ("NS303", "matrix('W', shape=(Width('n'), 4 * Width('n'))) @ vector('x')"),
    "unbound": ("NS304", "i = Plate('token').index('i'); P = Program('unbound', y=sum_over(vector('x', i), i))"),
    "parameter": ("NS304", "P = Program('parameter', y=param('beta') * vector('x'))"),
    "unsymmetric": ("NS305", "vector('x', Plate('token', 2).index('i'), cov=[[1, 0.5], [0, 1]])"),
    "indefinite": ("NS305", "vector('x', Plate('token', 2).index('i'), cov=[[1, 2], [2, 1]])"),
    "nan": ("NS306", "P = Program('nan', y=param('beta', float('nan')) * vector('x'))"),
    "infinite": ("NS306", "matrix('W', sigma=float('inf'))"),
    "boolean": (
        "NS307",
        "i, j = Plate('token', 4).indices('i j')\nsoftmax(dot(vector('x', i), vector('y', j)), over=j, where=i == j)",
    ),
    "jump": (
        "NS103",
        "x = vector('x'); g = matrix('W') @ x\nP = Program('jump', y=sign(g - mean(x * x) * g))",
    ),
    "across": ("NS105", "softmax(vector('x'), over=Width('n'))"),
}


@pytest.mark.parametrize("name", BAD_PROGRAMS)
def test_bad_programs(run: Run, name: str) -> None:
    code, text = BAD_PROGRAMS[name]
    Path(f"{name}.py").write_text(f"from netsor import *\n\n{text}\n")
    result = run("evaluate", f"{name}.py")
    assert result.code == (3 if code < "NS300" else 2)
    assert result.err.startswith(f"{code}: {TITLES[code]}")
    assert "instead:" in result.err
    assert "Traceback" not in result.err
    assert "Traceback" in run("evaluate", f"{name}.py", "--debug").err


def test_a_numerical_failure(run: Run) -> None:
    Path("root.py").write_text("from netsor import *\nP = Program('root', y=sqrt(param('beta')) * vector('x'))\n")
    result = run("evaluate", "root.py", "-s", "beta=-1")
    assert result.code == 4
    assert result.err.startswith("NS402")


def test_a_request_that_is_too_large(run: Run) -> None:
    result = run("simulate", "mlp", "--width", 2**40, "--runs", 2, "--engine", "dense")
    assert result.code == 4
    assert result.err.startswith("NS403: the request is too large")


def test_a_defect_of_netsor(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("netsor.program.Program.check", lambda self: 1 / 0)
    result = run("check", "attention")
    assert result.code == 70
    assert result.err.startswith("internal error: ZeroDivisionError: division by zero\n")
    assert "report" in result.err
    assert "Traceback" not in result.err
    assert "Traceback" in run("check", "attention", "--debug").err
    assert run("check", "attention", "--json").json["code"] == "internal"


def test_a_folder_that_cannot_be_made(run: Run) -> None:
    Path("file").write_text("")
    result = run("demo", "-o", "file/folder")
    assert result.code == 2
    assert "file/folder" in result.err
    assert "Traceback" not in result.err


# ---- streams and files


def test_what_a_program_prints_is_no_result(run: Run) -> None:
    Path("loud.py").write_text("from netsor import *\nprint('building')\nP = Program('loud', y=vector('x'))\n")
    result = run("derive", "loud.py", "--json")
    assert result.json["program"] == "loud"
    assert result.err == "building\n"


def test_version_and_help(run: Run) -> None:
    assert run("--version").out == f"netsor {__version__}\n"
    for command in cli.commands:
        text = run(command, "--help").out
        assert "--json" in text
        assert "--debug" in text


def test_an_interrupted_write_leaves_the_old_file(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    Path("draws.npz").write_text("old")
    monkeypatch.setattr(np.lib.format, "write_array", interrupted)
    result = run("simulate", "mlp", "--width", 8, "--runs", 8, "-o", "draws.npz")
    assert result.code == 130
    assert result.err.strip() == "interrupted"
    assert result.out == ""
    assert Path("draws.npz").read_text() == "old"
    assert os.listdir() == ["draws.npz"]


@pytest.mark.parametrize("command", ["simulate", "compare"])
def test_ctrl_c(command: str, tmp_path: Path) -> None:
    """A run of hours is interrupted in its first seconds."""
    file = "draws.npz" if command == "simulate" else "figure.png"
    arguments = (command, "mlp", "--width", "4096", "--runs", "100000", "-o", file)
    process = started(*arguments, code="print('started', file=sys.stderr, flush=True); main()", cwd=tmp_path)
    assert process.stderr is not None
    assert process.stderr.readline() == "started\n"
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=3)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == ""
    assert err.strip() == "interrupted"
    assert os.listdir(tmp_path) == []


def test_help_imports_nothing_heavy() -> None:
    loaded = "print(*{name.partition('.')[0] for name in sys.modules}, file=sys.stderr)"
    _, err = started("--help", code=f"import atexit; atexit.register(lambda: {loaded}); main()").communicate(timeout=60)
    assert "click" in err.split()
    assert not {"numpy", "scipy", "sympy", "networkx", "matplotlib", "rich"} & set(err.split())


def test_a_terminal_without_greek() -> None:
    out, err = started("derive", "attention", PYTHONIOENCODING="ascii").communicate(timeout=60)
    assert "?_WQ" in out
    assert err == ""


def test_a_closed_pipe() -> None:
    process = started("derive", "attention")
    assert process.stdout is not None
    process.stdout.close()  # as `| head -1` does
    assert process.wait(timeout=60) == 1
    assert process.stderr is not None
    assert process.stderr.read() == ""
    process.stderr.close()


def test_the_demo_in_small(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("netsor.report.demo.WIDTHS", (4, 8))
    monkeypatch.setattr("netsor.report.demo.compare", partial(compare, runs=64))
    monkeypatch.setattr(tables, "laws", partial(tables.laws, runs=512))
    data = run("demo", "-o", "shown", "--json").json
    assert data["schema"] == "netsor.demo/1"
    assert [law["variable"] for law in data["laws"]] == list(data["limit"]) == ["x", "q", "k", "v", "p", "A", "o", "y"]
    assert data["comparison"]["agrees"] is True
    assert os.listdir("shown") == ["attention.png"]


def test_the_paper_in_small(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Experiment, "options", lambda self, quick: {"width": 8 if quick else 16, "runs": 256})
    data = run("paper", "fig2a", "--quick", "--out", "shown", "--seed", 3, "--json").json
    assert data["schema"] == "netsor.paper/1"
    assert data["seed"] == 3
    assert len(data["fig2a"]["sentences"]) == 3
    assert {"report.md", "report.html", "results", "fig2a.png"} <= {*os.listdir("shown")}
    assert "as it was computed before" in run("paper", "fig2a", "--quick", "--out", "shown", "--seed", 3).out
    assert "these changed: options" in run("paper", "fig2a", "--out", "shown", "--seed", 3).out
    assert "fig1a, fig1b" in run("paper", "fig9").err


@pytest.mark.nightly
def test_demo(run: Run) -> None:
    began = time.monotonic()
    result = run("demo", "-o", "shown")
    assert result.code == 0
    assert time.monotonic() - began < 60
    assert "δ(a,a')" in result.out
    assert Path("shown/attention.png").stat().st_size > 20000


def test_info_and_pictures(run: Run) -> None:
    """Versions as text and as data; the suffix of the file decides what is drawn."""
    assert run("info", "--json").json["netsor"] == __version__
    assert run("graph", "attention", "-o", "net.mmd").code == 0
    assert Path("net.mmd").read_text(encoding="utf-8").startswith("flowchart")
    assert run("graph", "attention", "--format", "png").code == 2


def test_check_empirical(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The theorem as a test: it passes for a right limit, and exits with 1 for scores of twice the size."""
    options = ("mlp", "f", "-s", "depth=1", "--empirical", "--width", "16,64,256", "--runs", "8192", "--seed", "1")
    result = run("check", *options)
    assert result.code == 0
    assert "f of mlp: widths 16, 64, 256 extrapolated, 8192 runs each" in result.out
    assert result.out.count("  ok   ") == 2
    data = run("check", *options, "--json").json["empirical"]
    assert data["passed"]
    assert [t["name"] for t in data["tests"]] == ["scores", "covariance"]
    scores_of_twice_the_size(monkeypatch)
    result = run("check", *options)
    assert result.code == 1
    assert "FAIL scores" in result.out
    assert run("check", "mlp", "--empirical", "--width", "16").code == 2
    assert run("check", "mlp", "nothing", "--empirical").code == 2
