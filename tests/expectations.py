"""E of products of functions of Gaussian variables, on arrays of means and covariances, by the routes of the library."""

from collections.abc import Sequence

import numpy as np

from netsor import functions
from netsor.numeric.integral import Integral, Part
from netsor.numeric.quadrature import Feature
from netsor.numeric.routes import Routes
from netsor.ops import ABS, Fn, Piece

MADE = {
    "clip": functions.clip(1.5),
    "elu": functions.elu(),
    "hermite": functions.hermite(3),
    "leaky_relu": functions.leaky_relu(0.2),
    "rbf": functions.rbf(),
    "relu_power": functions.relu_power(2),
}
"""An instance of every factory."""
PUBLIC = {name: MADE.get(name, getattr(functions, name)) for name in functions.__all__}
KNOWN = [ABS, *(f for f in PUBLIC.values() if isinstance(f, Fn) and f.pieces)]
"""The functions that are sums of pieces."""


def integral(factors: Sequence[tuple[int, Fn]], mean: np.ndarray, cov: np.ndarray, inputs: int | None = None) -> Integral:
    """E[prod f(z_i) over the factors (i, f)], times z_k for k >= `inputs`; each of the other variables has a factor.

    Shapes: mean (d, n), cov (d, d, n).
    """
    d, n = mean.shape
    parts = tuple(Part((i,), lambda values, entries, i=i, f=f: f.numpy(values[i]), f.pieces) for i, f in factors)
    features = tuple(features_of([f for i, f in factors if i == k]) for k in range(d))
    return Integral(parts, d if inputs is None else inputs, mean, cov, features, np.arange(n))


def features_of(fns: Sequence[Fn]) -> tuple[Feature, ...]:
    """As the limit declares them: what is not known is cut at 0."""
    known = [Feature(place, width) for f in fns for place, width in f.features]
    unknown = [Feature(0.0) for f in fns if not f.features and not f.pieces]
    return tuple(dict.fromkeys(known + unknown))


def expect(
    factors: Sequence[tuple[int, Fn]], mean: np.ndarray, cov: np.ndarray, inputs: int | None = None, level: int = 1
) -> np.ndarray:
    value, _ = Routes(level)(integral(factors, mean, cov, inputs))
    return value


def matrices(v: np.ndarray, w: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Covariance matrices of pairs.  Shapes: (n) three times to (2, 2, n)."""
    v, w, c = np.broadcast_arrays(*(np.asarray(a, float) for a in (v, w, c)))
    return np.array([[v, c], [c, w]])


def expect1(f: Fn, mean: np.ndarray, var: np.ndarray) -> np.ndarray:
    """E f(X)."""
    mean, var = np.broadcast_arrays(np.atleast_1d(mean).astype(float), var)
    return expect([(0, f)], mean[None], var[None, None].astype(float))


def expect2(f: Fn, g: Fn, v: np.ndarray, w: np.ndarray, c: np.ndarray, mean: np.ndarray | None = None) -> np.ndarray:
    """E f(X) g(Y); means 0, or `mean` of shape (2, n)."""
    cov = matrices(*np.atleast_1d(v, w, c))
    return expect([(0, f), (1, g)], np.zeros((2, cov.shape[-1])) if mean is None else mean, cov)


def piece_at(p: Piece, x: np.ndarray) -> np.ndarray:
    out = float(p.number) * x**p.power * np.exp(float(p.rate) * x - float(p.bend) * x * x)
    if p.gate is not None:
        at, noise = float(p.gate.at), float(p.gate.noise)
        out = out * (functions.erf.numpy((x - at) / np.sqrt(2 * noise)) if noise else np.sign(x - at))
    if p.wave is not None:
        even, frequency = p.wave
        out = out * (np.cos if even else np.sin)(float(frequency) * x)
    return out
