"""Width n against exact finite-width mathematics, plain numpy, and itself."""

import tracemalloc
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from itertools import count
from math import gamma, pi, sqrt

import numpy as np
import pytest
from calibrated import BATCHES, assert_detects, assert_same_law, assert_within, average, draws

from netsor.algebra.moments import Moments
from netsor.errors import Numerical
from netsor.finite import laws, shards
from netsor.finite.dense import Copies, Dense
from netsor.finite.engines import choose
from netsor.functions import relu, softmax, sum_over, tanh
from netsor.functions import sqrt as root
from netsor.ir import Plate, Term, Width
from netsor.numeric.named import Named
from netsor.numeric.streams import piece, pieces
from netsor.program import Program
from netsor.rules import Law, dot, matrix, vector
from netsor.simulation import OutsideTheoremWarning
from netsor.simulation import simulate as simulate_in

n = Width()
simulate = partial(simulate_in, engine="dense")
finite_law = partial(laws.finite_law, engine="dense")


def qk(rows: Width = n) -> Term:
    """<WQ x, WK x> / sqrt(rows), x ~ N(0, 1) in every coordinate."""
    x = vector("x")
    return dot(matrix("WQ", shape=(rows, n)) @ x, matrix("WK", shape=(rows, n)) @ x)


def simulated(term: Term, width: int, runs: int, rng: int = 0) -> np.ndarray:
    return simulate(Program("test", y=term), width=width, runs=runs, rng=rng)["y"].ravel()


# ------------------------------------------------------------------------------------------------------- exact moments


def check_score(width: int, runs: int, law: bool) -> None:
    """Given x and WQ, p is N(0, V), V = (|x|²/n) |WQ x|²/n. So E p² = 1 + 2/n, E p⁴ = (3 + 6/n)(1 + 2/n)(1 + 4/n)(1 + 6/n)."""
    found = finite_law(qk(), width=width, runs=runs, rng=0) if law else draws(simulated(qk(), width, runs))
    m, replicates = width, found.shape[0]
    kurtosis = (3 + 6 / m) * (1 + 4 / m) * (1 + 6 / m) / (1 + 2 / m) - 3
    assert_within(found.variance, 1 + 2 / m, replicates=replicates)
    assert_within(found.excess_kurtosis, kurtosis, replicates=replicates)


@pytest.mark.parametrize("law", [True, False])
def test_a_score(law: bool) -> None:
    """False alarm 2e-6. Finds 2% (law) or 6% (draws) of the variance, and 0.04 or 0.3 of the excess kurtosis
    0.486."""
    check_score(64, 20_000, law)


@pytest.mark.nightly
@pytest.mark.parametrize(("width", "runs"), [(64, 10**6), (256, 10**5)])
def test_a_score_in_many_runs(width: int, runs: int) -> None:
    """At 4.95 standard errors, false alarm 2e-6. Finds 0.8% and 2.4% of the variance, 0.05 and 0.1 of the kurtosis."""
    check_score(width, runs, law=False)


def test_a_score_of_relu_tokens() -> None:
    """E p² = E (|x|²/n)², |x|² = |h|²/n Σ relu(g)²: (1 + 2/n)(1/4 + 5/4n). False alarm 1e-6; finds 5%, where
    5/4n is 31% of 1/4 at n = 16."""
    x = relu(matrix("W") @ vector("h"))
    law = finite_law(dot(matrix("WQ") @ x, matrix("WK") @ x), width=16, runs=50_000, rng=0)
    assert_within(law.variance, (1 + 2 / 16) * (1 / 4 + 5 / (4 * 16)))


@pytest.mark.parametrize("width", [1, 2, 3, 64])
def test_a_score_at_any_width(width: int) -> None:
    """p = Z T √T', T and T' chi-square/n with n degrees of freedom, independent; E |p|^½ has light tails at n = 1 too.

    False alarm 1e-6 each; finds 3%.
    """
    p = simulated(qk(), width, 50_000 if width < 64 else 10_000)

    def moment(k: float) -> float:
        """E T^k."""
        return (2 / width) ** k * gamma(width / 2 + k) / gamma(width / 2)

    expected = 2**0.25 * gamma(3 / 4) / sqrt(pi) * moment(1 / 2) * moment(1 / 4)
    assert_within(average(np.sqrt(np.abs(p))), expected, replicates=BATCHES)


