"""step(x): 1 for x > 0, else 0."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from netsor.ir import Function
from netsor.ops import Gate, Growth, Piece

HALF = Fraction(1, 2)

step = Function(
    "step",
    lambda x: np.where(x > 0, 1.0, 0.0),
    lambda sp, x: sp.Heaviside(x, 0),
    features=((0.0, 0.0),),
    jumps=(0.0,),
    growth=Growth(0, low=0, high=1, tame=False),
    pieces=(Piece(HALF), Piece(HALF, gate=Gate())),
)
