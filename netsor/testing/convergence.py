"""The theorem as a test of one program: width n, extrapolated to infinity, is what the limit says.

For vectors h, scalars p and bounded psi the averages m = n^{-1} sum_alpha psi(h_alpha) tend jointly with p to
E[psi(Z) | p°] (Sakai, Karakida, Imaizumi 2025, arXiv:2506.00846, Theorem 3.1). It is enough to look at two orders:
E[m f(p)] -> E[psi f(p°)] for all bounded f says that the limit of m has E[psi | p°] as its mean given p°, and
E m^2 -> E[E[psi | p°]^2] that it has no variance beside. On the side of the limit both are expectations of draws, for
E[psi | p°]^2 is psi times psi of a second coordinate, so that no integral of the limit is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from netsor.algebra.pivots import is_score
from netsor.errors import IllFormed
from netsor.functions import cos, tanh
from netsor.ir import Member, Term, postorder
from netsor.numeric.draws import checked_count
from netsor.numeric.estimate import EstimateArray
from netsor.numeric.named import extent
from netsor.numeric.streams import Rng, seed_of, stream
from netsor.program import Program
from netsor.rules.mean import mean
from netsor.simulation import simulate
from netsor.testing.statistics import Array, Test, distance, features, products, spread, waves
from netsor.walks import generic

WIDTHS = (32, 256, 2048)
RUNS = 4096
COORDINATES = 64  # of the limit, in two halves
FUNCTIONS, FREQUENCIES, SCALARS, ENTRIES = 6, 4, 12, 3
PILOT = 256  # runs of the limit that only say how large things are
HALF, WHOLE = (0.5, 1.0), (1.0, 2.0)  # powers of 1/n in corrections: in general, and of scores that no score is below


@dataclass(frozen=True)
class Convergence:
    """What was tested: a p-value, an effect and the detectable effect each. `passed`: none is below its share of the alarm."""

    program: str
    name: str
    widths: tuple[int, ...]
    runs: int
    false_alarm: float
    tests: tuple[Test, ...]

    @property
    def share(self) -> float:
        """The false alarm rate of one test."""
        return self.false_alarm / max(len(self.tests), 1)

    @property
    def passed(self) -> bool:
        return all(test.pvalue > self.share for test in self.tests)

    def data(self) -> dict[str, Any]:
        """The same as plain data."""
        return asdict(self) | {"passed": self.passed}

    def __str__(self) -> str:
        head = f"{self.name} of {self.program}: widths {', '.join(map(str, self.widths))} extrapolated, {self.runs} runs each"
        alarm = f"false alarm rate {self.false_alarm:.1g}; a test fails below {self.share:.1g}"
        said = [f"  {'ok  ' if test.pvalue > self.share else 'FAIL'} {test}" for test in self.tests]
        return "\n".join([head, alarm, *said, *self.advice()])

    def advice(self) -> list[str]:
        """Of a failure: no record of three widths tells a wrong limit from a fit through widths that are too small."""
        if self.passed:
            return []
        larger = ", ".join(str(4 * n) for n in self.widths)
        return [f"the widths may be too small for the fit: try widths=({larger}); a wrong limit fails at all widths"]


class DoesNotConverge(AssertionError):
    """The limit is not that of width n, beyond what chance explains; the numbers are in `record`."""

    def __init__(self, record: Convergence) -> None:
        super().__init__(str(record))
        self.record = record


def assert_converges(
    program: Program,
    name: str | Sequence[str] | None = None,
    *,
    widths: Sequence[int] = WIDTHS,
    runs: int = RUNS,
    rng: Rng = 0,
    false_alarm: float = 1e-6,
) -> Convergence:
    """Fails unless width n tends to the derived limit: see `converges`.

    Raises: DoesNotConverge with the record; OutsideTheorem for a program without a limit, NS304 for open sizes.
    """
    record = converges(program, name, widths=widths, runs=runs, rng=rng, false_alarm=false_alarm)
    if not record.passed:
        raise DoesNotConverge(record)
    return record


def converges(
    program: Program,
    name: str | Sequence[str] | None = None,
    *,
    widths: Sequence[int] = WIDTHS,
    runs: int = RUNS,
    rng: Rng = 0,
    false_alarm: float = 1e-6,
) -> Convergence:
    """Tests of the theorem, each on what width n says at n = infinity, by a fit in powers of n^{-1/2} through all widths.

    scores: their joint characteristic function, and their second moments beside the derived covariance (a fit in 1/n
    where no score is below). averages: m, m m' and m f(p) for psi a cosine or tanh of up to two vectors. coordinates: two
    coordinates of vectors jointly with the scores. constants: means, and that the mean square of their error has no part
    that falls more slowly than 1/n.
    name: a variable, or several; all by default. Scores below them are always looked at. widths: at least three; with
    w1 < w2 < w3 the fit leaves a bias of order (w1 w2 w3)^{-1/2}. false_alarm: of all tests together, for a right limit and
    many runs; each states the effect that it finds in nine of ten at its share, about 10/sqrt(runs) of a feature's spread.
    Random: functions, entries, the limit and each width, from streams of `rng`.
    """
    widths = tuple(sorted({checked_count("a width", n) for n in widths}))
    checked_count("runs", runs, 256)
    if len(widths) < 3:
        raise IllFormed("NS306", statement=f"widths={widths}", hypothesis="a fit needs three widths", repair=f"widths={WIDTHS}")
    names = list(program) if name is None else [name] if isinstance(name, str) else list(name)
    seed = seed_of(rng)
    plan = Plan(program, names, seed)
    found = plan.tests(widths, runs, seed, false_alarm / 6)
    return Convergence(program.name, ", ".join(names) if name else "all", widths, runs, false_alarm, tuple(found))


class Plan:
    """Which functions, scalars and entries of a program are looked at: drawn once, before any data."""

    def __init__(self, program: Program, names: Sequence[str], seed: np.random.SeedSequence) -> None:
        self.limit = program.limit()
        self.random = stream(seed, "functions")
        roots = {n: program[n] for n in names}
        self.whole = {n: t for n, t in roots.items() if t.width is None} | scores_below(roots, program)
        self.places: dict[str, tuple[str, tuple[int, ...]]] = {}
        self.scalars = self.members(self.whole)
        entries = self.members({n: t for n, t in roots.items() if t.width is not None}, most=4 * FUNCTIONS)
        self.entries = dict(list(entries.items())[:ENTRIES])
        self.psi = self.functions(list(entries.values())) if entries else {}

    def members(self, terms: dict[str, Term], most: int = SCALARS) -> dict[str, Term]:
        """Single entries, at most so many, in random order, every variable in turn."""
        order: list[tuple[int, str, tuple[int, ...]]] = []
        for n, t in terms.items():
            sizes = [extent(i.plate) for i in t.free]
            chosen = self.random.permutation(int(np.prod(sizes)))[:most]
            order += [(k, n, tuple(int(m) for m in np.unravel_index(flat, sizes))) for k, flat in enumerate(chosen)]
        order.sort(key=lambda entry: entry[0])
        self.places |= {f"{n}_{k}": (n, members) for k, n, members in order[:most]}
        return {f"{n}_{k}": at_members(terms[n], members) for k, n, members in order[:most]}

    def functions(self, entries: Sequence[Term]) -> dict[str, Term]:
        """Cosines and tanh of entries in units of their spread: alone in turn, then of two."""
        pilot = Program("pilot", **{f"h{k}": t for k, t in enumerate(entries)}).limit().sample(PILOT, rng=1)
        scale = [float(spread(pilot[f"h{k}"].reshape(-1, 1))[0]) for k in range(len(entries))]
        made = {}
        for r in range(FUNCTIONS):
            k = r % len(entries)
            a, shift = (round(float(c), 3) for c in self.random.normal((1.0, 0.5), 0.3))
            inner = a / scale[k] * entries[k] + shift
            if r >= FUNCTIONS // 2 and len(entries) > 1:
                other = (k + 1 + int(self.random.integers(len(entries) - 1))) % len(entries)
                inner = inner + 1 / scale[other] * entries[other]
            made[f"m{r}"] = (cos, tanh)[r % 2](inner)
        return made

    def tests(self, widths: Sequence[int], runs: int, seed: np.random.SeedSequence, alarm: float) -> list[Test]:
        wide = {**self.scalars, **{f"v_{n}": t for n, t in self.entries.items()}}
        limit = Program("limit", **wide, **self.psi).limit()
        count = 2 * runs + PILOT
        drawn = limit.sample(count, coordinates=COORDINATES, rng=child(seed, 0))
        columns = {n: drawn[n] for n in self.scalars}
        moving = [n for n, c in columns.items() if c.std() > 1e-9 * (1 + abs(c.mean()))]
        still = [n for n in columns if n not in moving]
        at = [
            simulate(
                Program("width", **wide, **{n: mean(f) for n, f in self.psi.items()}),
                width=n,
                runs=runs,
                rng=child(seed, n),
                outputs={**{k: {} for k in (*self.scalars, *self.psi)}, **{f"v_{k}": {"coordinates": 2} for k in self.entries}},
            )
            for n in widths
        ]
        table = Table(widths, runs, alarm)
        p = [stack(d, moving, runs) for d in at]
        p_limit = stack(drawn, moving, count)
        out: list[Test] = []
        random = child(seed, 1)
        scale = spread(p_limit[:PILOT]) if moving else np.ones(0)
        w = waves(scale, FREQUENCIES, random) if moving else np.zeros((0, 0))
        if moving:
            every = waves(scale, 6 * FREQUENCIES, child(seed, 2))
            out.append(table.extrapolated("scores", [features(x, every) for x in p], features(p_limit[PILOT:], every)))
        out += self.covariances(table, at, moving, seed)
        if self.psi:
            out.append(self.averages(table, at, p, drawn, p_limit, w))
        if self.entries:
            sides = [coordinates(d, self.entries, x) for d, x in zip([*at, drawn], [*p, p_limit], strict=True)]
            w = waves(spread(sides[-1][:PILOT]), 6 * FREQUENCIES, child(seed, 3))
            out.append(table.extrapolated("coordinates", [features(x, w) for x in sides[:-1]], features(sides[-1][PILOT:], w)))
        if still:
            constant = np.array([columns[n].mean() for n in still])
            errors = [np.round((stack(d, still, runs) - constant) / (1 + np.abs(constant)), 12) for d in at]
            out.append(table.extrapolated("constants", errors, None))
            out.append(table.slower([e**2 for e in errors]))
        return out

    def covariances(
        self, table: Table, at: Sequence[Mapping[str, Array]], moving: Sequence[str], seed: np.random.SeedSequence
    ) -> list[Test]:
        """Second moments of scores beside the covariance that is derived; scores that have a score below apart."""
        own = [n for n in moving if is_score(self.scalars[n])]
        out = []
        for title, powers, deep in (("covariance", WHOLE, False), ("covariance, deep", HALF, True)):
            names = [n for n in own if has_score_below(self.scalars[n]) == deep]
            if not names:
                continue
            pairs = [(names[i], names[j]) for i in range(len(names)) for j in range(i + 1)]
            whole = Program("scores", **{n: self.whole[n] for n in {self.places[k][0]: 0 for k in names}}).limit()
            derived = {(a, b): whole.covariance(a, b, rng=child(seed, 4)) for a in whole for b in whole}
            value, error = np.array([self.entry(derived, *pair) for pair in pairs]).T
            sides = [products(stack(d, names, table.runs)) - value for d in at]
            out.append(table.extrapolated(title, sides, None, powers, error))
        return out

    def entry(self, derived: Mapping[tuple[str, str], EstimateArray], a: str, b: str) -> tuple[float, float]:
        """A covariance and its error."""
        (n, i), (m, j) = self.places[a], self.places[b]
        found = derived[n, m]
        return float(found.value[(*i, *j)]), float(found.error[(*i, *j)])

    def averages(
        self,
        table: Table,
        at: Sequence[Mapping[str, Array]],
        p: Sequence[Array],
        drawn: Mapping[str, Array],
        p_limit: Array,
        w: Array,
    ) -> Test:
        """m, m m' and m f(p), all measured from the means of the pilot. Two halves of the coordinates stand for one m."""
        values = np.stack([np.asarray(drawn[n]) for n in self.psi], axis=-1)
        first, second = values[:, 0::2].mean(1), values[:, 1::2].mean(1)
        centre = (first[:PILOT].mean(0) + second[:PILOT].mean(0)) / 2
        waves_limit = features(p_limit, w) if w.size else np.zeros((len(p_limit), 0))
        middle = waves_limit[:PILOT].mean(0)
        sides = []
        for d, x in zip(at, p, strict=True):
            m = np.round(stack(d, list(self.psi), table.runs) - centre, 12)
            f = (features(x, w) if w.size else np.zeros((len(x), 0))) - middle
            sides.append(np.concatenate([m, products(m), crossed(m, f)], axis=1))
        a, b = (np.round(half[PILOT:] - centre, 12) for half in (first, second))
        f = waves_limit[PILOT:] - middle
        k = range(a.shape[1])
        square = np.stack([(a[:, i] * b[:, j] + a[:, j] * b[:, i]) / 2 for i in k for j in range(i + 1)], axis=1)
        whole = (a + b) / 2
        return table.extrapolated("averages", sides, np.concatenate([whole, square, crossed(whole, f)], axis=1))


