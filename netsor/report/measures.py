"""What an experiment of the report measures: a function of programs, options and a seed, whose result is plain data.

Numbers with errors are lists [value, error]. Every law at width n is exact: its last Gaussian source is integrated out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from math import log, sqrt
from typing import Any

import numpy as np

from netsor.comparison import coupled_kl, kurtosis
from netsor.coupling import coupled_limit
from netsor.finite.laws import finite_law
from netsor.ir import Term
from netsor.jobs import LawDrawn
from netsor.limit import one_member
from netsor.loading import load
from netsor.numeric.estimate import Estimate
from netsor.numeric.law import Law, Mixture
from netsor.program import Program
from netsor.report.kde import gaussian_kde, kde_kl
from netsor.simulation import simulate

Result = dict[str, Any]
Options = Mapping[str, Any]
Tick = Callable[[str], None]
Measure = Callable[[Options, int, Tick], Result]

DEVIATIONS, GRID = 5.0, 241
FAST = find_spec("numba") is not None  # compiled arithmetic: the same draws


def program(name: str, settings: Options) -> Program:
    return load(name, {key: str(value) for key, value in settings.items()})


def plain(value: Any) -> Any:
    """A number with its error as [value, error]."""
    return None if value is None else [float(value), float(getattr(value, "error", 0.0))]


def numbers(law: Law, **more: Any) -> Result:
    return {**more, "variance": plain(law.variance), "excess_kurtosis": plain(kurtosis(law))}


def at_width(term: Term, width: int, runs: int, seed: int) -> Law:
    return finite_law(term, width=width, runs=runs, rng=seed, fast=FAST)


def grid(deviation: float, far: float = DEVIATIONS, points: int = GRID) -> np.ndarray:
    return deviation * np.linspace(-far, far, points)


def curve(law: Law, t: np.ndarray) -> list[float]:
    return [float(v) for v in np.asarray(law.pdf(t))]


# ---- the layer at several widths


def densities(options: Options, seed: int, tick: Tick) -> Result:
    """Laws of y[0] at each width beside the limit and the Gaussian of equal variance."""
    P = program(options["program"], options["settings"])
    limit = P.limit().law("y", i=0, runs=options["limit_runs"], rng=seed)
    t = grid(sqrt(limit.variance))
    out: Result = {"t": list(t), "limit": numbers(limit), "curves": {}, "widths": []}
    gaussian = limit.gaussian()
    out["curves"] |= {"limit": curve(limit, t), "Gaussian": curve(gaussian, t)}
    out["kl_gaussian"] = plain(limit.kl(gaussian))
    term = one_member("y", P["y"], {"i": 0})
    for k, n in enumerate(options["widths"]):
        runs = options["runs"]
        law = at_width(term, n, runs, seed + 1 + k)
        out["curves"][f"n = {n}"] = curve(law, t)
        found = coupled_kl(LawDrawn("y", term, n, runs, np.random.SeedSequence(seed + 1 + k), fast=FAST), law)
        kl, floor = found if found is not None else (law.kl(limit), 0.0)
        out["widths"].append(numbers(law, n=n, runs=runs, kl=plain(kl), floor=floor))
        tick(f"n = {n}")
    return out


def divergence(options: Options, seed: int, tick: Tick) -> Result:
    """KL of y[0] at width n from the limit: mixtures driven by the same normals, and by kernel estimates of samples."""
    P = program(options["program"], options["settings"])
    term = one_member("y", P["y"], {"i": 0})
    L = P.limit()
    limit = L.law("y", i=0, runs=options["limit_runs"], rng=seed)
    rows = []
    for k, (n, runs) in enumerate(options["runs"].items()):
        found = coupled_kl(LawDrawn("y", term, int(n), runs, np.random.SeedSequence(entropy=seed, spawn_key=(k,)), fast=FAST))
        assert found is not None
        rows.append({"n": int(n), "runs": runs, "kl": plain(found[0]), "floor": found[1]})
        tick(f"KL at n = {n}")
    samples, seeds = options["samples"], options["seeds"]
    kernel: dict[str, list[float]] = {"floor": [], **{str(n): [] for n in options["kde_widths"]}}
    for k in range(seeds):
        one, two = (limit.sample(samples, np.random.SeedSequence(seed, spawn_key=(2**20, k, half))) for half in (0, 1))
        kernel["floor"].append(kde_kl(two, one))
        for n in options["kde_widths"]:
            draws = simulate(P, width=n, runs=samples, rng=seed + 1000 + k, outputs={"y": {"i": 0}}, fast=FAST)
            kernel[str(n)].append(kde_kl(draws["y"][:, 0], one))
            tick(f"KDE at n = {n}")
    used = [r for r in rows if options["slope"][0] <= r["n"] <= options["slope"][1]]
    out: Result = {"rows": rows, "kde": kernel, "samples": samples, "seeds": seeds, "limit": numbers(limit)}
    out["kl_gaussian"] = plain(limit.kl(limit.gaussian()))
    out["slope"] = plain(slope([r["n"] for r in used], [r["kl"] for r in used]))
    return out | {"slope_between": list(options["slope"])}


def slope(n: Sequence[float], kl: Sequence[Sequence[float]]) -> Estimate:
    """Of log KL against log n, by weighted least squares."""
    x = np.log(np.array(n, dtype=float))
    y, error = np.array([[log(v), e / v] for v, e in kl]).T
    design = np.stack([x**0, x], 1) / error[:, None]
    covariance = np.linalg.inv(design.T @ design)
    return Estimate((covariance @ design.T @ (y / error))[1], float(np.sqrt(covariance[1, 1])))


# ---- scores and heads


def scores(options: Options, seed: int, tick: Tick) -> Result:
    """The score p_11 at one width under 1/sqrt(n) and 1/n, beside the limits."""
    n, runs = options["width"], options["runs"]
    P, Q = program("attention", {}), program("inverse_n_attention", {})
    root = at_width(one_member("p", P["p"], {"a": 0, "i": 0, "j": 0}), n, runs, seed + 1)
    inverse = at_width(one_member("p", Q["p"], {"i": 0, "j": 0}), n, runs, seed + 2)
    tick(f"n = {n}")
    limit = P.limit().law("p", a=0, i=0, j=0, rng=seed)
    constant = Q.limit().law("p", i=0, j=0, rng=seed)
    t = grid(sqrt(limit.variance), 4.0, 4 * GRID)
    out: Result = {"n": n, "runs": runs, "t": list(t)}
    out["root"] = numbers(root, ks=plain(root.ks(limit)), kl=plain(root.kl(limit)))
    out["inverse"] = numbers(inverse, ks=plain(inverse.ks(limit)))
    out["limit"] = numbers(limit)
    out["inverse_limit"] = {"value": plain(constant.mean), "variance": plain(constant.variance)}
    out["curves"] = {
        "limit": curve(limit, t),
        "1/√n": curve(root, t),
        "1/n": [float(v) for v in gaussian_kde(inverse.means.ravel(), t)],
    }
    return out


def heads(options: Options, seed: int, tick: Tick) -> Result:
    """Laws of y[0] for several numbers of heads at one width, beside their limits and that of infinitely many heads."""
    n = options["width"]
    infinite = program("attention", {"heads": 0, "head": "oo"}).limit().law("y", i=0, rng=seed)
    t = grid(sqrt(infinite.variance))
    out: Result = {"n": n, "t": list(t), "infinite": numbers(infinite), "curves": {"H = ∞": curve(infinite, t)}, "rows": []}
    for k, (H, (runs, limit_runs)) in enumerate(options["heads"].items()):
        P = program("attention", {"heads": H})
        limit = P.limit().law("y", i=0, runs=limit_runs, rng=seed)
        law = at_width(one_member("y", P["y"], {"i": 0}), n, runs, seed + 1 + k)
        scaled = [int(H) * v for v in plain(limit.excess_kurtosis)]
        row = numbers(limit, H=int(H), runs=runs, scaled=scaled, kl_gaussian=plain(limit.kl(limit.gaussian())))
        out["rows"].append(row | {"at_n": numbers(law)})
        out["curves"] |= {f"H = {H}, limit": curve(limit, t), f"H = {H}, n = {n}": curve(law, t)}
        tick(f"H = {H}")
    deep = program("two_layers", {}).limit().law("p2", i=0, j=0, rng=seed)
    out["deep"] = numbers(deep, kl_gaussian=plain(deep.kl(deep.gaussian())))
    return out


def low_rank(options: Options, seed: int, tick: Tick) -> Result:
    """Heads of fixed dimension: n_H = 64 at n = 64 H, and small n_H in the limit, beside heads that widen with n.

    The limit is driven by the normals of a width (netsor.coupling), which costs no more than that width.
    """
    wide = program("attention", {"heads": 1}).limit().law("y", i=0, runs=options["limit_runs"], rng=seed)
    t = grid(sqrt(wide.variance))
    out: Result = {"t": list(t), "wide": numbers(wide), "curves": {}, "rows": [], "small": [], "rank": options["rank"]}
    for k, (H, runs) in enumerate(options["heads"].items()):
        rank, n = options["rank"], options["rank"] * int(H)
        term = one_member("y", program("low_rank_attention", {"rank": rank, "heads": H})["y"], {"i": 0})
        law = at_width(term, n, runs, seed + k)
        limit = coupled_limit(term, width=n, runs=runs, rng=seed + k)
        assert limit is not None
        out["curves"] |= {f"H = {H}, n = {n}": curve(law, t), f"H = {H}, limit": curve(limit, t)}
        kl = coupled_kl(LawDrawn("y", term, n, runs, np.random.SeedSequence(seed + k), fast=FAST), law)
        assert kl is not None
        out["rows"].append({"H": int(H), "n": n, "at_n": numbers(law), "kl": plain(kl[0]), **numbers(limit)})
        tick(f"n_H = {rank}, H = {H}")
    out["curves"]["Gaussian"] = curve(Mixture(0.0, float(wide.variance)), t)
    for rank, H in options["small"]:
        P = program("low_rank_attention", {"rank": rank, "heads": H})
        fixed = coupled_limit(one_member("y", P["y"], {"i": 0}), width=64, runs=options["small_runs"] // H, rng=seed)
        assert fixed is not None
        gap = (float(fixed.variance) / float(wide.variance) - 1) * rank
        error = rank * np.hypot(fixed.variance.error, wide.variance.error) / float(wide.variance)
        out["small"].append(numbers(fixed, rank=rank, H=H, gap=[gap, float(error)]))
        tick(f"n_H = {rank}, H = {H}")
    ranks = dict.fromkeys([*(rank for rank, _ in options["small"]), options["rank"]])
    out["scores"] = []
    for rank in ranks:
        P = program("low_rank_attention", {"rank": rank})
        runs = options["score_runs"] // (1 if rank < 16 else 8)
        score = P.limit().law("p", a=0, i=0, j=0, runs=runs, rng=seed)
        out["scores"].append(numbers(score, rank=rank))
        tick(f"scores, n_H = {rank}")
    return out
