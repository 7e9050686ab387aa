"""Width n and the limit driven by the same normals."""

import numpy as np
import pytest
from calibrated import assert_within

from netsor import Plate, Program, clip, compare, dot, erf, matrix, relu, softmax, sqrt, sum_over, vector
from netsor.coupling import coupled_limit
from netsor.finite.laws import finite_law
from netsor.ir import Term
from netsor.numeric.law import Mixture, noise_floor
from netsor.numeric.statistics import kl_coupled


def attention(tokens: int = 4, heads: int = 2) -> Term:
    """Tokens W_i h, as with clip at 100, which never acts."""
    (i, j), a = Plate("token", tokens).indices("i j"), Plate("head", heads).index("a")
    x = matrix("Win", i) @ vector("h")
    WQ, WK, WV, WO = (matrix(f"W{r}", a) for r in "QKVO")
    A = softmax(dot(WQ @ x, WK @ x[j]), over=j)
    y = sum_over(WO @ sum_over(A * (WV @ x[j]), j), a) / sqrt(a.plate.size)
    return y[0]


def test_the_divergence_of_the_layer() -> None:
    """KL(y_n, limit) = 1.6e-4, 1.05e-5 at n = 256, 1024: 11/n^2 (the errors are 3 and 5 %, eight of them are allowed);
    noise is a tenth of that of independent runs."""
    for n, expected in ((256, 1.6e-4), (1024, 1.05e-5)):
        runs = 2**15
        law = finite_law(attention(), width=n, runs=runs, rng=5, engine="collapsed")
        limit = coupled_limit(attention(), width=n, runs=runs, rng=5)
        assert isinstance(law, Mixture)
        assert limit is not None
        value, floor = kl_coupled(law, limit)
        apart = finite_law(attention(), width=n, runs=runs, rng=6, engine="collapsed")
        assert abs(value - expected) <= 8 * value.error
        assert value.error < 0.2 * expected
        assert floor < 0.7 * noise_floor(law, apart)["kl"] * (256 / n)
        assert abs(limit.variance - 0.391971) <= 8 * limit.variance.error


@pytest.mark.parametrize("n", [16, 32])
def test_the_floor_at_small_widths(n: int) -> None:
    """Tails at width n are heavier than those of the limit, by any factor; noise stays below the divergence there."""
    law = finite_law(attention(), width=n, runs=1024, rng=0, engine="collapsed")
    limit = coupled_limit(attention(), width=n, runs=1024, rng=0)
    assert isinstance(law, Mixture)
    assert limit is not None
    value, floor = kl_coupled(law, limit)
    assert 0 < floor < value
    assert value > 3 * value.error


def test_runs_are_paired() -> None:
    """Variances at n and in the limit, run by run: correlation near one, which independent streams do not have."""
    law, limit = finite_law(attention(), width=4096, runs=4096, rng=1), coupled_limit(attention(), width=4096, runs=4096, rng=1)
    other = coupled_limit(attention(), width=4096, runs=4096, rng=2)
    assert limit is not None
    assert other is not None
    v, w, u = (np.ravel(x.variances) for x in (law, limit, other))
    assert np.corrcoef(v, w)[0, 1] > 0.95
    assert abs(np.corrcoef(v, u)[0, 1]) < 0.09  # 5.7 standard errors of 1/64


def test_a_law_that_is_known_exactly() -> None:
    """A coordinate of an initial vector is N(0, 1) at every width: no divergence, and no noise."""
    C = compare(Program("exact", x=vector("x")), "x", widths=[8, 16], runs=64)
    assert [row["kl"] for row in C.table] == [0, 0]
    assert [floor["kl"] for floor in C.floor.values()] == [0, 0]


def tokens(x: Term, layers: int = 1) -> Term:
    """Layers of attention between tokens x[i], with relu between layers."""
    (i,), a = x.free, Plate("head", 2).index("a")
    j = i.prime
    for k in range(layers):
        WQ, WK, WV, WO = (matrix(f"W{r}{k}", a) for r in "QKVO")
        A = softmax(dot(WQ @ x, WK @ x[{i: j}]), over=j)
        x = sum_over(WO @ sum_over(A * (WV @ x[{i: j}]), j), a) / sqrt(a.plate.size)
        if k + 1 < layers:
            x = relu(matrix(f"V{k}") @ x)
    return x[0]


def clipped(bound: float, layers: int = 1) -> Term:
    i = Plate("token", 4).index("i")
    return tokens(clip(bound)(matrix("Win", i) @ vector("h")), layers)


def test_the_divergence_of_the_layer_with_explicit_tokens() -> None:
    """Tokens clip(W_i h, 100) have coordinates at width n, and their limiting inner products in the limit: the divergence
    is that of tokens W_i h, and noise falls as it should."""
    for n, expected, noise in ((256, 1.6e-4, 2e-6), (1024, 1.05e-5, 3e-7)):
        law = finite_law(clipped(100), width=n, runs=2**14, rng=5, engine="collapsed")
        limit = coupled_limit(clipped(100), width=n, runs=2**14, rng=5)
        assert isinstance(law, Mixture)
        assert limit is not None
        value, floor = kl_coupled(law, limit)
        assert abs(value - expected) <= 8 * value.error
        assert value.error < 0.2 * expected
        assert floor < noise
        assert abs(limit.variance - 0.391971) <= 8 * limit.variance.error


i = Plate("token", 3).index("i")
PROGRAMS = {
    "a clip that acts": clipped(1),
    "two layers with relu between them": clipped(1, 2),
    "erf of tied tokens": tokens(erf(matrix("V") @ vector("x", i, mean=0.5))),
    "explicit vectors beside those in a frame": tokens(relu(matrix("V") @ vector("x", i)) + vector("u", i)),
    "repeated tokens": tokens(clip(1)(matrix("V") @ vector("x")) + 0 * vector("u", i)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_driven_limit_is_the_limit(name: str) -> None:
    """Variance and fourth moment of the limit that is driven by width n, against the limit itself."""
    term = PROGRAMS[name]
    driven = coupled_limit(term, width=64, runs=2**13, rng=3)
    assert driven is not None
    exact = Program("P", y=term).limit().law("y", rng=1)
    assert_within(driven.variance, exact.variance)
    assert_within(driven.moment(4), exact.moment(4))
    law = finite_law(term, width=512, runs=2**10, rng=3, engine="collapsed")
    pair = coupled_limit(term, width=512, runs=2**10, rng=3)
    assert pair is not None
    assert np.corrcoef(law.variances.ravel(), pair.variances.ravel())[0, 1] > 0.15  # 4.8 standard errors of none


def test_a_deterministic_limit() -> None:
    """Nothing but inner products of explicit vectors: N(0, 1/2)."""
    limit = coupled_limit(matrix("W") @ relu(matrix("V") @ vector("x")), width=64, runs=16, rng=0)
    assert limit is not None
    assert limit.shape == (1, 1)
    assert limit.variance == pytest.approx(0.5, rel=1e-8)


def test_what_is_not_coupled() -> None:
    """A nonlinear variable, and one whose limit needs averages over coordinates."""
    six = Plate("six", 6).index("k")
    x = softmax(matrix("V") @ (vector("x", six) + vector("z")), over=six)
    assert coupled_limit(relu(matrix("W") @ vector("h")), width=64, runs=16, rng=0) is None
    assert coupled_limit(matrix("W") @ x[0], width=64, runs=16, rng=0) is None
