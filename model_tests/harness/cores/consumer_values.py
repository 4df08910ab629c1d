"""The fields of a consumer group's records, as Kafka's schemas have them: a value is read to its end, and no further.

A reader that stops where it knows enough does not notice what else is there, or is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tidegauge.impl.coordinators.fields import INT64, FieldReader
from tidegauge.impl.coordinators.groups.consumer.records import (
    CURRENT,
    EXPRESSION,
    GROUP_EPOCH,
    MEMBER,
    MEMBER_TARGET,
    TARGET_EPOCH,
    replayed,
)
from tidegauge.impl.coordinators.groups.consumer.state import ConsumerGroup
from tidegauge.impl.coordinators.groups.record_formats import ConsumerKey, GroupRecord, decode_key

Tags = dict[int, bytes]


def check_values(records: tuple[GroupRecord, ...]) -> None:
    """Raises AssertionError or RecordError for a record with more or with fewer fields than its kind has."""
    for record in records:
        key = decode_key(record.key)
        if record.value is None or not isinstance(key, ConsumerKey):
            continue
        fields = FieldReader(record.value)
        fields.int16()
        READERS[key.kind](fields)
        assert fields.position == len(record.value), f"{record} has {len(record.value) - fields.position} bytes more"
        if key.kind == MEMBER:
            _check_expression(key, record.value)


def forgets_what_is_deleted(group: ConsumerGroup) -> None:
    """A tombstone of what a member has, or of the target, leaves what there was before the first such record."""
    gone = replayed(group, ConsumerKey(TARGET_EPOCH, group.group_id), None)
    found = None if gone is None else (gone.target_epoch, gone.target_ms)
    assert found == (0, 0), f"the target is of {found} after its tombstone"
    for name in group.members:
        after = replayed(group, ConsumerKey(CURRENT, group.group_id, name), None)
        assert after is not None, "it has members"
        wanted: tuple[object, ...] = (0, 0, {}, {}, False)
        assert after.members[name].current == wanted, f"{name} has {after.members[name].current} after its tombstone"


def _check_expression(key: ConsumerKey, value: bytes) -> None:
    """A member whose record has no expression has an empty one."""
    fields = FieldReader(value)
    fields.int16()
    for _ in range(4):
        _string(fields)
    _array(fields, _string)
    wanted = _string(fields) or ""
    known = replayed(None, key, value)
    assert known is not None, "it has a member"
    found = known.members[key.member_id].expression
    assert found == wanted, f"the expression {found!r} is read of a record, and not {wanted!r}"


def _array(fields: FieldReader, read: Callable[[FieldReader], object]) -> None:
    for _ in range(fields.count(compact=True)):
        read(fields)


def _string(fields: FieldReader) -> object:
    return fields.nullable_string(compact=True)


def _tags(fields: FieldReader) -> Tags:
    return dict(fields.tagged_fields())


def _epoch(fields: FieldReader) -> None:
    """And, in a tag, a hash or a time."""
    fields.int32()
    assert all(tag == 0 and len(data) == INT64.size for tag, data in _tags(fields).items()), "it has other tags"


def _protocol(fields: FieldReader) -> None:
    _string(fields)
    fields.bytes_of(fields.count(compact=True))
    _tags(fields)


def _classic(data: bytes) -> None:
    fields = FieldReader(data)
    fields.bytes_of(1)
    fields.int32()
    _array(fields, _protocol)
    _tags(fields)
    assert fields.position == len(data), "what a classic member says has another end"


def _member(fields: FieldReader) -> None:
    for _ in range(4):
        _string(fields)
    _array(fields, _string)
    _string(fields)
    fields.int32()
    _string(fields)
    for data in _tags(fields).values():
        _classic(data)


def _partitions(fields: FieldReader) -> None:
    fields.bytes_of(16)
    count = fields.count(compact=True)
    fields.bytes_of(4 * count)
    for data in _tags(fields).values():
        epochs = FieldReader(data)
        assert epochs.count(compact=True) == count, "as many epochs as partitions"
        epochs.bytes_of(4 * count)
        assert epochs.position == len(data), "epochs have another end"


def _current(fields: FieldReader) -> None:
    fields.int32()
    fields.int32()
    fields.bytes_of(1)
    _array(fields, _partitions)
    _array(fields, _partitions)
    _tags(fields)


def _target(fields: FieldReader) -> None:
    _array(fields, _partitions)
    _tags(fields)


def _matched(fields: FieldReader) -> None:
    _array(fields, _string)
    fields.int64()
    fields.int64()
    _tags(fields)


READERS: Final[Mapping[int, Callable[[FieldReader], None]]] = {
    GROUP_EPOCH: _epoch,
    MEMBER: _member,
    TARGET_EPOCH: _epoch,
    MEMBER_TARGET: _target,
    CURRENT: _current,
    EXPRESSION: _matched,
}
