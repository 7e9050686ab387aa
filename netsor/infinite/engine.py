"""Replicates of the limit: independent randomisations of everything that is sampled, so that errors are measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from netsor.algebra.moments import Moments
from netsor.numeric.joint import Normals
from netsor.infinite.plan import generators_below, scores_below
from netsor.infinite.values import LimitValues
from netsor.ir import Term
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

        `coordinates`: vectors of which each run draws one coordinate (many, when there are no scores); the second item
        yields the normals for them. One replicate stands for a law without randomness.
        """
        stages = scores_below([*roots, *coordinates])
        scores = [p for stage in stages for p in stage]
        vectors = generators_below(coordinates)
        sizes = [count(p.free) for p in (*scores, *vectors)]
        place = dict(zip([p.family.key for p in (*scores, *vectors)], np.cumsum([0, *sizes]).tolist(), strict=False))
        dimensions = sum(sizes)
        runs = block_size(sampling.runs, dimensions)
        blocks = max(REPLICATES, -(-sampling.runs // runs)) if dimensions else 1
        for r in range(blocks):
            shape = (runs, 1) if scores else (1, runs)
            sobol = self.sobol(sampling, dimensions, runs, r) if dimensions <= LARGEST_SOBOL else None

            def normals(
                term: Term, n: int, r: int = r, sobol: np.ndarray | None = sobol, shape: tuple[int, int] = shape
            ) -> np.ndarray:
                start = place[term.family.key]
                if sobol is not None:
                    return sobol[start : start + n].reshape(n, *shape)
                return stream(sampling.seed, "limit", term.family.order, r).standard_normal((n, *shape))

            values = LimitValues(self.moments, stages, normals, level, lambda names, r=r: self.kernel(sampling, names, r))
            yield values, normals
            if not dimensions and values.sampled:
                for again in range(1, REPLICATES):
                    yield (
                        LimitValues(
                            self.moments,
                            stages,
                            normals,
                            level,
                            lambda names, r=again: self.kernel(sampling, names, r),
                        ),
                        normals,
                    )

    def sobol(self, sampling: Sampling, dimensions: int, runs: int, replicate: int) -> np.ndarray:
        return sobol_normals(dimensions, runs, stream(sampling.seed, "limit", "sobol", replicate))

    def kernel(self, sampling: Sampling, names: tuple[object, ...], replicate: int) -> np.random.Generator:
        return stream(sampling.seed, "kernel", *names, replicate)


def block_size(runs: int, dimensions: int) -> int:
    """Runs of one replicate: a power of two, small enough for memory, at most a sixteenth of all."""
    most = min(max(runs // REPLICATES, 1), max(CELLS // max(dimensions, 1), 16))
    return 1 << (most.bit_length() - 1)


__all__ = ["DEFAULT_RUNS", "Engine", "Sampling"]
