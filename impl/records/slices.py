"""Long work in slices, so that who drives it may let others run in between.

What may take long is written as a generator. It yields how much it has done since it last yielded, in units of about a
microsecond; or a function that needs nothing of the rest of the program, to be called apart from it, whose result is
sent back. The generator returns the result of the work. It knows nothing of tasks: `at_once` drives it without a pause,
`impl.server.pace` with pauses, a test step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any, Final, TypeAlias, TypeVar

T = TypeVar("T")
R = TypeVar("R")

Step: TypeAlias = int | Callable[[], Any]
"""Units done, or what is to be called apart."""
Sliced: TypeAlias = Generator[Step, Any, T]
"""Work in slices, and its result."""

UNIT_BYTES = 1024
"""Bytes that are decompressed, compressed or checked in about one unit."""
STEP: Final = 64
"""Elements after which work in slices takes a step."""
ELEMENT: Final = 8
"""Units for one element of a request, from its bytes to those of its response, unless its handler says more."""


def at_once(work: Sliced[T]) -> T:
    """The result of work that is done without a pause."""
    result = None
    while True:
        try:
            step = work.send(result)
        except StopIteration as end:
            value: T = end.value
            return value
        result = None if isinstance(step, int) else step()


def done(result: T) -> Sliced[T]:
    """Work that is done already."""
    return result
    yield


def mapped(items: Iterable[T], make: Callable[[T], R], units: int = ELEMENT) -> Sliced[tuple[R, ...]]:
    """What a function makes of each of the items, which takes so many units."""
    made: list[R] = []
    for item in items:
        made.append(make(item))
        if not len(made) % STEP:
            yield STEP * units
    if rest := len(made) % STEP:
        yield rest * units
    return tuple(made)


def mapped_in_slices(items: Iterable[T], work: Callable[[T], Sliced[R]], units: int = ELEMENT) -> Sliced[tuple[R, ...]]:
    """What comes of work on each of the items, which takes so many units besides those that the work tells itself."""
    made: list[R] = []
    for item in items:
        made.append((yield from work(item)))
        if not len(made) % STEP:
            yield STEP * units
    if rest := len(made) % STEP:
        yield rest * units
    return tuple(made)
