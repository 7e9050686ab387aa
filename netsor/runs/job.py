"""A request that is cut into parts by itself alone, so that the parts may be drawn anywhere and in any order."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from netsor.errors import IllFormed

Arrays = dict[str, np.ndarray]
Draw = Callable[[str, int], Arrays]  # (the request as text, which part)


class Job(ABC):
    """What is to be drawn. `count` parts, each a dict of arrays; `data` is the whole request as JSON has it."""

    @property
    @abstractmethod
    def count(self) -> int: ...

    @property
    @abstractmethod
    def remote(self) -> Draw:
        """A function of a module that makes of `text` and a number the same as `draw` in another process."""

    @abstractmethod
    def draw(self, part: int) -> Arrays: ...

    @abstractmethod
    def data(self) -> dict[str, Any]:
        """Raises: NS310 for a program with functions that are Python code."""

    def size(self, part: int) -> int:
        """Runs of a part, for progress."""
        return 1

    def text(self) -> str:
        return json.dumps(self.data(), allow_nan=False)


def seed_data(seed: np.random.SeedSequence) -> dict[str, Any]:
    entropy: Any = seed.entropy
    return {
        "entropy": int(entropy) if isinstance(entropy, int | np.integer) else [int(word) for word in entropy or ()],
        "spawn_key": [int(k) for k in seed.spawn_key],
    }


def seed_from(data: Mapping[str, Any]) -> np.random.SeedSequence:
    return np.random.SeedSequence(data["entropy"], spawn_key=tuple(data["spawn_key"]))


def stopped(statement: str, hypothesis: str, repair: str, consequence: str = "") -> IllFormed:
    """The error of a run that cannot go on."""
    return IllFormed("NS312", statement=statement, hypothesis=hypothesis, consequence=consequence, repair=repair)
