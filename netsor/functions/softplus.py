"""softplus(x) = log(1 + exp(x))."""

from __future__ import annotations

import numpy as np

from netsor.ir import Function
from netsor.ops import Growth

softplus = Function(
    "softplus",
    lambda x: np.logaddexp(x, 0.0),
    lambda sp, x: sp.log(1 + sp.exp(x)),
    features=((0.0, np.pi),),
    growth=Growth(low=0),
)
