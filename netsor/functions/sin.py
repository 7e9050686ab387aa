"""sin(x)."""

from __future__ import annotations

import numpy as np

from netsor.ir import Function
from netsor.ops import Piece

sin = Function("sin", np.sin, lambda sp, x: sp.sin(x), pieces=(Piece(wave=(False, 1)),))
