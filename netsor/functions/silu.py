"""silu(x) = x sigmoid(x)."""

from __future__ import annotations

import numpy as np
from scipy import special

from netsor.ir import Function
from netsor.ops import Growth

silu = Function(
    "silu",
    lambda x: x * special.expit(x),
    lambda sp, x: x / (1 + sp.exp(-x)),
    features=((0.0, np.pi),),
    growth=Growth(low=-0.28),
)
