"""Work spread over processes: tasks in, results as they come, the same whatever the number of workers."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.context import BaseContext
from typing import Any

import attrs

from tidegauge.impl.ports.log_lines import drop_lines_without_handler


@attrs.frozen
class Task:
    """One call in a worker; `part` says of which part of the verification it is one."""

    part: str
    call: Callable[..., object]
    arguments: tuple[object, ...]


def run(tasks: Sequence[Task], workers: int) -> Iterator[tuple[int, Any]]:
    """Yields (index of the task, its result) as each is done; a task that raises, raises here."""
    if not tasks:
        return
    workers = min(workers, len(tasks))
    with ProcessPoolExecutor(workers, mp_context=_context(tasks), initializer=drop_lines_without_handler) as pool:
        running = {pool.submit(_called, task.call, task.arguments): index for index, task in enumerate(tasks)}
        try:
            for done in as_completed(running):
                yield running[done], done.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _context(tasks: Sequence[Task]) -> BaseContext:
    """Workers that are forks of one server, which has imported what the tasks are made of, and done nothing with it.

    This process cannot be forked itself: trio, Arrow and Hypothesis have threads and hooks that a fork would copy
    half-way. One that is spawned imports everything again, which takes seconds, and so would each of the next run.
    """
    if "forkserver" not in get_all_start_methods():
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload(sorted({task.call.__module__ for task in tasks}))
    return context


def _called(call: Callable[..., object], arguments: tuple[object, ...]) -> object:
    """One task, in a worker, which has loaded by now what it needs."""
    _collect_seldom()
    return call(*arguments)


@cache
def _collect_seldom() -> None:
    """Collect garbage seldom, and never look again at what is loaded: a tenth of a simulation's time went there."""
    gc.collect()
    gc.freeze()
    # Hypothesis, if it is loaded later, takes trio's generator for garbage: nobody is seen to refer to what is frozen.
    warnings.filterwarnings("ignore", message="It looks like `register_random`")
    gc.set_threshold(50_000, 20, 100)
