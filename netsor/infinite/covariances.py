"""Covariances of nonlinear functions of Gaussian vectors, given the scores.

E fg - Ef Eg has the digits that its means leave. Where these are few, deviations from the means are integrated:

    Cov(f(U), g(V)) = E[(f(U) - E f) (E[g(V) | U] - E g)].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from netsor.algebra.known import NotCoordinatewise
from netsor.infinite.kernels import Leaf
from netsor.ir import Term
from netsor.numeric.integral import Integral, Part, wide
from netsor.numeric.linear import left_over
from netsor.numeric.named import Named, combine
from netsor.numeric.quadrature import Feature, given, nodes_given
from netsor.numeric.routes import CHUNK, LARGEST, PLAIN, Routes, TooLarge, line_of, pace_of

if TYPE_CHECKING:
    from netsor.infinite.values import LimitValues

Array = np.ndarray

FEW = 1e-4  # of E f E g: expectations are good to 1e-13
COST = 100  # evaluations of a closed form are worth so many of an integrand


def covariance(at: LimitValues, leaf: Term) -> Named:
    """The value of a leaf Cov(Z^x, Z^y | scores) over its letters and runs."""
    moments, (x, y) = at.moments, leaf.args
    defined = moments.define_covariance(x, y)
    if defined is not None:
        return at.poly(defined, leaf.free)
    second, m, n = at.poly(moments.expect(x, y), leaf.free), *(at.poly(moments.expect(t), t.free) for t in (x, y))
    value = combine(lambda e, m, n: e - m * n, second, m, n)
    few = combine(lambda c, m, n: np.abs(c) < FEW * np.abs(m * n), value, m, n)
    if few.data.any():
        try:
            exact = Deviations(at, leaf).value()
        except (NotCoordinatewise, TooLarge):
            return value
        value = combine(lambda on, c, d: np.where(on, c, d), few, exact, value)
    return value


class Deviations:
    """Cov(f(U), g(V)) for affine U and V, on flat arrays.  Raises: NotCoordinatewise for functions of several vectors."""

    def __init__(self, at: LimitValues, leaf: Term) -> None:
        self.at, self.leaf = at, Leaf(at, leaf)
        self.sides = [self.side(x) for x in leaf.args]

    def side(self, x: Term) -> tuple[int, Part, tuple[Feature, ...]]:
        """The variable under a factor, the factor as a function of it alone, and where it is not smooth."""
        leaf = self.leaf
        if x not in leaf.curved:
            k = len(leaf.inputs) + leaf.plain.index(x)
            return k, Part((0,), lambda values, entries: values[0], PLAIN), ()
        part = leaf.part(x)
        if len(part.variables) > 1:
            raise NotCoordinatewise
        (k,) = part.variables

        def value(values: Mapping[int, Array], entries: Array) -> Array:
            return part.value({k: values[0]}, entries)

        return k, Part((0,), value, part.pieces), tuple(leaf.features(k))

    def value(self) -> Named:
        leaf = self.leaf
        (i, f, kinks), (j, g, others) = self.sides
        m, v = leaf.mean[[i, j]], leaf.cov[np.ix_([i, j], [i, j])]
        out = np.zeros(m.shape[1])
        here = np.flatnonzero(v[0, 1])
        both = Integral((f, g), 2, m, v, (kinks, others), np.arange(out.size)).at(here)
        nodes = nodes_given(*line_of(both), self.at.level, (pace_of(f.pieces), pace_of(g.pieces)))
        if COST * nodes * here.size > LARGEST:
            raise TooLarge
        self.at.routes.count("line", here.size)
        step = max(1, CHUNK // nodes)
        for k in range(0, here.size, step):
            part = np.arange(k, min(k + step, here.size))
            out[here[part]] = self.deviations(both.at(part))
        return Named(leaf.over, leaf.spread(out))

    def deviations(self, x: Integral) -> Array:
        routes = Routes(self.at.level)
        (m, n), v = x.mean, x.cov
        first, second = (
            Integral((p,), 1, x.mean[[k]], v[[k]][:, [k]], (x.features[k],), x.entries) for k, p in enumerate(x.parts)
        )
        with np.errstate(all="ignore"):
            u, rule = given(*line_of(x), self.at.level, (pace_of(x.parts[0].pieces), pace_of(x.parts[1].pieces)))
            size = u.shape[1]
            inner = replace(
                second,
                mean=(n[:, None] + (v[0, 1] / v[0, 0])[:, None] * (u - m[:, None])).reshape(1, -1),
                cov=np.repeat(left_over(v, [1], 0), size, axis=-1),
                features=(wide(x.features[1], size),),
                entries=np.repeat(x.entries, size),
            )
            f = x.parts[0].value({0: u}, x.entries) - routes(first)[0][:, None]
            g = routes(inner)[0].reshape(u.shape) - routes(second)[0][:, None]
            return rule.integral(f * g)[0]
