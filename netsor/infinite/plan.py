"""The scores and the generators that a question needs, decided before anything is drawn."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field

from netsor.algebra.forms import White, copies_of, copy_letters, sides, white_forms
from netsor.algebra.moments import Moments
from netsor.algebra.pivots import Pivots, is_score
from netsor.algebra.poly import Poly
from netsor.ir import Term, postorder
from netsor.numeric.demand import demanded, is_vector_generator
from netsor.numeric.named import count
from netsor.walks import below, canonical, generalise


@dataclass
class ScorePlan:
    """The scores below some roots, as patterns, stage by stage: a score's ancestors are in earlier stages.

    forms: each score as a polynomial in white forms, where the pivots can be ordered, else None; whites: the patterns of
    these forms. sizes: how many normals each draw may take, by its key.
    """

    stages: list[list[Term]]
    forms: dict[bytes, Poly] | None
    whites: dict[bytes, Term] = field(default_factory=dict)
    sizes: dict[Hashable, int] = field(default_factory=dict)


def plan_scores(moments: Moments, roots: Iterable[Term]) -> ScorePlan:
    stages = scores_below(roots)
    scores = [p for stage in stages for p in stage]
    polys = white_forms(moments, Pivots(moments), scores)
    if polys is None:
        sizes: dict[Hashable, int] = {p.family.order: count(p.free) for p in scores}
        return ScorePlan(stages, None, {}, sizes)
    whites = patterns_of(polys)
    forms = {p.family.key: poly for p, poly in zip(scores, polys, strict=True)}
    return ScorePlan(stages, forms, {t.family.key: t for t in whites}, noise_sizes(whites))


def patterns_of(polys: Sequence[Poly]) -> list[Term]:
    """One pattern for each family of white forms, in the order of the scores."""
    found: dict[bytes, list[Term]] = {}
    for t in (s for poly in polys for m in poly for s in m.scalars if isinstance(s.op, White)):
        found.setdefault(t.family.key, []).append(canonical(t)[0])
    return [Term(ts[0].family, generalise([t.slots for t in ts])) for ts in found.values()]


def noise_sizes(whites: Sequence[Term]) -> dict[Hashable, int]:
    """Normals between any two families of vectors that a matrix meets, by (matrix, left block, right block)."""
    met: dict[str, tuple[int, dict[Term, int], dict[Term, int]]] = {}
    for t in whites:
        assert isinstance(t.op, White)
        copies = copy_letters([i.plate for i in copies_of(t)])
        _, *both = met.setdefault(t.op.name, (count(copies), {}, {}))
        for known, x in zip(both, sides(t), strict=True):
            known.setdefault(x, count(i for i in x.free if i not in copies))
    return {
        (name, p, q): copies * rows * columns
        for name, (copies, left, right) in met.items()
        for p, rows in enumerate(left.values())
        for q, columns in enumerate(right.values())
    }


def scores_below(roots: Iterable[Term]) -> list[list[Term]]:
    """The scores that the roots need, as patterns, stage by stage."""
    patterns = demanded(roots, is_score, below)
    stages: dict[int, list[Term]] = {}
    depth = stage_of(patterns)
    for p in patterns:
        stages.setdefault(depth[p.family.key], []).append(p)
    return [stages[k] for k in sorted(stages)]


def stage_of(terms: Iterable[Term]) -> dict[bytes, int]:
    """For every family below: how many scores lie on the longest chain that ends in it."""
    depth: dict[bytes, int] = {}
    for family in postorder(*terms):
        most = max((depth[c.key] for c, _ in family.children), default=0)
        depth[family.key] = most + is_score(Term(family, ()))
    return depth


def generators_below(roots: Iterable[Term]) -> list[Term]:
    """The vector generators that the roots are functions of, given the scores, as patterns."""

    def vectors_below(term: Term) -> Sequence[Term]:
        return () if is_vector_generator(term) else [a for a in term.args if a.width is not None]

    return demanded(roots, is_vector_generator, vectors_below)
