"""The covariance that a user gives for initial vectors: shape, symmetry, positivity."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from netsor.checks import number
from netsor.errors import IllFormed
from netsor.ir import Index

ROUNDING = 1e-6  # of the largest entry: a float32 covariance is taken as meant


def covariance_of(name: str, indices: tuple[Index, ...], cov: Any) -> Any:
    """cov as a number, or as a nested tuple of shape (sizes of the indices) twice, symmetric and positive semidefinite."""
    values = cov.tolist() if hasattr(cov, "tolist") else cov
    if not isinstance(values, list | tuple):
        value = number(values, f"cov of vector {name}")
        if value < 0:
            raise not_psd(name, f"its variance is {value}")
        return value
    nested = nest(name, values)
    shape, letters = shape_of(name, nested), ", ".join(map(str, indices))
    wanted = tuple(i.plate.extent for i in indices) * 2
    if len(shape) != len(wanted) or any(w not in (None, s) for s, w in zip(shape, wanted, strict=True)):
        raise IllFormed(
            "NS305",
            statement=f"cov of vector {name}[{letters}] has shape {shape}",
            hypothesis=f"it needs the sizes of [{letters}] twice: {tuple(w or 'any' for w in wanted)}",
            repair="give an array over (indices, primed indices), or a number for iid vectors",
        )
    check_positive(name, dict(entries(nested)), len(indices))
    return nested


def check_positive(name: str, table: dict[tuple[int, ...], Any], half: int) -> None:
    """Pivoted elimination in place: a negative remainder names the pair of entries that cannot be."""
    largest = max(abs(v) for v in table.values())
    for at, v in table.items():
        mirrored = table[at[half:] + at[:half]]
        if abs(v - mirrored) > ROUNDING * largest:
            raise IllFormed(
                "NS305",
                statement=f"cov of vector {name}: entry {at} is {v}, entry {at[half:] + at[:half]} is {mirrored}",
                hypothesis="a covariance is symmetric, and this array is not symmetric",
                repair="give (K + K.T) / 2 if that is what is meant",
            )
    left = list(dict.fromkeys(at[:half] for at in table))
    rest = {at: float(v) for at, v in table.items()}
    while left:
        i = max(left, key=lambda k: rest[k + k])
        bad = min(left, key=lambda k: rest[k + k])
        if rest[bad + bad] < -ROUNDING * largest:
            raise not_psd(name, f"entry {bad} has variance {table[bad + bad]}, less than the others explain")
        left.remove(i)
        for k in left:
            v = rest[i + k]
            if abs(v) > math.sqrt(max(rest[i + i], 0) * max(rest[k + k], 0)) + ROUNDING * largest:
                raise not_psd(name, f"the pair {i}, {k}: covariance {table[i + k]} is too large for their variances")
        if rest[i + i] > ROUNDING * largest:
            for k in left:
                for m in left:
                    rest[k + m] -= rest[k + i] * rest[i + m] / rest[i + i]


def not_psd(name: str, detail: str) -> IllFormed:
    return IllFormed(
        "NS305",
        statement=f"cov of vector {name}: {detail}",
        hypothesis="a covariance is positive semidefinite",
        repair="correct the offending pair",
    )


def nest(name: str, values: Any) -> Any:
    """Nested lists as nested tuples of checked numbers."""
    if isinstance(values, list | tuple):
        return tuple(nest(name, v.tolist() if hasattr(v, "tolist") else v) for v in values)
    return number(values, f"an entry of {name}")


def shape_of(name: str, nested: Any) -> tuple[int, ...]:
    if not isinstance(nested, tuple):
        return ()
    shapes = {shape_of(name, v) for v in nested}
    if len(shapes) != 1:
        raise IllFormed(
            "NS305",
            statement=f"values of {name}",
            hypothesis="an array has rows of equal length",
            repair="give a full array",
        )
    return (len(nested), *shapes.pop())


def entries(nested: Any, at: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], Any]]:
    if not isinstance(nested, tuple):
        yield at, nested
    else:
        for k, v in enumerate(nested):
            yield from entries(v, (*at, k))
