"""Terms and polynomials of one program as trees."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import TypeAlias

from netsor.algebra.moments import Moments
from netsor.algebra.pivots import is_score
from netsor.algebra.poly import Delta, Expect, Mono, Poly, bind
from netsor.checks import Number, number
from netsor.ir import Index, Size, Slot, Term
from netsor.names import Names
from netsor.ops import Along, Average, Compare, Const, Fn, Generator, Map, Offset, Op, Param, Table
from netsor.rules.clt import Clt
from netsor.rules.input import Input, Prior
from netsor.rules.matmul import MatMul, Sigma2
from netsor.symbolic.tree import (
    Apply,
    Kind,
    Kronecker,
    Letter,
    Mean,
    Num,
    Plus,
    Power,
    Product,
    Reduce,
    Relation,
    Sum,
    Sym,
    Times,
    Tree,
    collected,
    letters_in,
    plus,
    power,
    times,
)

Env = Mapping[Slot, str]
Closer: TypeAlias = "Callable[[Reader, Term, Env], Tree | None]"


class Reader:
    """Terms and polynomials of one program as trees; what the user named stays a name.

    closed: writes an irreducible expectation as its closed form, None where there is none. numbers: sizes, sigmas and
    parameters that are bound as their values.
    """

    def __init__(self, moments: Moments, names: Names, closed: Closer | None = None, numbers: bool = False) -> None:
        self.moments, self.names, self.closed, self.numbers = moments, names, closed, numbers

    # ---- letters

    def show(self, slot: Slot, env: Env) -> str:
        return env.get(slot) or str(slot)

    def bound(self, letters: Iterable[Index], used: Iterable[Slot], env: Env) -> dict[Slot, str]:
        """Readable letters for bound ones, apart from every letter in use."""
        out = dict(env)
        taken = {*env.values(), *(self.show(s, env) for s in used)}
        for b in letters:
            out[b] = self.names.letter(b.plate, taken)
            taken.add(out[b])
        return out

    # ---- terms

    def term(self, term: Term, env: Env | None = None, opened: bool = False) -> Tree:
        """A term as its limit; with `opened`, the root is written out even if it has a name."""
        env = env or {}
        found = None if opened else self.names.of(term)
        if found is not None:
            name, slots = found
            indices = tuple(self.show(s, env) for s in slots)
            return Sym(name, self.kind(term), indices)
        bound, args = term.open()
        op = term.op
        kept = term.own[0] if isinstance(op, Along) and op.keeps else None
        if isinstance(kept, Index) and not any(kept in a.slots for a in args):
            env = {**env, bound[0]: self.show(kept, env)}  # softmax_j(p[i,j]): the bound letter is the one that is kept
        else:
            env = self.bound(bound, [*term.slots], env)
        own = tuple(self.show(s, env) for s in term.own)
        if isinstance(op, Const):
            return Num(op.value)
        value = self.number(op)
        if value is not None:
            return Num(value)
        if isinstance(op, Size):
            return Sym(op.plate.symbol or f"N_{op.plate.name}", "size")
        if isinstance(op, Param | Table):
            return Sym(op.name, "constant", own)
        if isinstance(op, Compare):
            return Relation(op.relation, *own)
        if isinstance(op, Offset):
            return Plus((Letter(own[0]), Times((Num(-1), Letter(own[1])))))
        if isinstance(op, Delta):
            return Kronecker(*own)
        if isinstance(op, Sigma2):
            sigma = op.matrix.sigma
            name = sigma.name if isinstance(sigma, Param) else f"sigma_{op.matrix.name}"
            return Power(Sym(name, "sigma"), Fraction(2))
        if isinstance(op, Prior):
            return Sym(f"K_{op.input.name}", "constant", own)
        if isinstance(op, Average):
            defined = self.moments.define(args[0]) if isinstance(args[0].op, Expect) else None
            return Mean((self.term(args[0], env) if defined is None else self.poly(defined, env),), False)
        if isinstance(op, Clt):
            plate = bound[0].plate
            size = Sym(plate.symbol or f"N_{plate.name}", "size")
            return times([Power(size, Fraction(-1, 2)), Sum(((self.show(bound[0], env), plate),), self.term(args[0], env))])
        if isinstance(op, Expect):
            written = self.closed(self, term, env) if self.closed else None
            if written is not None:
                return written
            return Mean(collected([self.term(a, env) for a in args]), self.moments.scored(term))
        if isinstance(op, Input):
            return Sym(op.name, "vector", own)
        if isinstance(op, MatMul):
            return Product(Sym(op.matrix.name, "matrix", own), self.term(args[0], env))
        if isinstance(op, Generator) and not is_score(term):
            return Mean(tuple(self.term(a, env) for a in args), self.moments.scored(term))
        if isinstance(op, Generator):
            return Apply(DOT, tuple(self.term(a, env) for a in args[:2]))
        if isinstance(op, Along):
            return self.along(op, term, bound[0], args, env)
        assert isinstance(op, Map), op
        return self.map(op, args, env)

    def number(self, op: Op) -> Number | None:
        """The value of a named number, where numbers are asked for and it has one."""
        if not self.numbers:
            return None
        if isinstance(op, Size):
            return op.plate.extent
        if isinstance(op, Param):
            return op.value
        if isinstance(op, Sigma2):
            sigma = op.matrix.sigma
            value = sigma.value if isinstance(sigma, Param) else sigma
            return None if value is None else number(value * value)
        return None

    def along(self, op: Along, term: Term, over: Index, args: Sequence[Term], env: Env) -> Tree:
        letter = (self.show(over, env), over.plate)
        mask = self.term(args[1], env) if len(args) > 1 else None
        body = self.term(args[0], env)
        if op.fn.name == "sum":
            return Sum((letter,), body if mask is None else times([mask, body]))
        return Reduce(op.fn, letter, body, mask, self.show(term.own[0], env) if op.keeps else None)

    def map(self, op: Map, args: Sequence[Term], env: Env) -> Tree:
        trees = [self.term(a, env) for a in args]
        match op.fn.name:
            case "add":
                return plus(trees)
            case "sub":
                return plus([trees[0], times([Num(-1), trees[1]])])
            case "mul":
                return times(trees)
            case "div":
                return times([trees[0], power(trees[1], Fraction(-1))])
            case "sqrt":
                return power(trees[0], Fraction(1, 2))
            case "pow" if isinstance(trees[1], Num) and isinstance(trees[1].value, int | Fraction):
                return power(trees[0], Fraction(trees[1].value))
        return Apply(op.fn, tuple(trees))

    def kind(self, term: Term) -> Kind:
        if term.width is not None:
            return "vector"
        if is_score(term):
            return "score"
        return "limit"

    # ---- polynomials

    def poly(self, poly: Poly, env: Env | None = None) -> Tree:
        """A polynomial with its leaves unfolded down to named variables; terms that tend to zero dropped."""
        terms = [self.mono(m, env or {}) for m in self.unfolded(self.moments.resolved(poly))]
        return plus(terms)

    def unfolded(self, poly: Poly) -> Poly:
        """Leaves of unnamed variables replaced by their definitions."""
        out = Poly()
        for m in poly:
            for k, s in enumerate(m.scalars):
                if isinstance(s.op, Expect) and not all(self.names.of(a) for a in s.args):
                    defined = self.moments.define(s)
                    if defined is not None:
                        rest = Poly((Mono(m.number, (), (*m.scalars[:k], *m.scalars[k + 1 :]), m.atoms),))
                        out = out + self.unfolded(bind(rest * defined, m.bound))
                        break
            else:
                out = out + Poly((m,))
        return out

    def mono(self, m: Mono, env: Env) -> Tree:
        env = self.bound(m.bound, [s for s in m.letters if s not in m.bound], env)
        trees = [self.term(s, env) for s in m.scalars]
        inside = {env[b] for b in m.bound}
        atoms = [self.term(a, env) for a in m.atoms]
        outer = [t for t in trees if not inside & letters_in(t)]
        inner = [t for t in trees if inside & letters_in(t)]
        if not m.bound:
            return times([Num(m.number), *outer, *atoms])
        body = times([*inner, *atoms])
        return times([Num(m.number), *outer, Sum(tuple((env[b], b.plate) for b in m.bound), body)])


DOT = Fn("dot", lambda x, y: x @ y, arity=2)
