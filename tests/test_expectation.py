"""netsor.expect: named numbers, routes, shapes, tolerances, and what is refused."""

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

import netsor
from netsor import (
    IllFormed,
    Numerical,
    OutsideTheorem,
    clip,
    cos,
    elementwise,
    elu,
    erf,
    exp,
    expect,
    gelu,
    hermite,
    matrix,
    maximum,
    minimum,
    relu,
    sigmoid,
    silu,
    sin,
    softplus,
    step,
    tanh,
)

HALF = [[1, 0.5], [0.5, 1]]
OPPOSITE = [[1, -1 + 1e-8], [-1 + 1e-8, 1]]
t = sympy.Symbol("t", real=True)


def line(f: Callable[[Any], Any], *breaks: float) -> float:
    """E f(Z) to 25 digits."""
    with mpmath.workdps(30):
        return float(mpmath.quad(lambda z: f(z) * mpmath.npdf(z), [-15, *breaks, 15]))


def mp_sigmoid(z: Any) -> Any:
    return 1 / (1 + mpmath.exp(-z))


NUMBERS: dict[str, tuple[Callable[[], Any], float, str, float]] = {
    "tanh(3 z)^2": (
        lambda: expect(lambda z: tanh(3 * z) ** 2),
        line(lambda z: mpmath.tanh(3 * z) ** 2, -1, 0, 1),
        "one",
        1e-11,
    ),
    "softplus": (lambda: expect(softplus), line(lambda z: mpmath.log1p(mpmath.exp(z)), 0), "one", 1e-13),
    "silu^2": (lambda: expect(lambda z: silu(z) ** 2), line(lambda z: (z * mp_sigmoid(z)) ** 2, 0), "one", 1e-13),
    "cos(relu)^2": (lambda: expect(lambda z: cos(relu(z)) ** 2), 0.5 + (1 + np.exp(-2)) / 4, "one", 1e-13),
    "max": (lambda: expect(maximum, cov=HALF), np.sqrt(0.5 / np.pi), "closed", 1e-13),
    "max^2": (lambda: expect(lambda x, y: maximum(x, y) ** 2, cov=HALF), 1.0, "closed", 1e-13),
    "min": (lambda: expect(minimum, cov=HALF), -np.sqrt(0.5 / np.pi), "closed", 1e-13),
    "relu(tanh z - 1/2)": (
        lambda: expect(lambda z: relu(tanh(z) - 0.5)),
        line(lambda z: max(mpmath.tanh(z) - mpmath.mpf(0.5), 0), float(np.arctanh(0.5))),
        "one",
        1e-13,
    ),
    "exp(-z^2) cos z": (lambda: expect(lambda z: exp(-z * z) * cos(z)), np.exp(-1 / 6) / np.sqrt(3), "closed", 1e-13),
    "relu near -1": (lambda: expect((relu, relu), cov=OPPOSITE), 1.500527e-13, "closed", 1e-19),
    "gelu at -1": (lambda: expect((gelu, gelu), cov=[[1e8, -1e8], [-1e8, 1e8]]), -1.875658968e-5, "one variable", 1e-11),
    "z^4 w^4": (lambda: expect(lambda x, y: x**4 * y**4, cov=HALF), 28.5, "Isserlis", 1e-13),
    "three steps": (lambda: expect((step, step, step), cov=(np.eye(3) + 1) / 2), 0.25, "closed", 1e-14),
    "hermite": (lambda: expect((hermite(4), hermite(4)), cov=HALF), 24 / 16, "closed", 1e-12),
    "tanh tanh": (lambda: expect((tanh, tanh), cov=HALF), 0.18632441320344018, "two variables", 1e-12),
    "sympy": (lambda: expect(sympy.Lambda(t, sympy.tanh(t) ** 2)), line(lambda z: mpmath.tanh(z) ** 2, 0), "one", 1e-12),
    "numpy": (lambda: expect(lambda z: np.arctan(z) ** 2), line(lambda z: mpmath.atan(z) ** 2, 0), "one", 1e-10),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_named_numbers(name: str) -> None:
    """Within the tolerance, within the error it claims (16 times for its factor), by the route that `explain` names."""
    ask, expected, route, tolerance = NUMBERS[name]
    value = ask()
    assert abs(value - expected) <= tolerance
    assert value.error <= tolerance or "near" in name
    assert route in value.explain()


def test_three_nonlinear_variables() -> None:
    """E tanh(X) silu(Y) sigmoid(Z) in space, against the same by Gauss-Hermite nodes in independent coordinates (64^3)."""
    cov = (np.eye(3) + 1) / 2
    value = expect((tanh, silu, sigmoid), cov=cov)
    nodes, weights = np.polynomial.hermite_e.hermegauss(64)
    z = np.stack(np.meshgrid(nodes, nodes, nodes, indexing="ij"), -1) @ np.linalg.cholesky(cov).T
    w = np.einsum("i,j,k->ijk", weights, weights, weights) / (2 * np.pi) ** 1.5
    brute = (w * np.tanh(z[..., 0]) * silu.numpy(z[..., 1]) * sigmoid.numpy(z[..., 2])).sum()
    assert value == pytest.approx(brute, abs=1e-8)  # Gauss-Hermite, for the pole of tanh
    assert "three variables" in value.explain()


def test_four_variables_are_sampled() -> None:
    """E prod tanh over four with correlation 1/2: Sobol points within 6 standard errors of a million draws' own 5."""
    cov = (np.eye(4) + 1) / 2
    value = expect((tanh,) * 4, cov=cov)
    draws = np.tanh(np.random.default_rng(0).standard_normal((10**6, 4)) @ np.linalg.cholesky(cov).T).prod(1)
    assert "Sobol" in value.explain()
    assert 0 < value.error < 1e-3
    assert abs(value - draws.mean()) <= 8 * value.error + 5 * draws.std() / 1e3


# ------------------------------------------------------------------------------------------------------------------ arrays


def test_shapes() -> None:
    assert expect(relu, cov=np.ones((3, 2))).shape == (3, 2)
    assert expect(relu, mean=np.zeros((4, 1)), cov=np.ones(3)).shape == (4, 3)
    assert expect((relu, erf), mean=np.zeros((5, 2)), cov=np.eye(2)).shape == (5,)
    assert expect((relu, erf), mean=0.3, cov=np.eye(2) * np.ones((2, 3, 1, 1))).shape == (2, 3)
    assert float(expect((relu, relu), cov=2)) == pytest.approx(1 / np.pi, rel=1e-14)
    assert float(expect(lambda *x: x[0] * x[2], cov=(np.eye(3) + 1) / 2)) == 0.5


def test_an_array_is_its_entries() -> None:
    rng = np.random.default_rng(1)
    root = rng.standard_normal((20, 2, 2))
    cov, mean = root @ np.swapaxes(root, -1, -2), rng.standard_normal((20, 2))
    for f in ((relu, clip(1)), (tanh, relu), (elu(), gelu)):
        whole = expect(f, mean=mean, cov=cov)
        one = [expect(f, mean=m, cov=c) for m, c in zip(mean, cov, strict=True)]
        assert np.abs(whole.value - one).max() <= 1e-13


@given(st.floats(-12, 12), st.floats(-12, 12), st.floats(-1, 1), st.sampled_from([relu, gelu, erf, elu(), clip(1), tanh, sin]))
def test_variances_of_any_size(a: float, b: float, r: float, f: Any) -> None:
    """Over 24 orders of magnitude: |E f(X) f(Y)| <= sqrt(E f^2 E f^2), and errors are small against that."""
    v, w = 10.0**a, 10.0**b
    c = r * np.sqrt(v * w)
    value = expect((f, f), cov=[[v, c], [c, w]])
    bound = np.sqrt(float(expect(lambda x: f(x) ** 2, cov=v)) * float(expect(lambda x: f(x) ** 2, cov=w)))
    assert abs(value) <= bound * (1 + 1e-9)
    assert value.error <= 1e-9 * bound


def test_deep_relu_does_not_overflow() -> None:
    """15 layers with sigma = 1 .. 15: E h^2 = prod sigma^2 / 2^15, to 1e-13 of its 10^21."""
    x = netsor.vector("x")
    for level in range(1, 16):
        x = relu(matrix(f"W{level}", sigma=level) @ x)
    value = netsor.Program("deep", m=netsor.mean(x * x)).limit().mean("m")
    exact = np.prod([float(k) ** 2 / 2 for k in range(1, 16)])
    assert float(value) == pytest.approx(exact, rel=1e-13)


# ------------------------------------------------------------------------------------------------------- tolerances, refusals


def test_tolerance() -> None:
    """It is met, or NS401 says what was reached."""
    rough = elementwise(lambda x: np.floor(3 * np.sin(5 * x)), name="rough", growth="bounded")
    assert expect((tanh, tanh), cov=HALF, tol=1e-13).error <= 1e-13
    with pytest.raises(Numerical, match="NS401") as caught:
        expect(rough, mean=0.3, tol=1e-12)
    assert "the largest error reached is" in str(caught.value)


def test_the_error_covers_kinks_that_nobody_declared() -> None:
    """Without a factor, at 1000 places: E max(X - c, 0), and its expectation with another variable at 100."""
    rng = np.random.default_rng(0)
    for k in range(1100):
        c, s = rng.uniform(-3, 3), 10 ** rng.uniform(-1, 1)
        hidden = elementwise(lambda x, c=c * s: np.maximum(x - c, 0), name="hidden")
        exact = s * (np.exp(-c * c / 2) / np.sqrt(2 * np.pi) - c * ndtr(-c))
        value = expect(hidden, cov=s * s)
        assert abs(value - exact) <= value.error
        if k >= 1000:
            r = rng.uniform(-1, 1)
            value = expect((hidden, lambda y: y * y), cov=[[s * s, r * s], [r * s, 1]])
            expected = exact + r * r * s * np.exp(-c * c / 2) / np.sqrt(2 * np.pi)  # Stein: E f + r^2 s^2 E f''
            assert abs(value - expected) <= value.error


@pytest.mark.parametrize(
    ("ask", "code"),
    [
        (lambda: expect(relu, cov=-1), "NS305"),
        (lambda: expect((relu, relu), cov=[[1, 2], [2, 1]]), "NS305"),
        (lambda: expect((relu, relu), cov=[[1, 0.5], [0.4, 1]]), "NS305"),
        (lambda: expect((relu, relu), cov=[1, 2]), "NS305"),
        (lambda: expect((relu, relu), mean=[1, 2, 3], cov=np.eye(2)), "NS305"),
        (lambda: expect(relu, mean=float("nan")), "NS306"),
        (lambda: expect(relu, cov=float("inf")), "NS306"),
        (lambda: expect("relu(x)"), "NS309"),
        (lambda: expect(3), "NS309"),
    ],
)
def test_what_is_not_a_question(ask: Callable[[], Any], code: str) -> None:
    with pytest.raises(IllFormed) as caught:
        ask()
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("f", "variance"),
    [(lambda x: 1 / x, 1), (lambda x: exp(x * x), 0.5), (lambda x: exp(x * x / 8), 4), (lambda x: exp(x**3), 1)],
)
def test_what_does_not_exist(f: Callable[..., Any], variance: float) -> None:
    with pytest.raises(OutsideTheorem, match="NS106"):
        expect(f, cov=variance)


def test_what_exists() -> None:
    """E exp(c x^2) = (1 - 2 c v)^(-1/2)."""
    assert float(expect(lambda x: exp(x * x), cov=0.49)) == pytest.approx(0.02**-0.5, rel=1e-12)
    assert float(expect(lambda x: exp(x * x / 8), cov=3.9)) == pytest.approx(0.025**-0.5, rel=1e-12)


def test_overflow_is_named() -> None:
    with pytest.raises(Numerical, match="NS402"):
        expect(lambda x: x**8, cov=1e80)
    with pytest.raises(Numerical, match="NS402"):
        expect(exp, cov=1e4)
