"""The limit driven by the normals of width n."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from netsor.algebra.moments import Moments
from netsor.finite.laws import Batches, driven_batches
from netsor.infinite.plan import ScorePlan
from netsor.infinite.values import LimitValues
from netsor.ir import Term
from netsor.numeric.interpreter import Interpreter
from netsor.numeric.joint import Normals
from netsor.numeric.law import Mixture
from netsor.numeric.named import Named
from netsor.numeric.streams import Rng, seed_of

FINEST = 2  # level of quadratures


def coupled_limit(term: Term, *, width: int, runs: int, rng: Rng) -> Mixture | None:
    """The law in the limit, replicate by replicate driven by the normals of `finite_law` in the collapsed engine.

    None where the law is no mixture, where coordinates of vectors that pass a nonlinearity are asked for, or where the
    limit has expectations that are averages themselves.
    """
    batches, seed = coupled_batches(term, width, runs), seed_of(rng)
    if batches is None:
        return None
    try:
        law = batches.law([batches.draw(seed, k) for k in range(batches.count)])
    except Sampled:
        return None
    return law if isinstance(law, Mixture) else None


def coupled_batches(term: Term, width: int, runs: int) -> Batches | None:
    """The draws of `coupled_limit`, batch by batch; drawing raises Sampled where there is no such law."""
    return driven_batches(term, width, runs, GivenScores)


class Sampled(Exception):
    """An expectation of the limit is an average over sampled coordinates."""


class GivenScores(LimitValues):
    """The limit given scores that another interpreter draws.  Raises: Sampled."""

    def __init__(self, moments: Moments, scores: Interpreter) -> None:
        super().__init__(moments, ScorePlan([], None), self.sampled_normals, FINEST, (np.random.SeedSequence(0), 0))
        self.scores = scores

    def score(self, term: Term) -> Named:
        return self.scores.value(term)

    def kernel_normals(self, leaf: Term, points: int) -> Normals:
        raise Sampled

    @staticmethod
    def sampled_normals(key: Hashable, count: int) -> np.ndarray:
        raise Sampled
