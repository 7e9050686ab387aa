"""A comparison as a figure: densities at each width and in the limit, and the distances between them."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from netsor.compare import DISTANCES, Comparison
from netsor.numeric.law import Law, Mixture
from netsor.report.files import replacing

DEVIATIONS = 5.0  # how far the axis goes: tails, where laws of equal variance differ most
POINTS = 401
COLORS = matplotlib.colormaps["viridis"]
LABELS = {"kl": "KL", "ks": "KS", "w1": "W1"}


def densities(comparison: Comparison, ax: Axes | None = None) -> Axes:
    """Densities at each width, of the limit (thick), and of the Gaussian with the limit's variance (dashed).

    The scale is logarithmic: a Gaussian is a parabola, and what is not Gaussian leaves it in the tails. Where a law has
    no density the distribution functions are drawn, on a linear scale.
    """
    ax = figure((6, 4.5)).subplots() if ax is None else ax
    limit, laws = comparison.limit, comparison.laws
    smooth = all(isinstance(law, Mixture) and law.variances.all() for law in (limit, *laws.values()))
    spread = max(float(law.variance) for law in (limit, *laws.values())) ** 0.5 or 1.0
    t = float(limit.mean) + spread * np.linspace(-DEVIATIONS, DEVIATIONS, POINTS)

    def curve(law: Law) -> np.ndarray:
        return np.asarray(law.pdf(t) if smooth else law.cdf(t))

    for color, (n, law) in zip(shades(len(laws)), laws.items(), strict=True):
        ax.plot(t, curve(law), color=color, lw=1.4, label=f"n = {n}")
    ax.plot(t, curve(limit), color="black", lw=2.6, label="limit", zorder=1.5)
    if limit.variance > 0:
        gaussian = curve(limit.gaussian())
        ax.plot(t, gaussian, color="tab:red", lw=1.4, ls="--", label="Gaussian of equal variance")
        if smooth:
            ax.set_yscale("log")
            ax.set_ylim(gaussian.min() / 3, 2 * max(float(curve(law).max()) for law in (limit, *laws.values())))
    ax.set_xlim(t[0], t[-1])
    ax.set_xlabel(comparison.name)
    ax.set_ylabel("density" if smooth else "distribution function")
    ax.set_title("exact laws at width n and the limit")
    ax.legend(frameon=False, fontsize="small")
    return ax


def distances(comparison: Comparison, ax: Axes | None = None) -> Axes:
    """KL, KS and W1 from the limit against n, with one standard error; dotted: their noise floors."""
    ax = figure((6, 4.5)).subplots() if ax is None else ax
    n = [row["n"] for row in comparison.table]
    for key, color, marker in zip(DISTANCES, ("tab:blue", "tab:orange", "tab:green"), "os^", strict=True):
        values = [row[key] for row in comparison.table]
        if None in values:
            continue
        errors = [v.error for v in values]
        ax.errorbar(n, values, errors, color=color, marker=marker, lw=1.4, capsize=3, label=LABELS[key])
        ax.plot(n, [comparison.floor[k][key] for k in n], color=color, ls=":", lw=1.2)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set_xticks(n, [str(k) for k in n])
    ax.set_xlabel("width n")
    ax.set_title("distance from the limit (dotted: noise floor)")
    ax.legend(frameon=False, fontsize="small")
    return ax


def save(comparison: Comparison, path: str | Path) -> None:
    """Both panels in one file, of the format of its suffix: png, pdf, svg."""
    page = figure((12, 4.5))
    left, right = page.subplots(1, 2)
    densities(comparison, left)
    distances(comparison, right)
    with replacing(Path(path)) as temporary:
        page.savefig(temporary, dpi=150)


def figure(size: tuple[float, float]) -> Figure:
    """A figure of its own, unknown to pyplot."""
    made = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(made)
    return made


def shades(count: int) -> np.ndarray:
    """Colors from light to dark with growing width."""
    return COLORS(np.linspace(0.85, 0.25, count))
