"""Accumulators: what is kept of draws whose number does not fit in memory.

An accumulator makes a state of each shard, and merges two states. States are arrays; they are merged in the order of the
shards, so that the result has the same bits whoever draws. Counts are integers, and merge exactly in any order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from scipy.special import ndtr

from netsor.checks import whole
from netsor.errors import IllFormed
from netsor.numeric.estimate import Estimate
from netsor.runs.job import Arrays, Draw, Job

BATCHES = 64  # at most, whose spread is the error of a moment
SMALLEST = 1e-300  # of a number that a sketch tells from 0


class Accumulator(ABC):
    """What is kept of a variable. Its settings are numbers and names, so that it can be sent to a worker."""

    @abstractmethod
    def state(self, arrays: Mapping[str, np.ndarray]) -> Arrays:
        """Of one shard."""

    def merge(self, one: Arrays, two: Arrays) -> Arrays:
        """Of two shards, `one` before `two`: sums."""
        return {key: one[key] + two[key] for key in one}

    @abstractmethod
    def result(self, state: Arrays) -> Any: ...

    def data(self) -> dict[str, Any]:
        values = {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]  # dataclasses
        return {"kind": type(self).__name__, **{k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}}


def checked(arrays: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    if name not in arrays:
        raise IllFormed(
            "NS311",
            statement=f"an accumulator of {name!r}",
            hypothesis="the draws have no variable of that name",
            repair="the variables are " + ", ".join(arrays),
        )
    array = arrays[name]
    return array.reshape(-1).astype(float, copy=False)


@dataclass(frozen=True)
class Summary:
    """Moments of a number; errors come from the spread between up to 64 batches of shards."""

    count: int
    mean: Estimate
    variance: Estimate
    skewness: Estimate
    excess_kurtosis: Estimate


@dataclass(frozen=True)
class Moments(Accumulator):
    """Mean, variance, skewness and kurtosis of all entries of a variable, pooled.

    Central sums up to order 4 are merged pairwise (Pebay 2008, SAND2008-6212), so that nothing cancels. Shards are kept
    apart in up to 64 batches, whose spread gives the errors.
    """

    of: str

    def state(self, arrays: Mapping[str, np.ndarray]) -> Arrays:
        x = checked(arrays, self.of)
        d = x - x.mean()
        return {"sums": np.array([[x.size, x.mean(), (d**2).sum(), (d**3).sum(), (d**4).sum()]]), "shards": np.array([1])}

    def merge(self, one: Arrays, two: Arrays) -> Arrays:
        """Batches of equally many shards; where there are too many, neighbours become one."""
        sums, shards = np.concatenate([one["sums"], two["sums"]]), np.concatenate([one["shards"], two["shards"]])
        size = int(shards.max())
        rows, counts = list(sums), [int(s) for s in shards]
        if len(rows) > 1 and counts[-2] < size and counts[-2] + counts[-1] <= size:  # fill the last batch
            rows[-2:], counts[-2:] = [pooled(rows[-2], rows[-1])], [counts[-2] + counts[-1]]
        if len(rows) > BATCHES:
            rows = [pooled(*rows[k : k + 2]) if k + 1 < len(rows) else rows[k] for k in range(0, len(rows), 2)]
            counts = [sum(counts[k : k + 2]) for k in range(0, len(counts), 2)]
        return {"sums": np.stack(rows), "shards": np.array(counts)}

    def result(self, state: Arrays) -> Summary:
        rows = state["sums"]
        whole = rows[0]
        for row in rows[1:]:
            whole = pooled(whole, row)
        values = central(whole)
        errors = np.zeros(4)
        if len(rows) > 1:  # delete one batch at a time
            left = []
            for k in range(len(rows)):
                others = [row for j, row in enumerate(rows) if j != k]
                rest = others[0]
                for row in others[1:]:
                    rest = pooled(rest, row)
                left.append(central(rest))
            n = len(rows)
            errors = np.sqrt((n - 1) / n * np.square(np.array(left) - np.mean(left, 0)).sum(0))
        return Summary(int(whole[0]), *(Estimate(v, e) for v, e in zip(values, errors, strict=True)))


def central(row: np.ndarray) -> np.ndarray:
    n, mean, m2, m3, m4 = row
    variance = m2 / n
    if not variance:
        return np.array([mean, 0.0, 0.0, 0.0])
    return np.array([mean, variance, m3 / n / variance**1.5, m4 / n / variance**2 - 3])


def pooled(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(count, mean, central sums of order 2, 3, 4) of two samples together."""
    (na, ma, a2, a3, a4), (nb, mb, b2, b3, b4) = a, b
    n, d = na + nb, mb - ma
    m2 = a2 + b2 + d**2 * na * nb / n
    m3 = a3 + b3 + d**3 * na * nb * (na - nb) / n**2 + 3 * d * (na * b2 - nb * a2) / n
    m4 = a4 + b4 + d**4 * na * nb * (na**2 - na * nb + nb**2) / n**3
    m4 += 6 * d**2 * (na**2 * b2 + nb**2 * a2) / n**2 + 4 * d * (na * b3 - nb * a3) / n
    return np.array([n, ma + d * nb / n, m2, m3, m4])


