"""Formulas mean what the numbers say: the printed covariance, evaluated entry by entry, against the numeric arrays.

Every program names all that it computes, so that a formula has symbols of four kinds only: sizes and parameters
(`L.values`), given constants such as K_x, scalars such as A[a,i,j], and expectations E[x*y] of named variables.
"""

import re
from collections.abc import Callable
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest
import sympy as sp

from netsor import (
    Limit,
    Plate,
    Program,
    distinct,
    dot,
    matrix,
    mean,
    param,
    relu,
    softmax,
    sqrt,
    sum_over,
    table,
    vector,
)
from netsor.algebra.scores import score_covariance
from netsor.infinite.engine import Engine, Sampling
from netsor.ir import Index, Term
from netsor.loading import load
from netsor.numeric.interpreter import Interpreter
from netsor.numeric.named import Named
from netsor.rules import Dot
from netsor.symbolic.sympy_form import letter

K = [[1, 0.5], [0.5, 1]]
SLOPES = [0.5, -1.0]

i, j = Plate("token", 2, "s").indices("i j")
a = Plate("head", 2, "H").index("a")


def block() -> Program:
    """Attention, residual, perceptron, and a score of the next layer; each piece has a name."""
    WQ, WK, WV, WO = (matrix(f"W{r}", a, sigma=param(f"sigma_{r}", 2)) for r in "QKVO")
    x = vector("x", i, cov=K)
    p = dot(WQ @ x, WK @ x[j])
    A = softmax(p, over=j, where=j <= i)
    o = WO @ sum_over(A * (WV @ x[j]), j)
    u = x + sum_over(o, a) / sqrt(a.plate.size)
    h = relu(matrix("W1", sigma=3) @ u)
    m = matrix("W2") @ h
    p2 = dot(matrix("Q2") @ m, matrix("K2") @ m[j])
    return Program("block", x=x, p=p, A=A, o=o, u=u, h=h, m=m, y=u + m, p2=p2)


def pieces() -> Program:
    """Means, tables, positions, masks, moments, swapped roles, one matrix twice."""
    c, W, V = param("c", 0.5), matrix("W"), matrix("V", sigma=2)
    x = vector("x", i, cov=K)
    b = vector("b", a, mean=c, cov=3)
    t = table("t", i, values=SLOPES)
    g = W @ x + b
    d = g - mean(g)
    power, scale = mean(x * x), mean(d * d)
    return Program(
        "pieces",
        x=x,
        b=b,
        shifted=t * x + c * b - 2 * (W @ x),
        spread=sum_over((i - j) * (V @ x[j]), j, where=distinct(i, j)),
        g=g,
        d=d,
        power=power,
        scale=scale,
        ln=d / sqrt(scale),
        p=dot(W @ x, V @ x[j]),
        q=dot(V @ x, W @ x[j]),
        r=dot(W @ x, V @ x[j], where=i <= j),
        whole=W @ (b / sqrt(power + c)),
    )


PROGRAMS: dict[str, Callable[[], Program]] = {
    "attention": lambda: load("attention", {"tokens": "2", "phi": "relu"}),
    "mlp": lambda: load("mlp", {"bias": "0.25"}),
    "inverse_n_attention": lambda: load("inverse_n_attention", {"tokens": "2", "tied": "1"}),
    "block": block,
    "pieces": pieces,
}
GIVEN = {"K_x": K, "t": SLOPES}


