"""White forms in numbers: coordinates of the vectors that a matrix meets, and white noise in these coordinates.

The coordinates of a vector are its row in a bordered root of the Gram matrix, given the scores so far, of all vectors met
on that side. Adding a vector appends rows and columns and changes none, so the law of a new score given all old ones is
exact without any regression, and scores that share a matrix, swap its sides or are linear in each other need no special
case. (The limit's twin of a matrix that acts through an orthonormal basis of its inputs.)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from netsor import semantics
from netsor.algebra.forms import copies_of, copy_letters, sides
from netsor.algebra.poly import Poly
from netsor.ir import Index, Plate, Slot, Term
from netsor.numeric.linear import psd_factors
from netsor.numeric.named import Named, count
from netsor.rules.input import Input

if TYPE_CHECKING:
    from netsor.infinite.values import LimitValues

Noise = Callable[[Hashable, int], np.ndarray]  # (key, how many) -> (how many, runs, 1)


@dataclass
class Block:
    """One family of vectors: its letters (other than the copies'), its coordinates in each block up to its own."""

    term: Term
    letters: tuple[Index, ...]
    rows: dict[int, np.ndarray]  # block -> (copies, runs or 1, members, coordinates)
    inverse: np.ndarray  # of its own transposed root


@dataclass
class Basis:
    """The vectors that one side of a matrix has met. `copies`: the letters that tell independent copies apart."""

    at: LimitValues
    copies: tuple[Index, ...]
    gram: Callable[[Term, Term], Poly]
    blocks: list[Block] = field(default_factory=list)

    def place(self, term: Term) -> int:
        """The block of a vector, appended when it is new."""
        for k, block in enumerate(self.blocks):
            if block.term == term:
                return k
        letters = tuple(i for i in term.free if i not in self.copies)
        rows: dict[int, np.ndarray] = {}
        for k, block in enumerate(self.blocks):
            inner = self.inner(term, letters, block.term, block.letters)
            for d, row in rows.items():
                if d in block.rows:
                    shared = row @ np.swapaxes(block.rows[d], -1, -2)
                    inner = -shared if inner is None else inner - shared
            if inner is not None:
                rows[k] = inner @ block.inverse
        own = self.inner(term, letters, term, letters)
        size = count(letters)
        if own is None:
            own = np.zeros((count(self.copies), 1, size, size))
        scale = np.trace(own, axis1=-2, axis2=-1)
        for row in rows.values():
            own = own - row @ np.swapaxes(row, -1, -2)
        rows[len(self.blocks)], inverse = psd_factors(own, scale, self.at.slack)
        self.blocks.append(Block(term, letters, rows, inverse))
        return len(self.blocks) - 1

    def inner(self, x: Term, over_x: tuple[Index, ...], y: Term, over_y: tuple[Index, ...]) -> np.ndarray | None:
        """E[x y | scores] as (copies, runs or 1, members of x, members of y); None where it is 0 by structure."""
        primed = y.at({i: i.prime for i in over_y})
        poly = self.gram(x, primed)
        if not poly:
            return None
        over = (*self.copies, *over_x, *(i.prime for i in over_y))
        value = self.at.poly(poly, over).full(over)[..., 0]
        sizes = (count(self.copies), count(over_x), count(over_y))
        return np.moveaxis(value.reshape(*sizes, -1), -1, 1)


class Form:
    """B_W for one matrix, with its noise."""

    def __init__(self, at: LimitValues, source: bytes, name: str, plates: Sequence[Plate], noise: Noise) -> None:
        self.copies = copy_letters(plates)
        self.name, self.noise = name, noise
        self.left, self.right = (Basis(at, self.copies, self.gram_of(at, source)) for _ in range(2))
        self.white: dict[tuple[int, int], np.ndarray] = {}

    @staticmethod
    def gram_of(at: LimitValues, source: bytes) -> Callable[[Term, Term], Poly]:
        def gram(x: Term, y: Term) -> Poly:
            if isinstance(x.op, Input) and semantics.source(x.op) == source:
                return semantics.cumulant(x.op, (x, y), at.moments)  # the pivot itself: its fluctuations
            return at.moments.expect(x, y)

        return gram

    def __call__(self, form: Term) -> Named:
        """B_W(l, r) over the letters of the form; a letter common to l and r stays one letter."""
        left, right = sides(form)
        x, y = self.left.place(left), self.right.place(right)
        a, b = self.left.blocks[x], self.right.blocks[y]
        total: np.ndarray | float = 0.0
        for p, row in a.rows.items():
            for q, column in b.rows.items():
                total = total + row @ self.noise_between(p, q) @ np.swapaxes(column, -1, -2)
        assert isinstance(total, np.ndarray)
        value = np.moveaxis(total, 1, -1)[..., None]
        over = (*self.copies, *a.letters, *b.letters)
        shaped = value.reshape(*(count([i]) for i in over), *value.shape[-2:])
        back: dict[Slot, Slot] = dict(zip(self.copies, copies_of(form), strict=True))
        for side, named in zip(form.args, (left, right), strict=True):
            back |= {new: old for new, old in zip(named.slots, side.slots, strict=True) if new not in self.copies}
        return Named(over, shaped).relabel(back)

    def noise_between(self, p: int, q: int) -> np.ndarray:
        """White noise between two blocks: (copies, runs, coordinates of p, coordinates of q)."""
        if (p, q) not in self.white:
            copies, rows, columns = (
                count(self.copies),
                count(self.left.blocks[p].letters),
                count(self.right.blocks[q].letters),
            )
            z = self.noise((self.name, p, q), copies * rows * columns)[..., 0]
            self.white[p, q] = np.moveaxis(z.reshape(copies, rows, columns, -1), -1, 1)
        return self.white[p, q]
