"""The parts of a job in order, whoever draws them, from disk where they are finished."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import dataclass

from netsor.runs.job import Arrays, Job
from netsor.runs.pool import finished
from netsor.runs.store import Store, opened

Progress = Callable[[int], None]


@dataclass(frozen=True)
class How:
    """Who draws a job, and where it is kept. Nothing of it changes a bit of the results."""

    workers: int = 1
    executor: Executor | None = None
    out: str | os.PathLike[str] | None = None
    progress: Progress | None = None


def results(job: Job, how: How) -> Iterator[Arrays]:
    """Every part once, in order.  Raises: NS312 where the run cannot go on; errors of the parts."""
    if how.out is None:
        yield from in_order(job, how)
        return
    with opened(how.out, job) as store:
        yield from stored(job, how, store)
        store.write_manifest(complete=True)


def in_order(job: Job, how: How) -> Iterator[Arrays]:
    waiting: dict[int, Arrays] = {}
    following = 0
    with closing(finished(job, range(job.count), how.workers, how.executor)) as drawn:
        for part, arrays in drawn:
            waiting[part] = arrays
            ticked(how, job, part)
            while following in waiting:
                yield waiting.pop(following)
                following += 1


def stored(job: Job, how: How, store: Store) -> Iterator[Arrays]:
    """The same, each part written before it is given away, and read again if another was late."""
    for part in store.known:
        ticked(how, job, part)
    missing = [k for k in range(job.count) if k not in store.known]
    following = 0
    with closing(finished(job, missing, how.workers, how.executor)) as drawn:
        for part, arrays in drawn:
            store.write(part, arrays)
            ticked(how, job, part)
            while following in store.known:
                yield arrays if following == part else read(job, store, following)
                following += 1
    while following < job.count:
        yield read(job, store, following)
        following += 1


def read(job: Job, store: Store, part: int) -> Arrays:
    arrays = store.read(part)
    if arrays is None:  # damaged within the last moments
        arrays = job.draw(part)
        store.write(part, arrays)
    return arrays


def ticked(how: How, job: Job, part: int) -> None:
    if how.progress is not None:
        how.progress(job.size(part))
