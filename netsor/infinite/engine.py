"""Replicates of the limit: independent randomisations of everything that is sampled, so that errors are measured."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from netsor.algebra.moments import Moments
from netsor.infinite.plan import generators_below, plan_scores
from netsor.infinite.values import LimitValues
from netsor.ir import Term
from netsor.numeric.joint import Normals
from netsor.numeric.linear import sobol_normals
from netsor.numeric.named import count
from netsor.numeric.streams import stream

REPLICATES = 16
LARGEST_SOBOL = 1024  # live dimensions; beyond, plain Monte Carlo
CELLS = 2**23  # normals of one replicate
DEFAULT_RUNS = 2**15


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the limit is sampled: runs in all, the root of the streams."""

    runs: int
    seed: np.random.SeedSequence


class Engine:
    """The limit of one program in numbers."""

    def __init__(self, moments: Moments) -> None:
        self.moments = moments

    def replicates(
        self, roots: Sequence[Term], sampling: Sampling, coordinates: Sequence[Term] = (), level: int = 1
    ) -> Iterator[tuple[LimitValues, Normals]]:
        """Blocks of equally many runs in which the scores below `roots` can be drawn.

        `coordinates`: vectors of which each run draws one coordinate (as many as runs, when there are no scores); the
        second item yields the normals for them. A law without randomness is one replicate.
        Random: streams ("limit", .., replicate) for scores and coordinates, ("kernel", family, replicate) for
        expectations that are averaged over coordinates.
        """
        plan = plan_scores(self.moments, [*roots, *coordinates])
        sizes: dict[Hashable, int] = {**plan.sizes, **{p.family.order: count(p.free) for p in generators_below(coordinates)}}
        dimensions = sum(sizes.values())
        runs = block_size(sampling.runs, dimensions)
        blocks = max(REPLICATES, -(-sampling.runs // runs)) if dimensions else 1
        shape = (runs, 1) if plan.stages else (1, runs)
        replicate = 0
        while replicate < blocks:
            normals = self.normals(sizes, shape, sampling.seed, replicate)
            values = LimitValues(self.moments, plan, normals, level, (sampling.seed, replicate))
            yield values, normals
            if values.sampled and not dimensions:
                blocks = REPLICATES  # nothing random but the averages over coordinates: replicate those
            replicate += 1

    def normals(
        self, sizes: Mapping[Hashable, int], shape: tuple[int, int], seed: np.random.SeedSequence, replicate: int
    ) -> Normals:
        """Normals (how many, *shape) by key: scrambled Sobol points in few dimensions, else independent."""
        dimensions = sum(sizes.values())
        if dimensions > LARGEST_SOBOL:
            return lambda key, n: stream(seed, "limit", key, replicate).standard_normal((n, *shape))
        points = sobol_normals(dimensions, max(shape), stream(seed, "limit", "sobol", replicate))
        start = dict(zip(sizes, accumulate(sizes.values(), initial=0), strict=False))
        return lambda key, n: points[start[key] : start[key] + n].reshape(n, *shape)


def block_size(runs: int, dimensions: int) -> int:
    """Runs of one replicate: a power of two, small enough for memory, at most a sixteenth of all."""
    most = min(max(runs // REPLICATES, 1), max(CELLS // max(dimensions, 1), 16))
    return 1 << (most.bit_length() - 1)
