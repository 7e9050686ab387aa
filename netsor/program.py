"""A program: named terms. It is a listing, it can be checked, bound, unrolled, and asked for its limit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from netsor import graph, listing
from netsor.binding import bind
from netsor.checks import identifier
from netsor.data.read import variables_of
from netsor.data.write import text_of
from netsor.errors import IllFormed, located
from netsor.ir import Family, Plate, Term, postorder
from netsor.legality import Diagnostic, Legality
from netsor.limit import Limit
from netsor.ops import Param, Table
from netsor.rules.input import Input
from netsor.rules.matmul import MatMul
from netsor.unroll import unroll

if TYPE_CHECKING:
    import networkx


class Program(Mapping[str, Term]):
    """A name and the variables of a computation, in the order given.

    `Program("attention", x=x, p=p, y=y)`; `program["p"]` is the term, `str(program)` the listing.
    Raises: NS301 for one name with two meanings, NS309 for something that is not a term.
    """

    def __init__(self, name: str, /, **variables: Term) -> None:
        identifier(name, "a program")
        self.name = name
        self._variables: dict[str, Term] = {}
        for key, term in variables.items():
            identifier(key, "a variable")
            if not isinstance(term, Term):
                raise IllFormed(
                    "NS309",
                    statement=f"{key}={type(term).__name__}",
                    hypothesis="a variable of a program is a term",
                    repair="for a matrix name its products; for a number use a param(...)",
                )
            self._variables[key] = term
        if not self._variables:
            raise IllFormed(
                "NS309",
                statement=f"Program({name!r})",
                hypothesis="a program has at least one variable",
                repair=f"Program({name!r}, y=y)",
            )
        check_names(self._variables)

    # ---- a mapping

    def __getitem__(self, name: str) -> Term:
        if name not in self._variables:
            raise IllFormed(
                "NS311",
                statement=f"{name!r} in program {self.name}",
                hypothesis="there is no variable of that name",
                repair="the variables are " + ", ".join(self._variables),
            )
        return self._variables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._variables)

    def __len__(self) -> int:
        return len(self._variables)

    def __contains__(self, name: object) -> bool:
        return name in self._variables

    def __str__(self) -> str:
        return listing.listing(self.name, self._variables)

    def __repr__(self) -> str:
        return f"<Program {self.name}: {', '.join(self._variables)}>"

    def _repr_html_(self) -> str:
        return listing.html(self.name, self._variables)

    # ---- as data

    def to_json(self) -> str:
        """The program as JSON text, one record a line; see docs/runs.md.

        Raises: NS310 for a function or a law that is Python code, by its name.
        """
        return text_of(self.name, self._variables)

    @classmethod
    def from_json(cls, text: str, source: str = "JSON") -> Program:
        """The program of a text of `to_json`. Nothing in the text is executed.

        source: what messages call the text.  Raises: NS310 with the place for what is no program; errors of the rules.
        """
        name, variables = variables_of(text, source)
        return cls(name, **variables)

    # ---- other programs

    def at(self, /, **values: Any) -> Program:
        """The program with plate sizes, parameters and tables bound by name.

        Raises: NS311 for a name that nothing has, NS304 for one that is bound already, NS203 for a plate taken to
        infinity.
        """
        return Program(self.name, **bind(self._variables, values))

    def unroll(self) -> Program:
        """The same program without plates: one variable for each member, one matrix for each copy, sums written out."""
        return Program(self.name, **unroll(self._variables))

    # ---- readings

    @cached_property
    def _legality(self) -> Legality:
        return Legality(self._variables)

    def graph(self) -> networkx.DiGraph:
        """The families below the variables as a networkx.DiGraph; see netsor.graph.digraph."""
        return graph.digraph(self._variables)

    def check(self) -> list[Diagnostic]:
        """Everything that keeps the program from having a limit, and lints; never raises."""
        return self._legality.diagnostics

    def limit(self) -> Limit:
        """The infinite-width limit of every variable. Raises: OutsideTheorem, with the diagnostics of `check`."""
        return Limit(self.name, self._legality)


def check_names(variables: Mapping[str, Term]) -> None:
    """One name, one meaning: two objects of one name would be tied by accident, or kept apart by accident."""
    meanings: dict[str, object] = {}
    for family in postorder(*variables.values()):
        for name, meaning in named_things(family):
            if meanings.setdefault(name, meaning) != meaning:
                raise IllFormed(
                    "NS301",
                    statement=f"two things named {name}: {described(meanings[name])} and {described(meaning)}",
                    place=located(family.origin),
                    hypothesis="a name stands for one thing: two objects of one name are independent, and would be confused in "
                    "every formula",
                    repair=f"make {name} once and use it twice (tied), or give the second another name (independent)",
                )


def named_things(family: Family) -> Iterator[tuple[str, object]]:
    """The names of a family at its root, and what tells their bearers apart."""
    op = family.op
    for plate in (*family.plates, *family.bound):
        yield plate.name, plate
    record = op.matrix if isinstance(op, MatMul) else op if isinstance(op, Input) else None
    if record is not None:
        yield record.name, record.token
    for inner in (op, getattr(record, "sigma", None), getattr(record, "mean", None)):
        if isinstance(inner, Param | Table):
            yield inner.name, inner


def described(meaning: object) -> str:
    if isinstance(meaning, Plate):
        return f"a plate of size {meaning.extent}"
    return "a matrix or vector" if isinstance(meaning, bytes) else f"a {type(meaning).__name__.lower()}"
