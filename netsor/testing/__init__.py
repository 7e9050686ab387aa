"""The theorem as properties of programs: for the tests of users, and of netsor itself.

Strategies need hypothesis, the extra `netsor[testing]`; the statistics and `assert_converges` do not.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "netsor.testing.strategies": "covariances nonlinearities programs terms",
    "netsor.testing.drafts": "Draft",
    "netsor.testing.illegal": "Illegal illegal_programs",
    "netsor.testing.convergence": "Convergence DoesNotConverge assert_converges converges",
}
_TABLE = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = [*sorted(_TABLE)]


def __getattr__(name: str) -> Any:
    if name not in _TABLE:
        raise AttributeError(f"module 'netsor.testing' has no attribute {name!r}")
    return getattr(import_module(_TABLE[name]), name)


def __dir__() -> list[str]:
    return __all__
