"""Beside the paper's experiments: tails and their bound, attention in numbers, exact moments at width n."""

from __future__ import annotations

import re
from math import log, sqrt
from typing import Any

import numpy as np

from netsor.errors import Numerical
from netsor.figures import Curve, Panel
from netsor.limit import one_member
from netsor.numeric.estimate import Estimate
from netsor.report.measures import Options, Tick, at_width, numbers, plain, program
from netsor.report.page import Table
from netsor.report.views import Result, View, apart, listed, read, verb
from netsor.symbolic.exact import finite_moment

# ---- tails


def tails(options: Options, seed: int, tick: Tick) -> dict[str, Any]:
    """P(|y| > t) in the limit, and the bound by the variance proxy; the same question to linear attention."""
    t = np.linspace(0, options["far"], 121)
    out: dict[str, Any] = {"t": [float(v) for v in t], "rows": [], "tails": {}}
    for H in options["heads"]:
        law = program("attention", {"heads": H}).limit().law("y", i=0, runs=options["limit_runs"], rng=seed)
        proxy = law.variance_proxy
        tail = 2 * (1 - np.asarray(law.cdf(t)))
        out["tails"][str(H)] = [float(v) for v in tail]
        bound = proxy.bound(t)
        out["bound"] = [float(v) for v in bound]
        ratio = float((tail / bound)[bound < 1].max())
        out["rows"].append(numbers(law, H=H, proxy=float(proxy), argument=list(proxy.steps), ratio=ratio))
        tick(f"H = {H}")
    law = program("linear_attention", {}).limit().law("y", i=0, runs=options["limit_runs"], rng=seed)
    try:
        out["linear"] = numbers(law, proxy=float(law.variance_proxy), why="")
    except Numerical as refusal:
        out["linear"] = numbers(law, proxy=None, why=refusal.hypothesis)
    return out


def show_tails(r: Result) -> View:
    rows = [
        [w["H"], read(w["variance"]), round(w["proxy"], 6), read(w["excess_kurtosis"]), f"{w['ratio']:.2g}"] for w in r["rows"]
    ]
    linear, four = r["linear"], read(r["linear"]["excess_kurtosis"])
    rows.append(["linear attention, H = 1", read(linear["variance"]), linear["proxy"], four, None])
    table = Table(["H", "variance", "variance proxy", "excess kurtosis", "largest tail / bound"], rows)
    proxies = dict.fromkeys(f"{w['proxy']:.6g}" for w in r["rows"])
    holds = all(w["ratio"] <= 1 for w in r["rows"])
    sentences = [
        f"The variance proxy of y is {listed(proxies)} for H = {listed(w['H'] for w in r['rows'])}, by structure: "
        f"{'; '.join(r['rows'][0]['argument'])}.",
        f"The bound 2 exp(-t²/(2v)) {'holds' if holds else 'does not hold'} at every t that is drawn; where it is below 1 the "
        f"exact tail is at most {max(w['ratio'] for w in r['rows']):.2g} of it.",
        f"For linear attention {'no proxy is claimed' if linear['proxy'] is None else 'there is one'}: {linear['why']}. "
        f"Its excess kurtosis is {four}.",
    ]
    curves = [Curve(f"P(|y₁| > t), H = {H}", r["t"], y) for H, y in r["tails"].items()]
    curves.append(Curve("2 exp(-t²/(2v))", r["t"], r["bound"], None, "--", "tab:red"))
    return View([Panel("tails and their bound", "t", "probability", curves, yscale="log", ylim=(1e-7, 2))], [table], sentences)


# ---- attention in numbers


SHOWN = ("squares", "participation", "entropy", "V", "before", "after")


