"""Averages over runs of the limit, with their error."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from netsor.infinite.engine import Engine, Sampling
from netsor.infinite.values import LimitValues
from netsor.ir import Index, Term
from netsor.numeric.estimate import EstimateArray
from netsor.numeric.named import Named


def average(
    engine: Engine,
    roots: Sequence[Term],
    value: Callable[[LimitValues], Named],
    over: Sequence[Index],
    sampling: Sampling,
) -> EstimateArray:
    """E over runs of an array given the scores. Error: between replicates, plus refinement and doubts of quadratures."""

    def run_mean(at: LimitValues) -> np.ndarray:
        mean: np.ndarray = value(at).full(over)[..., 0].mean(-1)
        return mean

    replicates = []
    refinement: np.ndarray | float = 0.0
    for at, _ in engine.replicates(roots, sampling):
        replicates.append(run_mean(at))
        if len(replicates) == 1 and at.integrated:
            coarse, _ = next(iter(engine.replicates(roots, sampling, level=0)))
            coarse.finer = at
            refinement = np.abs(run_mean(coarse) - replicates[0])
    stacked = np.stack(replicates)
    n = len(stacked)
    spread = stacked.std(0, ddof=1) / np.sqrt(n) if n > 1 else np.zeros(stacked.shape[1:])
    return EstimateArray(stacked.mean(0), spread + refinement)
