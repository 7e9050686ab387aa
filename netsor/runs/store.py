"""A folder of finished parts: each is written whole or not at all, and known by a checksum in its name.

    DIR/manifest.json    the request, the program, versions, how many parts; at the end all checksums
    DIR/parts/000017-<checksum>.npz
    DIR/lock             held while a process writes

A checksum is keyed by the request: a part of another request, a truncated one and one with a flipped bit are no parts.
"""

from __future__ import annotations

import errno
import io
import json
import os
import platform
import re
import socket
import sys
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any

import numpy as np

import netsor
from netsor.errors import IllFormed
from netsor.runs.job import Arrays, Job, stopped

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

SCHEMA = "netsor.run/1"
PART = re.compile(r"(\d{6,})-([0-9a-f]{32})\.npz")
BINDING = ("netsor", "numpy", "scipy")  # versions on which bits depend
EPOCH = (1980, 1, 1, 0, 0, 0)


class DamageWarning(UserWarning):
    """A part on disk is not what was written; it is drawn again."""


def digest(message: bytes, key: bytes = b"") -> str:
    return blake2b(message, key=key, digest_size=16).hexdigest()


class Store:
    """The finished parts of one job in a folder that this process has locked."""

    def __init__(self, folder: Path, job: Job) -> None:
        self.folder, self.job = folder, job
        self.parts = folder / "parts"
        self.request = json.loads(job.text())
        self.key = digest(json.dumps(self.request, sort_keys=True).encode()).encode()
        self.known: dict[int, str] = {}  # part -> checksum
        for leftover in self.folder.glob(".*.tmp"):
            leftover.unlink()
        found = self.found()
        intact = self.check_manifest()
        good = {part: check for part, path, check in found if self.read_checked(path, check) is not None}
        if found and not good and not intact:
            raise stopped(
                f"out={str(folder)!r}",
                "its manifest is missing or damaged, and its parts are not those of this request",
                "give another folder, or remove this one",
            )
        for part, path, _ in found:
            if part not in good:
                warnings.warn(f"part {part} in {folder} is damaged and is drawn again", DamageWarning, stacklevel=2)
                path.unlink()
        self.known = good
        if not intact:
            self.write_manifest()

    def found(self) -> list[tuple[int, Path, str]]:
        names = ((path, PART.fullmatch(path.name)) for path in sorted(self.parts.iterdir()))
        return [(int(m[1]), path, m[2]) for path, m in names if m and int(m[1]) < self.job.count]

    # ---- parts

    def path(self, part: int) -> Path:
        return self.parts / f"{part:06}-{self.known[part]}.npz"

    def read_checked(self, path: Path, check: str) -> bytes | None:
        content = path.read_bytes()
        return content if digest(content, self.key) == check else None

    def read(self, part: int) -> Arrays | None:
        """None for a part that was damaged since it was found; it must be drawn again."""
        content = self.read_checked(self.path(part), self.known[part]) if self.path(part).exists() else None
        if content is None:
            return None
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}

    def write(self, part: int, arrays: Arrays) -> None:
        content = packed(arrays)
        self.known[part] = digest(content, self.key)
        try:
            self.replace(self.path(part), content)
        except OSError as error:
            del self.known[part]
            raise self.unwritten(error) from error

    def replace(self, path: Path, content: bytes) -> None:
        """The file has this content, or is as it was: also when the machine stops."""
        temporary = self.folder / f".{path.name}.tmp"
        try:
            with temporary.open("wb") as file:
                write_all(file, content)
            os.replace(temporary, path)
            sync_folder(path.parent)
        finally:
            temporary.unlink(missing_ok=True)

    def unwritten(self, error: OSError) -> IllFormed:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        return stopped(
            f"writing to {self.folder}: {error.strerror or error}",
            f"{self.progress}, and they are whole",
            f"{'make room' if full else 'remove the cause'} and give the same call again: it continues from there",
        )

    @property
    def progress(self) -> str:
        return f"{len(self.known)} of {self.job.count} parts are finished in {self.folder}"

    # ---- the manifest

    @property
    def manifest(self) -> dict[str, Any]:
        return {"schema": SCHEMA, "request": self.request, "parts": self.job.count, "versions": versions()}

    def check_manifest(self) -> bool:
        """Is there a manifest, whole and of this request?  Raises: NS312 for one of another request or version."""
        there = read_manifest(self.folder)
        if there is None:
            return False
        here = self.manifest
        there_versions, here_versions = there["versions"], here["versions"]
        pairs = [(there[k], here[k], k) for k in ("schema", "parts")]
        pairs += [(there_versions.get(k), here_versions.get(k), f"version of {k}") for k in BINDING]
        for a, b, what in [*different(there["request"], here["request"]), *((a, b, w) for a, b, w in pairs if a != b)]:
            raise stopped(
                f"out={str(self.folder)!r}",
                f"the folder holds another run: its {what} is {shown(a)}, and that of this call is {shown(b)}",
                "repeat the call that began it, or give another folder",
            )
        return True

    def write_manifest(self, complete: bool = False) -> None:
        data = self.manifest
        if complete:
            data["checksums"] = {f"{part:06}": self.known[part] for part in sorted(self.known)}
        data["digest"] = digest(json.dumps(data, sort_keys=True).encode())
        try:
            self.replace(self.folder / "manifest.json", json.dumps(data, indent=1).encode())
        except OSError as error:
            raise self.unwritten(error) from error


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """None where there is none, or a damaged one."""
    try:
        data = json.loads((folder / "manifest.json").read_bytes())
        said = data.pop("digest")
    except (OSError, ValueError, AttributeError, KeyError, TypeError, RecursionError):
        return None
    return data if digest(json.dumps(data, sort_keys=True).encode()) == said else None


