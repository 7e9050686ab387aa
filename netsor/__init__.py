"""netsor: a symbolic Tensor Program interpreter. Public names are loaded when they are first used (PEP 562)."""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "netsor.ir": "Fraction Index Member Plate Width distinct",
    "netsor.rules": "Law dot matrix mean vector",
    "netsor.rules.input": "unknown",
    "netsor.binding": "param table",
    "netsor.functions": "clip cos elementwise elu erf exp gelu hard_sigmoid hardmax hermite layernorm leaky_relu log max_over "
    "maximum mean_over minimum probit rbf relu relu_power rmsnorm sigmoid sign silu sin softmax softplus sqrt step sum_over "
    "tanh top_k",
    "netsor.program": "Program",
    "netsor.limit": "Limit",
    "netsor.expectation": "expect",
    "netsor.simulation": "simulate stream",
    "netsor.loading": "load",
    "netsor.sweep": "Sweep",
    "netsor.comparison": "Comparison compare",
    "netsor.runs.reduce": "Gram Histogram MixtureHistogram Moments Quantiles",
    "netsor.errors": "IllFormed NetsorError NoRule Numerical OutsideTheorem",
    "netsor.symbolic.exact": "finite_moment",
    "netsor.numeric.law": "Mixture PointMass Sampled",
    "sympy": "oo",
}
_TABLE = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = [*sorted(_TABLE), "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _TABLE:
        raise AttributeError(f"module 'netsor' has no attribute {name!r}")
    return getattr(import_module(_TABLE[name]), name)


def __dir__() -> list[str]:
    return __all__
