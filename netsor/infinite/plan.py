"""The scores and the generators that a question needs, in the order in which they are drawn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from netsor.algebra.pivots import is_score
from netsor.ir import Term, postorder
from netsor.numeric.demand import demanded, is_vector_generator


def scores_below(roots: Iterable[Term]) -> list[list[Term]]:
    """The scores that the roots need, as patterns, stage by stage: a score's ancestors are in earlier stages."""
    patterns = demanded(roots, is_score, lambda t: t.args)
    stages: dict[int, list[Term]] = {}
    depth = stage_of(patterns)
    for p in patterns:
        stages.setdefault(depth[p.family.key], []).append(p)
    return [stages[k] for k in sorted(stages)]


def stage_of(terms: Iterable[Term]) -> dict[bytes, int]:
    """For every family below: how many scores lie on the longest chain that ends in it."""
    depth: dict[bytes, int] = {}
    for family in postorder(*terms):
        below = max((depth[c.key] for c, _ in family.children), default=0)
        depth[family.key] = below + is_score(Term(family, ()))
    return depth


def generators_below(roots: Iterable[Term]) -> list[Term]:
    """The vector generators that the roots are functions of, given the scores, as patterns."""

    def below(term: Term) -> Sequence[Term]:
        return () if is_vector_generator(term) else [a for a in term.args if a.width is not None]

    return demanded(roots, is_vector_generator, below)