def different(there: Any, here: Any, path: str = "") -> Iterator[tuple[Any, Any, str]]:
    """Where two requests differ."""
    if isinstance(there, Mapping) and isinstance(here, Mapping):
        for key in sorted(dict.fromkeys((*here, *there)), key=lambda key: key == "program"):  # which differs with the others
            yield from different(there.get(key), here.get(key), f"{path}.{key}" if path else key)
    elif isinstance(there, list) and isinstance(here, list) and len(there) == len(here):
        for k, (a, b) in enumerate(zip(there, here, strict=True)):
            yield from different(a, b, f"{path}[{k}]")
    elif there != here:
        yield there, here, path


def shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) < 80 else f"{text[:60]}... ({digest(text.encode())[:8]})"


def versions() -> dict[str, str]:
    scipy = sys.modules.get("scipy")
    return {
        "netsor": netsor.__version__,
        "numpy": np.__version__,
        "scipy": getattr(scipy, "__version__", ""),
        "python": platform.python_version(),
        "machine": platform.machine(),
    }


def packed(arrays: Arrays) -> bytes:
    """An npz of the arrays, the same bytes for the same arrays."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy", EPOCH), "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)
    return buffer.getvalue()


def write_all(file: IO[bytes], content: bytes) -> None:
    file.write(content)
    file.flush()
    os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    if sys.platform != "win32":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


# ---- the lock


@contextmanager
def opened(folder: str | os.PathLike[str], job: Job) -> Iterator[Store]:
    """The store of a job, which no other process has meanwhile. The system frees the lock when the process ends.

    Raises: NS312 where another process has it, where the folder holds another run, or cannot be written to.
    """
    path = Path(folder)
    try:
        (path / "parts").mkdir(parents=True, exist_ok=True)
        lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise stopped(f"out={str(folder)!r}: {error.strerror}", "a run is kept in a folder", "give another folder") from error
    try:
        if not locked(lock):
            holder = os.read(lock, 200).decode(errors="replace").strip() or "unknown"
            said = f"another process is at work in this folder: {holder}"
            raise stopped(f"out={str(folder)!r}", said, "wait for it, or give another folder")
        os.truncate(lock, 0)
        os.write(lock, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
        store = Store(path, job)
        try:
            yield store
        except KeyboardInterrupt as error:
            error.add_note(f"interrupted: {store.progress}; the same call continues from there")
            raise
    finally:
        os.close(lock)


def locked(handle: int) -> bool:
    try:
        if sys.platform == "win32":
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
