"""Closed forms as formulas: the recursion of `netsor.closed` over sympy expressions, and these as trees.

sympy simplifies here and is never asked to integrate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from itertools import combinations
from typing import Any

import mpmath
import sympy as sp

from netsor.algebra.known import NotCoordinatewise, factors_of, inputs_of, pieces_of
from netsor.algebra.moments import Moments, leaf_of
from netsor.algebra.poly import Delta, Mono, Poly
from netsor.checks import Number
from netsor.closed.product import centred, multiplied
from netsor.closed.stein import NotClosed, expectation
from netsor.functions import cos, erf, exp, sin
from netsor.ir import Slot, Term
from netsor.ops import Fn, Gate, Piece
from netsor.symbolic import tree as t
from netsor.symbolic.reader import Env, Reader
from netsor.walks import canonical


class Phi2(sp.Function):  # type: ignore[misc]  # sympy is not typed
    """The distribution function of two standard Gaussians with correlation rho, at h and k."""

    nargs = (3,)

    def _eval_evalf(self, prec: int) -> Any:
        with mpmath.workprec(prec + 10):
            return sp.Float(phi2(*(mpmath.mpf(sp.Float(a, mpmath.mp.dps)._mpf_) for a in self.args)), precision=prec)

    @staticmethod
    def _imp_(h: float, k: float, rho: float) -> float:
        """What lambdify calls."""
        return float(phi2(*map(mpmath.mpf, (h, k, rho))))


def phi2(h: Any, k: Any, rho: Any) -> Any:
    """Phi(h) Phi(k) + int_0^arcsin(rho) exp(-(h^2 + k^2 - 2 h k sin u) / (2 cos^2 u)) du / (2 pi) (Plackett 1954)."""
    end = mpmath.asin(rho)

    def density(u: Any) -> Any:
        return mpmath.exp(-(h * h + k * k - 2 * h * k * mpmath.sin(u)) / (2 * mpmath.cos(u) ** 2))

    return mpmath.ncdf(h) * mpmath.ncdf(k) + mpmath.quad(density, mpmath.linspace(0, end, 4)) / (2 * mpmath.pi)


class Formulas:
    """sympy expressions as a field."""

    def number(self, value: Number) -> Any:
        return exact(value)

    def is_zero(self, x: Any) -> bool:
        return bool(x == 0)

    def exp(self, x: Any) -> Any:
        return sp.exp(sp.together(x))

    def cos(self, x: Any) -> Any:
        return sp.cos(x)

    def sin(self, x: Any) -> Any:
        return sp.sin(x)

    def root(self, x: Any) -> Any:
        return sp.sqrt(sp.together(x))

    def schur(self, a: Any, b: Any, c: Any, d: Any) -> Any:
        return sp.together(a - b * c / d)

    def density(self, m: Any, v: Any) -> Any:
        return sp.exp(-(m**2) / (2 * v)) / sp.sqrt(2 * sp.pi * v)

    def sign(self, m: Any, v: Any) -> Any:
        return sp.erf(m / sp.sqrt(2 * v))

    def signs(self, m: Any, n: Any, v: Any, w: Any, c: Any) -> Any:
        rho = c / (sp.sqrt(v) * sp.sqrt(w))
        if m == 0 and n == 0:
            return 2 * sp.asin(rho) / sp.pi
        h, k = m / sp.sqrt(v), n / sp.sqrt(w)
        return 4 * Phi2(h, k, rho) - sp.erf(h / sp.sqrt(2)) - sp.erf(k / sp.sqrt(2)) - 1


FORMULAS = Formulas()


def decimal(x: Any) -> Any:
    """The numbers of a piece or a gate, floats as the decimals that they are written as."""
    changes = {f.name: getattr(x, f.name) for f in fields(x)}
    changes = {
        k: decimal(v) if isinstance(v, Gate) else Fraction(repr(v)) for k, v in changes.items() if isinstance(v, Gate | float)
    }
    return replace(x, **changes)


def exact(value: Number) -> Any:
    """A number as sympy knows it."""
    return sp.Rational(value.numerator, value.denominator) if isinstance(value, Fraction) else sp.sympify(value)


@dataclass(frozen=True, slots=True)
class Form:
    """A closed form: an expression, and what its symbols stand for: m = E u (one vector), or Cov(u, w)."""

    expression: Any
    symbols: Mapping[Any, tuple[Term, ...]]


class ClosedForms:
    """Closed forms of the irreducible expectations of one program."""

    def __init__(self, moments: Moments) -> None:
        self.moments = moments
        self._forms: dict[Term, Form | None] = {}

    def form(self, leaf: Term) -> Form | None:
        """The closed form of a leaf; None where there is none."""
        key, back = canonical(leaf)
        if key not in self._forms:
            self._forms[key] = self._form(key)
        form = self._forms[key]
        if form is None:
            return None
        return Form(form.expression, {s: tuple(u.at(back) for u in us) for s, us in form.symbols.items()})

    def _form(self, leaf: Term) -> Form | None:
        try:
            factors = factors_of(self.moments, leaf)
        except NotCoordinatewise:
            return None
        inputs = (*factors.inputs, *factors.plain)
        known: list[tuple[int, tuple[Piece, ...]]] = [(k, (Piece(power=1),)) for k in range(len(factors.inputs), len(inputs))]
        for x in factors.curved:
            pieces = pieces_of(self.moments, x, factors.inputs)
            if not pieces:
                return None
            (u,) = inputs_of(self.moments, x)
            known.append((inputs.index(u), tuple(map(decimal, pieces))))
        terms = multiplied(known, len(inputs))
        if terms is None:
            return None
        symbols: dict[Any, tuple[Term, ...]] = {}
        mean = [self.symbol("m", (u,), symbols) for u in inputs]
        cov = [[self.symbol("c", (u, w), symbols) for w in inputs] for u in inputs]
        try:
            value = expectation(FORMULAS, terms if any(m != 0 for m in mean) else centred(terms), mean, cov)
        except NotClosed:
            return None
        return Form(polished(value), symbols)

    def symbol(self, letter: str, of: tuple[Term, ...], symbols: dict[Any, tuple[Term, ...]]) -> Any:
        """A symbol for a mean or a covariance, 0 where it vanishes by structure."""
        if not (mean_of(self.moments, *of) if len(of) == 1 else covariance_of(self.moments, *of)):
            return sp.Integer(0)
        known = next((s for s, us in symbols.items() if us in (of, of[::-1])), None)
        if known is None:
            variance = len(of) == 2 and of[0] == of[1]
            known = sp.Symbol(f"{letter}{len(symbols)}", real=True, **({"positive": True} if variance else {}))
            symbols[known] = of
        return known

    def __call__(self, reader: Reader, leaf: Term, env: Env) -> t.Tree | None:
        """The closed form of a leaf in the names of a program: m_g for a mean, K_g for a covariance of g.

        E[x_i x_k] of a named variable stays as it is: it is written at that variable, once (`kernel`).
        """
        names = [reader.names.of(x) for x in leaf.args]
        if all(names) and len({n[0] for n in names if n}) == 1 and len(names) <= 2:
            return None
        return self.kernel(reader, leaf, env)

    def kernel(self, reader: Reader, leaf: Term, env: Env) -> t.Tree | None:
        """The closed form, of a named variable too. Where i and k are independent unless equal: both cases."""
        pair = self.independent_unless_equal(leaf)
        if pair is None:
            form = self.form(leaf)
            if form is None:
                return None
            return tree_of(form.expression, {s: self.stands_for(reader, of, env) for s, of in form.symbols.items()})
        i, k = pair
        apart = [[x for x in leaf.args if (k in x.slots) == second] for second in (False, True)]
        parts = [self.kernel(reader, x, env) for x in (leaf.at({k: i}), *map(leaf_of, apart))]
        if any(part is None for part in parts):
            return None
        equal, *product = [part for part in parts if part is not None]
        delta = t.Kronecker(reader.show(i, env), reader.show(k, env))
        return t.plus([t.times([delta, equal]), t.times([t.plus([t.Num(1), t.times([t.Num(-1), delta])]), *product])])

    def independent_unless_equal(self, leaf: Term) -> tuple[Slot, Slot] | None:
        """Two letters such that the factors with the one are independent of those with the other where they differ."""
        try:
            factors = factors_of(self.moments, leaf)
        except NotCoordinatewise:
            return None
        inputs = (*factors.inputs, *factors.plain)
        for i, k in combinations(leaf.free, 2):
            if i.plate == k.plate and not any(i in x.slots and k in x.slots for x in leaf.args):
                across = [covariance_of(self.moments, u, w) for u in inputs for w in inputs if i in u.slots and k in w.slots]
                if across and all(is_delta(m, i, k) for poly in across for m in poly):
                    return i, k
        return None

    def stands_for(self, reader: Reader, of: tuple[Term, ...], env: Env) -> t.Tree:
        named = [reader.names.of(u) for u in of]
        if None in named:
            poly = mean_of(self.moments, *of) if len(of) == 1 else covariance_of(self.moments, *of)
            return reader.poly(poly, env)
        found = [n for n in named if n is not None]
        names = ",".join(dict.fromkeys(name for name, _ in found))
        indices = tuple(reader.show(s, env) for _, slots in found for s in slots)
        return t.Sym(f"{'m' if len(of) == 1 else 'K'}_{names}", "constant", indices)


def is_delta(m: Mono, i: Slot, k: Slot) -> bool:
    """Does the monomial vanish unless i = k?"""
    return any(isinstance(s.op, Delta) and set(s.own) == {i, k} for s in m.scalars)


def mean_of(moments: Moments, u: Term) -> Poly:
    return moments.expect(u)


def covariance_of(moments: Moments, u: Term, w: Term) -> Poly:
    return moments.expect(u, w) + (moments.expect(u) * moments.expect(w)).scaled(-1)


# ---- in the form in which papers write it


def polished(e: Any) -> Any:
    """Fewer terms: arcsin x as pi/2 - arccos x where that merges some (the arc-cosine kernels), common factors outside."""
    direct = sp.expand(e, power_base=False, power_exp=False)
    arcs = {a: sp.Dummy("A") for a in direct.atoms(sp.asin)}
    turned = sp.expand(direct.xreplace({a: A - sp.pi / 2 for a, A in arcs.items()}), power_base=False, power_exp=False)
    if arcs and len(sp.Add.make_args(turned)) < len(sp.Add.make_args(direct)):
        return sp.factor_terms(turned).xreplace({A: sp.pi - sp.acos(a.args[0]) for a, A in arcs.items()})
    return sp.factor_terms(direct)


# ---- as trees

ARC_COSINE = Fn("arccos", math.acos, lambda sympy, x: sympy.acos(x), latex=r"\arccos\left({}\right)")
ARC_SINE = Fn("arcsin", math.asin, lambda sympy, x: sympy.asin(x), latex=r"\arcsin\left({}\right)")
BIVARIATE = Fn(
    "Phi2", phi2, lambda sympy, h, k, rho: Phi2(h, k, rho), 3, text="Φ₂({}, {}; {})", latex=r"\Phi_2\left({}, {}; {}\right)"
)
FUNCTIONS = {sp.acos: ARC_COSINE, sp.asin: ARC_SINE, Phi2: BIVARIATE, sp.exp: exp, sp.erf: erf, sp.cos: cos, sp.sin: sin}
PI = t.Sym("π")


def tree_of(e: Any, symbols: Mapping[Any, t.Tree]) -> t.Tree:
    """A closed form as a tree, its symbols replaced."""
    if e in symbols:
        return symbols[e]
    if e.is_Rational:
        return t.Num(int(e) if e.is_Integer else Fraction(int(e.p), int(e.q)))
    if e is sp.pi:
        return PI
    if e.is_Add:
        return t.plus([tree_of(a, symbols) for a in e.as_ordered_terms()])
    if e.is_Mul or (e.is_Pow and e.exp.is_Rational and e.exp < 0):
        number, rest = e.as_coeff_Mul()
        below = [x for x in sp.Mul.make_args(rest) if x.is_Pow and x.exp.is_Rational and x.exp < 0]
        top = [sp.Integer(abs(number.p)), *(x for x in sp.Mul.make_args(rest) if x not in below)]
        bottom = [sp.Integer(number.q), *(1 / x for x in below)]
        over, under = (t.times([tree_of(a, symbols) for a in x]) for x in (top, bottom))
        whole = over if under == t.Num(1) else t.Quotient(over, under)
        return t.times([t.Num(-1), whole]) if number < 0 else whole
    if e.is_Pow:
        return t.power(tree_of(e.base, symbols), Fraction(int(e.exp.p), int(e.exp.q)))
    return t.Apply(FUNCTIONS[e.func], tuple(tree_of(a, symbols) for a in e.args))
