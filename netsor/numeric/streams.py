"""Random streams, keyed by what they are for and never by a counter of calls."""

from __future__ import annotations

from hashlib import blake2b
from typing import TypeAlias

import numpy as np

from netsor.errors import IllFormed

Rng: TypeAlias = int | np.random.SeedSequence | np.random.Generator | None


def seed_of(rng: Rng) -> np.random.SeedSequence:
    """The root of all streams of one request. None takes fresh entropy; a Generator is asked for four numbers."""
    if isinstance(rng, np.random.SeedSequence):
        return rng
    if isinstance(rng, np.random.Generator):
        return np.random.SeedSequence(rng.integers(2**63, size=4).tolist())
    if rng is None or (isinstance(rng, int | np.integer) and not isinstance(rng, bool) and rng >= 0):
        return np.random.SeedSequence(None if rng is None else int(rng))
    raise IllFormed(
        "NS311",
        statement=f"rng={rng!r}",
        hypothesis="the source of randomness is None, a non-negative integer, a SeedSequence or a Generator",
        repair="rng=0",
    )


def stream(seed: np.random.SeedSequence, *names: object) -> np.random.Generator:
    """The generator for one purpose: the same names give the same stream, whatever else is drawn."""
    digest = blake2b(repr(names).encode(), digest_size=16).digest()
    words = tuple(int.from_bytes(digest[k : k + 4], "big") for k in range(0, 16, 4))
    child = np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, *words))
    return np.random.Generator(np.random.SFC64(child))


def pieces(whole: int, size: int) -> int:
    """How many pieces of at most `size` make the whole."""
    return -(-whole // size)


def piece(whole: int, size: int, k: int) -> int:
    """The size of piece k; the last one is what is left."""
    return min(size, whole - k * size)
