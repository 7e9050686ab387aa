"""A program as text, one statement a line: `p[a,i,j] = dot(q[a,i], k[a,j])`.

What the user named stands by its name, with whatever letters or members its slots have. What has no name is written
out, but a piece that would be written more than once gets a name t1, t2, ... and a line of its own before its first
use: the graph has few pieces and many paths, and a listing is as long as the graph.
"""

from __future__ import annotations

import html as markup
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import singledispatch
from typing import NamedTuple

from netsor.checks import text_of
from netsor.ir import Index, Plate, Size, Slot, Term, postorder
from netsor.names import Named, Names
from netsor.ops import ADD, AND, DIV, MUL, NOT, OR, POW, SUB, Along, Average, Compare, Const, Fn, Map, Offset, Op, Param, Table
from netsor.rules.clt import Clt
from netsor.rules.dot import Dot
from netsor.rules.input import Input
from netsor.rules.matmul import MatMul

ROOM = 100  # operations in a statement that stands alone, as in an error message

# ------------------------------------------------------------------------------------------------------ operations

# How strongly an operator binds, as in Python.
LOOSE, EITHER, BOTH, SUM, PRODUCT, UNARY, POWER, ATOM = range(8)

OPERATORS: dict[Fn, tuple[str, int, tuple[int, ...]]] = {  # text, its strength, the least strength of its arguments
    ADD: ("{} + {}", SUM, (SUM, PRODUCT)),
    SUB: ("{} - {}", SUM, (SUM, PRODUCT)),
    MUL: ("{} * {}", PRODUCT, (PRODUCT, UNARY)),
    DIV: ("{} / {}", PRODUCT, (PRODUCT, UNARY)),
    POW: ("{}**{}", POWER, (ATOM, UNARY)),
    AND: ("{} & {}", BOTH, (BOTH, SUM)),
    OR: ("{} | {}", EITHER, (EITHER, BOTH)),
    NOT: ("~{}", UNARY, (UNARY,)),
}


class Part(NamedTuple):
    """A piece of text and how strongly it holds together."""

    text: str
    strength: int = ATOM

    def at(self, strength: int) -> str:
        """The text, in parentheses where it would come apart."""
        return self.text if self.strength >= strength else f"({self.text})"


@dataclass(frozen=True, slots=True)
class Site:
    """A term about to be written: its arguments as text, the letters bound at its root, the names that are taken."""

    term: Term
    args: Sequence[Part]
    bound: Sequence[Index]
    taken: Collection[str]

    @property
    def texts(self) -> list[str]:
        return [part.text for part in self.args]

    def object(self, kind: str, name: str) -> str:
        """`x[i]`, or `vector("x", i)` where x is the name of a variable."""
        own = self.term.own
        return call(kind, f'"{name}"', *map(str, own)) if name in self.taken else indexed(name, own)


def indexed(name: str, slots: Sequence[Slot]) -> str:
    return f"{name}[{','.join(map(str, slots))}]" if slots else name


def call(name: str, *args: str) -> str:
    return f"{name}({', '.join(args)})"


def where(mask: Sequence[str]) -> list[str]:
    return [f"where={m}" for m in mask]


@singledispatch
def spell(op: Op, site: Site) -> Part:
    """The operation with its arguments in place; one that says nothing else is written as a call."""
    return Part(call(type(op).__name__.lower(), *site.texts))


@spell.register
def _(op: Const, site: Site) -> Part:
    text = text_of(op.value)
    if isinstance(op.value, int | float):
        return Part(text, UNARY if text.startswith("-") else ATOM)
    return Part(text, PRODUCT if isinstance(op.value, Fraction) else LOOSE)  # LOOSE: an exact number of sympy


@spell.register
def _(op: Param, site: Site) -> Part:
    return Part(site.object("param", op.name))


@spell.register
def _(op: Table, site: Site) -> Part:
    return Part(site.object("table", op.name))


@spell.register
def _(op: Size, site: Site) -> Part:
    return Part(f"{op.plate}.size")


@spell.register
def _(op: Compare, site: Site) -> Part:
    left, right = map(str, site.term.own)
    if op.relation == "!=":
        return Part(call("distinct", left, right))
    return Part(f"{left} {op.relation} {right}", LOOSE)


@spell.register
def _(op: Offset, site: Site) -> Part:
    left, right = map(str, site.term.own)
    return Part(f"{left} - {right}", SUM)


@spell.register
def _(op: Map, site: Site) -> Part:
    if op.fn == MUL and site.term.family.children[0][0].op == Const(-1):
        return Part(f"-{site.args[1].at(POWER)}", UNARY)
    if op.fn not in OPERATORS:
        return Part(call(str(op.fn), *site.texts))
    text, strength, least = OPERATORS[op.fn]
    return Part(text.format(*(part.at(s) for part, s in zip(site.args, least, strict=True))), strength)


