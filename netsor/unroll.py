"""Unrolling: the same program without plates, one variable for each choice of members.

Indices, sums over plates and families of matrices are a short way to write this longer program, so whatever netsor
derives of a family must be true of its members here: unrolling is the oracle of derivations over plates.
"""

from __future__ import annotations

import operator
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import product
from math import sqrt
from typing import Any, TypeAlias, TypeVar

from netsor.algebra.poly import Delta
from netsor.checks import Number
from netsor.errors import IllFormed
from netsor.functions.along import of_members
from netsor.ir import Family, Index, Plate, Size, Term, lift, make
from netsor.ops import ADD, AND, MUL, NOT, OR, Along, Compare, Const, Map, Offset, Op, Param, Table
from netsor.rules.dot import Dot
from netsor.rules.input import Input, Unknown
from netsor.rules.matmul import MatMul, Record

Members: TypeAlias = tuple[int, ...]
Node: TypeAlias = tuple[Family, Members]
Step: TypeAlias = Generator[Node, Any, Term]  # a copy in the making: it yields the nodes it needs, and is sent their copies
Column: TypeAlias = dict[Members, float]
Named = TypeVar("Named", Input, Record)

RELATIONS = {"<": operator.lt, "<=": operator.le, "!=": operator.ne}
EXPLAINED = 1e-12  # a variance known up to this part of it from the vectors before is known


def unroll(variables: Mapping[str, Term]) -> dict[str, Term]:
    """The variables without letters: y[i, j] becomes y_0_0, y_0_1, ..., with a matrix and a vector of its own a member.

    Sums are written out, masks and positions become numbers, correlated initial vectors become combinations of
    independent ones. Ties are kept: one copy of a matrix is one matrix wherever it acts, in this call and the next.
    A score outside its own mask does not exist: it has no variable, and is 0 where it stands under a mask.
    Raises: NS301 when two variables get one name; NS304 for a size, a table, a covariance or a mask without a value;
    NS305 for an array that does not fit its plates.
    """
    copies = Copies()
    out: dict[str, Term] = {}
    for name, term in variables.items():
        for at in product(*(range(size(i.plate)) for i in term.free)):
            member = dict(zip(term.free, at, strict=True))
            copy = copies[term.family, tuple(member[s] if isinstance(s, Index) else s.at for s in term.slots)]
            if isinstance(term.op, Dot) and not isinstance(copy.op, Dot):
                continue
            if (key := joined(name, at)) in out:
                raise IllFormed(
                    "NS301",
                    statement=f"two variables named {key}, one of them a member of {name}",
                    hypothesis="unrolled, y[i] becomes y_0, y_1, ..., and a name stands for one variable",
                    repair="rename one of the two",
                )
            out[key] = copy
    return out


class Copies(dict[Node, Term]):
    """(family, members) -> the term without letters. Each is made once, when it is first asked for."""

    def __init__(self) -> None:
        self.roots: dict[bytes, list[Column]] = {}

    def __missing__(self, root: Node) -> Term:
        """A walk with a stack of its own: no program is too deep for it."""
        stack = [(root, self.step(*root))]
        sent: Term | None = None
        while stack:
            node, step = stack[-1]
            try:
                wanted = step.send(sent)
            except StopIteration as done:
                sent = self[node] = done.value
                stack.pop()
            else:
                sent = self.get(wanted)
                if sent is None:
                    stack.append((wanted, self.step(*wanted)))
        return self[root]

    def step(self, family: Family, at: Members) -> Step:
        op, own = family.op, tuple(at[k] for k in family.own)
        if isinstance(op, Compare | Delta | Offset | Size | Table):
            return lift(value(op, own, [family.plates[k] for k in family.own]))
        if isinstance(op, Along):
            return (yield from self.along(op, family, at))
        if isinstance(op, Input):
            return self.initial(op, family, own)
        children = range(len(family.children))
        if isinstance(op, Dot) and len(children) > 2:
            if weight((yield child(family, 2, at))) <= 0:
                return lift(0)
            children = range(2)
        args = yield from each(child(family, k, at) for k in children)
        if isinstance(op, Map) and op.fn in (AND, OR, NOT):  # of masks, which are numbers by now
            return lift(op.fn.numpy(*map(weight, args)))
        if isinstance(op, MatMul):
            op = MatMul(single(op.matrix, own))
        return written(family, op, *args)

    def along(self, op: Along, family: Family, at: Members) -> Step:
        """The members written out, those outside the mask left out."""
        adds = op.fn.name == "sum"
        weights: dict[int, Number] = {}
        for k in range(size(family.bound[0])):
            w = weight((yield child(family, 1, (*at, k)))) if len(family.children) > 1 else 1
            if w > 0 or (adds and w):
                weights[k] = w
        kept = at[family.own[0]] if op.keeps else None
        if not weights or kept not in (None, *weights):
            if family.width is None:
                return lift(0)
            return scaled(family, 0, (yield child(family, 0, (*at, 0))))  # for a constant 0 is no vector
        args = yield from each(child(family, 0, (*at, k)) for k in weights)
        if adds:
            return total(family, [scaled(family, w, x) for w, x in zip(weights.values(), args, strict=True)])
        return written(family, Map(of_members(op.fn, None if kept is None else list(weights).index(kept))), *args)

    def initial(self, op: Input, family: Family, own: Members) -> Term:
        """A vector of its own; if correlated, mean + sum_k L_ik eps_k with L L^T = cov, eps_k independent, standard."""
        if op.law is not None or not own or not isinstance(op.cov, tuple | Unknown):
            return written(family, single(op, own))
        column = {k: c[own] for k, c in enumerate(self.root(op, [family.plates[k] for k in family.own])) if c.get(own)}
        if not column:
            return written(family, single(replace(op, cov=0), own))
        standard = replace(op, cov=1, mean=0)
        mean = [make(op.mean) if isinstance(op.mean, Param) else lift(op.mean)] if op.mean else []
        noise = [scaled(family, c, written(family, single(standard, ("eps", k)))) for k, c in column.items()]
        return total(family, mean + noise)

    def root(self, op: Input, plates: Sequence[Plate]) -> list[Column]:
        if isinstance(op.cov, Unknown):
            raise unbound(f"the covariance of {op.name}", f"write vector({op.name!r}, ..., cov=...) with an array")
        if op.token not in self.roots:
            places = list(product(*(range(size(p)) for p in plates)))
            cov = {(i, k): entry(f"cov of {op.name}", op.cov, i + k, [*plates, *plates]) for i in places for k in places}
            self.roots[op.token] = cholesky(cov)
        return self.roots[op.token]


