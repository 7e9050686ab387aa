"""Reference values of E f(X) and E f(X) g(Y), by one-dimensional integrals at 30 digits: writes values.csv beside itself.

    python tests/references/make.py [values.csv]

About 5 minutes on one core; needs python-flint, whose balls bound the rounding errors. Without it the same functions run on
mpmath, thirty times slower: so do the tests recompute a few of the values.

Nothing of netsor is imported. A function is its definition (`Known.f`), and its expectation under N(m, s^2) a textbook formula
(`Known.mean`): E f(X) g(Y) is the integral over X of f(x) times that of g given X = x. The line of X is cut at the kinks of f
and where the mean of Y given X passes those of g, in geometric progression around transitions; every integral is done with two
rules and two ways to cut, which have to agree to 1e-27 of sqrt(E f(X)^2 E g(Y)^2), and every textbook formula is held against
the integral of its own function. Arguments are the exact values of doubles.
"""

from __future__ import annotations

import csv
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations_with_replacement, pairwise
from math import hypot, inf, sqrt
from pathlib import Path
from typing import Any

import mpmath

VALUES = Path(__file__).with_name("values.csv")
DIGITS = 30  # of what is written
WORKING = 70  # digits of the arithmetic: clip and elu cancel where the variance is 1e8
AGREE = 1e-27  # of sqrt(E f^2 E g^2)
REACH = 14.0  # standard deviations beyond the mean and the features; there lies 1e-43
FAR = 40.0  # a feature beyond it is not met in doubles
RANDOM = 12  # covariances of a pair; every function meets 18 times as many
UNARY = 200

Number = Any
"""An arb or an mpf."""


class Mp:
    """The arithmetic of mpmath."""

    def __init__(self) -> None:
        self.field = field = mpmath.mp.clone()
        field.dps = WORKING
        self.exp, self.sin, self.cos, self.sqrt, self.erf = field.exp, field.sin, field.cos, field.sqrt, field.erf
        self.erfc, self.number, self.pi = field.erfc, field.mpf, field.mpf(field.pi)

    def text(self, x: Number) -> str:
        return str(self.field.nstr(x, DIGITS))

    def rounding(self, x: Number) -> float:
        """A bound of the rounding error, where one is known."""
        return 0.0


class Arb:
    """The balls of python-flint."""

    def __init__(self) -> None:
        import flint

        flint.ctx.dps = WORKING
        self.number: Callable[..., Any] = flint.arb
        self.exp, self.sin, self.cos, self.sqrt = (
            (lambda x: x.exp()),
            (lambda x: x.sin()),
            (lambda x: x.cos()),
            (lambda x: x.sqrt()),
        )
        self.erf, self.erfc, self.pi = (lambda x: x.erf()), (lambda x: x.erfc()), flint.arb.pi()

    def text(self, x: Number) -> str:
        return str(x.mid().str(DIGITS, radius=False))

    def rounding(self, x: Number) -> float:
        return float(x.rad())


@cache
def rule(nodes: int) -> list[tuple[str, str]]:
    """Gauss-Legendre nodes and weights on [-1, 1] in decimals, by Newton's method."""
    with mpmath.workdps(WORKING + 10):
        out = []
        for k in range(nodes):
            x = mpmath.cos(mpmath.pi * (k + mpmath.mpf(3) / 4) / (nodes + mpmath.mpf(1) / 2))
            for _ in range(8):
                before, now = mpmath.mpf(1), x
                for j in range(2, nodes + 1):
                    before, now = now, ((2 * j - 1) * x * now - (j - 1) * before) / j
                slope = nodes * (x * now - before) / (x * x - 1)
                x -= now / slope
            out.append((mpmath.nstr(x, WORKING + 5), mpmath.nstr(2 / ((1 - x * x) * slope**2), WORKING + 5)))
        return out


# ---------------------------------------------------------------------------------------------------------- the functions


@dataclass(frozen=True)
class Known:
    """A function, its mean under N(m, s^2), s > 0, and what a quadrature must know.

    places   where f changes, and how fast: scale 0 at a kink, else the deviation of the bell that makes the change
    rate     f grows like exp(rate x)
    waves    frequency
    """

    f: Callable[[Any, Number], Number]
    mean: Callable[[Any, Number, Number], Number]
    places: tuple[tuple[float, float], ...] = ()
    rate: float = 0.0
    waves: float = 0.0


