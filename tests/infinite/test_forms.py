"""White forms against the fourth moment: every joint law of scores is computed on both routes, at given earlier scores."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from calibrated import BATCHES, Deviates, assert_detects, assert_within, average
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from mutants import pivots_score_by_score

from netsor.algebra import forms
from netsor.algebra.moments import Moments
from netsor.algebra.pivots import Pivots
from netsor.functions import relu, softmax, sum_over, tanh
from netsor.infinite.plan import ScorePlan, plan_scores
from netsor.infinite.values import LimitValues
from netsor.ir import Plate, Term, distinct
from netsor.ir import make as make_term
from netsor.loading import load
from netsor.numeric.estimate import Estimate
from netsor.numeric.joint import dense_covariance
from netsor.numeric.named import Named
from netsor.numeric.named import count as size_of
from netsor.program import Program
from netsor.rules import dot, matrix, vector
from netsor.rules.matmul import Matrix

CUT = 1e-11  # part of the trace below which an eigenvalue counts as a rounding error of 0
ROUNDING = 1e-9  # of a covariance: 1e-15 / sqrt(CUT) for what is kept, CUT for what is not, times dimensions
TOKEN = Plate("token", 2)
I, J = TOKEN.indices("i j")
X = vector("x", I, cov=[[1, 0.3], [0.3, 0.8]])


# ---------------------------------------------------------------------------------------------------------------- programs


@cache
def W(name: str) -> Matrix:
    """One matrix for one name."""
    return matrix(name)


def attend(x: Term, Q: str, K: str, V: str) -> tuple[Term, Term]:
    p = dot(W(Q) @ x, W(K) @ x[J])
    return p, sum_over(softmax(p, over=J) * (W(V) @ x[J]), J)


def fresh() -> list[Term]:
    p1, y = attend(X, "Q1", "K1", "V1")
    return [p1, attend(relu(y), "Q2", "K2", "V2")[0]]


def shared() -> list[Term]:
    p1, y = attend(X, "Q", "K", "V1")
    p2, z = attend(X + y, "Q", "K", "V2")
    return [p1, p2, attend(X + y + z, "Q", "K", "V3")[0]]


def one_query() -> list[Term]:
    """Only W^Q is shared, and a perceptron lies between."""
    p1, y = attend(X, "Q", "K1", "V1")
    return [p1, attend(relu(X + y), "Q", "K2", "V2")[0]]


def exchanged() -> list[Term]:
    """The second layer takes the matrices of the first in the other roles."""
    p1, y = attend(X, "Q", "K", "V1")
    return [p1, attend(X + y, "K", "Q", "V2")[0]]


def values_are_keys() -> list[Term]:
    """p2_i = Σ_j A_ij p_ij is a function of p: nothing is left to draw."""
    p, y = attend(X, "Q", "K", "K")
    return [p, dot(W("Q") @ X, y)]


def swapped() -> list[Term]:
    U, V = W("U"), W("V")
    return [dot(U @ X[0], V @ X[1]), dot(V @ X[0], U @ X[1])]


def diagonal() -> list[Term]:
    U, V = W("U"), W("V")
    return [dot(U @ X, V @ X), dot(U @ X, V @ X[J]), dot(V @ X, tanh(U @ X))]


def copies() -> list[Term]:
    a = Plate("head", 2).index("a")
    x = X + vector("position", I)
    Q, K = matrix("Q", a), matrix("K")
    p = dot(Q @ x, K @ x[J])
    y = sum_over(softmax(p, over=J) * (matrix("V", a) @ x[J]), J)
    return [p, dot(Q @ (x + y), K @ (x[J] + y[J]))]


def read_outs() -> list[Term]:
    """An initial vector is the pivot, and has a mean in one of the products."""
    v, g = vector("v", cov=0.5), W("U") @ X
    f = dot(v, relu(g))
    return [f, dot(v, tanh(g) + f * X), dot(vector("u", mean=1), W("V") @ X)]


def biased() -> list[Term]:
    q, k = W("Q") @ X + vector("b", cov=0.1), W("K") @ X + vector("c", I)
    p = dot(q, k[J])
    y = sum_over(softmax(p, over=J) * k[J], J)
    return [p, dot(q, y)]


PROGRAMS: list[Callable[[], list[Term]]] = [
    fresh, shared, one_query, exchanged, values_are_keys, swapped, diagonal, copies, read_outs, biased,
]  # fmt: skip


# --------------------------------------------------------------------------------------------------------------- two routes


class Run:
    """One run of the scores below some terms, and the law of each stage given the stages before it, on both routes."""

    def __init__(self, terms: Sequence[Term], seed: int = 0) -> None:
        self.moments = Moments()
        self.plan = plan_scores(self.moments, terms)
        assert self.plan.forms is not None
        start = dict(zip(self.plan.sizes, np.cumsum([0, *self.plan.sizes.values()]), strict=False))
        z = np.random.default_rng(seed).standard_normal(sum(self.plan.sizes.values()))
        self.start, self.dimensions = start, len(z)
        self.known = self.drawn(self.values(self.plan, lambda key, n: z[start[key] : start[key] + n, None, None]))

    def values(self, plan: ScorePlan, normals: Callable[[Hashable, int], np.ndarray], stage: int = 0) -> LimitValues:
        """Values in which the stages before this one are those of the run."""
        at = LimitValues(self.moments, plan, normals, 1, (np.random.SeedSequence(0), 0))
        for earlier in plan.stages[:stage]:
            at._scores |= {p.family.key: (p, self.known[p]) for p in earlier}
        at._todo = [list(s) for s in plan.stages[stage:]]
        return at

    def drawn(self, at: LimitValues) -> dict[Term, Named]:
        return {p: at.score(p) for stage in self.plan.stages for p in stage}

    def upto(self, stage: int) -> list[Term]:
        return [p for s in self.plan.stages[: stage + 1] for p in s]

    def by_forms(self, stage: int) -> np.ndarray:
        """The covariance of all scores up to a stage, given those before it: unit noise is put in, one number at a time."""
        unit = np.eye(self.dimensions)[..., None]
        at = self.values(self.plan, lambda key, n: unit[self.start[key] : self.start[key] + n], stage)
        M = flat([at.poly(self.plan.forms[p.family.key], p.free) for p in self.upto(stage)], self.upto(stage), self.dimensions)
        return M @ M.T

    def by_fourth_moments(self, stage: int) -> np.ndarray:
        at = self.values(self.plan, nothing, stage)
        return dense_covariance(at, self.upto(stage), at.score_covariance)[0]

    def by_regression(self, stage: int) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of a stage given those before it, as the other route draws it: noise 0, then unit noise."""
        scores = self.plan.stages[stage]
        sizes: dict[Hashable, int] = {p.family.order: size_of(p.free) for p in scores}
        d = sum(sizes.values())
        unit = np.hstack([np.zeros((d, 1)), np.eye(d)])[..., None]
        start = dict(zip(sizes, np.cumsum([0, *sizes.values()]), strict=False))
        plan = ScorePlan(self.plan.stages, None, {}, sizes)
        at = self.values(plan, lambda key, n: unit[start[key] : start[key] + n], stage)
        x = flat([at.score(p) for p in scores], scores, d + 1)
        root = x[:, 1:] - x[:, :1]
        return x[:, 0], root @ root.T