def observables(options: Options, seed: int, tick: Tick) -> dict[str, Any]:
    """Means over runs of the observables, one setting at a time; Var V is Cov(y_1², y_2²) for two coordinates of y."""
    out: dict[str, Any] = {"sweeps": {}}
    for name, values in options["sweeps"].items():
        rows = []
        for value in values:
            P = program("attention_observables", {name: value})
            L = P.limit()
            row: dict[str, Any] = {"value": value}
            for shown in SHOWN:
                law = L.law(shown, runs=options["limit_runs"], rng=seed, **{i.name: 0 for i in P[shown].free})
                row[shown] = plain(law.mean)
                if shown == "V":
                    row["VarV"] = plain(law.variance)
            rows.append(row)
            tick(f"{name} = {value}")
        out["sweeps"][name] = rows
    y = program("attention_observables", {}).limit().sample(options["draws"], names=["y"], coordinates=2, rng=seed)["y"][0]
    one, two = y.T
    out["correlation"] = mean_of(one * two)
    out["squares"] = mean_of((one**2 - (one**2).mean()) * (two**2 - (two**2).mean()))
    return out


def mean_of(x: np.ndarray) -> list[float]:
    return [float(x.mean()), float(x.std(ddof=1) / sqrt(len(x)))]


def show_observables(r: Result) -> View:
    columns = ["setting", "Σ A²", "participation", "entropy", "E V", "Var V", "token correlation before", "after"]
    keys = ("squares", "participation", "entropy", "V", "VarV", "before", "after")
    rows = [[f"{name} = {row['value']}", *(read(row[k]) for k in keys)] for name, sweep in r["sweeps"].items() for row in sweep]
    base = r["sweeps"]["beta"][0]
    base = next((row for row in r["sweeps"]["beta"] if row["value"] == 1), base)
    before, after, plane, cov = read(base["before"]), read(base["after"]), read(r["correlation"]), read(r["squares"])
    correlated = cov > 5 * cov.error
    first, last = r["sweeps"]["heads"][0], r["sweeps"]["heads"][-1]
    scaled = [Estimate(w["value"] * w["VarV"][0], w["value"] * w["VarV"][1]) for w in (first, last)]
    collapse = after - before > 5 * max(after.error, before.error)
    sentences = [
        f"The correlation of two tokens is {before} before attention and {after} after it: "
        f"attention {'draws tokens together' if collapse else 'does not draw tokens together'}.",
        f"Two coordinates of y {verb(apart(plane, Estimate(0.0)), 'are')} correlated ({plane}), and their squares "
        f"{verb(correlated, 'are')} (covariance {cov} from draws, Var V = {read(base['VarV'])}).",
        f"Var V {'falls' if not apart(*scaled) else 'does not fall'} like 1/H: H Var V is {scaled[0]} at H = {first['value']} "
        f"and {scaled[1]} at H = {last['value']}.",
    ]
    beta, tokens = r["sweeps"]["beta"], r["sweeps"]["tokens"]

    def line(label: str, sweep: Any, key: str, color: str, scale: Any = lambda row: 1.0) -> Curve:
        y, e = zip(*((row[key][0] / scale(row), row[key][1] / scale(row)) for row in sweep), strict=True)
        return Curve(label, [row["value"] for row in sweep], y, e, "o", color)

    panels = [
        Panel(
            "against inverse temperature, four tokens",
            "β",
            "mean over scores",
            [
                line("Σ A²", beta, "squares", "tab:blue"),
                line("entropy / log s", beta, "entropy", "tab:orange", lambda row: log(4)),
                line("token correlation after", beta, "after", "tab:green"),
            ],
            xscale="log",
            ticks=[row["value"] for row in beta],
        ),
        Panel(
            "against the number of tokens",
            "s",
            "mean over scores",
            [
                line("Σ A²", tokens, "squares", "tab:blue"),
                line("entropy / log s", tokens, "entropy", "tab:orange", lambda row: log(row["value"])),
                line("token correlation after", tokens, "after", "tab:green"),
                line("participation / s", tokens, "participation", "tab:red", lambda row: row["value"]),
            ],
            xscale="log",
            ticks=[row["value"] for row in tokens],
        ),
    ]
    return View(panels, [Table(columns, rows)], sentences)


# ---- exact moments


