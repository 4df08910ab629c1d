"""The consumers' own bytes inside JoinGroup and SyncGroup, as far as a coordinator that assigns by itself has to know.

::

    subscription  version int16; topics: int32 number, strings; user data: int32 length, bytes
                  from version 1 on partitions owned: int32 number, and of each topic its name, int32 number, indexes
    assignment    version int16; partitions, as above; user data: int32 length, bytes, or -1

                  from version 2 on the generation in which it has owned them, int32; behind that a rack, which nobody
                  reads here
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias

from tidegauge.impl.coordinators.fields import INT16, INT32, FieldReader, encode_string
from tidegauge.impl.coordinators.groups.classic.subscriptions import MOST_TOPICS
from tidegauge.impl.records.batches import InvalidRecordError, RecordError

NamedPlace: TypeAlias = tuple[str, int]
"""A partition: the topic's name, and the index."""
MOST_PLACES: Final = 100_000
"""Of one member: to read more would keep the loop."""
_WITH_OWNED: Final = 1
_WITH_GENERATION: Final = 2
_HIGHEST_ASSIGNMENT: Final = 3
_NO_DATA: Final = INT32.pack(-1)


class Subscription(NamedTuple):
    """What a consumer says when it joins."""

    version: int
    topics: frozenset[str]
    owned: frozenset[NamedPlace] = frozenset()


def read_subscription(metadata: bytes) -> Subscription:
    """Raises RecordError for what no consumer says, or for more topics than anybody has."""
    fields = FieldReader(metadata)
    version = fields.int16()
    count = fields.count()
    if count > MOST_TOPICS:
        raise InvalidRecordError(f"{count} topics in a subscription: at most {MOST_TOPICS}")
    topics = frozenset(fields.string() for _ in range(count))
    fields.bytes_of(max(0, fields.count()))
    return Subscription(version, topics, _places(fields) if version >= _WITH_OWNED else frozenset())


def without_owned(metadata: bytes) -> bytes:
    """A subscription that says nothing of what its member owns: who has what is in the assignments.

    A static member that does not join again when its group goes back has said that as a member of a consumer group.
    What is no subscription stays as it is.
    """
    fields = FieldReader(metadata)
    try:
        version = fields.int16()
        for _ in range(fields.count()):
            fields.string()
        fields.bytes_of(max(0, fields.count()))
        begins = fields.position
        if version < _WITH_OWNED:
            return metadata
        _places(fields)
        generation = b"" if version < _WITH_GENERATION else _no_generation(fields)
    except RecordError:
        return metadata
    return metadata[:begins] + INT32.pack(0) + generation + metadata[fields.position :]


def _no_generation(fields: FieldReader) -> bytes:
    """In the place of the generation that is next."""
    fields.int32()
    return INT32.pack(-1)


def version_of(metadata: bytes) -> int:
    """The version of a subscription; 0 for what is none."""
    return FieldReader(metadata).int16() if len(metadata) >= INT16.size else 0


def read_assignment(data: bytes) -> frozenset[NamedPlace]:
    """The partitions of an assignment; none where the leader has left a member out. Raises RecordError."""
    if not data:
        return frozenset()
    fields = FieldReader(data)
    fields.int16()
    return _places(fields)


def _places(fields: FieldReader) -> frozenset[NamedPlace]:
    found, left = set[NamedPlace](), MOST_PLACES
    for _ in range(fields.count()):
        topic, count = fields.string(), fields.count()
        left -= 1 + max(0, count)
        if left < 0:
            raise InvalidRecordError(f"more than {MOST_PLACES} topics and partitions of one member")
        found.update((topic, fields.int32()) for _ in range(count))
    return frozenset(found)


def encode_assignment(places: Iterable[NamedPlace], version: int) -> bytes:
    """An assignment, in the version of its member's subscription."""
    by_topic: dict[str, list[int]] = defaultdict(list)
    for topic, index in sorted(places):
        by_topic[topic].append(index)
    parts = [INT16.pack(max(0, min(version, _HIGHEST_ASSIGNMENT))), INT32.pack(len(by_topic))]
    for topic, indexes in by_topic.items():
        parts += encode_string(topic), INT32.pack(len(indexes)), *map(INT32.pack, indexes)
    return b"".join((*parts, _NO_DATA))