def nothing(key: Hashable, n: int) -> np.ndarray:
    raise AssertionError("the covariance given the scores draws nothing")


def flat(values: Sequence[Named], scores: Sequence[Term], runs: int) -> np.ndarray:
    """(members of all scores, runs)."""
    return np.concatenate(
        [np.broadcast_to(v.full(p.free)[..., 0], (*v.full(p.free).shape[:-2], runs)).reshape(-1, runs)
         for v, p in zip(values, scores, strict=True)]
    )  # fmt: skip


def assert_close(x: np.ndarray, y: np.ndarray, rounding: float = ROUNDING) -> None:
    gap = np.abs(x - y).max(initial=0.0)
    if not gap <= rounding * max(1.0, np.abs(y).max(initial=0.0)):
        raise Deviates(f"off by {gap:.2g}, allowed {rounding:.2g}")


def regression(C: np.ndarray, n: int) -> tuple[np.ndarray, float]:
    """The slope of the rest on the first n numbers, and how much of it rounding takes: 1e-14 over the smallest eigenvalue."""
    if n == 0:
        return np.zeros((len(C), 0)), ROUNDING
    values, vectors = np.linalg.eigh(C[:n, :n])
    kept = values > CUT * values.sum()
    slope = C[n:, :n] @ (vectors[:, kept] / values[kept]) @ vectors[:, kept].T
    return slope, max(ROUNDING, 1e-14 * values.sum() / values[kept].min())


