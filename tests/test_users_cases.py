"""What users of programs like this one have run into, and what is right.

One test a case, named by the case. Statistical ones go through calibrated.py (1e-6 each).
"""

import tracemalloc
from collections.abc import Callable
from fractions import Fraction
from math import acos, cos, exp, pi, sin, sqrt

import numpy as np
import pytest
import sympy
from calibrated import assert_within
from hypothesis import settings
from strategies import World

import netsor
from netsor import (
    IllFormed,
    OutsideTheorem,
    Plate,
    PointMass,
    Program,
    Width,
    clip,
    compare,
    dot,
    elementwise,
    expect,
    matrix,
    mean,
    relu,
    simulate,
    softmax,
    sum_over,
    table,
    vector,
)
from netsor.ir import Term
from netsor.loading import load


def tokens(cov: object, name: str = "x") -> Term:
    return vector(name, Plate("token", len(cov), "s").index("i"), cov=cov)  # type: ignore[arg-type]


def attention(x: Term, heads: int = 1, weights: Callable[[Term, object], Term] = lambda p, j: softmax(p, over=j)) -> Program:
    """One layer; H heads, added with 1/sqrt(H)."""
    (i,) = x.free
    j = i.plate.index("j")
    a = Plate("head", heads, "H").index("a")
    p = dot(matrix("WQ", a) @ x, matrix("WK", a) @ x[j])
    A = weights(p, j)
    y = sum_over(matrix("WO", a) @ sum_over(A * (matrix("WV", a) @ x[j]), j), a) / netsor.sqrt(a.plate.size)
    return Program("attention", p=p, A=A, y=y)


# ---- kernels


@pytest.mark.parametrize(("rho", "value"), [(-1, 0), (-0.5, 0.0544988905), (0, 0.1591549431), (0.5, 0.3044988905), (1, 0.5)])
def test_relu_kernel(rho: float, value: float) -> None:
    assert expect((relu, relu), cov=[[1, rho], [rho, 1]]) == pytest.approx(value, abs=5e-11)


@pytest.mark.parametrize("gap", [1e-2, 1e-4, 1e-6, 1e-8])
def test_relu_kernel_keeps_its_digits_near_minus_one(gap: float) -> None:
    """(sin t - t cos t) / 2π = t^3/6π (1 - t^2/10 + t^4/280 - ..) with t = π - arccos ρ; t itself is known to 1e-16/gap."""
    rho = -1 + gap
    t = 2 * np.arcsin(np.sqrt((1 + rho) / 2))
    assert expect((relu, relu), cov=[[1, rho], [rho, 1]]) == pytest.approx(
        t**3 / (6 * pi) * (1 - t**2 / 10 + t**4 / 280 - t**6 / 15120), rel=1e-8
    )


def test_functions_on_top_of_each_other() -> None:
    """E cos(relu Z)^2 = 1/2 + (1 + e^-2)/4."""
    assert expect(lambda z: netsor.cos(relu(z)) ** 2) == pytest.approx(0.5 + (1 + exp(-2)) / 4, rel=1e-12)


def test_a_kernel_as_a_formula_and_as_a_number() -> None:
    """E relu(g_0) relu(g_1) printed, with numbers put in, is what is computed."""
    rho = Fraction(3, 10)
    x = tokens([[1, rho], [rho, 1]])
    limit = Program("layer", g=matrix("W") @ x, h=relu(matrix("V") @ x)).limit()
    kernel = limit["h"].kernel(0, 1)
    assert "asin" in str(kernel) or "acos" in str(kernel) or "atan" in str(kernel)
    theta = acos(float(rho))
    assert expect((relu, relu), cov=[[1, 0.3], [0.3, 1]]) == pytest.approx((sin(theta) + (pi - theta) * cos(theta)) / (2 * pi))


# ---- covariances


