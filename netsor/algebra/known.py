"""Irreducible expectations read as products of functions of affine inputs, for the numbers and the formulas alike."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from netsor.algebra.moments import Moments
from netsor.algebra.poly import is_map
from netsor.checks import Number
from netsor.ir import Term
from netsor.ops import Map, Piece


class NotCoordinatewise(Exception):
    """The leaf is not a function of affine inputs: something runs along a plate."""


@dataclass(frozen=True, slots=True)
class Factors:
    """E[prod curved * prod plain]: `inputs` are the affine vectors that the curved factors are functions of, the plain
    factors are affine themselves."""

    curved: tuple[Term, ...]
    plain: tuple[Term, ...]
    inputs: tuple[Term, ...]


def factors_of(moments: Moments, leaf: Term) -> Factors:
    """The factors of a leaf.  Raises: NotCoordinatewise."""
    plain = tuple(x for x in leaf.args if moments.affine(x))
    curved = tuple(x for x in leaf.args if not moments.affine(x))
    return Factors(curved, plain, tuple(dict.fromkeys(u for x in curved for u in inputs_of(moments, x))))


def inputs_of(moments: Moments, x: Term) -> Iterator[Term]:
    """The affine vectors of which x is a coordinatewise function."""
    if moments.affine(x):
        yield x
    elif not isinstance(x.op, Map):
        raise NotCoordinatewise
    elif is_map(x, "exp") and (bump := quadratic(moments, x.args[0])) is not None:
        yield bump[0]
    else:
        for a in x.args:
            if a.width is not None:
                yield from inputs_of(moments, a)


def pieces_of(moments: Moments, x: Term, inputs: Sequence[Term]) -> tuple[Piece, ...]:
    """A known function of one input as pieces, or exp of a polynomial of degree two in one; else nothing."""
    assert isinstance(x.op, Map)
    if len(x.args) != 1:
        return ()
    if x.args[0] in inputs:
        return x.op.fn.pieces
    bump = quadratic(moments, x.args[0]) if is_map(x, "exp") else None
    if bump is None:
        return ()
    _, (a, b, c) = bump
    return (Piece(math.exp(a) if a else 1, rate=b, bend=-c),)


def quadratic(moments: Moments, x: Term) -> tuple[Term, tuple[Number, ...]] | None:
    """The vector u and the numbers a, b, c of a + b u + c u^2, c not 0; None for anything else."""
    coefficients: list[Number] = [0, 0, 0]
    atoms: set[Term] = set()
    for m in moments.expand(x, deep=False):
        atoms.update(m.atoms)
        if m.scalars or m.bound or len(m.atoms) > 2 or len(atoms) > 1:
            return None
        coefficients[len(m.atoms)] += m.number
    return (atoms.pop(), tuple(coefficients)) if coefficients[2] else None
