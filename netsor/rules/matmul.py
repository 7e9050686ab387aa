"""MatMul: a vector multiplied by a random matrix."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from netsor import semantics
from netsor.algebra.moments import Moments
from netsor.algebra.poly import ZERO, Poly, same, scalar
from netsor.checks import Number, identifier, number
from netsor.errors import IllFormed, NoRule
from netsor.ir import Index, Slot, Term, Width, free_of, lift, make, reindex
from netsor.ops import Generator, Op, Param
from netsor.rules.need import vector_argument


@dataclass(frozen=True, slots=True)
class Record:
    """One named family of random matrices: entries N(0, sigma^2 / columns), independent over entries and copies."""

    name: str
    sigma: Number | Param
    rows: Width
    columns: Width
    token: bytes


@dataclass(frozen=True, slots=True)
class Matrix:
    """A random matrix for each choice of its letters. `W @ x` is MatMul; `W[i]` another copy of the same family."""

    __array_ufunc__ = None

    record: Record
    slots: tuple[Slot, ...] = ()

    def __getitem__(self, where: Any) -> Matrix:
        to = reindex(free_of(self.slots), where, f"matrix {self.record.name}")
        return replace(self, slots=tuple(to.get(s, s) for s in self.slots))

    def __matmul__(self, x: Any) -> Term:
        x = vector_argument(f"{self.record.name} @ ...", lift(x))
        if x.width != self.record.columns:
            raise IllFormed(
                "NS303",
                statement=f"{self.record.name} @ x with {self.record.name} of shape "
                f"({self.record.rows}, {self.record.columns}) and x of width {x.width}",
                hypothesis="a matrix acts on vectors of as many coordinates as it has columns",
                repair=f'give the matrix the shape of its use: matrix("{self.record.name}", shape=(rows, {x.width}))',
            )
        return make(MatMul(self.record), self.slots, (x,), width=self.record.rows)

    def __rmatmul__(self, x: Any) -> Term:
        raise IllFormed(
            "NS309",
            statement=f"... @ {self.record.name}",
            hypothesis="a matrix acts on a vector from the left",
            repair=f"write {self.record.name} @ x with x a vector",
        )

    @property
    def T(self) -> Matrix:
        raise NoRule(
            "NS201",
            statement=f"{self.record.name}.T",
            hypothesis="the limit of W^T y needs the rule of programs with transposes (Yang 2020, Tensor Programs II, "
            "arXiv 2006.14548), which netsor does not have yet",
            consequence="treating W^T as a fresh matrix drops a correction and gives a wrong law",
            repair="if W^T may be independent of W, use another matrix",
        )


@dataclass(frozen=True, slots=True)
class MatMul(Generator):
    """g = W x. Limit: centred Gaussian, Cov(Z^{Wx}, Z^{Wy} | scores) = sigma^2 E[Z^x Z^y | scores]; other matrices and
    other copies are independent.

    Source: Yang 2019 (arXiv 1910.12478), Theorem 5.4; after scores, docs/theory.md, Theorem 4.
    """

    matrix: Record

    @property
    def label(self) -> str:
        return repr(MatMul(replace(self.matrix, token=b"")))


@dataclass(frozen=True, slots=True)
class Sigma2(Op):
    """The square of a matrix's sigma: n times the variance of an entry."""

    matrix: Record

    @property
    def label(self) -> str:
        return repr(Sigma2(replace(self.matrix, token=b"")))


def matrix(name: str, *indices: Index, sigma: Number | Term = 1, shape: tuple[Width, Width] = (Width(), Width())) -> Matrix:
    """A random matrix with entries N(0, sigma^2 / columns), one independent copy for each value of its indices.

    shape: (rows, columns), two widths. sigma: a number, or param("sigma").
    Raises: NS306 for a sigma that is not finite or negative, NS302 when an index stands twice.
    """
    identifier(name, "a matrix")
    value: Number | Param
    if isinstance(sigma, Term) and isinstance(sigma.op, Param):
        value = sigma.op
        if value.value is not None:
            sigma_at_least_zero(name, value.value)
    else:
        value = sigma_at_least_zero(name, number(sigma, f"sigma of matrix {name}"))
    distinct_letters(f"matrix({name!r}, ...)", indices)
    if not (isinstance(shape, tuple) and len(shape) == 2 and all(isinstance(w, Width) for w in shape)):
        raise not_a_width(
            f"matrix({name!r}, shape={shape!r})",
            "shape=(4 * n, n) with n = Width(); 3 rows that stay: dot(vector('w', c), x), with c = Plate('dim', 3).index('c')",
        )
    return Matrix(Record(name, value, shape[0], shape[1], secrets.token_bytes(8)), tuple(indices))


def not_a_width(statement: str, repair: str) -> IllFormed:
    return IllFormed(
        "NS309",
        statement=statement,
        hypothesis="a dimension that goes to infinity is a Width; one that stays finite is a plate",
        repair=repair,
    )


def sigma_at_least_zero(name: str, value: Number) -> Number:
    if value < 0:
        raise IllFormed(
            "NS306", statement=f"sigma = {value} of matrix {name}", hypothesis="sigma is at least 0", repair="sigma=1"
        )
    return value


def distinct_letters(statement: str, indices: tuple[Any, ...]) -> None:
    if any(not isinstance(i, Index) for i in indices) or len(set(indices)) < len(indices):
        raise IllFormed(
            "NS302",
            statement=statement,
            hypothesis="the letters of a family are distinct indices: " + ", ".join(map(str, indices)),
            repair="make them with plate.index('i') or plate.indices('i j')",
        )


@semantics.source.register
def _(op: MatMul) -> bytes | None:
    return op.matrix.token


@semantics.cumulant.register
def _(op: MatMul, terms: tuple[Term, ...], at: Moments) -> Poly:
    if len(terms) != 2:
        return ZERO
    g, h = terms
    return scalar(make(Sigma2(op.matrix))) * same(g.own, h.own) * at.expect(g.args[0], h.args[0])


@semantics.pivot.register
def _(op: MatMul, term: Term) -> semantics.Pivot | None:
    return semantics.Pivot(op.matrix.token, term.own, term.args[0])


@semantics.draw.register
def _(op: MatMul, term: Term, at: Any) -> Any:
    return at.matrix(op.matrix, term) @ at(term.args[0])


def _bound(matrix: Record, values: Mapping[str, Number]) -> Record:
    sigma = semantics.bound(matrix.sigma, values) if isinstance(matrix.sigma, Param) else matrix.sigma
    assert not isinstance(sigma, Op) or isinstance(sigma, Param)
    if isinstance(sigma, Param) and sigma.value is not None:
        sigma_at_least_zero(matrix.name, sigma.value)
    return replace(matrix, sigma=sigma)


@semantics.bound.register
def _(op: MatMul, values: Mapping[str, Number]) -> Op:
    return MatMul(_bound(op.matrix, values))


@semantics.bound.register
def _(op: Sigma2, values: Mapping[str, Number]) -> Op:
    return Sigma2(_bound(op.matrix, values))
