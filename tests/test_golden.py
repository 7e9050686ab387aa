"""The listing and the printed limit, or the refusal, of every program in programs/, as golden texts.

`python tests/test_golden.py` writes tests/golden/ anew. Read the difference before you commit it: a golden text is right
because somebody checked its formulas, not because the code prints it.
"""

from pathlib import Path

import pytest

from netsor.errors import OutsideTheorem
from netsor.loading import load

GOLDEN = Path(__file__).parent / "golden"
PROGRAMS = {file.stem: file for file in sorted((Path(__file__).parents[1] / "programs").glob("*.py"))}


def printed(name: str) -> str:
    """What is printed, with the path of the program as seen from the root of the repository."""
    file = PROGRAMS[name]
    program = load(file, {})
    try:
        limit = str(program.limit())
    except OutsideTheorem as refusal:
        limit = str(refusal)
    return f"{program}\n\n{limit}\n".replace(str(file), f"programs/{file.name}")


@pytest.mark.parametrize("name", PROGRAMS)
def test_printed(name: str) -> None:
    assert printed(name) == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")


def test_every_golden_text_has_a_program() -> None:
    assert {file.stem for file in GOLDEN.iterdir()} == {*PROGRAMS}


if __name__ == "__main__":
    for name in PROGRAMS:
        (GOLDEN / f"{name}.txt").write_text(printed(name), encoding="utf-8")
