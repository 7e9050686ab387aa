"""E f(X) and E f(X) g(Y) of all functions with closed forms, against the 30 digits in references/values.csv.

Tolerance: 1e-12 of the value, or 1e-14 of sqrt(E f(X)^2 E g(Y)^2) where it cancels; and the error that comes with the number.
"""

import csv
import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from calibrated import Deviates, assert_detects
from expectations import KNOWN, PUBLIC
from references import make

from netsor import expect
from netsor.ops import Gate

RELATIVE, CANCELLED = 1e-12, 1e-14
HONEST = 4e-15  # of the size: two levels of a quadrature may agree better than either is rounded

Known = Callable[..., Any]
Row = tuple[tuple[float, ...], float, float]
"""Arguments, value and size."""


@cache
def references() -> dict[tuple[str, str], list[Row]]:
    out = defaultdict(list)
    with make.VALUES.open(newline="") as file:
        for row in csv.DictReader(file):
            at = tuple(map(float, row["at"].split()))
            out[row["f"], row["g"]].append((at, float(row["value"]), float(row["size"])))
    return dict(out)


def known(name: str) -> Known:
    return abs if name == "abs" else PUBLIC[name]


def check_references(f: Known, g: Known | None, rows: list[Row]) -> None:
    at = np.array([row[0] for row in rows]).T
    value, size = np.array([row[1:] for row in rows]).T
    if g is None:
        found = expect(f, mean=at[0], cov=at[1])
    else:
        v, w, c = at[2:]
        found = expect((f, g), mean=at[:2].T, cov=np.moveaxis(np.array([[v, c], [c, w]]), -1, 0))
    off = np.abs(found.value - value)
    bad = np.flatnonzero(~(off <= np.maximum(RELATIVE * np.abs(value), CANCELLED * size)))
    if bad.size:
        k = bad[0]
        raise Deviates(f"{f} {g} at {rows[k][0]}: {found.value[k]!r}, not {value[k]!r} of {size[k]:.3g}; {bad.size} like it")
    dishonest = np.flatnonzero(off > np.maximum(found.error, HONEST * size))
    if dishonest.size:
        k = dishonest[0]
        raise Deviates(f"{f} {g} at {rows[k][0]}: off by {off[k]:.3g}, said to be within {found.error[k]:.3g}")


def test_every_function_and_pair_is_there() -> None:
    """Every public function with pieces, at 200 random covariances and the degenerate ones."""
    expected = {f.name for f in KNOWN}
    table = references()
    assert {f for f, _ in table} == expected
    assert len(table) == len(expected) * (len(expected) + 3) / 2
    assert list(make.KNOWN) == sorted(expected)
    for name in expected:
        assert sum(len(rows) for pair, rows in table.items() if name in pair and all(pair)) > 200


@pytest.mark.parametrize("f", sorted({f for f, _ in references()}))
def test_values(f: str) -> None:
    for (first, second), rows in references().items():
        if first == f:
            check_references(known(f), known(second) if second else None, rows)


def test_values_are_recomputed() -> None:
    """Five of them, on mpmath instead of the balls that they were made with, to 25 digits of their size."""
    K = make.Mp()
    with make.VALUES.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["g"]]
    for row in random.Random(0).sample(rows, 5):
        value, size = make.reference(K, row["f"], row["g"], tuple(map(float, row["at"].split())))
        assert size == pytest.approx(float(row["size"]), rel=1e-5)
        assert abs(value - K.number(row["value"])) <= 1e-25 * size


@pytest.mark.parametrize(("name", "wrong"), [("relu", {"number": 0.5 + 1e-11}), ("gelu", {"gate": Gate(noise=1 + 1e-10)})])
def test_wrong_pieces_are_caught(name: str, wrong: dict) -> None:
    f = known(name)
    mutant = replace(f, pieces=(*f.pieces[:-1], replace(f.pieces[-1], **wrong)))
    check_references(f, f, references()[name, name])
    assert_detects(check_references, mutant, mutant, references()[name, name])
    assert_detects(check_references, mutant, None, references()[name, ""])
