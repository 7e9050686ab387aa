"""A comparison as a page of figures."""

from __future__ import annotations

from pathlib import Path

from netsor.comparison import Comparison
from netsor.figures import densities, distances, figure
from netsor.report.files import replacing


def save(comparison: Comparison, path: str | Path) -> None:
    """Both panels in one file, of the format of its suffix: png, pdf, svg."""
    page = figure((12, 4.5))
    left, right = page.subplots(1, 2)
    densities(comparison.name, comparison.limit, comparison.laws, left)
    distances(comparison.table, comparison.floor, right)
    with replacing(Path(path)) as temporary:
        page.savefig(temporary, dpi=150)
