"""Exact draws of a program at finite width."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from netsor.finite.simulate import simulation
from netsor.numeric.draws import Draws, requested
from netsor.numeric.streams import Rng
from netsor.program import Program


class OutsideTheoremWarning(UserWarning):
    """The program is simulated, but no theorem gives it a limit."""


def simulate(
    program: Program,
    *,
    width: int,
    runs: int,
    rng: Rng = None,
    outputs: Mapping[str, Mapping[str, Any]] | None = None,
    engine: str | None = None,
    fast: bool = False,
    explain: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Draws:
    """Joint draws of variables at width n: a mapping name -> array, `dims` names the axes.

    outputs: by default every scalar, and coordinate 0 of every vector; `{"y": dict(i=0, coordinates=2)}` picks
    variables, members and the number of coordinates. Only what these need is drawn. No theorem is needed: a program
    outside the theorem is simulated with a warning.
    engine: "dense" (whole matrices), "lazy" (a matrix known where it acts), "collapsed" (linear vectors as coordinates in
    a frame); None takes the one with the least work. All draw from one and the same law. `explain=True`: the result prints
    which engine it was, why, and how many normals each would have drawn; it is in `Draws.how` in any case.
    fast: normals, Gram matrices and s x s algebra are compiled by numba (the extra `netsor[fast]`). The normals are the
    same, and so are results, to 1e-12.
    Shapes: (indices, runs) for a scalar, (indices, runs, coordinates) for a vector.
    Random: streams keyed by (rng, name of the matrix or vector, shard); the same request gives the same bits.
    """
    chosen = requested(program, outputs)
    refused = [d for d in Program(program.name, **{n: program[n] for n in chosen}).check() if d.severity == "refused"]
    if refused:
        warnings.warn(f"{program.name} has no limit that netsor knows: {refused[0]}", OutsideTheoremWarning, stacklevel=2)
    pieces: list[dict[str, np.ndarray]] = []
    planned = simulation(chosen, width=width, runs=runs, engine=engine, fast=fast)
    for count, arrays in planned.shards(rng):
        pieces.append(arrays)
        if progress is not None:
            progress(count)
    title = f"{program.name}: n = {width}, exact, {runs} runs"
    if explain:
        title += "\n" + planned.choice.why
    return Draws.joined(title, chosen, pieces, how=planned.choice.why)
