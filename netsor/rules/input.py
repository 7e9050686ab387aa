"""Input: initial vectors, iid over coordinates."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from netsor import semantics
from netsor.algebra.moments import Moments
from netsor.algebra.poly import ZERO, Poly, constant, same, scalar
from netsor.checks import Number, identifier, number
from netsor.errors import IllFormed
from netsor.ir import Index, Slot, Term, Width, make
from netsor.ops import Generator, Op, Param
from netsor.rules.matmul import distinct_letters, not_a_width
from netsor.rules.prior import covariance_of


class Unknown:
    """A covariance that is printed and has no value."""

    def __repr__(self) -> str:
        return "unknown"


unknown = Unknown()


@dataclass(frozen=True, slots=True)
class Law:
    """The law of a coordinate that is not Gaussian: its moments E x^k and its quantile function (for sampling).

    `law = Law("Rademacher", moment=lambda k: 1 - k % 2, quantile=lambda u: numpy.sign(u - 0.5))`
    """

    name: str
    moment: Callable[[int], Number] = field(compare=False)
    quantile: Callable[[Any], Any] = field(compare=False)

    def cumulant(self, order: int) -> Number:
        """kappa_k = m_k - sum_j C(k-1, j-1) kappa_j m_{k-j}."""
        lower: list[Number] = []
        for k in range(1, order + 1):
            inner = sum(math.comb(k - 1, j - 1) * lower[j - 1] * self.moment(k - j) for j in range(1, k))
            lower.append(self.moment(k) - inner)
        return lower[-1]


@dataclass(frozen=True, slots=True)
class Input(Generator):
    """Initial vectors x[i]: coordinates iid, jointly N(mean, cov) over the plates (or iid of another law).

    `cov`: a number c (c times the identity), or a nested tuple over (indices, primed indices), or unknown.
    """

    name: str
    cov: Any
    mean: Number | Param
    law: Law | None
    token: bytes

    @property
    def label(self) -> str:
        return f"Input({self.name}, {self.cov!r}, {self.mean!r}, {self.law and self.law.name})"

    @property
    def identity(self) -> str:
        return f"{self.token.hex()} {self.mean!r}"  # the token stands for all that is fixed at construction


@dataclass(frozen=True, slots=True)
class Prior(Op):
    """An entry of the covariance of initial vectors; its letters are the indices and the primed indices."""

    input: Input

    @property
    def identity(self) -> str:
        return f"Prior({self.input.identity})"

    @property
    def label(self) -> str:
        return f"Prior({self.input.label})"


def vector(
    name: str,
    *indices: Index,
    mean: Number | Term = 0,
    cov: Any = None,
    law: Law | None = None,
    width: Width = Width(),
) -> Term:
    """Initial vectors: coordinates iid over the width, jointly N(mean, cov) over the indices.

    cov: None for iid N(0, 1); a number c for iid N(0, c); an array of shape (sizes of the indices) twice; `unknown`.
    law: another law of the coordinates, iid also over the indices (a `Law`); then mean and cov are the law's own.
    Shapes: cov is (s, s) for one index, (s, h, s, h) for two.
    Raises: NS305 for an array of another shape, not symmetric, or not positive semidefinite; NS306 for NaN; NS309
    for a law that is no Law.
    """
    identifier(name, "a vector")
    distinct_letters(f"vector({name!r}, ...)", indices)
    value: Number | Param = (
        mean.op if isinstance(mean, Term) and isinstance(mean.op, Param) else number(mean, f"mean of vector {name}")
    )
    if not isinstance(width, Width):
        raise not_a_width(
            f"vector({name!r}, width={width!r})",
            "width=4 * Width(); 3 numbers that stay: a scalar with an index c = Plate('dim', 3).index('c')",
        )
    if not (law is None or (isinstance(law, Law) and callable(law.moment) and callable(law.quantile))):
        raise IllFormed(
            "NS309",
            statement=f"vector({name!r}, law={law!r})",
            hypothesis="another law is a Law: a name, its moments and its quantile function",
            repair="Law('Rademacher', moment=lambda k: 1 - k % 2, quantile=lambda u: numpy.sign(u - 0.5))",
        )
    if law is not None and (cov is not None or value != 0):
        raise IllFormed(
            "NS305",
            statement=f"vector({name!r}, law=..., mean=..., cov=...)",
            hypothesis="a law fixes its own mean and variance",
            repair="shift or scale the vector in the program: 2 * x + 1",
        )
    checked = 1 if cov is None else cov if isinstance(cov, Unknown) else covariance_of(name, indices, cov)
    return make(Input(name, checked, value, law, secrets.token_bytes(8)), indices, width=width)


@semantics.source.register
def _(op: Input) -> bytes | None:
    return op.token


@semantics.cumulant.register
def _(op: Input, terms: tuple[Term, ...], at: Moments) -> Poly:
    order = len(terms)
    if op.law is not None:
        joint = constant(op.law.cumulant(order))
        for t in terms[1:]:
            joint = joint * same(terms[0].own, t.own)
        return joint
    if order == 1:
        return scalar(make(op.mean)) if isinstance(op.mean, Param) else constant(op.mean)
    if order > 2:
        return ZERO
    left, right = terms
    if isinstance(op.cov, tuple | Unknown):
        return scalar(make(Prior(op), (*left.own, *right.own)))
    return constant(op.cov) * same(left.own, right.own)


@semantics.pivot.register
def _(op: Input, term: Term) -> semantics.Pivot | None:
    independent = not isinstance(op.cov, tuple | Unknown)
    letters: tuple[Slot | None, ...] = term.own if independent else (None,) * len(term.own)
    return semantics.Pivot(op.token, letters, None)


@semantics.draw.register
def _(op: Input, term: Term, at: Any) -> Any:
    return at.initial(op, term)


@semantics.bound.register
def _(op: Input, values: Mapping[str, Number]) -> Op:
    mean = semantics.bound(op.mean, values) if isinstance(op.mean, Param) else op.mean
    assert not isinstance(mean, Op) or isinstance(mean, Param)
    return replace(op, mean=mean)
