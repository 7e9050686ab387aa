"""Whatever is written, only a NetsorError escapes: program files with tokens exchanged, files and JSON that are changed
under the guidance of coverage (fuzz.py), and calls with wrong arguments.

A failing example prints as the text of the file, or as the calls made. Findings stand in FILES and FOUND, for good.
"""

import io
import signal
import time
import tokenize
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy
from fuzz import Fuzzer
from hypothesis import given, note, settings
from hypothesis import strategies as st

from netsor import (
    NetsorError,
    Plate,
    Program,
    Width,
    distinct,
    dot,
    functions,
    matrix,
    mean,
    oo,
    param,
    table,
    vector,
)
from netsor.loading import load
from netsor.numeric.estimate import EstimateArray

PROGRAMS = sorted((Path(__file__).parent.parent / "programs").glob("*.py"))
SECONDS = 20  # a program that takes longer is left alone: it is not an exception


class Slow(BaseException):
    """Passes by everything that catches Exception."""


@contextmanager
def bounded() -> Iterator[None]:
    """Ends quietly after so many seconds."""

    def stop(*_: Any) -> None:
        raise Slow

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        with suppress(Slow):
            yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# ------------------------------------------------------------------------------------------------------- program files

OTHERS = [
    "0",
    "1",
    "-1",
    "2",
    "3",
    "1.5",
    "None",
    "True",
    "''",
    "()",
    "[]",
    "oo",
    "=",
    "==",
    "+",
    "-",
    "*",
    "/",
    "**",
    "@",
    "<=",
    "(",
    ")",
    "[",
    "]",
    ",",
    ".",
    ":",
    "lambda",
    "for",
    "in",
    "not",
]
OTHERS += ["relu", "dot", "mean", "softmax", "i", "j", "a", "x", "y"]
KEPT = {getattr(tokenize, kind) for kind in ("INDENT", "DEDENT", "ENDMARKER", "NEWLINE", "NL", "COMMENT", "ENCODING")}


@st.composite
def broken_files(draw: st.DrawFn) -> tuple[str, str]:
    """A program that comes with netsor, with up to four tokens exchanged, doubled or left out."""
    file = draw(st.sampled_from(PROGRAMS))
    tokens = [(t.type, t.string) for t in tokenize.generate_tokens(io.StringIO(file.read_text(encoding="utf-8")).readline)]
    places = [k for k, (kind, text) in enumerate(tokens) if kind not in KEPT and not text.startswith('"""')]
    for _ in range(draw(st.integers(1, 4))):
        k = draw(st.sampled_from(places))
        how = draw(st.sampled_from(["other", "another of the file", "left out", "twice", "exchanged"]))
        kind, text = tokens[k]
        if how == "other":
            tokens[k] = (kind, draw(st.sampled_from(OTHERS)))
        elif how == "another of the file":
            tokens[k] = (kind, tokens[draw(st.sampled_from(places))][1])
        elif how == "exchanged":
            m = draw(st.sampled_from(places))
            tokens[k], tokens[m] = tokens[m], tokens[k]
        else:
            tokens[k] = (kind, "" if how == "left out" else f"{text} {text}")
    return file.stem, tokenize.untokenize(tokens)