def test_two_identical_tokens() -> None:
    """Weights are 1/2 in every run, and the output is exactly Gaussian."""
    program = attention(tokens([[1, 1], [1, 1]]))
    limit = program.limit()
    assert np.abs(limit.sample(500, names=["A"], rng=0)["A"] - 0.5).max() < 1e-12
    law = limit.law("y", i=0)
    assert float(law.variance) == pytest.approx(1, rel=1e-12)
    assert abs(law.excess_kurtosis) < 1e-9
    assert np.abs(simulate(program, width=16, runs=50, rng=0)["A"] - 0.5).max() < 1e-12


def test_a_matrix_that_is_not_symmetric_is_called_so_and_single_precision_is_accepted() -> None:
    with pytest.raises(IllFormed, match="not symmetric"):
        tokens([[1, 0.5], [0.4, 1]])
    single = np.array([[1, 0.1], [0.1, 1]], dtype=np.float32)
    assert Program("x", x=tokens(single)).limit().covariance("x").value[0, 1] == pytest.approx(0.1, rel=1e-7)


def test_a_law_without_a_density() -> None:
    """1/n scores tend to 0: a point mass, which can be compared, plotted, and has no kurtosis."""
    x = tokens([[1, 0], [0, 1]])
    program = Program("small", p=mean((matrix("WQ") @ x) * (matrix("WK") @ x[x.free[0].plate.index("j")])))
    law = program.limit().law("p", i=0, j=1)
    assert isinstance(law, PointMass)
    assert law.mean == 0
    assert law.variance == 0
    assert "limit" in str(compare(program, "p", i=0, j=1, widths=[8, 16, 32], runs=256))


# ---- attention


@pytest.mark.parametrize(("rho", "variance"), [(0, 0.636838153968), (0.5, 0.793379035858), (1, 1)])
def test_softmax_attention_of_two_tokens(rho: float, variance: float) -> None:
    assert_within(attention(tokens([[1, rho], [rho, 1]])).limit().law("y", i=0).variance, variance)


@pytest.mark.parametrize("heads", [1, 3])
def test_excess_kurtosis_falls_with_the_number_of_heads(heads: int) -> None:
    law = attention(tokens([[1, 0], [0, 1]]), heads).limit().law("y", i=0, runs=2**15)
    assert_within(law.excess_kurtosis, 0.119980830757 / heads)


@pytest.mark.parametrize("heads", [1, 2])
def test_identity_attention(heads: int) -> None:
    """Weights that are the scores: Cov(y_i, y_k) = K_ik |K|_F^2 for every H; excess kurtosis 6/(s H) for K = I."""
    K = np.array([[1, 0.5, 0], [0.5, 1, 0.25], [0, 0.25, 1]])
    limit = attention(tokens(K), heads, lambda p, _: p).limit()
    assert_within(limit.covariance("y", runs=2**14), K * np.sum(K**2))
    law = attention(tokens(np.eye(3)), heads, lambda p, _: p).limit().law("y", i=0, runs=2**15)
    assert_within(law.excess_kurtosis, 6 / (3 * heads))


def test_one_over_d_and_one_over_root_d() -> None:
    """Independent: 1/sqrt(n) scores are random, 1/n scores 0 and their weights uniform. Tied: a constant, or refused."""
    x = tokens(np.eye(2))
    (i,) = x.free
    j = i.plate.index("j")
    W, V = matrix("W"), matrix("V")
    p, small, tied = dot(W @ x, V @ x[j]), mean((W @ x) * (V @ x[j])), mean((W @ x) * (W @ x[j]))
    limit = Program("scores", p=p, small=small, A=softmax(small, over=j), tied=tied).limit()
    assert limit.covariance("p").value[0, 1, 0, 1] == 1
    assert np.array_equal(limit.mean("small").value, np.zeros((2, 2)))
    assert np.array_equal(limit.mean("A").value, np.full((2, 2), 0.5))
    assert np.array_equal(limit.mean("tied").value, np.eye(2))
    assert "0" in limit["small"].text()
    with pytest.raises(OutsideTheorem, match="NS101"):
        Program("tied", p=dot(W @ x, W @ x[j])).limit()