def test_rectangular_matrices() -> None:
    """Entries have variance σ²/columns, and a score is divided by the root of its own width: E y² = σ² E relu(Z)² = 9/2,
    E p² = 1 + 2/n also over n/2 coordinates. False alarm 4e-6; finds 4% (law) and 7% (draws)
    of the first, 12% of the second."""
    x, half = vector("x"), Fraction(1, 2) * n
    y = matrix("W2", sigma=3, shape=(half, 4 * n)) @ relu(matrix("W1", shape=(4 * n, n)) @ x)
    for term, expected in ((y, 9 / 2), (qk(half), 1 + 2 / 8)):
        law = finite_law(term, width=8, runs=20_000, rng=0)
        assert_within(law.variance, expected)
        assert_within(average(simulated(term, 8, 20_000) ** 2), expected, replicates=BATCHES)


# -------------------------------------------------------------------------------------------------------- conditional laws


def attention(tokens: int = 2, heads: int = 2) -> dict[str, Term]:
    i, j = Plate("token", tokens).indices("i j")
    a = Plate("head", heads).index("a")
    WQ, WK, WV, WO = (matrix(f"W{r}", a) for r in "QKVO")
    x = vector("x", i)
    p = dot(WQ @ x, WK @ x[j])
    o = WO @ sum_over(softmax(p, over=j) * (WV @ x[j]), j)
    return {"x": x, "p": p, "y": sum_over(o, a) / root(a.plate.size)}


def mixed(name: str) -> Term:
    """Numbers with a Gaussian source that nothing else depends on, which may be integrated out at width n."""
    x, z = vector("x", mean=1), vector("z", cov=2)
    i = Plate("token", 2).index("i")
    return {
        "output": lambda: attention()["y"][0],
        "gate": lambda: relu(matrix("W") @ x) + tanh(x) * (matrix("V") @ z),
        "residual": lambda: x + matrix("W") @ tanh(x),
        "tied": lambda: sum_over((matrix("W") @ vector("u", i)), i) - matrix("V") @ z,
        "read-out": lambda: dot(vector("v"), relu(matrix("W") @ x)),
        "score of sums": lambda: dot(matrix("W") @ x + matrix("U") @ z, matrix("V") @ tanh(x)),
        "score of a plate": lambda: dot(sum_over(matrix("W", i) @ vector("u", i), i), matrix("V") @ x),
        "score": qk,
    }[name]()


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize(
    "name", ["output", "gate", "residual", "tied", "read-out", "score of sums", "score of a plate", "score"]
)
def test_a_conditional_law_is_that_of_the_draws(name: str, width: int) -> None:
    """E cos(wX) + sin(wX) at three w, which tell laws apart. False alarm 1e-6; finds 0.03 to 0.08."""
    law = finite_law(mixed(name), width=width, runs=20_000, rng=1)
    x = simulated(mixed(name), width, 20_000)
    for w in (0.5, 1, 2):
        expected = law.expect(lambda t, w=w: np.cos(w * t) + np.sin(w * t))
        assert_within(average(np.cos(w * x) + np.sin(w * x)), expected, alarm=1e-6 / 3)


# ----------------------------------------------------------------------------------------------------------- shared matrices


def test_a_matrix_is_one_matrix() -> None:
    """In every run, to rounding."""
    W, x, y = matrix("W"), vector("x"), vector("y")
    u = relu(W @ x)
    P = Program("shared", x=W @ x, y=W @ y, again=W @ x, sum=W @ (x + y), twice=W @ (2 * x), nested=W @ u, plus=W @ (u + x))
    D = simulate(P, width=5, runs=5000, rng=0, outputs={name: {"coordinates": 5} for name in P})
    for found, expected in (
        (D["again"], D["x"]),
        (D["sum"], D["x"] + D["y"]),
        (D["twice"], 2 * D["x"]),
        (D["plus"], D["nested"] + D["x"]),
    ):
        assert_within(found, expected)


def recurrence(coordinates: int, rng: int) -> np.ndarray:
    """(x, W x, W relu(W x)) at coordinate 0: (runs, 3)."""
    W, x = matrix("W"), vector("x", mean=1)
    u = W @ x
    P = Program("rnn", x=x, u=u, v=W @ relu(u))
    D = simulate(P, width=2, runs=20_000, rng=rng, outputs={name: {"coordinates": coordinates} for name in P})
    return np.stack([D[name][:, 0] for name in P], 1)


def test_rows_that_are_not_asked_for_change_nothing() -> None:
    """The last product needs one row of W, which must be a row of the W that acted before. Beside numpy.

    False alarm 2e-6. Corr(W relu(W x), W x) is 0.57; a W that is drawn again has 0.
    """
    rng = np.random.default_rng(7)
    W, x = rng.standard_normal((20_000, 2, 2)) / sqrt(2), 1 + rng.standard_normal((20_000, 2, 1))
    reference = np.stack([a[:, 0, 0] for a in (x, W @ x, W @ np.maximum(W @ x, 0))], 1)
    assert_same_law(recurrence(1, rng=0), reference)
    assert_same_law(recurrence(2, rng=1), reference)


