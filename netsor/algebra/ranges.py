"""Where the values of a term lie: interval arithmetic over its structure.

An interval [lo, hi] holds every value that the limit of the term can take; it is exact for products u u, powers, |u|, and
functions of one argument whose range is known, and may be too large for what cancels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import product

from netsor.ir import Size, Term
from netsor.ops import Along, Average, Compare, Const, Generator, Growth, Map, Param, Table
from netsor.walks import generic

Range = tuple[float, float]

INF = math.inf
LINE: Range = (-INF, INF)


def number_of(term: Term) -> float | Fraction | None:
    """The value of a constant or of a bound parameter."""
    value = term.op.value if isinstance(term.op, Const | Param) else None
    return value if isinstance(value, int | float | Fraction) else None


class Ranges:
    """Ranges of the terms of one program. `known`: the range of a scalar in numbers, None where it has none yet."""

    def __init__(self, known: Callable[[Term], Range | None]) -> None:
        self.known = known
        self._found: dict[bytes, Range] = {}

    def of(self, term: Term) -> Range:
        key = term.family.key
        if key not in self._found:
            found = self._of(generic(term.family))
            if term.width is None and found[0] <= 0 <= found[1] and found[0] < found[1]:
                found = self.known(generic(term.family)) or found
            self._found[key] = found
        return self._found[key]

    def _of(self, term: Term) -> Range:
        op, args = term.op, term.args
        value = number_of(term)
        if value is not None:
            return float(value), float(value)
        if isinstance(op, Size):
            extent = op.plate.extent
            return (1.0, INF) if extent is None else (float(extent), float(extent))
        if isinstance(op, Compare):
            return 0.0, 1.0
        if isinstance(op, Table) and op.values is not None:
            return table_range(op.values)
        if isinstance(op, Average) or (isinstance(op, Generator) and term.width is None and len(args) == 1):
            return self.of(args[0])  # an average
        if isinstance(op, Generator):
            return law_range(getattr(op, "law", None))
        if isinstance(op, Along):
            return self.along(op, term)
        return self.map(op.fn.name, op.fn.growth, args) if isinstance(op, Map) else LINE

    def along(self, op: Along, term: Term) -> Range:
        lo, hi = self.of(term.args[0])
        masked = len(term.args) > 1
        if op.fn.name == "sum":
            count = term.open()[0][0].plate.extent or INF
            least = 0 if masked else 1 if count == INF else count
            return times(lo, count if lo < 0 else least), times(hi, count if hi > 0 else least)
        if op.fn.name == "max":
            return (min(lo, 0.0), max(hi, 0.0)) if masked else (lo, hi)
        return (op.fn.growth.low, op.fn.growth.high) if isinstance(op.fn.growth, Growth) else LINE

    def map(self, name: str, growth: object, args: tuple[Term, ...]) -> Range:
        if not isinstance(growth, Growth):
            assert callable(growth)
            return self.of(growth(*args))
        if name == "mul" and args[0] == args[1]:
            return power(self.of(args[0]), 2)
        if name == "pow":
            exponent = number_of(args[1])
            base = self.of(args[0])
            return power(base, float(exponent)) if exponent is not None else (0.0, INF) if base[0] > 0 else LINE
        if name in COMBINED:
            return COMBINED[name](*(self.of(a) for a in args))
        return growth.low, growth.high


def times(a: float, b: float) -> float:
    """A product of bounds, where 0 times infinity is 0: a bound is not a value."""
    return a * b if a and b else 0.0


def multiplied(x: Range, y: Range) -> Range:
    corners = [times(a, b) for a, b in product(x, y)]
    return min(corners), max(corners)


def divided(x: Range, y: Range) -> Range:
    return multiplied(x, power(y, -1))


def power(x: Range, k: float) -> Range:
    lo, hi = x
    if k < 0:
        lo, hi = power(x, -k)
        if lo < 0 < hi:
            return LINE
        return 1 / hi if hi else -INF, 1 / lo if lo else INF
    if k % 2 == 0:
        lo, hi = max(0.0, lo, -hi), max(abs(lo), abs(hi))
    elif k != int(k):
        lo, hi = max(lo, 0.0), max(hi, 0.0)
    return math.copysign(safe(lambda: abs(lo) ** k), lo), math.copysign(safe(lambda: abs(hi) ** k), hi)


def magnitude(x: Range) -> Range:
    return max(0.0, x[0], -x[1]), max(abs(x[0]), abs(x[1]))


def safe(value: Callable[[], float]) -> float:
    try:
        return value()
    except OverflowError:
        return INF


def exponential(x: Range) -> Range:
    return safe(lambda: math.exp(x[0])), safe(lambda: math.exp(x[1]))


def logarithm(x: Range) -> Range:
    return (math.log(x[0]) if x[0] > 0 else -INF), (math.log(x[1]) if x[1] > 0 else -INF)


def hull(*xs: Range) -> Range:
    return min(lo for lo, _ in xs), max(hi for _, hi in xs)


def table_range(values: object) -> Range:
    if isinstance(values, tuple):
        return hull(*map(table_range, values))
    return float(values), float(values)  # type: ignore[arg-type]


def law_range(law: object) -> Range:
    """The support of an initial vector: the line for a Gaussian, else its quantiles at 0 and 1."""
    quantile = getattr(law, "quantile", None)
    if quantile is None:
        return LINE
    try:
        lo, hi = float(quantile(0.0)), float(quantile(1.0))
    except (ArithmeticError, TypeError, ValueError):
        return LINE
    return (lo, hi) if lo <= hi else LINE


COMBINED: dict[str, Callable[..., Range]] = {
    "add": lambda x, y: (x[0] + y[0], x[1] + y[1]),
    "sub": lambda x, y: (x[0] - y[1], x[1] - y[0]),
    "mul": multiplied,
    "div": divided,
    "abs": magnitude,
    "exp": exponential,
    "log": logarithm,
    "sqrt": lambda x: power(x, 0.5),
    "maximum": lambda *xs: (max(lo for lo, _ in xs), max(hi for _, hi in xs)),
    "minimum": lambda *xs: (min(lo for lo, _ in xs), min(hi for _, hi in xs)),
    "pieces": hull,
    "and": lambda x, y: (0.0, 1.0),
    "or": lambda x, y: (0.0, 1.0),
    "not": lambda x: (0.0, 1.0),
}
