"""Width n beside the limit: variance, kurtosis and distances, each with its error and its noise floor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from netsor.errors import IllFormed, Numerical
from netsor.figures import densities
from netsor.finite.laws import engine_of, nanoseconds
from netsor.ir import Term
from netsor.jobs import LawDrawn
from netsor.limit import one_member
from netsor.numeric.draws import checked_count
from netsor.numeric.estimate import Estimate
from netsor.numeric.law import Law, Mixture, noise_floor
from netsor.numeric.statistics import kl_coupled
from netsor.numeric.streams import Rng, seed_of
from netsor.program import Program
from netsor.runs.pool import pool
from netsor.runs.run import How

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BUDGET = 4e9  # nanoseconds of one width when the number of runs is left open
MOST_RUNS, LEAST_RUNS = 2**16, 2**8
DISTANCES = ("kl", "ks", "w1")
ALARM = 5.0  # standard errors


@dataclass(frozen=True)
class Comparison:
    """The laws at several widths against the limit.

    `table`: one dict a width: n, runs, variance, excess_kurtosis, kl (law at n from the limit), ks, w1, numbers with
    errors; kl is None where a law has no density. `floor`: for each width what the distances would show if both laws
    were equal. `extrapolated`: variance and kurtosis fitted as a + b/n + c/n^2 and taken to n = infinity.
    """

    name: str
    limit: Law
    laws: Mapping[int, Law]
    table: list[dict[str, Any]]
    floor: Mapping[int, Mapping[str, float]]

    @property
    def extrapolated(self) -> dict[str, Estimate]:
        """Fits over at least three widths; empty for fewer."""
        if len(self.table) < 3:
            return {}
        numbers = {"variance": self.limit.variance, "excess_kurtosis": kurtosis(self.limit)}
        return {
            key: fit(self.table, key)
            for key, limit in numbers.items()
            if limit is not None and all(row[key] is not None for row in self.table)
        }

    @property
    def agrees(self) -> bool:
        """Are the extrapolated moments within 5 standard errors of the limit? (Fewer than three widths never disagree.)"""
        return all(
            abs(value - getattr(self.limit, key)) <= ALARM * np.hypot(value.error, getattr(self.limit, key).error)
            for key, value in self.extrapolated.items()
        )

    def __str__(self) -> str:
        rows = [["n", "runs", "variance", "excess kurtosis", "KL", "KS", "W1"]]
        for row in self.table:
            rows.append([show(row[k]) for k in ("n", "runs", "variance", "excess_kurtosis", *DISTANCES)])
            floor = self.floor[row["n"]]
            rows.append(["", "", "", "  floor", *(f"{floor[k]:.1g}" if k in floor else "" for k in DISTANCES)])
        for key, value in self.extrapolated.items():
            rows.append(["n → ∞ fit", "", *(show(value) if key == k else "" for k in ("variance", "excess_kurtosis"))])
        rows.append(["limit", "", show(self.limit.variance), show(kurtosis(self.limit))])
        widths = [max(len(r[k]) for r in rows if k < len(r)) for k in range(7)]
        lines = ["  ".join(cell.rjust(w) for cell, w in zip(r, widths, strict=False)).rstrip() for r in rows]
        return "\n".join([f"{self.name}: exact at width n, beside the limit", *lines])

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def _repr_html_(self) -> str:
        return f"<pre>{self}</pre>"

    def plot(self, ax: Axes | None = None) -> Axes:
        """Densities at each width, of the limit, and of the Gaussian with the limit's variance, on one set of axes."""
        return densities(self.name, self.limit, self.laws, ax)


