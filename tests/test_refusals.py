"""What is refused, and how: a code and five parts; what stands next to it and is accepted; and input that is no program."""

import re
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st
from strategies import Draft, operand, programs, some_letters

from netsor import (
    IllFormed,
    Index,
    Law,
    Member,
    NetsorError,
    NoRule,
    OutsideTheorem,
    Plate,
    Program,
    Width,
    clip,
    distinct,
    dot,
    elementwise,
    hardmax,
    layernorm,
    matrix,
    mean,
    oo,
    param,
    relu,
    rmsnorm,
    sign,
    simulate,
    softmax,
    sum_over,
    table,
    tanh,
    top_k,
    unknown,
    vector,
)
from netsor.loading import load

LINES = Path(__file__).read_text(encoding="utf-8").splitlines()
CITATION = re.compile(r"docs/theory\.md|arXiv|\b(19|20)\d\d\b")

i, j = Plate("token", 3).indices("i j")
a = Plate("head").index("a")
one, other = Plate("one", 1).indices("a b")
n = Width("n")

x, x1, x2, z = vector("x", i), vector("x1"), vector("x2"), vector("z")
b, c = vector("b", cov=0.5), vector("c", cov=0.25)
W, V = matrix("W"), matrix("V")
Y, H, S = matrix("Y", i), matrix("H", a), matrix("S", one)
g, h = W @ z, V @ z
pair = vector("pair", i, cov=[[1, 0.5, 0], [0.5, 1, 0], [0, 0, 1]])
deep = matrix("D2") @ relu(matrix("D1") @ z)
deeper = matrix("D3") @ relu(deep)
two = relu(matrix("D2") @ relu(matrix("D1") @ pair))


def centred(f: Any) -> Any:
    """f - E Z^f, with E Z^f as a number."""
    return f - float(Program("f", m=mean(f)).limit().mean("m").item())


def attention(WQ: Any, WK: Any, stream: Any, name: str) -> Any:
    A = softmax(dot(WQ @ stream, WK @ stream[j]), over=j)
    return stream + sum_over(A * (matrix(f"V{name}") @ stream[j]), j)


# ------------------------------------------------------------------------------------------- outside every theorem

