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
from netsor.numeric.quadrature import STILL, Feature, Pace, doubted1, doubted2, given, line, nodes1, nodes2, nodes_given, total
from netsor.ops import Piece

Pair = tuple[Array, Array]
Found = tuple[Array, Array, Array]
Features = tuple[Feature, ...]

CHUNK = 2_000_000  # numbers in one array of quadrature nodes
LARGEST = 4e8  # evaluations of the integrand; beyond, there are better ways
RELATIVE = 2e-13  # error of a closed form that is accepted
ABSOLUTE, DIGITS = 4e-14, 1e-8  # or of sqrt(E f^2 E g^2), if these digits of the value are left; bounds are wide
SETTLED, LUCK = 2e-14, 1e-6  # of the value: rounding; of the doubts: two levels at a kink agree so well once in 10^5 times
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
        """The values, and bounds of the error of what is closed in them, with the doubts of a quadrature at its panels, and its
        change under refinement if `refined`; infinite where a number is too large for a double, or could be.

        Raises: TooLarge."""
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
                value[left], error[left], doubt = self.quadrature(x.at(left))
                if self.refined:
                    coarse, *_ = Routes(self.level - 1).quadrature(x.at(left))
                    error[left] += np.where(coarse == value[left], 0.0, np.abs(coarse - value[left]))  # both may be infinite
                    doubt = doubted(coarse, value[left], doubt)
                error[left] += doubt
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

    def quadrature(self, x: Integral) -> Found:
        """Values, the errors of the closed forms inside, and the doubts of the rule; refinement tells the rest."""
        if x.inputs == 1:
            nodes = nodes1(x.features[0], self.level, x.cov[0, 0], x.mean[0], pace(x, 0))
            return unclosed(self.by_chunks("line", x, nodes, self.line))
        if x.inputs == 2:
            return self.two(x)
        if x.inputs == 3:
            return unclosed(self.space(x))
        raise TooLarge

    def by_chunks(self, route: str, x: Integral, nodes: int, f: Callable[[Integral], Pair]) -> Pair:
        n = x.mean.shape[1]
        if nodes * n > LARGEST:
            raise TooLarge
        self.count(route, n)
        step = max(1, CHUNK // nodes)
        parts = [f(x.at(np.arange(k, min(k + step, n)))) for k in range(0, n, step)]
        return np.concatenate([value for value, _ in parts]), np.concatenate([doubt for _, doubt in parts])

    def line(self, x: Integral) -> Pair:
        return doubted1(integrand(x), x.mean[0], x.cov[0, 0], x.features[0], self.level, pace(x, 0))

    def two(self, x: Integral) -> Found:
        """On a line where one variable is a multiple of the other, by halves or in the plane elsewhere."""
        v, w, c = x.cov[0, 0], x.cov[1, 1], x.cov[0, 1]
        a, b = units(x.cov[:2, :2])
        tied = (c != 0) & (determinant(v / a / a, c / a / b, c / a / b, w / b / b) <= 0)
        found = np.zeros((3, v.size))
        for here, route in ((np.flatnonzero(tied), self.tied), (np.flatnonzero(np.logical_not(tied)), self.apart)):
            if here.size:
                found[:, here] = route(x.at(here))
        return found[0], found[1], found[2]

    def tied(self, x: Integral) -> Found:
        """E f(U) g(m + s U) over U, with the kinks of both."""

        def f(part: Integral) -> Pair:
            m, c = part.mean, part.cov
            u, rule = given(*line_of(part), self.level, paces(part))
            return rule.integral(integrand(part)(u, m[1][:, None] + (c[0, 1] / c[0, 0])[:, None] * (u - m[0][:, None])))

        nodes = nodes_given(*line_of(x), self.level, paces(x))
        return unclosed(self.by_chunks("line", x, nodes, f))

    def apart(self, x: Integral) -> Found:
        """By halves where one variable is under known functions alone, else in the plane."""
        for inner in (1, 0):
            mine = [p for p in x.parts if inner in p.variables]
            if all(p.variables == (inner,) and p.pieces for p in mine):
                break
        else:
            return unclosed(self.plane(x))
        value, error, doubt, good = self.half(x, inner)
        left = np.flatnonzero(np.logical_not(good))
        if left.size:
            try:
                value[left], error[left], doubt[left] = unclosed(self.plane(x.at(left)))
            except TooLarge:
                if not np.isfinite(error).all():
                    raise
                left = left[:0]
        self.count("half", len(value) - left.size)
        return value, error, doubt

    def half(self, x: Integral, inner: int) -> tuple[Array, Array, Array, NDArray[np.bool_]]:
        """E[f(U) E[g(V) | U]] with the inner expectation closed: values, their errors and doubts, and where these are good."""
        n, outer = x.mean.shape[1], 1 - inner
        others = [inner, *range(2, len(x.mean))]
        mine = [replace(p, variables=(0,)) for p in x.parts if p.variables == (inner,)]
        terms = multiplied([*known(mine), *((k, PLAIN) for k in range(1, len(others)))], len(others))
        value, error, doubt, good = np.full(n, np.nan), np.full(n, np.nan), np.zeros(n), np.zeros(n, dtype=bool)
        if terms is None:
            return value, error, doubt, good
        nodes = nodes_given(*line_of(x, outer), self.level, paces(x, outer))
        if nodes * n > LARGEST:
            raise TooLarge
        step = max(1, CHUNK // nodes)
        for k in range(0, n, step):
            part = x.at(np.arange(k, min(k + step, n)))
            m, c = part.mean, part.cov
            u, rule = given(*line_of(part, outer), self.level, paces(part, outer))
            weights = rule.weights
            slope = np.divide(c[others, outer], c[outer, outer], out=np.zeros_like(c[others, outer]), where=c[outer, outer] > 0)
            mean = m[others][..., None] + slope[..., None] * (u - m[outer][:, None])
            cov = left_over(c, others, outer)
            wide = np.broadcast_to(cov[..., None], (*cov.shape, u.shape[1]))
            d = len(others)
            g, bound = closed(terms, mean.reshape(d, -1), wide.reshape(d, d, -1))
            f = product_of([p for p in part.parts if p.variables == (outer,)], {outer: u}, part.entries)
            g, bound = g.reshape(u.shape), bound.reshape(u.shape)
            here = slice(k, k + step)
            value[here], doubt[here] = rule.integral(product(f, g))
            with np.errstate(invalid="ignore"):
                error[here] = (weights * np.abs(f) * bound).sum(-1)
                size = np.sqrt((weights * f * f).sum(-1) * (weights * g * g).sum(-1))
                good[here] = error[here] <= np.maximum(ABSOLUTE * size, RELATIVE * np.abs(value[here]))
        return value, error, doubt, good

    def plane(self, x: Integral) -> Pair:
        (first, second), m, c = x.features[:2], x.mean, x.cov
        nodes = nodes2(first, second, self.level, c[0, 0], c[1, 1], c[0, 1], m[0], m[1], paces(x))

        def f(part: Integral) -> Pair:
            m, c = part.mean, part.cov
            first, second = part.features[:2]
            moments = m[0], m[1], c[0, 0], c[1, 1], c[0, 1]
            return doubted2(integrand(part), *moments, first, second, self.level, paces(part))

        return self.by_chunks("plane", x, nodes, f)

    def space(self, x: Integral) -> Pair:
        """E[E[. | U]] over three inputs: the line of the first, and the two others given it by the best route."""
        n, others = x.mean.shape[1], range(1, len(x.mean))
        nodes = nodes1(x.features[0], self.level, x.cov[0, 0], x.mean[0], pace(x, 0))
        if nodes * n > LARGEST / 1000:
            raise TooLarge
        value, doubt = np.empty(n), np.empty(n)
        self.count("space", n)
        for e in range(n):
            part = x.at(np.array([e]))
            m, c = part.mean, part.cov
            u, rule = line(m[0], c[0, 0], part.features[0], self.level, pace(part, 0))
            slope = np.divide(c[1:, 0], c[0, 0], out=np.zeros_like(c[1:, 0]), where=c[0, 0] > 0)
            mean = m[1:] + slope * (u[0] - m[0])
            cov = np.repeat(left_over(c, others, 0), u.shape[1], axis=-1)
            own = [p for p in part.parts if p.variables == (0,)]
            f = product_of(own, {0: u}, part.entries)[0]
            rest = tuple(given_first(p, u[0], part.entries) for p in part.parts if p not in own)
            inner = Integral(rest, 2, mean, cov, tuple(wide(fs, u.shape[1]) for fs in part.features[1:]), np.arange(u.shape[1]))
            g, off = Routes(self.level)(inner)
            (value[e],), (own,) = rule.integral(product(f, g)[None])
            doubt[e] = own + total(rule.weights[0], np.abs(f) * off)
        return value, doubt


def unclosed(found: Pair) -> Found:
    return found[0], np.zeros_like(found[0]), found[1]


def doubted(coarse: Array, fine: Array, doubt: Array) -> Array:
    """The doubts of the finer of two values, where these differ by more than rounding and by a millionth of the doubts at
    least: for an analytic function with slowly falling coefficients they do not."""
    gap = np.abs(coarse - fine)
    return np.where(gap <= np.maximum(SETTLED * np.abs(fine), LUCK * doubt), 0.0, doubt)


PLAIN = (Piece(power=1),)


def unused(values: Mapping[int, Array], entries: Entries) -> Array:
    raise AssertionError("the pieces say it all")


def known(parts: Sequence[Part]) -> list[Factor]:
    return [(p.variables[0], p.pieces) for p in parts]


def line_of(x: Integral, outer: int = 0) -> tuple[Array, Array, Array, Array, Array, Features, Features]:
    """Means, variances, covariance and features of two variables, one of them the outer one."""
    inner = 1 - outer
    m, c = x.mean, x.cov
    return m[outer], m[inner], c[outer, outer], c[inner, inner], c[0, 1], x.features[outer], x.features[inner]


def pace(x: Integral, k: int) -> Pace:
    """That of the known functions of one variable."""
    return sum((pace_of(p.pieces) for p in x.parts if p.variables == (k,)), STILL)


def paces(x: Integral, outer: int = 0) -> tuple[Pace, Pace]:
    return pace(x, outer), pace(x, 1 - outer)


def pace_of(pieces: Sequence[Piece]) -> Pace:
    rates = [float(p.rate) for p in pieces]
    wave = max((abs(float(p.wave[1])) for p in pieces if p.wave), default=0.0)
    return Pace(wave, min(rates, default=0.0), max(rates, default=0.0))


def waving(x: Integral) -> Array:
    """Where a wave among the pieces is too fast for the panels of a quadrature: its closed form is better, as it is."""
    out = np.zeros(x.mean.shape[1], dtype=bool)
    for p in x.parts:
        pace = max((abs(float(piece.wave[1])) for piece in p.pieces if piece.wave), default=0.0)
        out |= pace * pace * x.cov[p.variables[0], p.variables[0]] > FASTEST**2
    return out
