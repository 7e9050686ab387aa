"""An executor of worker processes that are started afresh, so that no script needs a guard and nothing is forked.

A worker is `python -P -m netsor.runs.worker` in a session of its own: Ctrl-C reaches this process alone, and when this
process ends, however it does, its workers read the end of their input and end too.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any

THREADS = ("OPENBLAS", "OMP", "MKL", "NUMEXPR", "VECLIB_MAXIMUM", "NUMBA")  # libraries that start threads of their own
PACKAGE = Path(__file__).parents[2]
INSTALLED = ("site-packages", "dist-packages")  # which a worker finds by itself, and behind the standard library
HEADER = 8  # bytes of a length

Task = tuple[Future[Any], bytes]


def send(file: IO[bytes], message: bytes) -> None:
    file.write(len(message).to_bytes(HEADER, "big") + message)
    file.flush()


def receive(file: IO[bytes]) -> bytes | None:
    """The next message; None at the end of the file, also in the middle of a message."""
    header = file.read(HEADER)
    size = int.from_bytes(header, "big")
    message = file.read(size) if len(header) == HEADER else b""
    return message if len(header) == HEADER and len(message) == size else None


class Processes(Executor):
    """`workers` processes with one thread of arithmetic each. A task whose process ends is broken; others go on."""

    def __init__(self, workers: int) -> None:
        self.tasks: SimpleQueue[Task | None] = SimpleQueue()
        self.running: set[subprocess.Popen[bytes]] = set()
        self.lock = threading.Lock()
        self._max_workers = workers  # as executors of the standard library have it
        self.closed = False
        self.threads = [threading.Thread(target=self.serve, daemon=True) for _ in range(workers)]
        for thread in self.threads:
            thread.start()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **keywords: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.tasks.put((future, pickle.dumps((fn, args, keywords))))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends the processes; what they are at is lost if `cancel_futures`."""
        if cancel_futures:
            with self.lock:
                self.closed = True
                for process in self.running:
                    process.kill()
        for _ in self.threads:
            self.tasks.put(None)
        if wait:
            for thread in self.threads:
                thread.join()

    # ---- one worker, in a thread of its own

    def serve(self) -> None:
        process: subprocess.Popen[bytes] | None = None
        while (task := self.tasks.get()) is not None:
            future, message = task
            if self.closed or not future.set_running_or_notify_cancel():
                future.cancel()
                continue
            try:
                process = process or self.start()
                answer = exchange(process, message)
                if answer is None:
                    self.end(process)
                    process = None
            except Exception as error:  # no process can be started
                future.set_exception(BrokenExecutor(f"{type(error).__name__}: {error}"))
                continue
            settle(future, answer)
        if process is not None:
            self.end(process)

    def start(self) -> subprocess.Popen[bytes]:
        paths = ["" if PACKAGE.name in INSTALLED else str(PACKAGE), os.environ.get("PYTHONPATH", "")]
        environment = {
            **os.environ,
            **{f"{name}_NUM_THREADS": "1" for name in THREADS},
            "VECLIB_MAXIMUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join(p for p in paths if p),
        }
        with self.lock:
            if self.closed:
                raise RuntimeError("the workers are shut down")
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "netsor.runs.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment,
                start_new_session=True,
            )
            self.running.add(process)
        return process

    def end(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(OSError):  # it reads no more
            process.stdin.close()
        process.wait()
        process.stdout.close()
        with self.lock:
            self.running.discard(process)


def exchange(process: subprocess.Popen[bytes], message: bytes) -> tuple[bool, Any] | str | None:
    """(did it succeed, result or error) of a task; None where the process ended."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        send(process.stdin, message)
    except OSError:
        return None
    answer = receive(process.stdout)
    return None if answer is None else pickle.loads(answer)


def settle(future: Future[Any], answer: Any) -> None:
    if answer is None:
        future.set_exception(BrokenExecutor("a worker process was ended from outside, or by a lack of memory"))
    elif answer[0]:
        future.set_result(answer[1])
    else:
        future.set_exception(answer[1])
