"""Binding by name: plate sizes, parameters and tables."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from netsor import semantics
from netsor.checks import Number, number
from netsor.errors import IllFormed
from netsor.ir import Index, Member, Plate, Size, Slot, Term, make, postorder
from netsor.many import to_infinity
from netsor.ops import Op, Param, Table
from netsor.rules.input import Input
from netsor.rules.matmul import MatMul, distinct_letters
from netsor.rules.prior import nest, shape_of
from netsor.walks import generic, rebuild


def param(name: str, value: Any = None) -> Term:
    """A named scalar: formulas print the name, numbers use the value (or what `P.at(name=...)` binds)."""
    return make(Param(checked_name(name), None if value is None else number(value, f"parameter {name}")))


def table(name: str, *indices: Index, values: Any = None) -> Term:
    """A numeric constant array over plates: positional slopes, the inputs of a recurrence.

    Shapes: values has one axis for each index, in order. Raises: NS305 for another shape, NS306 for NaN.
    """
    letters = tuple(indices)
    distinct_letters(f"table({name!r}, ...)", letters)
    if values is not None:
        values = nest(f"table {name}", values.tolist() if hasattr(values, "tolist") else values)
        check_shape(name, values, [i.plate for i in letters])
    return make(Table(checked_name(name), values), letters)


def checked_name(name: str) -> str:
    from_param = name
    if not isinstance(name, str) or not name.isidentifier():
        raise IllFormed("NS309", statement=f"{from_param!r} as a name", repair="use letters, digits and underscores")
    return name


def check_shape(name: str, values: Any, plates: list[Plate]) -> None:
    shape = shape_of(name, values)
    wanted = [p.extent for p in plates]
    if len(shape) != len(wanted) or any(w not in (None, s) for s, w in zip(shape, wanted, strict=True)):
        raise IllFormed(
            "NS305",
            statement=f"values of {name} have shape {shape}",
            hypothesis=f"its plates have sizes {tuple(w or p.name for w, p in zip(wanted, plates, strict=True))}",
            repair="give one entry for each member",
        )


def bind(variables: Mapping[str, Term], values: Mapping[str, Any]) -> dict[str, Term]:
    """The variables with names bound; every name must be there and still unbound."""
    open_plates, open_names, bound = bindable(variables)
    sizes: dict[str, int] = {}
    numbers: dict[str, Number] = {}
    tables: dict[str, Any] = {}
    infinite: list[str] = []
    for name, value in values.items():
        if name in open_plates:
            if getattr(value, "is_infinite", False) or (isinstance(value, float) and value == math.inf):
                infinite.append(name)
                continue
            sizes[name] = Plate(name, value).extent or 0
        elif name in open_names:
            numbers[name] = number(value, f"parameter {name}")
        elif name in bound:
            raise IllFormed(
                "NS304",
                statement=f"P.at({name}={value!r})",
                hypothesis=f"{name} has a value already",
                repair="leave it out where the program is built, and bind it once",
            )
        else:
            tables[name] = value
    open_tables = {f.op.name: f for f in postorder(*variables.values()) if isinstance(f.op, Table) and f.op.values is None}
    for name, value in tables.items():
        if name not in open_tables:
            free = sorted({*open_plates, *open_names, *open_tables})
            raise IllFormed(
                "NS311",
                statement=f"P.at({name}=...)",
                hypothesis="no plate, parameter or table of the program has that name",
                repair="unbound are: " + (", ".join(free) or "none"),
            )
        tables[name] = nest(f"table {name}", value.tolist() if hasattr(value, "tolist") else value)
        check_shape(name, tables[name], [Plate(p.name, sizes.get(p.name, p.extent)) for p in open_tables[name].plates])

    def plate(p: Plate) -> Plate:
        return replace(p, extent=sizes[p.name]) if p.name in sizes else p

    def slot(s: Slot) -> Slot:
        return Member(plate(s.plate), s.at) if isinstance(s, Member) else Index(s.name, plate(s.plate))

    def change(op: Op) -> Op:
        if isinstance(op, Size):
            return Size(plate(op.plate))
        if isinstance(op, Table) and op.values is None and op.name in tables:
            return Table(op.name, tables[op.name])
        return semantics.bound(op, numbers)

    memo: dict[bytes, Term] = {}
    out = {name: rebuild(term, change, slot, memo) for name, term in variables.items()}
    check_arrays(out)
    for plate_name in infinite:
        out = to_infinity(out, plate_name)
    return out


def check_arrays(variables: Mapping[str, Term]) -> None:
    """Arrays given before the sizes must fit them."""
    for family in postorder(*variables.values()):
        plates = [s.plate for s in generic(family).own]
        if isinstance(family.op, Table) and family.op.values is not None:
            check_shape(family.op.name, family.op.values, plates)
        if isinstance(family.op, Input) and isinstance(family.op.cov, tuple):
            check_shape(family.op.name, family.op.cov, plates * 2)


def bindable(variables: Mapping[str, Term]) -> tuple[set[str], set[str], set[str]]:
    """Names of unbound plates, of unbound parameters, and of what is bound."""
    plates: set[str] = set()
    names: set[str] = set()
    bound: set[str] = set()
    for family in postorder(*variables.values()):
        op = family.op
        for p in (*family.plates, *family.bound, *([op.plate] if isinstance(op, Size) else [])):
            (plates if p.extent is None and not p.infinite else bound).add(p.name)
        inner = op.matrix.sigma if isinstance(op, MatMul) else op.mean if isinstance(op, Input) else op
        if isinstance(inner, Param):
            (names if inner.value is None else bound).add(inner.name)
        if isinstance(op, Table) and op.values is not None:
            bound.add(op.name)
    return plates, names, bound
