"""Exact numbers and formulas as trees of known heads. Text is never parsed, and no name leads to code."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from netsor.checks import Number, number
from netsor.data.tree import DIGITS, Node
from netsor.errors import IllFormed

NODES = 400  # of one expression
BITS = 4096  # of an exact number on its way
POWER = 4096  # the largest exponent
HEADS = (
    "Add", "Mul", "Pow", "exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh", "atanh",
    "erf", "erfc", "Abs", "sign", "Heaviside", "Max", "Min", "Piecewise",
)  # fmt: skip
RELATIONS = {
    "<": "StrictLessThan",
    "<=": "LessThan",
    ">": "StrictGreaterThan",
    ">=": "GreaterThan",
    "==": "Equality",
    "!=": "Unequality",
}
RATIO = re.compile(r"(-?\d+)/(\d+)", re.ASCII)
CONSTANTS = {"pi": "pi", "e": "Exp1"}


# ---- numbers


def number_data(value: Any) -> Any:
    """An int or a float as it is, a fraction as {"ratio": "p/q"}, another exact number as {"exact": tree}."""
    if isinstance(value, Fraction):
        return {"ratio": f"{value.numerator}/{value.denominator}"}
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        value = value.item()
    return {"exact": expression_data(value, ())} if hasattr(value, "free_symbols") else value


def number_of(node: Node) -> Number:
    """Raises: NS310 for what is no finite number."""
    value = node.value
    if isinstance(value, Mapping):
        kind, inner = node.choice()
        if kind == "ratio":
            text = inner.value if isinstance(inner.value, str) and len(inner.value) <= DIGITS else ""
            match = RATIO.fullmatch(text)
            if not match or int(match[2]) == 0:
                inner.refuse('a ratio is text such as "1/3"')
            return Fraction(int(match[1]), int(match[2]))
        if kind != "exact":
            node.refuse('a number is 3, 0.5, {"ratio": "1/3"} or {"exact": ...}')
        value = expression_of(inner, {})
    if isinstance(value, bool) or not (isinstance(value, int | float) or hasattr(value, "is_number")):
        node.refuse("a number is expected")
    try:
        checked = number(value)
    except (IllFormed, OverflowError, TypeError):
        node.refuse("a finite real number is expected")
    return checked if isinstance(node.value, int | float) else value


# ---- expressions


def expression_data(e: Any, variables: tuple[Any, ...]) -> Any:
    """A sympy expression as a tree: a number, {"x": position}, or [head, argument, ...].

    Raises: NS310 for a head that is not known.
    """
    if e in variables:
        return {"x": variables.index(e)}
    if e is True or e is False or (getattr(e, "is_Boolean", False) and not e.args and not e.free_symbols):
        return bool(e)
    if e.is_Integer:
        return int(e)
    if e.is_Rational:
        return {"ratio": f"{e.p}/{e.q}"}
    if e.is_Float:
        if e._prec != 53:
            raise not_data(f"{e}: a floating number of {e._prec} bits")
        return float(e)
    head = type(e).__name__
    for name, kind in CONSTANTS.items():
        if head == kind or (kind == "pi" and head == "Pi"):
            return {"constant": name}
    relation = next((sign for sign, kind in RELATIONS.items() if head == kind), None)
    if head == "ExprCondPair":
        return ["case", *(expression_data(a, variables) for a in e.args)]
    if head in ("And", "Or", "Not") or head in HEADS or relation:
        return [relation or head, *(expression_data(a, variables) for a in e.args)]
    raise not_data(f"{head} in {e}")


def expression_of(node: Node, variables: Mapping[int, Any]) -> Any:
    """The sympy expression of a tree.  Raises: NS310."""
    import sympy

    left = [NODES]
    return Builder(sympy, variables, left).build(node)


class Builder:
    """Builds from the leaves up, and looks at numbers before sympy does: 9**9**9**9 is refused, not computed."""

    def __init__(self, sympy: Any, variables: Mapping[int, Any], left: list[int]) -> None:
        self.sympy, self.variables, self.left = sympy, variables, left

    def build(self, node: Node) -> Any:
        self.left[0] -= 1
        if self.left[0] < 0:
            node.refuse(f"an expression has at most {NODES} parts")
        if isinstance(node.value, Mapping):
            return self.leaf(node)
        if isinstance(node.value, bool):
            return self.sympy.true if node.value else self.sympy.false
        if isinstance(node.value, int):
            if node.value.bit_length() > BITS:
                node.refuse("the number is too large")
            return self.sympy.Integer(node.value)
        if isinstance(node.value, float):
            return self.sympy.Float(node.value)
        head, *rest = node.items(NODES) or [node]
        name = head.text()
        args = [self.build(a) for a in rest]
        make = self.maker(name, head)
        if name == "Pow":
            self.check_power(node, args)
        try:
            made = make(*args)
        except Exception as error:  # whatever sympy says of arguments that do not fit
            node.refuse(f"{name} does not take these arguments: {type(error).__name__}")
        if bits(made) > BITS:
            node.refuse("the number is too large")
        return made

    def leaf(self, node: Node) -> Any:
        kind, inner = node.choice()
        if kind == "x":
            at = inner.whole(max(len(self.variables), 1))
            if at not in self.variables:
                inner.refuse("there is no such variable")
            return self.variables[at]
        if kind == "constant":
            if not isinstance(inner.value, str) or inner.value not in CONSTANTS:
                inner.refuse("the constants are " + ", ".join(CONSTANTS))
            return {"pi": self.sympy.pi, "e": self.sympy.E}[inner.value]
        if kind != "ratio":
            node.refuse("an expression is a number, a variable, a constant, or a list")
        ratio = number_of(node)
        return self.sympy.Rational(ratio.numerator, ratio.denominator) if isinstance(ratio, Fraction) else ratio

    def maker(self, name: str, node: Node) -> Callable[..., Any]:
        sp = self.sympy
        if name == "case":
            return lambda value, condition: (value, condition)
        if name in RELATIONS:
            kinds = {"<": sp.Lt, "<=": sp.Le, ">": sp.Gt, ">=": sp.Ge, "==": sp.Eq, "!=": sp.Ne}
            return kinds[name]  # type: ignore[no-any-return]
        if name in ("And", "Or", "Not", *HEADS):
            return getattr(sp, name)  # type: ignore[no-any-return]  # a name of the fixed list
        node.refuse("the functions of an expression are " + ", ".join(HEADS))

    def check_power(self, node: Node, args: list[Any]) -> None:
        if len(args) != 2:
            node.refuse("Pow takes two arguments")
        base, exponent = args
        if not getattr(exponent, "is_number", False):
            return
        if not exponent.is_Rational:
            exponent = self.sympy.Integer(POWER) if exponent.is_Integer else None
        size = 1 if exponent is None else max(abs(exponent.p), exponent.q)
        if size > POWER or (getattr(base, "is_number", False) and bits(base) * size > BITS):
            node.refuse("the power is too large")


def bits(e: Any) -> int:
    """How long the exact numbers of an expression are, together."""
    if isinstance(e, tuple):
        return sum(map(bits, e))
    if getattr(e, "is_Rational", False):
        return max(int(e.p).bit_length(), int(e.q).bit_length(), 1)
    return sum(map(bits, e.args)) if getattr(e, "args", ()) else 1


# ---- formulas of variables


def formula_data(variables: tuple[Any, ...], expression: Any) -> dict[str, Any]:
    """A sympy Lambda.  Raises: NS310 for what would not come back as it is."""
    named = []
    for v in variables:
        if type(v).__name__ != "Symbol" or not safe(v.name):
            raise not_data(f"the variable {v!r}")
        named.append({"name": v.name, "assumptions": {k: a for k, a in v.assumptions0.items() if isinstance(a, bool)}})
    data = {"variables": named, "formula": expression_data(expression, tuple(variables))}
    again = formula_of(Node(data, "formula"))
    if again != (tuple(variables), expression):
        raise not_data(f"{expression}, which sympy does not rebuild as it is")
    return data


def formula_of(node: Node) -> tuple[tuple[Any, ...], Any]:
    import sympy

    fields = node.fields("variables formula")
    symbols = []
    for v in fields["variables"].items(16):
        parts = v.fields("name assumptions")
        name = parts["name"].text()
        if not safe(name):
            parts["name"].refuse("a variable is named by a letter followed by letters and digits")
        known = sympy.Symbol("x", real=True, positive=True, integer=True).assumptions0
        if not isinstance(parts["assumptions"].value, Mapping):
            parts["assumptions"].refuse("an object is expected")
        said = {}
        for key, value in parts["assumptions"].value.items():
            if key not in known and key not in ("extended_negative", "finite", "infinite"):
                parts["assumptions"].refuse("there is no such assumption")
            said[key] = parts["assumptions"].inner(key, value).flag()
        try:
            symbols.append(sympy.Symbol(name, **said))
        except Exception:  # contradictions
            parts["assumptions"].refuse("the assumptions contradict each other")
    if len(set(symbols)) < len(symbols):
        fields["variables"].refuse("two variables are the same")
    expression = expression_of(fields["formula"], dict(enumerate(symbols)))
    if not hasattr(expression, "free_symbols") or not hasattr(expression, "as_real_imag"):
        fields["formula"].refuse("a formula has a number as its value")
    return tuple(symbols), expression


def safe(name: str) -> bool:
    return re.fullmatch(r"[A-Za-z]\w{0,63}", name, re.ASCII) is not None and not keyword.iskeyword(name)


def not_data(what: str) -> IllFormed:
    return IllFormed(
        "NS310",
        statement=what,
        hypothesis="a program as data has known functions, numbers, and formulas of " + ", ".join(HEADS),
        repair="use these, or keep the program as Python code",
    )
