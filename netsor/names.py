"""What the user called the pieces of a program."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from functools import cached_property
from itertools import count, takewhile
from typing import TypeAlias

from netsor.ir import Family, Index, Member, Plate, Slot, Term, free_of, postorder
from netsor.ops import Param, Table
from netsor.rules.input import Input
from netsor.rules.matmul import MatMul, Record
from netsor.walks import generalise

DEPTH = 40  # operations inside each other in one line of a listing

Named: TypeAlias = tuple[str, tuple[Slot, ...]]


class Names:
    """What the user called the pieces of a program, and the letters of its plates.

    A variable names every instance of its term: with x = x[i] in the program x[j] and x[0] are names, but with only
    d = p[i,i] the diagonal of p has a name and p has none.
    """

    def __init__(self, variables: Mapping[str, Term]) -> None:
        self.variables = variables
        self._given: dict[bytes, list[Named]] = {}  # the most general name of a family first, then the first given
        for name, term in sorted(variables.items(), key=lambda item: -len(item[1].free)):
            self._given.setdefault(term.family.key, []).append((name, term.slots))
        self._letters: dict[str, dict[str, None]] = {}
        for i in (i for term in variables.values() for i in term.free if not hidden(i)):
            self._letters.setdefault(i.plate.name, {})[i.name] = None

    def of(self, term: Term, defining: str = "") -> Named | None:
        """The variable that the term is an instance of, and the slots to write behind its name; None without a name.

        defining: on the right of the statement that defines this variable, where only names before it may stand.
        """
        given = takewhile(lambda named: named[0] != defining, self._given.get(term.family.key, []))
        return next((known for named in given if (known := instance(named, term))), None)

    def variable(self, family: Family) -> str | None:
        """The most general variable that is an instance of the family."""
        given = self._given.get(family.key)
        return given[0][0] if given else None

    def shown(self, term: Term, defining: str = "") -> Named | None:
        """The same, with the automatic names of a listing."""
        automatic = self.shared.get(term.family.key)
        if automatic is None or automatic[0] == defining:
            return self.of(term, defining)
        return self.of(term, defining) or instance(automatic, term)

    @cached_property
    def shared(self) -> dict[bytes, Named]:
        """Automatic names: for what would be written more than once, or too deep in a line, and is not short."""
        families = postorder(*self.variables.values())
        uses: defaultdict[bytes, list[Term]] = defaultdict(list)  # instances that have no name, on the way down
        roots: defaultdict[bytes, list[Term]] = defaultdict(list)
        depth: defaultdict[bytes, int] = defaultdict(int)
        found: list[Term] = []
        for name, term in self.variables.items():
            if self.of(term, name) is None:
                roots[term.family.key].append(term)
        for family in reversed(families):  # users first
            written, level = uses[family.key], depth[family.key]
            if (len(written) > 1 or level > DEPTH) and not all(map(self.is_short, written)):
                written, level = [self.readable(Term(family, generalise([t.slots for t in written])))], 0
                found += written
            else:
                written = written + roots[family.key]
            for child in (child for term in written for child in term.args if self.of(child) is None):
                uses[child.family.key].append(child)
                depth[child.family.key] = max(depth[child.family.key], level + 1)
        names = (name for k in count(1) if (name := f"t{k}") not in self.taken)
        return {term.family.key: (name, term.slots) for name, term in zip(names, reversed(found), strict=False)}

    def is_short(self, term: Term) -> bool:
        """At most one operation on names, so that a name of its own would save nothing."""
        return all(not child.family.children or self.of(child) for child in term.args)

    # ---- letters

    @cached_property
    def taken(self) -> set[str]:
        """Names of variables, matrices, initial vectors, parameters and tables."""
        ops = (f.op for f in postorder(*self.variables.values()))
        objects = (op.matrix if isinstance(op, MatMul) else op for op in ops)
        return {*self.variables, *(o.name for o in objects if isinstance(o, Record | Input | Param | Table))}

    def letter(self, plate: Plate, avoid: Collection[str]) -> str:
        """A letter for the plate that is not in `avoid`: the user's, or else the plate's initial; then with primes."""
        used = self._letters.get(plate.name)
        names = (stem + "'" * k for k in count() for stem in used or plate.name[0])
        return next(name for name in names if name not in avoid and (used or name not in self.taken))

    def readable(self, term: Term) -> Term:
        """The term with the letters of interpreters replaced by the user's, those of its variable where it has one."""
        known = self.of(term)
        pattern = self.variables[known[0]].slots if known else term.slots
        taken = {i.name for i in term.free if not hidden(i)}
        to: dict[Slot, Slot] = {}
        for slot, given in zip(term.slots, pattern, strict=True):
            if hidden(slot) and slot not in to:
                fits = not hidden(given) and str(given) not in taken
                name = str(given) if fits else self.letter(slot.plate, taken)
                taken.add(name)
                to[slot] = Index(name, slot.plate)
        return term.at(to)

    def open(self, term: Term, scope: Collection[str]) -> tuple[tuple[Index, ...], tuple[Term, ...]]:
        """The letters bound at the root and the children under them, as `term.open()`, in letters that can be read.

        The letter of an entry that is kept is bound again where nothing else has it: softmax(p[i,j], over=j). Other
        letters differ from those in `scope`.
        """
        bound, args = term.open()
        inside = {i.name for child in args for i in child.free if i not in bound}
        kept = [s.name for s in term.own if isinstance(s, Index) and s.name not in inside]
        taken = {*scope, *inside, *(i.name for i in term.free)}
        to: dict[Slot, Slot] = {}
        for letter in bound:
            name = kept[0] if kept else self.letter(letter.plate, taken)
            taken.add(name)
            to[letter] = Index(name, letter.plate)
        return free_of(to.values()), tuple(child.at(to) for child in args)


def hidden(slot: Slot) -> bool:
    """A letter that an interpreter made."""
    return isinstance(slot, Index) and slot.name[0] in "#@"


def instance(named: Named, term: Term) -> Named | None:
    """The name with what the term has in its free letters, if the term is an instance of what is named."""
    name, pattern = named
    to: dict[Slot, Slot] = {s: s for s in pattern if isinstance(s, Member)}
    if any(to.setdefault(own, slot) != slot for own, slot in zip(pattern, term.slots, strict=True)):
        return None
    return name, tuple(to[i] for i in free_of(pattern))