# ------------------------------------------------------------------------------------------------------------- randomness


def test_one_request_has_one_result() -> None:
    """Bit for bit, whatever else the program says; another seed gives other numbers."""
    P = attention()
    asked = {"y": {"i": 1, "coordinates": 2}, "p": {}}
    one, two, other = (simulate(Program("a", **P), width=6, runs=700, rng=r, outputs=asked) for r in (0, 0, 1))
    x = P["x"]
    more = Program("more", z=matrix("WZ") @ relu(x), **P, w=matrix("WW") @ P["y"])
    three = simulate(more, width=6, runs=700, rng=np.random.SeedSequence(0), outputs=asked)
    for name in asked:
        assert np.array_equal(one[name], two[name])
        assert np.array_equal(one[name], three[name])
        assert not np.isin(one[name], other[name]).any()


def test_copies_and_runs_and_rows_differ() -> None:
    """No two of the numbers that should be independent are equal, over shards too."""
    a = Plate("head", 2).index("a")
    D = simulate(Program("a", g=matrix("W", a) @ vector("x")), width=2048, runs=1100, rng=0, outputs={"g": {}})
    assert np.unique(D["g"]).size == D["g"].size == 2200


def test_axes_are_named_by_letters() -> None:
    D = simulate(Program("a", **attention(tokens=3)), width=4, runs=5, rng=0)
    assert D.dims == {"x": ("i", "run", "coordinate"), "p": ("a", "i", "j", "run"), "y": ("i", "run", "coordinate")}
    assert {name: a.shape for name, a in D.items()} == {"x": (3, 5, 1), "p": (2, 3, 3, 5), "y": (3, 5, 1)}
    outputs = {"y": {"i": 2, "coordinates": 3}, "p": {"j": 0}, "x": {"coordinates": 9}}
    D = simulate(Program("a", **attention(tokens=3)), width=4, runs=5, rng=0, outputs=outputs)
    assert D.dims == {"y": ("run", "coordinate"), "p": ("a", "i", "run"), "x": ("i", "run", "coordinate")}
    assert {name: a.shape for name, a in D.items()} == {"y": (5, 3), "p": (2, 3, 5), "x": (3, 5, 4)}


# --------------------------------------------------------------------------------------------------------- initial vectors


@pytest.mark.parametrize("cov", [[[2, -0.7], [-0.7, 1]], [[4, 2], [2, 1]], [[1, -1], [-1, 1]], [[0, 0], [0, 3]]])
def test_initial_vectors(cov: list[list[float]]) -> None:
    """Mean and second moments over all coordinates. False alarm 1e-6; finds 0.08 of a mean, 6% of a second moment."""
    i = Plate("token", 2).index("i")
    x = simulate(Program("a", x=vector("x", i, mean=0.5, cov=cov)), width=3, runs=20_000, rng=0)["x"][..., 0]
    moments = average(np.stack([x[0], x[1], x[0] ** 2, x[0] * x[1], x[1] ** 2]))
    K = np.array(cov) + 0.25
    assert_within(moments, [0.5, 0.5, K[0, 0], K[0, 1], K[1, 1]], replicates=BATCHES)


def test_a_singular_covariance_ties_vectors() -> None:
    """x_0 = 2 x_1 in every run, to rounding."""
    i = Plate("token", 2).index("i")
    x = simulate(Program("a", x=vector("x", i, cov=[[4, 2], [2, 1]])), width=3, runs=100, rng=0)["x"]
    assert np.abs(x[0] - 2 * x[1]).max() < 1e-12


def test_initial_vectors_of_another_law() -> None:
    """Signs, independent over members and coordinates. False alarm 1e-6; finds a mean or a correlation of 0.06."""
    i = Plate("token", 2).index("i")
    sign = Law("Rademacher", moment=lambda k: 1 - k % 2, quantile=lambda u: np.sign(u - 0.5))
    program = Program("a", x=vector("x", i, law=sign))
    x = simulate(program, width=2, runs=10_000, rng=0, outputs={"x": {"coordinates": 2}})["x"]
    assert set(np.unique(x)) == {-1, 1}
    zero = np.stack([*x[0].T, *x[1].T, x[0, :, 0] * x[1, :, 0], x[0, :, 0] * x[0, :, 1]])
    assert_within(average(zero), 0, replicates=BATCHES)


