"""Programs from files: what is found, what settings mean, and what is said about a file that gives no program."""

import math
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from netsor import IllFormed, NetsorError, NoRule, OutsideTheorem, clip, layernorm, leaky_relu, relu
from netsor.loading import load, shipped, value_of

PROGRAMS = sorted(file.stem for file in shipped("programs").glob("*.py"))

COPY = """
from netsor import Plate, Program, param, sqrt, sum_over, vector

def copy(tokens=None, scale=1, phi=lambda x: x):
    i = Plate("token", tokens).index("i")
    return Program("copy", y=scale * param("beta") * phi(vector("x", i)))
"""


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def file(text: str, name: str = "copy.py") -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return file


# ---- what is found


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("form", ["{}", "{}.py", "programs/{}.py", "programs/{}"])
def test_programs_that_come_with_netsor_are_found_from_anywhere(
    name: str, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert load(form.format(name), {}).name == name


def test_a_file_comes_before_a_program_that_netsor_ships(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("from netsor import Program, vector\nP = Program('mine', y=vector('x'))\n", "attention.py")
    monkeypatch.chdir(path.parent)
    assert load("attention", {}).name == "mine"


def test_a_single_program_at_the_top_level(write: Any) -> None:
    path = write("from netsor import Program, relu, vector\nP = Q = Program('one', y=relu(vector('x')))\n", "relu.py")
    assert load(path, {}).name == "one"  # and not the function relu, which the file imports


def test_a_program_file_shadows_no_module(write: Any) -> None:
    text = COPY.replace("def copy", "from dataclasses import dataclass\n@dataclass\nclass C:\n    a: 'int' = 1\n\ndef copy")
    before = sys.modules["copy"]
    load(write("from __future__ import annotations\n" + text), {})
    assert sys.modules["copy"] is before


def test_nothing_is_written_beside_the_file(write: Any) -> None:
    path = write(COPY)
    load(path, {})
    assert list(path.parent.iterdir()) == [path]


def test_statements_are_placed_in_the_file(write: Any) -> None:
    path = write("from netsor import *\nW, x = matrix('W'), vector('x')\nP = Program('tied', p=dot(W @ x, W @ x))\n")
    with pytest.raises(OutsideTheorem) as error:
        load(path, {}).limit()
    assert error.value.place.startswith(f"{path}:3")


# ---- settings


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8", 8),
        ("-3", -3),
        ("0.5", 0.5),
        ("1e-3", 1e-3),
        ("1/2", Fraction(1, 2)),
        ("oo", math.inf),
        ("relu", relu),
        ("layernorm", layernorm),
        ("clip(1)", clip(1)),
        ("clip(1/2)", clip(Fraction(1, 2))),
        (" leaky_relu( 0.1 ) ", leaky_relu(0.1)),
    ],
)
def test_values(text: str, value: object) -> None:
    assert value_of("k", text) == value
    assert type(value_of("k", text)) is type(value)


@pytest.mark.parametrize(
    "text",
    [
        *("", "True", "None", "'a'", "[1, 2]", "1+1", "1/0", "relu()", "relu(1)", "clip", "clip()", "clip(x)"),
        *("clip(1,2)", "clip(clip(1))", "softmax", "softmax(1)", "elementwise(1)", "layernorm(1)", "Program", "os.system"),
        *("__import__('os')", "relu; 1", "sum_over(1)"),
    ],
)
def test_anything_else_is_refused_by_name(text: str) -> None:
    with pytest.raises(IllFormed, match="NS311") as error:
        value_of("phi", text)
    assert f"-s phi={text}" in error.value.statement


def test_keywords_of_the_function_and_open_names_of_the_program(write: Any) -> None:
    path = write(COPY)
    text = str(load(path, {"tokens": "3", "scale": "1/2", "phi": "clip(2)"}))
    assert "token: 3" in text
    assert "1/2" in text
    assert "clip[2]" in text
    program = load(path, {"token": "5", "beta": "0.5"})
    assert "token: 5" in str(program)
    assert float(program.limit().law("y", i=0).variance) == 0.25


@pytest.mark.parametrize(
    ("settings", "code", "says"),
    [
        ({"tokns": "3"}, "NS311", "beta, token; keywords of the function are: tokens, scale, phi"),
        ({"token": "3", "tokens": "3"}, "NS304", "token"),
        ({"tokens": "0"}, "NS306", "positive"),
        ({"tokens": "nan"}, "NS306", "positive"),
        ({"beta": "nan"}, "NS306", "finite"),
        ({"tokens": "oo"}, "NS203", "oo"),
        ({"phi": "clip(-1)"}, "NS306", "clip"),
        ({"phi": "3"}, "NS310", "copy.py:6"),
    ],
)
def test_settings_that_do_not_fit(write: Any, settings: dict[str, str], code: str, says: str) -> None:
    with pytest.raises(NetsorError) as error:
        load(write(COPY), settings)
    assert error.value.code == code
    assert says in str(error.value)
    assert isinstance(error.value, NoRule) == (code == "NS203")


# ---- files that give no program


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("def copy(:\n", [":1", "not valid Python"]),
        ("x = 1\n\x00", ["copy.py"]),
        ("import no_such_module\n", [":1", "ModuleNotFoundError: No module named 'no_such_module'"]),
        ("x = 1\n\ny = x / 0\n", [":3", "ZeroDivisionError: division by zero"]),
        ("import sys\nsys.exit(3)\n", [":2", "SystemExit: 3"]),
        ("x = 1\n", ["defines no program", "def", "copy(...)"]),
        ("", ["defines no program"]),
        ("from netsor import *\nP = Program('a', y=vector('x'))\nQ = Program('b', y=vector('x'))\n", ["P, Q"]),
        ("def copy(tokens, heads=2):\n    pass\n", ["copy(tokens, heads=2)", "a value for tokens", "-s tokens=..."]),
        ("def copy():\n    return 3\n", ["returns int, not a Program"]),
        ("def copy():\n    def f():\n        return 1 / 0\n    return f()\n", [":3", "ZeroDivisionError"]),
        ("import netsor\ndef copy():\n    return netsor.nothing\n", [":3", "AttributeError"]),
    ],
)
def test_files_without_a_program(write: Any, text: str, says: list[str]) -> None:
    path = write(text)
    with pytest.raises(IllFormed) as error:
        load(path, {})
    assert error.value.code == "NS310"
    assert error.value.place.startswith(str(path))
    assert error.value.repair
    for words in says:
        assert words in str(error.value)


def test_a_missing_file_lists_the_programs(tmp_path: Path) -> None:
    for path in (tmp_path / "no_such_file.py", tmp_path / "attention.py", "no_such_file", "", tmp_path):
        with pytest.raises(IllFormed, match="NS310") as error:
            load(path, {})
        assert ", ".join(PROGRAMS) in error.value.repair


def test_a_file_that_is_not_python(write: Any) -> None:
    with pytest.raises(IllFormed, match="Python code"):
        load(write("y: 3", "program.yaml"), {})
    with pytest.raises(IllFormed, match="NS310"):
        load(write("PK\x03\x04\x00\x01", "program.py"), {})


def test_errors_of_netsor_pass_unchanged(write: Any) -> None:
    for text in ("from netsor import *\nmatrix('W') @ 'x'\n", "from netsor import *\ndef copy():\n    matrix('W') @ 'x'\n"):
        with pytest.raises(IllFormed, match="NS309"):
            load(write(text), {})
