"""Numbers of the limit: laws, means, covariances and draws agree with each other, with closed forms and with numpy."""

from collections.abc import Callable
from math import erf, exp, pi, sqrt

import numpy as np
import pytest
from calibrated import BATCHES, assert_detects, assert_same_law, assert_within, average, draws
from mutants import scores_of_twice_the_size
from scipy.integrate import quad

from netsor import limit
from netsor.errors import Numerical
from netsor.functions import erf as erf_
from netsor.functions import max_over, mean_over, relu, silu, softmax, sum_over, tanh
from netsor.infinite import laws
from netsor.infinite import sample as sampler
from netsor.infinite.coordinates import Coordinates
from netsor.ir import Index, Plate, Term
from netsor.limit import Limit
from netsor.numeric.law import Mixture, PointMass, Sampled
from netsor.program import Program
from netsor.rules import Law, dot, matrix, mean, vector

RUNS = 20_000
TOKENS = 3
TOKEN = Plate("token", TOKENS)


def attention(x: Term | None = None, where: Callable[[Index, Index], Term] | None = None) -> Program:
    """One head; by default relu tokens, E x_i x_j = 1/2 and 1/2π."""
    i, j = TOKEN.indices("i j")
    x = relu(matrix("Win", i) @ vector("h")) if x is None else x
    p = dot(matrix("WQ") @ x, matrix("WK") @ x[j])
    A = softmax(p, over=j, where=where(i, j) if where else None)
    return Program("attention", x=x, p=p, A=A, y=sum_over(A * (matrix("WV") @ x[j]), j))


def tokens(cov: object = None) -> Term:
    return vector("x", TOKEN.index("i"), cov=cov)


def law(term: Term) -> Mixture | Sampled | PointMass:
    return Program("test", y=term).limit().law("y")


# -------------------------------------------------------------------------------------------------------------- joint draws


def test_scores_are_drawn_with_their_covariance() -> None:
    """E p_ij p_kl = K_ik K_jl with K = 1/2 on the diagonal and 1/2π off it, exactly in `covariance`, and in draws.

    False alarm 1e-6 for all 81 entries; finds 0.015 (1/4π² is 0.025).
    """
    L = attention().limit()
    K = np.full((TOKENS, TOKENS), 1 / (2 * pi)) + (1 / 2 - 1 / (2 * pi)) * np.eye(TOKENS)
    expected = np.einsum("ik,jl->ijkl", K, K)
    assert_within(L.covariance("p").value, expected)
    p = L.sample(RUNS, names=["p"], rng=0)["p"]
    assert_within(average(np.einsum("ijr,klr->ijklr", p, p)), expected, replicates=BATCHES)


def test_scores_are_independent_of_vectors() -> None:
    """(p, x) against p and x of different runs. False alarm 1e-6; finds a correlation of 0.1."""
    D = attention(tokens()).limit().sample(2 * RUNS, names=["p", "x"], rng=0)
    p, x = D["p"][0, 0], D["x"][0, :, 0]
    together = np.stack([p[:RUNS], x[:RUNS]], 1)
    assert_same_law(together, np.stack([p[RUNS:], np.roll(x[RUNS:], 1)], 1))


def test_coordinates_are_independent_given_the_scores_only() -> None:
    """E y y' = 0, and Cov(y², y'²) = Var V, which the excess kurtosis 3 Var V / (E V)² of one coordinate tells.

    False alarm 2e-6; finds a correlation of 0.05; Cov(y², y'²) is 0.0186, 20% of which is seen.
    """
    L = attention(tokens()).limit()
    y = L.sample(200_000, coordinates=2, names=["y"], rng=0)["y"][0]
    assert_within(average(y[:, 0] * y[:, 1]), 0, replicates=BATCHES)
    alone = L.law("y", i=0)
    squares = y**2 - alone.variance
    expected = alone.excess_kurtosis * alone.variance**2 / 3
    assert_within(average(squares[:, 0] * squares[:, 1]), expected, replicates=BATCHES)


