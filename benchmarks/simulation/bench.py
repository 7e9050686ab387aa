"""How long a run takes at width n, engine by engine, beside code that a researcher would write.

python benchmarks/simulation/bench.py [--quick]: prints a table in Markdown. Times are processor seconds of one thread, all
measured in one process, so that ratios survive a busy machine.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import functools
import platform
import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np

import netsor
from netsor import Plate, Program, clip, dot, erf, matrix, relu, rmsnorm, softmax, sqrt, sum_over, vector
from netsor.finite import engines
from netsor.finite.simulate import simulation
from netsor.numeric.draws import requested

PER_CELL = 2.0  # processor seconds, about

# ------------------------------------------------------------------------------------------------------------ programs


def attention(tokens: int = 4, heads: int = 2) -> Program:
    token, head = Plate("token", tokens), Plate("head", heads)
    (i, j), a = token.indices("i j"), head.index("a")
    x = clip(100)(matrix("Win", i) @ vector("h"))
    WQ, WK, WV, WO = (matrix(f"W{r}", a) for r in "QKVO")
    A = softmax(dot(WQ @ x, WK @ x[j]), over=j)
    return Program("attention", y=sum_over(WO @ sum_over(A * (WV @ x[j]), j), a) / sqrt(head.size))


def low_rank(tokens: int = 4, heads: int = 2, rank: int = 4) -> Program:
    """A head dimension that stays finite: rows of the matrices are vectors."""
    token, head, channel = Plate("token", tokens), Plate("head", heads), Plate("channel", rank)
    (i, j), a, c = token.indices("i j"), head.index("a"), channel.index("c")
    x = clip(100)(matrix("Win", i) @ vector("h"))
    q, k, v = dot(vector("wq", a, c), x), dot(vector("wk", a, c), x[j]), dot(vector("wv", a, c), x[j])
    A = softmax(sum_over(q * k, c) / sqrt(channel.size), over=j)
    o = sum_over(sum_over(A * v, j) * vector("wo", a, c), c) / sqrt(channel.size)
    return Program("low_rank", y=sum_over(o, a) / sqrt(head.size))


def transformer(layers: int = 6, tokens: int = 4, heads: int = 2) -> Program:
    token, head = Plate("token", tokens), Plate("head", heads)
    (i, j), a = token.indices("i j"), head.index("a")
    x = vector("x", i)
    for n in range(layers):
        WQ, WK, WV, WO = (matrix(f"W{r}{n}", a) for r in "QKVO")
        z = rmsnorm(x)
        A = softmax(dot(WQ @ z, WK @ z[j]), over=j)
        x = x + sum_over(WO @ sum_over(A * (WV @ z[j]), j), a) / sqrt(head.size)
        x = x + matrix(f"V{n}") @ relu(matrix(f"U{n}") @ rmsnorm(x))
    return Program("transformer", y=x)


def rnn(steps: int = 6) -> Program:
    W, U, h = matrix("W"), matrix("U"), vector("h0")
    for t in range(steps):
        h = erf(W @ h + U @ vector(f"x{t}"))
    return Program("rnn", y=W @ h)


# --------------------------------------------------------------------------------- the same, as a researcher writes it


def loop_attention(n: int, rng: np.random.Generator, tokens: int = 4, heads: int = 2) -> np.ndarray:
    def w() -> np.ndarray:
        return rng.standard_normal((n, n)) / np.sqrt(n)

    h = rng.standard_normal(n)
    x = np.stack([np.clip(w() @ h, -100, 100) for _ in range(tokens)])
    y = np.zeros((tokens, n))
    for _ in range(heads):
        q, k, v = x @ w().T, x @ w().T, x @ w().T
        y += rows_softmax(q @ k.T / np.sqrt(n)) @ v @ w().T
    return y / np.sqrt(heads)


def loop_low_rank(n: int, rng: np.random.Generator, tokens: int = 4, heads: int = 2, rank: int = 4) -> np.ndarray:
    h = rng.standard_normal(n)
    x = np.stack([np.clip(rng.standard_normal((n, n)) @ h / np.sqrt(n), -100, 100) for _ in range(tokens)])
    y = np.zeros((tokens, n))
    for _ in range(heads):
        q, k, v = (x @ rng.standard_normal((n, rank)) / np.sqrt(n) for _ in range(3))
        y += rows_softmax(q @ k.T / np.sqrt(rank)) @ v @ rng.standard_normal((rank, n)) / np.sqrt(rank)
    return y / np.sqrt(heads)


def loop_transformer(n: int, rng: np.random.Generator, layers: int = 6, tokens: int = 4, heads: int = 2) -> np.ndarray:
    def w() -> np.ndarray:
        return rng.standard_normal((n, n)) / np.sqrt(n)

    def norm(x: np.ndarray) -> np.ndarray:
        return x / np.sqrt((x * x).mean(1, keepdims=True))

    x = rng.standard_normal((tokens, n))
    for _ in range(layers):
        z = norm(x)
        parts = [rows_softmax(z @ w().T @ (z @ w().T).T / np.sqrt(n)) @ (z @ w().T) @ w().T for _ in range(heads)]
        x = x + sum(parts) / np.sqrt(heads)
        x = x + np.maximum(norm(x) @ w().T, 0) @ w().T
    return x


def loop_rnn(n: int, rng: np.random.Generator, steps: int = 6) -> np.ndarray:
    from scipy.special import erf as f

    W, U = (rng.standard_normal((n, n)) / np.sqrt(n) for _ in range(2))
    h = rng.standard_normal(n)
    for _ in range(steps):
        h = f(W @ h + U @ rng.standard_normal(n))
    return W @ h


def rows_softmax(p: np.ndarray) -> np.ndarray:
    e = np.exp(p - p.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def torch_attention(n: int, runs: int, tokens: int = 4, heads: int = 2) -> None:
    """The best dense code in 32 bits: matrices of all runs at once."""
    import torch

    def w(*copies: int) -> object:
        return torch.randn(runs, *copies, n, n) / n**0.5

    torch.set_num_threads(1)
    h = torch.randn(runs, 1, n, 1)
    x = (w(tokens) @ h)[..., 0].clamp(-100, 100)[:, None]
    q, k, v = (x @ w(heads) for _ in range(3))
    A = torch.softmax(q @ k.transpose(-1, -2) / n**0.5, -1)
    ((A @ v) @ w(heads)).sum(1)


# ------------------------------------------------------------------------------------------------------------ a timing


@dataclass(frozen=True)
class Row:
    """A line of the table: microseconds a run; None where it was not measured."""

    what: str
    n: int
    loop: float | None
    torch: float | None
    dense: float | None
    lazy: float | None
    default: float
    fast: float | None
    engine: str
    floor: float
    memory: float


def processor_time(f: Callable[[], object]) -> float:
    start = time.process_time()
    f()
    return time.process_time() - start


def microseconds(run: Callable[[int], object], guess: float) -> float:
    """One run of `run(runs)`: the best of three, each of enough runs for a third of PER_CELL; `guess` seconds each."""
    runs = int(min(max(PER_CELL / 3 / guess, 1), 2**16))
    return min(processor_time(lambda: run(runs)) for _ in range(3)) / runs * 1e6


def measured(what: str, program: Program, n: int, asked: dict[str, dict[str, int]], loop: Callable[..., object] | None) -> Row:
    outputs = requested(program, asked)

    def engine(name: str | None, runs: int, fast: bool = False) -> None:
        for _ in simulation(outputs, width=n, runs=runs, engine=name, fast=fast).shards(0):
            pass

    choice, held = simulation(outputs, width=n, runs=4096).choice, engines.ROOM
    cost = {c.engine: c for c in choice.costs}
    times: dict[str | None, float | None] = {}
    for name in ("dense", "lazy", None):
        guess = (choice.cost if name is None else cost[name]).nanoseconds * 2e-9
        huge = name == "dense" and n > 4096
        times[name] = None if huge or guess > 4 else microseconds(lambda runs, name=name: engine(name, runs), guess)
    rng = np.random.default_rng(0)
    peer = None
    if loop is not None and n <= 4096:
        guess = cost["dense"].normals * 1e-8 + 1e-4
        peer = microseconds(lambda runs: [loop(n, rng) for _ in range(runs)], guess)
    single = None
    if loop is loop_attention and n <= 1024 and find_spec("torch"):
        together = max(1, 2**24 // (12 * n * n))
        single = processor_time(lambda: torch_attention(n, together)) / together * 1e6
    compiled = None
    if find_spec("numba"):
        engine(None, 1, fast=True)  # which compiles
        compiled = microseconds(lambda runs: engine(None, runs, fast=True), choice.cost.nanoseconds * 1e-9)
    source, room = np.random.Generator(np.random.SFC64(0)), np.empty(2**14)
    floor = (
        microseconds(lambda runs: [source.standard_normal(out=room) for _ in range(runs)], 2e-4) / 2**14 * choice.cost.normals
    )
    engines.ROOM = 0  # which is not touched
    tracemalloc.start()
    engine(None, min(256 if n <= 4096 else 1, choice.cost.shard))
    memory = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    engines.ROOM = held
    default = times[None]
    assert default is not None
    return Row(what, n, peer, single, times["dense"], times["lazy"], default, compiled, choice.engine, floor, memory)


def rows(quick: bool) -> list[tuple[str, Program, int, dict[str, dict[str, int]], Callable[..., object] | None]]:
    one: dict[str, dict[str, int]] = {"y": {"i": 0}}
    widths = [16, 256, 1024] if quick else [16, 64, 256, 1024, 4096, 10**6]
    table = [("attention, one output", attention(), n, one, loop_attention) for n in widths]
    few = [16, 256] if quick else [16, 256, 1024]
    table += [("attention, all outputs", attention(), n, {"y": {"coordinates": n}}, loop_attention) for n in few]
    many, wide = attention(heads=256), [16] if quick else [16, 64, 256]
    loop_many = functools.partial(loop_attention, heads=256)
    table += [("attention, H = 256", many, n, one, loop_many) for n in wide]
    table += [("low rank, n_H = 4", low_rank(), n, one, loop_low_rank) for n in few]
    table += [("transformer, 6 layers", transformer(), n, one, loop_transformer) for n in few]
    table += [("RNN, tied weights, 6 steps", rnn(), n, {"y": {}}, loop_rnn) for n in few]
    return table


def shown(us: float | None) -> str:
    if us is None:
        return ""
    return f"{us:.3g} µs" if us < 1e3 else f"{us / 1e3:.3g} ms" if us < 1e6 else f"{us / 1e6:.3g} s"


def main() -> None:
    versions = f"Python {platform.python_version()}, numpy {np.__version__}, netsor {netsor.__version__}"
    print(f"{platform.processor() or platform.machine()}, one thread; {versions}\n")
    heads = ["program", "n", "loop", "torch, dense", "dense", "lazy", "default", "fast", "engine"]
    print("| " + " | ".join([*heads, "loop / default", "loop / fast", "floor / default", "peak"]) + " |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|---|--:|--:|--:|--:|")
    for request in rows("--quick" in sys.argv):
        r = measured(*request)
        ratios = ["" if r.loop is None or us is None else f"{r.loop / us:,.0f}" for us in (r.default, r.fast)]
        cells = [r.what, f"{r.n:,}", *map(shown, (r.loop, r.torch, r.dense, r.lazy, r.default, r.fast)), r.engine, *ratios]
        print("| " + " | ".join([*cells, f"{r.floor / r.default:.0%}", f"{r.memory:.0f} MB"]) + " |", flush=True)


if __name__ == "__main__":
    main()
