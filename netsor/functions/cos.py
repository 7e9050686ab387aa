"""cos(x)."""

from __future__ import annotations

import numpy as np

from netsor.ir import Function
from netsor.ops import Growth, Piece

cos = Function("cos", np.cos, lambda sp, x: sp.cos(x), growth=Growth(0, low=-1, high=1), pieces=(Piece(wave=(True, 1)),))
