"""What the collapsed engine makes of a matrix, of a mean, and of vectors that pass a nonlinearity, a block at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from netsor import semantics
from netsor.algebra import poly
from netsor.finite.arithmetic import Source
from netsor.finite.rooms import Part, Room
from netsor.finite.structure import ONE, factors, linear
from netsor.ir import Index, Member, Slot, Term, Width
from netsor.numeric.demand import instance
from netsor.numeric.initial import initial
from netsor.numeric.interpreter import Interpreter
from netsor.numeric.named import Named, combine, contract, count, extent
from netsor.ops import Generator
from netsor.rules.input import Input
from netsor.rules.matmul import MatMul, Record

if TYPE_CHECKING:
    from netsor.finite.collapsed import Collapsed, Frames


Entry: TypeAlias = tuple[Term | None, Part]
"""Explicit vectors of a room; None is the constant vector."""


Action: TypeAlias = tuple[Named, dict[Slot, Slot], str]
"""Coefficients of a product, the letters of its images in terms of its own, and whether images are scaled while they are
drawn, multiplied later, or contracted."""


class Columns:
    """A matrix, known by the images of some directions: over the letters of its copies and b.

    images: gives them, times numbers over letters of the product, one a run, if these are all that is wanted.
    """

    def __init__(self, frames: Frames, product: Term, images: Callable[[Named | None], Named]) -> None:
        self.frames, self.product, self.images = frames, product, images

    def __matmul__(self, x: Named) -> Named:
        """Sum_b C[.., b] G[.., b] for the argument with the coordinates x."""
        key, actions = self.product.family.key, self.frames.actions
        if key not in actions:
            actions[key] = self._action(self.frames.coefficients(self.product, x))
        C, to, how = actions[key]
        if how == "scale":
            return self.images(C).relabel(to)
        images = self.images(None).relabel(to)
        return combine(np.multiply, images, C) if how == "multiply" else contract(1, [C, images], self.product.free)

    def _action(self, C: Named) -> Action:
        op, plan = self.product.op, self.frames.plan
        assert isinstance(op, MatMul)
        b, copies = self.frames.direction(op.matrix.token), plan.structure.copies[op.matrix.token]
        to: dict[Slot, Slot] = {c: s for c, s in zip(copies, self.product.own, strict=True) if isinstance(c, Index)}
        if extent(b.plate) > 1:
            return C, to, "contract"
        to[b] = Member(b.plate, 0)
        if set(C.over) <= set(self.product.own) and len(plan.structure.products(op.matrix.token)) == 1:
            return C.relabel({s: c for c, s in to.items()}), to, "scale"
        return C, to, "multiply"


class Means(Interpreter):
    """The mean of a vector over its coordinates, by inner products."""

    def __init__(self, at: Collapsed) -> None:
        super().__init__()
        self.at = at

    def value(self, term: Term) -> Named:
        return self.at.value(term) if term.width is None else super().value(term)

    def _value(self, term: Term) -> Named:
        assert term.width is not None
        size = self.at.size(term.width)
        pair = factors(term)
        if pair is None and (isinstance(term.op, Generator) or not linear(term)):
            pair = ONE, term
        return super()._value(term) if pair is None else combine(lambda x: x / size, self.at.product(*pair))


class Block(Interpreter):
    """Vectors on a range of coordinates. Block 0 are those that are asked for, and there alone frame vectors have a value."""

    def __init__(self, at: Collapsed, width: Width, index: int, length: int) -> None:
        super().__init__()
        self.at, self.width, self.index, self.length = at, width, index, length
        self.streams: dict[tuple[str, str], Source] = {}
        self._drawn: dict[bytes, Named] = {}
        self._columns: dict[bytes, Named] = {}

    def value(self, term: Term) -> Named:
        return self.at.value(term) if term.width is None else super().value(term)

    def generator(self, term: Term) -> Named:
        if not self.at.plan.is_explicit(term):
            x = self.at.frames.value(term)
            return Named(x.over, x.data[..., : self.length])
        pattern = self.at.plan.structure.generators[term.family.key]
        if term.family.key not in self._drawn:
            self._drawn[term.family.key] = semantics.draw(pattern.op, pattern, self)
        return self._drawn[term.family.key].relabel(instance(pattern, term))

    # ---- what the rules ask for

    def __call__(self, term: Term) -> Named:
        """The argument of a matrix: its coordinates in its frame."""
        return self.at.frames.value(term)

    def initial(self, op: Input, term: Term) -> Named:
        source, shape = self.stream("vector", op.name), (self.at.setting.runs, self.length)
        return initial(self, self.at.moments, op, term, lambda _, n: source.standard_normal((n, *shape)))

    def matrix(self, record: Record, product: Term) -> Columns:
        return Columns(self.at.frames, product, lambda scale: self.columns(record, scale))

    def columns(self, record: Record, scale: Named | None) -> Named:
        """These coordinates of G f_b, or multiples of them."""
        if record.token not in self._columns:
            copies = tuple(dict.fromkeys(s for s in self.at.plan.structure.copies[record.token] if isinstance(s, Index)))
            over = (*copies, self.at.frames.direction(record.token))
            shape = (*(extent(i.plate) for i in over), self.at.setting.runs, self.length)
            source, out = self.stream("matrix", record.name), self.empty(record.token, shape)
            if scale is not None:
                return Named(over, self.at.setting.arithmetic.multiples(source, scale.spread(over), out))
            self._columns[record.token] = Named(over, source.standard_normal(shape, out=out))
        return self._columns[record.token]

    def empty(self, token: bytes, shape: tuple[int, ...]) -> np.ndarray:
        """Room for normals: that of the block before, which is done with, unless blocks are kept."""
        size, buffers = prod(shape), self.at.buffers
        if self.index == 0 or self.at.keep:
            return np.empty(shape)
        if token not in buffers or buffers[token].size < size:
            buffers[token] = np.empty(size)
        return buffers[token][:size].reshape(shape)

    def stream(self, kind: str, name: str) -> Source:
        """The normals of a matrix or vector: those of the blocks before are taken already."""
        key = (kind, name)
        if key not in self.streams:
            at = self.at.setting
            self.streams[key] = at.stream(kind, name, at.shard, self.width.name, min(self.index, 1))
        return self.streams[key]


def expected(at: Collapsed, limit: Interpreter, room: Room, every: Sequence[Entry]) -> np.ndarray:
    """m E[x y | scores] for the newest explicit vectors of a room and all.  Shapes: (batch, runs, new, all)."""
    (new, part), parts, runs = every[-1], [], at.setting.runs
    shape = (*map(extent, room.plates), count(part.inner), -1, runs)
    for old, other in every:
        to: dict[Slot, Slot] = {i: i.prime for i in other.inner}
        to |= dict(zip(other.shared, part.shared, strict=True))
        vectors = [at.plan.stacked.original(v) for v in (new, None if old is None else old.at(to)) if v is not None]
        over = (*part.shared, *part.inner, *(i.prime for i in other.inner))
        value = limit.poly(at.moments.expect(*vectors) if vectors else poly.ONE, over).full(over)[..., 0]
        parts.append(np.broadcast_to(value, (*value.shape[:-1], runs)).reshape(shape))
    return np.moveaxis(at.size(room.width) * np.concatenate(parts, axis=-2), -1, -3)
