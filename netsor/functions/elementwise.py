"""A user's own nonlinearity."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from netsor.checks import identifier
from netsor.errors import IllFormed
from netsor.ir import Function
from netsor.ops import Growth


@dataclass(frozen=True, slots=True)
class Formula:
    """A sympy Lambda as the expression of a function; unlike code it can be written down as data."""

    function: Any

    def __call__(self, sp: Any, *args: Any) -> Any:
        return self.function(*args)


def elementwise(
    f: Callable[..., Any],
    *,
    name: str | None = None,
    kinks: Sequence[float] = (),
    jumps: Sequence[float] = (),
    growth: str | int | Growth | None = None,
) -> Function:
    """f applied coordinate by coordinate; f is a sympy Lambda or a function of numpy arrays.

    kinks, jumps: where a function of one argument is not smooth or not continuous; expectations are split there. Those of a
    sympy Lambda are found by its structure too, and so is its growth.
    growth: "bounded", "polynomial", a degree, or "exponential" (at most exp(C |x|)); without it the growth of a plain callable
    is taken on trust, and the check of a program says so. A constant f gives a vector all the same.
    Raises: NS309 for what cannot be called (text is never evaluated), NS306 for another growth.
    """
    if isinstance(f, str) or not callable(f):
        raise IllFormed(
            "NS309",
            statement=f"elementwise({f!r})",
            hypothesis="a nonlinearity is a sympy Lambda or a function of arrays; text is never evaluated",
            repair="elementwise(numpy.arctan), or elementwise(sympy.Lambda(t, sympy.atan(t)))",
        )
    said = growth if isinstance(growth, Growth) else Growth(tame=False, trusted=True) if growth is None else growth_of(growth)
    variables = getattr(f, "variables", None)
    expression = getattr(f, "expr", None)
    grows: Growth | Callable[..., Any] = said
    sympy_of: Formula | None = None
    if variables is not None and expression is not None:
        import sympy

        from netsor.functions import lambdas

        arity: int | None = len(variables)
        evaluate = sympy.lambdify(list(variables), expression, "numpy")
        check_evaluates(f, evaluate, len(variables))
        sympy_of = Formula(f)
        name = name or "f"
        if growth is None and lambdas.known(variables, expression):
            grows = lambdas.growing(variables, expression)
        if arity == 1:
            found, steps = lambdas.places(variables[0], expression)
            kinks, jumps = (*kinks, *found), (*jumps, *steps)
    else:
        evaluate, arity = f, None
        name = name or getattr(f, "__name__", "f").strip("<>")
    identifier(name, "a function")

    def full(*args: np.ndarray) -> np.ndarray:
        shape = np.broadcast_shapes(*(np.shape(a) for a in args))
        return np.broadcast_to(np.asarray(evaluate(*args), dtype=float), shape)

    at = tuple(dict.fromkeys((float(k), 0.0) for k in (*kinks, *jumps)))
    steps_at = tuple(dict.fromkeys(map(float, jumps)))
    return Function(
        name, full, sympy_of, arity, features=at, jumps=steps_at, token=secrets.token_bytes(8), growth=grows
    )  # fmt: skip


def check_evaluates(f: Any, evaluate: Callable[..., Any], arity: int) -> None:
    """Is the Lambda a function of numbers? A delta, an unknown function or a symbol that is no argument is not."""
    try:
        with np.errstate(all="ignore"):
            np.asarray(evaluate(*(np.full(1, 0.5) for _ in range(arity))), dtype=float)
    except (NameError, TypeError, ValueError) as error:
        raise IllFormed(
            "NS309",
            statement=f"elementwise({f})",
            hypothesis=f"a nonlinearity is a function of numbers, and numpy cannot evaluate this one: {error}",
            repair="write it with functions of numpy and the arguments of the Lambda; a derivative of a jump is no function",
        ) from error


def growth_of(said: str | int) -> Growth:
    """The record of a growth that a user gives in a word or as a degree."""
    words = {
        "bounded": Growth(0, tame=False),
        "polynomial": Growth(float("inf"), tame=False),
        "exponential": Growth(0, rate=1, tame=False),
    }
    if isinstance(said, str) and said in words:
        return words[said]
    if isinstance(said, int) and not isinstance(said, bool) and said >= 0:
        return Growth(said, tame=False)
    raise IllFormed(
        "NS306",
        statement=f"elementwise(..., growth={said!r})",
        hypothesis="a growth is 'bounded', 'polynomial', 'exponential', or a degree",
        repair="growth='polynomial'",
    )
