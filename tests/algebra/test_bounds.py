"""The bound of every kind of term, record by record; that bounds hold is tested in test_growth.py."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy

from netsor import (
    Plate,
    clip,
    dot,
    elementwise,
    exp,
    hardmax,
    log,
    matrix,
    mean,
    param,
    relu,
    sigmoid,
    sign,
    softmax,
    sqrt,
    step,
    sum_over,
    tanh,
    vector,
)
from netsor.algebra.growth import Growths
from netsor.algebra.majorants import Majorant
from netsor.algebra.moments import Moments
from netsor.algebra.poly import Poly
from netsor.functions import max_over, mean_over
from netsor.ir import Term
from netsor.rules.input import Law

t, u = sympy.symbols("t u")
i, j = Plate("token", 3).indices("i j")
x, y, X = vector("x"), vector("y"), vector("X", i)
p, c = dot(matrix("Q") @ x, matrix("K") @ y), param("c", 2)
bit = vector("bit", law=Law("bit", lambda k: 1 - k % 2, lambda q: 2 * (q > 0.5) - 1.0))
heavy = vector("heavy", law=Law("heavy", lambda k: 1, lambda q: 1 / q - 1))
half = clip(0.5)
wild, mild = (elementwise(np.arctan, growth=g) for g in ("exponential", "bounded"))


def own(expression: Any) -> Any:
    """A function of t and u by its structure."""
    return elementwise(sympy.Lambda((t, u), expression), name="own")


branches = own(sympy.Piecewise((sympy.exp(t), t > u), (sympy.exp(u), True)))


def shown(m: Majorant) -> str:
    """The degree, the order, the exponents (! where they are not known to be bounded, 1 for none), what is certified, the
    pole and the fault (? where the function has no value somewhere)."""
    exponents = [f"exp({text(e.poly)})" + "!" * (not e.bounded) if e.poly or not e.bounded else "1" for e in m.exponents]
    words = [f"{m.degree:g}", f"order {m.order:g}" if m.order else "", "" if exponents == ["1"] else "|".join(exponents)]
    words += [name for name in ("tame", "jump", "holder", "sharp") if getattr(m, name)]
    words += [f"pole {m.pole:g}" if m.pole is not None else "", m.fault.code + "?" * m.fault.undefined if m.fault else ""]
    return " ".join(filter(None, words))


def text(poly: Poly) -> str:
    return " ".join(sorted(f"{float(m.number):+g}" + "".join(sorted(map(name_of, (*m.scalars, *m.atoms)))) for m in poly))


def name_of(term: Term) -> str:
    return "p" if term == p else str(getattr(term.op, "name", "?"))


BOUNDS: list[tuple[Term, str, str]] = [
    (x, "1 tame sharp", "0 sharp pole 1"),
    (2 * x + 1, "1 tame sharp", "0 sharp pole 1"),
    (p, "0 tame sharp", "0 tame sharp"),
    (x - y, "1 tame sharp", "0 sharp pole 1"),
    (x * x, "2 tame sharp", "0 sharp pole 2"),
    (x**3, "3 tame sharp", "0 sharp pole 3"),
    (x**0, "0 tame sharp", "0 tame sharp"),
    (x**-2, "0 sharp pole 2", "2 tame sharp"),
    (x**c, "2 tame sharp", "0 sharp pole 2"),
    (abs(x), "1 tame sharp", "0 sharp pole 1"),
    (abs(x) ** 1.5, "1.5 tame sharp", "0 sharp pole 1.5"),
    (abs(x) ** Fraction(1, 2), "0.5 holder sharp", "0 sharp pole 0.5"),
    (abs(x) ** Fraction(-1, 2), "0 sharp pole 0.5", "0.5 tame sharp"),
    (x**0.5, "0 tame sharp NS106?", "0 sharp pole 0.5"),
    ((1 + x * x) ** 0.3, "0.6 tame sharp", "0 tame sharp"),
    ((1 + x * x) ** -1.5, "0 tame sharp", "3 tame sharp"),
    ((2 + tanh(x)) ** 0.5, "0 tame", "0 tame"),
    (2**x, "0 exp(+0.693147x)! sharp", "0 sharp NS204"),
    (0.5 ** (x * x), "0 exp(-0.693147xx) tame sharp", "0 sharp NS204"),
    ((-2) ** x, "0 jump sharp NS204?", "0 sharp NS204"),
    (0**x, "0 jump sharp NS204", "0 sharp NS204"),
    (x**y, "0 jump sharp NS204?", "0 sharp NS204"),
    (c**x, "0 exp(+0.693147x)! sharp", "0 sharp NS204"),
    (sqrt(x * x), "1 tame sharp", "0 sharp pole 1"),
    (sqrt(x**2), "1 tame sharp", "0 sharp pole 1"),
    (sqrt(x**4), "2 holder sharp", "0 sharp pole 2"),
    (sqrt(x * y), "0 tame sharp NS106?", "0 sharp pole 1"),
    (sqrt(x * x * y), "0 tame sharp NS106?", "0 sharp pole 1.5"),
    (sqrt(abs(x)), "0.5 holder sharp", "0 sharp pole 0.5"),
    (sqrt(1 + x * x), "1 tame sharp", "0 tame sharp"),
    (sqrt(x), "0 tame sharp NS106?", "0 sharp pole 0.5"),
    (sqrt(x * x - 1), "0 tame sharp NS204?", "0 sharp NS204"),
    (sqrt(x**3 + x * x), "0 tame sharp NS106?", "0 sharp NS204"),
    (sqrt(tanh(x) + x), "0 tame sharp NS204?", "0 sharp NS204"),
    (sqrt(exp(x * x)), "0 exp(+0.5xx)! sharp", "0"),
    (log(abs(x)), "0 pole 0", "0 sharp NS204"),
    (log(1 + x * x), "0 tame", "0 sharp NS204"),
    (log(1 + exp(x)), "1", "0 sharp NS204"),
    (log(1 + exp(x * x)), "2", "0"),
    (log(exp(-x * x)), "2", "0 sharp NS204"),
    (log(1 + exp(abs(x) ** 1.5)), "1.5", "0"),
    (log(x), "0 tame sharp NS106?", "0 sharp NS204"),
    (log(x * x - 1), "0 tame sharp NS204?", "0 sharp NS204"),
    (log(1 + step(x)), "0 jump", "0 sharp NS204"),
    (log(x * x), "0 pole 0", "0 sharp NS204"),
    (log(exp(exp(x))), "0 NS204", "0 sharp NS204"),
    (log(2 + tanh(x)), "0 tame", "0 sharp NS204"),
    (exp(x), "0 exp(+1x)! sharp", "0 exp(-1x)! sharp"),
    (exp(-x * x), "0 exp(-1xx) tame sharp", "0 exp(+1xx)! sharp"),
    (exp(x * x), "0 exp(+1xx)! sharp", "0 exp(-1xx) tame sharp"),
    (exp(1 + x * x / 8 + x), "0 exp(+0.125xx +1x)! sharp", "0 exp(-0.125xx -1x)! tame sharp"),
    (exp(x * y), "0 exp(+1xy)! sharp", "0 exp(-1xy)! sharp"),
    (exp(x * x - y * y), "0 exp(+1xx -1yy)! sharp", "0 exp(+1yy -1xx)! sharp"),
    (exp(x * x - x**4), "0 tame", "0 sharp NS106"),
    (exp(y - x**4), "0 exp(+1y)!", "0 sharp NS106"),
    (exp(x * x * y * y - x**4 - y**4), "0 sharp NS204", "0 sharp NS204"),
    (exp(-x * x * y * y), "0 tame", "0 sharp NS106"),
    (exp(x * x * y * y), "0 sharp NS106", "0 tame"),
    (exp(-x * y), "0 exp(-1xy)! sharp", "0 exp(+1xy)! sharp"),
    (exp(abs(x) ** 1.5), "0 order 1.5 sharp", "0 tame"),
    (exp(abs(x) ** 1.5 - x * x), "0 order 1.5 exp(-1xx)! sharp", "0 exp(+1xx)! sharp"),
    (exp(-(abs(x) ** 3)), "0 tame", "0 sharp NS106"),
    (exp(abs(x) ** 3), "0 sharp NS106", "0 tame"),
    (exp(-(x**3)), "0 sharp NS106", "0 sharp NS106"),
    (exp(x**3 - x * x), "0 sharp NS106", "0 sharp NS106"),
    (exp(x**4 - x * x), "0 sharp NS106", "0 tame"),
    (exp(abs(x) * x), "0 sharp NS204", "0 sharp NS204"),
    (exp(abs(x) * abs(x)), "0 exp(+1xx)! sharp", "0 exp(-1xx) tame sharp"),
    (exp(abs(x) ** 3 - x * x), "0 sharp NS106", "0 exp(+1xx)!"),
    (exp(x**3 - abs(x) ** 3), "0 sharp NS204", "0 sharp NS204"),
    (exp(x**3 + abs(x) ** 2.5), "0 sharp NS106", "0 sharp NS106"),
    (exp(x**3 + exp(x)), "0 sharp NS106", "0 sharp NS204"),
    (exp(x**3 + 1 / exp(x * x)), "0 sharp NS106", "0 sharp NS106"),
    (exp(x * y * y), "0 sharp NS106", "0 sharp NS106"),
    (exp(relu(x) ** 3), "0 sharp NS204", "0 tame"),
    (exp(x**2.0 * relu(y) * relu(y)), "0 sharp NS204", "0 tame"),
    (exp(exp(x)), "0 sharp NS106", "0"),
    (exp(-exp(x)), "0", "0 sharp NS106"),
    (exp(exp(x * x)), "0 sharp NS106", "0"),
    (exp(exp(x * y)), "0 sharp NS204", "0"),
    (exp(exp(abs(x))), "0 sharp NS204", "0"),
    (exp(exp(x) + exp(y)), "0 sharp NS204", "0"),
    (exp(exp(x) * tanh(y)), "0 sharp NS204", "0 sharp NS204"),
    (exp(exp(x) * exp(y)), "0 sharp NS106", "0"),
    (exp(exp(x) - y * y), "0 sharp NS106", "0 exp(+1yy)!"),
    (exp(exp(x) - exp(y)), "0 sharp NS204", "0 sharp NS204"),
    (exp(exp(x**3)), "0 sharp NS106", "0"),
    (exp(exp(x**3) - exp(y)), "0 sharp NS204", "0 sharp NS204"),
    (exp(log(abs(x))), "0 sharp NS204", "0 sharp NS204"),
    (exp(log(1 + x * x)), "0 sharp NS204", "0 tame"),
    (exp(sqrt(x)), "0 tame sharp NS106?", "0 tame sharp NS106?"),
    (exp(1 / x), "0 sharp NS204", "0 sharp NS204"),
    (exp(-1 / x**2), "0 jump", "0 sharp NS204"),
    (exp(x + 1 / sqrt(abs(y))), "0 sharp NS204", "0 sharp NS204"),
    (exp(tanh(x)), "0 tame", "0 tame"),
    (exp(bit), "0 tame", "0 tame"),
    (exp(-heavy), "0 sharp NS204", "0 sharp NS204"),
    (exp(heavy), "0 sharp NS204", "0 sharp NS204"),
    (exp(heavy * heavy), "0 sharp NS204", "0 tame"),
    (exp(bit * x), "0 order 1 sharp", "0 order 1 sharp"),
    (exp(p), "0 tame sharp", "0 tame sharp"),
    (exp(p * x), "0 exp(+1px)! sharp", "0 exp(-1px)! sharp"),
    (exp(p * x * x), "0 exp(+1pxx)! sharp", "0 exp(-1pxx)! sharp"),
    (exp(abs(p) * x * x), "0 exp(+1?xx)! sharp", "0 exp(-1?xx) tame sharp"),
    (exp(-abs(p) * x * x), "0 exp(-1?xx) tame sharp", "0 exp(+1?xx)! sharp"),
    (exp(x * step(y)), "0 order 1 jump sharp", "0 order 1 jump sharp"),
    (exp(x * x * step(y)), "0 sharp NS204", "0 jump"),
    (exp(abs(x) ** 2.5), "0 sharp NS106", "0 tame"),
    (exp(sum_over(X * X, i)), "0 exp(+1XX)! sharp", "0 exp(-1XX) tame sharp"),
    (exp(sum_over(X, i)), "0 exp(+1X)! sharp", "0 exp(-1X)! sharp"),
    (exp(x) + exp(x), "0 1|exp(+1x)!", "0 exp(-1x)!"),
    (exp(x) * exp(y), "0 exp(+1x +1y)! sharp", "0 exp(-1x -1y)! sharp"),
    (exp(x * x) + exp(y * y), "0 1|exp(+1xx)!|exp(+1yy)! sharp", "0"),
    (exp(x * x) * exp(-x * x), "0 exp()! sharp", "0 exp()! sharp"),
    (exp(x) / exp(y), "0 exp(+1x -1y)! sharp", "0 exp(+1y -1x)! sharp"),
    (exp(x) ** 3, "0 exp(+3x)! sharp", "0 exp(-3x)! sharp"),
    (exp(x) ** -2, "0 exp(-2x)! sharp", "0 exp(+2x)! sharp"),
    (x / (1 + x * x), "1 tame sharp", "2 sharp pole 1"),
    (x / y, "1 sharp pole 1", "1 sharp pole 1"),
    (x / exp(x), "1 exp(-1x)! sharp", "0 exp(+1x)! sharp pole 1"),
    (1 / (x * y), "0 sharp pole 2", "2 tame sharp"),
    (1 / abs(x), "0 sharp pole 1", "1 tame sharp"),
    (1 / sqrt(abs(x)), "0 sharp pole 0.5", "0.5 holder sharp"),
    (1 / (x * x + y * y), "0 sharp NS204", "2 tame sharp"),
    (1 / (x - y), "0 sharp pole 1", "1 tame sharp"),
    (1 / (x / y), "1 sharp pole 1", "1 sharp pole 1"),
    (1 / (2 + tanh(x)), "0 tame", "0 tame"),
    (1 / (tanh(x) - 2), "0 tame", "0 tame"),
    (1 / tanh(x), "0 sharp NS204", "0 tame"),
    (1 / (c + 0 * x), "0 tame sharp", "0 tame sharp"),
    (1 / (exp(x) + exp(-x)), "0 exp(-1x)!", "0 1|exp(+1x)!|exp(-1x)! sharp"),
    (1 / (step(x) + exp(x)), "0 exp(-1x)!", "0 1|exp(+1x)! jump"),
    (1 / (exp(x) - exp(y)), "0 sharp NS204", "0 1|exp(+1x)!|exp(+1y)! sharp"),
    (1 / own(sympy.Max(t, sympy.exp(u)))(abs(x), y), "0 exp(-1y)!", "1 1|exp(+1y)!"),
    (
        1 / own(sympy.Piecewise((sympy.exp(t), t > u), (sympy.exp(u), True)))(x, y),
        "0 sharp NS204",
        "0 1|exp(+1x)!|exp(+1y)! sharp",
    ),
    (tanh(x), "0 tame", "0 sharp NS204"),
    (tanh(exp(x * x)), "0", "0 sharp NS204"),
    (tanh(1 / x), "0 jump", "0 sharp NS204"),
    (tanh(sqrt(x)), "0 tame NS106?", "0 sharp NS204"),
    (tanh(sqrt(abs(x))), "0 holder", "0 sharp NS204"),
    (sigmoid(exp(x)), "0", "0 sharp NS204"),
    (step(x), "0 jump", "0 sharp NS204"),
    (step(tanh(x)), "0 jump", "0 sharp NS204"),
    (sign(x) * x * x, "2 jump", "0 sharp pole 2 NS204"),
    (relu(x) * y, "2 tame", "0 sharp pole 1 NS204"),
    (relu(exp(x)), "0 1|exp(+1x)!", "0 sharp NS204"),
    (relu(1 / x), "0 pole 1", "0 sharp NS204"),
    (softmax(X, over=i), "0 tame", "0 sharp NS204"),
    (hardmax(X, over=i), "0 jump", "0 sharp NS204"),
    (softmax(exp(X * X), over=i), "0", "0 sharp NS204"),
    (sum_over(X * X, i), "2 tame sharp", "0 sharp NS204"),
    (sum_over(exp(X), i), "0 exp(+1X)! sharp", "0 sharp NS204"),
    (sum_over(1 / X, i), "0 sharp pole 1", "0 sharp NS204"),
    (mean_over(exp(X * X), i), "0 exp(+1XX)! sharp", "0"),
    (max_over(X * X, i), "2 tame", "0 sharp NS204"),
    (X * X.at({i: j}), "2 tame sharp", "0 sharp pole 2"),
    (bit, "0 tame sharp", "0 sharp NS204"),
    (bit * x, "1 tame sharp", "0 sharp pole 1 NS204"),
    (heavy, "1 tame sharp", "0 sharp NS204"),
    (own(sympy.Max(t, u))(x, y), "1 tame sharp", "0 sharp NS204"),
    (own(sympy.Min(sympy.exp(t), u))(x, y), "1 1|exp(+1x)!", "0 sharp NS204"),
    (own(sympy.Max(sympy.exp(t), u))(x, y), "1 1|exp(+1x)!", "0 sharp NS204"),
    (own(sympy.Piecewise((t, t > u), (u**2, True)))(x, y), "2 sharp", "0 sharp NS204"),
    (own(sympy.exp(t * u / 9))(x, y), "0 exp(+0.111111xy)! sharp", "0 exp(-0.111111xy)! sharp"),
    (own(sympy.Abs(t) - u)(x, y), "1 tame sharp", "0 sharp NS204"),
    (wild(x), "0 order 1", "0 sharp NS204"),
    (wild(tanh(x)), "0", "0 sharp NS204"),
    (wild(x * x), "0 NS204", "0 sharp NS204"),
    (wild(exp(x)), "0 1|exp()! NS204", "0 sharp NS204"),
    (wild(log(abs(x))), "0 pole 0 NS204", "0 sharp NS204"),
    (wild(sqrt(abs(x))), "0 order 0.5 holder", "0 sharp NS204"),
    (wild(step(x)), "0 jump", "0 sharp NS204"),
    (wild(x * bit), "0 order 1", "0 sharp NS204"),
    (mild(exp(x)), "0", "0 sharp NS204"),
    (mild(exp(x**3)), "0", "0 sharp NS204"),
    (half(exp(x**3)), "0", "0 sharp NS204"),
    (half(x) * exp(x), "0 exp(+1x)!", "0 exp(-1x)! sharp NS204"),
    (exp(x**3) * tanh(x), "0 NS204", "0 sharp NS106"),
    (exp(x**3) * x, "1 sharp NS106", "0 sharp pole 1 NS106"),
    (exp(x**3) + tanh(x), "0 NS106", "0 sharp NS204"),
    (own(sympy.Max(0, sympy.Min(sympy.exp(t**3), 9)))(x, y), "0", "0 sharp NS204"),
    (exp(x * x / 9 - x * x * y * y), "0 exp(+0.111111xx)!", "0 sharp NS106"),
    (exp(y * y / 9 - x * x * y * y), "0 exp(+0.111111yy)!", "0 sharp NS106"),
    (exp(X * X / 9 - sum_over(X**4, i)), "0 exp(+0.111111XX)!", "0 sharp NS106"),
    (1 / (c * exp(x)), "0 exp(-1x)! sharp", "0 exp(+1x)! sharp"),
    (1 / (param("none", 0) * exp(x)), "0 sharp NS106?", "0"),
    (1 / (x * x + c), "0 tame sharp", "2 tame sharp"),
    (1 / (exp(x) + param("none", 0)), "0 exp(-1x)!", "0 1|exp(+1x)! sharp"),
    (exp(-log(abs(x)) * exp(x)), "0 sharp NS204", "0 sharp NS204"),
    (exp(x * y - x**4), "0 exp(+1xy)!", "0 sharp NS106"),
    (exp(x**4 - x**6), "0 tame", "0 sharp NS106"),
    (exp(x**2 - x**3), "0 sharp NS106", "0 sharp NS106"),
    (log(exp(x)), "1", "0 sharp NS204"),
    (log(exp(-x * x) + 1), "0 tame", "0 sharp NS204"),
    (log(1 + exp(-x * x)), "0 tame", "0 sharp NS204"),
    (log(2 * exp(-x * x) + exp(x)), "2", "0 sharp NS204"),
    ((x * x) ** 1.5, "3 tame sharp", "0 sharp pole 3"),
    ((x * x) ** 0.3, "0.6 holder sharp", "0 sharp pole 0.6"),
    ((1 + sqrt(abs(x))) ** 2.5, "1.25 holder sharp", "0 holder sharp"),
    ((x**4) ** 0.25, "1 holder sharp", "0 sharp pole 1"),
    (sqrt(x * x + y * y), "1 sharp", "0 sharp NS204"),
    (sqrt(abs(x) + 1) ** 0.5, "0.25 tame sharp", "0 tame sharp"),
    (sqrt(sqrt(abs(x)) + 1), "0.25 holder sharp", "0 holder sharp"),
    (sqrt(tanh(x) * y), "0 tame sharp NS204?", "0 sharp pole 0.5 NS204"),
    (sqrt(0 * x - 1), "0 tame NS204?", "0 sharp NS106?"),
    (sqrt(x * x * y * y), "0 tame sharp NS204?", "0 sharp pole 2"),
    (exp(abs(x) ** 3 * x), "0 sharp NS204", "0 sharp NS204"),
    (exp(abs(x) ** 0.5 * x * x), "0 sharp NS106", "0 holder"),
    (exp(abs(tanh(x)) ** 3 * x * x), "0 sharp NS204", "0 tame"),
    (exp(tanh(x) ** 3 * abs(x) ** 3), "0 sharp NS204", "0 sharp NS204"),
    (exp(1 / x + x), "0 sharp NS204", "0 sharp NS204"),
    (exp(-(abs(x) ** -0.5)), "0 jump", "0 sharp NS204"),
    (exp(-log(abs(x))), "0 sharp NS204", "0 sharp NS204"),
    (exp(log(1 + abs(x)) + x), "0 sharp NS204", "0 exp(-1x)! sharp"),
    (exp(-exp(x**3)), "0", "0 sharp NS106"),
    (exp(-exp(x * x) - 1), "0", "0 sharp NS106"),
    (exp(exp(x**3) * y), "0 sharp NS204", "0 sharp NS204"),
    (wild(abs(x) ** 1.5), "0 order 1.5", "0 sharp NS204"),
    (wild(exp(abs(x)) * 1), "0 order 1 NS204", "0 sharp NS204"),
    (wild(step(x) * x), "0 order 1 jump", "0 sharp NS204"),
    (wild(1 / sqrt(abs(x))), "0 pole 0 NS204", "0 sharp NS204"),
    (wild(tanh(1 / x)), "0 jump", "0 sharp NS204"),
    (elementwise(np.arctan, growth="bounded", jumps=[1])(x), "0 jump", "0 sharp NS204"),
    (elementwise(np.arctan, growth="exponential", jumps=[1])(x), "0 order 1 jump", "0 sharp NS204"),
    (exp(3 * sum_over(X**4, i) - X**4), "0 sharp NS204", "0 sharp NS204"),
    (exp(sum_over(X * X, i) - X**4), "0 exp(+1XX)!", "0 sharp NS106"),
    (exp(sum_over(X * X - X**4, i)), "0 exp(+1XX)!", "0 sharp NS106"),
    (exp(X**3 - X.at({i: j}) ** 4), "0 sharp NS204", "0 sharp NS106"),
    (exp(-x * x * x * x * y * y + x**3), "0 sharp NS204", "0 sharp NS106"),
    (log(2 + abs(x) + exp(-x * x)), "0 tame", "0 tame"),
    (exp(half(x) * log(abs(y))), "0 sharp NS204", "0 sharp NS204"),
    (exp(log(abs(x) / 2)), "0 sharp NS204", "0 sharp NS204"),
    (abs(abs(x) ** 0.5 + 1) ** 0.5, "0.25 holder sharp", "0 holder sharp"),
    ((abs(x) ** 0.5 + abs(x)) ** 2.5, "2.5 holder sharp", "0 sharp NS204"),
    (sqrt(exp(x) - exp(y)), "0 tame sharp NS204?", "0 sharp NS204"),
    (sqrt(x * y + y), "0 tame sharp NS204?", "0 sharp NS204"),
    (sqrt(x * x * y * y + x * y), "0 tame sharp NS204?", "0 sharp NS204"),
    (exp(abs(abs(x) ** 3)), "0 sharp NS106", "0 tame"),
    (exp(abs(x) ** -3 + x), "0 sharp NS204", "0 sharp NS204"),
    (exp(abs(tanh(x) + 1) ** 3 * x**4), "0 sharp NS204", "0 tame"),
    (exp(abs(x * y) * abs(x)), "0 sharp NS204", "0 tame"),
    (exp(-abs(x) * exp(y**3)), "0", "0 sharp NS106"),
    (exp(abs(x) * exp(y**3)), "0 sharp NS106", "0"),
    (exp(abs(x) * exp(-(y**3))), "0 sharp NS106", "0"),
    (exp(exp(x**3) - exp(abs(y))), "0 sharp NS204", "0 sharp NS204"),
    (exp(log(abs(x)) - 1), "0 sharp NS204", "0 sharp NS204"),
    (exp(half(log(abs(x)))), "0 jump", "0 jump"),
    (x**1, "1 tame sharp", "0 sharp pole 1"),
    (wild(abs(x) * exp(x)), "0 1|exp()! NS204", "0 sharp NS204"),
    (wild(x + 1 / sqrt(abs(y))), "0 pole 0 NS204", "0 sharp NS204"),
    (sqrt(x - x), "0 tame sharp NS204?", "0 sharp pole 0.5"),
    (exp(x * x - x**4 - 1 / sqrt(abs(y))), "0 sharp NS204", "0 sharp NS106"),
    (exp(abs(x + tanh(x)) ** 3), "0 sharp NS204", "0 tame"),
    (exp(x * exp(y**3)), "0 sharp NS204", "0 sharp NS204"),
    (exp(abs(x) * exp(exp(abs(y)))), "0 sharp NS204", "0"),
    (exp(x + tanh(y)), "0 exp(+1x)! sharp", "0 exp(-1x)! sharp"),
    (1 / (step(y) + exp(x * x / 8 + x)), "0 exp(-0.125xx -1x)!", "0 1|exp(+0.125xx +1x)! jump"),
    (1 / (exp(-x * x) + exp(-y * y)), "0 exp(+1xx)!", "0 1|exp(-1xx)|exp(-1yy) tame sharp"),
    (exp(1 - x**4), "0 tame", "0 sharp NS106"),
    (exp(3 * x**4 - mean(y * y) * x**4), "0 sharp NS204", "0 sharp NS204"),
    (exp(-(x**4) - abs(p) * x**4), "0 tame", "0 sharp NS204"),
    (exp(x**5 - x**4), "0 sharp NS106", "0 sharp NS106"),
    (exp(x**5 - x**4 - x**6), "0 tame", "0 sharp NS106"),
    (exp(1 / sqrt(abs(x))), "0 sharp NS204", "0 jump"),
    (exp(x - x * x + step(y)), "0 exp(+1x -1xx)! jump sharp", "0 exp(+1xx -1x)! jump sharp"),
    (exp(sum_over(abs(X) * abs(X), i) / 9), "0 sharp NS204", "0 tame"),
    (exp(abs(x + tanh(x)) ** 2.5), "0 sharp NS204", "0 tame"),
    (exp(x**4 * abs(y) ** -0.5), "0 sharp NS204", "0 jump"),
    (own(sympy.exp(sympy.Max(sympy.Abs(t + sympy.tanh(t)), 1) ** 3))(x, y), "0 sharp NS204", "0 tame"),
    (exp(exp(x) * exp(-x) * y * y), "0 sharp NS204", "0"),
    (exp(x * exp(y)), "0 sharp NS204", "0 sharp NS204"),
    (exp(relu(exp(x))), "0 sharp NS204", "0"),
    (exp(x**3 * y), "0 sharp NS204", "0 sharp NS204"),
    (sqrt(abs(x) * y * y), "0 tame sharp NS204?", "0 sharp pole 1.5"),
    (sqrt(abs(x) * abs(y)), "1 holder sharp", "0 sharp pole 1"),
]


@pytest.mark.parametrize(("term", "bound", "inverse"), BOUNDS)
def test_bound(term: Term, bound: str, inverse: str) -> None:
    """Of the term, and of 1 / term."""
    assert shown(Growths(Moments()).of(term)) == bound
    assert shown(Growths(Moments()).inverse(term)) == inverse


@pytest.mark.parametrize(
    ("term", "kind"),
    [
        (x, "polynomial"),
        (exp(x), "exponential"),
        (exp(abs(x)), "exponential"),
        (exp(x * y), "quadratic"),
        (exp(-x * x), "polynomial"),
        (exp(x - x * x), "polynomial"),
        (exp(x - x * x + y), "exponential"),
        (tanh(exp(x * x)), "polynomial"),
        (mean(exp(x)), "polynomial"),
    ],
)
def test_kind(term: Term, kind: str) -> None:
    growths = Growths(Moments())
    assert growths.kind(growths.of(term)) == kind


def test_what_is_known_of_scalars_decides_the_sign_of_a_form() -> None:
    for low, high, bounded in ((-2, -1, True), (1, 2, False), (-1, 1, False)):
        growths = Growths(Moments(), lambda scalar, r=(low, high): r)
        (e,) = growths.of(exp(mean(x) * x * x)).exponents
        assert e.bounded == bounded
