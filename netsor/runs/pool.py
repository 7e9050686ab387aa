"""Parts of a job as they finish, from this process, from worker processes, or from an executor of the user."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import CancelledError, Executor, Future, wait
from contextlib import contextmanager

from netsor.checks import whole
from netsor.errors import IllFormed, NetsorError
from netsor.runs.job import Arrays, Job, stopped
from netsor.runs.processes import Processes

ATTEMPTS = 4  # at one part, where workers die
AHEAD = 4  # parts that may wait for an earlier one, for each that runs
SUBMITTED = 64  # parts at an executor whose size is not known


class WorkerWarning(UserWarning):
    """A worker died; its part is drawn again."""


def checked_workers(workers: object) -> int:
    count = whole(workers)
    if count is None or count < 1:
        raise IllFormed(
            "NS306", statement=f"workers={workers!r}", hypothesis="workers is an integer of at least 1", repair="workers=2"
        )
    return count


@contextmanager
def pool(workers: int, executor: Executor | None) -> Iterator[tuple[Executor | None, int]]:
    """An executor and how many parts it is given at a time; None: this process draws."""
    if executor is not None:
        size = getattr(executor, "_max_workers", None)
        yield executor, size + 1 if isinstance(size, int) else SUBMITTED
        return
    if checked_workers(workers) == 1:
        yield None, 1
        return
    own = Processes(workers)
    try:
        yield own, workers + 1
    finally:
        own.shutdown(cancel_futures=True)


def finished(
    job: Job, parts: Sequence[int], workers: int, executor: Executor | None
) -> Generator[tuple[int, Arrays], None, None]:
    """(part, arrays) as they finish; none runs ahead of an unfinished one by more than a few, which bounds memory.

    Raises: NS312 where workers die at one part again and again; errors of the parts.
    """
    if not parts:
        return
    with pool(workers, executor) as (runner, most):
        if runner is None:
            for part in parts:
                yield part, job.draw(part)
        else:
            yield from submitted(job, parts, runner, most)


def submitted(job: Job, parts: Sequence[int], runner: Executor, most: int) -> Iterator[tuple[int, Arrays]]:
    text, todo = job.text(), deque(parts)
    running: dict[Future[Arrays], int] = {}
    failures: dict[int, int] = {}

    def submit(part: int) -> None:
        try:
            running[runner.submit(job.remote, text, part)] = part
        except RuntimeError as error:  # broken, or shut down
            raise broken(part, error) from error

    try:
        while todo or running:
            oldest = min([*running.values(), *([todo[0]] if todo else [])])
            while todo and len(running) < most and todo[0] <= oldest + AHEAD * most:
                submit(todo.popleft())
            done, _ = wait(running, return_when="FIRST_COMPLETED")
            for future in sorted(done, key=lambda f: running[f]):
                part = running.pop(future)
                try:
                    arrays = future.result()
                except (NetsorError, MemoryError, RecursionError):
                    raise
                except (Exception, CancelledError) as error:
                    failures[part] = failures.get(part, 0) + 1
                    if failures[part] == ATTEMPTS:
                        raise broken(part, error) from error
                    warnings.warn(f"part {part} is drawn again: {said(error)}", WorkerWarning, stacklevel=2)
                    submit(part)
                else:
                    yield part, arrays
    finally:
        for future in running:
            future.cancel()


def broken(part: int, error: BaseException) -> IllFormed:
    return stopped(
        f"part {part} of the run",
        f"its workers failed: {said(error)}",
        "look at the workers (their memory, their versions of netsor); with out= the same call goes on from what is finished",
    )


def said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
