"""cos(x)."""

from __future__ import annotations

import numpy as np

from netsor.ir import Function
from netsor.ops import Piece

cos = Function("cos", np.cos, lambda sp, x: sp.cos(x), pieces=(Piece(wave=(True, 1)),))
