"""The reference engine: every matrix is drawn whole, run by run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import product

import numpy as np

from netsor import semantics
from netsor.algebra.moments import Moments
from netsor.errors import Numerical
from netsor.finite.cost import Cost
from netsor.finite.shards import Setting, live
from netsor.ir import Index, Member, Slot, Term, make, postorder
from netsor.numeric.demand import demanded, instance, is_vector_generator
from netsor.numeric.initial import initial
from netsor.numeric.interpreter import Interpreter, entry
from netsor.numeric.named import Named, combine, count, extent, union
from netsor.ops import Generator
from netsor.rules.input import Input
from netsor.rules.matmul import MatMul, Record, Sigma2

MATRIX_CELLS = 2**22  # entries of the matrices held at once
MEMORY = 8e9  # bytes of one run


class Dense(Interpreter):
    """Values at width n over (letters, runs, coordinates). Vectors that no rule consumes have `coordinates` entries only.

    Random: matrix W[a] from stream ("matrix", W, a, shard), vector x from ("vector", x, shard).
    """

    name = "dense"

    def __init__(self, moments: Moments, roots: Iterable[Term], setting: Setting, coordinates: int) -> None:
        super().__init__()
        self.moments, self.setting, self.coordinates = moments, setting, coordinates
        roots = list(roots)
        self.whole = consumed(roots)
        self.patterns = {t.family.key: t for t in demanded(roots, is_vector_generator, lambda t: t.args)}
        self._drawn: dict[bytes, Named] = {}
        self._products = Counter(semantics.source(t.op) for t in self.patterns.values())

    # ---- what it costs

    @classmethod
    def cost_of(cls, moments: Moments, roots: Sequence[Term], width: int, coordinates: int) -> Cost:
        """The cost of one run."""
        at = cls(moments, roots, Setting(width, 1, np.random.SeedSequence(0), 0), coordinates)
        normals = sum(at.rows(t) * count(t.free) for t in at.patterns.values() if isinstance(t.op, Input))
        parts = [at.product_cost(t.op.matrix, t) for t in at.patterns.values() if isinstance(t.op, MatMul)]
        normals += sum(n for n, _ in parts)
        vectors = demanded(roots, lambda t: t.width is not None, lambda t: t.args)
        numbers = sum(count(t.free) * at.rows(t) for t in vectors)
        steps = sum(cls.steps_of(t) for t in at.patterns.values())
        shard = max(1, min(4096, 2**21 // max(1, width * live(roots))))
        return Cost(cls.name, normals, numbers, sum(p for _, p in parts), steps, shard)

    def product_cost(self, record: Record, product: Term) -> tuple[int, int]:
        """Normals of the matrices of one product, and multiplications."""
        copies, cells = count(own_letters(product)), self.rows_drawn(record, product) * record.columns.at(self.setting.width)
        return copies * cells, count(product.free) * cells

    @staticmethod
    def steps_of(term: Term) -> int:
        return 5 + 3 * count(own_letters(term))

    # ---- what the rules ask for

    def __call__(self, term: Term) -> Named:
        return self.value(term)

    def generator(self, term: Term) -> Named:
        if term.width is None:
            drawn: Named = semantics.draw(term.op, term, self)
            return drawn
        pattern = self.patterns[term.family.key]
        if term.family.key not in self._drawn:
            self._drawn[term.family.key] = semantics.draw(pattern.op, pattern, self)
        return self._drawn[term.family.key].relabel(instance(pattern, term))

    def argument(self, parent: Term, child: Term) -> Named:
        value = self.value(child)
        if parent.width is not None and child.width is not None and not self.is_whole(parent):
            return Named(value.over, value.data[..., : self.rows(parent)])
        return value

    def initial(self, op: Input, term: Term) -> Named:
        source = self.setting.stream("vector", op.name, self.setting.shard)
        shape = (self.setting.runs, self.rows(term))
        return initial(self, self.moments, op, term, lambda _, n: source.standard_normal((n, *shape)))

    def average(self, vector: Term) -> Named:
        x = self.value(vector)
        return Named(x.over, x.data.mean(-1, keepdims=True))

    def inner(self, left: Term, right: Term, mask: Term | None = None) -> Named:
        """n^{-1/2} <left, right>, zero outside the mask; a scalar stands for a constant vector."""
        x, y = self.value(left), self.value(right)
        width = left.width or right.width
        assert width is not None
        n = width.at(self.setting.width)
        over = union(x.over, y.over)
        a, b = (np.broadcast_to(s, (*s.shape[:-1], n)) for s in (x.spread(over), y.spread(over)))
        value = Named(over, np.einsum("...z,...z->...", a, b)[..., None] / np.sqrt(n))
        return value if mask is None else combine(lambda v, m: np.where(m > 0, v, 0.0), value, self.value(mask))

    def matrix(self, record: Record, product: Term) -> Copies:
        """The matrix as it is needed for one product: its first rows only, where no rule consumes the result."""
        return Copies(self.setting, record, product.own, self.rows_drawn(record, product))

    # ---- sizes

    def is_whole(self, term: Term) -> bool:
        return term.family.key in self.whole

    def rows(self, term: Term) -> int:
        """How many coordinates of a vector are computed."""
        assert term.width is not None
        n = term.width.at(self.setting.width)
        return n if self.is_whole(term) else min(n, self.coordinates)

    def rows_drawn(self, record: Record, product: Term) -> int:
        """How many rows of a matrix are drawn: all, if it acts more than once, as its products share them."""
        return record.rows.at(self.setting.width) if self._products[record.token] > 1 else self.rows(product)


class Copies:
    """The independent copies of one matrix, drawn while they are multiplied and not kept."""

    def __init__(self, setting: Setting, record: Record, own: tuple[Slot, ...], rows: int) -> None:
        self.setting, self.record, self.own, self.rows = setting, record, own, rows

    def __matmul__(self, x: Named) -> Named:
        """W[own] @ x over the letters of both."""
        letters = [s for s in dict.fromkeys(self.own) if isinstance(s, Index)]
        over = (*letters, *(i for i in x.over if i not in letters))
        runs, columns = self.setting.runs, self.record.columns.at(self.setting.width)
        data = x.full(over)
        data = np.broadcast_to(data, (*data.shape[:-2], runs, columns))
        out = np.empty((*data.shape[:-1], self.rows))
        for members in product(*(range(extent(i.plate)) for i in letters)):
            copy = tuple(s.at if isinstance(s, Member) else members[letters.index(s)] for s in self.own)
            out[members] = self.act(copy, data[members])
        sigma2 = entry(Sigma2(self.record), make(Sigma2(self.record))).data.item()
        return Named(over, out * np.sqrt(sigma2 / columns))

    def act(self, copy: tuple[int, ...], x: np.ndarray) -> np.ndarray:
        """G x for the standard normal matrix G of one copy.  Shapes: (..., runs, columns) to (..., runs, rows)."""
        out = np.empty((*x.shape[:-1], self.rows))
        for part, w in self.draw(copy):
            vectors = np.moveaxis(x[..., part, :], -2, 0)  # (runs, rest, columns)
            done = vectors.reshape(len(w), -1, x.shape[-1]) @ np.swapaxes(w, -1, -2)
            out[..., part, :] = np.moveaxis(done.reshape(*vectors.shape[:-1], self.rows), 0, -2)
        return out

    def draw(self, copy: tuple[int, ...]) -> Iterator[tuple[slice, np.ndarray]]:
        """Standard normal entries of one copy, a few runs at a time: (runs, rows, columns)."""
        columns = self.record.columns.at(self.setting.width)
        source = self.setting.stream("matrix", self.record.name, copy, self.setting.shard)
        step = max(1, MATRIX_CELLS // (self.rows * columns))
        for start in range(0, self.setting.runs, step):
            part = slice(start, min(start + step, self.setting.runs))
            yield part, source.standard_normal((part.stop - start, self.rows, columns))


def consumed(roots: Sequence[Term]) -> set[bytes]:
    """Families all of whose coordinates matter: what a rule consumes, and what that is a coordinatewise function of."""
    whole: set[bytes] = set()
    for family in reversed(postorder(*roots)):
        needs = isinstance(family.op, Generator) or (family.width is not None and family.key in whole)
        if needs:
            whole.update(c.key for c, _ in family.children if c.width is not None)
    return whole


def memory(width: int, roots: Sequence[Term]) -> float:
    """Bytes of one run: its vectors, and its largest matrix."""
    matrices = [m for f in postorder(*roots) if (m := getattr(f.op, "matrix", None)) is not None]
    return 8.0 * (width * live(roots) + max((m.rows.at(width) * m.columns.at(width) for m in matrices), default=0))


def check_memory(width: int, roots: Sequence[Term]) -> None:
    """Refuse a run that does not fit.  Raises: NS403."""
    needed = memory(width, roots)
    if needed > MEMORY:
        held = f"a whole matrix and {live(roots)} vectors"
        raise Numerical(
            "NS403",
            statement=f"one run at width {width} in the dense engine",
            hypothesis=f"it holds {held}: {needed / 1e9:.1f} GB, more than {MEMORY / 1e9:.0f} GB",
            consequence="the process would run out of memory",
            repair="leave engine= open, which takes an engine that needs no whole matrix; or use a smaller width",
        )


def own_letters(product: Term) -> list[Index]:
    """The letters that tell the copies of a matrix apart."""
    return [s for s in dict.fromkeys(product.own) if isinstance(s, Index)]
