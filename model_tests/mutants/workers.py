"""Work that is shared by forks of this process."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable


def in_workers(count: int, work: Callable[[int], None]) -> None:
    """Call `work` with each number below `count`: with 0 here, with each other one in a process of its own.

    Returns when all have ended. Raises RuntimeError if a process ended with an error, which it has printed.
    """
    others = []
    for number in range(1, count):
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                work(number)
                status = 0
            finally:
                sys.stdout.flush()
                os._exit(status)
        others.append(child)
    try:
        work(0)
    finally:
        ends = [os.waitpid(child, 0)[1] for child in others]
    if any(ends):
        raise RuntimeError("a worker ended with an error, which it has printed: what it has done is kept")
