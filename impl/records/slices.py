"""Long work in slices, so that who drives it may let others run in between.

What may take long is written as a generator. It yields how much it has done since it last yielded, in units of about a
microsecond; or a function that needs nothing of the rest of the program, to be called apart from it, whose result is
sent back. The generator returns the result of the work. It knows nothing of tasks: `at_once` drives it without a pause,
`impl.server.pace` with pauses, a test step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")

Step: TypeAlias = int | Callable[[], Any]
"""Units done, or what is to be called apart."""
Sliced: TypeAlias = Generator[Step, Any, T]
"""Work in slices, and its result."""

UNIT_BYTES = 1024
"""Bytes that are decompressed, compressed or checked in about one unit."""


def at_once(work: Sliced[T]) -> T:
    """The result of work that is done without a pause."""
    result = None
    while True:
        try:
            step = work.send(result)
        except StopIteration as done:
            value: T = done.value
            return value
        result = None if isinstance(step, int) else step()
