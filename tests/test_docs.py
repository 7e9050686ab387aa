"""Every Python block of the documentation runs, prints what it says, or is refused with the code of its section."""

import doctest
import math
import re
import shlex
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from netsor import NetsorError, Program
from netsor.cli import cli, main
from netsor.errors import TITLES

ROOT = Path(__file__).parent.parent


class Block(NamedTuple):
    name: str  # file:line
    section: str  # the heading above it
    code: str


def blocks(path: str) -> list[Block]:
    text = (ROOT / path).read_text(encoding="utf-8")
    headings = [(m.start(), m[1]) for m in re.finditer(r"^#+ (.*)$", text, re.MULTILINE)]
    return [
        Block(
            f"{path}:{text[: m.start()].count(chr(10)) + 1}",
            [title for at, title in headings if at < m.start()][-1],
            m[1],
        )
        for m in re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    ]


NUMBER = re.compile(r"-?\d+(?:\.\d*)?(?:\(\d+\))?(?:e[-+]?\d+)?")
ERRORS = 5  # the false alarm rate of one number is 6e-7


class WithinErrors(doctest.OutputChecker):
    """Numbers agree within the errors they print, those without a bracket within one unit of the last digit; so does
    what another version of numpy draws or rounds. Integers and all other text agree exactly, up to spaces."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        if NUMBER.sub("", want).split() != NUMBER.sub("", got).split():
            return False
        pairs = zip(NUMBER.findall(want), NUMBER.findall(got), strict=True)
        return all(a == b or close(read(a), read(b)) for a, b in pairs)


def read(text: str) -> tuple[float, float]:
    """The number and its error; 0.3916(6) and 2(4)e-05 are written with the error in units of the last digit."""
    mantissa, _, power = text.partition("e")
    digits, _, error = mantissa.partition("(")
    unit = 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))
    exact = "." not in digits and not error and not power
    return float(f"{digits}e{power or 0}"), 0.0 if exact else unit * int(error.rstrip(")") or 1)


def close(a: tuple[float, float], b: tuple[float, float]) -> bool:
    return abs(a[0] - b[0]) <= ERRORS * math.hypot(a[1], b[1])


def run(block: Block, names: dict[str, Any]) -> None:
    if ">>>" not in block.code:
        exec(compile(block.code, block.name, "exec"), names)
        return
    lines: list[str] = []
    test = doctest.DocTestParser().get_doctest(block.code, names, block.name, block.name, 0)
    runner = doctest.DocTestRunner(WithinErrors())
    runner.run(test, out=lines.append, clear_globs=False)
    names |= test.globs  # what a doctest defines the next block may use
    assert runner.failures == 0, "".join(lines)


@pytest.mark.parametrize("page", ["README.md", "docs/expectations.md", "docs/runs.md", "docs/testing.md"])
def test_pages_that_are_one_program(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From top to bottom: each block may use the names of those above it."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "readme"}
    found = blocks(page)
    assert found
    for block in found:
        run(block, names)


def test_the_refusal_in_the_readme(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    with pytest.raises(SystemExit):
        main(["check", "programs/tied_attention.py"])
    shown = f"$ netsor check programs/tied_attention.py\n{capsys.readouterr().out}```"
    assert shown in Path("README.md").read_text(encoding="utf-8")


def test_the_commands_in_the_readme() -> None:
    """The options are those that the commands have."""
    for line in re.findall(r"^\$ netsor (.*)$", Path(ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE):
        name, *arguments = shlex.split(line, comments=True)
        cli.commands[name].make_context(name, arguments)


@pytest.mark.parametrize("block", blocks("docs/language.md"), ids=lambda b: b.name)
def test_language(block: Block) -> None:
    """Each block stands alone."""
    run(block, {"__name__": "language"})


@pytest.mark.parametrize("block", blocks("docs/refusals.md"), ids=lambda b: f"{b.name}-{b.section[:5]}")
def test_refusals(block: Block) -> None:
    """Each block is refused with the code of its section."""
    assert block.section[:5] in refused(block)


def refused(block: Block) -> list[str]:
    """The codes that the block is refused with: as it runs, or in the diagnostics of its program P."""
    names: dict[str, Any] = {"__name__": "refusals"}
    try:
        run(block, names)
    except NetsorError as error:
        return [error.code]
    program = names.get("P")
    return [d.code for d in program.check() if d.severity == "refused"] if isinstance(program, Program) else []


def test_every_code_has_a_section() -> None:
    titles = re.findall(r"^## (NS\d{3}) (.*)$", (ROOT / "docs/refusals.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert {code: title.lower() for code, title in titles} == {code: title.lower() for code, title in TITLES.items()}
