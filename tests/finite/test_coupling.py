"""Width n and the limit driven by the same normals."""

import numpy as np
import pytest

from netsor import Plate, Program, compare, dot, matrix, relu, softmax, sqrt, sum_over, vector
from netsor.finite.laws import coupled_limit, finite_law
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


def test_explicit_vectors_are_not_coupled() -> None:
    y = matrix("W") @ relu(matrix("V") @ vector("x"))
    assert coupled_limit(y, width=64, runs=16, rng=0) is None
