"""Joint draws of the limit: scores, and coordinates of vectors that are independent given the scores of the run."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping

import numpy as np

from netsor.algebra.moments import Moments
from netsor.infinite.coordinates import Coordinates
from netsor.infinite.plan import generators_below, plan_scores
from netsor.infinite.values import LimitValues
from netsor.numeric.draws import Output
from netsor.numeric.named import count
from netsor.numeric.streams import stream

CELLS = 2**22  # normals of one block


def sample(
    moments: Moments, outputs: Mapping[str, Output], runs: int, seed: np.random.SeedSequence
) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
    """Blocks (runs of it, arrays), in order."""
    roots = [o.term for o in outputs.values()]
    vectors = [t for t in roots if t.width is not None]
    coordinates = max((o.coordinates for o in outputs.values()), default=1)
    plan = plan_scores(moments, roots)
    of_vectors = {p.family.order: count(p.free) for p in generators_below(vectors)}
    cells = sum(plan.sizes.values()) + coordinates * sum(of_vectors.values())
    size = max(1, min(4096, CELLS // max(1, cells)))
    for block, start in enumerate(range(0, runs, size)):
        n = min(size, runs - start)

        def normals(key: Hashable, k: int, block: int = block, n: int = n) -> np.ndarray:
            last = coordinates if key in of_vectors else 1
            return stream(seed, "sample", key, block).standard_normal((k, n, last))

        at = LimitValues(moments, plan, normals, 1, (seed, block))
        draw = Coordinates(at, vectors, normals)
        yield n, {name: o.array(draw.value(o.term), n) for name, o in outputs.items()}
