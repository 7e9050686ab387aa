"""JSON text as a program: every record is checked by the rule that would have made it, and refused with its place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from netsor.binding import param, table
from netsor.checks import Number
from netsor.data.expressions import number_of
from netsor.data.known import function_of
from netsor.data.tree import Node, parsed, shown
from netsor.data.write import SCHEMA, TABLES
from netsor.errors import NetsorError
from netsor.ir import Family, Index, Member, Plate, Size, Slot, Term, Width, along, apply, compare, lift, make
from netsor.ops import Along, Average, Fn, Op, Param
from netsor.rules.clt import Clt
from netsor.rules.dot import dot
from netsor.rules.input import Input, unknown, vector
from netsor.rules.matmul import Matrix, Record, matrix
from netsor.rules.mean import mean

LARGEST = 2**31  # members of a plate, plus one


def variables_of(text: str, source: str) -> tuple[str, dict[str, Term]]:
    """Name and variables of a program.  Raises: NS310 with the place; errors of the rules pass with the place put in."""
    root = parsed(text, source)
    if not isinstance(root.value, dict) or root.value.get("schema") != SCHEMA:
        found = root.value.get("schema") if isinstance(root.value, dict) else None
        root.refuse(f"the schema is {shown(found)}, and this version of netsor reads {SCHEMA!r}")
    fields = root.fields(" ".join(["schema", "name", "variables", *TABLES]))
    reader = Reader(fields, source)
    variables: dict[str, Term] = {}
    for node in fields["variables"].items():
        parts = node.fields("name family slots")
        name = parts["name"].name("a variable")
        if name in variables:
            parts["name"].refuse(f"the variable {name} stands twice")
        variables[name] = reader.placed(parts["family"], parts["slots"])
    return fields["name"].name("a program"), variables


@dataclass
class Drawn:
    """A matrix or a vector: its operation, and the plates of its letters once a family has used it."""

    op: Any
    plates: list[Plate] | None = None


class Reader:
    """The tables of one text; families are built in order, so that children stand before their users."""

    def __init__(self, fields: dict[str, Node], source: str) -> None:
        self.source = source
        self.plates: list[Plate] = [guarded(n, self.plate) for n in fields["plates"].items()]
        self.widths: list[Width] = [guarded(n, self.width) for n in fields["widths"].items()]
        self.functions: list[Fn] = [guarded(n, function_of) for n in fields["functions"].items()]
        self.matrices: list[Drawn] = [guarded(n, self.matrix) for n in fields["matrices"].items()]
        self.vectors: list[Node] = fields["vectors"].items()
        self.inputs: dict[int, Drawn] = {}
        self.families: list[Family] = []
        for k, node in enumerate(fields["families"].items()):
            self.families.append(guarded(node, lambda n, k=k: self.family(n, k)))  # type: ignore[misc]

    # ---- the tables

    def plate(self, node: Node) -> Plate:
        f = node.fields("name size symbol infinite")
        symbol = None if f["symbol"].value is None else f["symbol"].text()
        size = None if f["size"].value is None else f["size"].whole(LARGEST)
        infinite = f["infinite"].flag()
        if infinite and size is not None:
            f["size"].refuse("an infinite plate has no size")
        return Plate(f["name"].name("a plate"), size, symbol, infinite)

    def width(self, node: Node) -> Width:
        f = node.fields("name ratio")
        ratio = number_of(f["ratio"])
        return Width(f["name"].name("a width"), ratio if isinstance(ratio, Fraction) else Fraction(f["ratio"].whole(2**31)))

    def matrix(self, node: Node) -> Drawn:
        f = node.fields("name sigma rows columns")
        shape = (pick(f["rows"], self.widths), pick(f["columns"], self.widths))
        return Drawn(matrix(f["name"].name("a matrix"), sigma=scalar(f["sigma"]), shape=shape).record)

    def vector(self, node: Node, letters: list[Index]) -> Term:
        f = node.fields("name mean cov width")
        cov = unknown if f["cov"].value == "unknown" else nested(f["cov"])
        return vector(
            f["name"].name("a vector"), *letters, mean=scalar(f["mean"]), cov=cov, width=pick(f["width"], self.widths)
        )

    # ---- families

    def family(self, node: Node, at: int) -> Family:
        f = node.fields("op", "args own plates bound")
        plates, over = ([pick(p, self.plates) for p in f[key].items()] if key in f else [] for key in ("plates", "bound"))
        slots = [Index(f"@{k}", p) for k, p in enumerate(plates)]
        bound = [Index(f"@{k + len(plates)}", p) for k, p in enumerate(over)]
        own = [pick(k, slots) for k in f["own"].items()] if "own" in f else []
        children = [self.child(n, [*slots, *bound]) for n in f["args"].items()] if "args" in f else []
        used = set(own) | {s for c in children for s in c.slots}
        if used != {*slots, *bound}:
            node.refuse("a letter of the family stands nowhere in it")
        build = Build(self, node, own, children, bound)
        made = build.term(f["op"])
        if any(p.extent is not None and not p.extent > 0 for p in plates):
            node.refuse("a plate without members")
        origin = (f"{self.source}: $.families", at)
        return make(made.op, own, children, bound, made.width, slots, origin).family

    def child(self, node: Node, letters: list[Index]) -> Term:
        family, *wires = node.items() or [node]
        child = pick(family, self.families)
        if len(wires) != len(child.plates):
            node.refuse(f"the family {family.value} has {len(child.plates)} letters, and {len(wires)} are wired")
        chosen = [pick(w, letters) for w in wires]
        for wire, letter, plate in zip(wires, chosen, child.plates, strict=True):
            if letter.plate != plate:
                wire.refuse(f"a letter over {letter.plate} stands where one over {plate} belongs")
        return Term(child, tuple(chosen))

    def placed(self, family: Node, slots: Node) -> Term:
        found = pick(family, self.families)
        nodes = slots.items()
        if len(nodes) != len(found.plates):
            slots.refuse(f"the family has {len(found.plates)} letters, and {len(nodes)} are given")
        return Term(found, tuple(guarded(n, lambda n, p=p: slot(n, p)) for n, p in zip(nodes, found.plates, strict=True)))  # type: ignore[misc]

    def same_plates(self, node: Node, drawn: Drawn, own: list[Index]) -> None:
        """Copies of one matrix are told apart by letters over the same plates everywhere."""
        plates = [s.plate for s in own]
        if drawn.plates not in (None, plates):
            node.refuse("another family uses it with other plates")
        drawn.plates = plates


class Build:
    """One operation, made by the function that users call, so that it is refused where theirs would be."""

    def __init__(self, reader: Reader, node: Node, own: list[Index], children: list[Term], bound: list[Index]) -> None:
        self.reader, self.node, self.own, self.children, self.bound = reader, node, own, children, bound

    def term(self, op: Node) -> Term:
        if isinstance(op.value, str):
            makers: dict[str, Callable[[], Term]] = {
                "offset": self.offset, "dot": self.dot, "mean": lambda: mean(self.one()), "average": self.average,
            }  # fmt: skip
            if op.value not in makers:
                op.refuse("the operations without numbers are " + ", ".join(makers))
            return makers[op.value]()
        if isinstance(op.value, dict) and "along" in op.value:
            f = op.fields("along keeps")
            return self.along(pick(f["along"], self.reader.functions), f["keeps"].flag(), f["along"])
        kind, inner = op.choice()
        makes: dict[str, Callable[[Node], Term]] = {
            "const": lambda n: self.nothing(lift(number_of(n))),
            "param": lambda n: self.nothing(make(param_of(n))),
            "table": self.table,
            "compare": self.compare,
            "size": self.size,
            "map": self.map,
            "vector": self.vector,
            "matmul": self.matmul,
            "clt": self.clt,
        }
        if kind not in makes:
            op.refuse("the operations are " + ", ".join((*makes, "along")))
        return makes[kind](inner)

    # ---- how many letters and arguments

    def counted(self, own: int | None, args: int | None, bound: int = 0) -> None:
        for what, wanted, found in (
            ("own letters", own, self.own),
            ("arguments", args, self.children),
            ("bound letters", bound, self.bound),
        ):
            if wanted is not None and len(found) != wanted:
                self.node.refuse(f"this operation has {wanted} {what}, and {len(found)} are given")

    def nothing(self, term: Term) -> Term:
        self.counted(0, 0)
        return term

    def one(self, bound: int = 0) -> Term:
        self.counted(0, 1, bound)
        return self.children[0]

    # ---- the operations

    def offset(self) -> Term:
        self.counted(2, 0)
        return self.own[0] - self.own[1] if self.own[0].plate == self.own[1].plate else self.node.refuse("two plates")

    def compare(self, node: Node) -> Term:
        self.counted(2, 0)
        if node.value not in ("<", "<=", "!="):
            node.refuse("the relations are <, <=, !=")
        return compare(node.value, *self.own)

    def size(self, node: Node) -> Term:
        return self.nothing(make(Size(pick(node, self.reader.plates))))

    def map(self, node: Node) -> Term:
        self.counted(0, None)
        fn = pick(node, self.reader.functions)
        if not self.children:
            self.node.refuse("a function without arguments")
        return apply(fn, *self.children)

    def along(self, fn: Fn, keeps: bool, node: Node) -> Term:
        self.counted(1 if keeps else 0, None, 1)
        if fn.name not in ("sum", "max", "softmax", "top_k") or fn.token or keeps != (fn.name in ("softmax", "top_k")):
            node.refuse("this is not a function along a plate, or not one that keeps a member in this way")
        if len(self.children) not in (1, 2):
            self.node.refuse("an operation along a plate has an argument, and perhaps a mask")
        if keeps and self.own[0].plate != self.bound[0].plate:
            self.node.refuse("the letter that is kept is over another plate")
        body, *masks = self.children
        made = along(fn, body, self.bound[0], keeps, *masks)
        return make(Along(fn, keeps), width=made.width)

    def dot(self) -> Term:
        if len(self.children) not in (2, 3):
            self.node.refuse("a score has two arguments, and perhaps a mask")
        self.counted(0, None)
        return dot(*self.children)

    def average(self) -> Term:
        self.infinite()
        if self.one(1).width is not None:
            self.node.refuse("an average of a vector over infinitely many members")
        return make(Average())

    def infinite(self) -> None:
        if not all(b.plate.infinite for b in self.bound):
            self.node.refuse("this operation is over an infinite plate")

    def clt(self, node: Node) -> Term:
        self.infinite()
        record: Record = pick(node, self.reader.matrices).op
        if self.one(1).width != record.rows:
            self.node.refuse("the summands have another width than the matrix has rows")
        return make(Clt(record), width=record.rows)

    def matmul(self, node: Node) -> Term:
        drawn = pick(node, self.reader.matrices)
        self.counted(None, 1)
        self.reader.same_plates(node, drawn, self.own)
        return Matrix(drawn.op, tuple(self.own)) @ self.children[0]

    def vector(self, node: Node) -> Term:
        self.counted(None, 0)
        record = pick(node, self.reader.vectors)
        letters = [Index(f"@{k}", s.plate) for k, s in enumerate(self.own)]
        made = guarded(record, lambda n: self.reader.vector(n, letters))
        assert isinstance(made.op, Input)
        drawn = self.reader.inputs.setdefault(node.value, Drawn(made.op))
        self.reader.same_plates(node, drawn, self.own)
        return make(drawn.op, width=made.width)

    def table(self, node: Node) -> Term:
        self.counted(None, 0)
        f = node.fields("name values")
        letters = [Index(f"@{k}", s.plate) for k, s in enumerate(self.own)]
        values = None if f["values"].value is None else nested(f["values"])
        return table(f["name"].name("a table"), *letters, values=values)


# ---- parts


def pick(node: Node, among: list[Any]) -> Any:
    """The entry of a table by its number."""
    if not among:
        node.refuse("the table that this number points to is empty, or its entry comes later")
    return among[node.whole(len(among))]


def slot(node: Node, plate: Plate) -> Slot:
    return Index(node.text(), plate) if isinstance(node.value, str) else Member(plate, node.whole(LARGEST))


def param_of(node: Node) -> Param:
    f = node.fields("name value")
    op: Op = param(f["name"].name("a parameter"), None if f["value"].value is None else number_of(f["value"])).op
    assert isinstance(op, Param)
    return op


def scalar(node: Node) -> Number | Term:
    if isinstance(node.value, dict) and "param" in node.value:
        return make(param_of(node.fields("param")["param"]))
    return number_of(node)


def nested(node: Node) -> Any:
    if isinstance(node.value, list):
        return tuple(nested(n) for n in node.items())
    return number_of(node)


def guarded(node: Node, read: Callable[[Node], Any]) -> Any:
    """What `read` makes of a record; errors of the rules get the place of the record."""
    try:
        return read(node)
    except NetsorError as error:
        if not error.place.startswith(f"{node.source}: "):
            error.place = f"{node.source}: {node.path}"
        raise
