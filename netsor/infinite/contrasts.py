"""Softmax over a few vectors: it sees only their contrasts, of which there are one fewer than vectors."""

from __future__ import annotations

from itertools import product
from math import pi

import numpy as np

from netsor.algebra.moments import leaf_of
from netsor.functions.along import SOFTMAX, of_members
from netsor.ir import Member, Term, apply
from netsor.ops import Along, Fn, Growth, Map

FEW = 4  # members: three contrasts are what can be integrated in space
COMBINATIONS = 64  # members of all letters of a leaf that are integrated one by one


def members_of(leaf: Term) -> list[Term] | None:
    """The leaf at every combination of members of its letters, each softmax over few members written in contrasts; None
    where there is none, or there are too many."""
    extents = [i.plate.extent or 0 for i in leaf.free]
    if not 0 < np.prod(extents, initial=1) <= COMBINATIONS:
        return None
    found = []
    for at in product(*map(range, extents)):
        here = leaf.at({i: Member(i.plate, k) for i, k in zip(leaf.free, at, strict=True)})
        written = leaf_of([in_contrasts(x) for x in here.args])
        if written == here:
            return None
        found.append(written)
    return found


def in_contrasts(x: Term) -> Term:
    """softmax_k(u_0, .., u_{s-1}) as a function of u_1 - u_0, .., u_{s-1} - u_0, wherever it stands in the vector."""
    if x.width is None:
        return x
    if isinstance(x.op, Map):
        return apply(x.op.fn, *map(in_contrasts, x.args))
    if not (isinstance(x.op, Along) and x.op.fn == SOFTMAX and len(x.args) == 1):
        return x
    (bound,), (inner,) = x.open()
    size, kept = bound.plate.extent, x.own[0]
    if size is None or not 1 < size <= FEW or not isinstance(kept, Member):
        return x
    first, *others = (in_contrasts(inner.at({bound: Member(bound.plate, k)})) for k in range(size))
    return apply(weight(kept.at), *(u - first for u in others))


def weight(kept: int) -> Fn:
    """The weight of one member as a function of the contrasts to the first; its nearest poles are at a distance of pi."""
    whole = of_members(SOFTMAX, kept)
    return Fn(
        "weight",
        lambda *d: whole.numpy(np.zeros_like(d[0]), *d),
        arity=None,
        params=(kept,),
        features=((0.0, pi),),
        growth=Growth(0, low=0, high=1),
    )
