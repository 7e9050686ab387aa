"""Which dot products are legal: every term of the product needs a fresh form.

A form <l, W, r> (or <eps, b> with an initial vector eps) is fresh when its pivot W reaches neither l nor r through vector
edges. Scalars stay free parameters here: they are never evaluated, and a term with a vanishing coefficient still counts.
See docs/theory.md, Lemma 1 and Lemma 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Literal

from netsor import semantics
from netsor.algebra.moments import Moments
from netsor.algebra.patterns import Pattern, patterns, possible
from netsor.algebra.poly import Delta, Mono, Poly, atom, bind, total
from netsor.ir import Slot, Term, postorder
from netsor.ops import Along, Compare, Generator
from netsor.semantics import Pivot
from netsor.walks import canonical, generic

Verdict = Literal["diverges", "not fresh", "extrapolated"]
Reach = tuple[bytes, tuple[Slot | None, ...]]


@dataclass(frozen=True, slots=True)
class Violation:
    """A pattern of a score's letters at which some term of the product has no fresh form."""

    score: Term
    pattern: Pattern
    verdict: Verdict
    term: Mono
    mean: Poly


@dataclass(frozen=True, slots=True)
class Use:
    """A term with the masks under which it is used."""

    term: Term
    masks: tuple[Term, ...] = ()
    named: bool = False


class Pivots:
    """The pivots of the scores of one program."""

    def __init__(self, moments: Moments, is_zero: Callable[[Poly], bool] | None = None) -> None:
        self.moments = moments
        self.is_zero = is_zero or (lambda poly: not poly)
        self._reach: dict[bytes, frozenset[tuple[bytes, tuple[int | None, ...]]]] = {}

    # ---- what a vector is made of

    def reach(self, term: Term) -> set[Reach]:
        """The randomness that vector edges reach from a term, with the letters that tell copies apart (None: any)."""
        for family in postorder(term):
            if family.key in self._reach:
                continue
            out: set[tuple[bytes, tuple[int | None, ...]]] = set()
            letters = len(family.plates)
            for child, wires in family.children:
                if child.width is not None:
                    for source, at in self._reach[child.key]:
                        full = (None if k is None else wires[k] for k in at)
                        out.add((source, tuple(k if k is not None and k < letters else None for k in full)))
            at_root = generic(family)
            pivot = semantics.pivot(family.op, at_root)
            if pivot is not None:
                place = {s: k for k, s in enumerate(at_root.slots)}
                out.add((pivot.source, tuple(None if s is None else place[s] for s in pivot.letters)))
            self._reach[family.key] = frozenset(out)
        return {
            (source, tuple(None if k is None else term.slots[k] for k in at)) for source, at in self._reach[term.family.key]
        }

    def forms(self, m: Mono) -> Iterator[tuple[Pivot, set[Reach]]]:
        """Every atom that can be a pivot, with what the other factors reach."""
        for k, a in enumerate(m.atoms):
            pivot = semantics.pivot(a.op, a) if isinstance(a.op, Generator) else None
            if pivot is not None:
                others = [*m.atoms[:k], *m.atoms[k + 1 :], *([] if pivot.arg is None else [pivot.arg])]
                yield pivot, set().union(*(self.reach(o) for o in others))

    def fresh(self, m: Mono) -> list[bytes]:
        """The sources of all fresh forms of a term of the product."""
        return [p.source for p, others in self.forms(m) if not any(meets((p.source, p.letters), o) for o in others)]

    # ---- legality of one score

    def violations(self, use: Use) -> list[Violation]:
        """The patterns of letters, possible under the masks, at which the score is not legal."""
        found = []
        masks = (*use.masks, *use.term.args[2:])
        for pattern in patterns(use.term.slots):
            if possible(pattern, masks):
                score = use.term.at(pattern)
                bad = self.unfresh(score)
                if bad is not None:
                    found.append(self.verdict(use.term, pattern, score, bad))
        return found

    def unfresh(self, score: Term) -> Mono | None:
        """A term of the product, at distinct letters, that has no fresh form and does not vanish."""
        product = self.product(score)
        for m in product:
            for inner in patterns([*score.slots, *m.bound]):
                if any(inner[s] != s for s in score.slots):
                    continue  # another pattern of the score's own letters
                at = m.relabelled(inner, ())
                predicates = [s for s in at.scalars if isinstance(s.op, Compare)]
                if possible({s: s for s in at.letters}, predicates) and not self.fresh(at) and not self.vanishes(at):
                    return at
        return None

    def product(self, score: Term) -> Poly:
        """<g, h> multiplied out, initial vectors split into mean and fluctuation."""
        left, right, *_ = score.args
        return self.centred(self.moments.expand(left) * self.moments.expand(right))

    def centred(self, poly: Poly) -> Poly:
        out = Poly()
        for m in poly:
            pieces = Poly((Mono(m.number, (), m.scalars),))
            for a in m.atoms:
                mean = semantics.cumulant(a.op, (a,), self.moments) if isinstance(a.op, Generator) else Poly()
                pieces = pieces * atom(a) + pieces * mean
            out = out + bind(pieces, m.bound)
        return out

    def vanishes(self, m: Mono) -> bool:
        """Two Moments of limit 0 and of size O(n^{-1/2}): sqrt(n) theta theta' tends to 0 (docs/theory.md, Lemma 2)."""
        return sum(self.small(s) for s in m.scalars) >= 2

    def small(self, s: Term) -> bool:
        limit = semantics.limit(s.op, s, self.moments) if isinstance(s.op, Generator) else None
        if limit is None or limit:
            return False
        return all(self.fresh(t) for t in self.centred(self.moments.expand(s.args[0])))

    def verdict(self, score: Term, pattern: Pattern, at: Term, bad: Mono) -> Violation:
        left, right, *_ = at.args
        matrices = [
            (p.source, p.letters) for t in (left, right) if (p := semantics.pivot(t.op, t)) is not None and p.arg is not None
        ]
        if len(matrices) == 2 and not meets(*matrices):
            return Violation(score, pattern, "extrapolated", bad, Poly())
        mean = self.at_distinct_letters(self.moments.resolved(self.moments.expect(left, right)))
        return Violation(score, pattern, "not fresh" if self.is_zero(mean) else "diverges", bad, mean)

    def at_distinct_letters(self, poly: Poly) -> Poly:
        """The polynomial where different letters are different members."""
        return total(m for m in poly if not any(isinstance(s.op, Delta) for s in m.scalars))

    def candidates(self, score: Term) -> list[set[bytes]]:
        """For each term of the product, the sources that may serve as its pivot."""
        return [set(self.fresh(m)) or {p.source for p, _ in self.forms(m)} for m in self.product(score)]

    def order(self, scores: Sequence[Term]) -> dict[bytes, int] | None:
        """Ranks of the sources in one order in which the other factors of every score precede its pivot, if there is one.

        Terms with one candidate decide first; the others take the first candidate that leaves the order acyclic.
        """
        wanted: list[list[tuple[bytes, set[bytes]]]] = []
        for score in scores:
            for m in self.product(score):
                fresh = set(self.fresh(m))
                choices = [
                    (pivot.source, {source for source, _ in others} - {pivot.source})
                    for pivot, others in self.forms(m)
                    if pivot.source in fresh
                ]
                if choices:
                    wanted.append(choices)
                elif not self.vanishes(m):
                    return None
        before: dict[bytes, set[bytes]] = {}
        for choices in sorted(wanted, key=len):
            for source, factors in choices:
                trial = {**before, source: before.get(source, set()) | factors}
                if acyclic(trial):
                    before = trial
                    break
            else:
                return None
        return {source: k for k, source in enumerate(TopologicalSorter(before).static_order())}


