"""Random programs, and a world in which every program has a value.

The programs are those of netsor.testing. `World` gives every named object one fixed value: two ways to write a program
are compared in it without noise.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from netsor.ir import Index, Term
from netsor.numeric.interpreter import Interpreter
from netsor.numeric.named import Named, combine, extent
from netsor.ops import Param
from netsor.rules.input import Input
from netsor.rules.matmul import MatMul
from netsor.rules.mean import Mean
from netsor.testing.drafts import Draft, operand, slots, some_letters
from netsor.testing.strategies import programs

__all__ = ["Draft", "World", "operand", "programs", "slots", "some_letters"]


class World(Interpreter):
    """Values at width 3 in which W[1] is the matrix that the name W_1 stands for, and x[0, 2] the vector x_0_2.

    Nothing depends on how a program is written: a plate program, its members and its substitutions agree to rounding.
    Random: entries of an object from a generator seeded by its name.
    """

    WIDTH = 3

    def generator(self, term: Term) -> Named:
        op = term.op
        if isinstance(op, Input):
            assert isinstance(op.cov, int)
            shift, scale = number(op.mean), np.sqrt(op.cov)
            return self.each(term, zero, lambda copy, _: shift + scale * normals(op.name, copy, self.WIDTH))
        args = [self.value(a) for a in term.args]
        if isinstance(op, MatMul):
            name, scale = op.matrix.name, number(op.matrix.sigma) / np.sqrt(self.WIDTH)
            return self.each(term, args[0], lambda copy, x: scale * normals(name, copy, self.WIDTH, self.WIDTH) @ x)
        if isinstance(op, Mean):
            return combine(lambda x: x.mean(-1, keepdims=True), *args)
        ones = np.ones(self.WIDTH)
        p = combine(lambda x, y: (x * y * ones).sum(-1, keepdims=True) / np.sqrt(self.WIDTH), *args[:2])
        return combine(lambda p, *masks: np.where(masks[0] > 0, p, 0.0) if masks else p, p, *args[2:])

    def each(self, term: Term, arg: Named, f: Callable[[tuple[int, ...], np.ndarray], np.ndarray]) -> Named:
        """f(copy, vector) for every choice of members for the free letters."""
        sizes = [extent(i.plate) for i in term.free]
        vectors = np.broadcast_to(arg.full(term.free), (*sizes, 1, self.WIDTH))
        out = np.empty(vectors.shape)
        for at in product(*map(range, sizes)):
            member = dict(zip(term.free, at, strict=True))
            copy = tuple(member[s] if isinstance(s, Index) else s.at for s in term.own)
            out[at] = f(copy, vectors[at][0])
        return Named(term.free, out)


zero = Named((), np.zeros((1, 1)))


def number(value: Any) -> float:
    return float(value.value if isinstance(value, Param) else value)


def normals(name: str, copy: tuple[int, ...], *shape: int) -> np.ndarray:
    seed = "_".join((name, *map(str, copy))).encode()
    return np.random.default_rng(list(seed)).standard_normal(shape)
