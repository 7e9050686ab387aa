"""Programs as data: what is written comes back as it was, and what is no program is refused with its place, unexecuted."""

import json
import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy
from hypothesis import HealthCheck, given, settings
from strategies import Draft, programs

from netsor import (
    IllFormed,
    Law,
    NetsorError,
    Plate,
    Program,
    Width,
    clip,
    dot,
    elementwise,
    elu,
    hermite,
    leaky_relu,
    load,
    matrix,
    oo,
    param,
    rbf,
    relu,
    relu_power,
    simulate,
    softmax,
    sqrt,
    sum_over,
    table,
    tanh,
    top_k,
    unknown,
    vector,
)
from netsor.cli import main
from netsor.loading import shipped

PROGRAMS = sorted(file.stem for file in shipped("programs").glob("*.py"))
x = sympy.Symbol("x", real=True)
i, j = Plate("token", 3, "s").indices("i j")


def again(program: Program) -> Program:
    """What comes back, which must be written and printed, and draw its random numbers, as before."""
    text = program.to_json()
    back = Program.from_json(text)
    assert back.to_json() == text
    assert str(back) == str(program)
    for name, term in program.items():
        assert back[name].slots == term.slots
        assert back[name].family.order == term.family.order
    return back


# ---- what comes back


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_that_come_with_netsor(name: str) -> None:
    P = load(name)
    Q = again(P)
    assert [str(d.error.code) for d in Q.check()] == [str(d.error.code) for d in P.check()]
    if name == "tied_attention":
        return
    assert str(Q.limit()) == str(P.limit())
    one, two = (simulate(program, width=16, runs=3, rng=7) for program in (P, Q))
    assert all(np.array_equal(one[key], two[key]) for key in P)


