"""What a rule needs of its arguments."""

from __future__ import annotations

from netsor.errors import IllFormed
from netsor.ir import Term


def vector_argument(statement: str, term: Term) -> Term:
    """The term, which must be a vector."""
    if term.width is None:
        raise IllFormed(
            "NS309",
            statement=statement,
            hypothesis="this rule acts on a vector, and its argument is a scalar",
            repair="give it a vector(...), a matrix times a vector, or a function of those",
        )
    return term
