"""The attention layer from program to figure, in under a minute: what `netsor demo` shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from netsor.comparison import compare
from netsor.loading import load
from netsor.report import tables
from netsor.report.figures import save

WIDTHS = (16, 64, 256)
LOOK = """\
Look at
  - the score p: random in the limit, and independent of every vector. It does not concentrate, unlike a 1/n score.
  - the output y: Gaussian given p, so not Gaussian. An infinitely wide perceptron would have excess kurtosis 0.
  - the table: variance and kurtosis at width n move to the limit like 1/n, and KL falls like 1/n^2 down to its floor.
  - the figure, on the left: in the tails the laws at width n settle on the limit, not on the dashed Gaussian."""


Advance = Callable[[str, int, int], None]


def demo(folder: Path, progress: Callable[[], AbstractContextManager[Advance]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Sections, each as text and as data, as they are ready. Writes attention.png to the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    program = load("attention", {})
    yield f"THE PROGRAM\n{program}", {"program": program.name, "listing": str(program)}
    limit = program.limit()
    yield f"\nITS LIMIT, DERIVED\n{limit}", {"limit": {name: str(v).splitlines() for name, v in limit.items()}}
    with progress() as advance:
        rows = tables.laws(limit, list(limit), {}, lambda: advance("laws", 1, len(limit)))
    yield f"\nTHE LIMIT, IN NUMBERS\n{tables.table(rows)}", {"laws": rows}
    with progress() as advance:
        comparison = compare(program, "y", i=0, widths=WIDTHS, progress=lambda n, done, runs: advance(f"n = {n}", done, runs))
    figure = folder / "attention.png"
    save(comparison, figure)
    yield (
        f"\nWIDTH n BESIDE THE LIMIT\n{comparison}\n{tables.verdict(comparison)}\n\n{LOOK}\n\nThe figure is {figure}",
        {"comparison": tables.compared(comparison), "figure": str(figure)},
    )
