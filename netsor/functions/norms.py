"""layernorm and rmsnorm: normalisation by Moments, programs of the language and not primitives."""

from __future__ import annotations

from netsor.checks import Number
from netsor.functions.sqrt import sqrt
from netsor.ir import Term, lift
from netsor.rules.mean import mean


def rmsnorm(x: Term, eps: Number = 0) -> Term:
    """x / sqrt(n^{-1} |x|^2 + eps), without a gain. Its limit needs n^{-1} |x|^2 + eps > 0 in the limit (NS104)."""
    x = lift(x)
    power = mean(x * x)
    return x / sqrt(power + eps if eps else power)


def layernorm(x: Term, eps: Number = 0) -> Term:
    """(x - m) / sqrt(n^{-1} |x - m|^2 + eps), m the mean over coordinates, without gain and bias."""
    x = lift(x)
    return rmsnorm(x - mean(x), eps)
