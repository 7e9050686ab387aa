"""Walks over families: canonical letters, common patterns, and rebuilding a program piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from netsor.ir import Family, Index, Member, Slot, Term, free_of, make, postorder
from netsor.ops import Op, Typical


def generic(family: Family) -> Term:
    """The family at canonical letters @0, @1, ..."""
    return Term(family, tuple(Index(f"@{k}", p) for k, p in enumerate(family.plates)))


def canonical(term: Term) -> tuple[Term, dict[Slot, Slot]]:
    """The term with its free letters named @0, @1, ... by first appearance, and the way back."""
    slots, back = renamed(term.slots)
    return Term(term.family, slots), back


@lru_cache(2**14)
def renamed(slots: tuple[Slot, ...]) -> tuple[tuple[Slot, ...], dict[Slot, Slot]]:
    to: dict[Slot, Slot] = {i: Index(f"@{k}", i.plate) for k, i in enumerate(free_of(slots))}
    return tuple(to.get(s, s) for s in slots), {new: old for old, new in to.items()}


def rebuild(
    root: Term,
    op: Callable[[Op], Op],
    slot: Callable[[Slot], Slot],
    memo: dict[bytes, Term],
    finish: Callable[[Term], Term] = lambda term: term,
) -> Term:
    """The term with every operation and letter replaced, and each piece finished; `memo` is shared between roots."""
    for family in postorder(root):
        if family.key not in memo:
            term = generic(family)
            bound, children = term.open()
            built = make(
                op(family.op),
                [slot(s) for s in term.own],
                [placed(memo[c.family.key], c, slot) for c in children],
                [b for b in map(slot, bound) if isinstance(b, Index)],
                family.width,
                [slot(s) for s in term.slots],
                family.origin,
            )
            memo[family.key] = finish(built)
    return placed(memo[root.family.key], root, slot)


def placed(new: Term, old: Term, slot: Callable[[Slot], Slot]) -> Term:
    """What became of a family, in the slots of the old term."""
    return new.at({slot(g): slot(s) for g, s in zip(generic(old.family).slots, old.slots, strict=True)})


def below(term: Term) -> tuple[Term, ...]:
    """The children, where an operation over an infinite plate sees member 0 for all."""
    bound, args = term.open()
    if not isinstance(term.op, Typical):
        return args
    to: dict[Slot, Slot] = {b: Member(b.plate, 0) for b in bound}
    return tuple(a.at(to) for a in args)


def generalise(instances: Sequence[tuple[Slot, ...]]) -> tuple[Slot, ...]:
    """The least general pattern of which all are instances (Plotkin 1970): equal columns share one letter."""
    letters: dict[tuple[Slot, ...], Slot] = {}
    for column in zip(*instances, strict=True):
        if column not in letters:
            fixed = len(set(column)) == 1 and not isinstance(column[0], Index)
            letters[column] = column[0] if fixed else Index(f"@{len(letters)}", column[0].plate)
    return tuple(letters[column] for column in zip(*instances, strict=True))
