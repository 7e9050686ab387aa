"""Joint draws of a program at width n, shard by shard."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from netsor.algebra.moments import Moments
from netsor.finite.engines import Choice, choose
from netsor.numeric.draws import Output, checked_count
from netsor.numeric.streams import Rng, seed_of


@dataclass(frozen=True)
class Simulation:
    """A request at width n, planned: its engine is chosen, and its shards can be drawn."""

    outputs: Mapping[str, Output]
    width: int
    runs: int
    choice: Choice

    def shards(self, rng: Rng) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        """Shards (runs of it, arrays), in order. The same request gives the same bits, however it is scheduled."""
        seed = seed_of(rng)
        for k in range(self.count):
            yield self.shard(seed, k)

    @property
    def count(self) -> int:
        return self.choice.count(self.runs)

    def size(self, k: int) -> int:
        return self.choice.size(self.runs, k)

    def shard(self, seed: np.random.SeedSequence, k: int) -> tuple[int, dict[str, np.ndarray]]:
        """One shard: runs of it, arrays."""
        size, at = self.size(k), self.choice.shard(self.width, self.runs, seed, k)
        return size, {name: o.array(at.value(o.term), size, most(o, self.width)) for name, o in self.outputs.items()}


def simulation(
    outputs: Mapping[str, Output], *, width: int, runs: int, engine: str | None = None, fast: bool = False
) -> Simulation:
    """The request, with the engine asked for or else the cheapest one."""
    checked_count("width", width)
    checked_count("runs", runs)
    coordinates = max((o.coordinates for o in outputs.values()), default=1)
    roots = [o.term for o in outputs.values()]
    return Simulation(outputs, width, runs, choose(Moments(), roots, width, runs, coordinates, engine, fast))


def most(output: Output, width: int) -> int | None:
    return None if output.term.width is None else output.term.width.at(width)