@dataclass(frozen=True)
class Table:
    """Features at each width, taken to n = infinity."""

    widths: Sequence[int]
    runs: int
    alarm: float

    def extrapolated(
        self,
        name: str,
        sides: Sequence[Array],
        limit: Array | None,
        powers: Sequence[float] = HALF,
        error: Array | None = None,
    ) -> Test:
        """Means of features, the value a of a fit a + sum_k b_k n^-k, against their means in the limit (or against 0)."""
        return self.combined(name, sides, limit, fit(self.widths, (0.0, *powers)), error)

    def slower(self, squares: Sequence[Array]) -> Test:
        """The coefficient of n^{-1/2} beside those of 1/n and 1/n^2 in mean squares that fall like 1/n."""
        return self.combined("rate of the constants", squares, None, fit(self.widths, (0.5, 1.0, 2.0)), None)

    def combined(self, name: str, sides: Sequence[Array], limit: Array | None, weights: Array, error: Array | None) -> Test:
        gap = np.asarray(sum(c * f.mean(0) for c, f in zip(weights, sides, strict=True)))
        covariance = np.asarray(sum(c**2 * np.atleast_2d(np.cov(f.T)) / len(f) for c, f in zip(weights, sides, strict=True)))
        if limit is not None:
            gap = gap - limit.mean(0)
            covariance = covariance + np.atleast_2d(np.cov(limit.T)) / len(limit)
        if error is not None:
            covariance = covariance + np.diag(error**2)
        return distance(name, gap, covariance, self.runs, self.alarm)


