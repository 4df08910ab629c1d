"""A message of any class with something in each of its fields."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from tidegauge.impl.wire.message_classes import is_array, nested_class

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


def sample(message_class: type, values: Mapping[str, Any] | None = None) -> Any:
    """A message with two items in each array of structures or plain values, told apart by their names and numbers.

    `values` replaces samples, by Kafka's type.
    """
    samples = {**SAMPLES, **(values or {})}
    hints = typing.get_type_hints(message_class)
    return message_class(
        **{field.name: _value(field, hints[field.name], samples) for field in dataclasses.fields(message_class)}
    )


def _value(field: dataclasses.Field[Any], hint: Any, samples: Mapping[str, Any]) -> Any:
    nested = nested_class(hint)
    if nested is not None:
        one = sample(nested, samples)
        return (one, _another(one)) if is_array(hint) else one
    value = samples.get(str(field.metadata.get("kafka_type", "")), 1)
    if not is_array(hint):
        return value
    other = _other(value)
    return (value,) if other is None else (value, other)


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
