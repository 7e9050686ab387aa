"""A sweep as a table, a CSV file and a figure."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from netsor.figures import figure, shades
from netsor.loading import number_of
from netsor.report.files import replacing
from netsor.sweep import Row


def table(rows: Sequence[Row]) -> str:
    """Columns under the names of settings and observables; None is the limit, or what a law does not have."""
    keys = list(rows[0])
    cells = [
        [k, *("limit" if k == "width" and r[k] is None else "-" if r[k] is None else str(r[k]) for r in rows)] for k in keys
    ]
    padded = [[cell.rjust(max(map(len, column))) for cell in column] for column in cells]
    return "\n".join("  ".join(line) for line in zip(*padded, strict=True))


def save_csv(rows: Sequence[Row], path: Path) -> None:
    """One line a setting; each observable has a column for its standard error. Numbers to the last bit."""
    lines = []
    for row in rows:
        line: dict[str, Any] = {}
        for key, value in row.items():
            name = key.replace(" ", "_")
            if key == "width":
                line[name] = "oo" if value is None else value
            elif isinstance(value, float) or value is None:
                line[name] = "" if value is None else repr(float(value))
                line[f"{name}_error"] = "" if value is None else repr(float(getattr(value, "error", 0.0)))
            else:
                line[name] = value
        lines.append(line)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    with replacing(path) as temporary:
        temporary.write_text(text.getvalue(), encoding="utf-8")


def save_figure(rows: Sequence[Row], settings: Sequence[str], observables: Sequence[str], path: Path) -> None:
    """A panel for each observable against the first setting, a line for each combination of the others, with error bars."""
    page = figure((5.5 * len(observables), 4.2))
    axis = next((s for s in settings if len({r[s] for r in rows}) > 1), settings[0] if settings else "width")
    others = [k for k in (*settings, "width") if k != axis and len({r[k] for r in rows}) > 1]
    lines = list(dict.fromkeys(tuple(r[k] for k in others) for r in rows))
    places = list(dict.fromkeys(r[axis] for r in rows))
    numbers = [number_of(str(p)) for p in places]
    x = {p: k if None in numbers else float(number or 0) for k, (p, number) in enumerate(zip(places, numbers, strict=True))}
    for panel, key in zip(page.subplots(1, len(observables), squeeze=False)[0], observables, strict=True):
        for color, line in zip(shades(len(lines)), lines, strict=True):
            mine = [r for r in rows if tuple(r[k] for k in others) == line and r[key] is not None]
            label = ", ".join(f"{k} = {'oo' if v is None else v}" for k, v in zip(others, line, strict=True))
            at, values = [x[r[axis]] for r in mine], [float(r[key]) for r in mine]
            errors = [r[key].error for r in mine]
            panel.errorbar(at, values, errors, color=color, marker="o", capsize=3, label=label or None)
        panel.set_xticks(list(x.values()), [str(p) for p in places])
        panel.set_xlabel(axis)
        panel.set_ylabel(key)
        if others:
            panel.legend(frameon=False, fontsize="small")
    with replacing(path) as temporary:
        page.savefig(temporary, dpi=150)
