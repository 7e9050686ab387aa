"""E of a product of functions of jointly Gaussian variables, each entry of the arrays by the best route there is.

closed   every factor is a sum of known pieces: the recursion of `netsor.closed`, where its rounding error is small
line     one variable under nonlinear functions: quadrature
half     two, and the factors of one of them are known: quadrature over the other, closed forms inside
plane    two: quadrature over both
space    three: quadrature over the first, the plane inside

Variables that enter as plain factors only are integrated out given the others, by Isserlis' theorem.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from netsor.closed.product import Factor, multiplied
from netsor.closed.stein import NotClosed
from netsor.numeric.closed import closed
from netsor.numeric.integral import Array, Entries, Integral, Part, given_first, integrand, product, product_of, wide
from netsor.numeric.linear import determinant, left_over, units
from netsor.numeric.quadrature import expect1, expect2, given, line, nodes1, nodes2, nodes_given, total
from netsor.ops import Piece

CHUNK = 2_000_000  # numbers in one array of quadrature nodes
LARGEST = 4e8  # evaluations of the integrand; beyond, there are better ways
RELATIVE = 2e-13  # error of a closed form that is accepted
ABSOLUTE, DIGITS = 4e-14, 1e-8  # or of sqrt(E f^2 E g^2), if these digits of the value are left; bounds are wide
FASTEST = 6.0  # radians that a wave may turn in a standard deviation


class TooLarge(Exception):
    """No route is affordable."""


@dataclass
class Routes:
    """Values of integrals at one level of resolution, and the routes that were taken.

    refined: quadratures are compared with those of the level below, and the difference is added to the error.
    """

    level: int
    refined: bool = False

    def __post_init__(self) -> None:
        self.taken: dict[str, int] = {}

    def __call__(self, x: Integral) -> tuple[Array, Array]:
        """The values, and bounds of the error of what is closed in them, and of the rest if `refined`; infinite where a number
        is too large for a double, or could be.  Raises: TooLarge."""
        with np.errstate(all="ignore"):
            return self.best(x)

    def best(self, x: Integral) -> tuple[Array, Array]:
        value, error = self.closed(x)
        left = np.flatnonzero(~(error <= RELATIVE * np.abs(value)))
        if left.size:
            value[left], error[left] = self.closed(x.at(left), sort=True)
            left = left[~(error[left] <= RELATIVE * np.abs(value[left]))]
        if left.size:
            allowed = np.minimum(ABSOLUTE * self.size(x.at(left)), DIGITS * np.abs(value[left]))
            left = left[~(error[left] <= allowed)]
            left = left[~(np.isfinite(error[left]) & waving(x.at(left)))]
        self.count("closed", value.size - left.size)
        if left.size:
            try:
                value[left], error[left] = self.quadrature(x.at(left))
                if self.refined:
                    coarse, _ = Routes(self.level - 1).quadrature(x.at(left))
                    error[left] += np.where(coarse == value[left], 0.0, np.abs(coarse - value[left]))  # both may be infinite
            except TooLarge:  # a closed form that is not as good as asked for says how good it is
                if not np.isfinite(error[left]).all():
                    raise
                self.count("closed", left.size)
        return value, error

    def count(self, route: str, entries: int) -> None:
        if entries:
            self.taken[route] = self.taken.get(route, 0) + entries

    # ---- closed forms

    def closed(self, x: Integral, sort: bool = False) -> tuple[Array, Array]:
        """Closed forms with their errors; nan where there is none."""
        none = np.full((2, x.mean.shape[1]), np.nan)
        if not all(p.pieces for p in x.parts):
            return none[0], none[1]
        terms = multiplied([*known(x.parts), *((k, PLAIN) for k in range(x.inputs, len(x.mean)))], len(x.mean))
        if terms is None:
            return none[0], none[1]
        try:
            return closed(terms, x.mean, x.cov, sort)
        except NotClosed:
            return none[0], none[1]

    def size(self, x: Integral) -> Array:
        """sqrt(E f(U)^2 E g(V)^2) of known factors that are functions of at most two variables, else 0."""
        groups: dict[tuple[int, ...], list[Part]] = {}
        for p in (*x.parts, *(Part((k,), unused, PLAIN) for k in range(x.inputs, len(x.mean)))):
            groups.setdefault(p.variables, []).append(p)
        out = np.ones(x.mean.shape[1])
        for (k, *others), parts in groups.items():
            terms = multiplied([(0, p.pieces) for p in (*parts, *parts)], 1)
            if others or terms is None or len(groups) > 2:
                return np.zeros_like(out)
            try:
                out = out * np.sqrt(closed(terms, x.mean[[k]], x.cov[[k]][:, [k]])[0])
            except NotClosed:
                return np.zeros_like(out)
        return np.nan_to_num(out)

    # ---- quadrature

    def quadrature(self, x: Integral) -> tuple[Array, Array]:
        """Values, and the errors of the closed forms inside; refinement tells the rest."""
        none = np.zeros(x.mean.shape[1])
        if x.inputs == 1:
            return self.by_chunks("line", x, nodes1(x.features[0], self.level, x.cov[0, 0]), self.line), none
        if x.inputs == 2:
            return self.two(x)
        if x.inputs == 3:
            return self.space(x), none
        raise TooLarge

    def by_chunks(self, route: str, x: Integral, nodes: int, f: Callable[[Integral], Array]) -> Array:
        n = x.mean.shape[1]
        if nodes * n > LARGEST:
            raise TooLarge
        self.count(route, n)
        step = max(1, CHUNK // nodes)
        return np.concatenate([f(x.at(np.arange(k, min(k + step, n)))) for k in range(0, n, step)])

    def line(self, x: Integral) -> Array:
        return expect1(integrand(x), x.mean[0], x.cov[0, 0], x.features[0], self.level)

    def two(self, x: Integral) -> tuple[Array, Array]:
        """On a line where one variable is a multiple of the other, by halves or in the plane elsewhere."""
        v, w, c = x.cov[0, 0], x.cov[1, 1], x.cov[0, 1]
        a, b = units(x.cov[:2, :2])
        tied = (c != 0) & (determinant(v / a / a, c / a / b, c / a / b, w / b / b) <= 0)
        value, error = np.empty(v.size), np.zeros(v.size)
        for here, route in ((np.flatnonzero(tied), self.tied), (np.flatnonzero(np.logical_not(tied)), self.apart)):
            if here.size:
                value[here], error[here] = route(x.at(here))
        return value, error

    def tied(self, x: Integral) -> tuple[Array, Array]:
        """E f(U) g(m + s U) over U, with the kinks of both."""
        v, w, c = x.cov[0, 0], x.cov[1, 1], x.cov[0, 1]

        def f(part: Integral) -> Array:
            m, c = part.mean, part.cov
            u, weights = given(m[0], m[1], c[0, 0], c[1, 1], c[0, 1], part.features[0], part.features[1], self.level)
            return total(weights, integrand(part)(u, m[1][:, None] + (c[0, 1] / c[0, 0])[:, None] * (u - m[0][:, None])))

        nodes = nodes_given(v, w, c, x.features[0], x.features[1], self.level)
        return self.by_chunks("line", x, nodes, f), np.zeros(v.size)

    def apart(self, x: Integral) -> tuple[Array, Array]:
        """By halves where one variable is under known functions alone, else in the plane."""
        for inner in (1, 0):
            mine = [p for p in x.parts if inner in p.variables]
            if all(p.variables == (inner,) and p.pieces for p in mine):
                break
        else:
            return self.plane(x), np.zeros(x.mean.shape[1])
        value, error, good = self.half(x, inner)
        left = np.flatnonzero(np.logical_not(good))
        if left.size:
            try:
                value[left], error[left] = self.plane(x.at(left)), 0.0
            except TooLarge:
                if not np.isfinite(error).all():
                    raise
                left = left[:0]
        self.count("half", len(value) - left.size)
        return value, error

    def half(self, x: Integral, inner: int) -> tuple[Array, Array, NDArray[np.bool_]]:
        """E[f(U) E[g(V) | U]] with the inner expectation closed: values, their errors, and where these are good."""
        n, outer = x.mean.shape[1], 1 - inner
        others = [inner, *range(2, len(x.mean))]
        mine = [replace(p, variables=(0,)) for p in x.parts if p.variables == (inner,)]
        terms = multiplied([*known(mine), *((k, PLAIN) for k in range(1, len(others)))], len(others))
        value, error, good = np.full(n, np.nan), np.full(n, np.nan), np.zeros(n, dtype=bool)
        if terms is None:
            return value, error, good
        nodes = nodes_given(
            x.cov[outer, outer], x.cov[inner, inner], x.cov[0, 1], x.features[outer], x.features[inner], self.level
        )
        if nodes * n > LARGEST:
            raise TooLarge
        step = max(1, CHUNK // nodes)
        for k in range(0, n, step):
            part = x.at(np.arange(k, min(k + step, n)))
            m, c = part.mean, part.cov
            u, weights = given(
                m[outer],
                m[inner],
                c[outer, outer],
                c[inner, inner],
                c[0, 1],
                part.features[outer],
                part.features[inner],
                self.level,
            )
            slope = np.divide(c[others, outer], c[outer, outer], out=np.zeros_like(c[others, outer]), where=c[outer, outer] > 0)
            mean = m[others][..., None] + slope[..., None] * (u - m[outer][:, None])
            cov = left_over(c, others, outer)
            wide = np.broadcast_to(cov[..., None], (*cov.shape, u.shape[1]))
            d = len(others)
            g, bound = closed(terms, mean.reshape(d, -1), wide.reshape(d, d, -1))
            f = product_of([p for p in part.parts if p.variables == (outer,)], {outer: u}, part.entries)
            g, bound = g.reshape(u.shape), bound.reshape(u.shape)
            here = slice(k, k + step)
            value[here] = total(weights, product(f, g))
            with np.errstate(invalid="ignore"):
                error[here] = (weights * np.abs(f) * bound).sum(-1)
                size = np.sqrt((weights * f * f).sum(-1) * (weights * g * g).sum(-1))
                good[here] = error[here] <= np.maximum(ABSOLUTE * size, RELATIVE * np.abs(value[here]))
        return value, error, good

    def plane(self, x: Integral) -> Array:
        first, second = x.features[:2]
        nodes = nodes2(first, second, self.level, x.cov[0, 0], x.cov[1, 1], x.cov[0, 1])

        def f(part: Integral) -> Array:
            m, c = part.mean, part.cov
            return expect2(
                integrand(part), m[0], m[1], c[0, 0], c[1, 1], c[0, 1], part.features[0], part.features[1], self.level
            )

        return self.by_chunks("plane", x, nodes, f)

    def space(self, x: Integral) -> Array:
        """E[E[. | U]] over three inputs: the line of the first, and the two others given it by the best route."""
        n, others = x.mean.shape[1], range(1, len(x.mean))
        nodes = nodes1(x.features[0], self.level, x.cov[0, 0])
        if nodes * n > LARGEST / 1000:
            raise TooLarge
        value = np.empty(n)
        self.count("space", n)
        for e in range(n):
            part = x.at(np.array([e]))
            m, c = part.mean, part.cov
            u, weights = line(m[0], c[0, 0], part.features[0], self.level)
            slope = np.divide(c[1:, 0], c[0, 0], out=np.zeros_like(c[1:, 0]), where=c[0, 0] > 0)
            mean = m[1:] + slope * (u[0] - m[0])
            cov = np.repeat(left_over(c, others, 0), u.shape[1], axis=-1)
            own = [p for p in part.parts if p.variables == (0,)]
            f = product_of(own, {0: u}, part.entries)[0]
            rest = tuple(given_first(p, u[0], part.entries) for p in part.parts if p not in own)
            inner = Integral(rest, 2, mean, cov, tuple(wide(fs, u.shape[1]) for fs in part.features[1:]), np.arange(u.shape[1]))
            value[e] = total(weights[0], product(f, Routes(self.level)(inner)[0]))
        return value


PLAIN = (Piece(power=1),)


def unused(values: Mapping[int, Array], entries: Entries) -> Array:
    raise AssertionError("the pieces say it all")


def known(parts: Sequence[Part]) -> list[Factor]:
    return [(p.variables[0], p.pieces) for p in parts]


def waving(x: Integral) -> Array:
    """Where a wave among the pieces is too fast for the panels of a quadrature: its closed form is better, as it is."""
    out = np.zeros(x.mean.shape[1], dtype=bool)
    for p in x.parts:
        pace = max((abs(float(piece.wave[1])) for piece in p.pieces if piece.wave), default=0.0)
        out |= pace * pace * x.cov[p.variables[0], p.variables[0]] > FASTEST**2
    return out
