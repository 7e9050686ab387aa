"""How much of a statement is proved, and by what."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from netsor import semantics
from netsor.algebra.growth import Class, Growths
from netsor.algebra.moments import Moments
from netsor.algebra.pivots import Pivots, acyclic, is_score
from netsor.ir import Family, Term, postorder
from netsor.ops import Generator, Typical
from netsor.walks import generic

Level = Literal["proved", "standard", "extrapolated"]


@dataclass(frozen=True, slots=True)
class Status:
    """The level and the theorem; an extrapolation says which step has no written proof."""

    level: Level
    theorem: str

    def __str__(self) -> str:
        return f"{self.level}: {self.theorem}"


ONE_LAYER = "Sakai, Karakida, Imaizumi 2025, Theorem 3.1; docs/theory.md, Lemma 1 and Proposition 3"
ONE_SCORE = "docs/theory.md, Lemma 1 and Proposition 3"
DEEP = "docs/theory.md, Theorem 4"
MANY_HEADS = "Hron et al. 2020 (Infinite attention), Theorem 3; docs/theory.md, Theorem 8"
NETSOR = "Yang 2019 (Tensor Programs I), Theorem 5.4"
NETSOR_PLUS = "Yang 2019, Appendix I (Netsor+); Yang 2020 (Tensor Programs III), Theorem 2.10"


def status_of(moments: Moments, pivots: Pivots, growths: Growths, term: Term, unfresh: Iterable[Family] = ()) -> Status:
    """`unfresh`: scores accepted without a fresh form because both sides are MatMul outputs of different matrices."""
    below = postorder(term)
    scores = [generic(f) for f in below if is_score(Term(f, ()))]
    keys = {f.key for f in unfresh}
    if any(s.family.key in keys for s in scores) or pivots.order(scores) is None:
        return Status("extrapolated", "docs/theory.md, Remark 6: no order of the pivots; fourth moments of the limit")
    if any(isinstance(f.op, Typical) for f in below):
        return Status("standard", MANY_HEADS)
    if outside(growths, term, "polynomial" if scores else "exponential"):
        return Status("extrapolated", "docs/theory.md, Growth: a function that grows faster than the theorems allow")
    if not scores:
        moment = any(isinstance(f.op, Generator) and f.width is None for f in below)
        return Status("standard", NETSOR_PLUS if moment else NETSOR)
    if not acyclic(dependence(below)):
        return Status("extrapolated", "docs/theory.md, Remark 5: a matrix is used again after a score that depends on it")
    later = any(is_score(Term(f, ())) for s in scores for f in postorder(*s.args))
    if later or not is_score(term):
        return Status("proved", DEEP)
    layer = all(semantics.source(a.op) is not None and a.family.children for a in term.args[:2])
    return Status("proved", ONE_LAYER if layer else ONE_SCORE)


def outside(growths: Growths, term: Term, largest: Class) -> bool:
    """Is any vector of which an average is taken beyond the class of functions for which there is a law of large numbers?
    Without scores it reaches to controlled functions (Theorem A), with scores to polynomially bounded ones (Theorem 4)."""
    allowed = ("polynomial", "exponential")[: 1 + (largest == "exponential")]
    averaged = [a for f in postorder(term) if isinstance(f.op, Generator) for a in generic(f).args]
    bounds = [growths.of(a) for a in (*averaged, term)]
    return any(m.pole is not None or growths.kind(m) not in allowed for m in bounds)


def certificate(growths: Growths, term: Term) -> str:
    """Which hypotheses on nonlinearities a vector meets, in words."""
    m = growths.of(term)
    kind = growths.kind(m)
    if m.tame and kind == "polynomial":
        return "pseudo-Lipschitz, certified"
    if m.pole is not None or kind == "quadratic":
        by = "integrable, but in no class of a theorem"
    elif kind == "exponential":
        by = "covered by Yang 2019 (Tensor Programs I), Theorem 5.4: controlled"
    elif m.jump:
        by = "covered where the Gram matrix of its arguments is nonsingular (docs/theory.md, Theorem B)"
    else:
        by = "covered by Yang 2020 (Tensor Programs III): polynomially bounded"
    said = (
        "not pseudo-Lipschitz"
        if m.jump or m.holder or m.pole is not None or kind != "polynomial"
        else "not certified pseudo-Lipschitz"
    )
    return f"{said}: outside the hypotheses of Sakai et al. 2025; {by}"


def dependence(families: Iterable[Family]) -> dict[bytes, set[bytes]]:
    """For each source, the sources that the vectors it acts on depend on, through vectors or scalars."""
    below: dict[bytes, set[bytes]] = {}
    graph: dict[bytes, set[bytes]] = {}
    for family in families:
        inner = set().union(*(below[c.key] for c, _ in family.children))
        own = semantics.source(family.op)
        if own is not None:
            graph.setdefault(own, set()).update(inner)
            inner.add(own)
        below[family.key] = inner
    return graph
