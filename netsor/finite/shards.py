"""How a request is cut into shards: the unit of randomness and of arithmetic, fixed by the request and by nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from netsor.finite.arithmetic import Arithmetic, Source
from netsor.ir import Term
from netsor.numeric.demand import demanded
from netsor.numeric.named import count
from netsor.numeric.streams import stream


@dataclass(frozen=True, slots=True)
class Setting:
    """One shard of a simulation: the base width, its runs, and where its streams come from."""

    width: int
    runs: int
    seed: np.random.SeedSequence
    shard: int
    arithmetic: Arithmetic = field(default_factory=Arithmetic)

    def stream(self, *names: object) -> Source:
        """The normals for one purpose."""
        return self.arithmetic.source(stream(self.seed, *names))


def live(roots: Sequence[Term]) -> int:
    """How many vectors a run holds, at most."""
    patterns = demanded(roots, lambda t: t.width is not None, lambda t: t.args)
    return max(1, sum(count(t.free) for t in patterns))
