"""exp(x)."""

from __future__ import annotations

import numpy as np

from netsor.ir import Function
from netsor.ops import Growth, Piece

exp = Function("exp", np.exp, lambda sp, x: sp.exp(x), growth=Growth(0, rate=1, low=0, tame=False), pieces=(Piece(rate=1),))
