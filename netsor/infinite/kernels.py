"""Irreducible expectations: E of a product of nonlinear functions of jointly Gaussian vectors, given the scores.

The factors are functions of a few affine inputs U = (U_1, .., U_d); a factor that is itself affine is integrated out
given the inputs of the others. One input: quadrature on the line. Two: a closed form if the function has one, else
quadrature in the plane. More, or operations along plates: quasi-Monte Carlo over coordinates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from netsor.infinite.coordinates import Coordinates
from netsor.ir import Term
from netsor.numeric.linear import psd_pinv
from netsor.numeric.named import Named, extent, union
from netsor.numeric.quadrature import Feature, expect1, expect2, nodes1, nodes2
from netsor.ops import Map

if TYPE_CHECKING:
    from netsor.infinite.values import LimitValues

CHUNK = 2_000_000  # numbers in one array of quadrature nodes
LARGEST_PLANE = 4e8  # evaluations in the plane; beyond, quasi-Monte Carlo
POINTS = (256, 1024, 4096)  # coordinates of a quasi-Monte Carlo kernel by level


class NotByQuadrature(Exception):
    """The leaf is not a function of a few affine inputs."""


def kernel(at: LimitValues, leaf: Term) -> Named:
    """The value of an irreducible leaf over its letters and runs."""
    factors = leaf.args
    affine = [x for x in factors if at.moments.affine(x)]
    curved = [x for x in factors if not at.moments.affine(x)]
    try:
        inputs = list(dict.fromkeys(u for x in curved for u in inputs_of(at, x)))
        if len(inputs) > 2:
            raise NotByQuadrature
        return Quadrature(at, leaf, affine, curved, inputs).value()
    except NotByQuadrature:
        return by_coordinates(at, leaf)


def inputs_of(at: LimitValues, x: Term) -> Iterator[Term]:
    """The affine vectors of which x is a coordinatewise function."""
    if at.moments.affine(x):
        yield x
    elif isinstance(x.op, Map):
        for a in x.args:
            if a.width is not None:
                yield from inputs_of(at, a)
    else:
        raise NotByQuadrature


def parameters_of(at: LimitValues, x: Term) -> Iterator[Term]:
    """The scalars that enter x above its inputs."""
    if x.width is None:
        yield x
    elif not at.moments.affine(x):
        for a in x.args:
            yield from parameters_of(at, a)


class Quadrature:
    """One leaf as a function of one or two Gaussian inputs, on flat arrays: one entry for each letter value and run."""

    def __init__(self, at: LimitValues, leaf: Term, affine: list[Term], curved: list[Term], inputs: list[Term]) -> None:
        self.at, self.affine, self.curved, self.inputs = at, affine, curved, inputs
        self.parameters = list(dict.fromkeys(s for x in curved for s in parameters_of(at, x)))
        gaussians = [*inputs, *affine]
        scalars = [at.value(s) for s in self.parameters]
        means: list[Named] = []
        covariances: dict[tuple[int, int], Named] = {}
        for x, g in enumerate(gaussians):
            for y, h in enumerate(gaussians[: x + 1]):
                mean, _, covariances[x, y] = at.variable(g, h)
            means.append(mean)
        columns = [*means, *covariances.values(), *scalars]
        self.over = union(*(c.over for c in columns), leaf.free)
        spread = np.broadcast_arrays(*(c.spread(self.over)[..., 0] for c in columns))
        self.shape = spread[0].shape
        flat = np.stack([s.ravel() for s in spread])
        self.back: np.ndarray | None = None
        if flat.shape[1] > 1 and self.shape[-1] == 1:  # the same numbers for many members: integrate once
            flat, self.back = np.unique(flat, axis=1, return_inverse=True)
        n = len(gaussians)
        self.mean, rest = flat[:n], flat[n:]
        self.cov = np.empty((n, n, flat.shape[1]))
        for (x, y), column in zip(covariances, rest, strict=False):
            self.cov[x, y] = self.cov[y, x] = column
        self.scalars = rest[len(covariances) :]
        d = range(n)
        self.cov[d, d] = np.maximum(self.cov[d, d], 0.0)

    def value(self) -> Named:
        closed = self.closed_form()
        result = closed if closed is not None else self.integrate()
        if self.back is not None:
            result = result[self.back.ravel()]
        full = result.reshape(*self.shape)[..., None]
        return Named(self.over, np.broadcast_to(full, (*(extent(i.plate) for i in self.over), *full.shape[-2:])))

    def closed_form(self) -> np.ndarray | None:
        """E f(U) and E f(U) f(V) for an f with a dual, U and V centred."""
        functions = [x.op.fn for x in self.curved if isinstance(x.op, Map) and len(x.args) == 1 and x.args[0] in self.inputs]
        if self.affine or len(functions) != len(self.curved) or any(f.dual is None for f in functions):
            return None
        place = [self.inputs.index(x.args[0]) for x in self.curved]
        dual = functions[0].dual
        assert dual is not None
        if len(functions) == 1:
            result: np.ndarray = dual.mean(self.mean[0], self.cov[0, 0])
            return result
        if len(functions) > 2 or functions[0] != functions[1] or self.mean[place].any():
            return None
        x, y = place
        result = dual.pair(self.cov[x, x], self.cov[y, y], self.cov[x, y])
        return result

    def integrate(self) -> np.ndarray:
        self.at.integrated = True
        level = self.at.level
        total = self.mean.shape[1]
        features = [list(self.features(u)) for u in self.inputs]
        if len(self.inputs) == 1:
            nodes = nodes1(features[0], level, self.cov[0, 0])
        else:
            first, second = features
            nodes = nodes2(first, second, level, self.cov[0, 0], self.cov[1, 1], self.cov[0, 1])
            if nodes * total > LARGEST_PLANE:
                raise NotByQuadrature
        step = max(1, CHUNK // nodes)
        pieces = []
        for start in range(0, total, step):
            part = slice(start, start + step)
            m, c = self.mean[:, part], self.cov[..., part]
            f = self.integrand(m, c, self.scalars[:, part])
            if len(self.inputs) == 1:
                pieces.append(expect1(f, m[0], c[0, 0], features[0], level))
            else:
                pieces.append(expect2(f, m[0], m[1], c[0, 0], c[1, 1], c[0, 1], first, second, level))
        return np.concatenate(pieces)

    def integrand(self, m: np.ndarray, c: np.ndarray, scalars: np.ndarray) -> Callable[..., np.ndarray]:
        """The product of the curved factors times E[affine factors | inputs], as a function of the inputs."""
        d = len(self.inputs)
        given = np.moveaxis(c[:d, :d], -1, 0)
        slope = np.moveaxis(np.moveaxis(c[d:, :d], -1, 0) @ psd_pinv(given), 0, -1) if self.affine else None
        fixed = {s: scalars[k][:, None] for k, s in enumerate(self.parameters)}

        def f(*u: np.ndarray) -> np.ndarray:
            values = {**fixed, **dict(zip(self.inputs, u, strict=True))}
            out = np.ones(np.broadcast_shapes(*(x.shape for x in u)))
            for x in self.curved:
                out = out * evaluate(x, values)
            if slope is not None:
                shifts = [x - m[k][:, None] for k, x in enumerate(u)]
                mean = [
                    m[d + k][:, None] + sum(slope[k, q][:, None] * shifts[q] for q in range(d)) for k in range(len(self.affine))
                ]
                left = c[d:, d:] - np.einsum("kqz,qmz->kmz", slope, c[:d, d:])
                out = out * isserlis(mean, left[..., None])
            return out

        return f

    def features(self, u: Term) -> Iterator[Feature]:
        """Where the functions applied to this input are not smooth."""
        todo = list(self.curved)
        for x in todo:
            if isinstance(x.op, Map) and x not in self.inputs:
                todo += [a for a in x.args if a.width is not None]
                if u in x.args:
                    yield from (Feature(place, width) for place, width in x.op.fn.features)


def evaluate(x: Term, values: dict[Term, np.ndarray]) -> Any:
    if x in values:
        return values[x]
    assert isinstance(x.op, Map)
    return x.op.fn.numpy(*(evaluate(a, values) for a in x.args))


def isserlis(mean: Sequence[np.ndarray], cov: np.ndarray) -> np.ndarray:
    """E of a product of Gaussians with these means and covariances."""
    if not mean:
        return np.ones(())
    rest = range(1, len(mean))
    out: np.ndarray = mean[0] * isserlis(mean[1:], cov[1:, 1:])
    for k in rest:
        others = [j for j in rest if j != k]
        out = out + cov[0, k] * isserlis([mean[j] for j in others], cov[np.ix_(others, others)])
    return out


def by_coordinates(at: LimitValues, leaf: Term) -> Named:
    """The average over coordinates of the limit, drawn by scrambled Sobol points."""
    points = POINTS[at.level]
    draw = Coordinates(at, leaf.args, at.kernel_normals(leaf, points))
    value = draw.value(leaf.args[0])
    for x in leaf.args[1:]:
        other = draw.value(x)
        over = union(value.over, other.over)
        value = Named(over, value.spread(over) * other.spread(over))
    return Named(value.over, value.data.mean(-1, keepdims=True))
