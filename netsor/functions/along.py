"""Operations along one plate: sums, means, maxima, softmax and top-k. Each binds the letter it runs over."""

from __future__ import annotations

from typing import Any

import numpy as np

from netsor.errors import IllFormed, OutsideTheorem
from netsor.ir import Function, Index, Term, Width, along, lift, mask
from netsor.ops import Fn, Growth


def letter(name: str, over: Any) -> Index:
    """The index to run over; a width is refused, for a coordinate must not see the others."""
    if isinstance(over, Index):
        return over
    if isinstance(over, Width):
        raise OutsideTheorem(
            "NS105",
            statement=f"{name}(..., over={over})",
            hypothesis="a Nonlin acts on each coordinate alone (Yang 2019, arXiv 1910.12478, Definition 5.1); coordinates "
            "see each other only through a Moment or a DotProduct",
            consequence="as n grows the entries of a softmax over the width are O(1/n): it is not a Tensor Program",
            repair=f"run {name} over a plate (tokens, heads, experts); for averages over the width use mean(x)",
        )
    raise IllFormed(
        "NS302",
        statement=f"{name}(..., over={over!r})",
        hypothesis=f"{name} runs over an index of its argument",
        repair="pass the index itself, as in over=j",
    )


def _sum(x: np.ndarray, where: np.ndarray | None, axis: int) -> np.ndarray:
    result: np.ndarray = (x if where is None else x * where).sum(axis)
    return result


def _softmax(x: np.ndarray, where: np.ndarray | None, axis: int) -> np.ndarray:
    """Weights that sum to 1; a row that is masked whole has weights 0."""
    on = True if where is None else where > 0
    top = np.max(x, axis, keepdims=True, initial=-np.inf, where=on)
    e = np.where(on, np.exp(np.minimum(x - np.where(np.isfinite(top), top, 0.0), 0.0)), 0.0)
    whole = e.sum(axis, keepdims=True)
    return e / np.where(whole > 0, whole, 1.0)


def _max(x: np.ndarray, where: np.ndarray | None, axis: int) -> np.ndarray:
    """The largest entry; 0 for a row that is masked whole."""
    result: np.ndarray = np.max(x, axis, initial=-np.inf, where=True if where is None else where > 0)
    return np.where(np.isfinite(result), result, 0.0)


def _top(k: int) -> Any:
    def select(x: np.ndarray, where: np.ndarray | None, axis: int) -> np.ndarray:
        on = np.broadcast_to(True if where is None else where > 0, x.shape)
        order = np.argsort(np.argsort(np.where(on, -x, np.inf), axis, kind="stable"), axis, kind="stable")
        return np.where(on & (order < k), 1.0, 0.0)

    return select


SUM = Fn("sum", _sum, linear=(0,), growth=Growth())
MAX = Fn("max", _max, growth=Growth())
SOFTMAX = Fn("softmax", _softmax, growth=Growth(0, low=0, high=1))


def sum_over(x: Any, *over: Index, where: Any = None) -> Term:
    """Sum_{over} x, restricted to the members where the mask is 1. Linear: vectors stay affine in their atoms."""
    term = lift(x)
    for i in over:
        term, where = along(SUM, term, letter("sum_over", i), False, where), None
    return term


def mean_over(x: Any, over: Index, where: Any = None) -> Term:
    """The average of x over a plate (over the members where the mask is 1)."""
    over = letter("mean_over", over)
    count = over.plate.size if where is None else along(SUM, mask(where), over, False)
    return sum_over(x, over, where=where) / count


def max_over(x: Any, over: Index, where: Any = None) -> Term:
    """max_{over} x."""
    return along(MAX, lift(x), letter("max_over", over), False, where)


def softmax(x: Any, over: Index, where: Any = None) -> Term:
    """exp(x_j) / Sum_j' exp(x_j') over the letter j (the members where the mask is 1; weights elsewhere are 0).

    Raises: NS105 over a width: the coordinates of a vector must not see each other.
    """
    return along(SOFTMAX, lift(x), letter("softmax", over), True, where)


def top_k(x: Any, k: int, over: Index, where: Any = None) -> Term:
    """1 for the k largest entries along a plate, else 0. It has a limit iff no two entries are tied in the limit (NS107)."""
    return along(top(k), lift(x), letter("top_k", over), True, where)


def hardmax(x: Any, over: Index, where: Any = None) -> Term:
    """1 for the largest entry along a plate, else 0: `top_k` with k = 1."""
    return top_k(x, 1, over, where)


def top(k: int) -> Fn:
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise IllFormed("NS306", statement=f"top_k(..., k={k!r})", repair="k is a positive integer")
    return Function("top_k", _top(k), params=(k,), jumps=(0.0,), growth=Growth(0, low=0, high=1, tame=False))


def of_members(fn: Fn, kept: int | None) -> Fn:
    """A function along a plate as a function of its members one by one: the value, or the entry that is kept."""

    def evaluate(*members: np.ndarray) -> np.ndarray:
        whole: np.ndarray = fn.numpy(np.stack(np.broadcast_arrays(*members), -1), None, -1)
        return whole if kept is None else whole[..., kept]

    name = fn.name if kept is None else f"{fn.name}{kept}"
    return Fn(name, evaluate, arity=None, params=fn.params, jumps=fn.jumps, token=fn.token, growth=fn.growth)
