"""A sub-Gaussian variance proxy with the argument that led to it."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


class VarianceProxy(float):
    """A number v with V <= v for every conditional variance V of a centred mixture: E exp(tX) <= exp(t² v/2).

    `steps` is the argument; `bound(t)` the tail bound 2 exp(-t²/(2v)) of P(|X| > t).
    """

    steps: tuple[str, ...]

    def __new__(cls, value: float, steps: tuple[str, ...] = ()) -> Self:
        self = super().__new__(cls, value)
        self.steps = steps
        return self

    def explain(self) -> str:
        return "\n".join(self.steps)

    def bound(self, t: ArrayLike) -> Array:
        return np.asarray(np.minimum(1.0, 2 * np.exp(-np.square(t) / (2 * float(self)))))
