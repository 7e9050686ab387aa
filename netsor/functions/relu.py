"""relu(x) = max(x, 0)."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from netsor.ir import Function
from netsor.ops import Gate, Growth, Piece

HALF = Fraction(1, 2)

relu = Function(
    "relu",
    lambda x: np.maximum(x, 0.0),
    lambda sp, x: sp.Max(x, 0),
    features=((0.0, 0.0),),
    growth=Growth(low=0),
    pieces=(Piece(HALF, 1), Piece(HALF, 1, gate=Gate())),
)