def compare(
    program: Program | Callable[[int], Program],
    name: str,
    *,
    widths: Sequence[int],
    runs: int | None = None,
    rng: Rng = 0,
    fast: bool = False,
    progress: Callable[[int, int, int], None] | None = None,
    workers: int = 1,
    executor: Executor | None = None,
    **members: int,
) -> Comparison:
    """The law of one number at each width against its limit: `compare(P, "y", i=0, widths=[16, 64, 256])`.

    program: a Program, or a function of the width that gives one. runs: the same for every width; None spends about the
    same time on each. fast: compiled arithmetic at width n, as for `simulate`. The last Gaussian source is integrated out
    on both sides, so distances are between mixtures; for KL the limit is driven by the normals of width n, where that can be.
    workers, executor: as for `simulate`; they draw what is at width n, and change no bit.
    Random: width n and the limit use different streams of `rng`.
    """
    widths = sorted({checked_count("a width", n) for n in widths})
    if not widths:
        raise IllFormed("NS306", statement="widths=[]", repair="widths=[16, 64, 256]")
    at = (lambda n: program) if isinstance(program, Program) else program
    limit = at(widths[-1]).limit().law(name, rng=rng, **members)
    laws: dict[int, Law] = {}
    table = []
    floor = {}
    with pool(workers, executor) as (runner, _):
        for k, n in enumerate(widths):
            term = one_member(name, at(n)[name], members)
            drawn = checked_count("runs", runs, 2) if runs is not None else affordable(term, n)
            seed = np.random.SeedSequence(seed_of(rng).entropy, spawn_key=(k,))
            tick = None if progress is None else (lambda c, n=n, drawn=drawn: progress(n, c, drawn))
            job = LawDrawn(name, term, checked_count("width", n), drawn, seed, fast=fast)
            laws[n] = finite(job, How(executor=runner, progress=tick))
            table.append({"n": n, "runs": drawn, **row(laws[n], limit)})
            floor[n] = noise_floor(laws[n], limit)
            if table[-1]["kl"] is not None and (found := coupled_kl(job, laws[n], How(executor=runner))) is not None:
                table[-1]["kl"], floor[n]["kl"] = found
    label = f"{name}[{', '.join(f'{i}={m}' for i, m in members.items())}]" if members else name
    return Comparison(label, limit, laws, table, floor)


def finite(job: LawDrawn, how: How) -> Law:
    law = job.law(how)
    assert law is not None  # only a driven law may not exist
    return law


def coupled_kl(job: LawDrawn, law: Law | None = None, how: How | None = None) -> tuple[Estimate, float] | None:
    """KL(law at width n || limit) where the normals of width n drive the limit, and its floor; None where they cannot.

    law: that of the job, where it is there already.
    """
    how = how or How()
    driven = replace(job, driven=True).law(how)
    if not isinstance(driven, Mixture):
        return None
    if law is None or engine_of(job.term, job.width, job.runs) != "collapsed":
        law = finite(replace(job, engine="collapsed"), how)
    known = law.shape == (1, 1) or driven.shape == (1, 1)  # a law that is known exactly has no noise
    return None if known or not (law.variances.all() and driven.variances.all()) else kl_coupled(law, driven)


def row(law: Law, limit: Law) -> dict[str, Any]:
    densities = all(isinstance(x, Mixture) and bool(x.variances.all()) for x in (law, limit))
    return {
        "variance": law.variance,
        "excess_kurtosis": kurtosis(law),
        "kl": law.kl(limit) if densities else None,
        "ks": law.ks(limit),
        "w1": law.wasserstein1(limit),
    }


def kurtosis(law: Law) -> Estimate | None:
    """None for a point mass."""
    try:
        return law.excess_kurtosis
    except Numerical:
        return None


def affordable(term: Term, n: int) -> int:
    """Runs for about the same time at every width, by the cost model: a power of two."""
    runs = int(min(max(BUDGET / max(nanoseconds(term, n), 1), LEAST_RUNS), MOST_RUNS))
    return 1 << (runs.bit_length() - 1)


def fit(table: Sequence[Mapping[str, Any]], key: str) -> Estimate:
    """a of a + b/n + c/n^2 by weighted least squares."""
    n = np.array([r["n"] for r in table], dtype=float)
    values = np.array([float(r[key]) for r in table])
    errors = np.array([max(r[key].error, 1e-12) for r in table])
    design = np.stack([n**0, 1 / n, 1 / n**2], 1) / errors[:, None]
    covariance = np.linalg.inv(design.T @ design)
    coefficients = covariance @ design.T @ (values / errors)
    return Estimate(coefficients[0], float(np.sqrt(covariance[0, 0])))


def show(value: Any) -> str:
    return "-" if value is None else str(value)
