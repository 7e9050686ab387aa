"""Numbers with errors: how they print, and that they behave as floats otherwise."""

import copy
import pickle
import re
from math import inf, isnan, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netsor.numeric.estimate import Estimate, EstimateArray


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (0.39160001, 0.0006, "0.3916(6)"),
        (0.39197, 0.0012345, "0.3920(12)"),  # two figures where the first is a 1
        (0.5, 0.00096, "0.5000(10)"),
        (-2.5, 0.1, "-2.50(10)"),
        (1234.0, 5.6, "1234(6)"),
        (1234.0, 56.0, "1230(60)"),
        (0.001, 5.0, "0(5)"),
        (9.724e-4, 3e-7, "0.0009724(3)"),
        (1.2345e-7, 3e-10, "1.235(3)e-07"),
        (123456789.0, 1e5, "1.2346(10)e+08"),
        (5e-324, 5e-324, "5(5)e-324"),
        (0.0, 1.797e308, "0.0(18)e+308"),
        (1 / 3, 0.0, "0.333333333333"),
        (1 / 3, 1e-13, "0.333333333333"),
        (0.0, 0.0, "0"),
        (nan, 0.0, "nan"),
        (nan, 0.1, "nan(0.1)"),
        (inf, 1.0, "inf(1)"),
        (1.0, inf, "1(inf)"),
    ],
)
def test_prints_the_value_to_the_digit_of_its_error(value: float, error: float, text: str) -> None:
    assert str(Estimate(value, error)) == text
    assert f"{Estimate(value, error)}" == text


@settings(max_examples=300)
@given(
    st.floats(-1e12, 1e12, allow_subnormal=False) | st.floats(-1e-250, 1e-250, allow_subnormal=False),
    st.floats(-9, 9).map(lambda x: 10**x),
)
def test_what_is_printed_can_be_read_back(value: float, relative: float) -> None:
    """Value and error are within half a unit of the last digit, and the error has one or two figures."""
    error = max(abs(value), 1e-290) * relative
    match = re.fullmatch(r"(-?\d+)(?:\.(\d+))?\((\d+)\)(?:e([+-]\d+))?", str(Estimate(value, error)))
    assert match is not None
    whole, decimals, bracket, power = match[1], match[2] or "", match[3], match[4] or "0"
    assert len(bracket.rstrip("0")) <= 2
    unit = 10.0 ** (int(power) - len(decimals))
    zeros = 10.0 ** (len(bracket) - len(bracket.rstrip("0"))) if not decimals and power == "0" else 1.0
    assert abs(float(f"{whole}.{decimals or 0}e{power}") - value) <= 0.5001 * unit * zeros + 1e-15 * abs(value)
    assert abs(int(bracket) * unit - error) <= 0.5001 * unit * zeros
    assert abs(int(bracket) * unit / error - 1) < 0.26  # 1.95 prints as 20, 2.5 as 2


def test_is_a_float() -> None:
    x = Estimate(0.3916, 0.0006)
    assert repr(x) == "Estimate(0.3916, error=0.0006)"
    assert x == 0.3916
    assert hash(x) == hash(0.3916)
    assert type(x + 1) is float
    assert type(-x) is float
    assert f"{x:.2f}|{x:+.1e}|{x:>8.3f}" == "0.39|+3.9e-01|   0.392"
    assert np.asarray([x, x]).dtype == np.float64
    assert Estimate(2.0).error == 0.0
    assert type(Estimate(np.float64(1), np.float64(2)).error) is float


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_survives_copies_and_pickles(copied) -> None:
    assert repr(copied(Estimate(0.5, 0.25))) == "Estimate(0.5, error=0.25)"


@pytest.mark.parametrize("error", [-1e-300, nan, -inf])
def test_refuses_what_is_not_an_error(error: float) -> None:
    with pytest.raises(ValueError, match="error"):
        Estimate(1.0, error)


def test_a_value_may_be_nan() -> None:
    assert isnan(Estimate(nan, 0.1))
    assert repr(Estimate(nan, inf)) == "Estimate(nan, error=inf)"


def test_array_entries_are_estimates_and_slices_are_arrays() -> None:
    a = EstimateArray(np.array([[1.0, -0.5], [2.0, 0.0]]), np.array([[0.1, 0.2], [0.0, 0.3]]))
    assert a.shape == (2, 2)
    assert len(a) == 2
    assert repr(a[0, 1]) == "Estimate(-0.5, error=0.2)"
    row = a[1]
    assert isinstance(row, EstimateArray)
    assert row.error.tolist() == [0.0, 0.3]
    assert [type(r) for r in a] == [EstimateArray, EstimateArray]
    assert str(a) == "[[1.00(10)  -0.5(2)]\n [       2   0.0(3)]]"
    assert (np.asarray(a) + 1).tolist() == [[2.0, 0.5], [3.0, 1.0]]
    assert np.asarray(a, dtype=np.float32).dtype == np.float32


def test_copies_of_an_array_are_copies() -> None:
    a = EstimateArray(np.ones(2), np.zeros(2))
    np.array(a)[0] = 7
    assert a.value[0] == 1


def test_array_of_one_entry() -> None:
    a = EstimateArray(np.array(0.3916), np.array(0.0006))
    assert str(a) == "0.3916(6)"
    assert float(a) == 0.3916
    assert a.item().error == 0.0006
    assert EstimateArray(np.array([[2.0]]), np.array([[1.0]])).item().error == 1.0


def test_array_refuses_shapes_that_differ() -> None:
    with pytest.raises(ValueError, match="shape"):
        EstimateArray(np.zeros(3), np.zeros(2))
    with pytest.raises(ValueError, match="size 1"):
        float(EstimateArray(np.zeros(2), np.zeros(2)))