def acyclic(graph: Mapping[bytes, set[bytes]]) -> bool:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError:
        return False
    return True


def meets(a: Reach, b: Reach) -> bool:
    """May the two be one source? Letters that stand for any member meet every letter."""
    return a[0] == b[0] and all(i is None or k is None or i == k for i, k in zip(a[1], b[1], strict=True))


def uses(roots: Mapping[str, Term]) -> list[Use]:
    """Every score with the letters and masks under which it is used, the named ones first."""
    found: dict[tuple[object, ...], Use] = {}
    todo = [Use(canonical(t)[0], (), True) for t in reversed(list(roots.values()))]
    seen: set[tuple[object, ...]] = set()
    while todo:
        use = todo.pop()
        key = (use.term, use.masks, use.named)
        if key in seen:
            continue
        seen.add(key)
        score = is_score(use.term)
        if score:
            found[key] = use
        _, args = use.term.open()
        masks = use.masks
        if isinstance(use.term.op, Along) and len(args) > 1:
            masks = (*masks, args[1])
        for child in args[:2] if score else args:
            mine = tuple(m for m in masks if set(m.slots) <= set(child.slots))
            todo.append(canonical_use(child, mine))
    return list(found.values())


def is_score(term: Term) -> bool:
    """A scalar generator that stays random."""
    return isinstance(term.op, Generator) and term.width is None and len(term.family.children) >= 2


def canonical_use(term: Term, masks: Sequence[Term]) -> Use:
    term_, back = canonical(term)
    to: dict[Slot, Slot] = {old: new for new, old in back.items()}
    return Use(term_, tuple(dict.fromkeys(m.at(to) for m in masks)))
