"""What is said of a statement: how much of it is proved, and what of a nonlinearity is certified."""

import re

import pytest
import sympy

from netsor import (
    Plate,
    Program,
    dot,
    elementwise,
    exp,
    log,
    matrix,
    mean,
    param,
    relu,
    softmax,
    sqrt,
    step,
    sum_over,
    tanh,
    vector,
)
from netsor.algebra.growth import Growths
from netsor.algebra.moments import Moments
from netsor.algebra.status import certificate
from netsor.ir import Term

t = sympy.Symbol("t")
i, j, k = Plate("token", 2).indices("i j k")
x, y, tokens = vector("x"), vector("y"), vector("tokens", i)
W, V, U, A, B = (matrix(name) for name in "WVUAB")
C, D = matrix("C", i), matrix("D", i)
p = dot(A @ tokens, B @ tokens[j])
attended = sum_over(softmax(p, over=j) * (V @ tokens[j]), j)
q = dot(U @ relu(attended), W @ relu(attended.at({i: j})))

STATUS: dict[str, tuple[Term, str, str]] = {
    "without averages": (W @ tanh(V @ x), "standard", "Theorem 5.4"),
    "with averages": (W @ x / mean(x * x), "standard", "Netsor[+]"),
    "one layer of scores": (p, "proved", "Sakai"),
    "with a parameter": (W @ (param("c", 2) * x), "standard", "Theorem 5.4"),
    "a score of initial vectors": (dot(x, y), "proved", "^docs/theory.md, Lemma 1 and Proposition 3"),
    "a score with one initial vector": (dot(W @ x, y), "proved", "^docs/theory.md, Lemma 1 and Proposition 3"),
    "a score of a function": (dot(tanh(W @ x), V @ y), "proved", "^docs/theory.md, Lemma 1 and Proposition 3"),
    "a vector after scores": (attended, "proved", "Theorem 4"),
    "scores after scores": (q, "proved", "Theorem 4"),
    "a matrix again": (A @ attended, "extrapolated", "Remark 5"),
    "a matrix again, through a score": (A @ (p * tokens), "extrapolated", "Remark 5"),
    "no order of pivots": (dot(W @ relu(V @ x), V @ relu(W @ x)), "extrapolated", "Remark 6"),
    "no fresh form of one token": (dot(C @ relu(D @ x), (D @ relu(C @ x))[j]), "extrapolated", "Remark 6"),
    "beyond the classes": (exp(x * x / 8), "extrapolated", "Growth"),
    "after scores, exponential": (p * exp(x), "extrapolated", "Growth"),
    "exponential": (exp(x), "standard", "Theorem 5.4"),
    "a pole": (log(abs(x)), "extrapolated", "Growth"),
}


@pytest.mark.parametrize("name", STATUS)
def test_status(name: str) -> None:
    term, level, theorem = STATUS[name]
    status = Program("status", z=term).limit()["z"].status
    assert status.level == level
    assert re.search(theorem, status.theorem)


CERTAIN = "not pseudo-Lipschitz"
OPEN = "not certified pseudo-Lipschitz"
NO_CLASS, CONTROLLED = "integrable, but in no class of a theorem", "Theorem 5.4: controlled"
NONSINGULAR, POLYNOMIAL = "Gram matrix of its arguments is nonsingular", "polynomially bounded"


@pytest.mark.parametrize(
    ("term", "said", "by"),
    [
        (tanh(x), "pseudo-Lipschitz, certified", ""),
        (x**3 - x, "pseudo-Lipschitz, certified", ""),
        (exp(x), CERTAIN, CONTROLLED),
        (x * exp(x * x / 8), CERTAIN, NO_CLASS),
        (log(abs(x)), CERTAIN, NO_CLASS),
        (step(x), CERTAIN, NONSINGULAR),
        (step(x) * exp(x), CERTAIN, CONTROLLED),
        (sqrt(abs(x)), CERTAIN, POLYNOMIAL),
        (sqrt(abs(x)) * tanh(x), CERTAIN, POLYNOMIAL),
        (exp(x) * exp(-x), OPEN, POLYNOMIAL),
        (elementwise(sympy.Lambda(t, 1 / sympy.cosh(t)))(x), OPEN, POLYNOMIAL),
    ],
)
def test_certificate(term: Term, said: str, by: str) -> None:
    text = certificate(Growths(Moments()), term)
    assert text.split(":")[0] == said
    assert by in text
