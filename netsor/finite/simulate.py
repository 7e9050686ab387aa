"""Joint draws of a program at width n, shard by shard."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from netsor.algebra.moments import Moments
from netsor.finite.engines import interpreters
from netsor.numeric.draws import Output, checked_count
from netsor.numeric.streams import Rng, seed_of


def simulate(outputs: Mapping[str, Output], *, width: int, runs: int, rng: Rng, engine: str = "dense") -> Iterator[tuple[int, dict[str, np.ndarray]]]:
    """Shards (runs of it, arrays), in order. The same request gives the same bits, however it is scheduled."""
    checked_count("width", width)
    checked_count("runs", runs)
    roots = [o.term for o in outputs.values()]
    coordinates = max((o.coordinates for o in outputs.values()), default=1)
    moments, seed = Moments(), seed_of(rng)
    for size, at in interpreters(engine, moments, roots, width, runs, seed, coordinates):
        yield size, {name: o.array(at.value(o.term), size, most(o, width)) for name, o in outputs.items()}


def most(output: Output, width: int) -> int | None:
    return None if output.term.width is None else output.term.width.at(width)
