"""Sum_a W[a] x[a] as one product: [W[1] W[2] ..] acts on the vectors x[1], x[2], .. put one below the other.

The sum has the law of one matrix with N(0, sigma^2 / n) entries and as many columns as all copies together, so heads that are
only summed cost as much as one head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt

from netsor.ir import Family, Index, Term, make, postorder
from netsor.numeric.interpreter import sigma_of
from netsor.numeric.named import extent
from netsor.ops import Along, Op
from netsor.rules.matmul import MatMul, Record
from netsor.walks import generic, placed


@dataclass(frozen=True, slots=True)
class Stack(Op):
    """The vectors of a family along one letter, which is bound, one below the other."""


class Stacked:
    """Terms with their sums over copies of a matrix written as products."""

    def __init__(self, roots: Sequence[Term]) -> None:
        self._new: dict[bytes, Term] = {}
        families = postorder(*roots)
        uses: dict[bytes, int] = {}
        acts: dict[bytes, int] = {}
        for key in [t.family.key for t in roots] + [c.key for f in families for c, _ in f.children]:
            uses[key] = uses.get(key, 0) + 1
        for f in families:
            if isinstance(f.op, MatMul):
                acts[f.op.matrix.token] = acts.get(f.op.matrix.token, 0) + 1
        for f in families:
            self._new[f.key] = self._rebuilt(f, uses, acts)
        self._old = {self._new[f.key].family.key: f for f in families}

    def __call__(self, term: Term) -> Term:
        return placed(self._new[term.family.key], term, lambda s: s) if term.family.key in self._new else term

    def original(self, term: Term) -> Term:
        """The term that became this one."""
        return Term(self._old.get(term.family.key, term.family), term.slots)

    def _rebuilt(self, family: Family, uses: dict[bytes, int], acts: dict[bytes, int]) -> Term:
        term = generic(family)
        bound, children = term.open()
        if isinstance(family.op, Along) and family.op.fn.name == "sum" and len(children) == 1:
            (g,) = children
            if isinstance(g.op, MatMul) and g.own.count(bound[0]) == 1:
                token = g.op.matrix.token
                if uses[g.family.key] == acts[token] == 1:
                    return stacked(g.op.matrix, g, bound[0], self(g.args[0]), term)
        new = [self(c) for c in children]
        if [c.family for c in new] == [c.family for c in children]:
            return term
        return make(family.op, term.own, new, bound, family.width, term.slots, family.origin)


def stacked(record: Record, product: Term, over: Index, arg: Term, term: Term) -> Term:
    """Sum_over W[.., over, ..] arg as a product of one matrix."""
    copies = extent(over.plate)
    assert arg.width is not None
    column = make(Stack(), (), (arg,), (over,), arg.width * copies, tuple(s for s in arg.slots if s != over))
    sigma = sigma_of(record.sigma) * sqrt(copies)
    wide = replace(record, sigma=sigma, columns=record.columns * copies, token=record.token + over.plate.name.encode())
    own = tuple(s for s in product.own if s != over)
    return make(MatMul(wide), own, (column,), (), term.width, term.slots, term.family.origin)


def stackless(x: Term, y: Term) -> tuple[Term, Term]:
    """Two stacks as their members at one common letter: their inner product is the sum over it."""
    if not (isinstance(x.op, Stack) and isinstance(y.op, Stack)):
        return x, y
    parts = []
    for t in (x, y):
        (bound,), (arg,) = t.open()
        parts.append(arg.at({bound: Index("@s", bound.plate)}))
    return parts[0], parts[1]