@pytest.mark.parametrize(
    ("name", "members"), [("p", {"i": 0, "j": 1}), ("A", {"i": 0, "j": 1}), ("x", {"i": 1}), ("y", {"i": 2})]
)
def test_a_law_is_that_of_the_draws(name: str, members: dict[str, int]) -> None:
    """Mean, variance, E cos 3X. False alarm 3e-6 each; finds 0.02, 0.02 and 0.02 (of numbers below 1)."""
    L = attention().limit()
    x = L.sample(RUNS, names=[name], rng=1)[name][tuple(members.values())].ravel()
    found, given = draws(x), L.law(name, **members)
    assert_within(found.mean, given.mean)
    assert_within(found.variance, given.variance)
    assert_within(found.expect(lambda t: np.cos(3 * t)), given.expect(lambda t: np.cos(3 * t)))


def test_nonlinear_vectors_are_drawn_jointly() -> None:
    """tanh(W x) + V x and relu(W x) V x at two coordinates, E x² = 2, against numpy. False alarm 1e-6; finds a
    correlation of 0.1."""
    W, V, x = matrix("W"), matrix("V"), vector("x", mean=1)
    P = Program("test", y=tanh(W @ x) + V @ x, z=relu(W @ x) * (V @ x))
    D = P.limit().sample(RUNS, coordinates=2, rng=0)
    g, h = sqrt(2) * np.random.default_rng(0).standard_normal((2, RUNS, 2))
    expected = np.tanh(g) + h, np.maximum(g, 0) * h
    assert_same_law(np.concatenate([D["y"], D["z"]], 1), np.concatenate(expected, 1))


# ------------------------------------------------------------------------------------------------------- laws and averages


def test_expectations_that_members_share_are_summed_over_all_of_them() -> None:
    """E Σ_i f(W_i h) = 3 E f, by a closed form (relu) and by quadrature (tanh)."""
    i, h = TOKEN.index("i"), vector("h")
    r, t = (f(matrix(name, i) @ h) for f, name in ((relu, "W"), (tanh, "V")))
    L = Program("sums", r=sum_over(r, i), t=mean(sum_over(t * t, i)), s=sum_over(mean(r), i)).limit()
    half, square = 1 / sqrt(2 * pi), gaussian(lambda z: np.tanh(z) ** 2)
    assert_within([float(L.mean(name)) for name in "rst"], [3 * half, 3 * half, 3 * square])
    assert_within(L.covariance("r").value, 3 / 2 + 6 * half**2 - 9 * half**2)


def test_an_expectation_that_forgets_a_letter_is_summed_over_it() -> None:
    """E m x_i is the same for every i, m the average of x with E x = 1/2: E (x_i + 2m) 2m = 6 E m² = 6 (1/3 + 1/4)."""
    i = TOKEN.index("i")
    x, W = vector("x", i, mean=0.5), matrix("W")
    m = mean_over(x, i)
    L = Program("pooled", a=W @ (x + (m + m)), b=W @ (m + m)).limit()
    assert_within(L.covariance("a", "b").value, 3.5)


@pytest.mark.parametrize("name", ["x", "p", "A", "y"])
def test_covariances_are_symmetric_and_positive_semidefinite(name: str) -> None:
    cov = attention().limit().covariance(name).value
    d = round(sqrt(cov.size))
    matrix = cov.reshape(d, d)
    assert np.abs(matrix - matrix.T).max() <= 1e-14
    assert np.linalg.eigvalsh(matrix).min() >= -1e-14 * matrix.trace()


def test_covariance_of_weights_with_their_scores() -> None:
    """Stein: E A_j p_k = E A_j (δ_jk - A_k), so the diagonal is (1 - v)/3 and the rest -(1 - v)/6, v = E |A|².

    False alarm 1e-6 for all entries; finds 0.002.
    """
    v = 0.48156572077717813  # three independent tokens: a one-dimensional Laplace integral
    found = attention(tokens()).limit().covariance("A", "p")[0, :, 0, :]
    assert_within(found, (1 - v) / 6 * (3 * np.eye(TOKENS) - 1))


def test_answers_do_not_depend_on_the_order_of_questions() -> None:
    """To the bit, nor on what else the program says."""
    questions: dict[str, Callable[[Limit], bytes]] = {
        "law": lambda L: L.law("y", i=0, runs=2**8).variances.tobytes(),
        "covariance": lambda L: L.covariance("A", runs=2**8).value.tobytes(),
        "draws": lambda L: L.sample(5, names=["y"], rng=0)["y"].tobytes(),
    }
    P = attention(tokens())
    z = dot(matrix("U") @ P["x"], matrix("V") @ P["y"])
    more = Program("more", z=z, first=tanh(P["y"]), A=P["A"], y=P["y"])
    forward, backward, beside = P.limit(), P.limit(), more.limit()
    expected = {name: ask(forward) for name, ask in questions.items()}
    assert {name: questions[name](backward) for name in reversed(questions)} == expected
    assert {name: ask(beside) for name, ask in questions.items()} == expected


