"""The law of one coordinate at width n: the last Gaussian source is integrated out, the rest is drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from netsor import semantics
from netsor.algebra.affine import integrate, last_sources
from netsor.algebra.moments import Moments
from netsor.algebra.pivots import is_score
from netsor.algebra.poly import ONE, Mono, Poly, bind, same, scalar
from netsor.finite.collapsed import Collapsed
from netsor.finite.engines import Choice, choose
from netsor.finite.rooms import Plan
from netsor.finite.shards import Setting
from netsor.ir import Term, apply, make, postorder
from netsor.numeric.draws import checked_count
from netsor.numeric.interpreter import Interpreter
from netsor.numeric.law import Law, Mixture, PointMass, Sampled
from netsor.numeric.streams import Rng, seed_of
from netsor.ops import MUL, Op
from netsor.rules.input import Input
from netsor.rules.matmul import MatMul, Sigma2
from netsor.rules.mean import mean

BATCHES = 16


def finite_law(
    term: Term,
    *,
    width: int,
    runs: int,
    rng: Rng,
    engine: str | None = None,
    fast: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Law:
    """The law of coordinate 0 of a vector, or of a scalar, without free letters, from `runs` exact runs at width n.

    A variable affine in a source that nothing else depends on is Gaussian given the rest, exactly: its law is a mixture
    with one N(m, V) a run. Otherwise the law is that of the draws. Replicates are batches of runs; what does not fill the
    last batch is not drawn. The engine is the cheapest one for m and V, unless one is asked for.
    """
    checked_count("width", width)
    checked_count("runs", runs, 2)
    batches, seed = finite_batches(term, width, runs, engine, fast), seed_of(rng)
    return batches.law([batches.draw(seed, k, progress) for k in range(batches.count)])


def finite_batches(term: Term, width: int, runs: int, engine: str | None, fast: bool) -> Batches:
    """The draws of `finite_law`, batch by batch."""
    conditioned = Conditioned.of(term)
    return Batches(conditioned, conditioned.choice(width, max(1, runs // BATCHES), engine, fast), width, runs)


def driven_batches(term: Term, width: int, runs: int, limit: Callable[[Moments, Interpreter], Interpreter]) -> Batches | None:
    """The law at a width 2^30 times as large, replicate by replicate driven by the normals of `finite_law` in the collapsed
    engine: the limit to nine digits. None where the law is no mixture, or where coordinates of vectors that pass a
    nonlinearity are asked for.

    In the streams of frame vectors normals come before chi variates, so a frame of another dimension leaves them in place.
    Inner products of vectors that pass a nonlinearity are those of the limit given the scores so far: `limit` makes an
    interpreter of polynomials in the limit from the moments and from an interpreter of scores.
    """
    conditioned, wide = Conditioned.of(term), width * 2**30
    plan = Plan(conditioned.moments, conditioned.roots, wide, 1)
    if not conditioned.integrated or not Plan(conditioned.moments, conditioned.roots, width, 1).reducible:
        return None

    def build(setting: Setting) -> Interpreter:
        at = Collapsed(plan, setting, size)
        at.limit = limit(conditioned.moments, at)
        return at

    size = max(1, runs // BATCHES)
    return Batches(conditioned, replace(conditioned.choice(width, size, "collapsed"), build=build), wide, runs)


def nanoseconds(term: Term, width: int) -> float:
    """What a run of `finite_law` costs, by the cost model."""
    return Conditioned.of(term).choice(width, 4096, None).cost.nanoseconds


def engine_of(term: Term, width: int, runs: int) -> str:
    """The engine of `finite_law`."""
    return Conditioned.of(term).choice(width, max(1, runs // BATCHES), None).engine


@dataclass(frozen=True, slots=True)
class Conditioned:
    """Mean and variance of a number given everything but the last Gaussian sources (`integrated`: are there any?)."""

    moments: Moments
    mean: Poly
    variance: Poly
    integrated: bool

    @classmethod
    def of(cls, term: Term) -> Conditioned:
        moments = Moments()
        given = conditional(moments, term)
        mean, variance = given or (scalar_or_atom(term), Poly())
        return cls(moments, mean, variance, given is not None)

    def choice(self, width: int, runs: int, engine: str | None, fast: bool = False) -> Choice:
        return choose(self.moments, self.roots, width, runs, 1, engine, fast)

    @property
    def roots(self) -> list[Term]:
        return [t for p in (self.mean, self.variance) for m in p for t in (*m.scalars, *m.atoms)]

    def values(
        self, shards: Iterator[tuple[int, Interpreter]], progress: Callable[[int], None] | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances, one a run."""
        parts: list[list[np.ndarray]] = []
        for count, at in shards:
            values = [at.poly(p).data[..., 0] for p in (self.mean, self.variance)]
            parts.append([np.broadcast_to(v, (1, count))[0] for v in values])
            if progress is not None:
                progress(count)
        return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])


