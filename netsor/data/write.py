"""A program as JSON text: each family once, children first, with the functions, matrices and vectors in tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from netsor.data.expressions import number_data
from netsor.data.known import function_data
from netsor.errors import IllFormed
from netsor.ir import Family, Member, Plate, Size, Slot, Term, Width, postorder
from netsor.ops import Along, Average, Compare, Const, Fn, Map, Offset, Op, Param, Table
from netsor.rules.clt import Clt
from netsor.rules.dot import Dot
from netsor.rules.input import Input, Unknown
from netsor.rules.matmul import MatMul, Record
from netsor.rules.mean import Mean

SCHEMA = "netsor.program/1"
TABLES = ("plates", "widths", "functions", "matrices", "vectors", "families")


def text_of(name: str, variables: Mapping[str, Term]) -> str:
    """The program as text, one record a line.  Raises: NS310 for a function or a law that is code."""
    writer = Writer()
    listed = [writer.variable(key, term) for key, term in variables.items()]
    lines = ["{", f' "schema": {json.dumps(SCHEMA)},', f' "name": {json.dumps(name)},']
    for key, records in (*((t, writer.tables[t]) for t in TABLES), ("variables", listed)):
        rows = ",\n".join("  " + json.dumps(r, allow_nan=False) for r in records)
        lines.append(f' "{key}": [\n{rows}\n ]{"" if key == "variables" else ","}' if rows else f' "{key}": [],')
    return "\n".join([*lines, "}", ""])


class Writer:
    """The tables of one program as they fill; a record stands in its table once."""

    def __init__(self) -> None:
        self.tables: dict[str, list[Any]] = {t: [] for t in TABLES}
        self.places: dict[tuple[str, Hashable], int] = {}

    def place(self, table: str, key: Hashable, record: Callable[[], Any]) -> int:
        if (table, key) not in self.places:
            made = record()  # may fill tables itself
            self.places[table, key] = len(self.tables[table])
            self.tables[table].append(made)
        return self.places[table, key]

    def variable(self, name: str, term: Term) -> dict[str, Any]:
        for family in postorder(term):
            self.place("families", family.key, lambda family=family: self.family(family))  # type: ignore[misc]
        slots = [slot_data(s) for s in term.slots]
        return {"name": name, "family": self.places["families", term.family.key], "slots": slots}

    def family(self, f: Family) -> dict[str, Any]:
        record: dict[str, Any] = {"op": self.op(f)}
        if f.children:
            record["args"] = [[self.places["families", child.key], *wires] for child, wires in f.children]
        return record | {
            key: found
            for key, found in (
                ("own", list(f.own)),
                ("plates", [self.plate(p) for p in f.plates]),
                ("bound", [self.plate(p) for p in f.bound]),
            )
            if found
        }

    def op(self, f: Family) -> Any:
        op = f.op
        match op:
            case Const(value):
                return {"const": number_data(value)}
            case Param():
                return {"param": param_data(op)}
            case Table(name, values):
                return {"table": {"name": name, "values": nested(values)}}
            case Compare(relation):
                return {"compare": relation}
            case Size(plate):
                return {"size": self.plate(plate)}
            case Map(fn):
                return {"map": self.function(fn)}
            case Along(fn, keeps):
                return {"along": self.function(fn), "keeps": keeps}
            case Input():
                return {"vector": self.place("vectors", op.identity, lambda: self.vector(op, f))}
            case MatMul(matrix):
                return {"matmul": self.matrix(matrix)}
            case Clt(matrix):
                return {"clt": self.matrix(matrix)}
            case Offset() | Dot() | Mean() | Average():
                return type(op).__name__.lower()
        raise not_written(op)

    def plate(self, p: Plate) -> int:
        return self.place("plates", p, lambda: {"name": p.name, "size": p.extent, "symbol": p.symbol, "infinite": p.infinite})

    def width(self, w: Width) -> int:
        return self.place("widths", w, lambda: {"name": w.name, "ratio": number_data(w.ratio)})

    def function(self, fn: Fn) -> int:
        return self.place("functions", fn.identity, lambda: function_data(fn))

    def matrix(self, m: Record) -> int:
        return self.place(
            "matrices",
            (m.token, repr(m)),
            lambda: {
                "name": m.name,
                "sigma": scalar_data(m.sigma),
                "rows": self.width(m.rows),
                "columns": self.width(m.columns),
            },
        )

    def vector(self, op: Input, f: Family) -> dict[str, Any]:
        if op.law is not None:
            raise IllFormed(
                "NS310",
                statement=f"vector {op.name} with the law {op.law.name} as data",
                hypothesis="a law that is Python code cannot be written as data, nor be sent to another process",
                repair="write the vector as a function of a Gaussian one; or keep the program as Python code, "
                "and run it with workers=1",
            )
        assert f.width is not None
        cov = "unknown" if isinstance(op.cov, Unknown) else nested(op.cov)
        return {"name": op.name, "mean": scalar_data(op.mean), "cov": cov, "width": self.width(f.width)}


def slot_data(s: Slot) -> str | int:
    return s.at if isinstance(s, Member) else s.name


def param_data(op: Param) -> dict[str, Any]:
    return {"name": op.name, "value": None if op.value is None else number_data(op.value)}


def scalar_data(value: Any) -> Any:
    return {"param": param_data(value)} if isinstance(value, Param) else number_data(value)


def nested(values: Any) -> Any:
    if isinstance(values, tuple):
        return [nested(v) for v in values]
    return None if values is None else number_data(values)


def not_written(op: Op) -> IllFormed:
    return IllFormed("NS310", statement=f"{type(op).__name__} as data", hypothesis="a formula of a limit is not a program")