@settings(max_examples=1000, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(programs())
def test_a_thousand_random_programs(draft: Draft) -> None:
    again(Program("random", **draft.variables))


@settings(max_examples=30, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(programs(sized=False))
def test_open_sizes_bind_as_before(draft: Draft) -> None:
    P = Program("random", **draft.variables)
    names = {p.name: 2 for term in P.values() for p in term.family.plates}
    if any("table(" in line for line in draft.lines):
        return
    assert str(again(P).at(**names)) == str(P.at(**names))


def test_without_plates_and_with_infinitely_many_heads() -> None:
    P = load("attention", {"tokens": "2"})
    again(P.unroll())
    again(Program("top", t=top_k(tanh(vector("h", i)), 2, i)).unroll())
    again(Program("s", t=softmax(vector("h", i), i)).unroll())
    a = Plate("head").index("a")
    W, V = matrix("W", a), matrix("V", a)
    y = sum_over(W @ tanh(V @ vector("h")), a) / sqrt(a.plate.size)
    Q = Program("many", y=y).at(head=oo)
    assert str(again(Q).limit()) == str(Q.limit())


@pytest.mark.parametrize(
    "f",
    [relu, clip(Fraction(1, 3)), clip(0.1), elu(2), hermite(3), leaky_relu(0.25), rbf(sympy.sqrt(2)), relu_power(2)],
    ids=str,
)
def test_functions_of_netsor(f: Any) -> None:
    again(Program("p", y=f(vector("h"))))


@pytest.mark.parametrize(
    "expression",
    [
        sympy.atan(x),
        x**3 * sympy.sqrt(2) + sympy.Abs(x) / 3,
        sympy.Piecewise((x, x > 0), (sympy.exp(x) - 1, True)),
        sympy.Max(x, sympy.Rational(1, 2)) - sympy.pi * x,
        sympy.Heaviside(x) * sympy.E + 0.1 * x,
        sympy.Piecewise((x, (x > 0) & (x < 1)), (0, True)),
    ],
    ids=str,
)
def test_formulas(expression: Any) -> None:
    f = elementwise(sympy.Lambda(x, expression), name="f")
    P = Program("p", y=f(matrix("W") @ vector("h")), z=f(vector("k")))
    Q = again(P)
    back = Q["y"].op.fn  # type: ignore[attr-defined]
    assert back == Q["z"].op.fn  # type: ignore[attr-defined]  # one function, as before
    assert (back.features, back.jumps) == (f.features, f.jumps)
    points = np.linspace(-2, 2, 9)
    assert np.array_equal(back.numpy(points), f.numpy(points))
    assert [str(d) for d in Q.check()] == [re.sub(r".*place.*\n", "", str(d)) for d in P.check()]
    if P.limit():
        assert str(Q.limit().law("y")) == str(P.limit().law("y"))


def test_numbers_names_and_shared_things() -> None:
    n = Width("n", Fraction(3, 2))
    W = matrix("W", i, sigma=param("sigma", 0.1), shape=(n, n))
    h = vector("h", i, mean=param("m"), cov=[[2, 1, 0], [1, 2, 0.5], [0, 0.5, 1]], width=n)
    g = vector("g", i, cov=unknown, width=n)
    slopes = table("slope", i, j, values=[[1, 2, 3], [4, 5, 6.5], [Fraction(1, 3), 0, -1]])
    y = W @ h + 0.1 * (W[j] @ h[j])
    P = Program("p", h=h, g=g, p=dot(y, h, where=i < j) * slopes * (i - j), c=sympy.sqrt(2) * h, d=h[0])
    Q = again(P)
    assert str(Q.at(m=1)) == str(P.at(m=1))
    assert Q["d"].slots == P["d"].slots


@pytest.mark.parametrize(
    ("made", "named"),
    [
        (lambda: elementwise(np.arctan)(vector("h")), "arctan"),
        (lambda: elementwise(lambda t: t, name="mine")(vector("h")), "mine"),
        (lambda: vector("h", law=Law("coin", lambda k: 1 - k % 2, lambda u: np.sign(u - 0.5))), "coin"),
    ],
)
def test_code_is_no_data(made: Callable[[], Any], named: str) -> None:
    with pytest.raises(IllFormed, match="NS310") as error:
        Program("p", y=made()).to_json()
    assert named in str(error.value)


def test_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.json"
    open_sizes = load("attention").to_json().replace('"size": 4', '"size": null')
    path.write_text(open_sizes, encoding="utf-8")
    assert "token: 5" in str(load(path, {"token": "5"}))
    assert str(load(tmp_path / "p", {"token": "5"})) == str(load(path, {"token": "5"}))
    with pytest.raises(SystemExit, match="0"):
        main(["derive", str(path), "-s", "token=2"])
    assert "limit of attention" in capsys.readouterr().out
    path.write_bytes(b"\xff\xfe{")
    with pytest.raises(IllFormed, match="NS310"):
        load(path)
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    assert "code, and is run" in " ".join(capsys.readouterr().out.split())


# ---- what is refused


def document(**changes: Any) -> dict[str, Any]:
    """A small program as data, with some of its parts replaced: families=..., or "functions.0.name"=..."""
    P = Program("p", x=vector("h", i), y=clip(1)(matrix("W", i) @ vector("k")), c=vector("h2") * sympy.sqrt(2))
    data: dict[str, Any] = json.loads(P.to_json())
    for path, value in changes.items():
        *inner, last = path.split(".")
        at: Any = data
        for key in inner:
            at = at[int(key) if isinstance(at, list) else key]
        at[int(last) if isinstance(at, list) else last] = value
    return data


def formula(tree: Any, name: str = "f", variable: str = "x") -> dict[str, Any]:
    variables = [{"name": variable, "assumptions": {}}]
    return {"formula": {"variables": variables, "formula": tree, "name": name, "kinks": [], "jumps": []}}


TOWER = ["Pow", 9, ["Pow", 9, ["Pow", 9, 9]]]
CODE = "__import__('os').system('touch pwned')"


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"name": CODE}, "$.name"),
        ({"name": "<script>alert(1)</script>"}, "$.name"),
        ({"name": "a\x00b"}, "$.name"),
        ({"name": "a" * 10**6}, "$.name"),
        ({"plates.0.name": "<b>token</b>"}, "$.plates[0].name"),
        ({"plates.0.symbol": "<img src=x onerror=alert(1)>"}, "$.plates[0]"),
        ({"plates.0.symbol": r"\input{/etc/passwd}"}, "$.plates[0]"),
        ({"plates.0.symbol": r"\href{javascript:alert(1)}{s}"}, "$.plates[0]"),
        ({"plates.0.size": 10**40}, "$.plates[0].size"),
        ({"plates.0.size": 0.5}, "$.plates[0].size"),
        ({"plates.0.size": -1}, "$.plates[0].size"),
        ({"plates.0.size": True}, "$.plates[0].size"),
        ({"functions.0": {"name": "elementwise", "params": [CODE]}}, "$.functions[0]"),
        ({"functions.0": {"name": "os.system"}}, "$.functions[0].name"),
        ({"functions.0": {"name": "__class__"}}, "$.functions[0].name"),
        ({"functions.0": {"name": "clip", "params": ["1"]}}, "$.functions[0].params[0]"),
        ({"functions.0": {"name": "clip", "params": [{"exact": TOWER}]}}, "$.functions[0].params[0].exact"),
        ({"functions.0": {"name": "clip", "params": [-1]}}, "$.functions[0]"),
        ({"functions.0": {"name": "clip", "params": [1, 2]}}, "$.functions[0]"),
        ({"functions.0": {"name": "hermite", "params": [10**9]}}, "$.functions[0]"),
        ({"functions.0": formula(TOWER)}, "$.functions[0].formula"),
        ({"functions.0": formula(["Pow", {"x": 0}, 10**9])}, "$.functions[0].formula"),
        ({"functions.0": formula(["Pow", ["Pow", 2, {"ratio": "1/2"}], 10**9])}, "$.functions[0].formula"),
        ({"functions.0": formula(["Pow", 0, -1])}, "$.functions[0]"),
        ({"functions.0": formula(["Lambda", CODE])}, "$.functions[0].formula"),
        ({"functions.0": formula(["sympify", CODE])}, "$.functions[0].formula"),
        ({"functions.0": formula(["Add", CODE])}, "$.functions[0].formula"),
        ({"functions.0": formula(["Add", *[1] * 5000])}, "$.functions[0].formula"),
        ({"functions.0": formula({"x": 0}, name=CODE)}, "$.functions[0].formula.name"),
        ({"functions.0": formula({"x": 0}, variable=CODE)}, "$.functions[0].formula.variables[0].name"),
        ({"functions.0": formula({"x": 0}, variable="lambda")}, "$.functions[0].formula.variables[0].name"),
        ({"functions.0": formula({"x": 1})}, "$.functions[0].formula.formula"),
        ({"functions.0": formula(["Abs"])}, "$.functions[0].formula"),
        ({"functions.0": formula([">", {"x": 0}, 0])}, "$.functions[0].formula"),
        ({"functions.0": {"members": {"name": "relu"}, "kept": 0}}, "$.functions[0].members"),
        ({"matrices.0.name": "W; import os"}, "$.matrices[0].name"),
        ({"matrices.0.sigma": -1}, "$.matrices[0]"),
        ({"matrices.0.sigma": "nan"}, "$.matrices[0].sigma"),
        ({"matrices.0.rows": 7}, "$.matrices[0].rows"),
        ({"widths.0.ratio": {"ratio": "1/0"}}, "$.widths[0].ratio"),
        ({"widths.0.ratio": {"ratio": "-1/2"}}, "$.widths[0]"),
        ({"vectors.0.cov": [[1, 0], [0, 1]]}, "$.vectors[0]"),
        ({"vectors.0.cov": [[1, 2, 0], [2, 1, 0], [0, 0, 1]]}, "$.vectors[0]"),
        ({"vectors.0.cov": CODE}, "$.vectors[0].cov"),
        ({"families.0.op": {"eval": CODE}}, "$.families[0].op"),
        ({"families.0.op": "eval"}, "$.families[0].op"),
        ({"families.0.own": []}, "$.families[0]"),
        ({"families.0.own": [5]}, "$.families[0].own[0]"),
        ({"families.0.args": [[3]]}, "$.families[0].args[0][0]"),
        ({"families.2.args": [[1, 0]]}, "$.families[2].args[0]"),
        ({"families.2.args": [[0, 0], [0, 0]]}, "$.families[2]"),
        ({"families.2.own": []}, "$.families[2]"),
        ({"families.2.unknown": 1}, "$.families[2]"),
        ({"families.3.op": {"map": 5}}, "$.families[3].op.map"),
        ({"families.3.op": {"along": 0, "keeps": False}}, "$.families[3]"),
        ({"families.3.op": "dot"}, "$.families[3]"),
        ({"families.3.op": "average"}, "$.families[3]"),
        ({"families.3.op": {"const": 1}}, "$.families[3]"),
        ({"variables.0.slots": [10**30]}, "$.variables[0].slots[0]"),
        ({"variables.0.slots": [7]}, "$.variables[0].slots[0]"),
        ({"variables.0.slots": ["i j"]}, "$.variables[0].slots[0]"),
        ({"variables.0.slots": []}, "$.variables[0].slots"),
        ({"variables.0.name": "y"}, "$.variables[1].name"),
        ({"schema": "netsor.program/99"}, "$"),
        ({"schema": {}}, "$"),
        ({"extra": 1}, "$"),
        ({"families": {}}, "$.families"),
        ({"families": None}, "$.families"),
    ],
    ids=lambda v: str(v)[:70] if isinstance(v, dict) else "",
)
def test_hostile_records(changes: dict[str, Any], where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NetsorError) as error:
        Program.from_json(json.dumps(document(**changes)), "p.json")
    assert isinstance(error.value, IllFormed)
    assert error.value.place.startswith(f"p.json: {where}")
    assert "\x00" not in str(error.value)
    assert len(str(error.value)) < 2000
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "line 1, column 1"),
        ("import os", "not JSON"),
        ("[" * 300 + "]" * 300, "nested"),
        ('{"a":' * 300 + "1" + "}" * 300, "nested"),
        ("[" * 10**6, "nested"),
        ('{"schema": 1, "schema": 2}', "stands twice"),
        ('{"schema": {"a": 1, "a": 2}}', "$.schema"),
        ('{"schema": NaN}', "NaN"),
        ('{"schema": [1, Infinity]}', "$.schema[1]"),
        ('{"schema": 1e999}', "finite"),
        ('{"schema": ' + "9" * 10**5 + "}", "digits"),
        ('{"schema": "' + '\\"' * 10**5, "not JSON"),
        ('{"schema": "\x00"}', "not JSON"),
        ("null", "schema"),
        ("[]", "schema"),
        ("9**9**9**9", "not JSON"),
        ('"netsor.program/1"', "schema"),
        (" " * (2**25 + 1), "the most"),
    ],
    ids=lambda v: v[:30],
)
def test_hostile_texts(text: str, says: str) -> None:
    with pytest.raises(IllFormed, match="NS310") as error:
        Program.from_json(text, "p.json")
    assert says in str(error.value)