# The code, what stands in the line that is to blame, the program.
OUTSIDE: dict[str, tuple[str, str, Callable[[], Any]]] = {
    "tied, off the diagonal": ("NS102", "dot", lambda: dot(W @ x1, W @ x2)),
    "tied, on the diagonal": ("NS101", "dot", lambda: dot(W @ x1, W @ x1)),
    "tied, all pairs": ("NS101", "dot", lambda: dot(W @ x, W @ x[j])),
    "square, a number": ("NS102", "dot", lambda: dot(g**2 - 1, 1)),
    "square, a mean": ("NS102", "dot", lambda: dot(g**2 - mean(g**2), 1)),
    "square, depth 2, a number": ("NS102", "dot", lambda: dot(deep**2 - Fraction(1, 2), 1)),
    "square, depth 2, a mean": ("NS102", "dot", lambda: dot(deep**2 - mean(deep**2), 1)),
    "square, depth 3, a number": ("NS102", "dot", lambda: dot(deeper**2 - Fraction(1, 4), 1)),
    "square, depth 3, a mean": ("NS102", "dot", lambda: dot(deeper**2 - mean(deeper**2), 1)),
    "square, another number": ("NS101", "dot", lambda: dot(g**2 - 2, 1)),
    "a matrix on both sides": ("NS102", "dot", lambda: dot(W @ x1, relu(W @ x2))),
    "one vanishing mean": ("NS102", "dot", lambda: dot(g - mean(g), relu(h))),
    "one vanishing mean, normalised": ("NS102", "dot", lambda: dot(layernorm(g), relu(h))),
    "two tokens, a number": ("NS102", "dot", lambda: dot(centred(two[0] * two[1]), 1)),
    "two tokens, a mean": ("NS102", "dot", lambda: dot(two[0] * two[1] - mean(two[0] * two[1]), 1)),
    "two tokens": ("NS101", "dot", lambda: dot(two[0], two[1])),
    "one bias in both": ("NS101", "dot", lambda: dot(W @ x + b, V @ x[j] + b)),
    "one copy of a family": ("NS101", "dot", lambda: dot(Y @ z, Y[j] @ z)),
    "one copy, on a plate of size 1": ("NS101", "dot", lambda: dot(S @ z, S[other] @ z)),
    "one copy, in a causal softmax": ("NS101", "dot", lambda: softmax(dot(Y @ z, Y[j] @ z), over=j, where=j <= i)),
    "jump on an atom": ("NS103", "sign", lambda: sign(g - mean(z * z) * g)),
    "norm of zero": ("NS104", "rmsnorm", lambda: rmsnorm(z - z)),
    "norm of what vanishes": ("NS104", "rmsnorm", lambda: rmsnorm(g - mean(z * z) * g)),
    "norm of a constant": ("NS104", "layernorm", lambda: layernorm(0 * z + mean(g))),
    "softmax over the width": ("NS105", "softmax", lambda: softmax(g, over=n)),
    "hardmax of 1/n scores": ("NS107", "hardmax", lambda: hardmax(mean((W @ x) * (V @ x[j])), over=j)),
    "a transpose": ("NS201", "W.T", lambda: W.T @ relu(g)),
    "infinitely many heads": ("NS203", "at", lambda: Program("y", y=sum_over(H @ z, a) / a.plate.size).at(head=oo)),
    "sign of a square": ("NS204", "sign", lambda: sign(g * g - mean(g * g))),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_outside_every_theorem(name: str) -> None:
    code, culprit, build = OUTSIDE[name]
    with pytest.raises(OutsideTheorem) as caught:
        Program("outside", y=build()).limit()
    error = caught.value
    assert error.code == code
    assert error.exit_code == 3
    assert isinstance(error, NoRule) == code.startswith("NS2")
    assert set(error.parts()) == {"statement", "place", "hypothesis", "otherwise", "instead"}
    assert CITATION.search(error.hypothesis), error.hypothesis
    file, line = error.place.splitlines()[0].rsplit(":", 1)
    assert file == __file__
    assert culprit in LINES[int(line) - 1].partition("lambda")[2] or culprit == "attention"
    assert "#" not in str(error)
    assert "@0" not in str(error)


@pytest.mark.parametrize("name", [k for k, (code, *_) in OUTSIDE.items() if code not in ("NS105", "NS201", "NS203")])
def test_a_check_never_raises_and_marks_the_line(name: str) -> None:
    code, _, build = OUTSIDE[name]
    refused = [d for d in Program("outside", y=build()).check() if d.severity == "refused"]
    assert [d.code for d in refused] == [code]
    assert "> " in str(refused[0])


# --------------------------------------------------------------------------------------------- accepted next to it

# The limit of the variance of the score, at its first member.
FRESH: dict[str, tuple[float, Callable[[], Any]]] = {
    "independent": (1, lambda: dot(W @ x, V @ x[j])),
    "layernorm, one side": (1, lambda: dot(layernorm(g), h)),
    "layernorm, both sides": (1, lambda: dot(layernorm(g), layernorm(h))),
    "rmsnorm": (1, lambda: dot(rmsnorm(g), h)),
    "rmsnorm, then relu": (1 / 2, lambda: dot(rmsnorm(g), relu(h))),
    "one vanishing mean, centred": (1, lambda: dot(g - mean(g), h)),
    "a moment inside": (0.25289058860827063, lambda: dot(g, relu(h - mean(relu(g))))),
    "biases": (1.5 * 1.25, lambda: dot(W @ x + b, V @ x[j] + c)),
    "a plate of size 1": (1, lambda: dot(S @ z, V @ z)),
    "a read-out": (1 / 2, lambda: dot(x1, relu(g))),
    "no fresh form": (0.5 * 0.39429449039783276, lambda: dot(W @ relu(V @ z), V @ tanh(W @ x1))),
}


@pytest.mark.parametrize("name", FRESH)
def test_accepted(name: str) -> None:
    """The last one is a formula without a proof, and says so."""
    variance, build = FRESH[name]
    program = Program("fresh", p=build())
    limit = program.limit()
    extrapolated = name == "no fresh form"
    assert [d.severity for d in program.check()] == extrapolated * ["extrapolated"]
    assert limit["p"].status.level == ("extrapolated" if extrapolated else "proved")
    assert limit.covariance("p").value.flat[0] == pytest.approx(variance, rel=1e-11)


def test_values_may_be_keys() -> None:
    """W^V = W^K, or W^V = W^Q: the other matrix is the pivot."""
    q, k = W @ x, V @ x[j]
    A = softmax(dot(q, k), over=j)
    for v in (k, q[j]):
        limit = Program("tied_values", p=dot(q, k), y=sum_over(A * v, j)).limit()
        assert limit["y"].status.level == "proved"


def test_other_copies_of_a_family() -> None:
    p = dot(Y @ z, Y[j] @ z, where=distinct(i, j))
    covariance = Program("copies", p=p).limit().covariance("p").value
    assert covariance[0, 1, 0, 1] == covariance[0, 1, 1, 0] == 1
    assert covariance[0, 1, 0, 2] == 0


MASKED = [
    (None, None, "NS101"),
    (None, j <= i, "NS101"),
    (None, j < i, None),
    (None, distinct(i, j), None),
    (distinct(i, j), None, "NS308"),
    (distinct(i, j), j <= i, "NS308"),
    (distinct(i, j), j < i, None),
    (distinct(i, j), distinct(i, j), None),
    (j < i, None, "NS308"),
    (j < i, distinct(i, j), "NS308"),
    (j < i, j < i, None),
]


@pytest.mark.parametrize(("own", "use", "code"), MASKED)
def test_entries_masked_at_every_use(own: Any, use: Any, code: str | None) -> None:
    """p[i,i] diverges: no use may reach it, nor an entry outside the mask of the score itself."""
    A = softmax(dot(Y @ z, Y[j] @ z, where=own), over=j, where=use)
    assert [d.code for d in Program("masked", A=A).check()] == ([] if code is None else [code])


def test_a_score_that_has_a_name_is_used_whole() -> None:
    p = dot(Y @ z, Y[j] @ z)
    A = softmax(p, over=j, where=j < i)
    assert [d.code for d in Program("named", p=p, A=A).check()] == ["NS101"]


def test_an_entry_outside_its_mask_has_no_name() -> None:
    p = dot(Y @ z, Y[j] @ z, where=j < i)
    assert [d.code for d in Program("outside", p=p[0, 1]).check()] == ["NS308"]


def test_a_plate_of_one_member_has_no_ties() -> None:
    A = hardmax(mean((S @ z) * (V @ z)), over=one)
    assert Program("one", A=A).limit().mean("A").item() == 1


@given(programs(), st.data())
def test_fresh_matrices_are_accepted_and_a_tie_is_refused(draft: Draft, data: st.DataObject) -> None:
    """Every score is the product of two matrices of its own; then one more, of two matrices, and of one."""
    left, right = operand(data.draw, draft, vector=True).term, operand(data.draw, draft, vector=True).term
    letters = some_letters(data.draw, draft)
    q, k = matrix("q", *letters), matrix("k", *letters)
    Program("fresh", **draft.variables, p=dot(q @ left, k @ right)).limit()
    with pytest.raises(OutsideTheorem) as caught:
        Program("tied", **draft.variables, p=dot(q @ left, q @ right)).limit()
    assert caught.value.code in ("NS101", "NS102")
    assert caught.value.statement.startswith("p")


# ----------------------------------------------------------------------------------------------------- ill-formed


def number_of(build: Callable[[], Any]) -> Callable[[], Any]:
    """The covariance in the limit of what is built."""
    return lambda: Program("number", y=build()).limit().covariance("y")


P = Program("scores", x=x, p=dot(W @ x, V @ x[j]))
loose = Plate("loose").index("l")
beta = param("beta")
nan = float("nan")
t = sympy.Symbol("t", real=True)

ILL_FORMED: dict[str, list[Callable[[], Any]]] = {
    "NS301": [
        lambda: Program("twice", q=matrix("A") @ z, k=matrix("A") @ z),
        lambda: Program("twice", q=vector("a"), k=vector("a")),
        lambda: Program("twice", q=matrix("a") @ vector("a")),
        lambda: Program("twice", q=x, k=vector("y", Plate("token", 2).index("i"))),
        lambda: Program("twice", q=param("a", 1) * z, k=param("a", 2) * z),
        lambda: Program("twice", q=table("a", i, values=[1, 2, 3]) * z, k=table("a", i, values=[3, 2, 1]) * z),
        lambda: Program("twice", q=param("a", 1) * vector("a")),
    ],
    "NS302": [
        lambda: x[a],
        lambda: x[3],
        lambda: x[-1],
        lambda: x[1.5],
        lambda: x["i"],
        lambda: x[i, j],
        lambda: x[{j: i}],
        lambda: z[0],
        lambda: P["p"][0],
        lambda: Y[a],
        lambda: softmax(x, over=j),
        lambda: softmax(P["p"], over="j"),
        lambda: sum_over(P["p"], a),
        lambda: i < a,
        lambda: distinct(i, a),
        lambda: i - a,
        lambda: matrix("A", i, i),
        lambda: vector("y", "i"),
        lambda: vector("y", 3),
        lambda: table("t", "i"),
        lambda: table("t", i, i),
        lambda: P.limit().law("p", i=0),
        lambda: P.limit().law("p", i=0, j=3),
        lambda: P.limit().law("p", i=0, k=0),
        lambda: simulate(P, width=2, runs=1, outputs={"x": {"k": 0}}),
    ],
    "NS303": [
        lambda: matrix("A", shape=(n, 4 * n)) @ z,
        lambda: z + vector("y", width=2 * n),
        lambda: dot(z, vector("y", width=Width("m"))),
        lambda: simulate(Program("third", y=vector("y", width=Fraction(1, 3) * n)), width=4, runs=1),
    ],
    "NS304": [
        number_of(lambda: vector("y", loose)),
        number_of(lambda: beta * z),
        number_of(lambda: matrix("A", sigma=beta) @ z),
        number_of(lambda: vector("y", mean=beta)),
        number_of(lambda: table("t", i) * z),
        number_of(lambda: vector("y", i, cov=unknown)),
        lambda: simulate(Program("open", y=beta * z), width=2, runs=1),
        lambda: Program("open", y=vector("y", loose)).unroll(),
        lambda: P.at(token=3),
        lambda: Program("bound", y=param("beta", 1) * z).at(beta=2),
    ],
    "NS305": [
        lambda: vector("y", i, cov=[[1, 0], [0, 1]]),
        lambda: vector("y", i, cov=[1, 1, 1]),
        lambda: vector("y", i, cov=[[1, 0, 0], [0, 1], [0, 0, 1]]),
        lambda: vector("y", cov=[[1]]),
        lambda: vector("y", cov=-1),
        lambda: table("t", i, values=[1, 2]),
        lambda: Program("late", y=vector("y", loose, cov=[[1, 0], [0, 1]])).at(loose=3).limit().covariance("y"),
    ],
    "NS306": [
        lambda: vector("y", mean=nan),
        lambda: vector("y", cov=float("inf")),
        lambda: vector("y", i, cov=np.diag([1, 1, nan])),
        lambda: matrix("A", sigma=float("inf")),
        lambda: matrix("A", sigma=-1),
        lambda: Program("late", y=matrix("A", sigma=beta) @ z).at(beta=-1),
        lambda: Program("late", y=beta * z).at(beta=nan),
        lambda: param("beta", nan),
        lambda: table("t", i, values=[1, 2, nan]),
        lambda: nan * z,
        lambda: z / 0,
        lambda: Plate("p", 0),
        lambda: Plate("p", 2.5),
        lambda: Plate("p", True),
        lambda: Program("late", y=vector("y", loose)).at(loose=0),
        lambda: -1 * n,
        lambda: 0.5 * n,
        lambda: Width("n", Fraction(-1)),
        lambda: clip(0),
        lambda: top_k(P["p"], 0, over=j),
        lambda: simulate(P, width=0, runs=1),
        lambda: simulate(P, width=2, runs=0),
        lambda: P.limit().law("p", i=0, j=0, runs=0),
    ],
    "NS307": [
        lambda: softmax(P["p"], over=j, where=i == j),
        lambda: softmax(P["p"], over=j, where=i != j),
        lambda: softmax(P["p"], over=j, where=1),
        lambda: softmax(P["p"], over=j, where=P["p"]),
        lambda: dot(z, z, where=True),
        lambda: (i < j) & True,
        lambda: ~P["p"],
        lambda: bool(P["p"]),
        lambda: 0 <= i < 2,
        lambda: (i < j) and (j < i),
    ],
    "NS309": [
        lambda: W @ mean(z),
        lambda: W @ 2,
        lambda: W @ np.ones(3),
        lambda: W @ V,
        lambda: np.ones(3) @ W,
        lambda: np.ones(3) + z,
        lambda: z + "a",
        lambda: z + W,
        lambda: relu(z, z),
        lambda: mean(2),
        lambda: dot(2, 3),
        lambda: list(z),
        lambda: rmsnorm(np.array(["a"])),
        lambda: layernorm(2),
        lambda: vector("y", law=oo),
        lambda: Member("token", 0),
        lambda: Index("i", 4),
        lambda: vector("y", law=Law("one", 1, float)),
        lambda: vector("y", law=Law("one", lambda k: 1, 1)),
        lambda: matrix("A", shape=(3, 4)),
        lambda: matrix("A", shape=n),
        lambda: matrix("A", shape=(n,)),
        lambda: matrix("A", shape=(n, n, n)),
        lambda: vector("y", width=3),
        lambda: vector("1y"),
        lambda: matrix(3),
        lambda: param("a b"),
        lambda: Plate(""),
        lambda: Plate("p").index("1"),
        lambda: Program("two words", z=z),
        lambda: Program("empty"),
        lambda: Program("matrix", W=W),
        lambda: Program("number", y=3),
        lambda: elementwise(sympy.Lambda(t, sympy.DiracDelta(t))),
        lambda: elementwise(sympy.Lambda(t, sympy.Symbol("other") * t)),
        lambda: elementwise(sympy.Lambda(t, sympy.Function("g")(t))),
    ],
    "NS311": [
        lambda: P["y"],
        lambda: P.limit()["y"],
        lambda: P.limit().law("y"),
        lambda: P.limit().covariance("x", "y"),
        lambda: P.at(gamma=1),
        lambda: simulate(P, width=2, runs=1, outputs={"y": {}}),
        lambda: simulate(P, width=2, runs=1, rng="seed"),
        lambda: load("attention", {"layers": "2"}),
        lambda: load("attention", {"phi": "__import__('os')"}),
    ],
}


def refuse(code: str, build: Callable[[], Any], place: str = __file__) -> IllFormed:
    """What is raised by `build`, with the parts that it must have."""
    with pytest.raises(IllFormed) as caught:
        build()
    error = caught.value
    assert error.code == code
    assert error.exit_code == 2
    assert error.repair
    assert error.statement or error.hypothesis
    assert error.place.startswith(place), error
    return error


@pytest.mark.parametrize(
    ("code", "build"), [pytest.param(code, b, id=f"{code}-{k}") for code, bs in ILL_FORMED.items() for k, b in enumerate(bs)]
)
def test_ill_formed(code: str, build: Callable[[], Any]) -> None:
    refuse(code, build)


JUNK = [None, True, -1, 1.5, nan, 1j, "a b", [1], [[1, 2], [3]], np.ones(3), {1: 2}, object(), len, z, W, i, n, oo]

PLACES: dict[str, Callable[[Any], Any]] = {
    "name of a plate": lambda junk: Plate(junk, 2),
    "size of a plate": lambda junk: Plate("p", junk),
    "bound size": lambda junk: Program("p", y=vector("y", loose)).at(loose=junk),
    "name of an index": lambda junk: i.plate.index(junk),
    "names of indices": lambda junk: i.plate.indices(junk),
    "name of a width": lambda junk: Width(junk),
    "ratio of widths": lambda junk: junk * n,
    "name of a vector": lambda junk: vector(junk),
    "index of a vector": lambda junk: vector("y", junk),
    "mean": lambda junk: vector("y", mean=junk),
    "covariance": lambda junk: vector("y", i, cov=junk),
    "width of a vector": lambda junk: z + vector("y", width=junk),
    "index of a matrix": lambda junk: matrix("A", junk),
    "sigma": lambda junk: matrix("A", sigma=junk),
    "shape": lambda junk: matrix("A", shape=junk),
    "index of a table": lambda junk: table("t", junk),
    "values of a table": lambda junk: table("t", i, values=junk),
    "value of a parameter": lambda junk: param("t", junk),
    "bound parameter": lambda junk: Program("p", y=beta * z).at(beta=junk),
    "entry": lambda junk: x[junk],
    "copy": lambda junk: Y[junk],
    "member": lambda junk: P.limit().law("x", i=junk),
    "reduction": lambda junk: softmax(P["p"], over=junk),
    "mask": lambda junk: softmax(P["p"], over=j, where=junk),
    "summand": lambda junk: junk + z,
    "argument": lambda junk: W @ junk,
    "variable": lambda junk: Program("p", y=junk),
}


@pytest.mark.parametrize("place", PLACES)
def test_nothing_else_is_raised(place: str) -> None:
    for junk in JUNK:
        with suppress(NetsorError):
            PLACES[place](junk)


@pytest.mark.parametrize(
    ("cov", "offending"),
    [
        ([[1, 0.5], [0.4, 1]], "(0, 1)"),
        ([[1, 2], [2, 1]], "(0,), (1,)"),
        ([[1, 0], [0, -1]], "(1,)"),
        (np.array([[1, 0.9, -0.9], [0.9, 1, 0.9], [-0.9, 0.9, 1]]), "(1,), (2,)"),
    ],
    ids=["not symmetric", "not positive", "a negative variance", "not positive, three"],
)
def test_a_covariance_that_is_none_names_the_pair(cov: Any, offending: str) -> None:
    index = Plate("p", len(cov)).index("i")
    assert offending in refuse("NS305", lambda: vector("y", index, cov=cov)).statement


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (None, 0, "no such file"),
        ("x = 1", 0, "no program"),
        ("import json\n\njson.loads('{')", 3, "JSONDecodeError"),
    ],
)
def test_program_files(tmp_path: Path, text: str | None, line: int, said: str) -> None:
    file = tmp_path / "broken.py"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    error = refuse("NS310", lambda: load(file, {}), f"{file}:{line}" if line else str(file))
    assert said in error.hypothesis
