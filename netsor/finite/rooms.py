"""Rooms: vectors whose inner products matter to each other, and the frame in which they are represented.

Vectors of one width fall into rooms; no inner product is needed across. In a room, vectors that only linear operations
see are kept as coordinates in an orthonormal frame of R^m that is revealed as they are drawn, one slot a vector. The frame
starts with unit vectors e_1, e_2, ... where coordinates are asked for. Vectors that pass a nonlinearity are *explicit*:
they have m coordinates, and enter the frame through their Gram matrix.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import TypeAlias

from netsor import semantics
from netsor.algebra.moments import Moments, gaussian
from netsor.finite.cost import Cost
from netsor.finite.stacks import Stack, Stacked
from netsor.finite.structure import ONE, Structure, atoms, structure
from netsor.ir import Index, Plate, Slot, Term, Width
from netsor.numeric.named import count, extent
from netsor.ops import Generator, Param
from netsor.rules.input import Input
from netsor.rules.matmul import MatMul
from netsor.walks import generalise

SHARD = 2**24  # coordinates of explicit vectors in one shard: they pass by in blocks
KEPT = 2**20  # of those that are kept, with what they are made of, rather than produced again
LEAST_KEPT = 32  # runs of a shard that is small so that they can be kept
FRAMES = 2**20  # and of vectors in frames
LEAST = 256  # runs of a shard all the same: they share the work of reading the program

Node: TypeAlias = bytes
"""A source of Gaussian vectors that stay in the frame, or a family of explicit vectors."""


@dataclass(slots=True)
class Part:
    """A node of a room: its letters, and which of them are batched (the room is one frame for each of their members)."""

    slots: tuple[Slot, ...]
    width: Width
    source: bool
    batch: tuple[int, ...] = ()
    leaf: bool = False

    @property
    def letters(self) -> tuple[Index, ...]:
        return tuple(dict.fromkeys(s for s in self.slots if isinstance(s, Index)))

    @property
    def shared(self) -> tuple[Index, ...]:
        """The letters of the batch, in the order of the room's."""
        return tuple(s for k in self.batch if isinstance(s := self.slots[k], Index))

    @property
    def inner(self) -> tuple[Index, ...]:
        return tuple(i for i in self.letters if i not in self.shared)


