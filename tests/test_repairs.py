"""What a refusal says to write instead is legal, and runs: for every code the repairs of its section in docs/refusals.md."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from netsor import (
    NetsorError,
    Plate,
    Program,
    Width,
    clip,
    distinct,
    dot,
    exp,
    hardmax,
    log,
    matrix,
    max_over,
    mean,
    oo,
    param,
    relu,
    rmsnorm,
    sign,
    simulate,
    softmax,
    sqrt,
    sum_over,
    table,
    tanh,
    vector,
)
from netsor.errors import TITLES
from netsor.loading import load

n = Width("n")
i, j = Plate("token", 3).indices("i j")
a, c = Plate("head").index("a"), Plate("dim", 4).index("c")
x, y, z = vector("x", i), vector("y"), vector("z")
W, V, Y = matrix("W"), matrix("V"), matrix("Y", i)
g, h, q, k = W @ y, V @ z, W @ y, V @ x[j]
beta = param("beta")
scores = dot(Y @ z, Y[j] @ z, where=distinct(i, j))
HEADS = Program("heads", y=sum_over(matrix("H", a) @ z, a) / sqrt(a.plate.size))
OPEN = Program("open", y=beta * vector("v", Plate("open").index("o")))

# What stands behind "Instead" in the section of the code, or in the message.
REPAIRS: dict[str, list[Callable[[], Any]]] = {
    "NS101": [lambda: mean(relu(W @ x) * relu(W @ x[j])), lambda: dot(W @ x, V @ x[j]), lambda: scores],
    "NS102": [lambda: dot(g, relu(h)), lambda: dot(W @ y, V @ z), lambda: mean((W @ y) * relu(W @ z))],
    "NS103": [lambda: sign(g), lambda: tanh(g - mean(y * y) * g), lambda: clip(1)(g - mean(y * y) * g)],
    "NS104": [lambda: rmsnorm(g - mean(y * y) * g, eps=1e-5), lambda: rmsnorm(g)],
    "NS105": [lambda: softmax(dot(W @ x, V @ x[j]), over=j), lambda: exp(q) / mean(exp(q)), lambda: mean(q), lambda: dot(q, 1)],
    "NS106": [lambda: g / sqrt(h * h + 1), lambda: log(1 + g * g), lambda: exp(g * g / 16)],
    "NS107": [lambda: hardmax(dot(q, k), over=j), lambda: max_over(dot(q, k), j)],
    "NS201": [lambda: matrix("Wt") @ relu(g)],
    "NS203": [lambda: HEADS.at(head=64), lambda: HEADS.at(head=oo)],
    "NS204": [lambda: tanh(g * g - mean(g * g)), lambda: clip(1)(g * g - mean(g * g)), lambda: sign(g * g - 1)],
    "NS301": [lambda: dot(V @ z, vector("b")), lambda: (W @ y) + (W @ z)],
    "NS302": [lambda: x[j], lambda: x[{i: j}], lambda: x[0]],
    "NS303": [lambda: matrix("A", shape=(4 * n, n)) @ z],
    "NS304": [lambda: OPEN.at(beta=0.5, open=8)],
    "NS305": [lambda: vector("v", i, cov=np.eye(3)), lambda: vector("v", i, c, cov=np.eye(12).reshape(3, 4, 3, 4))],
    "NS306": [lambda: Program("late", y=beta * z).at(beta=2)],
    "NS307": [
        lambda: softmax(dot(W @ x, V @ x[j]), over=j, where=distinct(i, j)),
        lambda: softmax(dot(W @ x, V @ x[j]), over=j, where=~distinct(i, j)),
        lambda: softmax(dot(W @ x, V @ x[j]), over=j, where=j <= i),
        lambda: softmax(dot(W @ x, V @ x[j]), over=j, where=(j <= i) & distinct(i, j) | (i <= 0)),
    ],
    "NS308": [lambda: softmax(scores, over=j, where=distinct(i, j))],
    "NS309": [
        lambda: W @ z,
        lambda: table("t", i, values=[1, 2, 3]) * z,
        lambda: (
            sum_over(dot(vector("wq", c), x) * dot(vector("wk", c), x[j]), c) / sqrt(c.plate.size)
        ),  # a fixed head dimension
    ],
    "NS310": [lambda: load("attention", {})],
    "NS311": [lambda: Program("copy", y=2 * z)["y"]],
    "NS312": [lambda: drawn_twice(0, 0), lambda: drawn_twice(0, 1, apart=True)],
    "NS401": [lambda: limit_law(tol=1e-2)],
    "NS402": [lambda: Program("root", y=sqrt(beta) * z).at(beta=1.0)],
    "NS403": [lambda: simulate(Program("p", p=dot(W @ y, V @ z)), width=2**20, runs=2, rng=0)],
}


def drawn_twice(first: int, second: int, apart: bool = False) -> Any:
    """The same call again, or another one with a folder of its own."""
    copy = Program("copy", y=2 * z)
    with TemporaryDirectory() as folder:
        for seed, out in ((first, "a"), (second, "b" if apart else "a")):
            drawn = simulate(copy, width=8, runs=8, rng=seed, out=Path(folder) / out)
    return drawn


def limit_law(tol: float) -> Any:
    A = softmax(dot(W @ x, V @ x[j]), over=j)
    return Program("o", o=matrix("O") @ sum_over(A * x[j], j)).limit().law("o", i=0, tol=tol)


def test_every_code_has_a_repair() -> None:
    assert set(REPAIRS) == set(TITLES)


@pytest.mark.parametrize(
    ("code", "build"), [pytest.param(c, b, id=f"{c}-{k}") for c, bs in REPAIRS.items() for k, b in enumerate(bs)]
)
def test_a_repair_is_legal(code: str, build: Callable[[], Any]) -> None:
    made = build()
    program = made if isinstance(made, Program) else Program("repaired", y=made) if hasattr(made, "family") else None
    if program is not None:
        assert [d for d in program.check() if d.severity == "refused"] == []
        assert str(program.limit())


def test_a_message_offers_the_repair_of_the_theory() -> None:
    """Tied scores: another matrix, or the 1/n score. A dimension that stays: a plate."""
    tied = Program("tied", p=dot(W @ y, W @ y)).check()[0].error.repair
    assert "two independent matrices" in tied
    assert "1/n score mean(g * h)" in tied
    with pytest.raises(NetsorError) as caught:
        matrix("A", shape=(3, n))
    assert "Plate('dim', 3)" in caught.value.repair
    with pytest.raises(NetsorError) as caught:
        vector("v", width=3)
    assert "Plate('dim', 3)" in caught.value.repair


def test_sections_have_their_parts() -> None:
    """Outside the theorem: what it means, why with a source, what would happen, what to write. Else: what to write."""
    text = (Path(__file__).parent.parent / "docs/refusals.md").read_text(encoding="utf-8")
    for section in text.split("\n## ")[1:]:
        code = section[:5]
        assert "**Instead.**" in section, code
        if code < "NS2":
            assert all(f"**{part}.**" in section for part in ("Meaning", "Why", "What would happen")), code
            assert "theory" in section or "arXiv" in section, code
