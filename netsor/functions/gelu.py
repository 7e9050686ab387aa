"""gelu(x) = x Phi(x), the exact GELU."""

from __future__ import annotations

from fractions import Fraction

from scipy import special

from netsor.ir import Function
from netsor.ops import Gate, Growth, Piece

HALF = Fraction(1, 2)

gelu = Function(
    "gelu",
    lambda x: x * special.ndtr(x),
    lambda sp, x: x * (1 + sp.erf(x / sp.sqrt(2))) / 2,
    features=((0.0, 1.0),),
    growth=Growth(low=-0.17),
    pieces=(Piece(HALF, 1), Piece(HALF, 1, gate=Gate(noise=1))),
)
