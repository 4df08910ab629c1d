"""Kafka's primitive types, for building kio's messages.

kio declares its fields with phantom types, which check their bounds at every call (about 1.5 µs). Its writers check
the bounds once more when a message is encoded, so that here, at run time, the names stand for the plain types; a type
checker sees kio's own.
"""

from __future__ import annotations

from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Final
from uuid import UUID

if TYPE_CHECKING:
    from kio.schema.types import BrokerId, TopicName
    from kio.static.primitive import Records, f64, i8, i16, i32, i32Timedelta, i64, u16
else:
    i8 = i16 = i32 = i64 = u16 = BrokerId = int
    TopicName = str
    f64 = float

    def Records(data):  # noqa: N802
        """Any bytes-like object: the writers take it as it is."""
        return data


__all__ = [
    "NO_WAIT",
    "BrokerId",
    "Records",
    "TopicName",
    "f64",
    "i8",
    "i16",
    "i32",
    "i64",
    "millis",
    "to_millis",
    "topic_uuid",
    "u16",
]

_MILLISECOND: Final = timedelta(milliseconds=1)


@lru_cache(maxsize=256)
def millis(count: int) -> i32Timedelta:
    """A span of time as it stands in a message."""
    return timedelta(milliseconds=count)  # type: ignore[return-value]


def to_millis(span: i32Timedelta) -> int:
    """A message's span of time in milliseconds."""
    return span // _MILLISECOND


NO_WAIT: Final = millis(0)


@lru_cache(maxsize=4096)
def topic_uuid(topic_id: str) -> UUID:
    """A topic id from its canonical text."""
    return UUID(topic_id)
