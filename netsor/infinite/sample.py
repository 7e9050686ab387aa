"""Joint draws of the limit: scores, and coordinates of vectors that are independent given the scores of the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from netsor.algebra.moments import Moments
from netsor.infinite.coordinates import Coordinates
from netsor.infinite.plan import generators_below, scores_below
from netsor.infinite.values import LimitValues
from netsor.ir import Term
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
    stages = scores_below(roots)
    scores = sum(count(p.free) for stage in stages for p in stage)
    cells = scores + coordinates * sum(count(p.free) for p in generators_below(vectors))
    size = max(1, min(4096, CELLS // max(1, cells)))
    for block, start in enumerate(range(0, runs, size)):
        n = min(size, runs - start)

        def normals(term: Term, k: int, block: int = block, n: int = n) -> np.ndarray:
            last = coordinates if term.width is not None else 1
            return stream(seed, "sample", term.family.order, block).standard_normal((k, n, last))

        at = LimitValues(moments, stages, normals, 1, (seed, block))
        draw = Coordinates(at, vectors, normals)
        yield n, {name: o.array(draw.value(o.term), n) for name, o in outputs.items()}
