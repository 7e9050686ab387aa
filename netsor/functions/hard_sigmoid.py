"""hard_sigmoid(x) = min(max(x / 6 + 1 / 2, 0), 1)."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from netsor.functions.clip import clip_pieces
from netsor.ir import Function
from netsor.ops import Growth, Piece

hard_sigmoid = Function(
    "hard_sigmoid",
    lambda x: np.clip(x / 6 + 0.5, 0.0, 1.0),
    lambda sp, x: sp.Min(sp.Max(x / 6 + sp.Rational(1, 2), 0), 1),
    features=((-3.0, 0.0), (3.0, 0.0)),
    growth=Growth(0, low=0, high=1),
    pieces=(Piece(Fraction(1, 2)), *(replace(p, number=p.number / 6) for p in clip_pieces(3))),
)
