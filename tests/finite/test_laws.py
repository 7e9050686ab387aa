"""The law at width n with the last source integrated out, where that source is an initial vector."""

import pytest
from calibrated import assert_within

from netsor import Mixture, Plate, Program, dot, matrix, relu, vector
from netsor.finite.laws import finite_law
from netsor.limit import one_member

X = vector("x")


def test_a_read_out_is_gaussian_given_its_features() -> None:
    """n^{-1/2} <v, x> with x ~ N(0, I_n): V = |x|²/n, so Var = 1 and the excess kurtosis is 6/n. False alarm 1e-6."""
    law = finite_law(dot(vector("v"), X), width=16, runs=2**14, rng=0)
    assert isinstance(law, Mixture)
    assert_within(law.variance, 1)
    assert_within(law.excess_kurtosis, 6 / 16)


def test_a_correlated_read_out_takes_its_own_variance() -> None:
    """Var v[1] = 4: E V = 4 E relu² = 2; the same in the limit."""
    i = Plate("output", 2).index("i")
    f = dot(vector("v", i, cov=[[1, 1], [1, 4]]), relu(matrix("W") @ X))
    program = Program("read", f=f)
    law = finite_law(one_member("f", f, {"i": 1}), width=16, runs=2**14, rng=0)
    assert isinstance(law, Mixture)
    assert_within(law.variance, 2)
    assert float(program.limit().law("f", i=1).variance) == pytest.approx(2, abs=1e-12)


def test_a_source_that_is_used_again_is_not_integrated_out() -> None:
    v = vector("v")
    assert not isinstance(finite_law(dot(v, relu(v)), width=16, runs=64, rng=0), Mixture)
