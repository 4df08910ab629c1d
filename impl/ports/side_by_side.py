"""Work that waits for a disk, done on a few threads that share one queue.

A pool of `concurrent.futures` makes a future, a lock and a condition for each piece of work; where a sync is short they
cost more than it does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain, islice
from queue import SimpleQueue
from threading import Thread
from typing import Final

THREADS_AT_ONCE: Final = 16
"""Syncs under way at a time where many are due: file systems commit those that come together as one."""
AT_MOST_WAITING: Final = 64
"""Works that are begun or wait for a thread: a sync that waits for its turn has a descriptor."""

FEW: Final = 4
"""Up to so many are not worth a thread."""

Work = Callable[[], object]


def do_side_by_side(works: Iterable[Work]) -> None:
    """Do all works, in any order, and return when all are done. `works` is asked for the next one in this thread.

    Raises what the first of them raised, once all that were begun are done; no other is begun then.
    """
    rest = iter(works)
    few = list(islice(rest, FEW + 1))
    if len(few) > FEW:
        _on_threads(chain(few, rest))
        return
    for error in [_error_of(work) for work in few]:
        if error is not None:
            raise error


def _on_threads(works: Iterable[Work]) -> None:
    due: SimpleQueue[tuple[int, Work] | None] = SimpleQueue()
    done: SimpleQueue[tuple[int, BaseException | None]] = SimpleQueue()
    failed: dict[int, BaseException] = {}
    threads: list[Thread] = []
    waiting = 0

    def work_off() -> None:
        while (next_one := due.get()) is not None:
            number, work = next_one
            done.put((number, _error_of(work)))

    def take_one() -> None:
        number, error = done.get()
        if error is not None:
            failed[number] = error

    try:
        for number, work in enumerate(works):
            due.put((number, work))
            waiting += 1
            if len(threads) < min(THREADS_AT_ONCE, waiting):
                threads.append(Thread(target=work_off, name="disk"))
                threads[-1].start()
            while waiting == AT_MOST_WAITING or not done.empty():
                take_one()
                waiting -= 1
            if failed and number >= FEW:  # the first ones are asked for already
                break
    finally:
        for _ in threads:
            due.put(None)
        for thread in threads:
            thread.join()
    for _ in range(waiting):
        take_one()
    if failed:
        raise failed[min(failed)]


def _error_of(work: Work) -> BaseException | None:
    try:
        work()
    except BaseException as error:  # the caller's thread raises it
        return error
    return None