# ------------------------------------------------------------------------------------------------- no theorem, no memory


def test_a_program_outside_the_theorem_is_simulated_with_a_warning() -> None:
    """n^{-1/2} |Wx|² has mean √n at every width. False alarm 1e-6; finds 3%."""
    W, x = matrix("W"), vector("x")
    with pytest.warns(OutsideTheoremWarning, match="NS101"):
        p = simulated(dot(W @ x, W @ x), 16, 10_000)
    assert_within(average(p), 4, replicates=BATCHES)


def test_memory_does_not_grow_with_the_number_of_runs() -> None:
    """Eight times the runs take no more than the numbers that are returned: shards are held one at a time."""

    def peak(runs: int) -> int:
        tracemalloc.start()
        simulated(matrix("W") @ relu(vector("x")), 4096, runs)
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    peak(1)
    assert peak(8 * 512) < 1.1 * peak(512) + 2 * 8 * 8 * 512


@pytest.mark.parametrize("members", [1, 7])
@pytest.mark.parametrize("width", [1, 100, 10**7])
@pytest.mark.parametrize("runs", [1, 4097])
def test_shards_are_small_and_hold_all_runs(width: int, members: int, runs: int) -> None:
    """One run, or 16 MB of vectors: here x[i] and relu(x[i])."""
    x = vector("x", Plate("token", members).index("i"))
    most = Dense.cost_of(Moments(), [relu(x)], width, 1).shard
    sizes = {k: piece(runs, most, k) for k in range(pieces(runs, most))}
    assert list(sizes) == list(range(len(sizes)))
    assert sum(sizes.values()) == runs
    assert max(sizes.values()) == 1 or max(sizes.values()) * 8 * width * 2 * members <= 2**24


def test_a_run_that_does_not_fit_is_refused() -> None:
    W, x = matrix("W"), vector("x")
    with pytest.raises(Numerical, match="NS403"):
        simulated(W @ (W @ x), 10**6, 1)


def test_a_run_that_does_not_fit_is_left_to_another_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even where dense would be the least work."""
    x = vector("x")
    assert choose(Moments(), [x], 10, 1, 1).engine == "dense"
    monkeypatch.setattr("netsor.finite.engines.MEMORY", 1.0)
    assert choose(Moments(), [x], 10, 1, 1).engine != "dense"


# ----------------------------------------------------------------------------------------------------------------- mutants

Mutant = Callable[[pytest.MonkeyPatch], None]


def variance_over_base_width(patch: pytest.MonkeyPatch) -> None:
    """Entries of variance σ²/n where the matrix has another number of columns."""
    right = Copies.__matmul__

    def product(self: Copies, x: Named) -> Named:
        out = right(self, x)
        return Named(out.over, out.data * sqrt(self.record.columns.at(self.setting.width) / self.setting.width))

    patch.setattr(Copies, "__matmul__", product)


def fresh_matrices(patch: pytest.MonkeyPatch) -> None:
    """A matrix is drawn again for every product."""
    calls, stream = count(), shards.stream
    patch.setattr(shards, "stream", lambda seed, *names: stream(seed, *names, next(calls)))


def misaligned_rows(patch: pytest.MonkeyPatch) -> None:
    """Only the rows asked for are taken from the stream of a matrix that acts twice."""
    patch.setattr(Dense, "matrix", lambda self, record, term: Copies(self.setting, record, term.own, self.rows(term)))


def unnormalised_scores(patch: pytest.MonkeyPatch) -> None:
    """<g, h> without n^{-1/2}."""
    right = Dense.inner

    def inner(self: Dense, left: Term, second: Term, mask: Term | None = None) -> Named:
        value = right(self, left, second, mask)
        return Named(value.over, value.data * sqrt(self.setting.width))

    patch.setattr(Dense, "inner", inner)


@pytest.mark.parametrize(
    ("mutant", "test", "args"),
    [
        (variance_over_base_width, test_rectangular_matrices, ()),
        (fresh_matrices, test_a_matrix_is_one_matrix, ()),
        (fresh_matrices, test_rows_that_are_not_asked_for_change_nothing, ()),
        (misaligned_rows, test_rows_that_are_not_asked_for_change_nothing, ()),
        (unnormalised_scores, test_a_score_at_any_width, (2,)),
        (unnormalised_scores, test_a_conditional_law_is_that_of_the_draws, ("score of sums", 3)),
    ],
)
def test_a_mutant_is_caught(mutant: Mutant, test: Callable[..., None], args: tuple, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    assert_detects(test, *args)
