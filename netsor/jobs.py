"""What can be drawn in parts: programs at width n, the limit, and laws for a comparison."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from threading import get_ident
from typing import Any

import numpy as np

from netsor.algebra.moments import Moments
from netsor.checks import whole
from netsor.coupling import Sampled as NoCoupling
from netsor.coupling import coupled_batches
from netsor.data.read import variables_of
from netsor.data.write import text_of
from netsor.finite.laws import Batches, finite_batches
from netsor.finite.simulate import Simulation, simulation
from netsor.infinite.engine import Engine, Sampling
from netsor.infinite.laws import law_of
from netsor.infinite.sample import Sample
from netsor.ir import Term
from netsor.numeric.draws import Output, requested
from netsor.numeric.law import Law, Mixture, PointMass
from netsor.numeric.law import Sampled as SampledLaw
from netsor.runs.job import Arrays, Draw, Job, seed_data, seed_from
from netsor.runs.reduce import Accumulator, Reduced, accumulator
from netsor.runs.run import How, results

Spec = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, eq=False)
class Drawing(Job):
    """Joint draws of variables: at width n, or of the limit."""

    name: str
    variables: Mapping[str, Term]
    spec: Spec
    runs: int
    seed: np.random.SeedSequence

    @cached_property
    def outputs(self) -> dict[str, Output]:
        return requested(self.variables, self.spec)

    @property
    def remote(self) -> Draw:
        return drawn

    def data(self) -> dict[str, Any]:
        used = {name: self.variables[name] for name in self.spec}
        return {
            "kind": type(self).__name__,
            "program": json.loads(text_of(self.name, used)),
            "outputs": {name: {key: whole(value) for key, value in spec.items()} for name, spec in self.spec.items()},
            "runs": self.runs,
            "seed": seed_data(self.seed),
        }


@dataclass(frozen=True, eq=False)
class Simulated(Drawing):
    width: int
    engine: str | None = None
    fast: bool = False

    @cached_property
    def planned(self) -> Simulation:
        return simulation(self.outputs, width=self.width, runs=self.runs, engine=self.engine, fast=self.fast)

    @property
    def count(self) -> int:
        return self.planned.count

    def draw(self, part: int) -> Arrays:
        return self.planned.shard(self.seed, part)[1]

    def size(self, part: int) -> int:
        return self.planned.size(part)

    def data(self) -> dict[str, Any]:
        return {**super().data(), "width": self.width, "engine": self.engine, "fast": self.fast}


@dataclass(frozen=True, eq=False)
class Sampled(Drawing):
    @cached_property
    def planned(self) -> Sample:
        return Sample(Moments(), self.outputs, self.runs, self.seed)

    @property
    def count(self) -> int:
        return self.planned.count

    def draw(self, part: int) -> Arrays:
        return self.planned.block(part)[1]

    def size(self, part: int) -> int:
        return self.planned.size(part)


@dataclass(frozen=True, eq=False)
class LawDrawn(Job):
    """The law of one number at width n, in batches; `driven`: the limit driven by the same normals."""

    name: str
    term: Term
    width: int
    runs: int
    seed: np.random.SeedSequence
    engine: str | None = None
    fast: bool = False
    driven: bool = False

    @cached_property
    def batches(self) -> Batches | None:
        if self.driven:
            return coupled_batches(self.term, self.width, self.runs)
        return finite_batches(self.term, self.width, self.runs, self.engine, self.fast)

    @property
    def count(self) -> int:
        return 0 if self.batches is None else self.batches.count

    def size(self, part: int) -> int:
        return 0 if self.batches is None else self.batches.size

    def draw(self, part: int) -> Arrays:
        """Nothing where the driven law does not exist."""
        assert self.batches is not None
        try:
            means, variances = self.batches.draw(self.seed, part)
        except NoCoupling:
            return {}
        return {"means": means, "variances": variances}

    def law(self, how: How) -> Law | None:
        """None where the driven law does not exist."""
        return self.joined(list(results(self, how)))

    def joined(self, parts: Sequence[Arrays]) -> Law | None:
        if self.batches is None or not all(parts):
            return None
        return self.batches.law([(p["means"], p["variances"]) for p in parts])

    @property
    def remote(self) -> Draw:
        return drawn

    def data(self) -> dict[str, Any]:
        return {
            "kind": "LawDrawn",
            "program": json.loads(text_of("law", {self.name: self.term})),
            "width": self.width,
            "runs": self.runs,
            "seed": seed_data(self.seed),
            "engine": self.engine,
            "fast": self.fast,
            "driven": self.driven,
        }


@dataclass(frozen=True, eq=False)
class LimitLaw(Job):
    """The law of one number in the limit, in one part."""

    name: str
    term: Term
    runs: int
    seed: np.random.SeedSequence

    @property
    def count(self) -> int:
        return 1

    def draw(self, part: int) -> Arrays:
        law = law_of(Engine(Moments()), self.term, Sampling(self.runs, self.seed))
        return {"means": law.means, "variances": law.variances}

    @property
    def remote(self) -> Draw:
        return drawn

    def data(self) -> dict[str, Any]:
        program = json.loads(text_of("law", {self.name: self.term}))
        return {"kind": "LimitLaw", "program": program, "runs": self.runs, "seed": seed_data(self.seed)}


def limit_law(parts: Sequence[Arrays]) -> Law:
    """The law that a LimitLaw has drawn."""
    (arrays,) = parts
    means, variances = arrays["means"], arrays["variances"]
    if variances.any():
        return Mixture(means, variances)
    return PointMass(float(means[0, 0])) if means.size == 1 else SampledLaw(means)


@dataclass(frozen=True, eq=False)
class Chain(Job):
    """Several jobs as one, part after part."""

    jobs: tuple[Job, ...]

    @cached_property
    def places(self) -> list[tuple[int, int]]:
        """(which job, which part of it)."""
        return [(k, part) for k, job in enumerate(self.jobs) for part in range(job.count)]

    @property
    def count(self) -> int:
        return len(self.places)

    def draw(self, part: int) -> Arrays:
        which, inner = self.places[part]
        return self.jobs[which].draw(inner)

    @property
    def remote(self) -> Draw:
        return drawn

    def data(self) -> dict[str, Any]:
        return {"kind": "Chain", "jobs": [job.data() for job in self.jobs]}


# ---- in other processes


def drawn(text: str, part: int) -> Arrays:
    """A part of the drawing of a text, in any process."""
    return planned(text, get_ident()).draw(part)


@lru_cache(maxsize=4)
def planned(text: str, thread: int) -> Job:
    """The job of a text. A worker keeps it between its parts, each of its threads one of its own."""
    return job_of(json.loads(text))


def job_of(data: Mapping[str, Any]) -> Job:
    if data["kind"] == "Chain":
        return Chain(tuple(map(job_of, data["jobs"])))
    name, variables = variables_of(json.dumps(data["program"]), "the request")
    runs, seed = data["runs"], seed_from(data["seed"])
    if data["kind"] in ("LawDrawn", "LimitLaw"):
        ((variable, term),) = variables.items()
        if data["kind"] == "LimitLaw":
            return LimitLaw(variable, term, runs, seed)
        return LawDrawn(variable, term, data["width"], runs, seed, data["engine"], data["fast"], data["driven"])
    if data["kind"] == "Sampled":
        return Sampled(name, variables, data["outputs"], runs, seed)
    job = Simulated(name, variables, data["outputs"], runs, seed, data["width"], data["engine"], data["fast"])
    return reduced(job, {key: accumulator(a) for key, a in data["reduce"].items()}) if "reduce" in data else job


def reduced(job: Drawing, accumulators: Mapping[str, Accumulator]) -> Reduced:
    """The job with accumulators in place of its arrays."""
    return Reduced(job, accumulators, {name: output.dims.index("run") for name, output in job.outputs.items()})