def test_a_tolerance_is_met_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    L = attention(tokens()).limit()
    loose = L.law("y", i=0, runs=2**8).variance
    assert L.law("y", i=0, runs=2**8, tol=loose.error / 30).variance.error <= loose.error / 30 < loose.error
    monkeypatch.setattr(limit, "LARGEST_RUNS", 2**12)
    with pytest.raises(Numerical, match="NS401"):
        L.law("y", i=0, tol=1e-12)


# --------------------------------------------------------------------------------------------------- nonlinear variables


def gaussian(f: Callable[[float], float]) -> float:
    """E f(Z), the line cut at 0."""
    return sum(quad(lambda z: f(z) * exp(-z * z / 2) / sqrt(2 * pi), *part, epsabs=1e-13)[0] for part in ((-12, 0), (0, 12)))


def silu_(z: float) -> float:
    return z / (1 + exp(-z))


def curved(name: str) -> tuple[Term, type, float, float]:
    """A variable, the kind of its law, its mean and variance."""
    x, W, V = vector("x"), matrix("W"), matrix("V")
    g, h = W @ x, V @ x
    return {
        "relu + linear": (relu(g) + h, Mixture, 1 / sqrt(2 * pi), 1.5 - 1 / (2 * pi)),
        "gate": (silu(g) * h, Mixture, 0, gaussian(lambda z: silu_(z) ** 2)),
        "gate of its own": (
            silu(g) * g,
            Sampled,
            gaussian(lambda z: silu_(z) * z),
            gaussian(lambda z: (silu_(z) * z) ** 2) - gaussian(lambda z: silu_(z) * z) ** 2,
        ),
        "square": (g * g, Sampled, 1, 2),
        "two": (relu(g) * erf_(h), Sampled, 0, gaussian(lambda z: erf(z) ** 2) / 2),
        "through both": (tanh(g + h), Sampled, 0, gaussian(lambda z: np.tanh(sqrt(2) * z) ** 2)),
    }[name]


CURVED = ["relu + linear", "gate", "gate of its own", "square", "two", "through both"]


@pytest.mark.parametrize("name", CURVED)
def test_nonlinear_variables(name: str) -> None:
    """A mixture where an atom is left affine, else draws. False alarm 2e-6 each; finds 1% of the variance."""
    term, kind, average, variance = curved(name)
    found = law(term)
    assert type(found) is kind
    assert_within(found.mean, average)
    assert_within(found.variance, variance)


def test_a_gate_against_numpy() -> None:
    """All moments at once, as draws of the mixture. False alarm 1e-6; finds 0.06 in a characteristic function."""
    g, h = np.random.default_rng(0).standard_normal((2, RUNS, 1))
    term, *_ = curved("gate")
    assert_same_law(law(term).sample(RUNS, rng=1)[:, None], g / (1 + np.exp(-g)) * h)


# ------------------------------------------------------------------------------------------------------ other initial laws

KEEP = 0.8  # probability


def dropout() -> Term:
    """A mask: 0, or 1/q with probability q."""
    moments = Law("Keep", moment=lambda k: KEEP ** (1 - k) if k else 1, quantile=lambda u: (u < KEEP) / KEEP)
    return vector("m", law=moments)


def test_moments_of_a_dropout_mask() -> None:
    """E m^k = q^(1-k), through cumulants up to the sixth order, and E of a square of a product with a Gaussian."""
    m, x = dropout(), vector("x", cov=2)
    P = Program("masks", **{f"m{k}": m**k for k in range(1, 7)}, mx=m * x, y=matrix("W") @ (m * x), e=mean(m * x * m * x))
    L = P.limit()
    assert_within([float(L.mean(f"m{k}")) for k in range(1, 7)], [KEEP ** (1 - k) for k in range(1, 7)])
    assert_within([float(L.covariance("m2")), float(L.mean("e"))], [KEEP**-3 - KEEP**-2, 2 / KEEP])
    assert_within(L.law("y").variance, 2 / KEEP)
    assert L.law("y").excess_kurtosis == 0


