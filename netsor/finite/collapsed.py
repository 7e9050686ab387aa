"""The collapsed engine: vectors that are used only linearly are coordinates in a frame, the others pass by in blocks."""

from __future__ import annotations

from collections.abc import Iterator
from weakref import proxy

import numpy as np

from netsor import semantics
from netsor.algebra.poly import delta
from netsor.finite.arithmetic import Source
from netsor.finite.basis import extended
from netsor.finite.blocks import Action, Block, Columns, Entry, Means, expected
from netsor.finite.frames import Frame
from netsor.finite.rooms import KEPT, Part, Plan, Room
from netsor.finite.roots import NOTHING, Root, forward
from netsor.finite.shards import Setting
from netsor.finite.stacks import Stack
from netsor.finite.structure import adds, atoms, linear
from netsor.ir import Index, Member, Plate, Slot, Term, Width
from netsor.numeric.demand import instance
from netsor.numeric.initial import centred_initial
from netsor.numeric.interpreter import Interpreter, sigma_of
from netsor.numeric.named import Named, combine, count, extent, union
from netsor.ops import Generator
from netsor.rules.input import Input
from netsor.rules.matmul import MatMul, Record

BLOCK = 2**18  # numbers of one block of coordinates, over all its vectors and runs


class Collapsed(Interpreter):
    """Scalars by inner products in the frames of rooms; vectors as their first coordinates.

    limit: where it is set, explicit vectors of length m have the inner products m E[x y | scores] that it gives.
    Random: a frame vector of matrix W from stream ("matrix", W, shard), first coordinates of an explicit one from
    ("matrix", W, shard, width, 0), the others block by block from ("matrix", W, shard, width, 1); the same for initial
    vectors under "vector".
    """

    def __init__(self, plan: Plan, setting: Setting, shard: int) -> None:
        super().__init__()
        self.plan, self.moments, self.setting = plan, plan.moments, setting
        self.block = max(32, BLOCK // (max(1, plan.explicit_vectors) * shard))
        self.own: Collapsed = proxy(self)  # what belongs to a shard does not keep it: its arrays go when it goes
        self.frames, self.means = Frames(self.own), Means(self.own)
        self.limit: Interpreter | None = None
        self.buffers: dict[bytes, np.ndarray] = {}
        self._heads: dict[Width, Block] = {}
        self._blocks: dict[tuple[Width, int], Block] = {}
        self.keep = plan.passes > 1 and plan.explicit_numbers * setting.runs <= KEPT

    def value(self, term: Term) -> Named:
        term = self.plan.stacked(term)
        return super().value(term) if term.width is None else self.head(term.width).value(term)

    def generator(self, term: Term) -> Named:
        drawn: Named = semantics.draw(term.op, term, self)
        return drawn

    # ---- what the rules ask for

    def inner(self, left: Term, right: Term, mask: Term | None = None) -> Named:
        """m^{-1/2} <left, right>, zero outside the mask."""
        width = left.width or right.width
        assert width is not None
        root = np.sqrt(self.size(width))
        p = combine(lambda x: x / root, self.product(left, right))
        return p if mask is None else combine(lambda v, m: np.where(m > 0, v, 0.0), p, self.value(mask))

    def average(self, vector: Term) -> Named:
        return self.means.value(vector)

    def product(self, left: Term, right: Term) -> Named:
        """<left, right>; a scalar stands for a multiple of the constant vector."""
        room = self.plan.room(left if left.width is not None else right)
        x, y = (self.frames.vector(t, room) for t in (left, right))
        over = union(x.over, y.over)
        return Named(over, np.einsum("...s,...s->...", x.spread(over), y.spread(over))[..., None])

    # ---- coordinates

    def size(self, width: Width) -> int:
        return width.at(self.setting.width)

    def headed(self, width: Width) -> int:
        """How many first coordinates are a block of their own."""
        return min(self.plan.coordinates, self.size(width)) if width in self.plan.widths else 0

    def head(self, width: Width) -> Block:
        """The first coordinates."""
        if width not in self._heads:
            self._heads[width] = Block(self.own, width, 0, min(self.plan.coordinates, self.size(width)))
        return self._heads[width]

    def blocks(self, width: Width, heads: int) -> Iterator[Block]:
        """All coordinates after the first `heads`, a block at a time, from streams that start again."""
        first, size, streams = self.headed(width), self.size(width), dict[tuple[str, str], Source]()
        if first and not heads:
            yield self.head(width)
        for k, start in enumerate(range(first, size, self.block), start=1):
            block = self._blocks.get((width, k)) or Block(self.own, width, k, min(self.block, size - start))
            block.streams = streams
            if self.keep:
                self._blocks[width, k] = block
            yield block


class Frames(Interpreter):
    """Vectors as coordinates in the frame of their room: a linear map acts on coordinates as on vectors."""

    def __init__(self, at: Collapsed) -> None:
        super().__init__()
        self.at, self.plan = at, at.plan
        self._frames: dict[int, Frame] = {}
        self._ones: dict[int, Named] = {}
        self._explicit: dict[int, list[Entry]] = {}
        self._drawn: dict[bytes, Named] = {}
        self._coefficients: dict[bytes, Named] = {}
        self._bases: dict[bytes, np.ndarray] = {}
        self._columns: dict[bytes, Named] = {}
        self._directions: dict[bytes, Index] = {}
        self.actions: dict[bytes, Action] = {}

    def value(self, term: Term) -> Named:
        return self.at.value(term) if term.width is None else super().value(term)

    def vector(self, term: Term, room: Room) -> Named:
        """The coordinates of a vector, or of a multiple of the constant vector."""
        return self.value(term) if term.width is not None else combine(np.multiply, self.value(term), self.ones(room))

    def argument(self, parent: Term, child: Term) -> Named:
        return self.vector(child, self.plan.room(parent)) if adds(parent) else self.value(child)

    def _value(self, term: Term) -> Named:
        if isinstance(term.op, Stack):
            return self._stack(term)
        if not isinstance(term.op, Generator) and linear(term):
            return super()._value(term)
        node = self.plan.node(term)
        if self.plan.is_explicit(term):
            part = self.plan.rooms[node].parts[node]
            pattern = Term(term.family, part.slots)
            if node not in self._drawn:
                self._drawn[node] = self._absorbed(pattern, part)
        else:
            pattern = self.plan.structure.generators[term.family.key]
            if term.family.key not in self._drawn:
                self._drawn[term.family.key] = semantics.draw(pattern.op, pattern, self)
            node = term.family.key
        return self._drawn[node].relabel(instance(pattern, term))

    def _stack(self, term: Term) -> Named:
        """Vectors one below the other: so are their coordinates."""
        (bound,), (arg,) = term.open()
        rest = tuple(i for i in arg.free if i != bound)
        x = self.value(arg).full((*rest, bound))
        return Named(rest, np.moveaxis(x, -3, -2).reshape(*x.shape[:-3], x.shape[-2], -1))

    # ---- frames

    def frame(self, room: Room) -> Frame:
        if id(room) not in self._frames:
            batch = tuple(map(extent, room.plates))
            runs, slots = self.at.setting.runs, self.plan.slots(room)
            self._frames[id(room)] = Frame(batch, runs, slots, room.heads, self.at.size(room.width))
            self._explicit[id(room)] = []
            if room.ones:
                self._ones[id(room)] = self._absorbed(None, Part((), room.width, False), room)
        return self._frames[id(room)]

    def ones(self, room: Room) -> Named:
        self.frame(room)
        return self._ones[id(room)]

    def _absorbed(self, pattern: Term | None, part: Part, room: Room | None = None) -> Named:
        """Coordinates of explicit vectors over their letters (of the constant vector: over the letters of the batch)."""
        if pattern is not None:
            self._settle(pattern)
            room = self.plan.room(pattern)
        assert room is not None
        frame = self.frame(room)
        old = self._explicit[id(room)]
        every, k = [*old, (pattern, part)], frame.root.R.shape[-1]
        if room.whole:
            parts = [self._stacked(block, room, every[-1:]).copy() for block in self.at.blocks(room.width, 0)]
            head, rows = np.concatenate(parts, axis=-1), np.zeros((count(part.inner), 0))
        else:
            rows = self.at.setting.arithmetic.rows(frame.root.R, self._gram(room, every))
            root = frame.root.extended(rows)
            if root.doubtful and self.at.limit is None:
                rows = self._refined(room, every, root.guarded, k)
                root = frame.root.extended(rows)
            frame.root = root
            head = self._stacked(self.at.head(room.width), room, every[-1:]) if room.heads else np.zeros(0)
        old.append((pattern, part))
        label = pattern.family.order if pattern is not None else "1"
        data = frame.explicit(head, rows, self.stream("explicit", (label, room.width.name)))
        if pattern is None:  # absorbed first: the same in every frame
            return Named((), data.reshape(-1, *data.shape[-2:])[0, :1])
        data = data.reshape(*frame.batch, *(extent(i.plate) for i in part.inner), *data.shape[-2:])
        return Named((*part.shared, *part.inner), data)

    def _settle(self, term: Term) -> None:
        """Everything that blocks of the vector need: scalars, and the arguments of its matrices in their frames."""
        if term.width is None:
            self.at.value(term)
        elif isinstance(term.op, Generator):
            pattern = self.plan.structure.generators[term.family.key]
            for arg in pattern.args:
                self.value(arg)
        else:
            for arg in term.args:
                self._settle(arg)

    def _refined(self, room: Room, every: list[Entry], R: np.ndarray, old: int) -> np.ndarray:
        """The new rows of the root, from the Gram matrix of vectors that the first root has made nearly orthonormal.

        Source: Yamamoto, Nakatsukasa, Yanagisawa, Fukaya 2015 (Cholesky QR twice).
        """
        again = Root(np.broadcast_to(np.eye(old), (*R.shape[:-2], old, old)))
        second = again.extended(self.at.setting.arithmetic.rows(again.R, self._gram(room, every, R), NOTHING))
        return np.asarray((R @ second.R)[..., old:, :])

    def _gram(self, room: Room, every: list[Entry], R: np.ndarray | None = None) -> np.ndarray:
        """Inner products, beyond the heads, of the newest explicit vectors of a room with all of them (or of these
        orthonormalised by R)."""
        if self.at.limit is not None:
            return expected(self.at, self.at.limit, room, every)
        size, new = (sum(count(p.inner) for _, p in some) for some in (every, every[-1:]))
        total = np.zeros((*map(extent, room.plates), self.at.setting.runs, new, size))
        for block in self.at.blocks(room.width, room.heads):
            x = np.swapaxes(self._stacked(block, room, every), -3, -2)
            total += self.at.setting.arithmetic.gram(x if R is None else forward(R, x), new)
        return total

    def _stacked(self, block: Block, room: Room, every: list[Entry]) -> np.ndarray:
        """(batch, vectors, runs, coordinates) of explicit vectors in a block."""
        batch, out = tuple(map(extent, room.plates)), []
        for pattern, part in every:
            if pattern is None:
                out.append(np.ones((*batch, 1, 1, block.length)))
            else:
                data = block.value(pattern).full((*part.shared, *part.inner))
                out.append(data.reshape(*batch, -1, *data.shape[-2:]))
        if len(out) == 1 and out[0].shape[-2] == self.at.setting.runs:
            return out[0]
        runs = max(x.shape[-2] for x in out)
        return np.concatenate([np.broadcast_to(x, (*x.shape[:-2], runs, block.length)) for x in out], axis=-3)

    # ---- what the rules ask for

    def __call__(self, term: Term) -> Named:
        return self.value(term)

    def initial(self, op: Input, term: Term) -> Named:
        room, part = self.plan.rooms[op.token], self.plan.rooms[op.token].parts[op.token]
        columns = Named((*part.shared, *part.inner), self._fresh(op.token, room, 1, ("vector", op.name)))
        at = columns.full(term.free)
        centred = centred_initial(self, self.at.moments, op, term, lambda _, n: at.reshape(n, *at.shape[-2:]))
        mean = self.at.poly(semantics.cumulant(op, (term,), self.at.moments), term.free)
        return combine(np.add, centred, combine(np.multiply, mean, self.ones(room))) if room.ones else centred

    def matrix(self, record: Record, product: Term) -> Columns:
        return Columns(self, product, lambda scale: self.columns(record, scale))

    def columns(self, record: Record, scale: Named | None) -> Named:
        """G f_b for the directions f_b on which a matrix is known, over the letters of its copies and b, or multiples."""
        token = record.token
        if token not in self._columns:
            room, b = self.plan.rooms[token], self.direction(token)
            part = room.parts[token]
            data = self._fresh(token, room, extent(b.plate), ("matrix", record.name))
            self._columns[token] = Named((*part.shared, *part.inner, b), data)
        columns = self._columns[token]
        return columns if scale is None else combine(np.multiply, columns, scale)

    def direction(self, token: bytes) -> Index:
        """The letter b of the directions on which a matrix is known."""
        if token not in self._directions:
            self._directions[token] = Index("@b", Plate("basis", self.plan.inputs(token)))
        return self._directions[token]

    def coefficients(self, product: Term, x: Named) -> Named:
        """sigma m^{-1/2} times the argument of a product in the directions on which its matrix is known: over the letters of
        both, and b unless there is one direction alone.

        These are the slots of the argument's frame, or else an orthonormal basis of the arguments so far.
        """
        if product.family.key not in self._coefficients:
            assert isinstance(product.op, MatMul)
            record = product.op.matrix
            b = self.direction(record.token)
            if self.plan.by_slots(record.token):
                result = Named((*x.over, b), np.swapaxes(x.data, -1, -2)[..., None])
            else:
                result = self._in_basis(record.token, product, x, b)
            scale = sigma_of(record.sigma) / np.sqrt(record.columns.at(self.at.setting.width))
            result = Named(result.over, scale * result.data)
            self._coefficients[product.family.key] = result.relabel({b: Member(b.plate, 0)} if extent(b.plate) == 1 else {})
        return self._coefficients[product.family.key]

    def _in_basis(self, token: bytes, product: Term, x: Named, b: Index) -> Named:
        copies = tuple(dict.fromkeys(s for s in self.plan.structure.copies[token] if isinstance(s, Index)))
        used = {
            c
            for p in self.plan.structure.products(token)
            for c, s in zip(self.plan.structure.copies[token], p.own, strict=True)
            if isinstance(c, Index) and s in self._letters(p.args[0])
        }
        own: dict[Slot, Slot] = {}
        for c, s in zip(self.plan.structure.copies[token], product.own, strict=True):
            if c not in used:
                continue
            if isinstance(s, Index) and s not in own:
                own[s] = c
            else:  # one copy alone, or a diagonal: the others meet nothing
                x = combine(np.multiply, x, self.at.value(delta(c, own.get(s, s))))
        x = x.relabel(own)
        batch = tuple(c for c in copies if c in used)
        inner = tuple(i for i in product.free if i not in own and i not in set(product.own))
        data = x.full((*batch, *inner))
        data = data.reshape(*(extent(c.plate) for c in batch), -1, *data.shape[-2:])
        data = np.moveaxis(data, -3, -2)
        old = self._bases.get(token)
        if old is None:
            old = np.zeros((*data.shape[:-2], 0, data.shape[-1]))
        self._bases[token], C = extended(old, data)
        C = np.concatenate([C, np.zeros((*C.shape[:-1], extent(b.plate) - C.shape[-1]))], axis=-1)
        C = np.moveaxis(C, -3, -1).reshape(*C.shape[: len(batch)], *(extent(i.plate) for i in inner), C.shape[-1], -1)
        result = Named((*batch, *inner, b), C[..., None])
        return result.relabel({c: s for s, c in own.items()})

    def _letters(self, term: Term) -> set[Slot]:
        return {s for a in atoms(term) for s in a.slots} | set(term.free)

    def _fresh(self, token: bytes, room: Room, each: int, name: tuple[str, str]) -> np.ndarray:
        """(batch, inner letters, each, runs, slots): new standard Gaussian vectors."""
        part, frame = room.parts[token], self.frame(room)
        vectors, source = count(part.inner) * each, self.stream(*name)
        data = frame.leaf(vectors, source) if part.leaf else frame.gaussian(vectors, source)
        sizes = [extent(i.plate) for i in part.inner]
        return data.reshape(*frame.batch, *sizes, *([each] if name[0] == "matrix" else []), *data.shape[-2:])

    def stream(self, *name: object) -> Source:
        return self.at.setting.stream(*name, self.at.setting.shard)
