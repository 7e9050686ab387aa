"""relu_power(k)(x) = max(x, 0)^k."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from netsor.errors import IllFormed
from netsor.ir import Function
from netsor.ops import Gate, Growth, Piece


def relu_power(k: int) -> Function:
    """x^k for x > 0, else 0: the activation of the arc-cosine kernel of order k (Cho, Saul 2009)."""
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise IllFormed("NS306", statement=f"relu_power({k!r})", hypothesis="k is a positive integer", repair="step is k = 0")
    half = Fraction(1, 2)
    return Function(
        "relu_power",
        lambda x: np.maximum(x, 0.0) ** k,
        lambda sp, x: sp.Max(x, 0) ** k,
        params=(k,),
        features=((0.0, 0.0),),
        growth=Growth(k, low=0),
        pieces=(Piece(half, k), Piece(half, k, gate=Gate())),
    )
