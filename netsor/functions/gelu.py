"""gelu(x) = x Phi(x), the exact GELU."""

from __future__ import annotations

from scipy import special

from netsor.ir import Function
from netsor.ops import Growth

gelu = Function(
    "gelu",
    lambda x: x * special.ndtr(x),
    lambda sp, x: x * (1 + sp.erf(x / sp.sqrt(2))) / 2,
    features=((0.0, 1.0),),
    growth=Growth(low=-0.17),
)
