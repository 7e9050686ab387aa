"""leaky_relu(slope)(x) = max(x, 0) + slope min(x, 0)."""

from __future__ import annotations

import numpy as np

from netsor.checks import Number, number
from netsor.ir import Function
from netsor.ops import Growth


def leaky_relu(slope: Number = 0.01) -> Function:
    """x for x > 0, slope x below."""
    a = float(number(slope, "the slope of leaky_relu"))
    return Function(
        "leaky_relu",
        lambda x: np.where(x > 0, x, a * x),
        lambda sp, x: sp.Max(x, 0) + sp.nsimplify(slope) * sp.Min(x, 0),
        params=(slope,),
        growth=Growth(),
        features=((0.0, 0.0),),
    )
