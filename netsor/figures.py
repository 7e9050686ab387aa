"""Laws as curves: densities at each width and in the limit, and the distances between them.

matplotlib is imported when something is drawn, not before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from netsor.numeric.law import Law, Mixture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DEVIATIONS = 5.0  # how far the axis goes: tails, where laws of equal variance differ most
POINTS = 401
LABELS = {"kl": "KL", "ks": "KS", "w1": "W1"}


def densities(name: str, limit: Law, laws: Mapping[int, Law], ax: Axes | None = None) -> Axes:
    """Densities at each width, of the limit (thick), and of the Gaussian with the limit's variance (dashed).

    The scale is logarithmic: a Gaussian is a parabola, and what is not Gaussian leaves it in the tails. Where a law has
    no density the distribution functions are drawn, on a linear scale.
    """
    ax = figure((6, 4.5)).subplots() if ax is None else ax
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
    ax.set_xlabel(name)
    ax.set_ylabel("density" if smooth else "distribution function")
    ax.set_title("exact laws at width n and the limit")
    ax.legend(frameon=False, fontsize="small")
    return ax


def distances(table: Sequence[Mapping[str, Any]], floor: Mapping[int, Mapping[str, float]], ax: Axes | None = None) -> Axes:
    """KL, KS and W1 from the limit against n, with one standard error; dotted: their noise floors."""
    ax = figure((6, 4.5)).subplots() if ax is None else ax
    n = [row["n"] for row in table]
    for key, color, marker in zip(LABELS, ("tab:blue", "tab:orange", "tab:green"), "os^", strict=True):
        values = [row[key] for row in table]
        if None in values:
            continue
        errors = [v.error for v in values]
        ax.errorbar(n, values, errors, color=color, marker=marker, lw=1.4, capsize=3, label=LABELS[key])
        ax.plot(n, [floor[k][key] for k in n], color=color, ls=":", lw=1.2)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set_xticks(n, [str(k) for k in n])
    ax.set_xlabel("width n")
    ax.set_title("distance from the limit (dotted: noise floor)")
    ax.legend(frameon=False, fontsize="small")
    return ax


def figure(size: tuple[float, float]) -> Figure:
    """A figure of its own, unknown to pyplot."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    made = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(made)
    return made


def shades(count: int) -> np.ndarray:
    """Colors from light to dark with growing width."""
    from matplotlib import colormaps

    return np.asarray(colormaps["viridis"](np.linspace(0.85, 0.25, count)))


@dataclass(frozen=True)
class Curve:
    """Points in order; `error` one standard error of y.

    style: "-", "--", ":"; with error bars "o" for points that are joined, "x" for points that are not.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    error: Sequence[float] | None = None
    style: str = "-"
    color: str | None = None  # None: a shade, darker with each curve that has none


@dataclass(frozen=True)
class Panel:
    """Curves on one set of axes. `ticks`: the only places on the x axis that are named."""

    title: str
    xlabel: str
    ylabel: str
    curves: Sequence[Curve]
    xscale: str = "linear"
    yscale: str = "linear"
    ylim: tuple[float, float] | None = None
    ticks: Sequence[float] = ()


def page(panels: Sequence[Panel]) -> Figure:
    """Panels side by side."""
    whole = figure((6.2 * len(panels), 4.6))
    for panel, ax in zip(panels, whole.subplots(1, len(panels), squeeze=False)[0], strict=True):
        draw(panel, ax)
    whole.draw_without_rendering()
    whole.set_layout_engine("none")  # it is laid out once, and written in several formats
    return whole


def draw(panel: Panel, ax: Axes) -> None:
    colors = iter(shades(sum(c.color is None for c in panel.curves)))
    for curve in panel.curves:
        color = next(colors) if curve.color is None else curve.color
        if curve.style in ("o", "x"):
            look: dict[str, Any] = {
                "marker": curve.style,
                "ms": 4.5,
                "lw": 1.2,
                "ls": "-" if curve.style == "o" else "none",
                "capsize": 3,
            }
            ax.errorbar(curve.x, curve.y, curve.error, color=color, label=curve.label or None, **look)
            continue
        thick = curve.color == "black"
        ax.plot(
            curve.x,
            curve.y,
            curve.style,
            color=color,
            lw=2.6 if thick else 1.5,
            zorder=1.5 if thick else 2,
            label=curve.label,
        )
    ax.set_xscale(panel.xscale)
    ax.set_yscale(panel.yscale)
    if panel.ticks:
        ax.set_xticks(panel.ticks, [f"{k:g}" for k in panel.ticks], fontsize="small")
        ax.minorticks_off()
    if panel.ylim is not None:
        ax.set_ylim(*panel.ylim)
    if panel.xscale == "linear":
        ax.margins(x=0)
    ax.set_xlabel(panel.xlabel)
    ax.set_ylabel(panel.ylabel)
    ax.set_title(panel.title, fontsize="medium")
    ax.legend(frameon=False, fontsize="small")
