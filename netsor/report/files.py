"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from netsor.numeric.draws import Draws


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary file beside `path`, of the same suffix, that takes its place when the block ends without an error."""
    temporary = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def save_draws(draws: Draws, path: Path) -> None:
    """An .npz with each array under its name and the names of its axes under `name.dims`; numpy.load reads it.

    A path that ends in .nc becomes netCDF, with the extra `data`.
    """
    if path.suffix == ".nc":
        with replacing(path) as temporary:
            draws.to_xarray().to_netcdf(temporary)
        return
    with replacing(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for name, array in draws.items():
            for key, value in ((name, array), (f"{name}.dims", np.array(draws.dims[name]))):
                with archive.open(f"{key}.npy", "w", force_zip64=True) as file:
                    np.lib.format.write_array(file, value, allow_pickle=False)