def used(path: Path, text: str) -> None:
    """Loaded, checked and printed: what `netsor check` and `netsor derive` do."""
    path.write_text(text, encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with suppress(NetsorError), bounded():
            program = load(path, {})
            assert str(program)
            if all(d.severity != "refused" for d in program.check()):
                assert str(program.limit())


@settings(max_examples=60)
@given(broken_files())
def test_broken_program_files(tmp_path_factory: pytest.TempPathFactory, broken: tuple[str, str]) -> None:
    name, text = broken
    note(text)
    used(tmp_path_factory.mktemp("fuzz") / f"{name}.py", text)


@pytest.mark.nightly
@settings(max_examples=5_000)
@given(broken_files())
def test_many_broken_program_files(tmp_path_factory: pytest.TempPathFactory, broken: tuple[str, str]) -> None:
    name, text = broken
    note(text)
    used(tmp_path_factory.mktemp("fuzz") / f"{name}.py", text)


@settings(max_examples=60)
@given(st.text(max_size=40), st.sampled_from(["attention", "mlp", "gqa"]), st.text(max_size=12))
def test_settings_are_read_and_never_evaluated(value: str, program: str, name: str) -> None:
    for key in ("tokens", "heads", "phi", name):
        with suppress(NetsorError), bounded():
            if len(value) < 4 or not value.isdigit():  # a plate of a million members is legal
                load(program, {key: value})


FILES: dict[str, str] = {
    "deep brackets": "x = " + "(" * 300 + ")" * 300,
    "a deep expression": "x = " + "-" * 20_000 + "1",
    "a null byte": "x = 1\0",
    "a recursion": "def f(): return f()\nf()",
    "an exit": "import sys\nsys.exit(3)",
    "a generator": "def broken():\n    yield 1",
    "a class of the name": "class broken:\n    pass",
    "not a program": "broken = 3",
}


@pytest.mark.parametrize("name", FILES)
def test_files_that_are_no_programs(name: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text(FILES[name], encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(NetsorError) as caught:
            load(path, {})
    assert caught.value.code == "NS310"


# ------------------------------------------------------------------------------------------------- guided by coverage

FOUND: dict[str, str] = {
    "a covariance in the place of a law": "x = vector('x', law=unknown)\nmutant = Program('p', y=2 * x)",
    "infinity in the place of a law": "x = vector('x', law=oo)\nmutant = Program('p', y=2 * x)",
    "a function in the place of a law": "x = vector('x', law=abs)\nmutant = Program('p', y=2 * x)",
    "a member of a name": "mutant = Program('p', y=vector('x', Member('s', 2)))",
    "an index of a name": "mutant = Program('p', y=vector('x', Index('i', 's')))",
    "a law whose moments are a number": "x = vector('x', law=Law('one', 1, 1))\nmutant = Program('p', m=mean(x))",
}


@pytest.mark.parametrize("name", FOUND)
def test_what_guided_fuzzing_found(name: str, tmp_path: Path) -> None:
    finding, _ = Fuzzer().attempt(".py", f"from netsor import *\n{FOUND[name]}", tmp_path, True)
    assert finding is None, finding


@pytest.mark.nightly
def test_guided_fuzzing_finds_nothing() -> None:
    fuzzer = Fuzzer(seed=2).run(steps=3_000)
    assert not fuzzer.findings, "\n".join(f"{f.key}\n{f.text}" for f in fuzzer.findings.values())
    assert fuzzer.kept > 30


PLAIN = "from netsor import *\nx = vector('x')\nmutant = Program('p', x=x, y=relu(x))"


def broken_inside(patch: pytest.MonkeyPatch) -> None:
    """An error of ours while the file is run, which NS310 would hide."""
    patch.setattr("netsor.program.check_names", lambda variables: {}["x"])


def broken_printer(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("netsor.symbolic.printing.Latex.name", lambda self, name: 1 // 0)


def broken_reader(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("netsor.program.variables_of", lambda text, source: ("p", None))


def not_a_number(patch: pytest.MonkeyPatch) -> None:
    value = EstimateArray(np.array(np.nan), np.array(0.0))
    patch.setattr("netsor.limit.Limit._mean", lambda self, term, sampling: value)


def asleep(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("fuzz.SECONDS", 1)
    patch.setattr("netsor.limit.Limit.__str__", lambda self: time.sleep(60))


@pytest.mark.parametrize("mutant", [broken_inside, broken_printer, broken_reader, not_a_number, asleep])
def test_a_mutant_is_found(
    mutant: Callable[[pytest.MonkeyPatch], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Fuzzer().attempt(".py", PLAIN, tmp_path, True)[0] is None
    mutant(monkeypatch)
    assert Fuzzer().attempt(".py", PLAIN, tmp_path, True)[0] is not None


def test_errors_of_the_file_itself_are_not_findings(tmp_path: Path) -> None:
    for text in ("1 / 0", "dot()", "from netsor import *\nelementwise(lambda x: x.y)", "x = [", "Program", "raise KeyError"):
        assert Fuzzer().attempt(".py", text, tmp_path, True)[0] is None
    for text in ("", "3", "{}", '{"netsor": 1}'):
        assert Fuzzer().attempt(".json", text, tmp_path, True)[0] is None


def test_a_text_that_reaches_new_lines_is_kept(tmp_path: Path) -> None:
    fuzzer = Fuzzer()
    fuzzer.attempt(".py", PLAIN, tmp_path, False)
    first = fuzzer.coverage.new
    fuzzer.attempt(".py", PLAIN, tmp_path, False)
    assert first > 100
    assert fuzzer.coverage.new == 0
    fuzzer.attempt(".py", PLAIN.replace("relu(x)", "softmax(x)"), tmp_path, False)
    assert fuzzer.coverage.new > 0


# --------------------------------------------------------------------------------------------------------------- calls

i, j = Plate("token", 3).indices("i j")
a = Plate("head", 2).index("a")
t = sympy.Symbol("t")
FUNCTIONS: list[Callable[..., Any]] = [
    *(getattr(functions, name) for name in functions.__all__),
    *(dot, mean, vector, matrix, table, param, distinct, Plate, Width, Program),
    *(lambda x, y: x @ y, lambda x, y: x[y], lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y, lambda x, y: x / y),
    *(
        lambda x, y: x**y,
        lambda x, y: x <= y,
        lambda x, y: x < y,
        lambda x, y: x & y,
        lambda x: ~x,
        lambda x: -x,
        lambda x: x.T,
    ),
    *(lambda x, y: Program("p", y=x).at(token=y), lambda x: Program("p", y=x).unroll(), lambda x, y: x.indices(y)),
]
VALUES: list[Any] = [
    0,
    1,
    -1,
    2,
    0.5,
    float("nan"),
    float("inf"),
    1j,
    10**30,
    True,
    None,
    "x",
    "i j",
    "",
    (),
    (i, j),
    [1, 2, 3],
    {},
    {i: j},
    object(),
    oo,
    t,
    np.eye(3),
    np.ones(3),
    np.array(["a"]),
    np.zeros(0),
    np.float32(2),
    i,
    j,
    a,
    Plate("token", 3),
    Plate("open"),
    Width("n"),
    vector("x"),
    vector("y", i),
    vector("z", i, a),
    matrix("W"),
    matrix("V", i),
    param("beta"),
    mean(vector("x")),
    i <= j,
    len,
    Plate,
    dot(matrix("Q") @ vector("y", i), matrix("K") @ vector("y", j)),
    table("c", i, values=[1, 2, 3]),
]
NAMED = ("over", "where", "mean", "cov", "sigma", "shape", "width", "values", "eps", "law")


@st.composite
def calls(draw: st.DrawFn) -> list[tuple[int, tuple[int, ...], tuple[tuple[str, int], ...]]]:
    """Functions, with arguments among the values or among what earlier calls gave."""
    size = draw(st.integers(1, 4))
    arguments = st.lists(st.integers(0, len(VALUES) + 2), max_size=3).map(tuple)
    named = st.lists(st.tuples(st.sampled_from(NAMED), st.integers(0, len(VALUES) + 2)), max_size=1).map(tuple)
    return [(draw(st.integers(0, len(FUNCTIONS) - 1)), draw(arguments), draw(named)) for _ in range(size)]


def attempt(made: list[tuple[int, tuple[int, ...], tuple[tuple[str, int], ...]]]) -> None:
    """A Python function that gets too many or unknown arguments raises TypeError, as everywhere: that is not ours."""
    pool = list(VALUES)
    for f, arguments, named in made:
        values = [pool[k % len(pool)] for k in arguments]
        keywords = {name: pool[k % len(pool)] for name, k in named}
        note(f"{FUNCTIONS[f]}(*{values}, **{keywords})")
        with bounded(), suppress(NetsorError):
            try:
                pool.append(FUNCTIONS[f](*values, **keywords))
            except TypeError as error:
                if not ours(error):
                    continue
                raise
            except (AttributeError, ValueError, ZeroDivisionError, OverflowError, IndexError, KeyError) as error:
                if not inside(error):
                    continue  # a method of numpy, sympy or Python
                raise


def ours(error: BaseException) -> bool:
    """Raised inside of netsor, and not by a call with the wrong number of arguments, or of an operator of other objects."""
    return inside(error) and "argument" not in str(error) and "unsupported operand" not in str(error)


def inside(error: BaseException) -> bool:
    trace = error.__traceback__
    files = []
    while trace is not None:
        files.append(trace.tb_frame.f_code.co_filename)
        trace = trace.tb_next
    return any("/netsor/" in file and "/tests/" not in file for file in files)


@settings(max_examples=200)
@given(calls())
def test_calls(made: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        attempt(made)


@pytest.mark.nightly
@settings(max_examples=50_000)
@given(calls())
def test_many_calls(made: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        attempt(made)


def test_an_error_inside_is_told_from_one_outside() -> None:
    with pytest.raises(TypeError) as caught:
        len(3)  # type: ignore[arg-type]
    assert not inside(caught.value)
