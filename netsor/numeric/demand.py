"""What a question needs of each family, decided before anything is drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from netsor.ir import Index, Slot, Term
from netsor.ops import Generator
from netsor.walks import canonical, generalise


def demanded(roots: Iterable[Term], wanted: Callable[[Term], bool], below: Callable[[Term], Sequence[Term]]) -> list[Term]:
    """For each family of wanted terms that the roots reach, its least general common pattern, in order of families.

    `below` says where the walk goes from a term. y[0] alone asks for p[a,0,j]; y[0] and y[1] together for p[a,i,j].
    """
    found: dict[bytes, list[Term]] = {}
    todo = [canonical(t)[0] for t in roots]
    seen: set[Term] = set()
    while todo:
        term = todo.pop()
        if term in seen:
            continue
        seen.add(term)
        if wanted(term):
            found.setdefault(term.family.key, []).append(term)
        todo.extend(canonical(child)[0] for child in below(term))
    patterns = [Term(ts[0].family, generalise([t.slots for t in ts])) for ts in found.values()]
    return sorted(patterns, key=lambda t: t.family.order)


def instance(pattern: Term, term: Term) -> dict[Slot, Slot]:
    """The letters of the pattern in terms of the letters of one of its instances."""
    return {p: t for p, t in zip(pattern.slots, term.slots, strict=True) if isinstance(p, Index)}


def is_vector_generator(term: Term) -> bool:
    return isinstance(term.op, Generator) and term.width is not None
