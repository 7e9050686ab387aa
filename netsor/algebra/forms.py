"""Scores as white bilinear forms: n^{-1/2} <l, W r> = sigma B_W(l, r), with B_W white in the vectors that W meets.

Given everything that W does not reach, Cov(B_W(l, r), B_W(l', r')) = E[Z^l Z^l'] E[Z^r Z^r'], exactly at every width with
inner products in place of expectations (docs/theory.md, Lemma 1 and Proposition 7). The pivot W of each term is the last
of its fresh sources in one order of all sources, so that the other factors of every score precede its pivot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from netsor import semantics
from netsor.algebra.moments import Moments
from netsor.algebra.pivots import Pivots, is_score
from netsor.algebra.poly import Mono, Poly, bind, scalar
from netsor.algebra.scores import score_covariance
from netsor.checks import Number
from netsor.ir import Index, Plate, Term, apply, lift, make, postorder
from netsor.ops import MUL, Op, Param
from netsor.walks import generic


@dataclass(frozen=True, slots=True)
class White(Op):
    """B_W(l, r): its own letters tell the copies of W apart, its children are l and r.

    For an initial vector in the role of W the children are the vector itself, whose fluctuations are meant, and r.
    """

    source: bytes
    name: str

    @property
    def label(self) -> str:
        return repr(replace(self, source=b""))


@dataclass(frozen=True, slots=True)
class Sigma(Op):
    """sigma of a matrix: the root of n times the variance of an entry."""

    name: str
    sigma: Number | Param


def white_forms(moments: Moments, pivots: Pivots, scores: Sequence[Term]) -> list[Poly] | None:
    """Each score as a polynomial in white forms; None where no order of the sources, or of their copies, allows it."""
    rank = pivots.order(scores)
    if rank is None:
        return None
    out = []
    for score in scores:
        poly = white_form(moments, pivots, score, rank)
        if poly is None:
            return None
        out.append(poly)
    return out if plain_copies(out) else None


def white_form(moments: Moments, pivots: Pivots, score: Term, rank: Mapping[bytes, int]) -> Poly | None:
    left, right, *_ = score.args
    todo = list(moments.expand(left) * moments.expand(right))
    out = Poly()
    while todo:
        m = todo.pop()
        if pivots.vanishes(m):
            continue
        fresh = {p.source for p, others in pivots.forms(m) if p.source not in {source for source, _ in others}}
        if not fresh:
            return None
        last = max(fresh, key=lambda s: rank.get(s, -1))
        k = next(k for k, a in enumerate(m.atoms) if semantics.source(a.op) == last)
        atom, others = m.atoms[k], (*m.atoms[:k], *m.atoms[k + 1 :])
        if atom.family.children:  # a matrix
            record = record_of(atom)
            form = scalar(make(Sigma(record.name, record.sigma))) * scalar(white(last, atom, product(others), atom.args[0]))
        else:
            form = scalar(white(last, atom, atom, product(others)))
            mean = Poly((Mono(m.number, (), m.scalars, others),)) * semantics.cumulant(atom.op, (atom,), moments)
            todo += bind(mean, m.bound)
        out = out + bind(Poly((Mono(m.number, (), m.scalars),)) * form, m.bound)
    return out


def white(source: bytes, atom: Term, left: Term, right: Term) -> Term:
    own = atom.own if atom.family.children else ()
    return make(White(source, record_of(atom).name), own, (left, right))


def record_of(atom: Term) -> Any:
    """What names a source: the record of a matrix, or the initial vector itself."""
    return getattr(atom.op, "matrix", atom.op)


def product(factors: Sequence[Term]) -> Term:
    """The coordinatewise product; the constant vector 1 for none."""
    if not factors:
        return lift(1)
    out = factors[0]
    for f in factors[1:]:
        out = apply(MUL, out, f)
    return out


def plain_copies(polys: Sequence[Poly]) -> bool:
    """Is each source met with the letters of all its copies throughout (or always with the same members)?"""
    seen: dict[bytes, object] = {}
    for t in (s for poly in polys for m in poly for s in m.scalars if isinstance(s.op, White)):
        letters = [s for s in t.own if isinstance(s, Index)]
        shape = tuple("letter" if isinstance(s, Index) else s for s in t.own)
        if len(set(letters)) < len(letters) or seen.setdefault(t.op.source, shape) != shape:  # type: ignore[attr-defined]
            return False
    return True


def copies_of(form: Term) -> list[Index]:
    """The letters of a form that tell independent copies apart."""
    return [s for s in form.own if isinstance(s, Index)]


def copy_letters(plates: Sequence[Plate]) -> tuple[Index, ...]:
    return tuple(Index(f"#copy{k}", p) for k, p in enumerate(plates))


def sides(form: Term) -> tuple[Term, Term]:
    """l and r with the copies' letters named alike in all forms of one matrix, and the other letters apart by side."""
    copies = copies_of(form)
    names = copy_letters([i.plate for i in copies])
    left, right = (
        side.at({i: Index(f"#{mark}{k}", i.plate) for k, i in enumerate(i for i in side.free if i not in copies)}).at(
            dict(zip(copies, names, strict=True))
        )
        for side, mark in zip(form.args, "lr", strict=True)
    )
    return left, right


def shared_with(moments: Moments, pivots: Pivots, score: Term) -> list[Term]:
    """The scores below, at generic letters, that share a pivot with a score: given them it is not centred."""
    below = [generic(f) for f in postorder(*score.args) if is_score(Term(f, ()))]
    polys = white_forms(moments, pivots, [*below, score])
    if polys is None:
        return [p for p in below if score_covariance(moments, score, p.at({i: i.prime for i in p.free}))]
    *others, mine = ({s.op.source for m in poly for s in m.scalars if isinstance(s.op, White)} for poly in polys)
    return [p for p, theirs in zip(below, others, strict=True) if mine & theirs]