def exact(options: Options, seed: int, tick: Tick) -> dict[str, Any]:
    """Moments of scores over Gaussian tokens as rational functions of n, beside exact laws at width n and the limit."""
    P = program("transformer_block", {"heads": 1})
    out: dict[str, Any] = {"rows": []}
    for j in (0, 1):
        term = one_member("p", P["p"], {"a": 0, "i": 0, "j": j})
        law = P.limit().law("p", a=0, i=0, j=j, rng=seed)
        found = {n: at_width(term, n, options["runs"], seed + n) for n in options["widths"]}
        for power in options["powers"]:
            formula = finite_moment(term, power)
            (n,) = formula.free_symbols or {None}
            row: dict[str, Any] = {"score": ("p₁₁", "p₁₂")[j], "power": power, "formula": str(formula)}
            row["limit"] = [float(formula.limit(n, "oo") if n is not None else formula), float(law.moment(power))]
            far = options["widths"][-1]
            ticks = [round(2 ** (k / 2)) for k in range(6, 2 * far.bit_length() - 1)]
            row["curve"] = [[k, float(formula.subs(n, k) if n is not None else formula)] for k in ticks]
            row["widths"] = [
                {"n": k, "exact": float(formula.subs(n, k) if n is not None else formula), "simulated": plain(at.moment(power))}
                for k, at in found.items()
            ]
            out["rows"].append(row)
            tick(f"p₁{j + 1}, power {power}")
    return out


POWERS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def power(base: str, k: int) -> str:
    return base + str(k).translate(POWERS)


def formula(text: str) -> str:
    """A product of sympy as it is written by hand."""
    return re.sub(r"\*\*(\d+)", lambda m: m[1].translate(POWERS), text).replace("*", " ")


def show_exact(r: Result) -> View:
    rows, gaps, same = [], [], []
    for row in r["rows"]:
        moment, text = f"E {power(row['score'], row['power'])}", formula(row["formula"])
        for w in row["widths"]:
            value = read(w["simulated"])
            gap = (value - w["exact"]) / value.error if value.error else 0.0
            gaps.append(abs(gap))
            rows.append([moment, text, w["n"], f"{w['exact']:.8g}", value, f"{gap:.1f}"])
        same.append(abs(row["limit"][0] - row["limit"][1]) < 1e-9)
    table = Table(["moment", "exactly", "n", "value", "simulated", "standard errors apart"], rows)
    first, limits = r["rows"][0], [[f"{row['limit'][k]:g}" for row in r["rows"]] for k in (0, 1)]
    sentences = [
        f"E {power(first['score'], first['power'])} = {formula(first['formula'])}. All {len(gaps)} simulated moments are "
        f"within {max(gaps):.1f} standard errors of the formulas, which {verb(max(gaps) < 5)} what chance explains.",
        f"The limits of the formulas {verb(all(same), 'are')} the moments of the limit law: "
        f"{listed(limits[0])} beside {listed(limits[1])}.",
    ]
    curves, drawn = [], [row for row in r["rows"] if min(y for _, y in row["curve"]) > row["limit"][0]]
    for row, color in zip(drawn, ("tab:blue", "tab:orange", "tab:green", "tab:red", "tab:purple"), strict=False):
        x, y = zip(*row["curve"], strict=True)
        whole = row["limit"][0]
        curves.append(Curve(f"E {power(row['score'], row['power'])}", x, [v / whole - 1 for v in y], None, "-", color))
        points = [w for w in row["widths"] if w["simulated"][0] > whole]
        simulated = [w["simulated"][0] / whole - 1 for w in points]
        curves.append(Curve("", [w["n"] for w in points], simulated, [w["simulated"][1] / whole for w in points], "x", color))
    ticks = [w["n"] for w in r["rows"][0]["widths"]]
    title = "exact moments (lines), simulated ones (crosses)"
    panel = Panel(title, "width n", "E pᵏ / limit - 1", curves, "log", "log", ticks=ticks)
    return View([panel], [table], sentences)
