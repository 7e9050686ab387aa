"""erf(x) = 2/sqrt(pi) int_0^x exp(-t^2) dt."""

from __future__ import annotations

import numpy as np
from scipy import special

from netsor.ir import Function
from netsor.ops import Dual, Growth


def mean(m: np.ndarray, v: np.ndarray) -> np.ndarray:
    """E erf(X) = erf(m / sqrt(1 + 2 v))."""
    result: np.ndarray = special.erf(m / np.sqrt(1 + 2 * v))
    return result


def pair(v: np.ndarray, w: np.ndarray, c: np.ndarray) -> np.ndarray:
    """E erf(X) erf(Y) = 2/pi arcsin(2 c / sqrt((1 + 2 v)(1 + 2 w))), centred (Williams 1997)."""
    result: np.ndarray = 2 / np.pi * np.arcsin(2 * c / np.sqrt((1 + 2 * v) * (1 + 2 * w)))
    return result


erf = Function(
    "erf", special.erf, lambda sp, x: sp.erf(x), features=((0.0, 0.7),), dual=Dual(mean, pair), growth=Growth(0, low=-1, high=1)
)
