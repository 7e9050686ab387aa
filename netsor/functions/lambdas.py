"""A sympy expression as the function that it is: the term that grows like it, and where it has kinks and jumps.

A branch of a Piecewise is looked at on its own interval: its variable is clamped to it, so that exp(x) - 1 for x <= 0 is
bounded. Breakpoints are the real zeros of what Abs, Max, Min, sign, Heaviside and the conditions compare; a jump is where the
values on both sides, at a distance of 1e-30 and with 60 digits, differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import sympy

from netsor.functions.cos import cos
from netsor.functions.erf import erf
from netsor.functions.exp import exp
from netsor.functions.log import log
from netsor.functions.sign import sign
from netsor.functions.sin import sin
from netsor.functions.sqrt import sqrt
from netsor.functions.step import step
from netsor.functions.tanh import tanh
from netsor.ir import Term, apply, lift
from netsor.ops import ABS, ADD, DIV, MUL, POW, Fn, Growth

NEAR = sympy.Rational(1, 10**30)
GAP = 1e-9  # values on both sides that differ by more, relative to their size, are a jump


def unevaluated(*args: Any) -> Any:
    raise NotImplementedError("a function that is made for its growth alone")


def shape(name: str, growth: Growth, kind: int = 0) -> Fn:
    return Fn(name, unevaluated, arity=None, params=(kind,), growth=growth)


MAXIMUM, MINIMUM = shape("maximum", Growth()), shape("minimum", Growth())
PIECES, BRANCHES = shape("pieces", Growth()), shape("pieces", Growth(tame=False), 1)
ARCTAN = shape("atan", Growth(0, low=-1.571, high=1.571))
COSH = shape("cosh", Growth(0, rate=1, low=1, tame=False))
SINH = shape("sinh", Growth(0, rate=1, tame=False))

NAMED: dict[Any, Fn] = {
    sympy.exp: exp, sympy.log: log, sympy.sin: sin, sympy.cos: cos, sympy.tanh: tanh, sympy.erf: erf, sympy.Abs: ABS,
    sympy.sign: sign, sympy.Heaviside: step, sympy.atan: ARCTAN, sympy.cosh: COSH, sympy.sinh: SINH,
}  # fmt: skip


def growing(variables: Sequence[Any], expression: Any) -> Callable[..., Term]:
    """The function that makes of argument terms a term with the growth of the expression."""
    return lambda *args: written(expression, dict(zip(variables, args, strict=True)))


def known(variables: Sequence[Any], expression: Any) -> bool:
    """Is everything in the expression of known growth?"""
    heads = (sympy.Add, sympy.Mul, sympy.Pow, sympy.Max, sympy.Min, *NAMED)
    parts = sympy.preorder_traversal(expression.replace(sympy.Piecewise, lambda *ps: sympy.Add(*(p[0] for p in ps))))
    return all(isinstance(e, heads) or e in variables or (e.is_number and e.is_real) for e in parts)


def written(e: Any, at: dict[Any, Term]) -> Term:
    if e in at:
        return at[e]
    if e.is_number:
        return constant(e)
    if isinstance(e, sympy.Piecewise):
        return pieces(e, at)
    if isinstance(e, sympy.Pow) and e.exp.is_number and e.exp.is_negative:
        return apply(DIV, 1, written(1 / e, at))
    if isinstance(e, sympy.Pow) and e.exp == sympy.Rational(1, 2):
        return sqrt(written(e.base, at))
    if isinstance(e, sympy.Pow) and e.base is sympy.E:
        return exp(written(e.exp, at))
    args = [written(a, at) for a in e.args]
    if isinstance(e, sympy.Pow):
        return apply(POW, *args)
    if isinstance(e, sympy.Max | sympy.Min):
        return apply(MAXIMUM if isinstance(e, sympy.Max) else MINIMUM, *args)
    if isinstance(e, sympy.Add | sympy.Mul):
        whole = args[0]
        for a in args[1:]:
            whole = apply(ADD if isinstance(e, sympy.Add) else MUL, whole, a)
        return whole
    return apply(NAMED[e.func], args[0])


def constant(e: Any) -> Term:
    if e.is_Integer:
        return lift(int(e))
    return lift(Fraction(int(e.p), int(e.q)) if e.is_Rational else float(e))


def pieces(e: Any, at: dict[Any, Term]) -> Term:
    """Each branch where it holds: on an interval if the condition is one on a single variable."""
    variables = [v for v in at if v in e.free_symbols]
    single = len(variables) == 1
    left, out = sympy.S.Reals, []
    for branch, condition in e.args:
        inner = dict(at)
        if single:
            (x,) = variables
            real = sympy.Dummy(real=True)
            here = left.intersect(sympy.And(condition.subs(x, real), -sympy.oo < real).as_set())
            left = left - here
            if here.is_empty:
                continue
            inner[x] = clamped(at[x], here.inf, here.sup)
        out.append(written(branch, inner))
    return apply(PIECES if single else BRANCHES, *out)


def clamped(x: Term, lo: Any, hi: Any) -> Term:
    x = apply(MAXIMUM, x, constant(lo)) if lo.is_finite else x
    return apply(MINIMUM, x, constant(hi)) if hi.is_finite else x


def places(variable: Any, expression: Any) -> tuple[list[float], list[float]]:
    """Where a function of one variable may have a kink, and where it jumps."""
    x = sympy.Dummy("x", real=True)
    e = expression.subs(variable, x)
    found = sorted({r for g in compared(e) for r in roots(g, x)}, key=float)
    jumps = [r for r in found if apart(*(e.subs(x, r + side * NEAR).evalf(60) for side in (-1, 1)))]
    return [float(r) for r in found], [float(r) for r in jumps]


def compared(e: Any) -> Iterator[Any]:
    """What is compared with 0 in an expression."""
    for part in sympy.preorder_traversal(e):
        if isinstance(part, sympy.Abs | sympy.sign | sympy.Heaviside):
            yield part.args[0]
        elif isinstance(part, sympy.Max | sympy.Min):
            yield from (a - b for k, a in enumerate(part.args) for b in part.args[:k])
        elif isinstance(part, sympy.core.relational.Relational):
            yield part.lhs - part.rhs


def roots(g: Any, x: Any) -> list[Any]:
    try:
        found = sympy.solveset(g, x, sympy.S.Reals)
    except NotImplementedError:
        return []
    return [r for r in found if r.is_number and r.is_finite] if isinstance(found, sympy.FiniteSet) else []


def apart(left: Any, right: Any) -> bool:
    if not (left.is_finite and right.is_finite):
        return False
    return bool(abs(left - right) > GAP * (1 + abs(left) + abs(right)))
