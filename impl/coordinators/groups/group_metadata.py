"""What the record of a group says: its generation, and who is in it, as the classic protocol writes it.

::

    version int16  0 to 4; 4 is flexible
    protocol type string, generation int32, protocol string or null, leader string or null
    time of the state int64                                        from version 2 on
    members: number int32, and of each
        member id, group instance id or null (from 3 on), client id, client host: strings
        rebalance timeout int32 (from 1 on), session timeout int32
        subscription, assignment: an int32 length and bytes

It is written as version 3, the highest that is not flexible, so that an older broker can read it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tidegauge.impl.coordinators.fields import INT16, INT32, INT64, FieldReader, encode_string
from tidegauge.impl.coordinators.groups.record_formats import NO_TIME, GroupRecord, encode_group_key
from tidegauge.impl.records.batches import InvalidRecordError

_WITH_REBALANCE_TIMEOUT: Final = 1
_WITH_STATE_TIME: Final = 2
_WITH_INSTANCE_ID: Final = 3
_FLEXIBLE: Final = 4
WRITTEN_VERSION: Final = _WITH_INSTANCE_ID


class GroupMember(NamedTuple):
    """A member, as the coordinator has written it down."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class GroupMetadata(NamedTuple):
    """A group, as the coordinator has written it down."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_time: int
    """When it came to be in its present state, in ms since 1970; -1 if that is not known."""
    members: tuple[GroupMember, ...]


def decode_group_metadata(value: bytes) -> GroupMetadata:
    """A group of any version.

    Raises CorruptRecordError, or InvalidRecordError for a version that Kafka does not have.
    """
    fields = FieldReader(value)
    version = fields.int16()
    if not 0 <= version <= _FLEXIBLE:
        raise InvalidRecordError(f"a group of version {version}: known are 0 to {_FLEXIBLE}")
    compact = version >= _FLEXIBLE
    return GroupMetadata(
        protocol_type=fields.string(compact=compact),
        generation=fields.int32(),
        protocol=fields.nullable_string(compact=compact),
        leader=fields.nullable_string(compact=compact),
        state_time=fields.int64() if version >= _WITH_STATE_TIME else NO_TIME,
        members=tuple(_member(fields, version) for _ in range(fields.count(compact=compact))),
    )


def _member(fields: FieldReader, version: int) -> GroupMember:
    compact = version >= _FLEXIBLE
    member_id = fields.string(compact=compact)
    instance_id = fields.nullable_string(compact=compact) if version >= _WITH_INSTANCE_ID else None
    client_id, client_host = fields.string(compact=compact), fields.string(compact=compact)
    rebalance_timeout_ms = fields.int32() if version >= _WITH_REBALANCE_TIMEOUT else None
    session_timeout_ms = fields.int32()
    member = GroupMember(
        member_id,
        instance_id,
        client_id,
        client_host,
        session_timeout_ms if rebalance_timeout_ms is None else rebalance_timeout_ms,
        session_timeout_ms,
        fields.bytes_of(fields.count(compact=compact)),
        fields.bytes_of(fields.count(compact=compact)),
    )
    if compact:
        dict(fields.tagged_fields())
    return member


def group_record(group: str, metadata: GroupMetadata) -> GroupRecord:
    """The record of a group."""
    return GroupRecord(encode_group_key(group), encode_group_metadata(metadata))


def encode_group_metadata(metadata: GroupMetadata) -> bytes:
    """A group. Raises ValueError for a text that is too long."""
    parts = [
        INT16.pack(WRITTEN_VERSION),
        encode_string(metadata.protocol_type),
        INT32.pack(metadata.generation),
        encode_string(metadata.protocol),
        encode_string(metadata.leader),
        INT64.pack(metadata.state_time),
        INT32.pack(len(metadata.members)),
    ]
    for member in metadata.members:
        texts = (member.member_id, member.instance_id, member.client_id, member.client_host)
        parts += map(encode_string, texts)
        parts += map(INT32.pack, (member.rebalance_timeout_ms, member.session_timeout_ms))
        for data in (member.subscription, member.assignment):
            parts += INT32.pack(len(data)), data
    return b"".join(parts)
