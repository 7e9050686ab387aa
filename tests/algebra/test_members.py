"""Averages over members of a plate: which are averages of independent terms of one law."""

from fractions import Fraction

import pytest

from netsor import Plate, dot, matrix, mean, softmax, sqrt, table, vector
from netsor.algebra.members import independent, is_average, size_power, split
from netsor.algebra.moments import Moments
from netsor.algebra.poly import Mono, Poly
from netsor.functions import relu
from netsor.ir import Index, Term, distinct, lift

HEAD, TOKEN = Plate("head"), Plate("token", 2)
a, b = HEAD.indices("a b")
i, j = TOKEN.indices("i j")
H, T = HEAD.size, TOKEN.size
x, own, linked = vector("x", i), vector("own", a), vector("linked", a, cov=[[2, 1], [1, 2]])
Q, K, R, U, V = matrix("Q", a), matrix("K", a), matrix("R", a), matrix("U"), matrix("V")
p, shared = dot(Q @ x, K @ x[j]), dot(U @ x, V @ x[j])


@pytest.mark.parametrize(
    ("factor", "exponent", "whole"),
    [
        (H, 1, True),
        (T, 0, False),
        (lift(1), 0, True),
        (lift(2), 0, False),
        (lift(1) / H, -1, True),
        (H * H, 2, True),
        (H / sqrt(H), Fraction(1, 2), True),
        (sqrt(H) * H, Fraction(3, 2), True),
        (1 / (H * sqrt(H)), Fraction(-3, 2), True),
        (sqrt(H * T), Fraction(1, 2), False),
        (H * p, 1, False),
        (p / H, -1, False),
        (2 / H, -1, False),
        (abs(H), 0, False),
        (p, 0, False),
    ],
)
def test_powers_of_the_size(factor: Term, exponent: Fraction, whole: bool) -> None:
    assert size_power(factor, "head") == (exponent, whole)


@pytest.mark.parametrize(
    ("scalars", "bound", "so"),
    [
        ((1 / H, p), (a,), True),
        ((1 / sqrt(H), p, 1 / sqrt(H)), (a,), True),
        ((1 / H, p, T), (a, i), True),
        ((1 / H, p), (i,), False),
        ((p,), (a,), False),
        ((1 / H, p, p.at({a: b})), (a, b), False),
        ((1 / (H * H), p, p.at({a: b})), (a, b), False),
        ((p / H,), (a,), False),
    ],
)
def test_averages(scalars: tuple[Term, ...], bound: tuple[Index, ...], so: bool) -> None:
    assert is_average(Mono(1, bound, scalars), HEAD) == so


INDEPENDENT: dict[str, tuple[Term, bool]] = {
    "a score of its own": (p, True),
    "a function of it": (softmax(p, over=j), True),
    "two scores of its own": (p * dot(R @ x, K @ x), True),
    "matrices of its own, added": (dot(Q @ x + R @ x, K @ x[j]), True),
    "vectors of its own under a matrix of all": (dot(U @ (Q @ x[0] + R @ x[0]), V @ x[1]), True),
    "vectors of all under a matrix of all": (dot(U @ (x[0] + x[1]), V @ own), True),
    "a vector of its own": (dot(U @ x, V @ own), True),
    "a score of all": (shared, False),
    "one of its own and one of all": (p * shared, False),
    "that of another member": (p.at({a: HEAD.index("c")}) * p, False),
    "a shared query": (dot(U @ x, K @ x), True),
    "a shared part": (dot(Q @ x + U @ x, V @ x[j]), False),
    "no score": (mean(own * own), True),
    "members that depend on each other": (dot(U @ x, V @ linked), False),
    "another covariance": (p * mean(x * x), True),
    "a table over members": (p * table("c", a), False),
    "a table over tokens": (p * table("c", i), True),
    "a mask over members": (p * (a < 3), False),
    "a mask over tokens": (p * distinct(i, j), True),
    "positions of members": (p * (a - 1), False),
    "below a function": (softmax(p * table("c", a), over=j), False),
}


@pytest.mark.parametrize("name", INDEPENDENT)
def test_independent(name: str) -> None:
    term, so = INDEPENDENT[name]
    assert independent(Moments(), [term], a) == so


def test_correlated_vectors_without_a_score() -> None:
    """Members whose vectors have a covariance over the plate are not of one law, or not independent."""
    assert not independent(Moments(), [relu(linked)], a)
    assert independent(Moments(), [relu(own)], a)


def test_split() -> None:
    """Var = c + H^{-1} Sum_a s_a; what is shared must not be random."""
    average = Mono(1, (a,), (1 / H, p))
    other = Mono(3, (b,), (1 / H, p.at({a: b})))
    found = split(Moments(), Poly((average, Mono(2), other)))
    assert found is not None
    assert found.plate == HEAD
    assert found.letter == a
    assert found.shared == Poly((Mono(2),))
    assert found.member.terms == (Mono(1, (), (p,)), Mono(3, (), (p,)))
    assert split(Moments(), Poly((average, Mono(2, (), (shared,))))) is None
    assert split(Moments(), Poly((Mono(2),))) is None
    assert split(Moments(), Poly((Mono(2, (i,), (table("t", i),)),))) is None
    assert split(Moments(), Poly((Mono(1, (a,), (1 / H, shared * table("t", a))),))) is None
    assert split(Moments(), Poly((Mono(2, (i,), (dot(U @ x, V @ x),)), Mono(1, (b,), (p.at({a: b}),))))) is None
    inner = split(Moments(), Poly((Mono(1, (i, a), (1 / H, T, p)),)))
    assert inner is not None
    assert inner.member.terms == (Mono(1, (i,), (T, p)),)
