"""Exact draws of a program at finite width."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from functools import reduce as fold
from os import PathLike
from pathlib import Path
from typing import Any, Required, TypedDict, Unpack, overload

import numpy as np

from netsor.jobs import Simulated, Spec, reduced
from netsor.numeric.draws import Draws
from netsor.numeric.streams import Rng, seed_of
from netsor.program import Program
from netsor.runs.job import seed_from
from netsor.runs.reduce import Accumulator, checked_accumulators
from netsor.runs.run import How, results
from netsor.runs.store import read_manifest


class OutsideTheoremWarning(UserWarning):
    """The program is simulated, but no theorem gives it a limit."""


class Request(TypedDict, total=False):
    """The arguments of `simulate` but `reduce`."""

    width: Required[int]
    runs: Required[int]
    rng: Rng
    outputs: Spec | None
    engine: str | None
    fast: bool
    explain: bool
    progress: Callable[[int], None] | None
    workers: int
    executor: Executor | None
    out: str | PathLike[str] | None


@overload
def simulate(program: Program, *, reduce: None = None, **request: Unpack[Request]) -> Draws: ...


@overload
def simulate(program: Program, *, reduce: Mapping[str, Accumulator], **request: Unpack[Request]) -> dict[str, Any]: ...


def simulate(
    program: Program,
    *,
    width: int,
    runs: int,
    rng: Rng = None,
    outputs: Spec | None = None,
    engine: str | None = None,
    fast: bool = False,
    explain: bool = False,
    progress: Callable[[int], None] | None = None,
    workers: int = 1,
    executor: Executor | None = None,
    out: str | PathLike[str] | None = None,
    reduce: Mapping[str, Accumulator] | None = None,
) -> Draws | dict[str, Any]:
    """Joint draws of variables at width n: a mapping name -> array, `dims` names the axes.

    outputs: by default every scalar, and coordinate 0 of every vector; `{"y": dict(i=0, coordinates=2)}` picks
    variables, members and the number of coordinates. Only what these need is drawn. No theorem is needed: a program
    outside the theorem is simulated with a warning.
    engine: "dense" (whole matrices), "lazy" (a matrix known where it acts), "collapsed" (linear vectors as coordinates in
    a frame); None takes the one with the least work. All draw from one and the same law. `explain=True`: the result prints
    which engine it was, why, and how many normals each would have drawn; it is in `Draws.how` in any case.
    fast: normals, Gram matrices and s x s algebra are compiled by numba (the extra `netsor[fast]`). The normals are the
    same, and so are results, to 1e-12.
    workers: processes that draw shards; executor: any `concurrent.futures.Executor` that does. Neither changes a bit.
    out: a folder that keeps each finished shard. The same call continues an interrupted one.
    reduce: accumulators by name, `{"m": Moments("y")}`: draws are reduced where they are drawn, shard by shard, and the
    answer is a dict of their results, in memory that does not grow with the runs.
    Shapes: (indices, runs) for a scalar, (indices, runs, coordinates) for a vector.
    Random: streams keyed by (rng, name of the matrix or vector, shard); the same request gives the same bits.
    Raises: NS312 where the run cannot go on, or the folder is that of another; NS310 where a program cannot be sent.
    """
    job = simulated(program, width, runs, rng, outputs, engine, fast, out)
    how = How(workers, executor, out, progress)
    if reduce is not None:
        whole = reduced(job, checked_accumulators(reduce))
        return whole.result(fold(whole.merge, results(whole, how)))
    pieces = list(results(job, how))
    title = f"{program.name}: n = {width}, exact, {runs} runs"
    if explain:
        title += "\n" + job.planned.choice.why
    return Draws.joined(title, job.outputs, pieces, how=job.planned.choice.why)


def stream(
    program: Program,
    *,
    width: int,
    runs: int,
    rng: Rng = None,
    outputs: Spec | None = None,
    engine: str | None = None,
    fast: bool = False,
    progress: Callable[[int], None] | None = None,
    workers: int = 1,
    executor: Executor | None = None,
    out: str | PathLike[str] | None = None,
) -> Iterator[Draws]:
    """The draws of `simulate`, shard by shard in order, in the memory of a few shards. Arguments: those of `simulate`."""
    job = simulated(program, width, runs, rng, outputs, engine, fast, out)
    how = How(workers, executor, out, progress)

    def shards() -> Iterator[Draws]:
        for k, arrays in enumerate(results(job, how)):
            title = f"{program.name}: n = {width}, exact, shard {k} of {job.count}"
            yield Draws.joined(title, job.outputs, [arrays], how=job.planned.choice.why)

    return shards()


def simulated(
    program: Program,
    width: int,
    runs: int,
    rng: Rng,
    outputs: Spec | None,
    engine: str | None,
    fast: bool,
    out: str | PathLike[str] | None,
) -> Simulated:
    """The request as a job; warns of a program outside the theorem."""
    spec = {name: dict(outputs[name]) for name in outputs} if outputs is not None else {name: {} for name in program}
    job = Simulated(program.name, program, spec, runs, seed_in(out, rng), width, engine, fast)
    refused = [d for d in Program(program.name, **{n: program[n] for n in spec}).check() if d.severity == "refused"]
    if refused:
        warnings.warn(f"{program.name} has no limit that netsor knows: {refused[0]}", OutsideTheoremWarning, stacklevel=3)
    assert job.planned.choice
    return job


def seed_in(out: str | PathLike[str] | None, rng: Rng) -> np.random.SeedSequence:
    """The seed; a run that was begun in the folder without one keeps the one that it drew."""
    begun = None if out is None or rng is not None else read_manifest(Path(out))
    return seed_of(rng) if begun is None else seed_from(begun["request"]["seed"])