def test_every_cut_and_every_deleted_record_is_refused_or_a_program() -> None:
    """Nothing but errors of netsor comes out of damaged data."""
    text = load("attention").to_json()
    lines = text.splitlines()
    damaged = [text[:k] for k in range(0, len(text), 97)]
    damaged += ["\n".join(lines[:k] + lines[k + 1 :]) for k in range(len(lines))]
    damaged += [re.sub(r"\d+", lambda m, k=k: str(int(m[0]) + k), text) for k in (1, -1, 10**9)]  # type: ignore[misc]
    places = []
    for bad in damaged:
        try:
            Program.from_json(bad)
        except NetsorError as error:
            places.append(error.place)
    assert len(places) > len(lines) / 2
    assert all(places)


def test_a_program_that_is_too_deep_is_refused_and_not_a_defect(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = document()
    first = len(data["families"])
    data["families"].append({"op": {"map": 0}, "args": [[1]]})
    data["families"] += [{"op": {"map": 0}, "args": [[k]]} for k in range(first, first + 5000)]
    data["variables"] = [{"name": "y", "family": first + 5000, "slots": []}]
    path = tmp_path / "deep.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    assert str(load(path)).count("clip") == 5001
    with pytest.raises(SystemExit, match="4"):
        main(["simulate", str(path), "--width", "4", "--runs", "4"])
    assert "NS403" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["9**9**9**9", "9" * 10**5, "1e999999999", "nan", CODE, "1\x00", "<b>2</b>", "[" * 300])
def test_hostile_settings(text: str) -> None:
    with pytest.raises(NetsorError) as error:
        load("attention", {"tokens": text})
    assert error.value.code in ("NS203", "NS306", "NS310", "NS311")


@pytest.mark.parametrize("symbol", ["<script>", "a&b", r"\input{x}", "a b", "", "$x$", "x\x00"])
def test_symbols_are_inert_in_listings_latex_and_html(symbol: str) -> None:
    """HTML or a macro in a name cannot get into a program by any door; comparisons in listings are escaped."""
    with pytest.raises(IllFormed, match="NS309"):
        Plate("token", 3, symbol)
    with pytest.raises(IllFormed, match="NS309"):
        vector(symbol)
    with pytest.raises(IllFormed, match="NS309"):
        elementwise(np.tanh, name=symbol or "<>")
    P = Program("p", p=sum_over(vector("h", i), i, where=i < j))
    assert "&lt;" in P._repr_html_()
    assert "<" not in re.sub(r"</?pre>", "", P._repr_html_())
