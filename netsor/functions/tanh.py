"""tanh(x)."""

from __future__ import annotations

import numpy as np

from netsor.ir import Function
from netsor.ops import Growth

tanh = Function("tanh", np.tanh, lambda sp, x: sp.tanh(x), features=((0.0, np.pi / 2),), growth=Growth(0, low=-1, high=1))
