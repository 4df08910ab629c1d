"""A message of any class with something in each of its fields."""

from __future__ import annotations

import dataclasses
import typing
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from impl.wire.versions import _is_array, _nested

SAMPLES: dict[str, Any] = {
    "string": "s",
    "bytes": b"b",
    "records": None,
    "uuid": UUID("12345678-1234-4234-8234-123456789abc"),
    "bool": True,
    "float64": 1.5,
    "error_code": ErrorCode.none,
    "timedelta_i32": timedelta(milliseconds=7),
    "timedelta_i64": timedelta(milliseconds=7),
    "datetime_i64": datetime.fromtimestamp(1_700_000_000, UTC),
}
"""Values by Kafka's type; of the whole numbers it is 1."""


@cache
def sample(message_class: type) -> Any:
    """A message with two items in each array of structures or plain values; plain values in it differ."""
    hints = typing.get_type_hints(message_class)
    return message_class(
        **{field.name: _value(field, hints[field.name]) for field in dataclasses.fields(message_class)}
    )


def _value(field: dataclasses.Field[Any], hint: Any) -> Any:
    nested = _nested(hint)
    if nested is not None:
        one = sample(nested)
        return (one, _another(one)) if _is_array(hint) else one
    kind = str(field.metadata.get("kafka_type", ""))
    value = SAMPLES.get(kind, 1)
    if not _is_array(hint):
        return value
    return {"string": ("s", "t"), "uuid": (value,)}.get(kind, (1, 2))


def _another(item: Any) -> Any:
    """The item under other names and numbers."""
    changed = {
        field.name: changed_value
        for field in dataclasses.fields(item)
        if (changed_value := _other(getattr(item, field.name))) is not None
    }
    return dataclasses.replace(item, **changed)


def _other(value: Any) -> Any:
    if isinstance(value, str):
        return value + "2"
    return value + 1 if type(value) is int else None
