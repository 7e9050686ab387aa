"""One variable of a limit: its kind, its formulas, its text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from netsor.algebra.forms import shared_with
from netsor.algebra.members import split
from netsor.algebra.moments import Moments, leaf_of
from netsor.algebra.pivots import is_score
from netsor.algebra.poly import Poly
from netsor.algebra.scores import score_covariance
from netsor.algebra.status import Status
from netsor.checks import index_error
from netsor.ir import Index, Member, Slot, Term
from netsor.ops import Generator
from netsor.symbolic import tree as t
from netsor.symbolic.printing import Latex, Text
from netsor.symbolic.reader import Reader
from netsor.symbolic.tree import Sym, Tree

if TYPE_CHECKING:
    from netsor.symbolic.derive import Derivation

Expand = Literal["E", "closed", "numbers"]
EXPANSIONS = ("E", "closed", "numbers")
Kind = Literal["Gaussian", "conditional", "score", "constant", "map"]
AFFINE = ("Gaussian", "conditional")


@dataclass(frozen=True)
class Variable:
    """One variable of the limit. `print(variable)`, `.latex()`, `.explain()`, and sympy forms of the same formulas.

    kind: Gaussian (affine in Gaussian atoms, constant coefficients), conditional (affine given the scores), score
    (Gaussian given earlier scores, independent of the Gaussian atoms of every vector), constant, or map.
    """

    name: str
    term: Term
    reader: Reader
    status: Status
    context: Derivation

    # ---- what it is

    @cached_property
    def given(self) -> bool:
        """Does the law involve (earlier) scores?"""
        parts = self.term.args[:2] if is_score(self.term) else [self.term]
        return any(self.moments.scored(t) for t in parts)

    @cached_property
    def kind(self) -> Kind:
        if is_score(self.term):
            return "score"
        if self.term.width is not None:
            if not self.moments.affine(self.term):
                return "map"
            return "conditional" if self.given else "Gaussian"
        return "map" if self.given else "constant"

    @property
    def moments(self) -> Moments:
        return self.reader.moments

    @property
    def rule(self) -> str:
        """The rule that makes the variable: Input, MatMul, Dot, Mean, or Nonlin for a map of others."""
        op = self.term.op
        return type(op).__name__ if isinstance(op, Generator) else "LinComb" if self.kind in AFFINE else "Nonlin"

    # ---- formulas as trees

    @cached_property
    def primed(self) -> Term:
        return self.term.at({i: i.prime for i in self.term.free})

    @property
    def letters(self) -> dict[Slot, str]:
        """The letters in use, so that bound ones stay apart from all of them."""
        return {s: str(s) for s in (*self.term.slots, *self.primed.slots)}

    def symbol(self, term: Term | None = None) -> Sym:
        """The variable, or an instance of it, with its free letters: t[i] for t = x[i, 0]."""
        return Sym(self.name, self.reader.kind(self.term), tuple(map(str, (self.term if term is None else term).free)))

    @cached_property
    def limit_tree(self) -> Tree:
        """Z of the variable (or the scalar's limit) in terms of the variables it is made of."""
        if isinstance(self.term.op, Generator) and self.term.width is None and not is_score(self.term):
            return self.reader.poly(self.moments.expect(self.term.args[0]), self.letters)
        return self.reader.term(self.term, opened=True)

    @cached_property
    def mean_poly(self) -> Poly:
        return self.moments.expect(self.term) if self.term.width is not None else Poly()

    @cached_property
    def covariance_poly(self) -> Poly | None:
        """Second moment minus product of means, given the scores; None for a scalar that is no score."""
        if is_score(self.term):
            return score_covariance(self.moments, self.term, self.primed)
        if self.term.width is None:
            return None
        second = self.moments.define(leaf_of([self.term, self.primed]))  # one step, even where a name would stop it
        if second is None:
            second = self.moments.expect(self.term, self.primed)
        means = self.mean_poly * self.moments.expect(self.primed)
        return second + means.scaled(-1)

    @cached_property
    def covariance_tree(self) -> Tree | None:
        return None if self.covariance_poly is None else self.reader.poly(self.covariance_poly, self.letters)

    @cached_property
    def mean_tree(self) -> Tree:
        return self.reader.poly(self.mean_poly, self.letters)

    # ---- sympy

    @cached_property
    def sympy(self) -> Any:
        """The limit of the variable as a sympy expression of the variables it is made of."""
        from netsor.symbolic.sympy_form import to_sympy

        return to_sympy(self.limit_tree)

    @cached_property
    def mean(self) -> Any:
        """E Z given the scores, as a sympy expression; 0 for a score."""
        from netsor.symbolic.sympy_form import to_sympy

        return to_sympy(self.mean_tree)

    @cached_property
    def cov(self) -> Any:
        """Cov of the variable at its indices and at primed indices, given the (earlier) scores, as a sympy expression."""
        from netsor.symbolic.sympy_form import to_sympy

        return None if self.covariance_tree is None else to_sympy(self.covariance_tree)

    # ---- text

    def lines(self, style: Text) -> list[str]:
        """The statements of the law."""
        left, right = style(self.symbol()), style(self.symbol(self.primed))
        if self.kind in ("constant", "map") and self.term.width is None:
            return [style.equation(left, style(self.limit_tree))]
        if self.kind == "map":
            return [style.equation(left, style(self.limit_tree)), *self.moment_lines(style)]
        assert self.covariance_tree is not None
        if self.partners:
            return self.joint_lines(style, left, right)
        if isinstance(self.term.op, Generator):
            first = style.law(left, style(self.mean_tree), self.given)
        else:
            first = style.equation(left, style(self.limit_tree))
        return [first, style.covariance(left, right, self.given, style(self.covariance_tree)), *self.split_lines(style, left)]

    def moment_lines(self, style: Text) -> list[str]:
        """E Z and E[Z Z'] of a nonlinear vector in closed form, where that is asked for and there is one."""
        if self.context.closed is None:
            return []
        leaves = [leaf_of([self.term]), leaf_of([self.term, self.primed])]
        left = [style(t.Mean(tuple(self.symbol(x) for x in leaf.args), self.given)) for leaf in leaves]
        right = [self.second_moment(leaf, self.letters) for leaf in leaves]
        return [style.equation(a, style(b)) for a, b in zip(left, right, strict=True) if b is not None]

    def second_moment(self, leaf: Term, letters: Mapping[Slot, str]) -> Tree | None:
        """An expectation of this variable in closed form."""
        assert self.context.closed is not None
        defined = self.moments.define(leaf)
        if defined is not None:
            return self.reader.poly(defined, letters)
        return self.context.closed.kernel(self.reader, leaf, letters)

    def split_lines(self, style: Text, left: str) -> list[str]:
        """Where the conditional variance is an average over a plate: its second moment at every size of the plate."""
        if not self.given:
            return []
        found = split(self.moments, self.moments.define(leaf_of([self.term, self.term])) or Poly())
        if found is None:
            return []
        letter = self.reader.names.letter(found.plate, {str(s) for s in self.term.slots})
        member = style(self.reader.poly(found.member, self.letters | {found.letter: letter}))
        shared = style(self.reader.poly(found.shared, self.letters)) if found.shared else ""
        return style.split(left, shared, found.plate.symbol or f"N_{found.plate.name}", letter, member)

    @cached_property
    def partners(self) -> list[Variable]:
        """Earlier scores, of those that have a name, that share a matrix with this one."""
        if not is_score(self.term):
            return []
        shared = {p.family for p in shared_with(self.moments, self.context.pivots, self.term)}
        return [v for v in self.context.derived.values() if v.term.family in shared]

    def joint_lines(self, style: Text, left: str, right: str) -> list[str]:
        """A score that shares a matrix with earlier ones: Gaussian given them, by regression with this kernel."""
        assert self.covariance_tree is not None
        partners = [style(v.symbol()) for v in self.partners]
        lines = [style.regression(left, partners), style.kernel(left, right, style(self.covariance_tree))]
        for v in self.partners:
            cross = score_covariance(self.moments, self.term, v.primed)
            letters = self.letters | v.letters
            lines.append(style.kernel(left, style(v.symbol(v.primed)), style(self.reader.poly(cross, letters))))
        return lines

    def __str__(self) -> str:
        head = f"{self.name}  {self.kind}, {self.rule}, {self.status}"
        return "\n".join([head, *(f"    {line}" for line in self.lines(Text()))])

    def expanded(self, expand: Expand) -> Variable:
        """The same variable with its expectations written in another way."""
        return self.context.expanded(expand).derived[self.name]

    def text(self, expand: Expand = "E") -> str:
        """As `print`, with irreducible expectations as E[..] ("E"), in closed form where there is one ("closed"), or moreover
        with bound sizes, sigmas and parameters as numbers ("numbers")."""
        return str(self.expanded(expand))

    def latex(self, expand: Expand = "E") -> str:
        r"""The statements in LaTeX, joined by `\\`, without dollars."""
        return r" \\ ".join(self.expanded(expand).lines(Latex()))

    def kernel(self, *where: Any, expand: Expand = "closed") -> Any:
        """E[Z_i Z_k | p°] as a sympy expression; of a score, its covariance.

        where: the indices of the first, then those of the second, each a letter or a member: `L["h"].kernel("i", "k")`,
        `L["h"].kernel(0, 1)`; nothing stands for the variable's own letters and primed ones. Symbols K_g[i, k] are
        covariances of the variable g, m_g[i] its means (given the scores).
        Raises: NS302 for another number of indices.
        """
        from netsor.symbolic.sympy_form import to_sympy

        free = self.term.free
        slots = where or (*free, *(i.prime for i in free))
        if len(slots) != 2 * len(free):
            raise index_error(
                f"kernel({', '.join(map(str, where))}) of {self.name}",
                f"a kernel has the indices of {self.name} twice: {2 * len(free)} in all",
                f"L[{self.name!r}].kernel({', '.join(f'{i}' for i in (*free, *(i.prime for i in free)))})",
            )
        first, second = (
            self.term.at({i: placed_at(i, s) for i, s in zip(free, half, strict=True)})
            for half in (slots[: len(free)], slots[len(free) :])
        )
        shown = {s: str(s) for s in (*first.slots, *second.slots)}
        there = self.context.expanded(expand).derived[self.name]
        if is_score(self.term):
            return to_sympy(there.reader.poly(score_covariance(self.moments, first, second), shown))
        closed = there.second_moment(leaf_of([first, second]), shown) if there.context.closed else None
        return to_sympy(closed or there.reader.poly(self.moments.expect(first, second), shown))

    def _repr_latex_(self) -> str:
        return r"$\displaystyle \begin{array}{l}" + self.latex() + r"\end{array}$"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def explain(self) -> str:
        """The derivation in order: each variable below, its statement, the rule and what it says."""
        return self.context.explain(self.name)


def placed_at(letter: Index, where: Any) -> Slot:
    """A letter by its name, an index, or a member by its number, over the plate of a letter."""
    if isinstance(where, str):
        return Index(where, letter.plate)
    return where if isinstance(where, Index | Member) else Member(letter.plate, where)
