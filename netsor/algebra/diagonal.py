"""Covariances that vanish between different members of a plate."""

from __future__ import annotations

from netsor.algebra.moments import Moments
from netsor.algebra.poly import Delta, Expect, Mono, Poly
from netsor.ir import Index, Term


def is_diagonal(moments: Moments, scalar: Term, letter: Index) -> bool:
    """Does this factor vanish unless the letter and its prime are one member?"""
    if not {letter, letter.prime} <= set(scalar.slots):
        return False
    if isinstance(scalar.op, Delta):
        return True
    if not isinstance(scalar.op, Expect):
        return False
    defined = moments.define(scalar)
    return defined is not None and diagonal(moments, defined, letter)


def diagonal(moments: Moments, poly: Poly, letter: Index) -> bool:
    """Does the polynomial vanish unless the letter and its prime are one member?"""
    return all(vanishes_apart(moments, m, letter) for m in poly)


def vanishes_apart(moments: Moments, m: Mono, letter: Index) -> bool:
    return any(is_diagonal(moments, s, letter) for s in m.scalars)