def check_routes(terms: Sequence[Term], seed: int = 0) -> None:
    run = Run(terms, seed)
    for stage in range(len(run.plan.stages)):
        C = run.by_forms(stage)
        assert_close(C, run.by_fourth_moments(stage))
        before = run.upto(stage - 1)
        seen = flat([run.known[p] for p in before], before, 1)[:, 0] if before else np.zeros(0)
        n = len(seen)
        slope, rounding = regression(C, n)
        mean, rest = run.by_regression(stage)
        assert_close(mean, slope @ seen, rounding)
        assert_close(rest, C[n:, n:] - slope @ C[:n, n:], rounding)


# --------------------------------------------------------------------------------------------------------------- agreement


@pytest.mark.parametrize("make", PROGRAMS)
def test_white_forms_have_the_law_of_the_regression(make: Callable[[], list[Term]]) -> None:
    """Given the earlier scores of a run, both routes give every stage one mean and one covariance."""
    for seed in range(3):
        check_routes(make(), seed)


NEXT: dict[str, Callable[[Term, Term], Term]] = {
    "y": lambda x, y: y,
    "x + y": lambda x, y: x + y,
    "x - y/2": lambda x, y: x - 0.5 * y,
    "relu(y)": lambda x, y: relu(y),
    "relu(x + y)": lambda x, y: relu(x + y),
}
LAYER = st.tuples(st.sampled_from(["QK", "KQ", "QL", "RK"]), st.sampled_from("VUK"), st.sampled_from(list(NEXT)))


