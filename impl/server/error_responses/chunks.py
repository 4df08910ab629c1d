"""Error responses to requests of many elements, made in slices.

An API's error response (`error_responses.table`) says one thing of each element of its request, and in their order. So
it can be made of some elements at a time: of those of an array, or, where one of these has many elements itself, of
those in it. The parts are put together again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs

from tidegauge.impl.records.slices import Sliced
from tidegauge.impl.server.pace import ELEMENT, Pace
from tidegauge.impl.wire.message_classes import arrays_of

if TYPE_CHECKING:
    from kio.schema.errors import ErrorCode

Q = TypeVar("Q")
R = TypeVar("R")

CHUNK = 64
"""Elements for which a response is made at once."""
_UNNAMED: Final = frozenset({"ops"})
"""Arrays that stand beside another one, and that no response says anything of."""


async def refused(
    pace: Pace, request: Q, error_response: Callable[[Q, ErrorCode, str], R], error: ErrorCode, message: str = ""
) -> R:
    """The error response to a request, made in slices."""
    return await pace.finish(refusing(request, lambda some: error_response(some, error, message)))


def refusing(request: Any, respond: Callable[[Any], R], depth: int = 0) -> Sliced[R]:
    """What `respond` makes of a request, as work in slices; at depth 1 of an element of its array, and so on."""
    if attrs.has(request.__class__):
        return respond(request)  # Produce and Fetch: what is said of their partitions is quickly said
    arrays = [name for name in arrays_of(request.__class__) if name not in _UNNAMED]
    items: Sequence[Any] = (getattr(request, arrays[0]) or ()) if len(arrays) == 1 else ()
    if not items:
        return respond(request)
    found: list[R] = []
    some: list[Any] = []
    weight = 0

    def of_some() -> R:
        made = respond(dataclasses.replace(request, **{arrays[0]: tuple(some)}))
        some.clear()
        return made

    for item in items:
        inner = _elements_of(item)
        if inner <= CHUNK:
            some.append(item)
            weight += 1 + inner
            if weight < CHUNK:
                continue
        if some:
            found.append(of_some())
        if inner > CHUNK:
            found.append((yield from refusing(item, _within(request, arrays[0], respond), depth + 1)))
        yield ELEMENT * weight
        weight = 0
    if some:
        found.append(of_some())
    return found[0] if len(found) == 1 else _joined(found, depth)


def _within(outer: Any, field: str, respond: Callable[[Any], R]) -> Callable[[Any], R]:
    """What responds to an element as the request does that has no other."""
    return lambda item: respond(dataclasses.replace(outer, **{field: (item,)}))


def _joined(parts: Sequence[Any], depth: int) -> Any:
    """One response out of those to parts of its request, which at a depth are parts of one element."""
    first = parts[0]
    arrays = [name for name in arrays_of(first.__class__) if getattr(first, name)]
    if not arrays:
        return first  # it says nothing of elements so deep
    if depth:
        (name,) = arrays
        return dataclasses.replace(first, **{name: (_joined([getattr(part, name)[0] for part in parts], depth - 1),)})
    joined = {name: tuple([item for part in parts for item in getattr(part, name)]) for name in arrays}
    return dataclasses.replace(first, **joined)


def _elements_of(item: Any) -> int:
    """How many elements the arrays in an element have, more than a chunk counted as any number above it."""
    count = 0
    for name in arrays_of(item.__class__):
        inner = getattr(item, name) or ()
        count += len(inner)
        for one in inner[:CHUNK]:
            if count > CHUNK:
                return count
            count += _elements_of(one)
    return count
