"""How long Gaussian expectations take: closed forms and quadrature, beside scipy's adaptive quadrature and plain Monte Carlo.

python benchmarks/expectations/bench.py: prints two tables in Markdown. Times are processor seconds of one thread, measured
in turn in one process. The last column is the standard error of plain Monte Carlo in the time of `expect`.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import platform
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import integrate

import netsor
from netsor import clip, elu, erf, expect, gelu, relu, silu, softplus, tanh
from netsor.ir import Function

DRAWS = 2**20
COV = np.array([[1.0, 0.5], [0.5, 2.0]])
PAIRS = [
    (relu, relu),
    (erf, erf),
    (gelu, gelu),
    (clip(1), clip(1)),
    (elu(), relu),
    (relu, tanh),
    (tanh, tanh),
    (silu, softplus),
]
MANY = [relu, erf, gelu, clip(1)]


def seconds(task: Callable[[], Any], least: float = 0.2) -> float:
    """Processor seconds of one call, the best of as many as fit."""
    best, spent = np.inf, 0.0
    while spent < least:
        start = time.process_time()
        task()
        took = time.process_time() - start
        best, spent = min(best, took), spent + max(took, 1e-4)
    return best


def by_scipy(f: Function, g: Function) -> float:
    """E f(X) g(Y) over two independent coordinates, split at 0, to 1e-8."""
    root = np.linalg.cholesky(COV)

    def density(b: float, a: float) -> float:
        x, y = root[0, 0] * a, root[1, 0] * a + root[1, 1] * b
        return float(f.numpy(np.float64(x)) * g.numpy(np.float64(y))) * np.exp(-(a * a + b * b) / 2) / (2 * np.pi)

    total = 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", integrate.IntegrationWarning)
        for low, high in ((-9, 0), (0, 9)):
            total += integrate.dblquad(density, low, high, -9, 9, epsabs=1e-8, epsrel=1e-8)[0]
    return total


def by_draws(f: Function, g: Function) -> float:
    """The standard deviation of f(X) g(Y) over DRAWS draws."""
    x, y = np.linalg.cholesky(COV) @ np.random.default_rng(0).standard_normal((2, DRAWS))
    return float((f.numpy(x) * g.numpy(y)).std())


def shown(t: float) -> str:
    for unit, size in (("s", 1), ("ms", 1e-3), ("µs", 1e-6)):
        if t >= size:
            return f"{t / size:.3g} {unit}"
    return f"{t:.1g} s"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def one(f: Function, g: Function) -> list[str]:
    value = expect((f, g), cov=COV)
    own = seconds(lambda: expect((f, g), cov=COV))
    start = time.process_time()
    adaptive = by_scipy(f, g)
    scipy = time.process_time() - start
    draws = seconds(lambda: by_draws(f, g))
    sampled = by_draws(f, g) / np.sqrt(DRAWS * own / draws)
    route = value.explain().partition(" (")[0].partition(",")[0]
    off = f"{abs(float(value) - adaptive):.0e}"
    return [f"{f}, {g}", route, f"{value.error:.0e}", shown(own), f"{scipy / own:.0f}", off, f"{sampled:.0e}"]


def many(f: Function, n: int = 10**5) -> list[str]:
    root = np.random.default_rng(0).standard_normal((n, 2, 2))
    cov = root @ np.swapaxes(root, -1, -2)
    t = seconds(lambda: expect((f, f), cov=cov))
    shifted = seconds(lambda: expect((f, f), mean=root[:, 0], cov=cov))
    return [str(f), shown(t), shown(shifted), f"{t / n * 1e9:.0f} ns"]


def main() -> None:
    versions = f"Python {platform.python_version()}, numpy {np.__version__}, netsor {netsor.__version__}"
    print(f"{platform.machine()}, one thread; {versions}.\n")
    head = ["f, g", "route", "error", "expect", "dblquad / expect", "their distance", "Monte Carlo"]
    print(table(head, [one(f, g) for f, g in PAIRS]), "\n")
    print(table(["100,000 kernels", "centred", "with means", "each"], [many(f) for f in MANY]))


if __name__ == "__main__":
    main()