def fit(widths: Sequence[int], powers: Sequence[float]) -> Array:
    """Weights of the widths that give the first coefficient of sum_k c_k n^{-powers_k}: exact, and the shortest such."""
    n = np.array(widths, dtype=float) / widths[0]
    rows = n ** -np.array(powers)[:, None]
    return np.asarray(np.linalg.pinv(rows)[:, 0])


def at_members(term: Term, members: Sequence[int]) -> Term:
    return term.at({i: Member(i.plate, k) for i, k in zip(term.free, members, strict=True)})


def crossed(m: Array, f: Array) -> Array:
    return np.asarray((m[:, :, None] * f[:, None, :]).reshape(len(m), m.shape[1] * f.shape[1]))


def stack(draws: Mapping[str, Array], names: Sequence[str], runs: int) -> Array:
    """Shapes: (runs, names)."""
    if not names:
        return np.zeros((runs, 0))
    return np.stack([np.asarray(draws[n]) for n in names], axis=1)


def coordinates(draws: Mapping[str, Array], entries: dict[str, Term], p: Array) -> Array:
    """Two coordinates of each entry, and the scalars."""
    return np.concatenate([*(np.asarray(draws[f"v_{n}"])[:, :2] for n in entries), p], axis=1)


def child(seed: np.random.SeedSequence, k: int) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, k))


def scores_below(roots: dict[str, Term], program: Program) -> dict[str, Term]:
    """Scores without a name that the roots are made of, where every entry has a limit."""
    named = {t.family.key for t in roots.values()}
    found: dict[str, Term] = {}
    for family in postorder(*roots.values()):
        score = generic(family)
        if is_score(score) and len(score.args) < 3 and family.key not in named:  # entries outside a mask do not exist
            label = f"score{len(found)}"
            if not any(d.severity == "refused" for d in Program("score", **{label: score}).check()):
                found[label] = score
    return found


def has_score_below(score: Term) -> bool:
    return any(is_score(generic(f)) for f in postorder(score) if f.key != score.family.key)
