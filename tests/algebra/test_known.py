"""Nonlinear factors as functions of affine inputs."""

import math
from typing import Any

import pytest

from netsor import Plate, dot, erf, exp, matrix, mean, relu, sum_over, tanh, vector
from netsor.algebra.known import NotCoordinatewise, factors_of, inputs_of, pieces_of, quadratic
from netsor.algebra.moments import Moments, leaf_of
from netsor.functions import softmax
from netsor.ir import Term
from netsor.ops import Piece

i = Plate("token", 2).index("i")
u, v, m = matrix("W") @ vector("u"), matrix("V") @ vector("v"), vector("m", i)
p = dot(matrix("Q") @ vector("a"), vector("b"))

QUADRATIC: dict[str, tuple[Term, Any]] = {
    "a square": (u * u, (u, (0, 0, 1))),
    "with a linear term": (u**2 / 2 - 2 * u, (u, (0, -2, 0.5))),
    "with a constant": (3 - u * u, (u, (3, 0, -1))),
    "a square of a sum": ((u - 1) ** 2, (u - 1, (0, 0, 1))),
    "affine": (1 + u, None),
    "constant": (mean(u * u), None),
    "cubic": (u**2 + u**3, None),
    "of two": (u * u + v, None),
    "a product of two": (u * v, None),
    "with a scalar": (p * u * u, None),
    "a sum over members": (sum_over(m * m, i), None),
    "that cancels": (u * u + u - u * u, None),
}


@pytest.mark.parametrize("name", QUADRATIC)
def test_quadratic(name: str) -> None:
    term, found = QUADRATIC[name]
    assert quadratic(Moments(), term) == found


@pytest.mark.parametrize(
    ("term", "inputs"),
    [
        (u + 2 * v, [u + 2 * v]),
        (tanh(u + v) * relu(u), [u + v, u]),
        (tanh((u + 1) * (u + 1)), [u + 1]),
        (tanh(u * u - 2 * u), [u, 2 * u]),
        (exp(u * u / 9 - 2 * u), [u]),
        (exp((u + 1) ** 2 / 9), [u + 1]),
        (exp(u * v / 9), [u, v]),
        (tanh(u) / mean(u * u), [u]),
    ],
)
def test_inputs(term: Term, inputs: list[Term]) -> None:
    assert list(dict.fromkeys(inputs_of(Moments(), term))) == inputs


def test_what_runs_along_a_plate_has_no_inputs() -> None:
    with pytest.raises(NotCoordinatewise):
        list(inputs_of(Moments(), tanh(softmax(m, over=i))))


def test_factors() -> None:
    found = factors_of(Moments(), leaf_of([tanh(u), u + v, relu(u) * tanh(v)]))
    assert set(found.plain) == {u + v}
    assert set(found.curved) == {tanh(u), relu(u) * tanh(v)}
    assert set(found.inputs) == {u, v}


@pytest.mark.parametrize(
    ("term", "pieces"),
    [
        (erf(u), erf.pieces),
        (exp(1 - u * u), (Piece(math.e, rate=0, bend=1),)),
        (exp(u / 2 - 3 * u * u), (Piece(1, rate=0.5, bend=3),)),
        (exp(u), exp.pieces),
        (tanh(1 - u * u), ()),
        (erf(u * u), ()),
        (u * v, ()),
        (exp(u * v), ()),
    ],
)
def test_pieces(term: Term, pieces: tuple[Piece, ...]) -> None:
    assert pieces_of(Moments(), term, [u, v]) == pieces