def Phi(K: Any, z: Number) -> Number:
    return K.erfc(-z / K.sqrt(K.number(2))) / 2


def phi(K: Any, z: Number) -> Number:
    return K.exp(-z * z / 2) / K.sqrt(2 * K.pi)


def ramp(K: Any, m: Number, s: Number) -> Number:
    """E max(X, 0)."""
    return m * Phi(K, m / s) + s * phi(K, m / s)


def ramp_squared(K: Any, m: Number, s: Number) -> Number:
    return (m * m + s * s) * Phi(K, m / s) + m * s * phi(K, m / s)


def clipped(K: Any, m: Number, s: Number, bound: float) -> Number:
    return ramp(K, m + bound, s) - ramp(K, m - bound, s) - bound


def elu_mean(K: Any, m: Number, s: Number) -> Number:
    below = K.exp(m + s * s / 2) * Phi(K, -(m + s * s) / s) - Phi(K, -m / s)
    return ramp(K, m, s) + below


def gelu_mean(K: Any, m: Number, s: Number) -> Number:
    t = K.sqrt(1 + s * s)
    return m * Phi(K, m / t) + s * s / t * phi(K, m / t)


def rbf_mean(K: Any, m: Number, s: Number) -> Number:
    t = 1 + 2 * s * s
    return K.exp(-m * m / t) / K.sqrt(t)


def cut(x: Number, low: float, high: float) -> Number:
    return low + 0 * x if x < low else high + 0 * x if x > high else x


def leaky(K: Any, m: Number, s: Number) -> Number:
    return ramp(K, m, s) - K.number(0.2) * ramp(K, -m, s)


KINK, BELL = ((0.0, 0.0),), ((0.0, 1.0),)
KNOWN = {
    "abs": Known(lambda K, x: abs(x), lambda K, m, s: 2 * ramp(K, m, s) - m, KINK),
    "clip": Known(lambda K, x: cut(x, -1.5, 1.5), lambda K, m, s: clipped(K, m, s, 1.5), ((-1.5, 0.0), (1.5, 0.0))),
    "cos": Known(lambda K, x: K.cos(x), lambda K, m, s: K.cos(m) * K.exp(-s * s / 2), waves=1.0),
    "elu": Known(lambda K, x: x if x > 0 else K.exp(x) - 1, elu_mean, (*KINK, *BELL)),
    "erf": Known(lambda K, x: K.erf(x), lambda K, m, s: K.erf(m / K.sqrt(1 + 2 * s * s)), ((0.0, sqrt(0.5)),)),
    "exp": Known(lambda K, x: K.exp(x), lambda K, m, s: K.exp(m + s * s / 2), rate=1.0),
    "gelu": Known(lambda K, x: x * Phi(K, x), gelu_mean, BELL),
    "hard_sigmoid": Known(
        lambda K, x: cut(x, -3, 3) / 6 + K.number(1) / 2,
        lambda K, m, s: (ramp(K, m + 3, s) - ramp(K, m - 3, s)) / 6,
        ((-3.0, 0.0), (3.0, 0.0)),
    ),
    "hermite": Known(lambda K, x: x**3 - 3 * x, lambda K, m, s: m**3 + 3 * m * s * s - 3 * m),
    "leaky_relu": Known(lambda K, x: x if x > 0 else K.number(0.2) * x, leaky, KINK),
    "probit": Known(lambda K, x: Phi(K, x), lambda K, m, s: Phi(K, m / K.sqrt(1 + s * s)), BELL),
    "rbf": Known(lambda K, x: K.exp(-x * x), rbf_mean, ((0.0, sqrt(0.5)),)),
    "relu": Known(lambda K, x: x if x > 0 else 0 * x, ramp, KINK),
    "relu_power": Known(lambda K, x: x * x if x > 0 else 0 * x, ramp_squared, KINK),
    "sign": Known(
        lambda K, x: K.number(1 if x > 0 else -1 if x < 0 else 0), lambda K, m, s: K.erf(m / (s * K.sqrt(K.number(2)))), KINK
    ),
    "sin": Known(lambda K, x: K.sin(x), lambda K, m, s: K.sin(m) * K.exp(-s * s / 2), waves=1.0),
    "step": Known(lambda K, x: K.number(1 if x > 0 else 0), lambda K, m, s: Phi(K, m / s), KINK),
}  # fmt: skip


def mean_of(K: Any, g: Known, m: Number, s: Number, certain: bool) -> Number:
    return g.f(K, m) if certain else g.mean(K, m, s)


