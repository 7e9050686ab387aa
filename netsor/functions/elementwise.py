"""A user's own nonlinearity."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from netsor.checks import identifier
from netsor.ir import Function


def elementwise(
    f: Callable[..., Any], *, name: str | None = None, kinks: Sequence[float] = (), jumps: Sequence[float] = ()
) -> Function:
    """f applied coordinate by coordinate; f is a sympy Lambda or a function of numpy arrays.

    kinks, jumps: where a function of one argument is not smooth or not continuous; expectations are split there.
    A constant f gives a vector all the same. Growth and continuity of a plain callable are taken on trust.
    """
    variables = getattr(f, "variables", None)
    expression = getattr(f, "expr", None)
    sympy_of = None
    if variables is not None and expression is not None:
        import sympy

        arity: int | None = len(variables)
        evaluate = sympy.lambdify(list(variables), expression, "numpy")
        symbolic = f
        sympy_of = lambda sp, *args: symbolic(*args)  # noqa: E731
        name = name or "f"
    else:
        evaluate, arity = f, None
        name = name or getattr(f, "__name__", "f").strip("<>")
    identifier(name, "a function")

    def full(*args: np.ndarray) -> np.ndarray:
        shape = np.broadcast_shapes(*(np.shape(a) for a in args))
        return np.broadcast_to(np.asarray(evaluate(*args), dtype=float), shape)

    places = tuple((float(k), 0.0) for k in (*kinks, *jumps))
    return Function(name, full, sympy_of, arity, features=places, jumps=tuple(map(float, jumps)), token=secrets.token_bytes(8))
