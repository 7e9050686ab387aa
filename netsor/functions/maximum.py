"""maximum and minimum of two: programs of the language and not primitives."""

from __future__ import annotations

from typing import Any

from netsor.functions.relu import relu
from netsor.ir import Term, lift


def maximum(x: Any, y: Any) -> Term:
    """max(x, y) = x + relu(y - x), coordinate by coordinate; for Gaussians E max is that of Clark 1961."""
    first, second = lift(x), lift(y)
    larger: Term = first + relu(second - first)
    return larger


def minimum(x: Any, y: Any) -> Term:
    """min(x, y) = x - relu(x - y)."""
    first, second = lift(x), lift(y)
    smaller: Term = first - relu(first - second)
    return smaller
