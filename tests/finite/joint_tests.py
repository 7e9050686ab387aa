"""Do two engines have one joint law? Tests of independent samples, with a stated rate of false alarms."""

from collections.abc import Mapping

import numpy as np

from netsor import Program
from netsor.finite.simulate import simulation
from netsor.ir import Term
from netsor.numeric.draws import Output
from netsor.testing.statistics import fourier

ALARM = 1e-7  # of one test, so that all tests of this folder together stay below 1e-5


class Differ(AssertionError):
    """Two samples do not have one law, beyond what chance explains."""


def drawn(terms: Mapping[str, Term], engine: str, width: int, runs: int, coordinates: int = 2, rng: int = 0) -> np.ndarray:
    """Everything that is asked for, one row a run: scores, averages, and first coordinates, all jointly."""
    Program("drawn", **terms)  # no two things of one name: they would be independent, and share their streams
    outputs = {name: Output(t, coordinates) for name, t in terms.items()}
    rows = []
    for size, arrays in simulation(outputs, width=width, runs=runs, engine=engine).shards(rng):
        columns = []
        for name, t in terms.items():
            axis = len(t.free)
            columns.append(np.moveaxis(arrays[name], axis, 0).reshape(size, -1))
        rows.append(np.concatenate(columns, axis=1))
    return np.concatenate(rows)


def assert_same_law(x: np.ndarray, y: np.ndarray, alarm: float = ALARM) -> None:
    """Two independent samples have one joint law, by characteristic functions at 24 random frequencies.

    Detects at 200,000 runs a side differences of 0.03 in one of them.
    Shapes: (runs, d), (other runs, d).
    """
    test = fourier(x, y, alarm=alarm)
    if not test.pvalue > alarm:
        raise Differ(f"joint laws differ: {test}")
