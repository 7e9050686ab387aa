"""elu(alpha)(x) = x for x > 0, alpha (exp(x) - 1) below."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from netsor.checks import Number, number
from netsor.ir import Function
from netsor.ops import Gate, Growth, Piece


def elu(alpha: Number = 1) -> Function:
    """The exponential linear unit (Clevert, Unterthiner, Hochreiter 2016); smooth at 0 once for alpha = 1."""
    a = float(number(alpha, "alpha of elu"))
    half, up = Fraction(1, 2), Gate()
    return Function(
        "elu",
        lambda x: np.where(x > 0, x, a * np.expm1(np.minimum(x, 0.0))),
        lambda sp, x: sp.Piecewise((x, x > 0), (sp.nsimplify(alpha) * (sp.exp(x) - 1), True)),
        params=(alpha,),
        features=((0.0, 0.0), (0.0, 1.0)),
        growth=Growth(low=min(-a, 0.0)),
        pieces=(
            Piece(half, 1),
            Piece(half, 1, gate=up),
            Piece(half * alpha, rate=1),
            Piece(-half * alpha, rate=1, gate=up),
            Piece(-half * alpha),
            Piece(half * alpha, gate=up),
        ),
    )
