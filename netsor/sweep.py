"""One number at every setting of a grid: a table with errors, drawn as one job that can be interrupted."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from netsor.comparison import kurtosis
from netsor.errors import IllFormed, NetsorError, Numerical
from netsor.ir import Index, Term
from netsor.jobs import Chain, Drawing, LawDrawn, LimitLaw, Sampled, Simulated, limit_law
from netsor.limit import check_exists, one_member
from netsor.loading import load
from netsor.numeric.draws import checked_count
from netsor.numeric.estimate import Estimate, jackknife
from netsor.numeric.law import Law
from netsor.numeric.streams import seed_of
from netsor.ops import Along
from netsor.program import Program
from netsor.runs.job import Arrays, Job
from netsor.runs.run import How, results

OBSERVABLES = ("mean", "variance", "excess_kurtosis", "entropy")
BATCHES = 16
LARGEST = 10_000  # points of a grid

Row = dict[str, Any]


def settings_grid(settings: Mapping[str, str]) -> list[dict[str, str]]:
    """All combinations of comma-separated values, `{"tokens": "2,4", "phi": "relu,clip(1)"}`; the last varies fastest."""
    values = {name: [v.strip() for v in re.split(r",(?![^()]*\))", text)] for name, text in settings.items()}
    count = int(np.prod([len(v) for v in values.values()]))
    if count > LARGEST:
        raise IllFormed(
            "NS306", statement=f"a grid of {count} points", hypothesis=f"{LARGEST} are the most", repair="sweep less"
        )
    return [dict(zip(values, point, strict=True)) for point in product(*values.values())]


@dataclass(frozen=True)
class Observable:
    """A number of a variable: `variance`, or `A:entropy`."""

    variable: str
    what: str

    @classmethod
    def read(cls, text: str, default: str) -> Observable:
        """Raises: NS311 for another observable."""
        variable, colon, what = text.strip().rpartition(":")
        if what not in OBSERVABLES or (colon and not variable):
            raise IllFormed(
                "NS311",
                statement=f"--observe {text}",
                hypothesis="an observable is one of " + ", ".join(OBSERVABLES),
                repair="variance, or A:entropy for another variable than the last",
            )
        return cls(variable or default, what)

    def __str__(self) -> str:
        return f"{self.variable} {self.what.replace('_', ' ')}"


@dataclass(frozen=True)
class Point:
    """One setting: its program, and the width, or None for the limit."""

    settings: Mapping[str, str]
    program: Program
    width: int | None


@dataclass(frozen=True)
class Sweep:
    """`Sweep.of("attention", {"tokens": "2,4,8"}, observe=["variance"]).run(out="runs/")` is a list of rows.

    A row has the settings, the width (None: the limit) and an Estimate for each observable. `entropy` is that of a row of
    weights if the variable is a softmax, -Sum A log A averaged over runs, and else the differential entropy of the law.
    """

    points: Sequence[Point]
    observables: Sequence[Observable]
    at: Mapping[str, int]
    runs: int
    seed: np.random.SeedSequence
    fast: bool = False

    @classmethod
    def of(
        cls,
        file: str | Path,
        settings: Mapping[str, str],
        *,
        observe: Sequence[str] = ("variance",),
        name: str | None = None,
        widths: Sequence[int] = (),
        at: Mapping[str, int] | None = None,
        runs: int = 2**15,
        rng: int = 0,
        fast: bool = False,
    ) -> Sweep:
        """Every program of the grid, in the limit or at each of the widths. `at`: members of indices, 0 where not given.

        Raises: what the program or its limit is refused with, with the setting; NS302, NS311.
        """
        points = []
        for setting in settings_grid(settings):
            try:
                program = load(file, setting)
            except NetsorError as error:
                error.statement = f"{error.statement} ({text_of(setting)})".strip()
                raise
            points += [Point(setting, program, n) for n in (widths or (None,))]
        default = name or list(points[0].program)[-1]
        chosen = list(dict.fromkeys(Observable.read(text, default) for text in observe))
        if not chosen:
            raise IllFormed("NS311", statement="nothing to observe", repair="--observe variance")
        return cls(points, chosen, dict(at or {}), checked_count("runs", runs, 2), seed_of(rng), fast)

    # ---- what is drawn

    @cached_property
    def jobs(self) -> list[tuple[Point, Observable, Job]]:
        """One job for each law or row of weights; observables of one law share it."""
        found: dict[tuple[int, str, bool], tuple[Point, Observable, Job]] = {}
        for k, point in enumerate(self.points):
            for o in self.observables:
                term = point.program[o.variable]
                weights = o.what == "entropy" and is_softmax(term)
                if (k, o.variable, weights) not in found:
                    job = self.weights(point, o.variable) if weights else self.law(point, o.variable)
                    found[k, o.variable, weights] = (point, o, job)
        return list(found.values())

    def members(self, term: Term, besides: Index | None = None) -> dict[str, int]:
        return {i.name: self.at.get(i.name, 0) for i in term.free if i != besides}

    def law(self, point: Point, name: str) -> Job:
        term = point.program[name]
        chosen = one_member(name, term, self.members(term))
        check_exists(name, term, chosen)
        if point.width is not None:
            return LawDrawn(name, chosen, point.width, self.runs, self.seed, fast=self.fast)
        limit = point.program.limit()  # which refuses what has none
        return LimitLaw(limit.known(name), chosen, self.runs, self.seed)

    def weights(self, point: Point, name: str) -> Drawing:
        term = point.program[name]
        spec = {name: self.members(term, softmax_letter(term))}
        if point.width is not None:
            return Simulated(point.program.name, point.program, spec, self.runs, self.seed, point.width, None, self.fast)
        limit = point.program.limit()
        return Sampled(limit.name, limit.variables, spec, self.runs, self.seed)

    @cached_property
    def chain(self) -> Chain:
        return Chain(tuple(job for _, _, job in self.jobs))

    # ---- the rows

    def run(
        self,
        *,
        workers: int = 1,
        executor: Executor | None = None,
        out: str | PathLike[str] | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> list[Row]:
        """All rows. workers, executor, out: as for `simulate`; the same call continues an interrupted sweep."""
        return list(self.rows(How(workers, executor, out, progress)))

    def rows(self, how: How) -> Iterator[Row]:
        """A row as soon as all of it is there."""
        parts = results(self.chain, how)
        drawn: dict[tuple[str, bool], Any] = {}
        entries = self.jobs
        for k, (point, _, job) in enumerate(entries):
            arrays = [next(parts) for _ in range(job.count)]
            key, value = reading(job, arrays)
            drawn[key] = value
            if k + 1 == len(entries) or entries[k + 1][0] is not point:
                yield {**point.settings, "width": point.width} | {str(o): observed(o, point, drawn) for o in self.observables}
                drawn = {}
        for _ in parts:  # the end of the run is written down
            pass


def text_of(setting: Mapping[str, str]) -> str:
    return " ".join(f"-s {name}={value}" for name, value in setting.items())


def is_softmax(term: Term) -> bool:
    return isinstance(term.op, Along) and term.op.fn.name == "softmax" and isinstance(term.own[0], Index)


def softmax_letter(term: Term) -> Index:
    letter = term.own[0]
    assert isinstance(letter, Index)
    return letter


def reading(job: Job, parts: Sequence[Arrays]) -> tuple[tuple[str, bool], Any]:
    """Which variable a job is of (and whether of its weights), and its law or the entropies of its rows."""
    if isinstance(job, LimitLaw):
        return (job.name, False), limit_law(parts)
    if isinstance(job, LawDrawn):
        return (job.name, False), job.joined(parts)
    assert isinstance(job, Drawing)
    ((name, _),) = job.outputs.items()
    weights = np.concatenate([p[name].reshape(p[name].shape[0], -1) for p in parts], axis=1)  # (members, runs)
    logarithms = np.log(np.where(weights > 0, weights, 1.0))
    return (name, True), -(weights * logarithms).sum(0)


def observed(o: Observable, point: Point, drawn: Mapping[tuple[str, bool], Any]) -> Estimate | None:
    """None where a law has no such number."""
    if o.what == "entropy" and is_softmax(point.program[o.variable]):
        values = drawn[o.variable, True]
        size = max(1, len(values) // BATCHES)
        mean, error = jackknife(lambda m: m[0], values[: len(values) // size * size].reshape(-1, size).mean(1))
        return Estimate(mean, error)
    law: Law = drawn[o.variable, False]
    if o.what == "excess_kurtosis":
        return kurtosis(law)
    try:
        value: Estimate = getattr(law, o.what)  # one of the fixed list
    except Numerical:
        return None
    return value
