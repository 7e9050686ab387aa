"""rbf(a)(x) = exp(-a x^2)."""

from __future__ import annotations

import numpy as np

from netsor.checks import Number, number
from netsor.errors import IllFormed
from netsor.ir import Function
from netsor.ops import Growth, Piece


def rbf(a: Number = 1) -> Function:
    """A Gaussian bump of curvature a > 0 (Williams 1997)."""
    curvature = float(number(a, "a of rbf"))
    if curvature <= 0:
        raise IllFormed("NS306", statement=f"rbf({a})", hypothesis="the curvature of rbf is positive", repair="rbf(1)")
    return Function(
        "rbf",
        lambda x: np.exp(-curvature * x * x),
        lambda sp, x: sp.exp(-sp.nsimplify(a) * x**2),
        params=(a,),
        features=((0.0, 0.7 / curvature**0.5),),
        growth=Growth(0, low=0, high=1),
        pieces=(Piece(bend=a),),
    )
