"""Walks over families: canonical letters, common patterns, and rebuilding a program piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from netsor.ir import Family, Index, Slot, Term, make, postorder
from netsor.ops import Op


def generic(family: Family) -> Term:
    """The family at canonical letters @0, @1, ..."""
    return Term(family, tuple(Index(f"@{k}", p) for k, p in enumerate(family.plates)))


def canonical(term: Term) -> tuple[Term, dict[Slot, Slot]]:
    """The term with its free letters named @0, @1, ... by first appearance, and the way back."""
    to: dict[Slot, Slot] = {i: Index(f"@{k}", i.plate) for k, i in enumerate(term.free)}
    return term.at(to), {new: old for old, new in to.items()}


def rebuild(root: Term, op: Callable[[Op], Op], slot: Callable[[Slot], Slot], memo: dict[bytes, Term]) -> Term:
    """The term with every operation and every letter replaced; `memo` is shared between roots."""
    for family in postorder(root):
        if family.key not in memo:
            term = generic(family)
            bound, children = term.open()
            memo[family.key] = make(
                op(family.op),
                [slot(s) for s in term.own],
                [placed(memo[c.family.key], c, slot) for c in children],
                [b for b in map(slot, bound) if isinstance(b, Index)],
                family.width,
                [slot(s) for s in term.slots],
                family.origin,
            )
    return placed(memo[root.family.key], root, slot)


def placed(new: Term, old: Term, slot: Callable[[Slot], Slot]) -> Term:
    """The new family in the slots of the old term."""
    return Term(new.family, tuple(slot(s) for s in old.slots))


def generalise(instances: Sequence[tuple[Slot, ...]]) -> tuple[Slot, ...]:
    """The least general pattern of which all are instances (Plotkin 1970): equal columns share one letter."""
    letters: dict[tuple[Slot, ...], Slot] = {}
    for column in zip(*instances, strict=True):
        if column not in letters:
            fixed = len(set(column)) == 1 and not isinstance(column[0], Index)
            letters[column] = column[0] if fixed else Index(f"@{len(letters)}", column[0].plate)
    return tuple(letters[column] for column in zip(*instances, strict=True))
