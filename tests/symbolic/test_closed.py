"""Closed forms as formulas: they are what the arrays say, and look as papers write them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sympy as sp
from calibrated import Deviates, assert_detects
from scipy.stats import multivariate_normal

from netsor import (
    IllFormed,
    Limit,
    Plate,
    Program,
    clip,
    cos,
    dot,
    elu,
    erf,
    exp,
    gelu,
    hard_sigmoid,
    hermite,
    leaky_relu,
    matrix,
    maximum,
    param,
    probit,
    rbf,
    relu,
    relu_power,
    sign,
    sin,
    softmax,
    step,
    sum_over,
    tanh,
    vector,
)
from netsor.loading import load
from netsor.symbolic.closed import Formulas, Phi2

K = [[1.3, 0.6], [0.6, 2.1]]
i, j = Plate("point", 2).indices("i j")
t = sp.Symbol("t")

KNOWN: dict[str, Callable[[Any], Any]] = {
    str(f): f
    for f in (
        *(abs, clip(1), cos, elu(), erf, exp, gelu, hard_sigmoid, hermite(3), leaky_relu(0.2)),
        *(probit, rbf(0.5), relu, relu_power(2), sign, sin, step),
    )
} | {
    "maximum": lambda g: maximum(g, -g / 2),
    "gabor": lambda g: exp(-g * g) * cos(g),
    "polynomial": lambda g: g**3 - 2 * g,
}


def layer(f: Callable[[Any], Any], mean: float = 0.0) -> Limit:
    g = matrix("W", sigma=1.5) @ vector("x", i, cov=K)
    if mean:
        g = g + vector("b", i, mean=mean, cov=0.5)
    return Program("layer", g=g, h=f(g)).limit()


def evaluated(L: Limit, expression: Any) -> float:
    """A formula in K_g and m_g, with the arrays in their place."""
    cov, mean = L.covariance("g").value, L.mean("g").value
    known = {"K_x": np.array(K), "K_g": cov, "m_g": mean, "E[g*g]": cov + np.multiply.outer(mean, mean), "E[g]": mean}
    symbols = sorted(expression.atoms(sp.Indexed), key=str)
    values = [known[str(s.base)][tuple(int(k) for k in s.indices)] for s in symbols]
    return float(sp.lambdify(symbols, expression)(*values))


def check_kernel(f: Callable[[Any], Any], mean: float) -> None:
    """E h_i h_k of the formula is that of the arrays, to 1e-11 of sqrt(E h_i^2 E h_k^2): the formula's own rounding."""
    L = layer(f, mean)
    h = L.mean("h").value
    second = L.covariance("h").value + np.multiply.outer(h, h)
    for a, b in ((0, 0), (0, 1), (1, 1)):
        gap = abs(evaluated(L, L["h"].kernel(a, b, expand="numbers")) - second[a, b])
        if not gap <= 1e-11 * np.sqrt(second[a, a] * second[b, b]):
            raise Deviates(f"E h_{a} h_{b} of the formula is off by {gap:.3g}")


@pytest.mark.parametrize("mean", [0.0, 0.4])
@pytest.mark.parametrize("name", KNOWN)
def test_the_formula_is_the_number(name: str, mean: float) -> None:
    check_kernel(KNOWN[name], mean)


