"""exp(x)."""

from __future__ import annotations

import numpy as np

from netsor.ir import Function

exp = Function("exp", np.exp, lambda sp, x: sp.exp(x))
