r"""Which expectations of a program are finite, decided before any is computed.

Under a Moment |f| must be integrable (power p = 1), under MatMul, in a dot product, and for a named vector (whose law has
a variance) f^2 (p = 2). For |f| ~ exp(z^T H z), z ~ N(m, S) given the scores,

    E |f|^p < oo  iff  every eigenvalue of 2 p H S is below 1;      one variable, f = exp(c z^2): 2 p c v < 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from netsor.algebra.growth import Growths
from netsor.algebra.majorants import INFINITE, UNCERTAIN, Fault
from netsor.algebra.poly import is_map
from netsor.errors import IllFormed, NetsorError, NoRule, OutsideTheorem
from netsor.infinite.tails import EDGE, Tails
from netsor.ir import Family, Term, apply, postorder
from netsor.ops import MUL, Generator, Growth, Map
from netsor.walks import below, canonical

if TYPE_CHECKING:
    from netsor.infinite.regularity import Regularity

POLE = "a quotient by what comes arbitrarily near 0, where E|1/Z| is infinite (and 0/0, if the numerator vanishes too)"

Severity = Literal["refused", "warning"]


@dataclass(frozen=True, slots=True)
class Use:
    """An expectation that a program takes: E |term|^power; `family` is to blame if it is infinite."""

    family: Family
    term: Term
    power: int
    where: str


def uses_of(term: Term, named: bool) -> Iterator[Use]:
    """The expectations that a statement takes."""
    family = term.family
    vectors = [a for a in below(term) if a.width is not None]
    if isinstance(family.op, Generator) and family.width is not None:
        yield from (Use(a.family, a, 2, "under a matrix its square is averaged") for a in vectors)
    elif isinstance(family.op, Generator) and len(term.args) == 1:
        yield from (Use(a.family, a, 1, "it is averaged over the coordinates") for a in vectors)
    elif isinstance(family.op, Generator):
        factors = apply(MUL, *term.args[:2])
        yield Use(family, factors, 2, "the variance of a dot product averages the square of the product")
    elif named and family.width is not None:
        yield Use(family, term, 2, "a named vector has a law with a variance")


def instances_of(roots: Iterable[Term]) -> dict[bytes, list[Term]]:
    """The terms of each family that the roots reach, with the members and coincident letters that they have there."""
    found: dict[bytes, list[Term]] = {}
    todo = [canonical(t)[0] for t in roots]
    seen: set[Term] = set()
    while todo:
        term = todo.pop()
        if term not in seen:
            seen.add(term)
            found.setdefault(term.family.key, []).append(term)
            todo.extend(canonical(a)[0] for a in below(term))
    return found


@dataclass
class Integrability:
    """The checks of growth of one program."""

    regularity: Regularity
    variables: Mapping[str, Term]

    @cached_property
    def growths(self) -> Growths:
        return Growths(self.regularity.moments, self.known)

    def known(self, scalar: Term) -> tuple[float, float] | None:
        """The range of a scalar that is not random, where it can be computed."""
        if self.regularity.moments.scored(scalar):
            return None
        value = self.regularity.value(scalar)
        return None if value is None else (float(value.data.min()), float(value.data.max()))

    def check(self) -> Iterator[tuple[Severity, Family, NetsorError]]:
        """Findings, children first; above a refusal nothing is looked at, for it may rest on what does not exist."""
        named = {canonical(t)[0] for t in self.variables.values()}
        instances = instances_of(self.variables.values())
        refused: set[bytes] = set()
        said: set[tuple[bytes, str]] = set()
        for family in postorder(*self.variables.values()):
            if any(c.key in refused for c, _ in family.children):
                refused.add(family.key)
                continue
            findings = (f for term in instances[family.key] for f in self.found(term, term in named))
            for severity, at, error in findings:
                if severity == "refused":
                    refused.update((family.key, at.key))
                if (at.key, error.hypothesis) not in said:
                    said.add((at.key, error.hypothesis))
                    yield severity, at, error
                if severity == "refused":
                    break

    def found(self, term: Term, named: bool) -> Iterator[tuple[Severity, Family, NetsorError]]:
        op, family = term.op, term.family
        if isinstance(op, Map) and family.width is not None:
            fault = self.growths.of(term).fault
            if fault is not None and fault.undefined:
                yield "refused", family, undefined(fault)
                return
            if isinstance(op.fn.growth, Growth) and op.fn.growth.trusted:
                yield "warning", family, taken_on_trust(op.fn.name)
        for use in uses_of(term, named):
            for severity, error in self.decided(use):
                yield severity, use.family, error

    # ---- one expectation

    def decided(self, use: Use) -> Iterator[tuple[Severity, NetsorError]]:
        m = self.growths.of(use.term)
        if m.fault is not None:
            yield "refused", (infinite(use, m.fault.why) if m.fault.code == INFINITE else uncertain(m.fault))
            return
        if m.pole is not None and use.power * m.pole >= 1:
            yield (
                "refused",
                infinite(
                    use,
                    POLE,
                ),
            )
            return
        kind = self.growths.kind(m)
        if kind == "polynomial":
            if m.pole is not None:
                yield (
                    "warning",
                    outside_classes("it is integrable, but not bounded where its argument vanishes, as log|x| is not"),
                )
            return
        largest, spread = 0.0, 0.0
        try:
            tails = Tails(self.regularity.draw, self.regularity.moments)
            for e in m.exponents:
                if not e.bounded and e.poly:
                    top, ratio = tails.quadratic(e.poly, use.power)
                    largest, spread = max(largest, top), max(spread, ratio)
            if m.order:
                spread = tails.of_one(use.term.args[0], use.power) if is_map(use.term, "exp") else math.nan
        except NetsorError as error:
            if kind == "quadratic":
                open_now = isinstance(error, IllFormed)  # something is unbound: only structure can tell
                yield ("warning", open_form(use)) if open_now else ("refused", uncertain(Fault(UNCERTAIN, error.title)))
                return
            spread = math.nan
        if largest >= 1 - EDGE:
            why = f"exp of a quadratic form H, and 2 p H S has the eigenvalue {largest:.4g}, not below 1 (p = {use.power})"
            if m.sharp:
                yield "refused", infinite(use, why)
            else:
                yield "refused", uncertain(Fault(UNCERTAIN, f"it is bounded by something not integrable, {why}"))
        elif kind == "quadratic":
            yield (
                "warning",
                outside_classes(f"its expectations are finite, but it grows like exp(c z^2); {noise(use.power, spread)}"),
            )
        else:
            yield "warning", heavy(noise(use.power, spread))


def noise(power: int, spread: float) -> str:
    """What a width n sees: the relative variance of the average of the square, from the logarithm of a ratio."""
    what = "the relative variance of n^{-1} sum " + ("phi^2" if power == 2 else "phi")
    if math.isnan(spread):
        return f"{what} is larger than that of any polynomial"
    if math.isinf(spread):
        return f"{what} is infinite"
    large = spread / math.log(10)
    shown = f"{math.expm1(spread):.3g}" if large < 300 else f"10^{large:.3g}"
    return f"{what} is {shown}/n"


# ---- words


def infinite(use: Use, why: str) -> NetsorError:
    need = "E|phi|" if use.power == 1 else "E phi^2"
    return OutsideTheorem(
        INFINITE,
        hypothesis=f"{use.where}, so {need} must be finite (docs/theory.md, Theorem A); here: {why}",
        consequence="an average over n coordinates is ruled by its largest terms and does not settle; a quadrature, or sympy, "
        "would return a number all the same",
        repair="use a function of polynomial growth, a smaller variance, or keep it inside a bounded function: tanh(...)",
    )


def undefined(fault: Fault) -> NetsorError:
    kind = OutsideTheorem if fault.code == INFINITE else NoRule
    return kind(
        fault.code,
        hypothesis=f"a Nonlin is a function on the whole line (docs/theory.md, Theorem A); here: {fault.why}",
        consequence="coordinates are NaN, and so is every average over them",
        repair="make the argument nonnegative: sqrt(abs(x)), log(1 + x * x)",
    )


def uncertain(fault: Fault) -> NetsorError:
    return NoRule(
        fault.code,
        hypothesis=f"an expectation must be finite (docs/theory.md, Theorem A), and netsor cannot tell: {fault.why}",
        consequence="the quadrature would return a number for an expectation that may not exist",
        repair="add a positive constant to what is a sum of squares, 1 / (1 + x * x), or use elementwise(f, growth=...) to "
        "say how the function grows",
    )


def taken_on_trust(name: str) -> NetsorError:
    return NoRule(
        "NS204",
        hypothesis=f"that {name} is defined everywhere, grows like a polynomial and jumps only where it says is taken on "
        "trust; elementwise(f, growth=...) says it",
    )


def outside_classes(why: str) -> NetsorError:
    return NoRule("NS204", hypothesis=f"in no class for which the law of large numbers is proved: {why}")


def open_form(use: Use) -> NetsorError:
    return NoRule(
        INFINITE,
        hypothesis=f"exp of a quadratic form: {use.where}, and whether that is finite is decided when all sizes are bound",
    )


def heavy(text: str) -> NetsorError:
    return NoRule(INFINITE, hypothesis=f"grows exponentially: there is a limit (Yang 2019, Theorem 5.4), but {text}")
