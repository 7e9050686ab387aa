"""Which vectors a program uses only linearly, and whose inner products it needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from netsor.finite.stacks import Stack, stackless
from netsor.ir import Index, Member, Slot, Term, lift
from netsor.numeric.demand import demanded, is_vector_generator
from netsor.ops import Along, Const, Generator, Map
from netsor.rules.dot import Dot
from netsor.rules.matmul import MatMul
from netsor.rules.mean import Mean
from netsor.walks import canonical, generalise

ONE = lift(1)  # the constant vector, where an inner product meets a number


def linear(term: Term) -> bool:
    """Is the vector a linear map of its vector arguments, whatever its scalar arguments are? (Numbers that are added count
    as multiples of the constant vector.)"""
    op, vectors = term.op, [k for k, (f, _) in enumerate(term.family.children) if f.width is not None]
    if isinstance(op, Map):
        return op.fn.name in ("add", "sub") or (len(vectors) == 1 and vectors[0] in op.fn.linear)
    return isinstance(op, Stack) or (isinstance(op, Along) and vectors == [0] and 0 in op.fn.linear)


def adds(term: Term) -> bool:
    """Is the vector a sum, in which a scalar argument stands for a multiple of the constant vector?"""
    return isinstance(term.op, Map) and term.op.fn.name in ("add", "sub")


def factors(term: Term) -> tuple[Term, Term] | None:
    """x and y, where the vector is their product coordinate by coordinate."""
    if not isinstance(term.op, Map) or len(term.args) != 2:
        return None
    x, y = term.args
    if term.op.fn.name == "mul" and x.width is not None and y.width is not None:
        return x, y
    if term.op.fn.name == "pow" and isinstance(y.op, Const) and y.op.value == 2 and x.width is not None:
        return x, x
    return None


def atoms(term: Term) -> Iterator[Term]:
    """The vectors of which the term is a linear combination: generators, nonlinear vectors, the constant vector."""
    if term.width is None:
        yield ONE
    elif isinstance(term.op, Generator) or not linear(term):
        yield term
    else:
        for arg in term.args:
            if arg.width is not None or adds(term):
                yield from atoms(arg)


def averaged(term: Term) -> Iterator[tuple[Term, Term]]:
    """Pairs of vectors whose inner products give the mean of the term over its coordinates."""
    if term.width is None:
        return
    if (pair := factors(term)) is not None:
        yield pair
    elif isinstance(term.op, Generator) or not linear(term):
        yield ONE, term
    else:
        for arg in term.args:
            yield from averaged(arg)


@dataclass(frozen=True, slots=True)
class Structure:
    """What the roots need.

    generators  for each family of vector generators its pattern
    scalars     the scores and Moments, at every choice of letters that occurs
    copies      for each matrix the pattern of the letters of its copies
    """

    generators: dict[bytes, Term]
    scalars: tuple[Term, ...]
    copies: dict[bytes, tuple[Slot, ...]]

    def products(self, token: bytes) -> list[Term]:
        """The patterns in which a matrix acts."""
        return [t for t in self.generators.values() if isinstance(t.op, MatMul) and t.op.matrix.token == token]

    def pairs(self) -> Iterator[tuple[Term, Term]]:
        """All pairs of vectors whose inner products matter; equal free letters are one member."""
        for term in self.scalars:
            if isinstance(term.op, Dot):
                yield term.args[0], term.args[1]
            elif isinstance(term.op, Mean):
                yield from averaged(term.args[0])
        for token in self.copies:
            products = self.products(token)
            for k, g in enumerate(products):
                for h in products[: k + 1]:
                    other = h.at({i: i.prime for i in h.free})
                    if (to := unified(g.own, other.own)) is not None:
                        yield stackless(g.at(to).args[0], other.at(to).args[0])


def unified(left: Sequence[Slot], right: Sequence[Slot]) -> dict[Slot, Slot] | None:
    """The replacement of letters under which the two agree, or None where they never do."""
    to: dict[Slot, Slot] = {}
    for x, y in zip(left, right, strict=True):
        x, y = to.get(x, x), to.get(y, y)
        if x == y:
            continue
        if isinstance(x, Member) and isinstance(y, Member):
            return None
        old, new = (y, x) if isinstance(y, Index) else (x, y)
        to = {k: new if v == old else v for k, v in to.items()} | {old: new}
    return to


def structure(roots: Sequence[Term]) -> Structure:
    """The patterns of the vector generators, closed under what their arguments need, and the scalars."""
    generators: dict[bytes, Term] = {}
    while True:
        every = [*roots, *generators.values()]
        found = {t.family.key: t for t in demanded(every, is_vector_generator, lambda t: t.args)}
        if found == generators:
            break
        generators = found
    scalars = reached(every)
    owns: dict[bytes, list[tuple[Slot, ...]]] = {}
    for t in generators.values():
        if isinstance(t.op, MatMul):
            owns.setdefault(t.op.matrix.token, []).append(t.own)
    return Structure(generators, tuple(scalars), {token: named_apart(generalise(own)) for token, own in owns.items()})


def named_apart(slots: tuple[Slot, ...]) -> tuple[Slot, ...]:
    """Letters of copies, which no term has."""
    return tuple(Index(f"@c{s.name[1:]}", s.plate) if isinstance(s, Index) else s for s in slots)


def reached(roots: Sequence[Term]) -> list[Term]:
    """Every scalar generator below the roots, at every choice of letters."""
    todo, seen, out = [canonical(t)[0] for t in roots], set(), []
    while todo:
        term = todo.pop()
        if term not in seen:
            seen.add(term)
            if isinstance(term.op, Generator) and term.width is None:
                out.append(term)
            todo.extend(canonical(a)[0] for a in term.args)
    return out