# ------------------------------------------------------------------------------------------------------------ the integrals


@dataclass(frozen=True)
class Way:
    """How to cut the line: the width of panels, what steps around a transition are, and the nodes of a panel."""

    panel: float
    step: float
    nodes: int


WAYS = Way(1.0, 2.0, 40), Way(0.73, 1.3, 48)
ROUGH = Way(1.0, 2.0, 16)


def edges(way: Way, reach: float, waves: float, places: list[tuple[Number, float]]) -> Iterator[Number]:
    """Of panels on the standardised line; `places` are centres and scales."""
    width = min(way.panel, way.panel * 6 / waves if waves else inf)
    count = int(2 * reach / width) + 1
    yield from (-reach + 2 * reach * k / count for k in range(count + 1))
    for centre, scale in places:
        yield centre
        step, steps = scale * way.step, 0
        at = step
        while 0 < at < 1:
            yield from (centre + at, centre - at)
            steps += 1
            at = at + step if steps < 8 else at * 2


def integral(K: Any, way: Way, f: Callable[[Number], Number], reach: float, waves: float, places: list[Any]) -> Number:
    """E f(Z), Z ~ N(0, 1)."""
    reach += max((abs(float(at)) for at, _ in places if abs(float(at)) < FAR), default=0.0)
    nodes = [(K.number(x), K.number(w)) for x, w in rule(way.nodes)]
    cuts = sorted(edges(way, reach, waves, places), key=float)
    cuts = [K.number(c) for c in cuts if abs(float(c)) <= reach]
    total = K.number(0)
    for low, high in pairwise(cuts):
        if float(high - low) > 0:
            half, middle = (high - low) / 2, (high + low) / 2
            panel = K.number(0)
            for x, w in nodes:
                z = middle + half * x
                panel += w * K.exp(-z * z / 2) * f(z)
            total += half * panel
    return total / K.sqrt(2 * K.pi)


def expectation(K: Any, way: Way, f: Known, m: float, v: float, power: int = 1) -> Number:
    """E f(X)^power, X ~ N(m, v), by the integral."""
    if v == 0:
        return f.f(K, K.number(m)) ** power
    mean, s = K.number(m), K.sqrt(K.number(v))
    places = [((K.number(at) - mean) / s, scale / float(s)) for at, scale in f.places]
    width = float(s) * power
    return integral(K, way, lambda z: f.f(K, mean + s * z) ** power, REACH + f.rate * width, f.waves * width, places)


def expectation2(K: Any, way: Way, f: Known, g: Known, m: float, n: float, v: float, w: float, c: float) -> Number:
    """E f(X) g(Y), means m and n, variances v and w, covariance c."""
    first, second, vx, wy, cxy = (K.number(x) for x in (m, n, v, w, c))
    if v == 0:
        return f.f(K, first) * mean_of(K, g, second, K.sqrt(wy), w == 0)
    s, slope, left = K.sqrt(vx), cxy / vx, wy - cxy * cxy / vx
    certain = w == 0 or is_square(v, w, c)
    rest = K.number(0) if certain else K.sqrt(left)
    places = [((K.number(at) - first) / s, scale / float(s)) for at, scale in f.places]
    pace = slope * s
    if c:
        inner = [(at, hypot(scale, float(rest))) for at, scale in g.places]
        places += [((K.number(at) - second) / pace, scale / abs(float(pace))) for at, scale in inner]
    size = float(s), abs(float(pace))

    def product(z: Number) -> Number:
        return f.f(K, first + s * z) * mean_of(K, g, second + pace * z, rest, certain)

    reach = REACH + f.rate * size[0] + g.rate * size[1]
    return integral(K, way, product, reach, f.waves * size[0] + g.waves * size[1], places)


def is_square(v: float, w: float, c: float) -> bool:
    """c^2 = v w exactly."""
    (a, b), (d, e), (x, y) = v.as_integer_ratio(), w.as_integer_ratio(), c.as_integer_ratio()
    return x * x * b * e == a * d * y * y


class Disagree(Exception):
    """Two ways to compute one number differ."""


