"""The program of a worker process: tasks come on stdin and results go to stdout, until stdin ends."""

from __future__ import annotations

import os
import pickle
import sys

from netsor.runs.processes import receive, send


def main() -> None:
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints goes to stderr
    while (message := receive(sys.stdin.buffer)) is not None:
        try:
            fn, arguments, keywords = pickle.loads(message)  # of the process that started this one
            answer = pickle.dumps((True, fn(*arguments, **keywords)), protocol=5)
        except Exception as error:
            answer = failure(error)
        send(results, answer)


def failure(error: Exception) -> bytes:
    try:
        answer = pickle.dumps((False, error))
        pickle.loads(answer)
    except Exception:  # an error that does not travel
        answer = pickle.dumps((False, RuntimeError(f"{type(error).__name__}: {error}")))
    return answer


if __name__ == "__main__":
    main()
