"""The error codes in a response, wherever it has them: of the request as a whole, of each item.

Kafka's responses do the same by their method `errorCounts`.
"""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from tidegauge.impl.records.slices import Sliced
from tidegauge.impl.wire.message_classes import field_types, is_array, nested_class


def finding_error(response: Any, error: ErrorCode) -> Sliced[bool]:
    """Whether one of kio's messages has this error code, in itself or in a message within it; one unit a message."""
    kind: type = type(response)
    fields = _fields(kind)
    for name in fields.codes:
        if getattr(response, name) is error:
            return True
    for name in fields.messages:
        value = getattr(response, name)
        if value is not None and (yield from finding_error(value, error)):
            return True
    for name in fields.arrays:
        for item in getattr(response, name) or ():
            yield 1
            if (yield from finding_error(item, error)):
                return True
    return False


class _Fields(NamedTuple):
    """The fields of a class in which there may be an error code."""

    codes: list[str]
    messages: list[str]
    arrays: list[str]


@cache
def _fields(message_class: type) -> _Fields:
    found = _Fields([], [], [])
    hints = field_types(message_class)
    for field in dataclasses.fields(message_class):
        nested = nested_class(hints[field.name])
        if nested is None:
            if field.metadata.get("kafka_type") == "error_code":
                found.codes.append(field.name)
        elif any(_fields(nested)):
            (found.arrays if is_array(hints[field.name]) else found.messages).append(field.name)
    return found
