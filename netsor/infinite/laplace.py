r"""Softmax over any number of independent vectors of one law: one integral instead of s - 1.

With S = sum_j e^{x_j} and x_j iid N(m, v), A_k = e^{x_k} / S, and 1 / S^K = int_0^oo t^{K-1} e^{-t S} dt / Gamma(K),

    E prod_k A_k^{a_k} x_k^{b_k} = 1 / Gamma(K) int_0^oo t^{K-1} prod_k E[x^{b_k} e^{a_k x} exp(-t e^x)] dt,   K = sum_k a_k.

In log t, and in x, the trapezoid rule converges exponentially: the integrand is analytic for |Im log t| < pi / 2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product
from math import lgamma, log
from typing import TYPE_CHECKING

import numpy as np

from netsor.functions.along import SOFTMAX
from netsor.ir import Index, Member, Slot, Term
from netsor.numeric.named import Named, extent
from netsor.ops import Along

if TYPE_CHECKING:
    from netsor.infinite.values import LimitValues

LARGEST = 4096  # combinations of members; they fall into few patterns
Pattern = tuple[tuple[int, int], ...]
"""(a_k, b_k) of the members that occur, sorted: members are alike."""


def by_laplace(at: LimitValues, leaf: Term) -> tuple[Named, Named] | None:
    """The leaf and its error over its letters, where it is a product of entries of one softmax and of its arguments."""
    found = argument_of(leaf)
    extents = [i.plate.extent or 0 for i in leaf.free]
    if found is None or not 0 < np.prod(extents, initial=1) <= LARGEST:
        return None
    x, bound = found
    law = law_of_one(at, x, bound)
    if law is None:
        return None
    values: dict[Pattern, tuple[np.ndarray, np.ndarray]] = {}
    where = []
    for members in product(*map(range, extents)):
        to: dict[Slot, Slot] = {i: Member(i.plate, k) for i, k in zip(leaf.free, members, strict=True)}
        pattern = pattern_of(leaf.at(to), x, bound)
        if pattern is None:
            return None
        if pattern not in values:
            values[pattern] = refined(pattern, extent(bound.plate), *law)
        where.append(pattern)
    sizes = [extent(i.plate) for i in leaf.free]
    value, error = (np.stack([values[p][part] for p in where]).reshape(*sizes, -1, 1) for part in (0, 1))
    at.routes.count("line", value.size)
    return Named(leaf.free, value), Named(leaf.free, error)


def argument_of(leaf: Term) -> tuple[Term, Index] | None:
    """x_j and the letter j of a factor softmax_j(x_j)."""
    for a in leaf.args:
        if isinstance(a.op, Along) and a.op.fn == SOFTMAX and len(a.args) == 1:
            (bound,), (inner,) = a.open()
            return inner, bound
    return None


def law_of_one(at: LimitValues, x: Term, bound: Index) -> tuple[np.ndarray, np.ndarray] | None:
    """Mean and variance over runs of the members, if they are independent and of one law, and of nothing else."""
    if bound.plate.extent is None or not at.moments.affine(x) or x.free != (bound,):
        return None
    other = Index("@laplace", bound.plate)
    first, _, both = at.variable(x, x.at({bound: other}))
    mean, cov = first.full((bound,))[..., 0], both.full((bound, other))[..., 0]
    variance = np.einsum("iir->ir", cov)
    alike = np.ptp(mean, axis=0).max() == 0 and np.ptp(variance, axis=0).max() == 0
    independent = np.count_nonzero(cov) <= np.count_nonzero(variance)
    return (mean[0], variance[0]) if alike and independent else None


def pattern_of(leaf: Term, x: Term, bound: Index) -> Pattern | None:
    weights, plain = Counter[int](), Counter[int]()
    members = {x.at({bound: Member(bound.plate, k)}): k for k in range(extent(bound.plate))}
    for a in leaf.args:
        if a in members:
            plain[members[a]] += 1
        elif isinstance(a.op, Along) and a.op.fn == SOFTMAX and len(a.args) == 1 and isinstance(a.own[0], Member):
            (inner_bound,), (inner,) = a.open()
            if inner.at({inner_bound: bound}) != x:
                return None
            weights[a.own[0].at] += 1
        else:
            return None
    return tuple(sorted((weights[k], plain[k]) for k in {*weights, *plain}))


def refined(pattern: Pattern, size: int, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    fine, coarse = (integral(pattern, size, mean, variance, step) for step in (0.12, 0.16))
    return fine, np.abs(fine - coarse)


def integral(pattern: Sequence[tuple[int, int]], size: int, mean: np.ndarray, variance: np.ndarray, step: float) -> np.ndarray:
    """The formula above at every run; steps of `step` in log t, and of at most that in x.  Shapes: (runs) to (runs)."""
    order = sum(a for a, _ in pattern)
    out = np.empty_like(mean)
    for r, (m, s) in enumerate(zip(mean, np.sqrt(variance), strict=True)):
        z = np.arange(-11, 11, min(0.2, step / max(s, 1e-3)))
        x, weight = s * z, np.exp(-z * z / 2)
        weight /= weight.sum()
        logs = np.arange(-45 / order - log(size) - 11 * s, 11 * s + 5, step)[:, None]
        damped = np.exp(-np.exp(logs + x))
        rest = size - len(pattern)
        total = np.exp(order * logs[:, 0] + rest * np.log(np.maximum(damped @ weight, 1e-300)))
        for a, b in pattern:
            total = total * (damped @ (weight * (m + x) ** b * np.exp(a * x)))
        out[r] = total.sum() * step * np.exp(-lgamma(order))
    return out
