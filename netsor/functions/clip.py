"""clip(c)(x) = min(max(x, -c), c)."""

from __future__ import annotations

import numpy as np

from netsor.checks import Number, number
from netsor.errors import IllFormed
from netsor.ir import Function
from netsor.ops import Growth


def clip(c: Number = 1) -> Function:
    """The identity cut off at -c and c: bounded and Lipschitz, the tokens of Sakai et al. 2025, Section 5."""
    bound = float(number(c, "the bound of clip"))
    if bound <= 0:
        raise IllFormed("NS306", statement=f"clip({c})", hypothesis="the bound of clip is positive", repair="clip(1)")
    return Function(
        "clip",
        lambda x: np.clip(x, -bound, bound),
        lambda sp, x: sp.Min(sp.Max(x, -sp.nsimplify(c)), sp.nsimplify(c)),
        params=(c,),
        growth=Growth(0, low=-bound, high=bound),
        features=((-bound, 0.0), (bound, 0.0)),
    )
