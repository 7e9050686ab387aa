"""An executor at a Dask scheduler, with the extra `dask`."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager

from netsor.errors import IllFormed
from netsor.runs.job import stopped

PATIENCE = 10  # seconds


@contextmanager
def scheduler(address: str) -> Iterator[Executor]:
    """The executor of the scheduler at an address, such as tcp://10.0.0.1:8786.

    Raises: NS311 where Dask is not installed, NS312 where nothing answers within ten seconds.
    """
    try:
        from distributed import Client
    except ImportError as error:
        raise IllFormed(
            "NS311",
            statement=f"--scheduler {address}: {error}",
            hypothesis="a scheduler needs the optional library dask.distributed",
            repair="pip install 'netsor[dask]', or --workers N for processes of this machine",
        ) from None
    try:
        client = Client(address, timeout=PATIENCE, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError, TypeError) as error:
        raise stopped(
            f"--scheduler {address}",
            f"no Dask scheduler answers there within {PATIENCE} seconds: {error}",
            "look at the address and whether the scheduler runs; or --workers N for processes of this machine",
        ) from error
    with client:
        yield client.get_executor(pure=False)  # type: ignore[no-untyped-call]