@pytest.mark.parametrize("part", ["signs", "density", "sign"])
def test_a_wrong_formula_is_found(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = getattr(Formulas, part)
    monkeypatch.setattr(Formulas, part, lambda self, *args: right(self, *args) * sp.Rational(1001, 1000))
    assert_detects(check_kernel, relu, 0.4)


def test_phi2() -> None:
    """Against scipy's, to its 1e-8."""
    for h, k, rho in ((0.3, -0.7, 0.4), (-1.0, -2.0, -0.9), (0.0, 0.5, 0.99)):
        expected = multivariate_normal(cov=[[1, rho], [rho, 1]]).cdf([h, k])
        assert float(Phi2(h, k, rho).evalf()) == pytest.approx(expected, abs=1e-7)
        assert sp.lambdify(t, Phi2(t, k, rho))(h) == pytest.approx(expected, abs=1e-7)


# ----------------------------------------------------------------------------------------------------------- how they look


@pytest.mark.parametrize(
    ("f", "moments"),
    [
        (
            relu,
            "E[h_i] = √2 √K_g[i,i] / (2 √π)\n"
            "E[h_i h_i'] = (K_g[i,i'] (π - arccos(K_g[i,i'] / (√K_g[i,i] √K_g[i',i']))) "
            "+ √(K_g[i,i] K_g[i',i'] - K_g[i,i']²)) / (2 π)",
        ),
        (erf, "E[h_i] = 0\nE[h_i h_i'] = 2 arcsin(K_g[i,i'] / (√(K_g[i,i] + 1/2) √(K_g[i',i'] + 1/2))) / π"),
        (step, "E[h_i] = 1/2\nE[h_i h_i'] = (π - arccos(K_g[i,i'] / (√K_g[i,i] √K_g[i',i']))) / (2 π)"),
        (sign, "E[h_i] = 0\nE[h_i h_i'] = 2 arcsin(K_g[i,i'] / (√K_g[i,i] √K_g[i',i'])) / π"),
        (tanh, ""),
    ],
    ids=["relu", "erf", "step", "sign", "tanh"],
)
def test_as_papers_write_it(f: Callable[[Any], Any], moments: str) -> None:
    """The arc-cosine kernels of order 1 and 0 (Cho, Saul 2009) and the arcsine kernel (Williams 1997)."""
    lines = layer(f)["h"].text("closed").splitlines()[2:]
    assert [line.strip() for line in lines] == moments.splitlines()


def test_latex() -> None:
    assert r"\left(\pi - \arccos\left(\frac{{K_{g}}_{i,i'}}{\sqrt{{K_{g}}_{i,i}}\, \sqrt{" in layer(relu)["h"].latex("closed")


def test_independent_tokens() -> None:
    """Both cases, equal and not: E[x_i x_i'] = δ E x² + (1 - δ) (E x)²."""
    x = relu(matrix("W", i) @ vector("h"))
    shown = Program("tokens", x=x).limit()["x"].text("closed")
    assert "E[x_i x_i'] = δ(i,i') σ_W² / 2 + (1 - δ(i,i')) (σ_W √2 / (2 √π))²" in shown


def test_three_ways() -> None:
    sigma = param("sigma", 2)
    g = matrix("W", sigma=sigma) @ vector("x", i, cov=K)
    h = relu(g)
    L = Program("ways", g=g, h=h, y=matrix("V", sigma=3) @ h).limit()
    assert "E[h" not in L["h"].text()
    assert "Cov(Z^g[i], Z^g[i']) = sigma² K_x[i,i']" in L.text("closed").replace("σ", "sigma")
    assert "Cov(Z^y[i], Z^y[i']) = 9 E[h_i h_i']" in L.text("numbers")
    assert str(L["g"].kernel("i", "k", expand="numbers")) == "4*K_x[i, k]"
    assert str(L["h"].kernel(0, 1, expand="E")) == "E[h*h][0, 1]"
    assert str(L["h"].kernel(1, 1)) == "K_g[1, 1]/2"


def test_a_kernel_of_a_score_is_its_covariance() -> None:
    x = vector("x", i)
    p = dot(matrix("Q") @ x, matrix("K") @ x[j])
    L = Program("score", x=x, p=p, y=sum_over(softmax(p, over=j) * x[j], j)).limit()
    assert L["p"].kernel(0, 1, 0, 1) == sp.Symbol("sigma_Q", positive=True) ** 2 * sp.Symbol("sigma_K", positive=True) ** 2
    assert L["p"].kernel(0, 1, 1, 0) == 0


def test_what_does_not_fit() -> None:
    L = layer(relu)
    with pytest.raises(IllFormed, match="NS302"):
        L["h"].kernel(0)
    with pytest.raises(IllFormed, match="NS302"):
        L["h"].kernel(0, 7)
    with pytest.raises(IllFormed, match="NS311"):
        L.text("sideways")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["attention", "gpt", "gru", "mlp", "moe", "rnn", "transformer_block", "two_layers"])
def test_programs_in_closed_form(name: str) -> None:
    """Every line of the plain text stands in the other, or has become a formula; nothing is lost."""
    L = load(f"programs/{name}.py", {}).limit()
    plain, closed = L.text().splitlines(), L.text("closed").splitlines()
    assert len(closed) > len(plain)
    assert [line for line in plain if not line.startswith("    ")] == [
        line for line in closed if not line.startswith(("    ", "K_v"))
    ]
