"""sigmoid(x) = 1 / (1 + exp(-x))."""

from __future__ import annotations

import numpy as np
from scipy import special

from netsor.ir import Function
from netsor.ops import Growth

sigmoid = Function(
    "sigmoid", special.expit, lambda sp, x: 1 / (1 + sp.exp(-x)), features=((0.0, np.pi),), growth=Growth(0, low=0, high=1)
)
