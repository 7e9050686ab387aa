"""E of products of functions of Gaussian variables, on arrays of means and covariances, by the routes of the library."""

from collections.abc import Sequence

import numpy as np

from netsor.numeric.integral import Integral, Part, Routes
from netsor.numeric.quadrature import Feature
from netsor.ops import Fn


def integral(factors: Sequence[tuple[int, Fn]], mean: np.ndarray, cov: np.ndarray, plain: Sequence[int] = ()) -> Integral:
    """E[prod f(z_i) over the factors (i, f), times z_k for k in `plain`]; each of the variables has a factor.

    Shapes: mean (d, n), cov (d, d, n).
    """
    d, n = mean.shape
    parts = tuple(Part((i,), lambda values, entries, i=i, f=f: f.numpy(values[i]), f.pieces) for i, f in factors)
    features = tuple(features_of([f for i, f in factors if i == k]) for k in range(d))
    rows = [*range(d), *plain]
    return Integral(parts, d, mean[rows], cov[np.ix_(rows, rows)], features, np.arange(n))


def features_of(fns: Sequence[Fn]) -> tuple[Feature, ...]:
    """As the limit declares them: what is not known is cut at 0."""
    known = [Feature(place, width) for f in fns for place, width in f.features]
    unknown = [Feature(0.0) for f in fns if not f.features and not f.pieces]
    return tuple(dict.fromkeys(known + unknown))


def expect(
    factors: Sequence[tuple[int, Fn]], mean: np.ndarray, cov: np.ndarray, plain: Sequence[int] = (), level: int = 1
) -> np.ndarray:
    value, _ = Routes(level)(integral(factors, mean, cov, plain))
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
