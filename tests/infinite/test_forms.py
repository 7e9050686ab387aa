"""White forms against the fourth moment: every joint law of scores is computed on both routes, at given earlier scores."""

from collections.abc import Callable, Hashable, Sequence
from itertools import count

import numpy as np
import pytest
from calibrated import BATCHES, Deviates, assert_detects, assert_within, average
from hypothesis import given, note
from hypothesis import strategies as st

from netsor.algebra import forms
from netsor.algebra.moments import Moments
from netsor.algebra.pivots import Pivots
from netsor.algebra.poly import Poly
from netsor.functions import relu, softmax, sum_over, tanh
from netsor.infinite.forms import Form
from netsor.infinite.plan import ScorePlan, plan_scores
from netsor.infinite.values import LimitValues
from netsor.ir import Plate, Term, distinct
from netsor.loading import load
from netsor.numeric.joint import dense_covariance
from netsor.numeric.named import Named, count as size_of
from netsor.program import Program
from netsor.rules import dot, matrix, vector

ROUNDING = 1e-9  # roots and inverses of Gram matrices of size 1; what they drop as singular is below 1e-10
TOKEN = Plate("token", 2)
I, J = TOKEN.indices("i j")
X = vector("x", I, cov=[[1, 0.3], [0.3, 0.8]])


# ---------------------------------------------------------------------------------------------------------------- programs


def attend(x: Term, Q: str, K: str, V: str) -> tuple[Term, Term]:
    p = dot(matrix(Q) @ x, matrix(K) @ x[J])
    return p, sum_over(softmax(p, over=J) * (matrix(V) @ x[J]), J)


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
    return [p, dot(matrix("Q") @ X, y)]


def swapped() -> list[Term]:
    W, V = matrix("W"), matrix("V")
    return [dot(W @ X[0], V @ X[1]), dot(W @ X[1], V @ X[0])]


def diagonal() -> list[Term]:
    W, V = matrix("W"), matrix("V")
    return [dot(W @ X, V @ X), dot(W @ X, V @ X[J]), dot(V @ X, tanh(W @ X))]


def copies() -> list[Term]:
    a = Plate("head", 2).index("a")
    x = X + vector("position", I)
    p = dot(matrix("Q", a) @ x, matrix("K") @ x[J])
    y = sum_over(softmax(p, over=J) * (matrix("V", a) @ x[J]), J)
    return [p, dot(matrix("Q", a) @ (x + y), matrix("K") @ (x[J] + y[J]))]


def read_outs() -> list[Term]:
    """An initial vector is the pivot, and has a mean in one of the products."""
    v, W = vector("v", cov=0.5), matrix("W")
    f = dot(v, relu(W @ X))
    return [f, dot(v, tanh(f * (W @ X)) + X), dot(vector("u", mean=1), matrix("V") @ X)]


def biased() -> list[Term]:
    q, k = matrix("Q") @ X + vector("b", cov=0.1), matrix("K") @ X + vector("c", I)
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


def assert_close(x: np.ndarray, y: np.ndarray) -> None:
    gap = np.abs(x - y).max(initial=0.0)
    if not gap <= ROUNDING * max(1.0, np.abs(y).max(initial=0.0)):
        raise Deviates(f"off by {gap:.2g}")


def check_routes(terms: Sequence[Term], seed: int = 0) -> None:
    run = Run(terms, seed)
    for stage, scores in enumerate(run.plan.stages):
        C = run.by_forms(stage)
        assert_close(C, run.by_fourth_moments(stage))
        n = sum(size_of(p.free) for p in run.upto(stage - 1)) if stage else 0
        slope = C[n:, :n] @ np.linalg.pinv(C[:n, :n], rcond=1e-10, hermitian=True)
        seen = flat([run.known[p] for p in run.upto(stage - 1)], run.upto(stage - 1), 1)[:, 0] if stage else np.zeros(0)
        mean, rest = run.by_regression(stage)
        assert_close(mean, slope @ seen)
        assert_close(rest, C[n:, n:] - slope @ C[:n, n:])
        assert scores
