"""The law of one coordinate of a vector, or of one scalar, in the limit: atoms left affine are integrated out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from netsor import semantics
from netsor.algebra.affine import affine_sources, integrate
from netsor.algebra.forms import shared_with
from netsor.algebra.pivots import Pivots, is_score
from netsor.algebra.scores import score_covariance
from netsor.errors import Numerical
from netsor.infinite.coordinates import Coordinates
from netsor.infinite.engine import Engine, Sampling
from netsor.infinite.values import LimitValues
from netsor.ir import Term
from netsor.numeric.law import Law, Mixture, PointMass, Sampled

Pair = tuple[np.ndarray, np.ndarray]
ROUNDING = 1e-12  # of the largest value
SETTLED, TOLERATED = 1e-10, 1e-6  # relative changes under refinement


def law_of(engine: Engine, term: Term, sampling: Sampling) -> Law:
    """The law of a term without free letters: a mixture of N(m, V) over the runs where some Gaussian atom is affine."""
    moments = engine.moments
    if is_score(term) and not shared_with(moments, Pivots(moments), term):
        variance = score_covariance(moments, term, term)
        return mixture(engine, term.args[:2], sampling, lambda at: (0 * at.poly(variance).data, at.poly(variance).data))
    if term.width is None:
        return scalar_law(engine, term, sampling)
    if moments.affine(term):
        mean, second = moments.expect(term), moments.expect(term, term)

        def given_scores(at: LimitValues) -> Pair:
            m = at.poly(mean).data
            return m, at.poly(second).data - m * m

        return mixture(engine, [term], sampling, given_scores)
    return curved_law(engine, term, sampling)


def mixture(engine: Engine, roots: Sequence[Term], sampling: Sampling, given: Callable[[LimitValues], Pair]) -> Law:
    level = resolution(engine, roots, sampling, given)
    pieces = [given(at) for at, _ in engine.replicates(roots, sampling, level=level)]
    means, variances = (np.stack([np.broadcast_to(p[k], p[1].shape).ravel() for p in pieces]) for k in (0, 1))
    return as_law(means, variances)


def resolution(engine: Engine, roots: Sequence[Term], sampling: Sampling, given: Callable[[LimitValues], Pair]) -> int:
    """The coarsest quadrature whose refinement changes nothing that could be seen. Raises: NS401 when none is fine enough."""
    at, coarse = first(engine, roots, sampling, given, 0)
    if not at.integrated:
        return 1
    gap = np.inf
    for level in (1, 2):
        _, fine = first(engine, roots, sampling, given, level)
        scale = max(np.abs(fine[1]).max(), (fine[0] ** 2).max())
        gap = max(np.abs(c - f).max() for c, f in zip(coarse, fine, strict=True)) / (scale or 1.0)
        if gap <= SETTLED:
            return level - 1
        coarse = fine
    if gap > TOLERATED:
        raise Numerical(
            "NS401",
            statement="a quadrature of this law",
            hypothesis=f"refining it changes the variance by {gap:.1g} of its size",
            consequence="the number would have an error that is not shown",
            repair="give elementwise(f, kinks=..., jumps=...) the places where f is not smooth",
        )
    return 2


def first(
    engine: Engine, roots: Sequence[Term], sampling: Sampling, given: Callable[[LimitValues], Pair], level: int
) -> tuple[LimitValues, Pair]:
    at, _ = next(iter(engine.replicates(roots, sampling, level=level)))
    return at, given(at)


def as_law(means: np.ndarray, variances: np.ndarray) -> Law:
    """A mixture, its rounding below zero removed; a point mass when nothing is random."""
    variances = np.where(variances > 1e-13 * np.maximum(variances, means * means).max(initial=0.0), variances, 0.0)
    if not variances.any():
        if np.ptp(means) <= ROUNDING * np.abs(means).max(initial=0.0):
            return PointMass(float(means.mean()))
        return Sampled(means)
    return Mixture(means, variances)


def scalar_law(engine: Engine, term: Term, sampling: Sampling) -> Law:
    draws = np.stack([at.value(term).data.ravel() for at, _ in engine.replicates([term], sampling)])
    constant = np.ptp(draws) <= ROUNDING * np.abs(draws).max()
    return PointMass(float(draws.mean())) if constant or not engine.moments.scored(term) else Sampled(draws)


def curved_law(engine: Engine, term: Term, sampling: Sampling) -> Law:
    """A nonlinear variable: the sources that enter affinely are integrated out given draws of the other atoms."""
    moments = engine.moments
    poly = moments.expand(term)
    free = affine_sources(moments, poly)
    if not free:
        return Sampled(np.stack([at.value(term).data.ravel() for at in coordinates(engine, [term], sampling)]))
    mean, variance = integrate(moments, poly, free, lambda g, h: semantics.cumulant(g.op, (g, h), moments))
    atoms = [a for p in (mean, variance) for m in p for a in m.atoms]
    pieces = [
        np.broadcast_arrays(at.poly(mean).data, at.poly(variance).data) for at in coordinates(engine, atoms, sampling, [term])
    ]
    means, variances = (np.stack([p[k].ravel() for p in pieces]) for k in (0, 1))
    return as_law(means, variances)


def coordinates(
    engine: Engine, vectors: Sequence[Term], sampling: Sampling, roots: Sequence[Term] = ()
) -> Iterator[Coordinates]:
    for at, normals in engine.replicates(roots, sampling, coordinates=vectors):
        yield Coordinates(at, vectors, normals)
