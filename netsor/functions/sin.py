"""sin(x)."""

from __future__ import annotations

import numpy as np

from netsor.ir import Function
from netsor.ops import Growth, Piece

sin = Function("sin", np.sin, lambda sp, x: sp.sin(x), growth=Growth(0, low=-1, high=1), pieces=(Piece(wave=(False, 1)),))