def test_softmax_over_the_width_is_no_program() -> None:
    with pytest.raises(OutsideTheorem, match="NS105") as caught:
        softmax(matrix("W") @ vector("x"), over=Width("n"))
    assert "arXiv" in caught.value.hypothesis


def test_heads_that_share_their_keys() -> None:
    """Grouped queries: scores of two heads are independent in the limit although the keys are one."""
    covariance = load("gqa", {"tokens": "2"}).limit().covariance("p").value  # p[g,r,i,j]
    same, other = covariance[0, 0, 0, 0, 0, 0], covariance[0, 0, 0, 0, 0, 1]
    assert same[0, 0] == 1
    assert np.array_equal(other, np.zeros_like(other))


def test_shares_add_up_to_one_in_every_draw() -> None:
    """Draws are joint: A/(A+B) + B/(A+B) = 1."""
    x, y = vector("x"), vector("y")
    a, b = (netsor.exp(dot(matrix(n) @ x, matrix(f"{n}k") @ y)) for n in "UV")
    program = Program("shares", first=a / (a + b), second=b / (a + b))
    for drawn in (program.limit().sample(1000, rng=0), simulate(program, width=8, runs=1000, rng=0)):
        assert np.abs(drawn["first"] + drawn["second"] - 1).max() < 1e-12
        assert drawn["first"].std() > 0.1


def test_rows_that_are_masked_altogether() -> None:
    """Never NaN; the first token of a causal softmax has weight exactly 1."""
    x = tokens(np.eye(3))
    (i,) = x.free
    j = i.plate.index("j")
    p = dot(matrix("WQ") @ x, matrix("WK") @ x[j])
    program = Program("masked", none=softmax(p, over=j, where=j < i), causal=softmax(p, over=j, where=j <= i))
    for drawn in (program.limit().sample(64, rng=0), simulate(program, width=4, runs=64, rng=0)):
        assert not np.isnan(drawn["none"]).any()
        assert not drawn["none"][0].any()
        assert (drawn["causal"][0, 0] == 1).all()


def test_scores_far_apart_do_not_overflow() -> None:
    x = tokens(np.eye(4))
    j = x.free[0].plate.index("j")
    A = softmax(dot(matrix("WQ", sigma=200) @ x, matrix("WK", sigma=200) @ x[j]), over=j)
    drawn = Program("hard", A=A).limit().sample(64, rng=0)["A"]
    assert np.abs(drawn.sum(1) - 1).max() < 1e-12


def test_tokens_that_are_clipped() -> None:
    """The law of the tokens is that of clip(Z), not the standard one: E clip(Z)^2 = .516058550962."""
    assert expect(lambda z: clip(1)(z) ** 2) == pytest.approx(0.516058550962, abs=1e-12)
    limits = [load("attention", {"tokens": "2", "heads": "1", "phi": f"clip({c})"}).limit() for c in (1, 100)]
    small, large = (limit.covariance("p").value[0, 0, 1, 0, 0, 1] for limit in limits)
    assert small == pytest.approx(0.516058550962**2, abs=1e-11)
    assert large == pytest.approx(1, abs=1e-11)


# ---- names and letters


def test_two_matrices_of_one_name_are_not_tied_by_accident() -> None:
    with pytest.raises(IllFormed, match="NS301"):
        Program("twice", p=dot(matrix("W") @ vector("x"), matrix("W") @ vector("y")))


def test_bound_letters_do_not_leak() -> None:
    """Sums inside sums over one plate, members and letters exchanged: the arrays of numpy."""
    i, j, k = Plate("token", 3).indices("i j k")
    c, d = np.arange(9).reshape(3, 3) / 4 - 1, np.array([[2, -1, 0.5], [1, 0, 3], [-2, 1, 1]])
    C, D = table("c", i, j, values=c), table("d", i, j, values=d)
    assert C.free == (i, j)
    inner = sum_over(C * D[j, k], j)  # (c d)[i, k]
    outer = sum_over(inner * inner[k, i], k)  # ((c d)(c d))[i, i]
    swapped = sum_over(D[j, i] * inner[i, j], j)
    program = Program("sums", inner=inner, outer=outer, swapped=swapped, at=inner[k, 1])
    world = World()
    numbers = {name: world.value(t).full(t.free)[..., 0, 0] for name, t in program.items()}
    assert np.allclose(numbers["inner"], c @ d)
    assert np.allclose(numbers["outer"], np.diag(c @ d @ c @ d))
    assert np.allclose(numbers["swapped"], np.einsum("ji,ij->i", d, c @ d))
    assert np.allclose(numbers["at"], (c @ d)[:, 1])