class Draw(NamedTuple):
    """A limit, and a few runs of its scores."""

    limit: Limit
    at: Any

    def entries(self, value: Named, over: tuple[Index, ...]) -> np.ndarray:
        """Over the letters, in the first run."""
        return value.full(over)[..., 0, 0]

    def expect(self, *terms: Term) -> np.ndarray:
        """E[x y | scores] over the letters of x, then those of y."""
        apart = [t.at({i: Index(f"{i.name}_{k}", i.plate) for i in t.free}) for k, t in enumerate(terms)]
        over = tuple(i for t in apart for i in t.free)
        return self.entries(self.at.poly(self.limit.moments.expect(*apart), over), over)

    def symbol(self, name: str) -> Any:
        """What a symbol of a formula stands for: a number or an array over its indices."""
        if factors := re.fullmatch(r"E\[(.*)\]", name):
            return self.expect(*(self.limit.variables[x] for x in factors[1].split("*")))
        if name in GIVEN:
            return np.array(GIVEN[name])
        if name in self.limit.values:
            return float(self.limit.values[name])
        term = self.limit.variables[name]
        return self.entries(self.at.value(term), term.free)

    def mean(self, name: str) -> np.ndarray:
        """By the numeric code: over the scores where there are none below, else given the scores of the first run."""
        variable = self.limit[name]
        return self.expect(variable.term) if variable.given else self.limit.mean(name).value

    def covariance(self, name: str) -> np.ndarray:
        variable = self.limit[name]
        if not variable.given:
            return self.limit.covariance(name).value
        term, primed = variable.term, variable.primed
        if variable.kind == "score":
            over = (*term.free, *primed.free)
            return self.entries(self.at.poly(score_covariance(self.limit.moments, term, primed), over), over)
        return self.expect(term, term) - np.multiply.outer(self.expect(term), self.expect(term))

    def evaluated(self, formula: Any, over: tuple[Index, ...]) -> np.ndarray:
        """The formula at every choice of members of its letters."""
        names = {s: self.symbol(s.name) for s in formula.free_symbols if s.name in self.limit.values}
        sizes = {s: int(v) for s, v in names.items() if s.is_integer}
        formula = formula.subs(sizes)
        shape = [i.plate.extent for i in over]
        out = np.empty(shape)
        for members in product(*map(range, shape)):
            at = formula.subs({letter(i.name): sp.Integer(k) for i, k in zip(over, members, strict=True)}).doit()
            leaves = {s: self.symbol(str(s.base.label))[tuple(map(int, s.indices))] for s in at.atoms(sp.Indexed)}
            at = at.xreplace({s: sp.Float(v) for s, v in leaves.items()})
            out[members] = at.xreplace({s: sp.Float(self.symbol(s.name)) for s in at.free_symbols})
        return out


@cache
def draw(program: str) -> Draw:
    limit = PROGRAMS[program]().limit()
    sampling = Sampling(runs=64, seed=np.random.SeedSequence(0))
    at, _ = next(iter(Engine(limit.moments).replicates(list(limit.variables.values()), sampling)))
    return Draw(limit, at)


CASES = [(program, name) for program, build in PROGRAMS.items() for name in build()]


@pytest.mark.parametrize(("program", "name"), CASES)
def test_printed_formulas_are_the_numeric_ones(program: str, name: str) -> None:
    """Mean and covariance of a vector, the covariance of a score, the limit of another scalar."""
    this = draw(program)
    variable = this.limit[name]
    free, primed = variable.term.free, variable.primed.free
    pairs = []
    if variable.cov is not None:
        exists = existing(variable.term)  # a printed covariance is that of the entries that exist
        outer = np.multiply.outer(exists, exists)
        pairs.append((this.evaluated(variable.cov, (*free, *primed)) * outer, this.covariance(name) * outer))
    if variable.term.width is not None:
        pairs.append((this.evaluated(variable.mean, free), this.mean(name)))
    if not pairs:
        pairs.append((this.evaluated(variable.sympy, free), this.symbol(name)))
    for printed, number in pairs:
        np.testing.assert_allclose(printed, number, rtol=1e-10, atol=1e-12)


def existing(term: Term) -> np.ndarray:
    """1 for the entries of a variable that exist: those inside the mask of a score."""
    masks = term.args[2:] if isinstance(term.op, Dot) else ()
    arrays = [Interpreter().value(mask).full(term.free)[..., 0, 0] for mask in masks]
    return np.prod([np.ones([i.plate.extent for i in term.free]), *arrays], axis=0)


@pytest.mark.parametrize(("program", "name"), CASES)
def test_text_and_latex_are_well_formed(program: str, name: str) -> None:
    """No letters of the interpreters (#0, @0), brackets in pairs, LaTeX without unicode."""
    variable = draw(program).limit[name]
    text, latex = str(variable), variable.latex()
    assert not {"#", "@"} & {*text, *latex}
    assert not re.search(r"[#@]\d", variable.explain())
    assert balanced(re.findall(r"[()\[\]{}]", text + variable.explain()))
    assert balanced(re.findall(r"\\left|\\right|(?<!\\)[{}]", latex))
    assert latex.isascii()


def balanced(tokens: list[str]) -> bool:
    """Do brackets close in the order in which they open?"""
    pairs = {")": "(", "]": "[", "}": "{", r"\right": r"\left"}
    expected: list[str] = []
    for token in tokens:
        if token in pairs.values():
            expected.append(token)
        elif not expected or expected.pop() != pairs[token]:
            return False
    return not expected
