"""sign(x): -1, 0 or 1."""

from __future__ import annotations

import numpy as np

from netsor.ir import Function
from netsor.ops import Gate, Growth, Piece

sign = Function(
    "sign",
    np.sign,
    lambda sp, x: sp.sign(x),
    features=((0.0, 0.0),),
    jumps=(0.0,),
    growth=Growth(0, low=-1, high=1, tame=False),
    pieces=(Piece(gate=Gate()),),
)
