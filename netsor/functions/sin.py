"""sin(x)."""

from __future__ import annotations

import numpy as np

from netsor.ir import Function

sin = Function("sin", np.sin, lambda sp, x: sp.sin(x))