def test_the_law_of_a_masked_vector() -> None:
    """N(0, 1/q²) or 0: excess kurtosis 3(1/q - 1). False alarm 2e-6; finds 1%."""
    found = law(dropout() * vector("x"))
    assert_within(found.variance, 1 / KEEP)
    assert_within(found.excess_kurtosis, 3 * (1 / KEEP - 1))


# --------------------------------------------------------------------------------------------------------- degenerate laws


def test_what_has_no_randomness_is_a_point_mass() -> None:
    x, j = tokens(), TOKEN.index("j")
    fresh = Program("t", p=mean((matrix("WQ") @ x) * (matrix("WK") @ x[j]))).limit().law("p", i=0, j=1)
    W = matrix("W")
    tied = Program("t", p=mean((W @ x) * (W @ x[j]))).limit().law("p", i=1, j=1)
    zero = attention(tokens(np.zeros((TOKENS, TOKENS)))).limit().law("p", i=0, j=0)
    assert [type(found) for found in (fresh, tied, zero)] == [PointMass] * 3
    assert [found.value for found in (fresh, tied, zero)] == [0, 1, 0]


def test_identical_tokens_get_equal_weights() -> None:
    """Every weight is 1/s in every run and the output is Gaussian, to rounding."""
    L = attention(tokens(np.ones((TOKENS, TOKENS)))).limit()
    assert np.abs(L.sample(1000, names=["A"], rng=0)["A"] - 1 / TOKENS).max() < 1e-14
    found = L.law("y", i=0)
    assert found.variance == pytest.approx(1, abs=1e-14)
    assert abs(found.excess_kurtosis) < 1e-14


def test_masks() -> None:
    """Causal: the first token sees itself alone. Strictly causal: it sees nothing, and that is 0 and no nan."""
    L = attention(tokens(), where=lambda i, j: j <= i).limit()
    A = L.sample(1000, names=["A"], rng=0)["A"]
    assert (A[0] == np.array([1, 0, 0])[:, None]).all()
    assert np.abs(A.sum(1) - 1).max() < 1e-14
    assert (A[1, 2] == 0).all()
    assert (L.law("y", i=0).variance, L.law("y", i=0).excess_kurtosis) == (1, 0)

    L = attention(tokens(), where=lambda i, j: j < i).limit()
    D = L.sample(1000, names=["A", "y"], rng=0)
    assert (D["A"][0] == 0).all()
    assert (D["A"][1, 0] == 1).all()
    assert (D["y"][0] == 0).all()
    assert np.isfinite(D["y"]).all()
    assert L.law("y", i=0).value == 0


# ----------------------------------------------------------------------------------------------------------------- mutants

Mutant = Callable[[pytest.MonkeyPatch], None]


def one_stream_for_all(patch: pytest.MonkeyPatch) -> None:
    """Scores and vectors are drawn from the same normals."""
    right = sampler.stream
    patch.setattr(sampler, "stream", lambda seed, *names: right(seed, "all", names[-1]))


def one_gaussian(patch: pytest.MonkeyPatch) -> None:
    """The law of mean and variance in place of the mixture."""
    right = laws.as_law
    patch.setattr(laws, "as_law", lambda m, v: right(m, np.full_like(v, v.mean())))


def no_mean(patch: pytest.MonkeyPatch) -> None:
    """What stands beside the affine atoms is dropped from the conditional mean."""
    right = laws.integrate
    patch.setattr(laws, "integrate", lambda *args: (right(*args)[0].scaled(0), right(*args)[1]))


def variance_in_place_of_second_moment(patch: pytest.MonkeyPatch) -> None:
    """Cov(W x, W x) = σ² Var x, where the mean of x is 1 and its variance is 1."""
    right = Coordinates.covariance
    patch.setattr(Coordinates, "covariance", lambda at, g, h: right(at, g, h).scaled(0.5))


def moments_in_place_of_cumulants(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Law, "cumulant", lambda law, order: law.moment(order))


