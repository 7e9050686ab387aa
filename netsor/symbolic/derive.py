"""The derived laws of all variables of a program, and how they were derived."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from netsor import listing
from netsor.algebra.growth import Growths
from netsor.algebra.moments import Moments, gaussian
from netsor.algebra.pivots import Pivots, is_score
from netsor.algebra.status import certificate, status_of
from netsor.errors import IllFormed
from netsor.ir import Family, Term, postorder
from netsor.names import Names
from netsor.ops import Along, Generator
from netsor.rules.input import Input
from netsor.symbolic.printing import Text
from netsor.symbolic.reader import Reader
from netsor.symbolic.variable import AFFINE, EXPANSIONS, Expand, Variable

if TYPE_CHECKING:
    from netsor.symbolic.closed import ClosedForms


@dataclass(frozen=True)
class Derivation:
    """The derived laws of all variables of one program."""

    variables: Mapping[str, Term]
    moments: Moments
    pivots: Pivots
    unfresh: tuple[Family, ...]
    expand: Expand = "E"

    def expanded(self, expand: Expand) -> Derivation:
        """The same with expectations written in another way."""
        if expand not in EXPANSIONS:
            raise IllFormed(
                "NS311",
                statement=f"expand={expand!r}",
                hypothesis="formulas are written in three ways",
                repair=f"one of {EXPANSIONS}",
            )
        if expand == self.expand:
            return self
        if expand not in self._others:
            self._others[expand] = replace(self, expand=expand)
        return self._others[expand]

    @cached_property
    def _others(self) -> dict[str, Derivation]:
        return {}

    @cached_property
    def names(self) -> Names:
        return Names(self.variables)

    @cached_property
    def reader(self) -> Reader:
        return Reader(self.moments, self.names, self.closed, self.expand == "numbers")

    @cached_property
    def closed(self) -> ClosedForms | None:
        if self.expand == "E":
            return None
        from netsor.symbolic.closed import ClosedForms

        return ClosedForms(self.moments)

    @cached_property
    def growths(self) -> Growths:
        return Growths(self.moments)

    @cached_property
    def derived(self) -> dict[str, Variable]:
        return {
            name: Variable(
                name, term, self.reader, status_of(self.moments, self.pivots, self.growths, term, self.unfresh), self
            )
            for name, term in self.variables.items()
        }

    def __str__(self) -> str:
        lines = "\n".join(str(v) for v in self.derived.values())
        return lines if self.expand == "E" else f"{lines}\n{LEGEND}"

    def explain(self, name: str) -> str:
        below = {f.key for f in postorder(self.variables[name])}
        steps = [v for v in self.derived.values() if v.term.family.key in below]
        out: list[str] = []
        for k, v in enumerate(steps, 1):
            out.append(f"{k}. {listing.statement(v.term, self.names, name=v.name)}")
            out += [f"     {line}" for line in (*self.reasons(v), *v.lines(Text()))]
        return "\n".join(out)

    def reasons(self, v: Variable) -> Iterable[str]:
        op = v.term.op
        if isinstance(op, Input):
            yield "initial vector" + ("" if gaussian(v.term) else f", coordinates {op.law and op.law.name}")
        elif is_score(v.term):
            yield from self.pivot_reasons(v.term)
        elif isinstance(op, Generator):
            yield RULES[type(op).__name__]
        elif v.term.width is not None:
            yield RULES["LinComb" if v.kind in AFFINE else "Nonlin"]
            if v.kind not in AFFINE:
                yield certificate(self.growths, v.term)
        else:
            yield RULES["Along"] if isinstance(op, Along) else RULES["Map"]
        yield str(v.status)

    def pivot_reasons(self, score: Term) -> Iterable[str]:
        sources: dict[bytes, str] = {}
        for f in postorder(score):
            token, record = getattr(f.op, "token", None), getattr(f.op, "matrix", None)
            if record is not None:
                sources[record.token] = record.name
            elif token is not None:
                sources[token] = f.op.name  # type: ignore[attr-defined]
        pivots = [sorted(sources[s] for s in choices) for choices in self.pivots.candidates(score)]
        shown = "; ".join(" or ".join(names) for names in dict.fromkeys(map(tuple, pivots)))
        yield f"DotProduct: every term of the product has a fresh form, with pivot {shown}"
        yield "given everything else it is Gaussian; it is independent of the Gaussian atoms of every vector"


LEGEND = (
    "K_v: covariance of Z^v, m_v: mean of Z^v (both given the scores); Φ₂(h, k; r): P(U ≤ h, V ≤ k), correlation r; "
    "where a denominator vanishes, the limit"
)

RULES = {
    "MatMul": "MatMul: centred Gaussian, covariance sigma^2 E[Z^x Z^y]; other matrices and copies are independent",
    "Mean": "Moment: the average over coordinates tends to the expectation of Z given the scores",
    "LinComb": "a combination of Gaussian atoms with scalar coefficients",
    "Nonlin": "Nonlin: the function of the limits, coordinate by coordinate",
    "Map": "a continuous function of scalars: the function of their limits",
    "Along": "a function along a plate, of the limits of its entries",
}
