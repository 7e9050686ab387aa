"""Terms as arrays: what the limit and a finite width share. Only the generators differ, and a subclass draws them."""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from math import isfinite
from typing import Any

import numpy as np

from netsor.algebra.forms import Sigma
from netsor.algebra.poly import Delta, Poly
from netsor.checks import Number
from netsor.errors import IllFormed, Numerical, located
from netsor.ir import Index, Size, Slot, Term
from netsor.numeric.named import Named, combine, contract, count, extent, named, union
from netsor.ops import MUL, Along, Compare, Const, Generator, Growth, Map, Offset, Op, Param, Table
from netsor.rules.input import Prior
from netsor.rules.matmul import Sigma2
from netsor.walks import canonical


class Interpreter:
    """value(term): its array, memoised by family and pattern of letters."""

    def __init__(self) -> None:
        self._memo: dict[tuple[bytes, tuple[Slot, ...]], Named] = {}

    @property
    def slack(self) -> float:
        """How far its covariances may be from positive semidefinite, as part of their trace: 0 where nothing is sampled."""
        return 0.0

    def value(self, term: Term) -> Named:
        term, back = canonical(term)
        key = (term.family.key, term.slots)
        if key not in self._memo:
            self._memo[key] = self._value(term)
        return self._memo[key].relabel(back)

    def _value(self, term: Term) -> Named:
        op = term.op
        if isinstance(op, Map):
            args = [self.argument(term, a) for a in term.args]
            with np.errstate(all="ignore"):  # what is not finite is refused with its place
                return self.checked(term, combine(op.fn.numpy, *args))
        if isinstance(op, Along):
            return self._along(op, term)
        if isinstance(op, Generator):
            return self.generator(term)
        return entry(op, term)

    def _along(self, op: Along, term: Term) -> Named:
        (bound,), args = term.open()
        if op.fn.name == "sum" and len(args) == 1 and is_multiple(args[0]):
            factors = [self.argument(args[0], a) for a in args[0].args]
            alike = 1 if any(bound in f.over for f in factors) else extent(bound.plate)
            return self.checked(term, contract(alike, factors, term.free))
        arrays = [self.argument(term, a) for a in args]
        over = (*(i for i in union(*(a.over for a in arrays)) if i != bound), bound)
        axis = len(over) - 1
        whole = np.ones([*(1 for _ in over[:-1]), extent(bound.plate), 1, 1])  # the axis is there even if nothing varies
        x, *mask, _ = np.broadcast_arrays(*(a.spread(over) for a in arrays), whole)
        with np.errstate(all="ignore"):
            data = op.fn.numpy(x, mask[0] if mask else None, axis)
        if not op.keeps:
            return self.checked(term, Named(over[:-1], data))
        return self.checked(term, Named(over, data).relabel({bound: term.own[0]}))

    def argument(self, parent: Term, child: Term) -> Named:
        """The value of a child as its parent needs it."""
        return self.value(child)

    def generator(self, term: Term) -> Named:
        raise NotImplementedError

    def checked(self, term: Term, result: Named) -> Named:
        growth = getattr(getattr(term.op, "fn", None), "growth", None)
        if isinstance(growth, Growth) and isfinite(growth.low) and isfinite(growth.high):
            return result  # a bounded function of what is finite
        with np.errstate(all="ignore"):
            finite = np.isfinite(result.data.sum()) or np.isfinite(result.data).all()  # the sum takes no memory
        if not finite:
            place = located(term.family.origin)
            raise Numerical(
                "NS402",
                statement=f"{getattr(term.op, 'fn', term.op)} of a value outside its domain",
                place=place,
                hypothesis="every function is finite where it is evaluated",
                consequence="infinite or undefined values would spread through the program",
                repair="check divisions, logarithms, square roots and exponentials at this statement",
            )
        return result

    def poly(self, poly: Poly, out: tuple[Index, ...] = ()) -> Named:
        """The value of a polynomial over the letters `out`; other letters are summed."""
        return self._sum(poly, out, lambda factor: factor)

    def magnitude(self, poly: Poly, out: tuple[Index, ...] = ()) -> Named:
        """The same with absolute values throughout: what the rounding of `poly` is to be compared with."""
        return self._sum(poly, out, abs)

    def _sum(self, poly: Poly, out: tuple[Index, ...], seen: Callable[[Any], Any]) -> Named:
        total: Named | None = None
        for m in poly:
            factors = [self.value(s) for s in (*m.scalars, *m.atoms)]
            alike = [b for b in m.bound if not any(b in f.over for f in factors)]  # members that all count the same
            piece = contract(seen(m.number) * count(alike), [Named(f.over, seen(f.data)) for f in factors], out)
            total = piece if total is None else combine(np.add, total, piece)
        return named(0.0) if total is None else total


