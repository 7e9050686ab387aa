"""Lazy and collapsed against dense: joint laws of averages (Grams), scores and coordinates, and mutants that must be caught.

Each comparison raises a false alarm with probability 1e-7 and detects differences of 0.03 in one characteristic function
(200,000 runs a side).
"""

from collections.abc import Callable

import numpy as np
import pytest
from joint_tests import Differ, assert_same_law, drawn

from netsor import (
    Law,
    Plate,
    Width,
    clip,
    distinct,
    dot,
    layernorm,
    matrix,
    mean,
    relu,
    rmsnorm,
    softmax,
    sqrt,
    sum_over,
    tanh,
    vector,
)
from netsor.finite import collapsed, lazy
from netsor.finite.basis import extended
from netsor.finite.frames import Frame
from netsor.ir import Term

RUNS = 200_000
Terms = dict[str, Term]

token, head = Plate("token", 3), Plate("head", 2)
i, j = token.indices("i j")
a, b = head.indices("a b")


def layer(x: Term, number: int = 1) -> Terms:
    WQ, WK, WV, WO = (matrix(f"W{r}{number}", a) for r in "QKVO")
    q, k, v = WQ @ x, WK @ x[j], WV @ x[j]
    p = dot(q, k)
    o = WO @ sum_over(softmax(p, over=j) * v, j)
    return {"q": q, "k": k, "p": p, "o": o, "y": sum_over(o, a) / sqrt(head.size)}


def attention() -> Terms:
    """More tokens than coordinates at n = 1 and 2."""
    x = clip(1)(matrix("Win", i) @ vector("h"))
    t = layer(x)
    q, k, y = t["q"], t["k"], t["y"]
    return {"p": t["p"], "qq": mean(q * q[{i: j}]), "qk": mean(q * k), "y": y, "yy": mean(y * y[j]), "xx": mean(x * x[j])}


def repeated() -> Terms:
    """Three equal tokens: singular Gram matrices."""
    t = layer(vector("x", i, cov=np.ones((3, 3))))
    return {"p": t["p"], "y": t["y"], "yy": mean(t["y"] * t["y"][j])}


def near() -> Terms:
    """Tokens at distance 1e-8: what a matrix makes of the difference is not lost in rounding."""
    h = tanh(vector("h") + 1e-8 * vector("e", i))
    t = layer(h)
    W = matrix("W")
    d = (W @ h - W @ h[0]) * 1e8
    return {"p": t["p"], "d": d[1], "e": d[2], "dd": mean(d * d[j])[{i: 1}], "y": t["y"]}


def reuse() -> Terms:
    """One matrix on inputs of many kinds, its own outputs among them."""
    W, x = matrix("W"), vector("x", i)
    g = W @ x
    h = W @ (x[0] + 0.5 * g[1])
    r = W @ relu(g)
    s = W @ r
    return {"gg": mean(g * g[j]), "gh": mean(g * h), "hr": mean(h * r), "rs": mean(r * s), "s": s, "h": h, "g": g}


def residual() -> Terms:
    """Explicit and frame vectors in one sum, twice over; norms on the way."""
    x = tanh(vector("x", i))
    u = x + layer(x)["y"]
    h = relu(matrix("V1") @ rmsnorm(u, eps=0.1))
    z = u + 2 * h
    w = layernorm(z + layer(z, 2)["y"], eps=0.1)
    t = layer(w, 3)
    return {"uu": mean(u * u[j]), "uh": mean(u * h), "zz": mean(z * z[j]), "p": t["p"], "w": w, "y": t["y"]}


def shared() -> Terms:
    """A universal transformer: the same matrices in two layers, and one score masked."""
    WQ, WK, WV = matrix("WQ"), matrix("WK"), matrix("WV")
    x = vector("x", i)

    def step(x: Term) -> tuple[Term, Term]:
        p = dot(WQ @ x, WK @ x[j], where=distinct(i, j))
        return p, x + sum_over(softmax(p, over=j, where=distinct(i, j)) * (WV @ x[j]), j)

    p, u = step(x)
    r, w = step(u)
    return {"p": p, "r": r, "w": w, "ww": mean(w * w[j])}


def rnn() -> Terms:
    W, U, h, v = matrix("W"), matrix("U"), vector("h0"), vector("v")
    out: Terms = {}
    for t in range(3):
        h = tanh(W @ h + U @ vector(f"x{t}") + vector(f"b{t}", mean=0.5))
        out |= {f"h{t}": h, f"m{t}": mean(h), f"r{t}": dot(v, h)}
    return out


def chain() -> Terms:
    """Powers of one matrix: it meets what it made, one vector at a time."""
    W, x = matrix("W"), vector("x")
    g = W @ x
    h = W @ g
    return {"xh": dot(x, h) / sqrt(Plate("many", 8).size), "gg": mean(g * g), "gh": mean(g * h), "h": h, "k": W @ (h + x)}


def late() -> Terms:
    """An explicit vector that enters a room where others are drawn already."""
    x = vector("x", i)
    v, h = matrix("V") @ x, relu(matrix("W") @ x)
    return {"vv": mean(v * v[j]), "vh": mean(v * h[j]), "hh": mean(h * h[j]), "w": matrix("U") @ (v + h)}