@dataclass(slots=True)
class Room:
    """parts: the nodes; plates: of the batch; ones: does the constant vector live here; heads: how many unit vectors;
    whole: all of them, as the frame would be no smaller."""

    width: Width
    parts: dict[Node, Part] = field(default_factory=dict)
    plates: tuple[Plate, ...] = ()
    ones: bool = False
    heads: int = 0
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One vector of a pair: its node and the slots of its letters there."""

    node: Node
    slots: tuple[Slot, ...]


class Plan:
    """What is drawn for some roots at width n, and how.

    explicit  sources whose vectors have coordinates, since a nonlinearity sees all of them
    rooms     the room of every node
    headed    families of generators of which the first coordinates are asked for
    """

    def __init__(self, moments: Moments, roots: Sequence[Term], width: int, coordinates: int) -> None:
        self.moments, self.width, self.coordinates = moments, width, coordinates
        self.stacked = Stacked(roots)
        roots = [self.stacked(t) for t in roots]
        self.structure: Structure = structure(roots)
        self.pairs = [(list(atoms(x)), list(atoms(y))) for x, y in self.structure.pairs()]
        self.headed = headed(roots)
        self.explicit = self._curved()
        self.rooms = self._rooms()
        self._by_slots: dict[bytes, bool] = {}
        for room in self._distinct():
            if self.slots(room) >= room.width.at(width):
                room.heads, room.whole = room.width.at(width), True
                for p in room.parts.values():
                    p.leaf = p.source
        self._by_slots.clear()
        mixed = [
            r for r in self._distinct() if r.heads and not r.whole and (r.ones or not all(p.source for p in r.parts.values()))
        ]
        self.widths = {r.width for r in mixed}
        self.widths |= {
            w for k, t in self.structure.generators.items() if k in self.headed and self.is_explicit(t) and (w := t.width)
        }

    # ---- what is what

    def is_explicit(self, term: Term) -> bool:
        token = semantics.source(term.op)
        return token is None or token in self.explicit

    def node(self, term: Term) -> Node:
        """The node of a vector that is no linear combination of others."""
        token = semantics.source(term.op)
        return term.family.key if token is None or token in self.explicit else token

    def room(self, term: Term) -> Room:
        """The room of a vector."""
        return self.rooms[next(self.node(a) for a in atoms(term) if a != ONE)]

    def _curved(self) -> set[bytes]:
        out = {t for g in self.structure.generators.values() if not gaussian(g) and (t := semantics.source(g.op))}
        for pair in self.pairs:
            for a in (*pair[0], *pair[1]):
                if a != ONE and semantics.source(a.op) is None:
                    out |= self.moments.sources(a)
        return out

    # ---- rooms

    def _rooms(self) -> dict[Node, Room]:
        parts: dict[Node, Part] = {}
        ones: set[Node] = set()
        for t in self.structure.generators.values():
            token = semantics.source(t.op)
            if token is not None and token not in self.explicit:
                slots = self.structure.copies[token] if isinstance(t.op, MatMul) else t.own
                assert t.width is not None
                parts[token] = Part(slots, t.width, True)
                if shifted(t):
                    ones.add(token)
        seen: dict[Node, list[tuple[Slot, ...]]] = {}
        links: list[tuple[Occurrence, Occurrence]] = []
        for left, right in self.pairs:
            sides = [[self._occurrence(a) for a in side if a != ONE] for side in (left, right)]
            links += [(x, y) for x in sides[0] for y in sides[1]]
            constant = ONE in (*left, *right)
            for a, o in zip([a for a in (*left, *right) if a != ONE], [*sides[0], *sides[1]], strict=True):
                if self.is_explicit(a):
                    seen.setdefault(o.node, []).append(o.slots)
                    assert a.width is not None
                    parts.setdefault(o.node, Part((), a.width, False))
                if constant:
                    ones.add(o.node)
        for node, instances in seen.items():
            parts[node].slots = generalise(instances)
        rooms = {node: Room(p.width, {node: p}) for node, p in parts.items()}
        for left, right in self.pairs:
            nodes = [self.node(a) for a in (*left, *right) if a != ONE]
            for other in nodes[1:]:
                merge(rooms, nodes[0], other)
        for node in ones:
            rooms[node].ones = True
        heads = {self.node(t) for k, t in self.structure.generators.items() if k in self.headed and not self.is_explicit(t)}
        for node in heads:
            rooms[node].heads = min(self.coordinates, rooms[node].width.at(self.width))
        for room in distinct(rooms.values()):
            mine = [(x, y) for x, y in links if x.node in room.parts]
            self._batch(room, mine)
            self._leaves(room, mine)
        return rooms

    def _distinct(self) -> list[Room]:
        return distinct(self.rooms.values())

    def _occurrence(self, atom: Term) -> Occurrence:
        node = self.node(atom)
        return Occurrence(node, atom.slots if self.is_explicit(atom) else atom.own)

    def _batch(self, room: Room, links: Sequence[tuple[Occurrence, Occurrence]]) -> None:
        """Letters that every inner product of the room has in common, in places where copies are independent."""
        first = next(iter(room.parts))
        for start in range(len(room.parts[first].slots)):
            place = spread(first, start, links)
            if place is None or place.keys() != room.parts.keys():
                continue
            if all(self._independent(node, k, room.parts[node]) for node, k in place.items()):
                for node, k in place.items():
                    room.parts[node].batch += (k,)
                room.plates += (room.parts[first].slots[start].plate,)

    def _independent(self, node: Node, k: int, part: Part) -> bool:
        if not isinstance(part.slots[k], Index) or part.slots[k] in part.shared:
            return False
        if not part.source:
            return True
        patterns = [t for t in self.structure.generators.values() if semantics.source(t.op) == node]
        pivots = [semantics.pivot(t.op, t) for t in patterns]
        return all(p is not None and p.letters[k] is not None for p in pivots)

    def _leaves(self, room: Room, links: Sequence[tuple[Occurrence, Occurrence]]) -> None:
        """Sources without inner products among themselves or with another leaf: their length beyond the frame is not drawn."""
        beside: dict[Node, set[Node]] = {node: set() for node in room.parts}
        for x, y in links:
            beside[x.node].add(y.node)
            beside[y.node].add(x.node)
        alone = {v: p for v, p in room.parts.items() if p.source and v not in beside[v]}
        sizes = {v: count(p.inner) * (self.acts(v) if v in self.structure.copies else 1) for v, p in alone.items()}
        for node in sorted(sizes, key=lambda v: -sizes[v]):
            room.parts[node].leaf = not any(room.parts[other].leaf for other in beside[node])

    # ---- sizes

    @property
    def passes(self) -> int:
        """How often explicit vectors of one room pass by."""
        return max((sum(not p.source for p in r.parts.values()) for r in self._distinct()), default=0)

    @property
    def reducible(self) -> bool:
        """Are inner products all that matters of explicit vectors, and frames smaller than the width?"""
        return not (self.widths or any(r.whole for r in self._distinct()))

    @property
    def explicit_vectors(self) -> int:
        return sum(count(t.free) for t in self.structure.generators.values() if self.is_explicit(t))

    @property
    def explicit_numbers(self) -> int:
        """Coordinates of explicit vectors in one run."""
        explicit = [t for t in self.structure.generators.values() if self.is_explicit(t)]
        return sum(t.width.at(self.width) * count(t.free) for t in explicit if t.width is not None)

    @cached_property
    def cost(self) -> Cost:
        """The cost of one run in the collapsed engine."""
        drawn, framed, numbers, products = 0, 0, 0, 0
        for room in self._distinct():
            k, each = self.slots(room), count_of(room.plates)
            for node, p in room.parts.items():
                if p.source:
                    vectors = each * self.size(node, p)
                    drawn += vectors * (k if p.leaf else (k + room.heads + 1) // 2)
                    framed += vectors * k
                else:
                    framed += each * self.size(node, p) * k
        numbers += framed
        for t in self.structure.generators.values():
            if self.is_explicit(t) and t.width is not None:
                m, vectors = t.width.at(self.width), count(t.free)
                numbers += (2 + self.passes) * m * vectors
                if not isinstance(t.op, MatMul):
                    drawn += m * vectors
                    continue
                known, copies = self.inputs(t.op.matrix.token), self.structure.copies[t.op.matrix.token]
                first = t.family == self.structure.products(t.op.matrix.token)[0].family
                drawn += m * known * count({s for s in copies if isinstance(s, Index)}) * first
                products += m * vectors * (known + vectors)
        widest = max((t.width.at(self.width) for t in self.structure.generators.values() if t.width is not None), default=1)
        most = min(16384, max(4096, 2**22 // widest))  # narrow programs are mostly the work of reading them
        shard = min(most, max(LEAST, SHARD // max(1, self.explicit_vectors * widest)), max(1, FRAMES // max(1, framed)))
        if self.passes > 1:  # rather kept than drawn again
            shard = min(shard, max(LEAST_KEPT, KEPT // max(1, self.explicit_numbers)))
        return Cost("collapsed", drawn, numbers, products, 20 * len(self.structure.generators), shard)

    def slots(self, room: Room) -> int:
        """The length of coordinate vectors in the room: an orthonormal direction for each."""
        if room.whole:
            return room.heads
        drawn = sum(self.size(node, p) for node, p in room.parts.items() if not p.leaf)
        return room.heads + room.ones + drawn

    def size(self, node: Node, part: Part) -> int:
        """How many vectors a node has in each frame of its room."""
        return count(part.inner) * (self.inputs(node) if part.source and node in self.structure.copies else 1)

    def inputs(self, token: bytes) -> int:
        """How many columns a copy of a matrix is known by: one for each vector it acts on, or one for each slot of their
        frame, where these are fewer."""
        return self.slots(self.met(token)) if self.by_slots(token) else self.acts(token)

    def acts(self, token: bytes) -> int:
        """How many vectors each copy of a matrix acts on."""
        own = [(t, set(t.own)) for t in self.structure.products(token)]
        return sum(count(i for i in t.free if i not in mine) for t, mine in own)

    def met(self, token: bytes) -> Room:
        """The room of the vectors that a matrix acts on."""
        return self.room(self.structure.products(token)[0].args[0])

    def by_slots(self, token: bytes) -> bool:
        """Does it pay to know the matrix on the whole frame? (Never where the frame depends on the matrix.)"""
        if isinstance(self.structure.products(token)[0].args[0].op, Stack):
            return False
        if token not in self._by_slots:
            below, todo = set[bytes](), [token]
            while todo:
                found = {v for v, p in self.met(todo.pop()).parts.items() if v in self.structure.copies and p.source}
                todo += found - below
                below |= found
            self._by_slots[token] = token not in below and self.slots(self.met(token)) <= self.acts(token)
        return self._by_slots[token]


def count_of(plates: Iterable[Plate]) -> int:
    return prod(extent(p) for p in plates)


def merge(rooms: dict[Node, Room], x: Node, y: Node) -> None:
    old, new = rooms[y], rooms[x]
    if old is not new:
        new.parts |= old.parts
        new.ones |= old.ones
        for node in old.parts:
            rooms[node] = new


def distinct(rooms: Iterable[Room]) -> list[Room]:
    return list({id(r): r for r in rooms}.values())


def spread(first: Node, start: int, links: Sequence[tuple[Occurrence, Occurrence]]) -> dict[Node, int] | None:
    """The places of one common letter: one for each node that the links reach, or None where some pair has none."""
    place: dict[Node, int] = {first: start}
    todo = [first]
    while todo:
        node = todo.pop()
        for x, y in links:
            for a, b in ((x, y), (y, x)):
                if a.node != node:
                    continue
                slot = a.slots[place[node]]
                if isinstance(slot, Index) and not slot.name.startswith("@"):
                    return None  # a bound letter: the two sides run over it apart
                if b.node not in place:
                    if slot not in b.slots:
                        return None
                    place[b.node] = b.slots.index(slot)
                    todo.append(b.node)
                elif b.slots[place[b.node]] != slot:
                    return None
    return place


def headed(roots: Sequence[Term]) -> set[bytes]:
    """Generators of which a root needs coordinates: what it is a coordinatewise function of."""
    out: set[bytes] = set()
    todo, seen = [t.family for t in roots if t.width is not None], set[bytes]()
    while todo:
        family = todo.pop()
        if family.key in seen:
            continue
        seen.add(family.key)
        if isinstance(family.op, Generator):
            out.add(family.key)
        else:
            todo.extend(c for c, _ in family.children if c.width is not None)
    return out


def shifted(term: Term) -> bool:
    """Has the vector a mean along the constant vector?"""
    return isinstance(term.op, Input) and (isinstance(term.op.mean, Param) or term.op.mean != 0)
