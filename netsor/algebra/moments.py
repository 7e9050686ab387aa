"""Expectations of polynomials in the limit variables, given the scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations

from netsor import semantics
from netsor.algebra.poly import (
    ONE,
    ZERO,
    Covariance,
    Expect,
    Mono,
    Poly,
    atom,
    bind,
    constant,
    is_map,
    scalar,
    simplify,
)
from netsor.ir import Term, apply, make, postorder
from netsor.ops import DIV, Along, Const, Generator, Typical
from netsor.walks import generic

LARGEST_POWER = 8  # of a vector that is multiplied out; beyond it a power is an opaque nonlinearity


class Moments:
    """E[ . | scores] on the polynomials of one program. Holds the caches, all keyed by family."""

    def __init__(self) -> None:
        self._expanded: dict[tuple[bytes, bool], Poly] = {}
        self._sources: dict[bytes, frozenset[bytes]] = {}
        self._scored: dict[bytes, bool] = {}
        self._defined: dict[bytes, Poly | None] = {}
        self._shifted: dict[bytes, bool] = {}

    # ---- structure

    def sources(self, term: Term) -> frozenset[bytes]:
        """The randomness a vector is made of, given the scores: what vector edges reach before a generator."""
        if term.family.key not in self._sources:
            for family in postorder(term):
                if family.key not in self._sources:
                    own = semantics.source(family.op)
                    below = (self._sources[c.key] for c, _ in family.children if c.width is not None)
                    self._sources[family.key] = frozenset().union(*below) if own is None else frozenset((own,))
        return self._sources[term.family.key]

    def scored(self, term: Term) -> bool:
        """Does the term, or anything it is computed from, involve a score?"""
        if term.family.key not in self._scored:
            for family in postorder(term):
                if family.key not in self._scored:
                    random = isinstance(family.op, Generator) and family.width is None
                    random = random and semantics.limit(family.op, generic(family), self) is None
                    inside = any(self._scored[c.key] for c, _ in family.children)
                    self._scored[family.key] = random or (inside and not isinstance(family.op, Typical))
        return self._scored[term.family.key]

    # ---- normal form

    def expand(self, term: Term, deep: bool = True) -> Poly:
        """The multilinear normal form of a term. With deep=False a sum below the root stays an opaque atom, so that
        a residual stream unfolds one step at a time and a deep program costs as many leaves as it has layers."""
        key = (term.family.key, deep)
        if key not in self._expanded:
            self._expanded[key] = self._expand(generic(term.family), deep)
        return self._expanded[key].at(dict(zip(generic(term.family).slots, term.slots, strict=True)))

    def _expand(self, term: Term, deep: bool) -> Poly:
        op = term.op
        bound, args = term.open()

        def inner(a: Term) -> Poly:
            return atom(a) if not deep and is_sum(a) else self.expand(a, deep)

        if isinstance(op, Const):
            return constant(op.value)
        if is_map(term, "add", "sub") and (term.width is not None or deep):
            parts = [inner(a) for a in args]
            return parts[0] + (parts[1].scaled(-1) if is_map(term, "sub") else parts[1])
        if is_map(term, "mul"):
            return inner(args[0]) * inner(args[1])
        if is_map(term, "div") and args[1].width is None:
            divisor = args[1].op
            if isinstance(divisor, Const) and divisor.value:
                exact = isinstance(divisor.value, int | Fraction)
                inverse = 1 / Fraction(divisor.value) if exact else 1 / divisor.value
                return inner(args[0]).scaled(inverse)
            return inner(args[0]) * scalar(apply(DIV, 1, args[1]))
        if is_map(term, "pow") and term.width is not None and isinstance(args[1].op, Const):
            power = args[1].op.value
            if isinstance(power, int) and 1 <= power <= LARGEST_POWER:
                out = ONE
                for _ in range(power):
                    out = out * inner(args[0])
                return out
        if isinstance(op, Along) and op.fn.name == "sum" and term.width is not None:
            masks = ONE if len(args) == 1 else scalar(args[1])
            return bind(inner(args[0]) * masks, bound)
        return scalar(term) if term.width is None else atom(term)

    def affine(self, term: Term) -> bool:
        """Is the vector a combination of Gaussian generators with scalar coefficients?"""
        todo, seen = [term], set()
        while todo:
            for m in self.expand(todo.pop(), deep=False):
                for a in m.atoms:
                    if len(m.atoms) > 1 or not (isinstance(a.op, Generator) or is_sum(a)):
                        return False
                    if isinstance(a.op, Generator):
                        if not gaussian(a):
                            return False
                    elif a.family.key not in seen:
                        seen.add(a.family.key)
                        todo.append(a)
        return True

    # ---- expectation

    def expect(self, *terms: Term) -> Poly:
        """E[Z^x1 Z^x2 ... | scores]: factors over disjoint sources; a single term without a sum is unfolded at once."""
        out = ONE
        for group in components(terms, self.sources):
            out = out * self._expect_connected(group)
            if not out:
                return ZERO
        return out

    def _expect_connected(self, terms: Sequence[Term]) -> Poly:
        leaf = leaf_of(terms)
        defined = self.define(leaf)
        if defined is None:
            return scalar(leaf)
        if len(defined) == 0 or (len(defined) == 1 and not defined.terms[0].bound):
            return defined
        return scalar(leaf)

    def define(self, leaf: Term) -> Poly | None:
        """The leaf unfolded by one step, or None when it is an irreducible expectation of nonlinear functions."""
        if leaf.family.key not in self._defined:
            self._defined[leaf.family.key] = self._define(generic(leaf.family))
        poly = self._defined[leaf.family.key]
        return None if poly is None else poly.at(dict(zip(generic(leaf.family).slots, leaf.slots, strict=True)))

    def _define(self, leaf: Term) -> Poly | None:
        args = leaf.args
        deep = len(args) > 2
        product = ONE
        for x in args:
            product = product * self.expand(x, deep)
        if len(product) == 1:
            (m,) = product
            untouched = sorted(a.family.key for a in m.atoms) == sorted(x.family.key for x in args)
            connected = len(components(m.atoms, self.sources)) == 1
            if untouched and connected and not all(isinstance(a.op, Generator) for a in m.atoms):
                return None
        return self.expect_poly(product)

    def expect_poly(self, poly: Poly) -> Poly:
        """E of every monomial."""
        out = ZERO
        for m in poly:
            if len(m.atoms) > 2 and any(map(is_sum, m.atoms)):
                whole = Poly((Mono(m.number, (), m.scalars),))
                for a in m.atoms:
                    whole = whole * self.expand(a)
                value = self.expect_poly(whole)
            else:
                value = Poly((Mono(m.number, (), m.scalars),)) * self.expect_atoms(m.atoms)
            out = out + bind(value, m.bound)
        return out

    def expect_atoms(self, atoms: Sequence[Term]) -> Poly:
        out = ONE
        for group in components(atoms, self.sources):
            if all(isinstance(a.op, Generator) for a in group):
                out = out * self.isserlis(group)
            else:
                out = out * self._expect_connected(group)
            if not out:
                return ZERO
        return out

    # ---- covariance

    def covariance(self, x: Term, y: Term) -> Poly:
        """Cov(Z^x, Z^y | scores), in which no product of means is added to be subtracted again; E[Z^x Z^y] where one is 0."""
        if not self.sources(x) & self.sources(y):
            return ZERO
        if not (self.expect(x) and self.expect(y)):
            return self.expect(x, y)
        if isinstance(x.op, Generator) and isinstance(y.op, Generator):
            return self.isserlis((x, y), 1)
        return scalar(leaf_of((x, y), Covariance))

    def shifted(self, term: Term) -> bool:
        """Does a constant stand in the vector, or in a sum in it? Its mean may then be far above its deviations, or cancel."""
        if term.family.key not in self._shifted:
            todo, seen = [term], {term.family.key}
            while todo:
                for m in self.expand(todo.pop(), deep=False):
                    if not m.atoms or any(self._shifted.get(a.family.key) for a in m.atoms):
                        self._shifted[term.family.key] = True
                        return True
                    new = [a for a in m.atoms if is_sum(a) and a.family.key not in seen]
                    seen.update(a.family.key for a in new)
                    todo += new
            self._shifted[term.family.key] = False
        return self._shifted[term.family.key]

    def define_covariance(self, x: Term, y: Term) -> Poly | None:
        """The leaf unfolded by one step; None where x and y are atoms, and one of them is nonlinear."""
        left, right = self.expand(x, deep=False), self.expand(y, deep=False)
        if left == atom(x) and right == atom(y):
            return None
        return self.covariance_poly(left, right)

    def covariance_poly(self, left: Poly, right: Poly) -> Poly:
        """Cov of two polynomials in atoms: constants drop out."""
        out = ZERO
        for m in left:
            for q in right:
                both = simplify(m * q) if m.atoms and q.atoms else None
                if both is not None:
                    k, scale = len(m.atoms), Poly((Mono(both.number, (), both.scalars),))
                    out = out + bind(scale * self.covariance_atoms(both.atoms[:k], both.atoms[k:]), both.bound)
        return out

    def covariance_atoms(self, left: Sequence[Term], right: Sequence[Term]) -> Poly:
        """Cov(prod left, prod right): with c_k the covariance and m_k the product of means in the k-th group of atoms that
        share sources, prod_k (c_k + m_k) - prod_k m_k = sum_k prod_{j<k} (c_j + m_j) c_k prod_{j>k} m_j."""
        if len(left) == len(right) == 1:
            return self.covariance(*left, *right)
        if any(map(is_sum, (*left, *right))):
            return self.covariance_poly(*(self.product(atoms) for atoms in (left, right)))
        groups = components((*left, *right), self.sources)
        out, before = ZERO, ONE
        for k, group in enumerate(groups):
            mine, others = ([a for a in atoms if a in group] for atoms in (left, right))
            after = ONE
            for rest in groups[k + 1 :]:
                after = after * self.expect_atoms([a for a in left if a in rest])
                after = after * self.expect_atoms([a for a in right if a in rest])
            if mine and others:
                out = out + before * self.covariance_group(mine, others) * after
            before = before * self.expect_atoms([*mine, *others])
        return out

    def covariance_group(self, left: Sequence[Term], right: Sequence[Term]) -> Poly:
        """Cov(prod left, prod right) of atoms that share sources, none of them a sum."""
        if len(left) == len(right) == 1:
            return self.covariance(*left, *right)
        if all(isinstance(a.op, Generator) for a in (*left, *right)):
            return self.isserlis([*left, *right], len(left))
        return self.expect_atoms([*left, *right]) + (self.expect_atoms(left) * self.expect_atoms(right)).scaled(-1)

    def product(self, atoms: Sequence[Term]) -> Poly:
        """The product of atoms, sums among them multiplied out."""
        out = ONE
        for a in atoms:
            out = out * self.expand(a)
        return out

    def isserlis(self, atoms: Sequence[Term], left: int = 0) -> Poly:
        """E of a product of generators of one source: the sum over partitions of products of joint cumulants
        (for Gaussians: Isserlis 1918, all pairings, with means). The covariance of the product of the first `left` with
        that of the others, where there are any: only partitions in which a block holds atoms of both (Leonov, Shiryaev 1959).
        """
        if not atoms:
            return ONE
        first, rest = atoms[0], list(atoms[1:])
        out = ZERO
        for size in range(len(rest) + 1) if not gaussian(first) else range(min(2, len(rest) + 1)):
            for chosen in combinations(range(len(rest)), size):
                across = left and any(k + 1 >= left for k in chosen)
                inside = left - 1 - len(chosen)
                if left and not across and not inside:
                    continue  # all of the first are in blocks of their own
                joint = semantics.cumulant(first.op, (first, *(rest[k] for k in chosen)), self)
                if joint:
                    after = [a for k, a in enumerate(rest) if k not in chosen]
                    out = out + joint * self.isserlis(after, 0 if across else inside if left else 0)
        return out

    def resolved(self, poly: Poly) -> Poly:
        """The polynomial with every Moment replaced by its limit (terms whose Moments tend to zero disappear)."""
        out = ZERO
        for m in poly:
            piece = Poly((Mono(m.number, (), (), m.atoms),))
            for s in m.scalars:
                value = semantics.limit(s.op, s, self) if isinstance(s.op, Generator) else None
                piece = piece * (scalar(s) if value is None else value)
            out = out + bind(piece, m.bound)
        return out


def leaf_of(terms: Sequence[Term], op: type[Expect | Covariance] = Expect) -> Term:
    return make(op(), children=sorted(terms, key=lambda t: (t.family.order, t.family.key)))


def is_sum(term: Term) -> bool:
    return term.width is not None and is_map(term, "add", "sub")


def gaussian(term: Term) -> bool:
    """Is the generator Gaussian given the scores (initial vectors may have another law)?"""
    return getattr(term.op, "law", None) is None


def components(terms: Sequence[Term], sources: Callable[[Term], frozenset[bytes]]) -> list[list[Term]]:
    """Groups of terms that share no source of randomness with each other."""
    groups: list[tuple[frozenset[bytes], list[Term]]] = []
    for t in terms:
        mine = sources(t)
        apart = [g for g in groups if not g[0] & mine]
        together = [g for g in groups if g[0] & mine]
        merged = (mine.union(*(s for s, _ in together)), [x for _, xs in together for x in xs] + [t])
        groups = [*apart, merged]
    return [xs for _, xs in groups]
