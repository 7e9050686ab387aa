"""Arrays whose axes carry letters: shape (sizes of the letters, runs, coordinates), the last two full or 1."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from netsor.checks import Number
from netsor.errors import IllFormed
from netsor.ir import Index, Plate, Slot


@dataclass(frozen=True, slots=True, eq=False)
class Named:
    """`data[k0, k1, ..., run, coordinate]`, with one axis for each letter of `over`."""

    over: tuple[Index, ...]
    data: np.ndarray

    def spread(self, over: Sequence[Index]) -> np.ndarray:
        """The data with one axis for each letter of `over`, of length 1 where the array does not depend on it."""
        if self.over == tuple(over):
            return self.data
        axes = [self.over.index(i) for i in over if i in self.over]
        data = self.data.transpose(*axes, -2, -1)
        return data.reshape(*(extent(i.plate) if i in self.over else 1 for i in over), *data.shape[-2:])

    def full(self, over: Sequence[Index]) -> np.ndarray:
        """The same, broadcast to the full size of every letter."""
        data = self.spread(over)
        shape = (*(extent(i.plate) for i in over), *data.shape[-2:])
        return data if data.shape == shape else np.broadcast_to(data, shape)

    def relabel(self, to: Mapping[Slot, Slot]) -> Named:
        """Letters replaced: a member selects, a repeated letter takes the diagonal."""
        data, axes = self.data, [to.get(i, i) for i in self.over]
        if axes == list(self.over):
            return self
        for k in reversed(range(len(axes))):
            slot = axes[k]
            if not isinstance(slot, Index):
                data = data[(slice(None),) * k + (slot.at,)]
                axes.pop(k)
        letters = tuple(dict.fromkeys(i for i in axes if isinstance(i, Index)))
        if len(letters) < len(axes):
            labels = [letters.index(i) for i in axes if isinstance(i, Index)]
            runs, coordinates = len(letters), len(letters) + 1
            data = np.einsum(data, [*labels, runs, coordinates], [*range(len(letters)), runs, coordinates])
        return Named(letters, data)


def named(value: Any) -> Named:
    """A number as an array without letters."""
    return Named((), np.full((1, 1), float(value)))


def extent(plate: Plate) -> int:
    if plate.infinite:
        raise IllFormed(
            "NS304",
            statement=f"all members of {plate.name}, of which there are infinitely many",
            hypothesis="a number belongs to one member",
            repair="name one: law(..., a=0), or leave the variable out",
        )
    if plate.extent is None:
        raise IllFormed(
            "NS304",
            statement=f"plate {plate.name} has no size",
            hypothesis="a number needs every plate's size; a derivation does not",
            repair=f"bind it: P.at({plate.name}=4)",
        )
    return plate.extent


def count(letters: Iterable[Index]) -> int:
    return math.prod(extent(i.plate) for i in letters)


def union(*groups: Iterable[Index]) -> tuple[Index, ...]:
    return tuple(dict.fromkeys(i for g in groups for i in g))


def combine(f: Callable[..., Any], *arrays: Named) -> Named:
    """f of the arrays, broadcast letter by letter."""
    over = union(*(a.over for a in arrays))
    return Named(over, np.asarray(f(*(a.spread(over) for a in arrays))))


def contract(number: Number, factors: Sequence[Named], out: Sequence[Index]) -> Named:
    """number * sum over the letters not in `out` of the product of the factors; runs and coordinates are carried."""
    letters = union(*(f.over for f in factors))
    kept = [i for i in letters if i in out]
    label = {i: k for k, i in enumerate(letters)}
    tails = (len(letters), len(letters) + 1)
    operands: list[Any] = []
    live = [any(f.data.shape[t] > 1 for f in factors) for t in (-2, -1)]
    for f in factors:
        data, labels = f.data, [label[i] for i in f.over]
        for t, axis in zip(tails, (-2, -1), strict=True):
            if f.data.shape[axis] > 1:
                labels.append(t)
        shape = [n for k, n in enumerate(data.shape) if k < data.ndim - 2 or n > 1]
        operands += [data.reshape(shape), labels]
    result = [label[i] for i in kept] + [t for t, on in zip(tails, live, strict=True) if on]
    common = any(all(f.data.shape[t] > 1 for f in factors) for t in (-2, -1))
    plain = common and len(factors) <= 2  # a loop along the common axis; many small matrix products are slower
    data = np.einsum(*operands, result, optimize=False if plain else "greedy") if factors else np.asarray(1.0)
    shape = [extent(i.plate) for i in kept]
    sizes = [max([f.data.shape[t] for f in factors], default=1) for t in (-2, -1)]
    return Named(tuple(kept), float(number) * data.reshape(*shape, *sizes))
