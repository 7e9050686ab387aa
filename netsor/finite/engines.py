"""The engines by name and the choice between them; shards of a request, each an interpreter of terms."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from netsor.algebra.moments import Moments
from netsor.errors import IllFormed
from netsor.finite.arithmetic import Arithmetic
from netsor.finite.collapsed import Collapsed
from netsor.finite.cost import Cost
from netsor.finite.dense import MEMORY, Dense, check_memory, memory
from netsor.finite.lazy import Lazy
from netsor.finite.rooms import Plan
from netsor.finite.shards import Setting
from netsor.ir import Term
from netsor.numeric.interpreter import Interpreter
from netsor.numeric.streams import piece, pieces

ROOM = 4_000_000
ENGINES = ("dense", "lazy", "collapsed")


@dataclass(frozen=True)
class Choice:
    """The engine of a request, and what the others would have cost.

    costs: the cheapest first, where `engine` was left open; `prefer` builds the interpreter of a shard.
    """

    engine: str
    asked: bool
    costs: tuple[Cost, ...]
    build: Callable[[Setting], Interpreter]
    arithmetic: Arithmetic = field(default_factory=Arithmetic)

    @property
    def cost(self) -> Cost:
        return next(c for c in self.costs if c.engine == self.engine)

    @property
    def why(self) -> str:
        reason = "as asked" if self.asked else "the least work by the cost model"
        return "\n".join([f"engine {self.engine}: {reason}", *(f"  {c}" for c in self.costs)])

    def count(self, runs: int) -> int:
        """How many shards there are."""
        return pieces(runs, self.cost.shard)

    def size(self, runs: int, shard: int) -> int:
        """How many runs the shard has."""
        return piece(runs, self.cost.shard, shard)

    def shard(self, width: int, runs: int, seed: np.random.SeedSequence, shard: int, first: int = 0) -> Interpreter:
        """The interpreter of one shard."""
        np.empty(ROOM)  # untouched, and free at once: from then on glibc keeps freed memory of this size for the next shard
        return self.build(Setting(width, self.size(runs, shard), seed, first + shard, self.arithmetic))

    def shards(self, width: int, runs: int, seed: np.random.SeedSequence, first: int = 0) -> Iterator[tuple[int, Interpreter]]:
        """(runs of it, its interpreter), in order."""
        for k in range(self.count(runs)):
            yield self.size(runs, k), self.shard(width, runs, seed, k, first)


def choose(
    moments: Moments,
    roots: Sequence[Term],
    width: int,
    runs: int,
    coordinates: int,
    engine: str | None = None,
    fast: bool = False,
) -> Choice:
    """The cheapest engine for the request, or the one that is asked for; `fast` changes its arithmetic, not the choice.

    Dense is not chosen, and refused where it is asked for, if a run of it does not fit in memory.
    Raises: NS311 for an engine that is not there, or `fast` without numba; NS403.
    """
    if engine is not None and engine not in ENGINES:
        raise IllFormed(
            "NS311",
            statement=f"engine={engine!r}",
            hypothesis="the engines are " + ", ".join(ENGINES),
            repair='leave it open, or write engine="dense"',
        )
    plan = Plan(moments, roots, width, coordinates)
    builds: dict[str, Callable[[Setting], Interpreter]] = {
        "dense": lambda setting: Dense(moments, roots, setting, coordinates),
        "lazy": lambda setting: Lazy(moments, roots, setting, coordinates),
        "collapsed": lambda setting: Collapsed(plan, setting, min(plan.cost.shard, runs)),
    }
    found = [kind.cost_of(moments, roots, width, coordinates) for kind in (Dense, Lazy)] + [plan.cost]
    costs = tuple(sorted((replace(c, shard=min(c.shard, runs)) for c in found), key=lambda c: c.nanoseconds))
    fits = memory(width, roots) <= MEMORY
    chosen = engine or next(c.engine for c in costs if c.engine != "dense" or fits)
    if chosen == "dense":
        check_memory(width, roots)
    return Choice(chosen, engine is not None, costs, builds[chosen], compiled() if fast else Arithmetic())


def compiled() -> Arithmetic:
    """The arithmetic of the extra `fast`.  Raises: NS311 where numba is not installed."""
    try:
        from netsor.finite.compiled import Compiled
    except ImportError as error:
        raise IllFormed(
            "NS311",
            statement=f"fast=True: {error}",
            hypothesis="compiled arithmetic needs the optional library numba",
            repair="pip install 'netsor[fast]', or leave it out: the draws are the same",
        ) from None
    return Compiled()
