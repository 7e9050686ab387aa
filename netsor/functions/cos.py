"""cos(x)."""

from __future__ import annotations

import numpy as np

from netsor.ir import Function

cos = Function("cos", np.cos, lambda sp, x: sp.cos(x))
