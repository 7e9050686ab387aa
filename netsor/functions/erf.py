"""erf(x) = 2/sqrt(pi) int_0^x exp(-t^2) dt."""

from __future__ import annotations

from fractions import Fraction

from scipy import special

from netsor.ir import Function
from netsor.ops import Gate, Growth, Piece

erf = Function(
    "erf",
    special.erf,
    lambda sp, x: sp.erf(x),
    features=((0.0, 0.7),),
    growth=Growth(0, low=-1, high=1),
    pieces=(Piece(gate=Gate(noise=Fraction(1, 2))),),
)
