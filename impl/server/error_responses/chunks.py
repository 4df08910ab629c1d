"""Error responses to requests of many elements, made in slices."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

from tidegauge.impl.server.pace import ELEMENT, Pace

Q = TypeVar("Q")
R = TypeVar("R")

CHUNK = 64
"""Elements for which a response is made at once."""


async def in_chunks(pace: Pace, request: Q, field: str, respond: Callable[[Q], R], into: str) -> R:
    """What `respond` makes of a request, made of some elements of the array `field` at a time.

    Each of them has one element in the array `into` of the response.
    """
    message: Any = request
    items = getattr(message, field)
    if len(items) <= CHUNK:
        return respond(request)
    found: list[Any] = []
    for start in range(0, len(items), CHUNK):
        part: Any = respond(dataclasses.replace(message, **{field: items[start : start + CHUNK]}))
        found += getattr(part, into)
        await pace.did(ELEMENT * CHUNK)
    whole: R = dataclasses.replace(part, **{into: tuple(found)})
    return whole
