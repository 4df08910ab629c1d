"""Run tasks on Spark, and say in one line what went wrong."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from tidegauge.spark_check.converting import Failed
from tidegauge.spark_check.errors import BadInput, CannotRun

if TYPE_CHECKING:
    from pyspark import RDD

T = TypeVar("T")

MOST = 2_000
"""How many tasks a stage has whose results are of some size each: they are all on the driver at once."""
NAMED = 3
"""How many files of a task are named."""


def succeed(tasks: RDD[T | Failed], about: Sequence[Iterable[str]] = ()) -> list[T]:
    """Run all `tasks`, then raise BadInput with the message of the first that failed.

    `about` has the files that each task reads, so that CannotRun names them where a worker ends without a word; one
    item alone is about all tasks.
    """
    try:
        results = tasks.collect()
    except Exception as error:
        raise CannotRun(
            f"Spark failed: {first_line(error)}.{_whose(str(error), about)} What is done is kept: --resume continues "
            "from there"
        ) from error
    failed = [result.message for result in results if isinstance(result, Failed)]
    if failed:
        more = f" (and {len(failed) - 1} more like it)" if len(failed) > 1 else ""
        raise BadInput(f"{failed[0]}{more}")
    return [result for result in results if not isinstance(result, Failed)]


def _whose(error: str, about: Sequence[Iterable[str]]) -> str:
    """Which files the task was about by whose number Spark tells of a failure."""
    found = re.search(r"Task (\d+) in stage", error)
    if found is None or not about:
        return ""
    number = 0 if len(about) == 1 else int(found[1])
    files = sorted(set(about[number])) if number < len(about) else []
    if not files:
        return ""
    more = f" and {len(files) - NAMED} more" if len(files) > NAMED else ""
    return f" It was about {', '.join(files[:NAMED])}{more}."


def chunks(items: Sequence[T], size: int = 1) -> list[Sequence[T]]:
    """The items in chunks of at least `size`, MOST chunks at most."""
    size = max(size, -(-len(items) // MOST))
    return [items[at : at + size] for at in range(0, len(items), size)]


@cache
def spare_collections(loaded: bool) -> None:
    """Leave all objects of this worker out of collections of garbage, once, and once more when code is `loaded`.

    Spark collects after each task, which takes 50 ms where numba is loaded, and finds next to nothing.
    """
    gc.freeze()


def first_line(error: Exception) -> str:
    """The line that says what happened: Spark's exceptions carry the tracebacks of two languages."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    python = [line for line in lines if re.match(r"[\w.]+(Error|Exception): ", line)]
    return (python or lines or [type(error).__name__])[0]
