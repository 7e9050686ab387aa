"""exp(x)."""

from __future__ import annotations

import numpy as np

from netsor.ir import Function
from netsor.ops import Piece

exp = Function("exp", np.exp, lambda sp, x: sp.exp(x), pieces=(Piece(rate=1),))
