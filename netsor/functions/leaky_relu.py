"""leaky_relu(slope)(x) = max(x, 0) + slope min(x, 0)."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from netsor.checks import Number, number
from netsor.ir import Function
from netsor.ops import Gate, Growth, Piece


def leaky_relu(slope: Number = 0.01) -> Function:
    """x for x > 0, slope x below."""
    a = float(number(slope, "the slope of leaky_relu"))
    half = Fraction(1, 2)
    return Function(
        "leaky_relu",
        lambda x: np.where(x > 0, x, a * x),
        lambda sp, x: sp.Max(x, 0) + sp.nsimplify(slope) * sp.Min(x, 0),
        params=(slope,),
        features=((0.0, 0.0),),
        growth=Growth(),
        pieces=(Piece(half * (1 + slope), 1), Piece(half * (1 - slope), 1, gate=Gate())),
    )