@settings(max_examples=settings.default.max_examples // 4)
@given(st.lists(LAYER, min_size=2, max_size=3), st.integers(0, 2**16))
@example([("QK", "K", "x + y"), ("QK", "K", "y"), ("QK", "V", "y")], 0)  # p3 and p1 are correlated given p2 only
def test_random_deep_programs_with_shared_matrices(layers: list[tuple[str, str, str]], seed: int) -> None:
    """At every stage the law that regression on the earlier scores gives: in particular finite (a nan equals nothing).

    A layer is (its query and key matrices, its value matrix, what becomes of its input x and output y).
    """
    x, scores = X, []
    for (Q, K), V, then in layers:
        p, y = attend(x, Q, K, V)
        scores.append(p)
        x = NEXT[then](x, y)
    program = Program("random", **{f"p{k}": p for k, p in enumerate(scores)})
    assume(all(d.severity != "refused" for d in program.check()))
    assume(Pivots(Moments()).order(scores) is not None)
    check_routes(scores, seed)


def independent_stages(patch: pytest.MonkeyPatch) -> None:
    """Every family of white forms has noise of its own."""
    right = forms.white

    def white(source: bytes, atom: Term, x: Term, y: Term) -> Term:
        form, own = right(source, atom, x, y), x.family.key + y.family.key
        op = replace(form.op, source=source + own, name=form.op.name + own.hex())
        return make_term(op, form.own, form.args)

    patch.setattr(forms, "white", white)


@pytest.mark.parametrize(
    ("mutant", "make"),
    [
        (pivots_score_by_score, swapped),
        (pivots_score_by_score, shared),
        (independent_stages, shared),
        (independent_stages, copies),
    ],
)
def test_a_mutant_is_caught(
    mutant: Callable[[pytest.MonkeyPatch], None], make: Callable[[], list[Term]], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    assert_detects(check_routes, make())


# ----------------------------------------------------------------------------------------------------------------- numbers


def check_universal_transformer(runs: int, product_error: float, overlap_error: float) -> None:
    L = load("universal_transformer", {}).limit()
    product, overlap = L.covariance("p1", "p2", runs=runs)[0, 0, 0, 0], L.mean("overlap", runs=runs)[0]
    assert product.error <= product_error
    assert overlap.error <= overlap_error
    assert_within(product, 1)
    assert_within(overlap, Estimate(0.45993, 5e-6))


def test_layers_that_share_their_queries_and_keys() -> None:
    """E p1 p2 = 1 and Σ_j E A1 A2 = 0.45993; independent layers have 0 and 1/3.

    False alarm 1e-6 each; finds 0.02 and 0.005, of errors 0.0017 and 0.0005.
    """
    check_universal_transformer(2**14, 4e-3, 1e-3)


@pytest.mark.nightly
def test_layers_that_share_their_queries_and_keys_in_many_runs() -> None:
    """The same with a third of the errors or less."""
    check_universal_transformer(2**18, 2e-3, 5e-4)


def test_values_that_are_keys_leave_nothing_to_draw() -> None:
    i, j = Plate("token", 4).indices("i j")
    Q, K, x = matrix("Q"), matrix("K"), vector("x", i)
    p = dot(Q @ x, K @ x[j])
    A = softmax(p, over=j)
    P = Program("tied", p=p, p2=dot(Q @ x, sum_over(A * (K @ x[j]), j)), Ap=sum_over(A * p, j))
    D = P.limit().sample(1000, names=["p2", "Ap"], rng=0)
    assert np.abs(D["p2"] - D["Ap"]).max() <= 1e-12
    assert D["p2"].std() > 0.1


def test_a_cycle_of_pivots_is_extrapolated() -> None:
    """relu(W2 z) . W1 z and relu(W1 z) . W2 z: each is proved; they share no pivot, and the fourth moment is 1/4.

    False alarm 1e-6 each; 40,000 draws find 0.02.
    """
    W1, W2, z = matrix("W1"), matrix("W2"), vector("z")
    p, q = dot(relu(W2 @ z), W1 @ z), dot(relu(W1 @ z), W2 @ z)
    L = Program("cycle", p=p, q=q, both=p + q).limit()
    assert [L[name].status.level for name in L] == ["proved", "proved", "extrapolated"]
    assert_within(L.covariance("p", "q").item(), 0.25)
    D = L.sample(40_000, names=["p", "q"], rng=0)
    assert_within(average(D["p"] * D["q"]), 0.25, replicates=BATCHES)


def test_a_score_of_distinct_copies_is_symmetric_in_every_draw() -> None:
    """And uncorrelated with variance 1 above the diagonal: false alarm 1e-6, finds 0.06."""
    i, j = Plate("copy", 3).indices("i j")
    W, x = matrix("W", i), vector("x")
    L = Program("copies", p=dot(W @ x, W[j] @ x, where=distinct(i, j))).limit()
    p = L.sample(20_000, rng=0)["p"]
    assert np.abs(p - p.transpose(1, 0, 2)).max() <= 1e-12
    upper = p[np.triu_indices(3, 1)]
    assert_within(average(upper[:, None] * upper), np.eye(3), replicates=BATCHES)
