"""clip(c)(x) = min(max(x, -c), c)."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from netsor.checks import Number, number
from netsor.errors import IllFormed
from netsor.ir import Function
from netsor.ops import Gate, Growth, Piece


def clip(c: Number = 1) -> Function:
    """The identity cut off at -c and c: bounded and Lipschitz, the tokens of Sakai et al. 2025, Section 5."""
    bound = float(number(c, "the bound of clip"))
    if bound <= 0:
        raise IllFormed("NS306", statement=f"clip({c})", hypothesis="the bound of clip is positive", repair="clip(1)")
    return Function(
        "clip",
        lambda x: np.clip(x, -bound, bound),
        lambda sp, x: sp.Min(sp.Max(x, -sp.nsimplify(c)), sp.nsimplify(c)),
        params=(c,),
        features=((-bound, 0.0), (bound, 0.0)),
        growth=Growth(0, low=-bound, high=bound),
        pieces=clip_pieces(c),
    )


def clip_pieces(c: Number) -> tuple[Piece, ...]:
    """2 clip(x) = (x + c) sgn(x + c) - (x - c) sgn(x - c)."""
    half = Fraction(1, 2)
    low, high = Gate(at=-c), Gate(at=c)
    return Piece(half, 1, gate=low), Piece(half * c, gate=low), Piece(-half, 1, gate=high), Piece(half * c, gate=high)
