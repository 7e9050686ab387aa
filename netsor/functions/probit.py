"""probit(x) = Phi(x), the distribution function of N(0, 1)."""

from __future__ import annotations

from fractions import Fraction

from scipy import special

from netsor.ir import Function
from netsor.ops import Gate, Growth, Piece

HALF = Fraction(1, 2)

probit = Function(
    "probit",
    special.ndtr,
    lambda sp, x: (1 + sp.erf(x / sp.sqrt(2))) / 2,
    features=((0.0, 1.0),),
    growth=Growth(0, low=0, high=1),
    pieces=(Piece(HALF), Piece(HALF, gate=Gate(noise=1))),
)
