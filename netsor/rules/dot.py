"""DotProduct: a score, the normalised inner product of two vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from netsor import semantics
from netsor.errors import IllFormed
from netsor.ir import Term, common_width, lift, make, mask
from netsor.ops import Generator


@dataclass(frozen=True, slots=True)
class Dot(Generator):
    """p = n^{-1/2} <g, h>. Limit: a Gaussian given the earlier scores, independent of the Gaussian atoms of every vector;
    Cov(p, p' | scores) = E[Z^g Z^h Z^g' Z^h' | scores]. Which dot products are legal: netsor/algebra/pivots.py.

    A third child, if there is one, is the mask outside which the score does not exist.
    Source: Sakai, Karakida, Imaizumi 2025 (arXiv 2506.00846), Theorem 3.1; docs/theory.md, Lemma 1 and Proposition 3.
    """


def dot(g: Any, h: Any, where: Any = None) -> Term:
    """n^{-1/2} <g, h> over the common width n of g and h.

    where: a predicate over the indices; entries outside it do not exist, and may only be used under a mask.
    A number stands for the constant vector: `dot(g, 1)`.
    Raises: NS303 when the widths differ, NS309 when neither side is a vector, NS307 for a mask that is no predicate.
    """
    left, right = lift(g), lift(h)
    if common_width("dot", left, right) is None:
        raise IllFormed(
            "NS309",
            statement="dot(...) of two scalars",
            hypothesis="a score is an inner product of two vectors",
            repair="multiply scalars with *",
        )
    return make(Dot(), children=(left, right) if where is None else (left, right, mask(where)))


@semantics.draw.register
def _(op: Dot, term: Term, at: Any) -> Any:
    return at.inner(*term.args)
