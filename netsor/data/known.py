"""The functions that data may name: a fixed table of those of netsor, with the numbers that make them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from netsor import functions
from netsor.checks import Number
from netsor.data.expressions import formula_data, formula_of, number_data, number_of
from netsor.data.tree import Node
from netsor.errors import IllFormed, NetsorError
from netsor.functions.along import MAX, SOFTMAX, SUM, of_members, top
from netsor.functions.elementwise import Formula, elementwise
from netsor.ir import Function
from netsor.ops import ABS, ADD, AND, DIV, MUL, NOT, OR, POW, SUB, Fn, Growth

ALONG = (SUM, MAX, SOFTMAX)
PLAIN = {
    fn.name: fn
    for fn in (
        *(ADD, SUB, MUL, DIV, POW, AND, OR, NOT, ABS, *ALONG),
        *(functions.cos, functions.erf, functions.exp, functions.gelu, functions.hard_sigmoid, functions.log),
        *(functions.probit, functions.relu, functions.sigmoid, functions.sign, functions.silu, functions.sin),
        *(functions.softplus, functions.sqrt, functions.step, functions.tanh),
    )
}
MADE: dict[str, Callable[..., Fn]] = {
    "clip": functions.clip,
    "elu": functions.elu,
    "hermite": functions.hermite,
    "leaky_relu": functions.leaky_relu,
    "rbf": functions.rbf,
    "relu_power": functions.relu_power,
    "top_k": top,
}
GROWTHS = ("degree", "rate", "low", "high", "tame", "trusted")


def function_data(fn: Fn) -> dict[str, Any]:
    """A record that names the function.  Raises: NS310 for one that is code: a user's own, unless it is a sympy Lambda."""
    if isinstance(fn.sympy, Formula) and fn.token:
        symbolic = fn.sympy.function
        record = {
            **formula_data(tuple(symbolic.variables), symbolic.expr),
            "name": fn.name,
            "kinks": [place for place, _ in fn.features],
            "jumps": list(fn.jumps),
        }
        if isinstance(fn.growth, Growth) and not fn.growth.trusted:
            record["growth"] = {key: finite(getattr(fn.growth, key)) for key in GROWTHS}
        return {"formula": record}
    if PLAIN.get(fn.name) == fn:
        return {"name": fn.name}
    if fn.name in MADE and not fn.token and MADE[fn.name](*fn.params) == fn:
        return {"name": fn.name, "params": [number_data(p) for p in fn.params]}
    if not fn.token and fn.arity is None:  # a function along a plate, written out for its members
        for base in (*ALONG, *([top(int(fn.params[0]))] if fn.params else [])):
            kept = fn.name.removeprefix(base.name)
            if fn.name.startswith(base.name) and fn == of_members(base, int(kept) if kept else None):
                return {"members": function_data(base), "kept": int(kept) if kept else None}
    raise IllFormed(
        "NS310",
        statement=f"the function {fn} as data",
        hypothesis="a function that is Python code cannot be written as data, nor be sent to another process",
        repair="use a function of netsor or elementwise(sympy.Lambda(...)); or keep the program as Python code, "
        "and run it with workers=1",
    )


def finite(value: Any) -> Any:
    return value if isinstance(value, bool) or abs(value) < float("inf") else None


def function_of(node: Node) -> Fn:
    """The function that a record names; a formula becomes a new one each time."""
    if isinstance(node.value, dict) and "formula" in node.value:
        return formula(node.fields("formula")["formula"])
    if isinstance(node.value, dict) and "members" in node.value:
        fields = node.fields("members kept")
        base = function_of(fields["members"])
        if base not in ALONG and base.name != "top_k":
            fields["members"].refuse("this is not a function along a plate")
        return of_members(base, None if fields["kept"].value is None else fields["kept"].whole(2**31))
    fields = node.fields("name", "params")
    name = fields["name"].text()
    params: list[Number] = [number_of(p) for p in fields["params"].items(8)] if "params" in fields else []
    if name in PLAIN and not params:
        return PLAIN[name]
    if name in MADE and "params" in fields:
        try:
            return MADE[name](*params)
        except NetsorError as error:
            node.refuse(f"{error.statement or name}: {error.hypothesis or error.title}", error.repair)
        except (TypeError, OverflowError):
            node.refuse(f"{name} does not take these numbers")
    fields["name"].refuse("no function of netsor has this name with these numbers; known are " + ", ".join((*PLAIN, *MADE)))


def formula(node: Node) -> Function:
    import sympy

    fields = node.fields("variables formula name kinks jumps", "growth")
    inner = {key: node.value[key] for key in ("variables", "formula")}
    variables, expression = formula_of(Node(inner, node.source, node.path))
    kinks, jumps = ([float(number_of(p)) for p in fields[key].items(1000)] for key in ("kinks", "jumps"))
    name = fields["name"].name("a function")
    growth = growth_of(fields["growth"]) if "growth" in fields else None
    try:
        return elementwise(sympy.Lambda(variables, expression), name=name, kinks=kinks, jumps=jumps, growth=growth)
    except NetsorError:
        raise
    except Exception as error:  # whatever sympy says of a formula that is none
        node.refuse(f"this is not a function: {type(error).__name__}")


def growth_of(node: Node) -> Growth:
    fields = node.fields(" ".join(GROWTHS))
    infinite = {"degree": float("inf"), "rate": float("inf"), "low": float("-inf"), "high": float("inf")}
    values = {key: at if fields[key].value is None else float(number_of(fields[key])) for key, at in infinite.items()}
    return Growth(**values, tame=fields["tame"].flag(), trusted=fields["trusted"].flag())
