r"""How fast a function of Gaussian vectors grows, by structure.

A vector of a program is a function f of Gaussian generators z with scalar coefficients. Its majorant is a bound

    |f(z)| <= C (1 + |z|)^d exp(C |z|^a) max_k exp(Q_k(z)),     a < 2, each Q_k a quadratic polynomial,

that follows the structure: a sum takes the larger of the two, a product adds d and Q, a power multiplies them, exp(b) turns
the polynomial b into Q, a bounded function is bounded whatever its argument. What decreases faster than it could grow
(-z^4 + z^2) is bounded. 1/f is bounded where f is bounded away from 0, else it has a pole of order s: |f| <= C |l|^-s for an
affine l, which has p-th moments iff p s < 1.

Classes: polynomial (Yang 2020, arXiv 2009.10685), exponential, i.e. controlled by exp(C |z|^{2-e} + C) (Yang 2019, arXiv
1910.12478), quadratic (integrable or not according to the covariance), and what is outside all of them. The certificate
"tame" is the pseudo-Lipschitz property (Sakai et al. 2025, arXiv 2506.00846): products and compositions keep it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Literal

from netsor.algebra.majorants import INFINITE, UNCERTAIN, Exponent, Fault, Majorant
from netsor.algebra.moments import Moments, gaussian
from netsor.algebra.poly import ONE, ZERO, Mono, Poly, is_map
from netsor.algebra.ranges import INF, Range, Ranges, multiplied, number_of, power
from netsor.ir import Index, Slot, Term, apply
from netsor.ops import MUL, Along, Fn, Generator, Growth, Map
from netsor.walks import generic

Class = Literal["polynomial", "exponential", "quadratic"]


class Growths:
    """Majorants of the vectors of one program, cached by family. `known`: ranges of scalars in numbers."""

    def __init__(self, moments: Moments, known: Callable[[Term], Range | None] = lambda scalar: None) -> None:
        self.moments, self.ranges = moments, Ranges(known)
        self._found: dict[tuple[bytes, bool], Majorant] = {}

    def of(self, term: Term) -> Majorant:
        return self.cached(term, False)

    def inverse(self, term: Term) -> Majorant:
        """The majorant of 1 / term."""
        return self.cached(term, True)

    def cached(self, term: Term, inverse: bool) -> Majorant:
        if term.width is None:
            return Majorant()
        key = (term.family.key, inverse)
        if key not in self._found:
            m = self._inverse(generic(term.family)) if inverse else self._of(generic(term.family))
            large = not inverse and (m.fault is not None or self.kind(m) != "polynomial")
            self._found[key] = m.cut(m.tame) if large and self.is_bounded(term) else m
        return self._found[key].at(dict(zip(generic(term.family).slots, term.slots, strict=True)))

    def is_bounded(self, term: Term) -> bool:
        lo, hi = self.ranges.of(term)
        return lo > -INF and hi < INF

    def total(self, terms: Iterable[Term]) -> Majorant:
        whole = Majorant()
        for t in terms:
            whole = whole + self.of(t)
        return whole

    # ---- classes

    def kind(self, m: Majorant) -> Class:
        """The smallest class that the bound lies in."""
        left = [x for e in m.exponents if not e.bounded for x in self.unbounded(e.poly)]
        if any(len(x.atoms) > 1 for x in left):
            return "quadratic"
        return "exponential" if left or m.order else "polynomial"

    def sign(self, m: Mono) -> Range:
        """The range of a monomial."""
        out: Range = (float(m.number), float(m.number))
        atoms = sorted(m.atoms, key=lambda a: (a.family.key, repr(a.slots)))
        for s in m.scalars:
            out = multiplied(out, self.ranges.of(s))
        for a in dict.fromkeys(atoms):
            out = multiplied(out, power(self.ranges.of(a), atoms.count(a)))
        return out

    def unbounded(self, poly: Poly, least: int = 2) -> list[Mono]:
        """What is left of a polynomial as an upper bound: a^{2k} (2k >= least) outweighs lower powers of a where all its
        coefficients together are negative, and whatever is never positive is dropped."""
        pure = [m for m in poly if len(set(m.atoms)) == 1 and not m.bound]
        most: dict[tuple[Term, int], float] = {}
        for m in pure:
            power = m.atoms[0], len(m.atoms)
            most[power] = most.get(power, 0.0) + self.sign(Mono(m.number, (), m.scalars))[1]
        heavy: dict[Term, int] = {}
        for (a, k), coefficient in most.items():
            if k >= least and k % 2 == 0 and coefficient < 0:
                heavy[a] = max(k, heavy.get(a, 0))
        left = [m for m in poly if m not in pure or len(m.atoms) > heavy.get(m.atoms[0], 0)]
        return [m for m in left if m.atoms and self.sign(m)[1] > 0]

    # ---- rules

    def _of(self, term: Term) -> Majorant:
        op, args = term.op, term.args
        if isinstance(op, Generator):
            lo, hi = self.ranges.of(term)
            return Majorant(degree=1 if hi - lo == INF else 0)
        if isinstance(op, Along):
            return self.along(op, term)
        assert isinstance(op, Map)
        name = op.fn.name
        if not isinstance(op.fn.growth, Growth):
            m = self.of(op.fn.growth(*args))
            return replace(m, tame=False, jump=True) if op.fn.jumps else m
        if name in ("add", "sub", "maximum", "minimum", "pieces", "abs"):
            m = self.total(args)
            sharp = m.sharp and (name not in ("maximum", "minimum") or self.kind(m) == "polynomial")
            return replace(m, tame=m.tame and op.fn.growth.tame, sharp=sharp)
        if name == "mul":
            return self.of(args[0]) * self.of(args[1])
        if name == "div":
            return self.of(args[0]) * self.inverse(args[1])
        if name == "pow":
            return self.power(*args)
        if name == "exp":
            return self.exponential(args[0])
        if name == "sqrt":
            return self.root(args[0], 0.5)
        if name == "log":
            return self.logarithm(args[0])
        return self.function(op.fn, args)

    def along(self, op: Along, term: Term) -> Majorant:
        bound, (inner, *_) = term.open()
        apart: dict[Slot, Slot] = {
            b: Index(f"#{term.family.order.hex()}{k}", b.plate) for k, b in enumerate(bound)
        }  # free from here on: the bound holds at every member
        m = self.of(inner.at(apart))
        if isinstance(op.fn.growth, Growth) and op.fn.growth.degree == 0:
            return m.cut(op.fn.growth.tame, bool(op.fn.jumps))
        return m if op.fn.name == "sum" else replace(m, sharp=False)

    def function(self, fn: Fn, args: tuple[Term, ...]) -> Majorant:
        """A function that is known by its record alone."""
        growth, m = fn.growth, self.total(args)
        assert isinstance(growth, Growth)
        if not growth.degree and not growth.rate:
            return m.cut(growth.tame, bool(fn.jumps))
        out = replace(m.raised(growth.degree), tame=m.tame and growth.tame, jump=m.jump or bool(fn.jumps), sharp=False)
        if not growth.rate or all(map(self.is_bounded, args)):
            return out
        if self.kind(m) != "polynomial" or not 0 < m.degree < 2 or m.pole is not None:
            return replace(out, fault=Fault(UNCERTAIN, f"{fn.name} grows exponentially in something that is not small"))
        return replace(out, order=max(out.order, m.degree), tame=False)

    def power(self, base: Term, exponent: Term) -> Majorant:
        k, c = number_of(exponent), number_of(base)
        if k is not None and k == int(k):
            if k == 0:
                return Majorant()
            return (self.of(base) if k > 0 else self.inverse(base)).raised(abs(float(k)))
        if k is not None:
            return self.root(base, float(k))
        if c is not None and c > 0:
            return self.exponential(apply(MUL, math.log(float(c)), exponent))
        lo, _ = self.ranges.of(base)
        return Majorant(tame=False, jump=lo <= 0, fault=Fault(UNCERTAIN, "a power whose exponent is no number", lo < 0))

    def root(self, base: Term, k: float) -> Majorant:
        """base^k where k is no integer: the base must not be negative."""
        lo, _ = self.ranges.of(base)
        if lo < 0:
            return self.negative(base, "a root")
        if k == 0.5 and (inner := squared(base)) is not None:
            return self.of(inner)
        if k < 0:
            return self.inverse(base).raised(-k)
        m = self.of(base)
        holder = m.holder or (k < 1 and self.inverse(base).pole is not None)
        return replace(m.raised(k), tame=m.tame and (k >= 1 or lo > 0), holder=holder)

    def negative(self, base: Term, what: str) -> Majorant:
        poly = self.moments.expand(base)
        pure = bool(poly) and all(map(is_gaussian, (a for m in poly for a in m.atoms)))
        odd = pure and max(len(m.atoms) for m in poly) % 2 == 1
        crossed = pure and len(poly) == 1 and any(m.atoms.count(a) % 2 for m in poly for a in m.atoms)
        if odd or crossed:
            return Majorant(fault=Fault(INFINITE, f"{what} of something that is negative with positive probability", True))
        return Majorant(fault=Fault(UNCERTAIN, f"{what} of something that may be negative", True))

    def logarithm(self, arg: Term) -> Majorant:
        """|log f| <= log(1 + f) + log(1 + 1/f)."""
        lo, _ = self.ranges.of(arg)
        if lo < 0:
            return self.negative(arg, "a logarithm")
        up, down = self.of(arg), self.inverse(arg)
        whole = up + down
        if whole.fault:
            code = whole.fault.code if whole.fault.undefined else UNCERTAIN  # the logarithm may be integrable again
            return replace(whole, fault=replace(whole.fault, code=code))
        degrees = [len(m.atoms) for e in whole.exponents if not e.bounded for m in e.poly]
        return Majorant(
            degree=max([0.0, whole.order, *map(float, degrees)]),
            tame=lo > 0 and up.tame,
            jump=whole.jump,
            sharp=False,
            pole=None if whole.pole is None else 0.0,
        )

    def exponential(self, b: Term) -> Majorant:
        """exp(b): what matters is how fast b can grow upwards."""
        m, (_, hi) = self.of(b), self.ranges.of(b)
        if m.fault is not None and m.fault.undefined:
            return m
        poly = self.even(self.moments.expand(b))
        left = self.unbounded(poly, least=4)
        pure = tuple(
            x
            for x in poly
            if x.atoms and len(x.atoms) <= 2 and all(map(is_gaussian, x.atoms)) and (x in left or self.sign(x)[1] <= 0)
        )
        if hi < INF:
            whole = len(pure) == len([x for x in poly if x.atoms])
            return replace(m.cut(True), exponents=(Exponent(Poly(pure) if whole else ZERO, True),), sharp=whole)
        slow = [x for x in poly if x not in pure and self.kind(self.total(x.atoms)) == "polynomial" and self.degree(x) < 2]
        sharp = len(pure) + len(slow) == len(poly)
        if not left and m.pole is None:
            return replace(m.cut(True), exponents=(Exponent(Poly(pure), True),), sharp=sharp)
        faults = [f for x in left if x not in pure for f in self.steep(x, [o for o in poly if o.atoms and o != x])]
        if m.pole:
            faults.append(Fault(UNCERTAIN, "an exponential of a pole"))
        if faults:
            return Majorant(tame=False, fault=min(faults, key=lambda f: f.code))
        order = max([m.order, *(self.degree(x) for x in left if x not in pure)])
        tame = m.tame and not order and not self.unbounded(Poly(pure))
        exponents = (Exponent(Poly(pure), not pure),)
        return Majorant(order=order, exponents=exponents, tame=tame, jump=m.jump, pole=m.pole, sharp=sharp)

    def even(self, poly: Poly) -> Poly:
        """|u|^2 = u^2."""
        out = ZERO
        for m in poly:
            pairs = {a: m.atoms.count(a) // 2 * 2 for a in m.atoms if is_map(a, "abs") and not m.bound}
            left = list(m.atoms)
            squares = ONE
            for a, k in pairs.items():
                for _ in range(k):
                    left.remove(a)
                    squares = squares * self.moments.expand(a.args[0])
            out = out + Poly((replace(m, atoms=tuple(left)),)) * squares
        return out

    def exact(self, a: Term) -> bool:
        """Does the vector grow like a power of an affine one, on a half line at least?"""
        if is_map(a, "pow"):
            return (number_of(a.args[1]) or 0) > 0 and self.exact(a.args[0])
        return any(map(self.exact, a.args)) if is_map(a, "abs", "maximum") else a.width is not None and self.moments.affine(a)

    def product(self, m: Mono) -> Majorant:
        whole = Majorant()
        for a in m.atoms:
            whole = whole * self.of(a)
        return whole

    def degree(self, m: Mono) -> float:
        return sum(self.of(a).degree for a in m.atoms)

    def steep(self, m: Mono, others: list[Mono]) -> Iterable[Fault]:
        """What forbids the exponential of a monomial that is not a quadratic form, next to others. It has no expectation if
        it goes to infinity and all others are slower; else the bound may be too large."""
        (lo, hi), whole, degree = self.sign(m), self.product(m), self.degree(m)
        slower = all(self.product(o).fault is None and self.kind(self.product(o)) == "polynomial" for o in others)
        if whole.fault is not None:
            sure = slower and lo >= 0 and whole.fault.code == INFINITE
            yield Fault(INFINITE if sure else UNCERTAIN, whole.fault.why)
        elif self.kind(whole) != "polynomial":
            upwards = [x for e in whole.exponents if not e.bounded for x in self.unbounded(e.poly)]
            linear = all(len(x.atoms) == 1 for x in upwards)
            sure = slower and lo >= 0 and whole.sharp
            sure = sure and any(linear or (len(set(x.atoms)) == 1 < len(x.atoms)) for x in upwards)
            yield Fault(INFINITE if sure else UNCERTAIN, "an exponential of an exponential")
        elif any(not gaussian(a) and self.of(a).degree for a in m.atoms):
            yield Fault(UNCERTAIN, "an exponential of an initial vector that is neither Gaussian nor bounded")
        elif degree > 2:
            odd = all(map(is_gaussian, m.atoms)) and degree % 2 == 1
            sure = slower and (odd or (lo >= 0 and all(map(self.exact, m.atoms))))
            sure = sure and all(self.degree(o) < degree for o in others)
            yield Fault(INFINITE if sure else UNCERTAIN, "an exponential of something that grows faster than quadratically")
        elif degree == 2:
            yield Fault(UNCERTAIN, "an exponential of a quadratic function that is no polynomial")
        elif degree == 0 and hi == INF:
            yield Fault(UNCERTAIN, "an exponential of a logarithm")

    def _inverse(self, term: Term) -> Majorant:
        op, args = term.op, term.args
        m = self.of(term)
        lo, hi = self.ranges.of(term)
        if isinstance(op, Map) and not isinstance(op.fn.growth, Growth):
            return self.inverse(op.fn.growth(*args))
        if is_map(term, "exp"):
            return self.exponential(apply(MUL, -1, args[0]))
        if lo == hi == 0:
            return Majorant(tame=False, fault=Fault(INFINITE, "a quotient by 0", True))
        if lo > 0 or hi < 0:
            return replace(m.cut(True), sharp=m.sharp and self.kind(m) == "polynomial")
        if is_map(term, "mul"):
            return self.inverse(args[0]) * self.inverse(args[1])
        if is_map(term, "div"):
            return self.inverse(args[0]) * self.of(args[1])
        if is_map(term, "abs"):
            return self.inverse(args[0])
        if is_map(term, "sqrt"):
            return self.inverse(args[0]).raised(0.5)
        if is_map(term, "pow") and (k := number_of(args[1])):
            return (self.inverse(args[0]) if k > 0 else self.of(args[0])).raised(abs(float(k)))
        if is_map(term, "add", "pieces", "maximum") and all(self.ranges.of(a)[0] >= 0 for a in args):
            best = [r for a in args if a.width is not None and (r := self.inverse(a)).fault is None and r.pole is None]
            if best and not is_map(term, "pieces"):
                return replace(best[0], tame=best[0].tame and m.tame, sharp=False)
        poly = self.moments.expand(term)
        if poly and not any(x.atoms for x in poly):
            return Majorant()
        if self.moments.affine(term):
            return Majorant(tame=False, pole=1.0)
        return Majorant(tame=False, fault=Fault(UNCERTAIN, "a quotient by something that may come near 0"))


def is_gaussian(a: Term) -> bool:
    return isinstance(a.op, Generator) and gaussian(a)


def squared(term: Term) -> Term | None:
    """u where the term is u u or u^2."""
    product = is_map(term, "mul") and term.args[0] == term.args[1]
    return term.args[0] if product or (is_map(term, "pow") and number_of(term.args[1]) == 2) else None
