"""Integrals over jointly Gaussian variables, and their integrands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from netsor.numeric.linear import isserlis, psd_pinv, units
from netsor.numeric.quadrature import Feature
from netsor.ops import Piece

Array = NDArray[np.float64]
Entries = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Part:
    """One factor: f maps values of its variables, and the entries they belong to, to its own values."""

    variables: tuple[int, ...]
    value: Callable[[Mapping[int, Array], Entries], Array]
    pieces: tuple[Piece, ...] = ()


@dataclass(frozen=True, slots=True)
class Integral:
    """E[prod of parts * prod of plain variables]: variables 0 .. inputs - 1 are under the parts, the others are plain.

    Shapes: mean (d, n), cov (d, d, n); `entries` says which of the entries of the parts' arrays these are.
    """

    parts: tuple[Part, ...]
    inputs: int
    mean: Array
    cov: Array
    features: tuple[tuple[Feature, ...], ...]
    entries: Entries

    def at(self, chosen: Entries) -> Integral:
        features = tuple(tuple(narrowed(f, chosen) for f in fs) for fs in self.features)
        return replace(
            self, mean=self.mean[:, chosen], cov=self.cov[..., chosen], features=features, entries=self.entries[chosen]
        )


def narrowed(feature: Feature, chosen: Entries) -> Feature:
    return Feature(np.asarray(feature.at)[chosen], feature.width) if np.ndim(feature.at) else feature


def given_first(p: Part, u: Array, entries: Entries) -> Part:
    """A factor with the first variable fixed at u, one entry for each node."""

    def value(values: Mapping[int, Array], chosen: Entries) -> Array:
        at = {k + 1: v for k, v in values.items()} | {0: u[chosen][:, None]}
        return p.value(at, np.broadcast_to(entries, u.shape)[chosen])

    return Part(tuple(k - 1 for k in p.variables if k), value, p.pieces if 0 not in p.variables else ())


def wide(features: Sequence[Feature], n: int) -> tuple[Feature, ...]:
    return tuple(Feature(np.repeat(f.at, n), f.width) if np.ndim(f.at) else f for f in features)


def product_of(parts: Sequence[Part], values: Mapping[int, Array], entries: Entries) -> Array:
    """The product of parts at nodes.  Shapes: (n, nodes)."""
    out = np.ones(np.broadcast_shapes(*(v.shape for v in values.values())))
    for p in parts:
        out = product(out, p.value(values, entries))
    return out


def product(f: Array, g: Array) -> Array:
    """f g, and infinity where the product of an overflow and a zero is unknown."""
    out = f * g
    unknown = np.isnan(out)
    if unknown.any():
        out = np.where(unknown & ~np.isnan(f) & ~np.isnan(g), np.inf, out)
    return out


def integrand(x: Integral) -> Callable[..., Array]:
    """The product of the parts times E[plain variables | inputs], as a function of the inputs."""
    d = x.inputs
    plain = range(d, len(x.mean))
    unit = units(x.cov)
    r = np.moveaxis(x.cov / unit / unit[:, None], -1, 0)
    scaled = np.moveaxis(r[:, d:, :d] @ psd_pinv(r[:, :d, :d]), 0, -1) if plain else None
    slope = scaled * unit[d:, None] / unit[None, :d] if scaled is not None else None

    def f(*u: Array) -> Array:
        out = product_of(x.parts, dict(enumerate(u)), x.entries)
        if slope is not None:
            shifts = [y - x.mean[k][:, None] for k, y in enumerate(u)]
            mean = [x.mean[k][:, None] + sum(slope[k - d, q][:, None] * shifts[q] for q in range(d)) for k in plain]
            left = x.cov[d:, d:] - np.einsum("kqz,qmz->kmz", slope, x.cov[:d, d:])
            out = product(out, isserlis(mean, left[..., None]))
        return out

    return f
