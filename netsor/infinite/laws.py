"""The law of one coordinate of a vector, or of one scalar, in the limit: atoms left affine are integrated out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from netsor import semantics
from netsor.algebra.affine import affine_sources, integrate
from netsor.algebra.forms import shared_with
from netsor.algebra.pivots import Pivots, is_score
from netsor.algebra.poly import Poly
from netsor.algebra.scores import score_covariance
from netsor.errors import Numerical
from netsor.infinite.coordinates import Coordinates
from netsor.infinite.engine import Engine, Sampling
from netsor.infinite.values import LimitValues
from netsor.ir import Term
from netsor.numeric.interpreter import Interpreter
from netsor.numeric.law import Law, Mixture, PointMass, Sampled

Given = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Mean and variance given the scores, and the sum of the absolute values of what is added up to the variance."""

ROUNDING = 1e-12  # of the largest value
NOTHING = 1e-13  # of what is added up: a variance that has cancelled
SETTLED, TOLERATED = 1e-10, 1e-6  # relative changes under refinement


def law_of(engine: Engine, term: Term, sampling: Sampling) -> Law:
    """The law of a term without free letters: a mixture of N(m, V) over the runs where some Gaussian atom is affine."""
    moments = engine.moments
    if is_score(term) and not shared_with(moments, Pivots(moments), term):
        variance = score_covariance(moments, term, term)
        return mixture(engine, term.args[:2], sampling, lambda at: given(at, Poly(), variance))
    if term.width is None:
        return scalar_law(engine, term, sampling)
    if moments.affine(term):
        mean, variance = moments.expect(term), moments.covariance(term, term)
        return mixture(engine, [term], sampling, lambda at: given(at, mean, variance))
    return curved_law(engine, term, sampling)


def given(at: Interpreter, mean: Poly, variance: Poly) -> Given:
    m, v, size = (x.data for x in (at.poly(mean), at.poly(variance), at.magnitude(variance)))
    m, v, size = np.broadcast_arrays(m, v, size)
    return m, v, size


def mixture(engine: Engine, roots: Sequence[Term], sampling: Sampling, value: Callable[[LimitValues], Given]) -> Law:
    level = resolution(engine, roots, sampling, value)
    return of_replicates([value(at) for at, _ in engine.replicates(roots, sampling, level=level)])


def resolution(engine: Engine, roots: Sequence[Term], sampling: Sampling, value: Callable[[LimitValues], Given]) -> int:
    """The coarsest quadrature whose refinement changes nothing that could be seen. Raises: NS401 when none is fine enough."""
    at, coarse = first(engine, roots, sampling, value, 0)
    if not at.integrated:
        return 1
    gap = np.inf
    for level in (1, 2):
        at, fine = first(engine, roots, sampling, value, level)
        variance = fine[2].max()
        scales = (np.abs(fine[0]).max() + np.sqrt(variance), variance)
        gap = max(np.abs(c - f).max() / (scale or 1.0) for c, f, scale in zip(coarse, fine, scales, strict=False))
        if gap <= SETTLED:
            return level - 1
        coarse = fine
    if gap > TOLERATED:
        raise Numerical(
            "NS401",
            statement="a quadrature of this law",
            hypothesis=f"refining it changes the mean or the variance by {gap:.1g} of its size",
            consequence="the number would have an error that is not shown",
            repair="give elementwise(f, kinks=..., jumps=...) the places where f is not smooth",
        )
    return 2


def first(
    engine: Engine, roots: Sequence[Term], sampling: Sampling, value: Callable[[LimitValues], Given], level: int
) -> tuple[LimitValues, Given]:
    at, _ = next(iter(engine.replicates(roots, sampling, level=level)))
    return at, value(at)


def of_replicates(pieces: Sequence[Given]) -> Law:
    """The law of all, a variance that has cancelled set to 0."""
    means, variances, sizes = (np.stack(parts).reshape(len(pieces), -1) for parts in zip(*pieces, strict=True))
    return as_law(means, np.where(variances > NOTHING * sizes, variances, 0.0))


def as_law(means: np.ndarray, variances: np.ndarray) -> Law:
    """A mixture over replicates; a point mass when nothing is random."""
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
    return of_replicates([given(at, mean, variance) for at in coordinates(engine, atoms, sampling, [term])])


def coordinates(
    engine: Engine, vectors: Sequence[Term], sampling: Sampling, roots: Sequence[Term] = ()
) -> Iterator[Coordinates]:
    for at, normals in engine.replicates(roots, sampling, coordinates=vectors):
        yield Coordinates(at, vectors, normals)