@dataclass(frozen=True)
class Counts:
    """Counts in bins, with what lies below the first and above the last edge. `density`: per unit and run."""

    edges: np.ndarray
    counts: np.ndarray
    below: float
    above: float

    @property
    def density(self) -> np.ndarray:
        whole = self.counts.sum() + self.below + self.above
        result: np.ndarray = self.counts / np.diff(self.edges) / whole
        return result


@dataclass(frozen=True)
class Histogram(Accumulator):
    """Counts of all entries of a variable in equal bins of [low, high)."""

    of: str
    low: float
    high: float
    bins: int = 256

    def __post_init__(self) -> None:
        count = whole(self.bins)
        if count is None or count < 1 or not -np.inf < self.low < self.high < np.inf:
            raise IllFormed(
                "NS306",
                statement=f"{type(self).__name__}({self.of!r}, {self.low!r}, {self.high!r}, {self.bins!r})",
                hypothesis="a histogram has at least one bin, from a lower to a higher number",
                repair='Histogram("y", -4, 4, 64)',
            )

    @property
    def edges(self) -> np.ndarray:
        return np.linspace(self.low, self.high, self.bins + 1)

    def state(self, arrays: Mapping[str, np.ndarray]) -> Arrays:
        inner = np.searchsorted(self.edges, checked(arrays, self.of), side="right")
        return {"counts": np.bincount(inner, minlength=self.bins + 2)}

    def result(self, state: Arrays) -> Counts:
        counts = state["counts"]
        return Counts(self.edges, counts[1:-1], float(counts[0]), float(counts[-1]))


@dataclass(frozen=True)
class MixtureHistogram(Histogram):
    """The same for the Gaussian mixture with one N(of, variance) a run, `of` and `variance` two scalar variables.

    Each run adds the mass of its Gaussian in every bin, so that bins have little noise.
    """

    variance: str = field(default="variance", kw_only=True)

    def state(self, arrays: Mapping[str, np.ndarray]) -> Arrays:
        means, deviations = checked(arrays, self.of), np.sqrt(np.maximum(checked(arrays, self.variance), 0.0))
        below = np.zeros(self.bins + 1)
        for k in range(0, len(means), 1024):
            m, s = means[k : k + 1024, None], np.maximum(deviations[k : k + 1024, None], SMALLEST)
            below += ndtr((self.edges - m) / s).sum(0)
        return {"counts": np.diff(below, prepend=0.0, append=float(len(means)))}