@dataclass(frozen=True, slots=True)
class Batches:
    """The runs of a law in equal batches, which can be drawn in any order."""

    conditioned: Conditioned
    choice: Choice
    width: int
    runs: int

    @property
    def count(self) -> int:
        return min(BATCHES, self.runs)

    @property
    def size(self) -> int:
        """Runs of a batch."""
        return max(1, self.runs // BATCHES)

    def draw(
        self, seed: np.random.SeedSequence, k: int, progress: Callable[[int], None] | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances of batch k, from shards of its own."""
        return self.conditioned.values(self.choice.shards(self.width, self.size, seed, k * 2**20), progress)

    def law(self, pieces: Sequence[tuple[np.ndarray, np.ndarray]]) -> Law:
        """The law of all batches, in order."""
        means = np.stack([m for m, _ in pieces])
        if not self.conditioned.integrated:
            return Sampled(means) if np.ptp(means) > 0 else PointMass(float(means.flat[0]))
        variances = np.stack([v for _, v in pieces])
        return Mixture(means, variances) if variances.any() else Sampled(means)


def scalar_or_atom(term: Term) -> Poly:
    return scalar(term) if term.width is None else Poly((Mono(1, (), (), (term,)),))


def conditional(moments: Moments, term: Term) -> tuple[Poly, Poly] | None:
    """Mean and variance given everything but the last Gaussian sources, in the values at width n; None if there is none."""
    if is_score(term):
        return conditional_score(moments, term)
    if term.width is None:
        return None
    poly = moments.expand(term)
    free = last_sources(moments, poly)
    return integrate(moments, poly, free, lambda g, h: second(moments, g, h)) if free else None


def second(moments: Moments, g: Term, h: Term) -> Poly:
    """Covariance of a coordinate of W x and W' y given the vectors: sigma^2 n^{-1} <x, y>."""
    if not isinstance(g.op, MatMul):
        return semantics.cumulant(g.op, (g, h), moments)
    return matrix_factor(g, h) * scalar(mean(apply(MUL, g.args[0], h.args[0])))


def matrix_factor(g: Term, h: Term) -> Poly:
    assert isinstance(g.op, MatMul)
    return scalar(make(Sigma2(g.op.matrix))) * same(g.own, h.own)


def conditional_score(moments: Moments, score: Term) -> tuple[Poly, Poly] | None:
    """n^{-1/2} <l, W r> given l and r is N(0, sigma^2 (n^{-1}|l|^2) (n^{-1}|r|^2)), if nothing else depends on W; likewise
    n^{-1/2} <v, r> with a centred initial vector v is N(0, Var(v) n^{-1}|r|^2)."""
    left, right, *_ = score.args
    product = moments.expand(left) * moments.expand(right)
    for pivot in dict.fromkeys(a.op for m in product for a in m.atoms if may_be_last(a.op)):
        source = semantics.source(pivot)
        parts = [(m, [a for a in m.atoms if semantics.source(a.op) == source]) for m in product]
        if any(len(mine) != 1 for _, mine in parts):
            continue
        others = [t for m, (g,) in parts for t in (*m.scalars, *g.args, *(a for a in m.atoms if a is not g))]
        if source in {semantics.source(f.op) for f in postorder(*others)}:
            continue
        variance = Poly()
        for m, (g,) in parts:
            for n, (h,) in parts:
                q = Mono(n.number, n.bound, n.scalars, (*(a for a in n.atoms if a is not h), h))
                q = q.apart([*m.bound, *m.letters])
                rest = [a for a in m.atoms if a is not g]
                coefficient = Poly((Mono(m.number * q.number, (), (*m.scalars, *q.scalars)),))
                forms = inner(rest, list(q.atoms[:-1])) * second(moments, g, q.atoms[-1])
                variance = variance + bind(coefficient * forms, (*m.bound, *q.bound))
        return Poly(), variance
    return None


def may_be_last(op: Op) -> bool:
    """Can a score be Gaussian given everything but this source?"""
    return isinstance(op, MatMul) or (isinstance(op, Input) and op.law is None and op.mean == 0)


def inner(left: list[Term], right: list[Term]) -> Poly:
    """n^{-1} <product of left, product of right>."""
    factors = [*left, *right]
    if not factors:
        return ONE
    term = factors[0]
    for f in factors[1:]:
        term = apply(MUL, term, f)
    return scalar(mean(term))