def is_multiple(term: Term) -> bool:
    """Is it a product of two, not both of them vectors? A sum of such products is a contraction."""
    return isinstance(term.op, Map) and term.op.fn is MUL and any(a.width is None for a in term.args)


@singledispatch
def entry(op: Op, term: Term) -> Named:
    """The value of a constant scalar over its letters."""
    raise NotImplementedError(op)


def unbound(name: str) -> IllFormed:
    return IllFormed(
        "NS304",
        statement=f"{name} has no value",
        hypothesis="a number needs every parameter; a derivation does not",
        repair=f"bind it: P.at({name}=...)",
    )


@entry.register
def _(op: Const, term: Term) -> Named:
    return named(op.value)


@entry.register
def _(op: Size, term: Term) -> Named:
    return named(extent(op.plate))


@entry.register
def _(op: Param, term: Term) -> Named:
    if op.value is None:
        raise unbound(op.name)
    return named(op.value)


@entry.register
def _(op: Sigma2, term: Term) -> Named:
    return named(sigma_of(op.matrix.sigma) ** 2)


@entry.register
def _(op: Sigma, term: Term) -> Named:
    return named(sigma_of(op.sigma))


def sigma_of(sigma: Number | Param) -> float:
    if not isinstance(sigma, Param):
        return float(sigma)
    if sigma.value is None:
        raise unbound(sigma.name)
    return float(sigma.value)


@entry.register
def _(op: Table, term: Term) -> Named:
    if op.values is None:
        raise unbound(op.name)
    return table(op.values, term.own)


@entry.register
def _(op: Prior, term: Term) -> Named:
    if not isinstance(op.input.cov, tuple):
        raise IllFormed(
            "NS304",
            statement=f"the covariance of {op.input.name} is unknown",
            hypothesis="a number needs it; a derivation does not",
            repair=f"give vector({op.input.name!r}, ..., cov=...) an array",
        )
    return table(op.input.cov, term.own)


def table(values: Any, own: tuple[Slot, ...]) -> Named:
    data = np.asarray(values, dtype=float)[..., None, None]
    letters = tuple(Index(f"@t{k}", s.plate) for k, s in enumerate(own))
    wanted = tuple(s.plate.extent or n for s, n in zip(own, data.shape, strict=False))
    if data.shape[:-2] != wanted:
        raise IllFormed(
            "NS305",
            statement=f"an array of shape {data.shape[:-2]} over plates of sizes {wanted}",
            repair="give one entry for each member",
        )
    return Named(letters, data).relabel(dict(zip(letters, own, strict=True)))


def positions(slot: Slot) -> Named:
    if isinstance(slot, Index):
        return Named((slot,), np.arange(extent(slot.plate), dtype=float)[:, None, None])
    return named(slot.at)


RELATIONS = {"<": np.less, "<=": np.less_equal, "!=": np.not_equal}


@entry.register
def _(op: Compare, term: Term) -> Named:
    left, right = map(positions, term.own)
    return combine(lambda x, y: RELATIONS[op.relation](x, y).astype(float), left, right)


@entry.register
def _(op: Delta, term: Term) -> Named:
    left, right = map(positions, term.own)
    return combine(lambda x, y: np.equal(x, y).astype(float), left, right)


@entry.register
def _(op: Offset, term: Term) -> Named:
    left, right = map(positions, term.own)
    return combine(np.subtract, left, right)
