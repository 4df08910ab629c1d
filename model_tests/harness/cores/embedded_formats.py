"""Subscriptions and assignments of every version, as consumers write them, beside what the coordinator reads of them.

A subscription has what its member owns from version 1 on, the generation of that from 2 on, and a rack from 3 on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from tidegauge.impl.coordinators.fields import INT16, INT32, encode_string
from tidegauge.impl.coordinators.groups.classic.subscriptions import MOST_TOPICS, subscribed_topics
from tidegauge.impl.coordinators.groups.migration.embedded import (
    MOST_PLACES,
    NamedPlace,
    Subscription,
    encode_assignment,
    read_assignment,
    read_subscription,
    version_of,
    without_owned,
)
from tidegauge.impl.records.batches import CorruptRecordError, InvalidRecordError, RecordError

HIGHEST: Final = 3
OWNED: Final[tuple[NamedPlace, ...]] = (("a", 0), ("a", 2), ("b", 1))
TOPICS: Final = ("a", "b", "c")
ASSIGNORS_OWN: Final = (None, b"", b"12345678")
"""What the assignor of a client adds for its own use; None: nothing at all, as null."""


def places(owned: Iterable[NamedPlace]) -> bytes:
    """Partitions by topic."""
    by_topic: dict[str, list[int]] = {}
    for topic, index in owned:
        by_topic.setdefault(topic, []).append(index)
    parts = [INT32.pack(len(by_topic))]
    for topic, indexes in by_topic.items():
        parts += encode_string(topic), INT32.pack(len(indexes)), *map(INT32.pack, indexes)
    return b"".join(parts)


def _bytes(data: bytes | None) -> bytes:
    return INT32.pack(-1) if data is None else INT32.pack(len(data)) + data


def said(version: int, own: bytes | None, owned: Sequence[NamedPlace], generation: int) -> bytes:
    """A subscription of this version."""
    data = INT16.pack(version) + INT32.pack(len(TOPICS)) + b"".join(map(encode_string, TOPICS)) + _bytes(own)
    data += places(owned) if version >= 1 else b""
    data += INT32.pack(generation) if version >= 2 else b""
    return data + (encode_string("rack") if version >= HIGHEST else b"")


def reads_every_version() -> None:
    """Raises AssertionError where something else is read, or written, than what is said."""
    for version in range(HIGHEST + 2):
        for own in ASSIGNORS_OWN:
            data, nothing = said(version, own, OWNED, 7), said(version, own, (), -1)
            wanted = Subscription(version, frozenset(TOPICS), frozenset(OWNED if version else ()))
            _check(read_subscription(data), wanted, f"a subscription of version {version}")
            _check(without_owned(data), nothing, f"a subscription of version {version} without what is owned")
            if version < HIGHEST:  # nobody reads the rack
                _check(without_owned(data[:-1]), data[:-1], "what is no subscription, without what is owned")
            _check(version_of(data), version, "the version of a subscription")
            _check(subscribed_topics([data, nothing]), frozenset(TOPICS), "what two members subscribe to")
    _check((version_of(b""), version_of(b"\0"), version_of(INT16.pack(2))), (0, 0, 2), "the version of what is short")
    for version in range(-2, HIGHEST + 3):
        head = INT16.pack(max(0, min(version, HIGHEST)))
        data = head + places(OWNED) + INT32.pack(-1)
        _check(encode_assignment(reversed(OWNED), version), data, f"an assignment of version {version}")
        _check(read_assignment(data), frozenset(OWNED), f"an assignment of version {version}")
    _check(read_assignment(b""), frozenset(), "the assignment of who was left out")
    refuses_too_many()


def refuses_too_many() -> None:
    """What has too many topics or partitions is not read to its end, and what has as many as may be is."""
    few = INT32.pack(3) + encode_string("a") + INT32.pack(-1) + encode_string("b") + INT32.pack(0) + encode_string("c")
    for count, error in ((MOST_PLACES - 3, CorruptRecordError), (MOST_PLACES - 2, InvalidRecordError)):
        _refused(read_assignment, INT16.pack(0) + few + INT32.pack(count), error, f"{count} partitions")
    for count, error in ((MOST_TOPICS, CorruptRecordError), (MOST_TOPICS + 1, InvalidRecordError)):
        _refused(read_subscription, INT16.pack(0) + INT32.pack(count), error, f"{count} topics")
    _check(subscribed_topics([b""]), None, "what a member subscribes to that does not say so")


def _refused(read: Callable[[bytes], object], data: bytes, error: type[RecordError], what: str) -> None:
    found: object = None
    try:
        found = read(data)
    except RecordError as refused:
        found = type(refused)
    _check(found, error, f"what is told of {what}")


def _check(found: object, wanted: object, what: str) -> None:
    assert found == wanted, f"{what} is {found!r}, and not {wanted!r}"
