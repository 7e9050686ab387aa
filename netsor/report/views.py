"""What the report says of a result: figures, tables, and sentences whose numbers and verdicts are read off the result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import hypot, sqrt
from statistics import mean, stdev
from typing import Any

from netsor.figures import Curve, Panel
from netsor.numeric.estimate import Estimate
from netsor.report.page import Table

Result = Mapping[str, Any]


@dataclass(frozen=True)
class View:
    """Panels of one figure, tables, and sentences."""

    panels: Sequence[Panel]
    tables: Sequence[Table]
    sentences: Sequence[str]


Show = Callable[[Result], View]


# ---- reading results


def read(value: Sequence[float] | None) -> Estimate:
    return Estimate(float("nan")) if value is None else Estimate(value[0], value[1])


def apart(x: Estimate, y: Estimate, errors: float = 5.0) -> bool:
    """Do two numbers differ by more than so many standard errors?"""
    return abs(x - y) > errors * hypot(x.error, y.error)


def verb(truth: bool, verb: str = "is") -> str:
    return verb if truth else f"{verb} not"


def listed(items: Iterable[Any]) -> str:
    return ", ".join(map(str, items))


def count(x: float) -> str:
    """Two figures: 40,000, or 4.6e+07."""
    return f"{float(f'{x:.2g}'):,.0f}" if x < 1e6 else f"{x:.2g}"


def spread(values: Sequence[float]) -> Estimate:
    """A mean over seeds, and the deviation of one seed."""
    return Estimate(mean(values), stdev(values) if len(values) > 1 else float("inf"))


def density_panels(name: str, title: str, t: Sequence[float], curves: Mapping[str, Sequence[float]], plot: Any) -> list[Panel]:
    """The densities, and the tails on a logarithmic scale. `plot(label)`: style and color of a curve."""
    made = [Curve(label, t, y, None, *plot(label)) for label, y in curves.items()]
    peak = max(max(c.y) for c in made)
    return [
        Panel(title, name, "density", made),
        Panel(f"{title}: tails", name, "density", made, yscale="log", ylim=(peak * 2e-6, peak * 2)),
    ]


def usual(label: str) -> tuple[str, str | None]:
    return {"limit": ("-", "black"), "Gaussian": ("--", "tab:red"), "H = ∞": ("--", "tab:red")}.get(label, ("-", None))


# ---- the experiments


def densities(r: Result) -> View:
    limit, kl = r["limit"], read(r["kl_gaussian"])
    kurtosis, last = read(limit["excess_kurtosis"]), r["widths"][-1]
    rows = [
        [w["n"], w["runs"], read(w["variance"]), read(w["excess_kurtosis"]), read(w["kl"]), f"{w['floor']:.1g}"]
        for w in r["widths"]
    ]
    rows += [
        ["limit", None, read(limit["variance"]), kurtosis, None, None],
        ["Gaussian", None, read(limit["variance"]), 0, kl, None],
    ]
    table = Table(["n", "runs", "variance", "excess kurtosis", "KL(· ‖ limit); last row KL(limit ‖ ·)", "floor of KL"], rows)
    nearer = read(last["kl"]) < kl
    visible = kurtosis > 5 * kurtosis.error
    draws = 24 * (5 / kurtosis) ** 2 if kurtosis > 0 else float("inf")
    sentences = [
        f"At n = {last['n']} the law {verb(nearer)} nearer to its limit (KL {read(last['kl'])}) than the limit is to the "
        f"Gaussian of equal variance (KL {kl}).",
        f"The limit {verb(visible)} resolved from a Gaussian by this run: its excess kurtosis is {kurtosis}. To see that at "
        f"five standard errors from draws alone takes about {count(draws)} of them.",
    ]
    order = list(r["curves"])
    curves = {k: r["curves"][k] for k in [*(k for k in order if k not in ("limit", "Gaussian")), "limit", "Gaussian"]}
    return View(density_panels("y₁ of the first token", "width n beside the limit", r["t"], curves, usual), [table], sentences)


def divergence(r: Result) -> View:
    kernel = {k: spread(v) for k, v in r["kde"].items()}
    floor = kernel["floor"]
    rows = []
    for row in r["rows"]:
        kde = kernel.get(str(row["n"]))
        rows.append([row["n"], row["runs"], read(row["kl"]), f"{row['floor']:.1g}", None if kde is None else kde])
    rows.append(["limit against itself", None, None, None, floor])
    table = Table(["n", "runs", "calibrated KL", "its floor", f"KDE recipe, {r['samples']} draws, {r['seeds']} seeds"], rows)
    widths = sorted(int(k) for k in kernel if k != "floor")
    seen = [n for n in widths if kernel[str(n)] > floor + 2 * hypot(floor.error, kernel[str(n)].error)]
    lost = [n for n in widths if n not in seen]
    s, (lo, hi), kl = read(r["slope"]), r["slope_between"], read(r["kl_gaussian"])
    last, end = r["rows"][-1], read(r["rows"][-1]["kl"])
    sentences = [
        f"The slope of log KL against log n between n = {lo} and {hi} is {s}, which {verb(abs(s + 2) <= 0.1)} -2 within 0.1 "
        f"(and {verb(abs(s + 2) <= 3 * s.error)} -2 within three standard errors).",
        f"Two samples of {r['samples']} draws of the limit itself give {floor} by the KDE recipe: that is its floor. "
        + (f"One seed resolves the law at n = {listed(seen)} from the limit" if seen else "One seed resolves no width")
        + (f"; at n = {listed(lost)} the curve is its own noise." if lost else "; no width is lost in it."),
        f"KL(limit ‖ Gaussian of equal variance) = {kl}, which {verb(kl < floor)} below the floor of the recipe.",
        f"By the calibrated estimate KL at n = {last['n']} is {end}, which {verb(end > max(3 * end.error, last['floor']))} "
        f"resolved from 0 (three standard errors, and its floor {last['floor']:.1g}).",
    ]
    n, recipe = [row["n"] for row in r["rows"]], [kernel[str(k)] for k in widths]
    curves = [
        Curve("calibrated KL", n, [row["kl"][0] for row in r["rows"]], [row["kl"][1] for row in r["rows"]], "o", "tab:blue"),
        Curve("floor of the calibrated KL", n, [row["floor"] for row in r["rows"]], None, ":", "tab:blue"),
        Curve("KDE recipe", widths, recipe, [v.error for v in recipe], "o", "tab:orange"),
        Curve("floor of the KDE recipe", [n[0], n[-1]], [floor, floor], None, ":", "tab:orange"),
        Curve("KL(limit ‖ Gaussian)", [n[0], n[-1]], [kl, kl], None, "--", "tab:red"),
    ]
    first = next((row for row in r["rows"] if row["n"] >= lo), r["rows"][0])
    line = [first["kl"][0] * (first["n"] / k) ** 2 for k in n]
    curves.append(Curve("slope -2", n, line, None, "-", "lightgray"))
    panel = Panel("distance from the limit", "width n (logarithmic)", "KL", curves, "log", "log", None, n)
    return View([panel], [table], sentences)


def scores(r: Result) -> View:
    n, root, inverse = r["n"], r["root"], r["inverse"]
    rows = [
        [f"1/√n, n = {n}", read(root["variance"]), read(root["excess_kurtosis"]), read(root["ks"])],
        ["1/√n, limit", read(r["limit"]["variance"]), read(r["limit"]["excess_kurtosis"]), None],
        [f"1/n, n = {n}", read(inverse["variance"]), read(inverse["excess_kurtosis"]), read(inverse["ks"])],
        ["1/n, limit: a constant", read(r["inverse_limit"]["variance"]), None, None],
    ]
    table = Table(["score p₁₁", "variance", "excess kurtosis", "KS distance from its limit"], rows)
    v, w, limit = read(root["variance"]), read(inverse["variance"]), read(r["limit"]["variance"])
    constant = float(read(r["inverse_limit"]["variance"])) == 0.0
    sentences = [
        f"Under 1/√n the score at n = {n} has variance {v} beside {limit} in the limit: "
        f"it {'stays' if limit > 0 else 'does not stay'} random.",
        f"Under 1/n it has variance {w}, that is {Estimate(n * w, n * w.error)} / n, and its limit "
        f"{verb(constant)} a constant, {read(r['inverse_limit']['value'])}.",
        f"The law at n = {n} under 1/√n {verb(read(root['kl']) > 5 * read(root['kl']).error)} resolved from its limit: "
        f"KL {read(root['kl'])}, excess kurtosis {read(root['excess_kurtosis'])}.",
    ]
    plot = {"limit": ("-", "black"), "1/√n": ("-", "tab:blue"), "1/n": ("-", "tab:orange")}
    names = {"limit": "limit of 1/√n", "1/√n": f"1/√n, n = {n}", "1/n": f"1/n, n = {n} (KDE)"}
    made = [Curve(names[k], r["t"], y, None, *plot[k]) for k, y in r["curves"].items()]
    few = [c for c in made if not c.label.startswith("1/n,")]
    panels = [
        Panel("score under 1/√n and 1/n", "p₁₁", "density", made),
        Panel("score under 1/√n: tails", "p₁₁", "density", few, yscale="log", ylim=(1e-5, 1)),
    ]
    return View(panels, [table], sentences)


def heads(r: Result) -> View:
    n = r["n"]
    rows = [
        [
            row["H"],
            read(row["variance"]),
            read(row["excess_kurtosis"]),
            read(row["scaled"]),
            read(row["kl_gaussian"]),
            read(row["at_n"]["variance"]),
            read(row["at_n"]["excess_kurtosis"]),
        ]
        for row in r["rows"]
    ]
    infinite = r["infinite"]
    rows.append(["∞", read(infinite["variance"]), read(infinite["excess_kurtosis"]), None, None, None, None])
    columns = ["H", "limit: variance", "excess kurtosis", "times H", "KL to the Gaussian"]
    table = Table([*columns, f"n = {n}: variance", "excess kurtosis"], rows)
    worst = max(read(row["excess_kurtosis"]).error / read(row["excess_kurtosis"]) for row in r["rows"])
    one, first = read(r["rows"][0]["scaled"]), r["rows"][0]
    law = [not apart(read(row["scaled"]), one) for row in r["rows"]]
    equal = all(not apart(read(row["variance"]), read(infinite["variance"])) for row in r["rows"])
    kurtosis, kl, deep = (read(v) for v in (first["excess_kurtosis"], first["kl_gaussian"], r["deep"]["excess_kurtosis"]))
    gaps = [read(row["at_n"]["excess_kurtosis"]) - read(row["excess_kurtosis"]) for row in r["rows"]]
    sentences = [
        f"In the limit H times the excess kurtosis {verb(all(law))} the same for H = {listed(w['H'] for w in r['rows'])}: "
        f"{listed(read(row['scaled']) for row in r['rows'])}; the largest relative error is {worst:.1%}.",
        f"The limit's variance {verb(equal)} the same for all H, and that of infinitely many heads.",
        f"At n = {n} the excess kurtosis is {listed(read(row['at_n']['excess_kurtosis']) for row in r['rows'])}: the limit's "
        f"and {listed(f'{g * n:.0f}/n' for g in gaps)}, the effect of the width.",
        f"Kurtosis {verb(kurtosis / sqrt(24 / 50_000) > 5)} a witness at 50,000 draws (H = {first['H']}: {kurtosis}, "
        f"{kurtosis / sqrt(24 / 50_000):.1f} standard errors); KL to the Gaussian is {kl}.",
        f"Scores of a second layer are {'a' if deep > kurtosis else 'no'} sharper witness: excess kurtosis {deep}, KL to "
        f"the Gaussian of equal variance {read(r['deep']['kl_gaussian'])} (programs/two_layers.py).",
    ]
    colors = dict(zip([row["H"] for row in r["rows"]], ("tab:blue", "tab:gray", "tab:green"), strict=False))
    kept = (r["rows"][0]["H"], r["rows"][-1]["H"])

    def plot(label: str) -> tuple[str, str]:
        if label == "H = ∞":
            return "--", "tab:red"
        return (":" if "limit" not in label else "-"), colors[int(label.split(",")[0][4:])]

    curves = {k: y for k, y in r["curves"].items() if k != "H = ∞" and int(k.split(",")[0][4:]) in kept}
    curves["H = ∞"] = r["curves"]["H = ∞"]
    return View(density_panels("y₁ of the first token", "heads", r["t"], curves, plot), [table], sentences)


def low_rank(r: Result) -> View:
    wide, rank = read(r["wide"]["variance"]), r["rank"]
    rows = [
        [
            row["H"],
            row["n"],
            *(read(v) for x in (row["at_n"], row) for v in (x["variance"], x["excess_kurtosis"])),
            read(row["kl"]),
        ]
        for row in r["rows"]
    ]
    columns = ["H", "n", "variance at n", "excess kurtosis at n", "limit: variance", "limit: excess kurtosis", "KL from it"]
    small = [[w["rank"], w["H"], read(w["variance"]), read(w["gap"]), read(w["excess_kurtosis"])] for w in r["small"]]
    small.append(["wide", None, wide, None, read(r["wide"]["excess_kurtosis"])])
    kurtosis = [[w["rank"], read(w["excess_kurtosis"]), round(6 / w["rank"], 4)] for w in r["scores"]]
    tables = [
        Table(columns, rows),
        Table(["n_H", "H", "limit: variance", "gap to wide, relative, times n_H", "excess kurtosis"], small),
        Table(["n_H", "score: excess kurtosis", "6/n_H"], kurtosis),
    ]
    many = max(w["H"] for w in r["small"])
    gaps = {w["rank"]: read(w["gap"]) for w in r["small"] if w["H"] == many}
    far = {k: g for k, g in gaps.items() if abs(g) > 3 * g.error}
    big = read(r["rows"][0]["variance"])
    resolved = abs(big - wide) > 3 * hypot(big.error, wide.error)
    six = all(not apart(read(w["excess_kurtosis"]), Estimate(6 / w["rank"])) for w in r["scores"])
    sentences = [
        f"With n_H fixed the limit {verb(len(far) == len(gaps))} another one than that of wide heads: the relative gap of the "
        f"variance times n_H is {listed(f'{g} at n_H = {k}' for k, g in gaps.items())}.",
        f"n_H = {rank} {'shows' if resolved else 'does not show'} it: its variance at H = {r['rows'][0]['H']}, {big}, "
        f"{verb(resolved)} resolved from {wide} (three standard errors).",
        f"The score of a head of fixed dimension {'has' if six else 'does not have'} excess kurtosis 6/n_H: "
        f"{listed(read(w['excess_kurtosis']) for w in r['scores'])} at n_H = {listed(w['rank'] for w in r['scores'])}.",
    ]
    colors = dict(zip([row["H"] for row in r["rows"]], ("tab:blue", "tab:orange", "tab:green"), strict=False))

    def plot(label: str) -> tuple[str, str]:
        if label == "Gaussian":
            return "--", "tab:red"
        return (":" if "limit" not in label else "-"), colors[int(label.split(",")[0][4:])]

    panels = density_panels("y₁ of the first token", f"heads of dimension {rank}", r["t"], r["curves"], plot)[1:]
    points = [w for w in r["small"] if w["H"] == many]
    x, y = [w["rank"] for w in points], [read(w["gap"]) for w in points]
    curve = Curve(f"H = {many}", x, y, [v.error for v in y], "o", "tab:blue")
    panels.append(Panel("gap to the wide head", "n_H", "relative gap of the variance × n_H", [curve], "log", ticks=x))
    return View(panels, tables, sentences)
