"""Joint draws of the limit: scores, and coordinates of vectors that are independent given the scores of the run."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import numpy as np

from netsor.algebra.moments import Moments
from netsor.infinite.coordinates import Coordinates
from netsor.infinite.plan import generators_below, plan_scores
from netsor.infinite.values import LimitValues
from netsor.numeric.draws import Output
from netsor.numeric.named import count
from netsor.numeric.streams import piece, pieces, stream

CELLS = 2**22  # normals of one block


class Sample:
    """Joint draws of the limit, planned: blocks of runs, fixed by the request, can be drawn in any order."""

    def __init__(self, moments: Moments, outputs: Mapping[str, Output], runs: int, seed: np.random.SeedSequence) -> None:
        self.moments, self.outputs, self.runs, self.seed = moments, outputs, runs, seed
        roots = [o.term for o in outputs.values()]
        self.vectors = [t for t in roots if t.width is not None]
        self.coordinates = max((o.coordinates for o in outputs.values()), default=1)
        self.plan = plan_scores(moments, roots)
        self.of_vectors = {p.family.order: count(p.free) for p in generators_below(self.vectors)}
        cells = sum(self.plan.sizes.values()) + self.coordinates * sum(self.of_vectors.values())
        self.most = max(1, min(4096, CELLS // max(1, cells)))

    @property
    def count(self) -> int:
        return pieces(self.runs, self.most)

    def size(self, block: int) -> int:
        return piece(self.runs, self.most, block)

    def block(self, block: int) -> tuple[int, dict[str, np.ndarray]]:
        """Runs of a block, and arrays."""
        n = self.size(block)

        def normals(key: Hashable, k: int) -> np.ndarray:
            last = self.coordinates if key in self.of_vectors else 1
            return stream(self.seed, "sample", key, block).standard_normal((k, n, last))

        at = LimitValues(self.moments, self.plan, normals, 1, (self.seed, block))
        draw = Coordinates(at, self.vectors, normals)
        return n, {name: o.array(draw.value(o.term), n) for name, o in self.outputs.items()}