@dataclass(frozen=True)
class SecondMoments:
    """E x x^T over the runs, x the entries of all variables one after the other; `names` says which is which."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    runs: int
    values: np.ndarray


@dataclass(frozen=True)
class Gram(Accumulator):
    """Second moments of the entries of variables over runs: `Gram(("y", "p"))`."""

    of: tuple[str, ...]

    def state(self, arrays: Mapping[str, np.ndarray]) -> Arrays:
        sizes, runs = [], int(arrays["#runs"])
        columns = []
        for name in self.of:
            checked(arrays, name)
            array = np.moveaxis(arrays[name], int(arrays[f"#axis {name}"]), 0).reshape(runs, -1)
            sizes.append(array.shape[1])
            columns.append(array)
        x = np.concatenate(columns, axis=1)
        return {"sum": np.einsum("ri,rj->ij", x, x), "runs": np.array(runs), "sizes": np.array(sizes)}

    def merge(self, one: Arrays, two: Arrays) -> Arrays:
        return {"sum": one["sum"] + two["sum"], "runs": one["runs"] + two["runs"], "sizes": one["sizes"]}

    def result(self, state: Arrays) -> SecondMoments:
        runs = int(state["runs"])
        return SecondMoments(tuple(self.of), tuple(map(int, state["sizes"])), runs, state["sum"] / runs)


@dataclass(frozen=True)
class Sketch:
    """Quantiles from counts in logarithmic bins: `sketch(0.99)`, to a relative accuracy that is fixed beforehand."""

    accuracy: float
    keys: np.ndarray
    counts: np.ndarray

    def __call__(self, q: float) -> float:
        if not 0 < q < 1:
            raise IllFormed("NS306", statement=f"quantile {q!r}", hypothesis="0 < q < 1", repair="0.5")
        rank = min(int(q * self.counts.sum()), int(self.counts.sum()) - 1)
        key = int(self.keys[np.searchsorted(self.counts.cumsum(), rank, side="right")])
        return 0.0 if key == 0 else float(np.sign(key) * middle(self.accuracy, abs(key)))


def middle(accuracy: float, key: int) -> float:
    gamma = (1 + accuracy) / (1 - accuracy)
    return float(SMALLEST * gamma ** (key - 2) * 2 * gamma / (gamma + 1))


@dataclass(frozen=True)
class Quantiles(Accumulator):
    """A sketch of the quantiles of all entries of a variable, of bounded size; merges exactly, being counts.

    Every quantile is that of the sample to a relative accuracy. Source: Masson, Rim, Lee 2019 (DDSketch).
    """

    of: str
    accuracy: float = 1e-3

    def __post_init__(self) -> None:
        if not 1e-6 <= self.accuracy < 1:
            raise IllFormed(
                "NS306",
                statement=f"Quantiles({self.of!r}, {self.accuracy!r})",
                hypothesis="the relative accuracy of a sketch lies between 1e-6 and 1",
                repair='Quantiles("y", 1e-3)',
            )

    def state(self, arrays: Mapping[str, np.ndarray]) -> Arrays:
        x = checked(arrays, self.of)
        size = np.abs(x)
        gamma = (1 + self.accuracy) / (1 - self.accuracy)
        with np.errstate(divide="ignore"):
            places = np.ceil(np.log(size / SMALLEST) / np.log(gamma)).astype(np.int64) + 1
        signed = np.where(size > SMALLEST, np.sign(x) * np.maximum(places, 1), 0).astype(np.int64)
        keys, counts = np.unique(signed, return_counts=True)
        return {"keys": keys, "counts": counts}

    def merge(self, one: Arrays, two: Arrays) -> Arrays:
        keys, back = np.unique(np.concatenate([one["keys"], two["keys"]]), return_inverse=True)
        counts = np.zeros(len(keys), dtype=np.int64)
        np.add.at(counts, back.ravel(), np.concatenate([one["counts"], two["counts"]]))
        return {"keys": keys, "counts": counts}

    def result(self, state: Arrays) -> Sketch:
        return Sketch(self.accuracy, state["keys"], state["counts"])


KINDS: dict[str, type[Accumulator]] = {k.__name__: k for k in (Moments, Histogram, MixtureHistogram, Gram, Quantiles)}


def accumulator(data: Mapping[str, Any]) -> Accumulator:
    """The accumulator of its data."""
    values = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items() if k != "kind"}
    return KINDS[data["kind"]](**values)


# ---- a job whose parts are reduced where they are drawn


@dataclass(frozen=True, eq=False)
class Reduced(Job):
    """The states of accumulators, one for each part of another job. `axes`: where the runs of each variable are."""

    job: Job
    accumulators: Mapping[str, Accumulator]
    axes: Mapping[str, int]

    @property
    def count(self) -> int:
        return self.job.count

    def size(self, part: int) -> int:
        return self.job.size(part)

    @property
    def remote(self) -> Draw:
        return self.job.remote

    def draw(self, part: int) -> Arrays:
        arrays = self.job.draw(part)
        marked = {**arrays, "#runs": np.array(self.size(part))} | {f"#axis {n}": np.array(k) for n, k in self.axes.items()}
        found: Arrays = {}
        for name, accumulator in self.accumulators.items():
            found |= {f"{name}.{key}": value for key, value in accumulator.state(marked).items()}
        return found

    def merge(self, one: Arrays, two: Arrays) -> Arrays:
        merged: Arrays = {}
        for name, accumulator in self.accumulators.items():
            a, b = (chosen(x, name) for x in (one, two))
            merged |= {f"{name}.{key}": value for key, value in accumulator.merge(a, b).items()}
        return merged

    def result(self, state: Arrays) -> dict[str, Any]:
        return {name: a.result(chosen(state, name)) for name, a in self.accumulators.items()}

    def data(self) -> dict[str, Any]:
        return {**self.job.data(), "reduce": {name: a.data() for name, a in self.accumulators.items()}}


def chosen(arrays: Arrays, name: str) -> Arrays:
    return {key.removeprefix(f"{name}."): value for key, value in arrays.items() if key.startswith(f"{name}.")}


def checked_accumulators(reduce: Mapping[str, Accumulator]) -> dict[str, Accumulator]:
    found = dict(reduce) if isinstance(reduce, Mapping) else {}
    if found and all(isinstance(a, Accumulator) and str(name).isidentifier() for name, a in found.items()):
        return found
    raise IllFormed(
        "NS309",
        statement=f"reduce={reduce!r}",
        hypothesis="what reduces draws is a dict of accumulators: " + ", ".join(KINDS),
        repair='reduce={"m": Moments("y")}',
    )