@pytest.mark.parametrize(
    ("mutant", "test", "args"),
    [
        (scores_of_twice_the_size, test_scores_are_drawn_with_their_covariance, ()),
        (scores_of_twice_the_size, test_a_law_is_that_of_the_draws, ("p", {"i": 0, "j": 1})),
        (scores_of_twice_the_size, test_covariance_of_weights_with_their_scores, ()),
        (one_stream_for_all, test_scores_are_independent_of_vectors, ()),
        (one_gaussian, test_coordinates_are_independent_given_the_scores_only, ()),
        (one_gaussian, test_the_law_of_a_masked_vector, ()),
        (one_gaussian, test_a_gate_against_numpy, ()),
        (no_mean, test_nonlinear_variables, ("relu + linear",)),
        (variance_in_place_of_second_moment, test_nonlinear_vectors_are_drawn_jointly, ()),
        (moments_in_place_of_cumulants, test_moments_of_a_dropout_mask, ()),
    ],
)
def test_a_mutant_is_caught(mutant: Mutant, test: Callable[..., None], args: tuple, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    assert_detects(test, *args)


# --------------------------------------------------------------------------------------------- softmax of vectors, contrasts


@pytest.mark.parametrize("size", [2, 3, 4])
def test_softmax_over_few_vectors_is_integrated(size: int) -> None:
    """E A_0^2, E A_0 A_1 and E A_0 x_0 of A = softmax_j(x_j): no sampling, against nodes in independent coordinates."""
    i = Plate("few", size).index("i")
    x = vector("x", i, cov=(np.eye(size) + 1) / 2)
    A = softmax(x, over=i)
    L = Program("few", m=mean(A * A), k=mean(A * x), y=matrix("W") @ A).limit()
    z, w = np.polynomial.hermite_e.hermegauss(48)
    grid = np.stack(np.meshgrid(*[z] * size, indexing="ij"), -1) @ np.linalg.cholesky((np.eye(size) + 1) / 2).T
    weights = np.prod(np.stack(np.meshgrid(*[w / sqrt(2 * pi)] * size, indexing="ij")), 0)
    a = np.exp(grid) / np.exp(grid).sum(-1, keepdims=True)
    squares, products = ((weights.ravel()[:, None] * a.reshape(-1, size)).T @ b.reshape(-1, size) for b in (a, grid))
    for name, expected in (("m", squares.diagonal()), ("k", products.diagonal()), ("y", squares)):
        found = L.covariance(name) if name == "y" else L.mean(name)
        assert np.abs(found.value - expected).max() < 1e-9  # Gauss-Hermite, for the poles at distance pi
        assert found.error.max() < 1e-12


@pytest.mark.parametrize("size", [3, 8, 24])
def test_softmax_over_independent_vectors_is_one_integral(size: int) -> None:
    """A of s iid N(0, v): sum_j E A_j = 1 exactly, so s E A_0^2 + s (s - 1) E A_0 A_1 = 1, and E A_0 x_0 = v (E A_0 - E A_0^2)
    (Stein's lemma); to 1e-13, without sampling, and against a million draws."""
    i = Plate("many", size).index("i")
    x = vector("x", i, cov=2)
    A = softmax(x, over=i)
    L = Program("many", k=mean(A * x), y=matrix("W") @ A).limit()
    second, k = L.covariance("y"), L.mean("k")
    assert second.error.max() < 1e-13
    assert second.value.sum() == pytest.approx(1, abs=1e-12)
    assert k.value == pytest.approx(2 * (1 / size - second.value[0, 0]), abs=1e-13)
    e = np.exp(sqrt(2) * np.random.default_rng(0).standard_normal((10**6, size)))
    squares = (e[:, 0] / e.sum(1)) ** 2
    assert abs(squares.mean() - second.value[0, 0]) < 5 * squares.std() / 1e3


def test_softmax_over_many_dependent_vectors_is_sampled() -> None:
    i = Plate("many", 6).index("i")
    x = vector("x", i, cov=(np.eye(6) + 1) / 2)
    assert (Program("many", m=mean(softmax(x, over=i) ** 2)).limit().mean("m").error > 0).all()


def test_a_singular_gram_matrix_with_a_sampled_entry() -> None:
    """E[x max(x, x)] comes from Sobol points and E[x x] does not: beside it the Gram matrix is singular up to that error."""
    i, j = Plate("token", 2).indices("i j")
    x = vector("x", i, cov=[[1, 1], [1, 1]])
    W = matrix("W")
    limit = Program("repeated", a=W @ x, b=W @ max_over(x, i), p=dot(W @ max_over(x, i), matrix("V") @ x[j])).limit()
    for seed in range(8):  # the error has either sign
        drawn = limit.sample(256, rng=seed)
        assert np.abs(drawn["a"][0] - drawn["a"][1]).max() < 1e-9
        assert np.mean((drawn["a"][0] - drawn["b"]) ** 2) < 0.05  # 0 but for the Sobol points, 1024 of them
        assert np.isfinite(drawn["p"]).all()