# ------------------------------------------------------------------------------------------------ pieces of a program


def child(family: Family, k: int, at: Members) -> Node:
    """A child, at members for the letters of the family and for those it binds."""
    below, wires = family.children[k]
    return below, tuple(at[w] for w in wires)


def each(nodes: Iterable[Node]) -> Generator[Node, Any, list[Term]]:
    copies = []
    for node in nodes:
        copies.append((yield node))
    return copies


def written(family: Family, op: Op, *args: Term) -> Term:
    """What stands in place of the family, or of a part of it."""
    return make(op, children=args, width=family.width, origin=family.origin)


def scaled(family: Family, factor: Number, x: Term) -> Term:
    return x if factor == 1 else written(family, Map(MUL), lift(factor), x)


def total(family: Family, terms: list[Term]) -> Term:
    """The sum, bracketed by halves so that its depth is the logarithm of its length. Of constants: a constant."""
    if all(isinstance(t.op, Const) for t in terms):
        return lift(sum(map(weight, terms)))
    while len(terms) > 1:
        pairs = [terms[k : k + 2] for k in range(0, len(terms), 2)]
        terms = [written(family, Map(ADD), *pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return terms[0]


def single(record: Named, own: tuple[object, ...]) -> Named:
    """One copy of a family as an object of its own. Its token is that of the family and the copy, so ties are kept."""
    if not own:
        return record
    token = blake2b(record.token + repr(own).encode(), digest_size=8).digest()
    return replace(record, name=joined(record.name, own), token=token)


def joined(name: str, at: tuple[object, ...]) -> str:
    return "_".join((name, *map(str, at)))


# ------------------------------------------------------------------------------------------------------------ numbers


def value(op: Op, own: Members, plates: Sequence[Plate]) -> Number:
    """The value of an operation on letters at members."""
    match op:
        case Size(plate):
            return size(plate)
        case Compare(relation):
            return int(RELATIONS[relation](*own))
        case Offset():
            return own[0] - own[1]
        case Delta():
            return int(own[0] == own[1])
        case Table(name, values) if values is not None:
            return entry(f"table {name}", values, own, plates)
        case Table(name):
            raise unbound(f"table {name}", f"bind it: P.at({name}=...)")
    raise NotImplementedError(op)


def weight(mask: Term) -> Number:
    """The value of an unrolled mask: a constant or a parameter."""
    assert isinstance(mask.op, Const | Param)
    if mask.op.value is None:
        raise unbound(f"{mask.op.name}, which stands in a mask,", f"bind it: P.at({mask.op.name}=...)")
    return mask.op.value


def size(plate: Plate) -> int:
    if plate.extent is None:
        raise unbound(f"the size of plate {plate.name}", f"bind it: P.at({plate.name}=4)")
    return plate.extent


def unbound(what: str, repair: str) -> IllFormed:
    return IllFormed(
        "NS304",
        statement=f"{what} has no value",
        hypothesis="an unrolled program has a statement for every member, with numbers for positions and covariances",
        repair=repair,
    )


def entry(what: str, values: Any, at: Members, plates: Sequence[Plate]) -> Number:
    """One entry of a nested tuple that has an axis for each plate."""
    for member, plate in zip(at, plates, strict=True):
        if len(values) != size(plate):
            raise IllFormed(
                "NS305",
                statement=f"{what} has {len(values)} entries along plate {plate.name}",
                hypothesis=f"the plate has {plate.extent} members",
                repair="give one entry for each member",
            )
        values = values[member]
    number: Number = values
    return number


def cholesky(cov: Mapping[tuple[Members, Members], Number]) -> list[Column]:
    """Columns l_0, l_1, ... with sum_k l_k l_k^T = cov, the largest pivot first; as many as the rank of cov."""
    rest = {pair: float(c) for pair, c in cov.items()}
    left = [i for i, k in cov if i == k]
    columns: list[Column] = []
    while pivots := [i for i in left if rest[i, i] > EXPLAINED * cov[i, i]]:
        p = max(pivots, key=lambda i: rest[i, i])
        root = sqrt(rest[p, p])
        column = {i: rest[i, p] / root for i in left}
        left.remove(p)
        for i, k in product(left, left):
            rest[i, k] -= column[i] * column[k]
        columns.append(column)
    return columns
