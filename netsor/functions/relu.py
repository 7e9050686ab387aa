"""relu(x) = max(x, 0)."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from netsor.ir import Function
from netsor.ops import Dual, Growth


def mean(m: np.ndarray, v: np.ndarray) -> np.ndarray:
    """E relu(X) = m Phi(m/s) + s phi(m/s), X ~ N(m, v), s = sqrt(v)."""
    s = np.sqrt(v)
    h = np.divide(m, s, out=np.zeros(np.broadcast_shapes(np.shape(m), np.shape(s))), where=s > 0)
    smooth: np.ndarray = m * ndtr(h) + s * np.exp(-h * h / 2) / np.sqrt(2 * np.pi)
    return np.where(s > 0, smooth, np.maximum(m, 0))


def pair(v: np.ndarray, w: np.ndarray, c: np.ndarray) -> np.ndarray:
    """E relu(X) relu(Y), centred, variances v, w, covariance c: s (q + r (pi - arccos r)) / (2 pi) with s = sqrt(v w),
    r = c / s, q = sqrt(1 - r^2) (Cho, Saul 2009, arc-cosine kernel of order 1)."""
    s = np.sqrt(v) * np.sqrt(w)
    r = np.clip(np.divide(c, s, out=np.zeros(np.broadcast_shapes(np.shape(c), np.shape(s))), where=s > 0), -1, 1)
    angle = np.arccos(r)
    q = np.sqrt((1 - r) * (1 + r))
    direct = q + r * (np.pi - angle)
    near = angle > 3  # close to r = -1 the two terms cancel: with t = pi - angle, q + r t = sin t - t cos t
    t = np.where(near, np.arcsin(np.minimum(q, 1)), 0.0)
    series = t**3 / 3 * (1 - t**2 / 10 * (1 - t**2 / 28 * (1 - t**2 / 54)))
    result: np.ndarray = s * np.where(near, series, direct) / (2 * np.pi)
    return result


relu = Function(
    "relu",
    lambda x: np.maximum(x, 0.0),
    lambda sp, x: sp.Max(x, 0),
    features=((0.0, 0.0),),
    growth=Growth(low=0),
    dual=Dual(mean, pair),
)
