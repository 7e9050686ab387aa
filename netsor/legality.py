"""Everything that keeps a program from having a limit, said at the place where it is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, get_args

from netsor import listing
from netsor.algebra.moments import Moments
from netsor.algebra.patterns import patterns, possible
from netsor.algebra.pivots import Pivots, Use, Violation, uses
from netsor.errors import IllFormed, NetsorError, OutsideTheorem, located
from netsor.infinite.integrable import Integrability
from netsor.infinite.regularity import Regularity
from netsor.ir import Family, Index, Slot, Term, postorder
from netsor.names import Names
from netsor.rules.matmul import MatMul
from netsor.symbolic.printing import Text
from netsor.symbolic.reader import Reader
from netsor.walks import generic

Severity = Literal["refused", "extrapolated", "warning", "lint"]


@dataclass(frozen=True)
class Diagnostic:
    """One finding. `refused` keeps the program from having a limit; the others do not."""

    severity: Severity
    error: NetsorError

    @property
    def code(self) -> str:
        return self.error.code

    def __str__(self) -> str:
        return (
            str(self.error)
            if self.severity == "refused"
            else f"{self.severity}: {self.error.hypothesis}"
            + (f"\n  {'statement:':<12}{self.error.statement}" if self.error.statement else "")
        )


@dataclass
class Legality:
    """The checks of one program."""

    variables: Mapping[str, Term]
    moments: Moments = field(default_factory=Moments)

    @cached_property
    def regularity(self) -> Regularity:
        return Regularity(self.moments, self.variables)

    @cached_property
    def pivots(self) -> Pivots:
        return Pivots(self.moments, self.regularity.is_zero)

    @cached_property
    def names(self) -> Names:
        return Names(self.variables)

    @cached_property
    def uses(self) -> list[Use]:
        return uses(self.variables)

    @cached_property
    def found(self) -> dict[bytes, list[Violation]]:
        """For each score that is not fresh throughout, all patterns at which it is not."""
        found: dict[bytes, list[Violation]] = {}
        for use in self.uses:
            for v in self.pivots.violations(use):
                found.setdefault(v.score.family.key, []).append(v)
        return found

    @cached_property
    def violations(self) -> list[Violation]:
        """The worst for each score."""
        order = ("diverges", "not fresh", "extrapolated")
        return [min(vs, key=lambda v: order.index(v.verdict)) for vs in self.found.values()]

    @cached_property
    def unfresh(self) -> tuple[Family, ...]:
        """Scores accepted without a fresh form."""
        return tuple(v.score.family for v in self.violations if v.verdict == "extrapolated")

    @cached_property
    def diagnostics(self) -> list[Diagnostic]:
        found = list(self.growth())
        for more in (lambda: [*self.outside_masks(), *self.scores()], self.jumps):
            if not any(d.severity == "refused" for d in found):
                found += more()
        return sorted([*found, *self.lints()], key=lambda d: get_args(Severity).index(d.severity))

    # ---- findings

    def growth(self) -> Iterator[Diagnostic]:
        """Expectations that are infinite, before any is computed; and functions that grow exponentially."""
        for severity, family, error in Integrability(self.regularity, self.variables).check():
            yield Diagnostic(severity, self.placed(error, self.instances.get(family.key, generic(family))))

    def jumps(self) -> Iterator[Diagnostic]:
        for family, error in self.regularity.check():
            yield Diagnostic("refused", self.placed(error, self.instances[family.key]))

    def scores(self) -> Iterator[Diagnostic]:
        for v in self.violations:
            if v.verdict == "extrapolated":
                yield Diagnostic(
                    "extrapolated",
                    self.placed(
                        OutsideTheorem(
                            "NS102",
                            hypothesis="the score has no fresh form; both sides are MatMul outputs of different matrices, and "
                            "its limit is extrapolated (docs/theory.md, Remark 6)",
                        ),
                        v.score,
                    ),
                )
                continue
            yield Diagnostic("refused", self.placed(self.refusal(v), v.score))

    def refusal(self, v: Violation) -> OutsideTheorem:
        tied = self.tied(v)
        where = self.coincidence(v)
        why = (
            f"a score needs a fresh form: a matrix that reaches it on one side only{where}; here {tied} "
            "(docs/theory.md, Lemma 1)"
        )
        mean = Text()(Reader(self.moments, self.names).poly(v.mean)) if v.mean else "0"
        repair = self.repair(v)
        if v.verdict == "diverges":
            return OutsideTheorem(
                "NS101",
                hypothesis=why,
                consequence=f"the score grows like √n · m with m = {mean}",
                repair=repair,
            )
        return OutsideTheorem(
            "NS102",
            hypothesis=why,
            consequence="the score is centred, but fluctuations of lower layers enter at the same order: the fourth moment of "
            "the limit gives a wrong variance",
            repair=repair,
        )

    def tied(self, v: Violation) -> str:
        sources = {f.op.matrix.token: f.op.matrix.name for f in postorder(v.score) if isinstance(f.op, MatMul)}
        common = set()
        forms = list(self.pivots.forms(v.term))
        for pivot, others in forms:
            if pivot.source in sources and any(pivot.source == source for source, _ in others):
                common.add(sources[pivot.source])
        if common:
            return "both sides depend on " + ", ".join(sorted(common))
        return "a term of the product has no factor that is a fresh matrix times a vector"

    def coincidence(self, v: Violation) -> str:
        pairs = [(old, new) for old, new in v.pattern.items() if old != new]
        if not pairs:
            return ""
        shown = {i.name: self.shown(v.score, i) for i in v.score.free}
        equal = ", ".join(f"{shown.get(str(a), a)} = {shown.get(str(b), b)}" for a, b in pairs)
        return f", also where {equal}"

    def shown(self, score: Term, letter: Slot) -> str:
        """A letter of a canonical score as the user wrote it."""
        return str(self.names.readable(score).slots[score.slots.index(letter)])

    def repair(self, v: Violation) -> str:
        coincident = [(old, new) for old, new in v.pattern.items() if old != new]
        elsewhere = any(all(a == b for a, b in w.pattern.items()) for w in self.found[v.score.family.key])
        if coincident and not elsewhere:
            (old, new), *_ = coincident
            i, j = self.shown(v.score, new), self.shown(v.score, old)
            return f"if these entries are not needed: dot(..., where=distinct({i}, {j})), and mask every use"
        if v.verdict == "diverges":
            return "use two independent matrices; or the 1/n score mean(g * h), which has a deterministic limit"
        return "use two independent matrices; or a fresh one on one side, dot(W @ g, h); or the Moment mean(g * h)"

    def outside_masks(self) -> Iterator[Diagnostic]:
        """Entries of a score outside its own mask that are used without one."""
        for use in self.uses:
            whole = use.named and len(set(use.term.free)) == len(use.term.slots)  # the score itself, not some entries of it
            if whole or len(use.term.args) < 3:
                continue
            mask = use.term.args[2]
            if any(possible(p, use.masks, mask) for p in patterns(use.term.slots)):
                error = IllFormed(
                    "NS308",
                    hypothesis="entries of a score outside its `where` do not exist, and here some are used",
                    repair="give the use the same mask: softmax(p, over=j, where=...), sum_over(..., where=...)",
                )
                yield Diagnostic("refused", self.placed(error, use.term))

    def lints(self) -> Iterator[Diagnostic]:
        for use in self.uses:
            left, right = use.term.args[:2]
            shared = [i for i in argument_letters(left) if i in argument_letters(right)]
            if shared:
                error = IllFormed(
                    "NS302",
                    hypothesis="both arguments of dot have the same index: these are diagonal scores only; for all pairs index "
                    "one side by another letter, as in dot(q, k[j])",
                )
                yield Diagnostic("lint", self.placed(error, use.term))

    # ---- words

    @cached_property
    def instances(self) -> dict[bytes, Term]:
        """For each family a term as it stands in the program, with its members and coincident letters."""
        found: dict[bytes, Term] = {}
        todo = list(self.variables.values())
        while todo:
            term = todo.pop()
            if term.family.key not in found:
                found[term.family.key] = term
                todo += term.args
        return found

    def placed(self, error: NetsorError, term: Term) -> NetsorError:
        """The error with the statement and the place of a term."""
        found = self.names.of(term)
        shown = self.variables[found[0]] if found else self.names.readable(term)
        lines = listing.window(self.variables, shown)
        error.statement = listing.statement(shown, self.names, name=found[0] if found else None)
        error.place = "\n".join(filter(None, (located(term.family.origin), lines)))
        return error


def argument_letters(side: Term) -> tuple[Index, ...]:
    """Letters of a side of a score that it does not have from a matrix."""
    of_matrices = set(side.own) if isinstance(side.op, MatMul) else set()
    return tuple(i for i in side.free if i not in of_matrices)