def reference(K: Any, f: str, g: str, at: tuple[float, ...]) -> tuple[Number, float]:
    """E f(X) g(Y) at (m, n, v, w, c), or E f(X) at (m, v) if g is empty; and sqrt(E f^2 E g^2).  Raises: Disagree."""
    one = KNOWN[f]
    if not g:
        m, v = at
        size = root(expectation(K, ROUGH, one, m, v, 2))
        ways = [expectation(K, way, one, m, v) for way in WAYS[:1]]
        ways.append(mean_of(K, one, K.number(m), K.sqrt(K.number(v)), v == 0))
    else:
        m, n, v, w, _ = at
        size = root(expectation(K, ROUGH, one, m, v, 2)) * root(expectation(K, ROUGH, KNOWN[g], n, w, 2))
        ways = [expectation2(K, way, one, KNOWN[g], *at) for way in WAYS]
    if not (abs(float(ways[0] - ways[1])) <= AGREE * size and all(K.rounding(x) <= AGREE * size for x in ways)):
        raise Disagree(f"{f} {g} at {at}: {K.text(ways[0])} or {K.text(ways[1])}, of {size:.3g}")
    return ways[1], size


def root(x: Number) -> float:
    return sqrt(abs(float(x)))


# ---------------------------------------------------------------------------------------------------------------- the table


def unary_cases(f: str, rng: random.Random) -> Iterator[tuple[float, float]]:
    """Means and variances: random, and degenerate."""
    for _ in range(UNARY):
        yield rng.uniform(-3, 3), 10 ** rng.uniform(-2, 2)
    for m in (0.0, 0.3, -0.7):
        yield from ((m, v) for v in (0.0, 1e-8, 1.0, large(f)))


def large(*names: str) -> float:
    """A huge variance. Moments of exp overflow at one, and a wave has a hundred periods."""
    return 1.0 if "exp" in names else 1e4 if {"cos", "sin"} & {*names} else 1e8


def pair_cases(f: str, g: str, rng: random.Random) -> Iterator[tuple[float, ...]]:
    """(m, n, v, w, c): random ones, a third of them close to correlation +-1, half of them centred; and degenerate ones."""
    for k in range(RANDOM):
        v, w = (10 ** rng.uniform(-2, 2) for _ in range(2))
        r = rng.uniform(-1, 1)
        r = r if k % 3 else (1 if r > 0 else -1) * (1 - 10 ** rng.uniform(-7, -2))
        m, n = (0.0, 0.0) if k % 2 else (rng.uniform(-2, 2), rng.uniform(-2, 2))
        yield m, n, v, w, r * sqrt(v * w)
    near, big = 1 - 1e-8, large(f, g)
    centred = [
        (1.3, 0.7, 0.0), (1.7, 1.7, 0.4), (1.0, 1.0, near), (1.0, 1.0, -near), (4.0, 0.25, near), (4.0, 0.25, -near),
        (big, big, big / 2), (big, big, big), (big, big, -big), (big, big, 1 - big), (big, 1.0, sqrt(big) / 2),
        (1e-8, 1e-8, 5e-9), (1e-8, 1e-8, 1e-8), (1e-8, 1e-8, -1e-8), (1e-8, 1.0, 5e-5), (1e-8, big, 0.3 * sqrt(1e-8 * big)),
    ]  # fmt: skip
    certain = [(2.25, 2.25, 2.25), (2.25, 2.25, -2.25), (4.0, 9.0, 6.0), (4.0, 9.0, -6.0)]
    certain += [(0.0, 1.5, 0.0), (1.5, 0.0, 0.0), (0.0, 0.0, 0.0)]
    yield from ((0.0, 0.0, *at) for at in (*centred, *certain))
    yield from ((0.3, -0.7, *at) for at in certain)


def cases() -> Iterator[tuple[str, str, tuple[float, ...]]]:
    """All that is in the table, in order."""
    for f in KNOWN:
        yield from ((f, "", at) for at in unary_cases(f, random.Random(f)))
    for f, g in combinations_with_replacement(KNOWN, 2):
        yield from ((f, g, at) for at in dict.fromkeys(pair_cases(f, g, random.Random(f"{f} {g}"))))


def main(path: Path) -> None:
    """Goes on where an earlier run has ended."""
    K = Arb()
    done = len(path.read_text().splitlines()) if path.exists() else 0
    with path.open("a", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        if not done:
            rows.writerow(["f", "g", "at", "value", "size"])
        for k, (f, g, at) in enumerate(cases(), 1):
            if k >= done:
                value, size = reference(K, f, g, at)
                rows.writerow([f, g, " ".join(map(repr, at)), K.text(value), f"{size:.6g}"])


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else VALUES)
