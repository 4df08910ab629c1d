"""What consumers tell each other through JoinGroup and SyncGroup: subscriptions and assignments, as bytes.

Theory of operation
-------------------
Both begin with a version, an int16; a reader takes of a later version what it knows of its own. All numbers are big
endian; a string has an int16 length, bytes and lists have an int32 one; -1 is null.

    Subscription    topics: list of string; user data: bytes
      from 1 on     owned: list of (topic, list of int32)
      from 2 on     generation: int32
      from 3 on     rack: string (KIP-881)
    Assignment      partitions: list of (topic, list of int32); user data: bytes

Where a client has no place for what it owned (version 0, or the sticky assignor, whose members have given everything
back), it is in the user data: a list of (topic, list of int32), and from version 1 of those on the generation. A
cooperative client of version 1 has the generation alone there.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from tidegauge.impl.client.assignors.subscription import NO_GENERATION, Partition, Subscription

CONSUMER: Final = "consumer"
"""The protocol type of consumers."""
VERSION: Final = 3
OWNED_FROM: Final = 1
GENERATION_FROM: Final = 2
RACK_FROM: Final = 3


NULL_STRING: Final = struct.pack(">h", -1)


class MalformedError(ValueError):
    """What a member says cannot be read."""


class _Fields:
    """Fields, read one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, size: int) -> bytes:
        if not 0 <= size <= self.left:
            raise MalformedError(f"{size} bytes are said to follow, and there are {self.left}")
        self._at += size
        return self._data[self._at - size : self._at]

    def int16(self) -> int:
        return int(struct.unpack(">h", self.take(2))[0])

    def int32(self) -> int:
        return int(struct.unpack(">i", self.take(4))[0])

    def string(self) -> str:
        try:
            return self.take(self.int16()).decode()
        except UnicodeDecodeError as error:
            raise MalformedError(f"a name is no text: {error}") from error

    def nullable_string(self) -> str:
        """A string; null is an empty one."""
        if self._data[self._at : self._at + 2] == NULL_STRING:
            self._at += 2
            return ""
        return self.string()

    def data(self) -> bytes:
        """Bytes; null is none."""
        size = self.int32()
        return self.take(size) if size > 0 else b""

    def partitions(self) -> tuple[Partition, ...]:
        found: list[Partition] = []
        for _ in range(self.int32()):
            topic = self.string()
            found += [(topic, self.int32()) for _ in range(self.int32())]
        return tuple(found)


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def _bytes(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def _partitions(partitions: Iterable[Partition]) -> bytes:
    by_topic: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        by_topic.setdefault(topic, []).append(number)
    parts = [struct.pack(">i", len(by_topic))]
    for topic, numbers in by_topic.items():
        parts += [_string(topic), struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)]
    return b"".join(parts)


def subscription_bytes(said: Subscription, *, in_user_data: bool = False) -> bytes:
    """What a member says of itself; `in_user_data`: what it owned is given back, so that it is no claim to own it.

    Who is in no rack says null.
    """
    had = _partitions(said.owned) + struct.pack(">i", said.generation) if in_user_data else b""
    topics = [_string(topic) for topic in sorted(said.topics)]
    return b"".join(
        (
            struct.pack(">hi", VERSION, len(topics)),
            *topics,
            _bytes(had),
            _partitions(() if in_user_data else said.owned),
            struct.pack(">i", said.generation),
            _string(said.rack) if said.rack else NULL_STRING,
        )
    )


def subscription_of(data: bytes, instance_id: str | None = None) -> Subscription:
    """What a member says of itself. Raises MalformedError."""
    fields = _Fields(data)
    version = fields.int16()
    if version < 0:
        raise MalformedError(f"the version of a subscription is {version}")
    topics = tuple(fields.string() for _ in range(fields.int32()))
    user_data = fields.data()
    owned = fields.partitions() if version >= OWNED_FROM else ()
    generation = fields.int32() if version >= GENERATION_FROM else NO_GENERATION
    rack = fields.nullable_string() if version >= RACK_FROM else ""
    if not owned or version < GENERATION_FROM:
        owned, generation = _had(user_data, owned, generation)
    return Subscription(topics, owned, generation, instance_id, rack)


def _had(user_data: bytes, owned: tuple[Partition, ...], generation: int) -> tuple[tuple[Partition, ...], int]:
    """What a member owned and when, by its user data; other clients may have anything there."""
    fields = _Fields(user_data)
    try:
        if fields.left == 4:
            return owned, fields.int32()
        had = fields.partitions()
        since = fields.int32() if fields.left else NO_GENERATION
    except MalformedError:
        return owned, generation
    return (owned, max(since, generation)) if owned else (had, since)


def assignment_bytes(partitions: Iterable[Partition]) -> bytes:
    """What a member is given."""
    return struct.pack(">h", VERSION) + _partitions(partitions) + _bytes(b"")


def assignment_of(data: bytes) -> tuple[Partition, ...]:
    """What a member is given; nothing where there are no bytes. Raises MalformedError."""
    if not data:
        return ()
    fields = _Fields(data)
    version = fields.int16()
    if version < 0:
        raise MalformedError(f"the version of an assignment is {version}")
    return fields.partitions()
