"""The lines of a recording, as they are read: one class for each kind of operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import attrs

IDEMPOTENT = 1
"""This bit of a value: an idempotent producer has sent the record, and no two records of a partition have the value."""
TRANSACTIONAL = 2
"""This bit: it was sent in a transaction."""

Producer: TypeAlias = tuple[int, int, int]
"""Id, epoch, and sequence number of the first record."""
Operation: TypeAlias = tuple[int, int]
"""The number of a request, and of the operation in it."""


@attrs.define(eq=False)
class Sent:
    """A batch that a client has sent to a partition, once."""

    op: Operation
    process: int
    call: int
    returned: int | None
    topic: str
    partition: int
    acks: int
    values: tuple[int, ...]
    """What identifies each record; none where the batch could not be read."""
    producer: Producer | None
    transactional: bool
    error: int | None
    """Of the response; None without one."""
    offset: int | None


@attrs.define(eq=False)
class Fetched:
    """What a client was given of a partition."""

    op: Operation
    process: int
    call: int
    returned: int
    topic: str
    partition: int
    position: int | None
    """None where nobody knows from where on it asked."""
    isolation: int
    high_watermark: int
    last_stable_offset: int | None
    values: tuple[int, ...]
    offsets: tuple[int, ...]
    transactional: bool
    compacted: bool


@attrs.define(eq=False)
class Listed:
    """The end of a partition, as a client was told."""

    op: Operation
    process: int
    call: int
    returned: int
    topic: str
    partition: int
    isolation: int
    offset: int


@attrs.define(eq=False)
class Ended:
    """An attempt to end a producer's transaction."""

    op: Operation
    process: int
    call: int
    returned: int | None
    producer: tuple[int, int]
    commit: bool
    error: int | None


@attrs.define(eq=False)
class Committed:
    """An attempt to commit the offset of a group for a partition."""

    op: Operation
    process: int
    call: int
    returned: int | None
    group: str
    member: str | None
    generation: int | None
    producer: tuple[int, int] | None
    """Of a transaction."""
    topic: str
    partition: int
    offset: int
    metadata: str | None
    error: int | None


@attrs.define(eq=False)
class Found:
    """What a group has committed, as a client was told; no offset: nothing."""

    op: Operation
    process: int
    call: int
    returned: int
    group: str
    topic: str
    partition: int
    stable: bool
    offset: int | None
    metadata: str | None


@attrs.define(eq=False)
class Assigned:
    """What a member of a group was told to consume."""

    op: Operation
    process: int
    call: int
    returned: int
    group: str
    member: str
    generation: int
    protocol: str
    topics: dict[str, tuple[int, ...]]


@attrs.define(eq=False)
class Remark:
    """What is no operation: a topic that is compacted (`topic`), or what passed unread (`text`)."""

    op: Operation
    topic: str | None
    text: str | None
    sends: bool = False
    """Whether records may have been sent that nobody has read."""


Line: TypeAlias = Sent | Fetched | Listed | Ended | Committed | Found | Assigned | Remark


def parse(fields: Mapping[str, Any]) -> Line:
    """A line's operation. Raises KeyError, TypeError or ValueError where it is none."""
    return PARSERS[fields["kind"]](fields)


def _of(fields: Mapping[str, Any]) -> tuple[Operation, int, int]:
    number, part = fields["op"]
    return (_int(number), _int(part)), _int(fields["process"]), _int(fields["call"])


def _int(value: Any) -> int:
    if type(value) is not int:
        raise ValueError(f"{value!r} is no integer")
    return value


def _optional(value: Any) -> int | None:
    return None if value is None else _int(value)


def _ints(values: Any) -> tuple[int, ...]:
    return tuple(map(_int, values))


def _pair(values: Any) -> tuple[int, int]:
    first, second = _ints(values)
    return first, second


def _where(fields: Mapping[str, Any]) -> tuple[str, int]:
    return str(fields["topic"]), _int(fields["partition"])


def _sent(fields: Mapping[str, Any]) -> Sent:
    producer = fields.get("producer")
    if producer is not None:
        identity, epoch, sequence = _ints(producer)
        producer = (identity, epoch, sequence)
    return Sent(
        *_of(fields),
        _optional(fields.get("return")),
        *_where(fields),
        _int(fields["acks"]),
        _ints(fields.get("values", ())),
        producer,
        bool(fields.get("transactional")),
        _optional(fields.get("error")),
        _optional(fields.get("offset")),
    )


def _fetched(fields: Mapping[str, Any]) -> Fetched:
    values, offsets = _ints(fields.get("values", ())), fields.get("offsets", ())
    placed = tuple(range(offsets, offsets + len(values))) if type(offsets) is int else _ints(offsets)
    if len(placed) != len(values):
        raise ValueError(f"{len(values)} values at {len(placed)} offsets")
    return Fetched(
        *_of(fields),
        _int(fields["return"]),
        *_where(fields),
        _optional(fields.get("position")),
        _int(fields["isolation"]),
        _int(fields["high_watermark"]),
        _optional(fields.get("last_stable_offset")),
        values,
        placed,
        bool(fields.get("transactional")),
        bool(fields.get("compacted")),
    )


def _listed(fields: Mapping[str, Any]) -> Listed:
    return Listed(
        *_of(fields), _int(fields["return"]), *_where(fields), _int(fields["isolation"]), _int(fields["offset"])
    )


def _ended(fields: Mapping[str, Any]) -> Ended:
    return Ended(
        *_of(fields),
        _optional(fields.get("return")),
        _pair(fields["producer"]),
        bool(fields["commit"]),
        _optional(fields.get("error")),
    )


def _committed(fields: Mapping[str, Any]) -> Committed:
    producer = fields.get("producer")
    return Committed(
        *_of(fields),
        _optional(fields.get("return")),
        str(fields["group"]),
        fields.get("member"),
        _optional(fields.get("generation")),
        None if producer is None else _pair(producer),
        *_where(fields),
        _int(fields["offset"]),
        fields.get("metadata"),
        _optional(fields.get("error")),
    )


def _found(fields: Mapping[str, Any]) -> Found:
    return Found(
        *_of(fields),
        _int(fields["return"]),
        str(fields["group"]),
        *_where(fields),
        bool(fields.get("stable")),
        _optional(fields.get("offset")),
        fields.get("metadata"),
    )


def _assigned(fields: Mapping[str, Any]) -> Assigned:
    return Assigned(
        *_of(fields),
        _int(fields["return"]),
        str(fields["group"]),
        str(fields["member"]),
        _int(fields["generation"]),
        str(fields.get("protocol", "classic")),
        {str(topic): _ints(partitions) for topic, partitions in fields["topics"].items()},
    )


def _compacted(fields: Mapping[str, Any]) -> Remark:
    return Remark(_of(fields)[0], str(fields["topic"]), None)


def _unread(fields: Mapping[str, Any]) -> Remark:
    text = f"{fields['api']} {fields['version']}: {fields['why']}"
    return Remark(_of(fields)[0], None, text, sends=fields["api"] == "PRODUCE")


PARSERS: dict[str, Callable[[Mapping[str, Any]], Line]] = {
    "produce": _sent,
    "fetch": _fetched,
    "list_offsets": _listed,
    "end": _ended,
    "commit_offsets": _committed,
    "read_offsets": _found,
    "assign": _assigned,
    "compacted": _compacted,
    "unread": _unread,
}
