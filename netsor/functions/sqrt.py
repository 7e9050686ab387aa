"""sqrt(x)."""

from __future__ import annotations

import numpy as np

from netsor.ir import Function
from netsor.ops import Growth

sqrt = Function(
    "sqrt",
    np.sqrt,
    lambda sp, x: sp.sqrt(x),
    features=((0.0, 0.0),),
    growth=Growth(0.5, low=0, tame=False),
    latex=r"\sqrt{{{}}}",
)
