"""Coincidence patterns: which letters of a statement may be one member, and which predicates then hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from netsor.ir import Index, Member, Plate, Slot, Term
from netsor.ops import AND, NOT, OR, Compare, Const, Map

Pattern = dict[Slot, Slot]
LARGEST_CHECK = 20_000  # assignments of members tried when a mask is decided


def patterns(slots: Sequence[Slot]) -> Iterator[Pattern]:
    """Every way in which letters may coincide with each other or with the members named: letter -> representative.

    A partition into more classes than a plate has members does not occur.
    """
    plates: dict[Plate, list[Slot]] = {}
    for s in dict.fromkeys(slots):
        plates.setdefault(s.plate, []).append(s)
    choices = [
        [p for p in partitions(sorted(group, key=lambda s: isinstance(s, Index))) if fits(plate, p)]
        for plate, group in plates.items()
    ]
    for choice in product(*choices):
        yield {s: block[0] for blocks in choice for block in blocks for s in block}


def partitions(slots: Sequence[Slot]) -> Iterator[list[list[Slot]]]:
    """Set partitions of slots, members first; two members never share a block, and a member leads its block."""
    if not slots:
        yield []
        return
    *rest, last = slots
    for blocks in partitions(rest):
        for k, block in enumerate(blocks):
            if isinstance(last, Index):
                yield [*blocks[:k], [*block, last], *blocks[k + 1 :]]
        yield [*blocks, [last]]


def fits(plate: Plate, blocks: Sequence[Sequence[Slot]]) -> bool:
    return plate.extent is None or len(blocks) <= plate.extent


def possible(pattern: Mapping[Slot, Slot], masks: Sequence[Term], against: Term | None = None) -> bool:
    """Are there members, equal exactly where the pattern says, at which every mask is 1 (and `against` is 0)?

    A mask that cannot be decided (a table without values, too many members) counts as satisfiable.
    """
    letters = list(dict.fromkeys(pattern.values()))
    wanted = [*masks] if against is None else [*masks, ~against]
    if not wanted:
        return True
    named = [s.at for s in (*letters, *(s for m in wanted for s in m.slots)) if isinstance(s, Member)]
    largest = max(named, default=-1) + 1 + sum(isinstance(s, Index) for s in letters)  # beyond, members are alike
    ranges = []
    for s in letters:
        size = largest if s.plate.extent is None else min(s.plate.extent, largest)
        ranges.append([s.at] if isinstance(s, Member) else range(size))
    total = 1
    for r in ranges:
        total *= len(r)
    if total > LARGEST_CHECK:
        return True
    for values in product(*ranges):
        at = dict(zip(letters, values, strict=True))
        apart = all(at[s] != at[t] for k, s in enumerate(letters) for t in letters[:k] if s.plate == t.plate)
        if apart and all(truth(m.at(dict(pattern)), at) is not False for m in wanted):
            return True
    return False


def truth(mask: Term, at: Mapping[Slot, int]) -> bool | None:
    """The truth of a predicate at concrete members; None when it is not decided by the members alone."""
    op = mask.op
    if isinstance(op, Compare):
        left, right = ((s.at if isinstance(s, Member) else at.get(s)) for s in mask.own)
        if left is None or right is None:
            return None
        return {"!=": left != right, "<": left < right, "<=": left <= right}[op.relation]
    if isinstance(op, Map) and op.fn in (AND, OR, NOT):
        parts = [truth(a, at) for a in mask.args]
        if op.fn == NOT:
            return None if parts[0] is None else not parts[0]
        absorbing = op.fn == OR
        if absorbing in parts:
            return absorbing
        return None if None in parts else not absorbing
    return bool(op.value) if isinstance(op, Const) else None
