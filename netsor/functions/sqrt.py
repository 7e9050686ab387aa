"""sqrt(x)."""

from __future__ import annotations

import numpy as np

from netsor.ir import Function

sqrt = Function("sqrt", np.sqrt, lambda sp, x: sp.sqrt(x), features=((0.0, 0.0),), latex=r"\sqrt{{{}}}")
