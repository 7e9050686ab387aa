"""Trees as sympy expressions. sympy is notation here: it is never asked to integrate, and never given a string to parse."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import sympy as sp

from netsor.ir import Plate
from netsor.ops import Fn
from netsor.symbolic import tree as t
from netsor.symbolic.printing import Text

show = Text()


def letter(name: str) -> sp.Symbol:
    return sp.Symbol(name, integer=True, nonnegative=True)


def named(name: str, indices: tuple[str, ...]) -> Any:
    if not indices:
        return sp.Symbol(name, real=True)
    return sp.Indexed(sp.IndexedBase(sp.Symbol(name, real=True), real=True), *map(place, indices))


def place(index: str) -> Any:
    return sp.Integer(int(index)) if index.isdigit() else letter(index)


def size(plate: Plate) -> sp.Symbol:
    return size_symbol(plate.symbol or f"N_{plate.name}")


def size_symbol(name: str) -> sp.Symbol:
    return sp.Symbol(name, integer=True, positive=True)


def number(value: Any) -> Any:
    if isinstance(value, Fraction):
        return sp.Rational(value.numerator, value.denominator)
    return sp.Float(value) if isinstance(value, float) else sp.Integer(value) if isinstance(value, int) else value


def to_sympy(tree: t.Tree) -> Any:
    """The expression: indexed symbols, KroneckerDelta, Sum over 0 .. size - 1; E[...] is an indexed symbol of its own."""
    match tree:
        case t.Num(value):
            return number(value)
        case t.Letter(name):
            return place(name)
        case t.Sym(name, kind, indices):
            if name == "π":
                return sp.pi
            if kind == "size":
                return size_symbol(name)
            if kind == "sigma":
                return sp.Symbol(name, positive=True)
            return named(f"Z^{name}" if kind == "vector" else name, indices)
        case t.Kronecker(left, right):
            return sp.KroneckerDelta(place(left), place(right))
        case t.Relation(relation, left, right):
            truth = {"!=": sp.Ne, "<": sp.Lt, "<=": sp.Le}[relation](place(left), place(right))
            return sp.Piecewise((1, truth), (0, True))
        case t.Mean(factors, _):
            return expectation(factors, tree)
        case t.Product():
            indices = tuple(sorted(t.letters_in(tree)))
            return named(show(tree), indices)
        case t.Power(base, exponent):
            return to_sympy(base) ** number(exponent)
        case t.Times(factors):
            return sp.Mul(*map(to_sympy, factors))
        case t.Quotient(top, bottom):
            return to_sympy(top) / to_sympy(bottom)
        case t.Plus(terms):
            return sp.Add(*map(to_sympy, terms))
        case t.Sum(letters, body):
            return sp.Sum(to_sympy(body), *((letter(name), 0, size(plate) - 1) for name, plate in letters))
        case t.Apply(fn, args):
            return function(fn, *map(to_sympy, args))
        case t.Reduce(fn, (name, plate), body, mask, at):
            return reduction(fn, letter(name), size(plate), to_sympy(body), mask and to_sympy(mask), at)
    raise TypeError(tree)


def expectation(factors: tuple[t.Tree, ...], tree: t.Tree) -> Any:
    """E[x_i y_k] as the symbol `E[x*y]` with the indices of its factors, one after the other."""
    symbols: list[t.Sym] = []
    for f in factors:
        base, times = (f.base, f.exponent) if isinstance(f, t.Power) else (f, Fraction(1))
        if not isinstance(base, t.Sym) or times.denominator != 1:
            return named(show(tree), tuple(sorted(t.letters_in(tree))))
        symbols += [base] * int(times)
    return named("E[" + "*".join(f.name for f in symbols) + "]", tuple(i for f in symbols for i in f.indices))


def function(fn: Fn, *args: Any) -> Any:
    return fn.sympy(sp, *args) if fn.sympy is not None else sp.Function(str(fn))(*args)


def reduction(fn: Fn, over: sp.Symbol, size: Any, body: Any, mask: Any, at: str | None) -> Any:
    """softmax written out; another function along a plate stays a name."""
    if fn.name != "softmax" or at is None:
        arguments = [body, over] + ([place(at)] if at is not None else [])
        return sp.Function(str(fn))(*arguments)
    weight = sp.exp(body) if mask is None else mask * sp.exp(body)
    apart = letter(over.name + "'") if at == over.name else over
    entry, total = weight.subs(over, place(at)), sp.Sum(weight.subs(over, apart), (apart, 0, size - 1))
    return entry / total if mask is None else entry / (total + sp.KroneckerDelta(total, 0))  # 0 over no members
