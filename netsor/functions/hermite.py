"""hermite(k): the Hermite polynomial He_k of the density exp(-x^2 / 2)."""

from __future__ import annotations

from numpy.polynomial import hermite_e

from netsor.errors import IllFormed
from netsor.ir import Function
from netsor.ops import Growth, Piece

LARGEST = 32


def hermite(k: int) -> Function:
    """He_k(x) = x He_{k-1}(x) - (k - 1) He_{k-2}(x), He_0 = 1: E He_j(X) He_k(Y) = k! r^k delta(j, k) at unit variances and
    correlation r (Mehler 1866)."""
    if isinstance(k, bool) or not isinstance(k, int) or not 0 <= k <= LARGEST:
        raise IllFormed(
            "NS306", statement=f"hermite({k!r})", hypothesis=f"the order is an integer from 0 to {LARGEST}", repair="hermite(2)"
        )
    exact = coefficients(k)
    series = [0.0] * k + [1.0]
    return Function(
        "hermite",
        lambda x: hermite_e.hermeval(x, series),
        lambda sp, x: sum((c * x**power for power, c in enumerate(exact)), sp.Integer(0)),
        params=(k,),
        growth=Growth(k),
        pieces=tuple(Piece(c, power) for power, c in enumerate(exact) if c),
    )


def coefficients(k: int) -> list[int]:
    """Those of He_k, constant first."""
    before, now = [0], [1]
    for j in range(k):
        raised = [0, *now]
        before, now = now, [c - j * (before[i] if i < len(before) else 0) for i, c in enumerate(raised)]
    return now
