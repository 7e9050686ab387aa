"""Numbers that carry their error, and where errors come from: independent replicates, or coarser rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from math import isfinite
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

Array = NDArray[np.float64]

LATTICES = 4
"""A trapezoid rule consists of 4 coarser ones, each on every fourth point."""

_EXACT = 1e-12  # an error below this part of the value is not worth a digit
_PLAIN = range(-4, 6)  # decimal exponents printed without an e


class Estimate(float):
    """x ± e: a float x that carries `.error` = e >= 0, one standard error or a bound of the numerical error.

    Prints as 0.3916(6): the bracket is the error in units of the last digit, one figure, or two if the first is a 1.
    A number whose error is 0 or below 1e-12 of it prints plainly. A format spec acts on the value alone, as for float.

    Arithmetic is float arithmetic and returns a plain float: errors are never propagated, because two numbers computed
    from the same runs are not independent. Ask the law for the functional itself.

    Raises: ValueError where the error is negative or nan.
    """

    __slots__ = ("error",)
    error: float

    def __new__(cls, value: float | Array, error: float | Array = 0.0) -> Self:
        self = super().__new__(cls, value)
        self.error = float(error)
        if not self.error >= 0:
            raise ValueError(f"an error is a number >= 0, not {self.error}")
        return self

    def __getnewargs__(self) -> tuple[float, ...]:  # type: ignore[override]  # typeshed: float has one argument
        return float(self), self.error

    def __repr__(self) -> str:
        return f"Estimate({float(self)!r}, error={self.error!r})"

    def __str__(self) -> str:
        value, error = float(self), self.error
        if not (isfinite(value) and isfinite(error)):
            return f"{value:.12g}" if error == 0 else f"{value:.12g}({error:.1g})"
        if error <= _EXACT * abs(value):
            return f"{value:.12g}"
        power = _exponent(max(abs(value), error))
        last = _exponent(error) - (f"{error:e}"[0] == "1")  # power of ten of the last digit that is printed
        if power in _PLAIN:
            return _bracket(Decimal(value), Decimal(error), last)
        mantissas = Decimal(value).scaleb(-power), Decimal(error).scaleb(-power)
        return f"{_bracket(*mantissas, last - power)}e{power:+03d}"

    def __format__(self, spec: str) -> str:
        return format(float(self), spec) if spec else str(self)


@dataclass(frozen=True, eq=False)
class EstimateArray:
    """An array of numbers x ± e: `value` and `error` of one shape; an entry is an Estimate, a slice an EstimateArray.

    numpy sees the values alone.

    Raises: ValueError where the shapes differ.
    """

    value: Array
    error: Array

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", np.asarray(self.value, dtype=np.float64))
        object.__setattr__(self, "error", np.asarray(self.error, dtype=np.float64))
        if self.value.shape != self.error.shape:
            raise ValueError(f"values of shape {self.value.shape} with errors of shape {self.error.shape}")

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    def __len__(self) -> int:
        return len(self.value)

    def __getitem__(self, key: Any) -> Estimate | EstimateArray:
        value, error = self.value[key], self.error[key]
        return Estimate(value, error) if np.ndim(value) == 0 else EstimateArray(value, error)

    def item(self) -> Estimate:
        """The only entry.  Raises: ValueError if there are more or none."""
        return Estimate(self.value.item(), self.error.item())

    def __float__(self) -> float:
        return float(self.value.item())

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.value, dtype=dtype, copy=True) if copy else np.asarray(self.value, dtype=dtype)

    def __str__(self) -> str:
        entries = [str(Estimate(v, e)) for v, e in zip(self.value.flat, self.error.flat, strict=True)]
        width = max(map(len, entries), default=0)
        table = np.array([entry.rjust(width) for entry in entries], dtype=object).reshape(self.shape)
        return np.array2string(table, formatter={"object": str}) if self.shape else entries[0]


def jackknife(
    stat: Callable[[tuple[Array, ...]], ArrayLike], replicates: ArrayLike | tuple[ArrayLike, ...]
) -> tuple[Array, Array]:
    """θ = stat(means) and its delete-one error sqrt((R-1)/R Σ_r (θ_r - θ.)²), θ_r from the means without replicate r.

    Where `stat` is linear this is the standard error of a mean. It is exactly 0 for equal replicates, and for a single
    one, which means a deterministic law. `stat` is given a tuple even for a single array.

    Shapes: `replicates` is an array (R, ...) or a tuple of them with one R; `stat` maps arrays without that axis to a
        number or an array; both results have its shape.
    Raises: ValueError where the arrays differ in R.
    Source: Tukey 1958; Efron and Stein 1981 (on average the error is too large, not too small).
    """
    several = replicates if isinstance(replicates, tuple) else (replicates,)
    arrays = [np.asarray(a, dtype=np.float64) for a in several]
    count = len(arrays[0])
    if any(len(a) != count for a in arrays):
        raise ValueError(f"replicate axes of different lengths: {[len(a) for a in arrays]}")
    # Deviations from the first replicate: equal replicates then have equal means to the last bit.
    deviations = [a - a[0] for a in arrays]
    totals = [d.sum(axis=0) for d in deviations]

    def at(means: list[Array]) -> Array:
        return np.asarray(stat(tuple(a[0] + m for a, m in zip(arrays, means, strict=True))), dtype=np.float64)

    value = at([t / count for t in totals])
    if count == 1:
        return value, np.zeros_like(value)
    pairs = list(zip(totals, deviations, strict=True))
    deleted = np.stack([at([(t - d[r]) / (count - 1) for t, d in pairs]) for r in range(count)])
    spread = deleted - deleted[0]
    spread -= spread.mean(axis=0)
    return value, np.sqrt((count - 1) / count * np.square(spread).sum(axis=0))


def lattice_error(parts: Array) -> Array:
    """A bound of the error of a trapezoid rule: a quarter of the range of the 4 coarser ones it consists of.

    At a jump J of the integrand the rule errs by at most Jh/2, while the coarse ones range over 3Jh; at a jump J of the
    derivative by Jh²/12 and over Jh² or more; for an analytic integrand both vanish.

    Shapes: (..., 4) to (...).
    """
    return np.asarray(np.ptp(parts, axis=-1) / LATTICES)


def _exponent(x: float) -> int:
    """floor(log10 x), exact at powers of ten where log10 may not be."""
    return int(f"{x:e}".partition("e")[2])


def _bracket(value: Decimal, error: Decimal, last: int) -> str:
    if last > 0:
        return f"{round(value, -last):.0f}({round(error, -last):.0f})"
    return f"{value:.{-last}f}({error.scaleb(-last):.0f})"
