"""Requests of every API that are well-formed and mean nothing: the ends of each number, odd names, nulls, doubles."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from tidegauge.impl.wire.message_classes import is_array, is_optional, nested_class

NAMES: Sequence[str] = (
    "",
    "t",
    "t",
    "x" * 249,
    "x" * 250,
    "x" * 32_000,
    "é中\U0001f600",
    "a\0b",
    "..",
    "a.b",
    "a_b",
    "/etc/passwd",
    "*",
    "__cluster_metadata",
    "User:ANONYMOUS",
    "-1",
    "9" * 20,
)


def odd_values(topic_id: UUID) -> Mapping[str, Sequence[Any]]:
    """Values by Kafka's type; the topic `t` with this id is there."""
    milliseconds = [timedelta(milliseconds=n) for n in (0, -1, 5, (1 << 31) - 1)]
    return {
        **{f"int{bits}": _ends_of(bits) for bits in (8, 16, 32, 64)},
        "uint16": (0, 1, (1 << 16) - 1),
        "string": NAMES,
        "bytes": (b"", b"x", bytes(1000)),
        "records": (None, b"", bytes(61), b"\xff" * 200),
        "bool": (True, False),
        "float64": (0.0, -1.0, 1e308, float("inf"), float("nan"), 5e-324),
        "uuid": (None, UUID(int=1), UUID(int=(1 << 128) - 1), topic_id, topic_id),
        "error_code": (ErrorCode.none,),
        "timedelta_i32": (*milliseconds, timedelta(milliseconds=-(1 << 31))),
        "timedelta_i64": (*milliseconds, timedelta(days=36_500), timedelta.min, timedelta.max),
        "datetime_i64": (datetime.fromtimestamp(0, UTC), datetime.fromtimestamp(1_700_000_000, UTC)),
    }


def _ends_of(bits: int) -> Sequence[int]:
    return (0, 1, -1, 2, -2, 3, 7, 100, -(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def odd_request(message_class: type, rng: Random, values: Mapping[str, Sequence[Any]]) -> Any:
    """A message of this class with values that are drawn."""
    hints = typing.get_type_hints(message_class)
    return message_class(
        **{field.name: _drawn(field, hints[field.name], rng, values) for field in dataclasses.fields(message_class)}
    )


def _drawn(field: dataclasses.Field[Any], hint: Any, rng: Random, values: Mapping[str, Sequence[Any]]) -> Any:
    if is_optional(hint) and rng.random() < 0.15:
        return None
    if not is_array(hint):
        return next(_items(field, hint, rng, values))
    count = rng.choice((0, 1, 1, 2, 3))
    drawn = [item for item, _ in zip(_items(field, hint, rng, values), range(count), strict=False)]
    if count > 1 and rng.random() < 0.3:
        drawn[1] = drawn[0]
    return tuple(drawn)


def _items(field: dataclasses.Field[Any], hint: Any, rng: Random, values: Mapping[str, Sequence[Any]]) -> Iterator[Any]:
    nested = nested_class(hint)
    while True:
        kind = str(field.metadata.get("kafka_type", ""))
        yield rng.choice(values.get(kind, (0,))) if nested is None else odd_request(nested, rng, values)
