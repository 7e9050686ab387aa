"""The covariance of scores."""

from __future__ import annotations

from netsor.algebra.moments import Moments, leaf_of
from netsor.algebra.poly import Mono, Poly, scalar, simplify
from netsor.ir import Term
from netsor.ops import AND, Map


def score_covariance(moments: Moments, p: Term, q: Term) -> Poly:
    """Cov(p, q | earlier scores) = E[Z^g Z^h Z^g' Z^h' | earlier scores], all Isserlis pairings included.

    Where a score has a mask, terms that live outside it only are dropped. Valid for legal scores of one stage, see
    docs/theory.md, Proposition 3.
    """
    factors = (*p.args[:2], *q.args[:2])
    masks = tuple(m for t in (p, q) for mask in t.args[2:] for m in conjuncts(mask))
    if not masks:
        return moments.expect(*factors)
    leaf = leaf_of(factors)
    defined = moments.define(leaf)
    poly = scalar(leaf) if defined is None else defined
    return Poly(tuple(m for m in poly if simplify(Mono(1, m.bound, (*m.scalars, *masks))) is not None))


def conjuncts(mask: Term) -> list[Term]:
    """The predicates that must all hold."""
    if isinstance(mask.op, Map) and mask.op.fn == AND:
        return [m for a in mask.args for m in conjuncts(a)]
    return [mask]
