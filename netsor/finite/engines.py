"""The engines by name, behind one call: shards of a request, each an interpreter of terms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from netsor.algebra.moments import Moments
from netsor.finite.collapsed import BLOCK, Collapsed
from netsor.finite.dense import Dense
from netsor.finite.lazy import Lazy
from netsor.finite.rooms import Plan
from netsor.finite.shards import Setting, cut, live
from netsor.ir import Term
from netsor.numeric.interpreter import Interpreter
from netsor.numeric.named import count


def interpreters(
    engine: str, moments: Moments, roots: Sequence[Term], width: int, runs: int, seed: np.random.SeedSequence,
    coordinates: int, first: int = 0,
) -> Iterator[tuple[int, Interpreter]]:
    if engine == "collapsed":
        plan = Plan(moments, roots, width, coordinates)
        vectors = max(1, sum(count(t.free) for t in plan.structure.generators.values() if plan.is_explicit(t)))
        widest = max([t.width.at(width) for t in plan.structure.generators.values()], default=1)
        size = max(1, min(4096, 2**18 // (vectors * widest)))
        for shard, some in cut(runs, size):
            yield some, Collapsed(plan, Setting(width, some, seed, first + shard), max(64, BLOCK // (vectors * some)))
        return
    kind = {"dense": Dense, "lazy": Lazy}[engine]
    size = max(1, min(4096, 2**21 // (width * live(roots))))
    for shard, some in cut(runs, size):
        yield some, kind(moments, roots, Setting(width, some, seed, first + shard), coordinates)