@spell.register
def _(op: Along, site: Site) -> Part:
    arg, *mask = site.texts
    [letter] = site.bound
    if not op.keeps:
        return Part(call(f"{op.fn}_over", arg, str(letter), *where(mask)))
    [entry] = site.term.own
    picked = "" if str(entry) == str(letter) else f"[{letter}={entry}]"
    return Part(call(str(op.fn), arg, f"over={letter}", *where(mask)) + picked)


@spell.register
def _(op: Average, site: Site) -> Part:
    return Part(call("mean_over", *site.texts, str(site.bound[0])))


@spell.register
def _(op: Clt, site: Site) -> Part:
    [letter] = site.bound
    total = call("sum_over", *site.texts, str(letter))
    return Part(f"{total} / sqrt({letter.plate}.size)", PRODUCT)


@spell.register
def _(op: Input, site: Site) -> Part:
    return Part(site.object("vector", op.name))


@spell.register
def _(op: MatMul, site: Site) -> Part:
    return Part(f"{site.object('matrix', op.matrix.name)} @ {site.args[0].at(UNARY)}", PRODUCT)


@spell.register
def _(op: Dot, site: Site) -> Part:
    left, right, *mask = site.texts
    return Part(call("dot", left, right, *where(mask)))


# ------------------------------------------------------------------------------------------------------ statements


@dataclass
class Writer:
    """Writes one statement. `families` are those written out so far; beyond `room` of them it writes dots."""

    names: Names
    room: float = math.inf
    families: set[bytes] = field(default_factory=set)

    def write(self, term: Term, scope: Collection[str], defining: str = "") -> Part:
        """The term by name, else written out with bound letters apart from those in `scope`."""
        if known := self.names.shown(term, defining):
            return Part(indexed(*known))
        if self.room <= 0:
            return Part("...")
        self.room -= 1
        self.families.add(term.family.key)
        bound, args = self.names.open(term, scope)
        inner = {*scope, *map(str, bound)}
        return spell(term.op, Site(term, [self.write(a, inner) for a in args], bound, self.names.variables))

    def statement(self, term: Term, left: Named) -> str:
        return f"{indexed(*left)} = {self.write(term, set(map(str, term.free)), left[0]).text}"


class Line(NamedTuple):
    text: str
    families: Collection[bytes]


def lines(variables: Mapping[str, Term]) -> Iterator[Line]:
    """The statements in the order given, each after the automatic names below it."""
    names = Names(variables)
    families = iter(postorder(*variables.values()))
    seen: set[bytes] = set()
    for name, term in variables.items():
        while term.family.key not in seen:  # the postorder of all, up to this variable
            family = next(families)
            seen.add(family.key)
            if family.key in names.shared:
                automatic, slots = names.shared[family.key]
                yield line(names, Term(family, slots), automatic)
        yield line(names, term, name)


def line(names: Names, term: Term, name: str) -> Line:
    writer = Writer(names)
    return Line(writer.statement(term, (name, term.free)), writer.families)


def listing(name: str, variables: Mapping[str, Term]) -> str:
    """The program as text: its name and the sizes of its plates, then one statement a line."""
    plates: dict[Plate, None] = {}
    for family in postorder(*variables.values()):
        counted = [family.op.plate] if isinstance(family.op, Size) else []
        plates |= dict.fromkeys((*family.plates, *family.bound, *counted))
    sizes = ", ".join(f"{plate}: {'oo' if plate.infinite else plate.extent or '?'}" for plate in plates)
    head = f"{name}  ({sizes})" if sizes else name
    return "\n".join([head, *(f"  {text}" for text, _ in lines(variables))])


def statement(term: Term, names: Names, name: str | None = None) -> str:
    """One statement in the names of a program, `p[i,j] = dot(W @ x[i], W @ x[j])`; the right side alone without a name.

    name: the variable that it defines, where the term has several names.
    """
    term = names.readable(term)
    left = (name, term.free) if name else names.shown(term)
    writer = Writer(names, ROOM)
    return writer.statement(term, left) if left else writer.write(term, set(map(str, term.free))).text


def window(variables: Mapping[str, Term], term: Term, around: int = 2) -> str:
    """The lines of the listing around the first that writes out the family of the term, with a mark on it.

    Empty if the family is not in the program.
    """
    listed = list(lines(variables))
    at = next((k for k, found in enumerate(listed) if term.family.key in found.families), None)
    if at is None:
        return ""
    first = max(at - around, 0)
    return "\n".join(("> " if k == at else "  ") + found.text for k, found in enumerate(listed[first : at + around + 1], first))


def html(name: str, variables: Mapping[str, Term]) -> str:
    """The listing for a notebook."""
    return f"<pre>{markup.escape(listing(name, variables))}</pre>"