def laws() -> Terms:
    """Signs, means, a covariance over tokens, a fixed axis, products of vectors, and a score of the constant vector."""
    signs = vector("s", i, law=Law("Rademacher", lambda k: 1 - k % 2, lambda u: np.sign(u - 0.5)))
    x = vector("x", i, mean=0.5, cov=[[1, 0.5, 0], [0.5, 1, 0], [0, 0, 0]])
    c = Plate("channel", 2).index("c")
    q = dot(vector("wq", c), x)
    g = matrix("G") @ (signs * x)
    return {"q": q, "qq": sum_over(q * q[{i: j}], c), "g": g, "m": mean(x * g), "t": dot(g, 1), "sx": mean(signs * x[j])}


def rectangular() -> Terms:
    n = Width("n")
    up, down = matrix("A", a, shape=(2 * n, n)), matrix("B", a, shape=(n, 2 * n))
    x = vector("x", i)
    g = up @ x
    h = down @ relu(g)
    k = down @ g
    return {"p": dot(h, k[{i: j}]), "hh": mean(h * k), "x": x + sum_over(k, a), "g": g, "gg": mean(g * g[j])}


def across() -> Terms:
    """Heads that meet: keys shared, values summed under a nonlinearity, inner products between heads."""
    WQ, WK, x = matrix("WQ", a), matrix("WK"), vector("x", i)
    q, k = WQ @ x, WK @ x[j]
    p = dot(q, k)
    s = relu(sum_over(q, a))
    return {"p": p, "ab": mean(q * q[b]), "s": mean(s * s[j]), "qs": mean(q * s), "one": WQ[0] @ (WQ[1] @ x[0])}


def shifted() -> Terms:
    """Coordinates of Gaussian vectors with a mean, beside their lengths: the constant vector alone is explicit."""
    x = vector("x", i, mean=0.5)
    return {"x": x, "xx": mean(x * x[j]), "q": dot(matrix("Q") @ x, matrix("K") @ x[j])}


PROGRAMS = (attention, repeated, near, reuse, residual, shared, rnn, chain, late, laws, rectangular, across, shifted)


def agree(program: Callable[[], Terms], engine: str, width: int, runs: int = RUNS) -> None:
    terms = program()
    assert_same_law(drawn(terms, "dense", width, runs, rng=1), drawn(terms, engine, width, runs, rng=2))


@pytest.mark.parametrize("engine", ["lazy", "collapsed"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_one_law(program: Callable[[], Terms], engine: str) -> None:
    """In short, a width below the number of tokens, and one above: differences of 0.15 in one characteristic function."""
    agree(program, engine, 2, 8_000)
    agree(program, engine, 16, 4_000)


@pytest.mark.nightly
@pytest.mark.parametrize("width", [1, 2, 3, 8, 16])
@pytest.mark.parametrize("engine", ["lazy", "collapsed"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_one_law_at_length(program: Callable[[], Terms], engine: str, width: int) -> None:
    agree(program, engine, width)


# ------------------------------------------------------------------------------------------------------------- mutants


class Mutant(Frame):
    """A Wishart matrix with one degree of freedom too many."""

    def __init__(self, batch: tuple[int, ...], runs: int, slots: int, heads: int, dimension: int) -> None:
        super().__init__(batch, runs, slots, heads, dimension + 1)


class LimitLaw(Frame):
    """Lengths as they are in the limit: scores become Gaussian given the tokens."""

    def gaussian(self, vectors: int, source: np.random.Generator) -> np.ndarray:
        start, out = self.filled, super().gaussian(vectors, source)
        each = np.arange(vectors)
        out[..., each, :, start + each] = np.sqrt(self.dimension - start - each)[:, *[None] * (len(self.batch) + 1)]
        return out


class Late(Frame):
    """An explicit vector beside drawn ones gets a direction that is orthogonal to all of them."""

    def explicit(self, head: np.ndarray, rows: np.ndarray, source: np.random.Generator) -> np.ndarray:
        self.drawn = False
        return super().explicit(head, rows, source)


def fresh(Q: np.ndarray, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every use of a matrix as if it were the first."""
    basis, C = extended(0 * Q, X)
    return basis, C


@pytest.mark.parametrize(
    ("engine", "module", "name", "mutant", "program"),
    [
        ("collapsed", collapsed, "Frame", Mutant, attention),
        ("collapsed", collapsed, "Frame", LimitLaw, attention),
        ("collapsed", collapsed, "Frame", Late, late),
        ("collapsed", collapsed, "extended", fresh, chain),
        ("lazy", lazy, "extended", fresh, reuse),
        ("lazy", lazy, "extended", fresh, chain),
    ],
)
def test_mutants_are_caught(
    engine: str, module: object, name: str, mutant: object, program: Callable[[], Terms], monkeypatch: pytest.MonkeyPatch
) -> None:
    width, runs = 8, 20_000
    agree(program, engine, width, runs)
    monkeypatch.setattr(module, name, mutant)
    with pytest.raises(Differ):
        agree(program, engine, width, runs)