@pytest.mark.parametrize("name", ["N", "I", "E", "S", "O", "Q", "beta", "gamma", "pi", "zeta", "lambda_"])
def test_names_that_mean_something_to_sympy(name: str) -> None:
    x = vector(name)
    program = Program("names", copy=2 * x, g=matrix("W") @ x)
    assert f"copy = 2 * {name}" in str(program)
    assert f"2 Z^{name}" in program.limit()["copy"].text() or f"Z^{name}" in program.limit()["copy"].text()


# ---- functions


def test_a_constant_function_gives_a_vector() -> None:
    t = sympy.Symbol("t", real=True)
    for y in (elementwise(sympy.Lambda(t, 3))(vector("x")), 0 * vector("x") + 3):
        program = Program("constant", y=y, m=mean(y))
        assert (simulate(program, width=5, runs=2, rng=0, outputs={"y": {"coordinates": 5}})["y"] == np.full((2, 5), 3)).all()
        assert program.limit().mean("m").item() == pytest.approx(3, abs=1e-12)


def test_a_derivative_with_a_delta_is_refused() -> None:
    t = sympy.Symbol("t", real=True)
    with pytest.raises(IllFormed, match="NS309"):
        elementwise(sympy.Lambda(t, sympy.diff(sympy.sign(t), t)))


def test_a_recurrent_network() -> None:
    """g_1 = W x, g_{k+1} = W relu(g_k), one matrix: E g_2 g_2 = 1/2, E g_1 g_2 = 0, E g_2 g_3 = E relu(g_1) relu(g_2)."""
    x, W = vector("x"), matrix("W")
    g1 = W @ x
    g2 = W @ relu(g1)
    g3 = W @ relu(g2)
    limit = Program("rnn", g1=g1, g2=g2, g3=g3).limit()
    assert limit.covariance("g2").value == pytest.approx(1 / 2, rel=1e-12)
    assert limit.covariance("g1", "g2").value == pytest.approx(0, abs=1e-12)
    assert limit.covariance("g2", "g3").value == pytest.approx(sqrt(1 / 2) / (2 * pi), rel=1e-12)


# ---- sampling


def test_memory_does_not_grow_with_the_number_of_runs() -> None:
    """Whole matrices: 64 times the runs take less than 3 times the memory (the results alone are small)."""
    program = attention(tokens(np.eye(2)))
    peaks = []
    for runs in (64, 4096):
        tracemalloc.start()
        simulate(program, width=48, runs=runs, rng=0, outputs={"p": {}}, engine="dense")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 3 * peaks[0] + 4096 * 4 * 8 * 4


def test_every_number_has_an_error_and_says_where_it_is_from() -> None:
    program = attention(tokens(np.eye(2)))
    assert "n = 8, exact" in simulate(program, width=8, runs=4, rng=0).title
    assert "the limit" in program.limit().sample(4, rng=0).title
    law = program.limit().law("y", i=0)
    assert law.variance.error > 0
    assert str(law.variance).endswith(")")
    assert (program.limit().covariance("y").error > 0).any()
    shown = str(compare(program, "y", i=0, widths=[4, 8], runs=256))
    assert "exact at width n, beside the limit" in shown


def test_random_tests_have_no_deadline_and_state_their_rate() -> None:
    import calibrated

    assert settings.default is not None
    assert settings().deadline is None
    assert calibrated.ALARM <= 1e-6
