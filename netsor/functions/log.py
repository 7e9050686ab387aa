"""log(x), the natural logarithm."""

from __future__ import annotations

import numpy as np

from netsor.ir import Function
from netsor.ops import Growth

log = Function("log", np.log, lambda sp, x: sp.log(x), singular=(0.0,), growth=Growth(tame=False))
