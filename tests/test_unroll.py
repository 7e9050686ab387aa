"""Unrolling, and what it is for: what is derived of a family holds of its members.

Three comparisons of a program with its members. In a world of fixed values they agree to rounding, whatever the program.
In the limit, Gaussian covariances and 1/n scores agree to 1e-10, and laws with scores within their errors.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from itertools import product
from math import hypot
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import t as student
from strategies import Draft, World, programs

from netsor.algebra.moments import Moments
from netsor.algebra.poly import delta
from netsor.binding import bind, bindable, param, table
from netsor.errors import IllFormed
from netsor.functions import (
    clip,
    hardmax,
    max_over,
    mean_over,
    relu,
    softmax,
    sqrt,
    sum_over,
    tanh,
    top_k,
)
from netsor.infinite.engine import Engine, Sampling
from netsor.infinite.laws import law_of
from netsor.ir import Member, Plate, Term, distinct, postorder
from netsor.numeric.estimate import Estimate
from netsor.numeric.law import Law
from netsor.numeric.named import extent
from netsor.numeric.streams import seed_of
from netsor.ops import Const, Table
from netsor.rules.dot import Dot, dot
from netsor.rules.input import Input, unknown, vector
from netsor.rules.input import Law as Initial
from netsor.rules.matmul import MatMul, matrix
from netsor.rules.mean import mean
from netsor.unroll import cholesky, unroll

REPLICATES = 16
SIGMAS = student.isf(1e-7 / 2, REPLICATES - 1)
"""Standard errors by which two numbers of 16 replicates each differ with a chance of at most 1e-7."""

COVARIANCES = {
    "independent": np.eye(3),
    "correlated": np.array([[1, 0.5, -0.25], [0.5, 2, 0.75], [-0.25, 0.75, 1]]),
    "of rank one": np.outer([1, -2, 0.5], [1, -2, 0.5]),
    "of rank two": np.array([[1, 0, 1], [0, 1, 1], [1, 1, 2.0]]),
    "all equal": np.ones((3, 3)),
    "with a constant": np.array([[1, 0.5, 0], [0.5, 1, 0], [0, 0, 0.0]]),
    "zero": np.zeros((3, 3)),
    "nearly singular": np.array([[1, 1, 0], [1, 1 + 1e-8, 0], [0, 0, 1]]),
    "of two scales": np.array([[1e-16, 5e-9, 0], [5e-9, 1, 0], [0, 0, 1e8]]),
}


def attention(tokens: int = 3, heads: int = 2, cov: Any = None, masked: bool = False) -> dict[str, Term]:
    """Multi-head attention with 1/sqrt(n) scores; causal if masked."""
    token, head = Plate("token", tokens), Plate("head", heads)
    i, j = token.indices("i j")
    a = head.index("a")
    WQ, WK, WV, WO = (matrix(f"W{r}", a) for r in "QKVO")
    x = clip(100.0)(matrix("Win", i) @ vector("h")) if cov is None else vector("x", i, cov=cov)
    where = j <= i if masked else None
    q, k, v = WQ @ x, WK @ x[j], WV @ x[j]
    p = dot(q, k, where=where)
    A = softmax(p, over=j, where=where)
    o = WO @ sum_over(A * v, j, where=where)
    y = sum_over(o, a) / sqrt(head.size)
    return {"x": x, "q": q, "k": k, "v": v, "p": p, "A": A, "o": o, "y": y}


def member(term: Term, *at: int) -> Term:
    """The member of a family, by the positions of its free letters."""
    return term.at({i: Member(i.plate, k) for i, k in zip(term.free, at, strict=True)})


def members(term: Term) -> list[tuple[int, ...]]:
    return list(product(*(range(extent(i.plate)) for i in term.free)))


def name_of(name: str, at: tuple[int, ...]) -> str:
    return "_".join((name, *map(str, at)))


def law(term: Term, seed: int) -> Law:
    return law_of(Engine(Moments()), term, Sampling(2**15, seed_of(seed)))


def agree(left: Estimate, right: Estimate, resolution: float) -> None:
    """Two independent estimates of one number agree. False alarm: at most 1e-7. Detects: a difference above `resolution`
    of the number with 1 - 1e-7, for the test fails as well where the errors are too large for that."""
    tolerance = SIGMAS * hypot(left.error, right.error)
    assert abs(left - right) <= tolerance + 1e-10 * abs(right), f"{left} and {right}"
    assert 2 * tolerance <= resolution * abs(right), f"{left} and {right} are too uncertain for this test"


def second(x: Term, y: Term) -> float:
    """E[Z^x Z^y] of vectors that no score enters: a number without sampling error."""
    moments = Moments()
    (value,) = [at.poly(moments.expect(x, y)).data.item() for at, _ in Engine(moments).replicates([x, y], EXACT)]
    return float(value)


EXACT = Sampling(REPLICATES, seed_of(0))


def same_covariances(variables: Mapping[str, Term], names: str, tolerance: float = 1e-10) -> None:
    """All second moments of the members of these vectors, in the family and in the unrolled program."""
    unrolled = unroll(variables)
    all_members = [(variables[n], n, at) for n in names.split() for at in members(variables[n])]
    for x, m, s in all_members:
        for y, n, t in all_members:
            here = second(member(x, *s), member(y, *t))
            there = second(unrolled[name_of(m, s)], unrolled[name_of(n, t)])
            assert here == pytest.approx(there, rel=tolerance, abs=tolerance), (m, s, n, t)


# ------------------------------------------------------------------------------------------------ in one world of values


def same_values(variables: Mapping[str, Term]) -> None:
    world, unrolled = World(), unroll(variables)
    for name, term in variables.items():
        whole = world.value(term).full(term.free)
        for at in members(term):
            alone = world.value(unrolled[name_of(name, at)])
            assert alone.over == ()
            x, y = np.broadcast_arrays(whole[at], alone.data)
            np.testing.assert_allclose(y, x, rtol=1e-9, atol=1e-9, err_msg=name_of(name, at))


@given(programs())
def test_a_program_and_its_members_have_the_same_values(draft: Draft) -> None:
    same_values(draft.variables)


@given(programs())
def test_no_letter_is_left(draft: Draft) -> None:
    unrolled = unroll(draft.variables)
    assert all(term.slots == () for term in unrolled.values())
    for family in postorder(*unrolled.values()):
        assert family.plates == family.bound == family.own == ()
        assert all(wires == () for _, wires in family.children)
    assert list(unrolled) == [name_of(n, at) for n, t in draft.variables.items() for at in members(t)]


@given(programs())
def test_what_has_no_letters_is_left_as_it_is(draft: Draft) -> None:
    once = unroll(draft.variables)
    assert unroll(once) == once


@given(programs(sized=False))
def test_a_program_that_is_bound_and_then_unrolled(draft: Draft) -> None:
    plates, _, _ = bindable(draft.variables)
    tables = {f.op.name: [1, -0.5] for f in postorder(*draft.variables.values()) if isinstance(f.op, Table)}
    same_values(bind(draft.variables, dict.fromkeys(plates, 2) | tables))


def test_values_of_operations_along_plates() -> None:
    """Every operation, of scalars and of vectors, over all members, some, one, and none."""
    token = Plate("token", 4)
    i, j = token.indices("i j")
    x = vector("x", i, j)
    built: dict[str, Term] = {}
    for kind, arg in (("vector", x), ("score", dot(x, matrix("W") @ x[j, i])), ("one_letter", vector("z", j))):
        for n, where in enumerate((None, j <= i, distinct(i, j), j <= 0, j < 0, (j < i) | ~(j <= 2))):
            for f in (sum_over, max_over, softmax):
                built[f"{f.__name__}_{kind}{n}"] = f(arg, j, where=where)
            built |= {f"top{k}_{kind}{n}": top_k(arg, k, over=j, where=where) for k in (1, 2)}
    same_values(built)


def test_masks_that_are_numbers_weigh_a_sum() -> None:
    i, j = Plate("token", 3).indices("i j")
    weights = table("c", i, j, values=[[0.5, 0, 1], [2, 1, 0], [0, 0, 0]])
    x = vector("x", i, j)
    same_values(
        {
            "weighted": sum_over(x, j, where=weights),
            "distances": sum_over(x, j, where=i - j),
            "behind": max_over(x, j, where=i - j),
            "bound": sum_over(x, j, where=param("on", 1)),
            "off": softmax(mean(x), over=j, where=param("off", 0)),
            "both": max_over(x, j, where=weights & (i <= j) & param("on", 1)),
        }
    )


# ------------------------------------------------------------------------------------------------- in the limit, exactly


@pytest.mark.parametrize("cov", COVARIANCES.values(), ids=COVARIANCES)
def test_correlated_tokens(cov: np.ndarray) -> None:
    """x_i = mean + sum_k L_ik eps_k has the covariance it was given, and so has what is made of it."""
    i = Plate("token", 3).index("i")
    x = vector("x", i, cov=cov, mean=0.5)
    variables = {"x": x, "y": matrix("W") @ x, "z": matrix("U", i) @ x, "h": matrix("V") @ relu(x)}
    unrolled = unroll(variables)
    for s, t in product(range(3), range(3)):
        value = second(unrolled[f"x_{s}"], unrolled[f"x_{t}"])
        assert value == pytest.approx(cov[s, t] + 0.25, rel=1e-10, abs=1e-10 * np.sqrt(cov[s, s] * cov[t, t]))
    same_covariances(variables, "x y z h")


def test_tokens_correlated_over_two_plates() -> None:
    i, a = Plate("token", 3).index("i"), Plate("head", 2).index("a")
    root = np.random.default_rng(1).standard_normal((6, 4))
    x = vector("x", i, a, cov=(root @ root.T).reshape(3, 2, 3, 2), mean=param("m", -1))
    same_covariances({"x": x, "y": matrix("W", a) @ x[{a: 1}]}, "x y")


@given(arrays(np.int64, (4, 3), elements=st.integers(-3, 3)), st.integers(0, 3))
def test_the_root_of_a_covariance(factor: np.ndarray, rank: int) -> None:
    gram = factor[:, :rank] @ factor[:, :rank].T
    cov = {((s,), (t,)): int(c) for (s, t), c in np.ndenumerate(gram)}
    columns = cholesky(cov)
    for (s, t), c in cov.items():
        assert sum(l.get(s, 0) * l.get(t, 0) for l in columns) == pytest.approx(c, rel=1e-12, abs=1e-12)
    assert len(columns) <= rank


def test_a_matrix_that_is_shared_over_plates() -> None:
    """W[a] acts on every token, U on every head and token, T[a] on the outputs of all heads: none is made twice."""
    token, head = Plate("token", 3), Plate("head", 2)
    i, j, a, b = *token.indices("i j"), *head.indices("a b")
    x = vector("x", i, cov=COVARIANCES["correlated"])
    h = matrix("W", a) @ x
    g = matrix("U") @ relu(h)
    f = matrix("T", a) @ (g[{a: b}] + x)
    variables = {"h": h, "g": g, "f": f[{b: 0}], "other": h[{i: j}] - sum_over(h, i)}
    same_covariances(variables, "h g")
    same_covariances(variables, "f other")
    unrolled = unroll(variables)
    records = {f.op.matrix for f in postorder(*unrolled.values()) if isinstance(f.op, MatMul)}
    assert sorted(r.name for r in records) == ["T_0", "T_1", "U", "W_0", "W_1"]
    assert len({r.token for r in records}) == 5


def test_scores_of_order_one_over_n() -> None:
    """mean(q * k) tends to a number, so attention with these scores is Gaussian, without sampling error."""
    i, j = Plate("token", 3).indices("i j")
    x = vector("x", i, cov=COVARIANCES["correlated"])
    p = mean(x * x[j]) - 0.25 * (i - j) / Plate("token", 3).size
    y = matrix("W") @ sum_over(softmax(p, over=j, where=j <= i) * x[j], j)
    same_covariances({"y": y, "top": matrix("W") @ sum_over(top_k(p, 2, over=j) * x[j], j)}, "y top")
    unrolled = unroll({"y": y})
    assert law(y[2], 0).variance == pytest.approx(law(unrolled["y_2"], 1).variance, rel=1e-10)


def test_means_over_some_members() -> None:
    """The mean of i + 1 independent tokens has variance 1 / (i + 1)."""
    i, j = Plate("token", 3).indices("i j")
    x = vector("x", i)
    y = matrix("W") @ mean_over(x[j], j, where=j <= i)
    same_covariances({"y": y, "z": mean_over(x, i)}, "y z")
    for s, copy in enumerate(unroll({"y": y}).values()):
        assert second(copy, copy) == pytest.approx(1 / (s + 1), rel=1e-12)


def test_vectors_of_another_law_stay_independent() -> None:
    i = Plate("token", 2).index("i")
    rademacher = Initial("Rademacher", lambda k: 1 - k % 2, lambda u: np.sign(u - 0.5))
    x = vector("x", i, law=rademacher)
    same_covariances({"x": x, "square": x**2, "y": matrix("W") @ (x + x**2)}, "x square y")


# ---------------------------------------------------------------------------------- in the limit, where scores are drawn


@pytest.mark.parametrize("options", [{}, {"masked": True}, {"cov": COVARIANCES["of rank two"]}], ids=str)
def test_the_law_of_attention(options: dict[str, Any]) -> None:
    """False alarm: at most 1e-6 (6 numbers at 1e-7). Detects: 1 part in 200 of a variance, 1 in 10 of a kurtosis."""
    P = attention(**options)
    unrolled = unroll(P)
    for token in range(3):
        if token == 0 and "masked" in options:
            assert law(unrolled["y_0"], 2).variance == pytest.approx(law(P["y"][0], 1).variance, rel=1e-10)
            continue
        family, alone = law(P["y"][token], 1), law(unrolled[f"y_{token}"], 2)
        agree(family.variance, alone.variance, 0.005)
        agree(family.excess_kurtosis, alone.excess_kurtosis, 0.1)


def test_the_law_of_scores() -> None:
    """Scores are Gaussian, their variances exact; a weight is bounded. False alarm: at most 2e-7. Detects: 1 in 50."""
    P = attention(cov=COVARIANCES["correlated"], masked=True)
    unrolled = unroll(P)
    for at in ((0, 0, 0), (1, 2, 0), (1, 2, 2)):
        here, there = law(member(P["p"], *at), 0), law(unrolled[name_of("p", at)], 0)
        assert here.variance == pytest.approx(there.variance, rel=1e-10)
    here, there = law(member(P["A"], 0, 2, 1), 0), law(unrolled["A_0_2_1"], 1)
    agree(here.mean, there.mean, 0.02)
    agree(here.variance, there.variance, 0.02)


def test_scores_that_are_tied_to_each_other() -> None:
    """p[i,j] + p[j,i] is one score twice. False alarm: at most 4e-7. Detects: 1 in 20 of a variance."""
    i, j = Plate("token", 3).indices("i j")
    x = vector("x", i, cov=COVARIANCES["correlated"])
    p = dot(matrix("WQ") @ x, matrix("WK") @ x[j])
    s = p + p[j, i]
    y = matrix("WV") @ sum_over(softmax(s, over=j) * x[j], j)
    z = matrix("WV") @ sum_over(hardmax(p, over=j) * x[j], j)
    unrolled = unroll({"s": s, "largest": max_over(p, j), "y": y, "z": z})
    agree(law(member(s, 0, 1), 1).variance, law(unrolled["s_0_1"], 2).variance, 0.05)
    agree(law(max_over(p, j)[1], 1).mean, law(unrolled["largest_1"], 2).mean, 0.05)
    for name, term in (("y_1", y[1]), ("z_1", z[1])):
        agree(law(term, 1).variance, law(unrolled[name], 2).variance, 0.05)


@pytest.mark.parametrize("tokens", [2, 3])
@pytest.mark.parametrize("masked", [False, True])
def test_softmax_of_vectors(tokens: int, masked: bool) -> None:
    """Coordinate by coordinate, over the plate: quasi-Monte Carlo for the family, quadrature for two members.

    False alarm: at most 1e-7. Detects: 1 in 20 of a variance.
    """
    i, j = Plate("token", tokens).indices("i j")
    x = vector("x", i, cov=COVARIANCES["correlated"][:tokens, :tokens])
    y = matrix("W") @ softmax(x[j], over=j, where=j <= i if masked else None)
    at = (1,) * len(y.free)
    agree(law(member(y, *at), 1).variance, law(unroll({"y": y})[name_of("y", at)], 2).variance, 0.05)


# ------------------------------------------------------------------------------------------------- the unrolled program


def test_names() -> None:
    token = Plate("token", 2)
    i, j = token.indices("i j")
    p = dot(matrix("Q") @ vector("x", i), matrix("K") @ vector("y", j))
    q = p[j, i]
    assert list(unroll({"p": p, "q": q, "r": p[{i: 0}], "d": p[i, i], "s": p[1, 0]})) == [
        *("p_0_0", "p_0_1", "p_1_0", "p_1_1"),
        *("q_0_0", "q_0_1", "q_1_0", "q_1_1"),
        *("r_0", "r_1", "d_0", "d_1", "s"),
    ]
    unrolled = unroll({"p": p, "q": q})
    assert unrolled["q_0_1"] == unrolled["p_0_1"], "letters in the order in which the term has them: q[j, i]"


def test_copies_are_the_same_in_every_variable_and_every_call() -> None:
    P = attention()
    once, again = unroll(P), unroll({"y": P["y"]})
    assert once["y_2"] == again["y_2"]
    assert once["q_0_1"] in once["p_0_1_2"].args
    assert once["q_0_1"] != once["q_1_1"]


def test_as_many_families_as_families_times_members() -> None:
    i = Plate("token", 3).index("i")
    x = vector("x", i)
    for layer in range(24):
        x = x + matrix(f"W{layer}") @ tanh(x)
    assert len(postorder(*unroll({"x": x}).values())) == 3 * len(postorder(x))


def test_no_program_is_too_deep() -> None:
    i = Plate("token", 1).index("i")
    x = vector("x", i)
    for _ in range(2 * sys.getrecursionlimit()):
        x = tanh(x)
    assert len(postorder(*unroll({"x": x}).values())) == len(postorder(x))


def test_long_sums_are_shallow() -> None:
    j = Plate("token", 1000).index("j")
    (total,) = unroll({"s": sum_over(mean(vector("x", j)), j)}).values()
    depth = 0
    while total.args:
        total, depth = total.args[0], depth + 1
    assert depth == 10 + 1


def test_letters_alone_become_numbers() -> None:
    token = Plate("token", 3)
    i, j = token.indices("i j")
    values = unroll(
        {
            "before": i < j,
            "distance": i - j,
            "same": delta(i, j),
            "size": token.size,
            "entry": table("c", i, j, values=np.arange(9).reshape(3, 3)),
            "mask": (i <= j) & ~(j <= 1),
            "count": sum_over(j <= i, j),
        }
    )
    found = {name: term.op.value for name, term in values.items() if isinstance(term.op, Const)}
    assert len(found) == len(values)
    assert [found[f"before_{s}_{t}"] for s, t in ((0, 1), (1, 1), (2, 1))] == [1, 0, 0]
    assert [found[f"distance_{s}_{t}"] for s, t in ((0, 1), (1, 1), (2, 0))] == [-1, 0, 2]
    assert [found[f"same_{s}_{t}"] for s, t in ((0, 1), (1, 1))] == [0, 1]
    assert [found[f"mask_{s}_{t}"] for s, t in ((0, 1), (1, 2), (2, 2))] == [0, 1, 1]
    assert found["entry_1_2"] == 5
    assert found["size"] == 3
    assert [found[f"count_{s}"] for s in range(3)] == [1, 2, 3]


def test_a_score_outside_its_mask_is_not_made() -> None:
    unrolled = unroll(attention(masked=True))
    assert [n for n in unrolled if n.startswith("p_0")] == [f"p_0_{s}" for s in ("0_0", "1_0", "1_1", "2_0", "2_1", "2_2")]
    assert sum(isinstance(f.op, Dot) for f in postorder(*unrolled.values())) == 2 * 6
    assert unrolled["A_0_0_2"].op == Const(0)
    assert all(len(f.children) == 2 for f in postorder(*unrolled.values()) if isinstance(f.op, Dot))


def test_independent_vectors_keep_their_laws() -> None:
    i = Plate("token", 2).index("i")
    unrolled = unroll({"x": vector("x", i, mean=param("m"), cov=3), "y": vector("y", i, cov=np.eye(2))})
    ops = [f.op for f in postorder(*unrolled.values()) if isinstance(f.op, Input)]
    assert [(op.name, op.cov) for op in ops] == [("x_0", 3), ("x_1", 3), ("y_eps_0", 1), ("y_eps_1", 1)]
    assert len({op.token for op in ops}) == 4


# ------------------------------------------------------------------------------------------------------------- refusals


def test_what_has_no_value_cannot_be_unrolled() -> None:
    i, j = Plate("token", 2).indices("i j")
    t = Plate("step").index("t")
    x = vector("x", i)
    for name, term in {
        "plate step": vector("u", t),
        "the size of plate step": sum_over(vector("u", t), t),
        "covariance of z": vector("z", i, cov=unknown),
        "table c": table("c", i) * x,
        "on": sum_over(x, i, where=param("on")),
        "off": dot(x, x[j], where=distinct(i, j) & param("off")),
    }.items():
        with pytest.raises(IllFormed, match=name) as caught:
            unroll({"v": term})
        assert caught.value.code == "NS304"


def test_two_variables_of_one_name() -> None:
    i, j = Plate("token", 2).indices("i j")
    x = vector("x", i)
    for variables in ({"x": x, "x_0": x[0]}, {"x_1": x, "x": x + x[j]}):
        with pytest.raises(IllFormed, match="named x_") as caught:
            unroll(variables)
        assert caught.value.code == "NS301"


def test_arrays_that_do_not_fit_their_plates() -> None:
    """Sizes that were bound after the array was given."""
    i = Plate("token").index("i")
    for term in (vector("x", i, cov=np.eye(3)), table("x", i, values=[1, 2, 3])):
        with pytest.raises(IllFormed, match=r"values of x have shape \(3") as caught:
            unroll(bind({"v": term}, {"token": 2}))
        assert caught.value.code == "NS305"
