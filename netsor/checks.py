"""Small checks of what the user hands in, and where it was written."""

from __future__ import annotations

import math
import operator
import re
from fractions import Fraction
from typing import Any, TypeAlias

from netsor.errors import IllFormed

Number: TypeAlias = int | float | Fraction


def number(value: Any, what: str = "a constant") -> Number:
    """An exact or floating number, finite; anything else is refused."""
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        value = value.item()
    if getattr(value, "is_Rational", False) and not isinstance(value, int | float | Fraction):
        value = Fraction(int(value.p), int(value.q))
    if isinstance(value, Fraction) and value.denominator == 1:
        value = int(value)
    exact = getattr(value, "is_number", False) and getattr(value, "is_real", False)  # such as sympy's sqrt(2)
    if isinstance(value, bool) or not (isinstance(value, int | float | Fraction) or exact):
        raise IllFormed(
            "NS309",
            statement=f"{value!r} as {what}",
            hypothesis="a program is made of terms and real numbers",
            repair="use a number, a term, a param(...) or a table(...)",
        )
    if not math.isfinite(value):
        raise IllFormed("NS306", statement=f"{value!r} as {what}", repair="use a finite number")
    result: Number = value
    return result


def identifier(name: object, what: str) -> None:
    if not isinstance(name, str) or not re.fullmatch(r"[^\W\d]\w*", name):
        raise IllFormed(
            "NS309",
            statement=f"{name!r} as the name of {what}",
            hypothesis="a name is a letter followed by letters, digits and underscores",
            repair="choose such a name",
        )


def symbolic(symbol: object, what: str) -> None:
    """A name that formulas print, which may be LaTeX such as \\ell or N_{k}; neither HTML nor a macro with arguments."""
    if not isinstance(symbol, str) or not re.fullmatch(r"\\?[^\W\d]\w*(_\{\w+\})?'*", symbol):
        raise IllFormed(
            "NS309",
            statement=f"{symbol!r} as the symbol of {what}",
            hypothesis="a symbol is a name, such as s, N_k, N_{k} or \\ell",
            repair="choose such a symbol",
        )


def index_error(statement: str, hypothesis: str, repair: str) -> IllFormed:
    return IllFormed("NS302", statement=statement, hypothesis=hypothesis, repair=repair)


def text_of(value: Number) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def whole(value: Any) -> int | None:
    """An integer of any library as Python's own; None for anything else, bool included."""
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return int(value) if getattr(value, "is_Integer", False) else None
