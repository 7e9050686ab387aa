"""Irreducible expectations: E of a product of nonlinear functions of jointly Gaussian vectors, given the scores.

The factors are functions of a few affine inputs; `numeric.integral` chooses a route for each entry. More than three inputs,
or operations along plates: quasi-Monte Carlo over coordinates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from netsor.algebra.known import NotCoordinatewise, factors_of, inputs_of, pieces_of
from netsor.infinite.contrasts import members_of
from netsor.infinite.coordinates import Coordinates
from netsor.infinite.laplace import by_laplace
from netsor.ir import Term
from netsor.numeric.integral import Integral, Part
from netsor.numeric.named import Named, combine, extent, union
from netsor.numeric.quadrature import Feature
from netsor.numeric.routes import TooLarge, doubted
from netsor.ops import Map

if TYPE_CHECKING:
    from netsor.infinite.values import LimitValues

POINTS = (256, 1024, 4096, 16384)  # coordinates of a quasi-Monte Carlo kernel by level


def kernel(at: LimitValues, leaf: Term) -> Named:
    """The value of an irreducible leaf over its letters and runs; moved away from the finer value, by its error, where `at`
    is to show what errors do to what is computed from it."""
    try:
        value, error = Leaf(at, leaf).value()
    except (NotCoordinatewise, TooLarge):
        pass
    else:
        at.errors[leaf.family.key] = error
        at.found[leaf] = value, error
        finer = at.finer.found.get(leaf) if at.finer is not None else None
        return value if finer is None else combine(away, value, *finer)
    found = by_members(at, leaf) or by_laplace(at, leaf)
    if found is None:
        return by_coordinates(at, leaf)
    value, at.errors[leaf.family.key] = found
    return value


def away(value: np.ndarray, finer: np.ndarray, error: np.ndarray) -> np.ndarray:
    error = doubted(value, finer, error)
    return value + np.where(value < finer, -error, error)


def by_members(at: LimitValues, leaf: Term) -> tuple[Named, Named] | None:
    """The leaf one combination of members after the other, where softmax over few of them is a function of contrasts."""
    members = members_of(leaf)
    if members is None:
        return None
    try:
        found = [Leaf(at, x).value() for x in members]
    except (NotCoordinatewise, TooLarge):
        return None
    sizes = [extent(i.plate) for i in leaf.free]
    value, error = (np.stack(np.broadcast_arrays(*(part.data for part in parts))) for parts in zip(*found, strict=True))
    spread = [Named(leaf.free, x.reshape(*sizes, *x.shape[1:])) for x in (value, error)]
    return spread[0], spread[1]


def parameters_of(at: LimitValues, x: Term) -> Iterator[Term]:
    """The scalars that enter x above its inputs."""
    if x.width is None:
        yield x
    elif not at.moments.affine(x):
        for a in x.args:
            yield from parameters_of(at, a)


class Leaf:
    """One leaf as an integral over its Gaussian inputs, on flat arrays: one entry for each letter value and run."""

    def __init__(self, at: LimitValues, leaf: Term) -> None:
        self.at = at
        factors = factors_of(at.moments, leaf)
        self.curved, self.plain, self.inputs = factors.curved, factors.plain, factors.inputs
        parameters = list(dict.fromkeys(s for x in self.curved for s in parameters_of(at, x)))
        gaussians = [*self.inputs, *self.plain]
        scalars = [at.value(s) for s in parameters]
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
        d = range(n)
        self.cov[d, d] = np.maximum(self.cov[d, d], 0.0)
        self.parameters = dict(zip(parameters, rest[len(covariances) :], strict=True))

    def value(self) -> tuple[Named, Named]:
        """The expectation, and the bound of its rounding error where it is closed."""
        inputs, n = len(self.inputs), self.mean.shape[1]
        parts = tuple(map(self.part, self.curved))
        features = tuple(tuple(self.features(k)) for k in range(inputs))
        result, error = self.at.routes(Integral(parts, inputs, self.mean, self.cov, features, np.arange(n)))
        return Named(self.over, self.spread(result)), Named(self.over, self.spread(error))

    def spread(self, flat: np.ndarray) -> np.ndarray:
        if self.back is not None:
            flat = flat[self.back.ravel()]
        full = flat.reshape(*self.shape)[..., None]
        return np.broadcast_to(full, (*(extent(i.plate) for i in self.over), *full.shape[-2:]))

    def part(self, x: Term) -> Part:
        """A factor as a function of the inputs, with its pieces where it is a known function of one of them."""
        places = {u: k for k, u in enumerate(self.inputs)}
        mine = tuple(dict.fromkeys(places[u] for u in inputs_of(self.at.moments, x)))

        def value(values: Mapping[int, np.ndarray], entries: np.ndarray) -> np.ndarray:
            known = {self.inputs[k]: v for k, v in values.items()}
            known |= {s: column[entries][:, None] for s, column in self.parameters.items()}
            return np.asarray(evaluate(x, known))

        return Part(mine, value, pieces_of(self.at.moments, x, self.inputs))

    # ---- where the factors are not smooth

    def features(self, k: int) -> Iterator[Feature]:
        """Where the functions applied to input k, alone or on top of others, are not smooth."""
        u = self.inputs[k]
        todo = [x for x in self.curved if u in set(inputs_of(self.at.moments, x))]
        for x in todo:
            if x in self.inputs or not isinstance(x.op, Map):
                continue
            todo += [a for a in x.args if a.width is not None]
            fn = x.op.fn
            if u in x.args:
                yield from (Feature(place, width) for place, width in fn.features)
                if not fn.features and not fn.pieces:
                    yield Feature(0.0)  # nothing is known of it: panels
            elif len(x.args) == 1 and set(inputs_of(self.at.moments, x)) == {u}:
                yield Feature(0.0)
                for place, width in fn.features:
                    yield from (Feature(at, width) for at in self.crossings(k, x.args[0], place))
            else:
                yield Feature(0.0)

    def crossings(self, k: int, inner: Term, place: float) -> list[np.ndarray]:
        """Where an inner function of input k takes a value, for every entry: sign changes on a grid, bisected."""
        m, s = self.mean[k][:, None], np.sqrt(self.cov[k, k])[:, None]
        fixed = {p: column[:, None] for p, column in self.parameters.items()}

        def above(z: np.ndarray) -> np.ndarray:
            with np.errstate(all="ignore"):
                values = evaluate(inner, {**fixed, self.inputs[k]: m + s * z})
            return np.broadcast_to(np.asarray(values) > place, z.shape)

        grid = np.broadcast_to(GRID, (len(m), GRID.size))
        signs = above(grid)
        changes = signs[:, 1:] != signs[:, :-1]
        found = []
        for j in range(int(changes.sum(1).max(initial=0))):
            here = changes & (changes.cumsum(1) == j + 1)
            at = here.argmax(1)
            low, high = GRID[at][:, None], GRID[at + 1][:, None]
            left = np.take_along_axis(signs, at[:, None], 1)
            for _ in range(BISECTIONS):
                middle = (low + high) / 2
                same = above(middle) == left
                low, high = np.where(same, middle, low), np.where(same, high, middle)
            found.append(np.where(here.any(1), (m + s * high)[:, 0], np.inf))
        return found


GRID = np.linspace(-13, 13, 1025) + 1 / 3072  # no round number is a node
BISECTIONS = 48


def evaluate(x: Term, values: Mapping[Term, np.ndarray]) -> Any:
    if x in values:
        return values[x]
    assert isinstance(x.op, Map)
    return x.op.fn.numpy(*(evaluate(a, values) for a in x.args))


def by_coordinates(at: LimitValues, leaf: Term) -> Named:
    """The average over coordinates of the limit, drawn by scrambled Sobol points."""
    at.routes.count("sampled", 1)
    points = POINTS[at.level]
    draw = Coordinates(at, leaf.args, at.kernel_normals(leaf, points))
    value = draw.value(leaf.args[0])
    for x in leaf.args[1:]:
        other = draw.value(x)
        over = union(value.over, other.over)
        value = Named(over, value.spread(over) * other.spread(over))
    return Named(value.over, value.data.mean(-1, keepdims=True))
