"""The limit of infinitely many members of a plate: sums of independent centred vectors become Gaussian."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import reduce

from netsor.algebra.members import independent
from netsor.algebra.moments import Moments
from netsor.algebra.poly import Mono, is_map
from netsor.errors import NoRule, located
from netsor.functions.along import sum_over
from netsor.functions.sqrt import sqrt
from netsor.ir import Index, Member, Plate, Size, Slot, Term, apply, lift, make, postorder
from netsor.ops import ADD, DIV, MUL, Along, Average, Const, Op, Typical
from netsor.rules.clt import Clt
from netsor.rules.matmul import MatMul
from netsor.walks import generic, rebuild


def to_infinity(variables: Mapping[str, Term], name: str) -> dict[str, Term]:
    """The variables with the plate of this name infinite.

    H^{-1/2} Sum_a x[a] becomes a Gaussian vector where the x[a] are independent given what they share, and centred because
    each is linear in its own copy of a matrix; H^{-1} Sum_a s[a] of scalars becomes an expectation.
    Raises: NS203 where a sum is scaled otherwise, where the members share a score, or are not centred.
    """
    many = Many(name)
    memo: dict[bytes, Term] = {}
    out = {key: rebuild(term, many.op, many.slot, memo, many.limit) for key, term in variables.items()}
    for family in postorder(*out.values()):
        if any(p.name == name for p in family.bound) and not isinstance(family.op, Typical):
            raise many.refusal(generic(family), "this operation over the members is not a scaled sum")
        if isinstance(family.op, Size) and family.op.plate.name == name:
            raise many.refusal(generic(family), "the size stands by itself, not beside a sum over the members")
    return out


class Many:
    """One plate on its way to infinity."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.moments = Moments()

    def slot(self, s: Slot) -> Slot:
        return Member(self.plate(s.plate), s.at) if isinstance(s, Member) else Index(s.name, self.plate(s.plate))

    def plate(self, p: Plate) -> Plate:
        return replace(p, extent=None, infinite=True) if p.name == self.name else p

    def op(self, op: Op) -> Op:
        return Size(self.plate(op.plate)) if isinstance(op, Size) else op

    # ---- the sums

    def limit(self, term: Term) -> Term:
        """A scaled sum over the plate as its limit; other terms as they are."""
        found = self.scaled_sum(term)
        if found is None:
            return term
        total, factor, divides = found
        exponent, rest = self.size_power(factor)
        exponent = -exponent if divides else exponent
        (letter,), (body, *masks) = total.open()
        if masks:
            raise self.refusal(term, "the sum runs over some of the members only")
        if body.width is None:
            if exponent != -1:
                raise self.refusal(term, "a sum of scalars over the members needs the factor 1 / size")
            out = make(Average(), children=(body,), bound=(letter,))
        else:
            if exponent != Fraction(-1, 2):
                raise self.refusal(term, f"it is scaled by size^{exponent}, and only size^(-1/2) leaves it random")
            pieces = [self.clt(term, m, letter) for m in self.moments.expand(body)]
            out = reduce(lambda x, y: apply(ADD, x, y), pieces) if pieces else lift(0)
        if not rest:
            return out
        return apply(DIV if divides else MUL, *((out, product(rest)) if divides else (product(rest), out)))

    def scaled_sum(self, term: Term) -> tuple[Term, Term, bool] | None:
        """(the sum over the plate, a scalar factor, does it divide), for sum / s, s * sum and sum * s."""
        if is_map(term, "div") and self.is_sum(term.args[0]) and term.args[1].width is None:
            return term.args[0], term.args[1], True
        if is_map(term, "mul"):
            for total, factor in (term.args, term.args[::-1]):
                if self.is_sum(total) and factor.width is None:
                    return total, factor, False
        return None

    def is_sum(self, term: Term) -> bool:
        op = term.op
        return isinstance(op, Along) and op.fn.name == "sum" and term.family.bound[0].name == self.name

    def size_power(self, factor: Term) -> tuple[Fraction, list[Term]]:
        """factor = size^exponent * product of the rest."""
        if isinstance(factor.op, Size) and factor.op.plate.name == self.name:
            return Fraction(1), []
        if is_map(factor, "mul"):
            (e, a), (f, b) = map(self.size_power, factor.args)
            return e + f, a + b
        if is_map(factor, "div"):
            (e, a), (f, b) = map(self.size_power, factor.args)
            return e - f, [*a, *(apply(DIV, 1, t) for t in b)]
        if is_map(factor, "sqrt"):
            e, a = self.size_power(factor.args[0])
            return (e / 2, [sqrt(t) for t in a]) if e else (e, [factor])
        return Fraction(0), [] if isinstance(factor.op, Const) and factor.op.value == 1 else [factor]

    def clt(self, term: Term, m: Mono, letter: Index) -> Term:
        linear = [a for a in m.atoms if isinstance(a.op, MatMul) and letter in a.own]
        if len(m.atoms) != 1 or len(linear) != 1:
            raise self.refusal(
                term,
                "the summands are not centred given what the members share: each must be linear in a matrix of its own, "
                "such as W^O; their sum grows like the root of the size",
            )
        (atom,) = linear
        if not independent(self.moments, [*m.scalars, *m.atoms], letter):
            raise self.refusal(term, "given what they share, the members are not independent and of one law")
        factors = [*([] if m.number == 1 else [lift(m.number)]), *m.scalars, atom]
        summand = product(factors)
        assert isinstance(atom.op, MatMul)
        return make(Clt(atom.op.matrix), (), (sum_over(summand, *m.bound),), (letter,), atom.width, (), term.family.origin)

    def refusal(self, term: Term, reason: str) -> NoRule:
        return NoRule(
            "NS203",
            statement=f"P.at({self.name}=oo)",
            place=located(term.family.origin),
            hypothesis=f"a central limit theorem over the members needs independent centred summands, scaled by the root of "
            f"their number (Hron et al. 2020, arXiv 2006.10540): {reason}",
            consequence="the limit would be another one, or none",
            repair=f"keep {self.name} finite, P.at({self.name}=64), or give each member its own output matrix",
        )


def product(factors: Sequence[Term]) -> Term:
    return reduce(lambda x, y: apply(MUL, x, y), factors)
