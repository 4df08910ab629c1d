"""The records of `__consumer_offsets`: what a key and a value say, as Kafka's bytes.

A key and a value begin with a version, an int16. A key's version says what kind of record it is::

    0, 1  offset   group string, topic string, partition int32
    2     group    group string
    3, 5, 6, 7, 8, 16  of a consumer group: `consumer.records`

    value of an offset                                           value of a group: `group_metadata`
    0, 2  offset int64, metadata string, commit time int64
    1     the same, and then expire time int64
    3     offset int64, leader epoch int32, metadata string, commit time int64
    4     the same with compact strings and tagged fields

Strings have an int16 length, compact ones a varint of length + 1. A record without a value is a tombstone. Offsets are
written as version 3, and as version 1 where a client has asked for a time of its own: in Kafka's words the highest
versions that are not flexible, so that an older broker can read them. Every version is read.

Keys of other versions are of share groups and streams groups, and of what a consumer group need not have written down;
a coordinator that loads the log leaves them alone.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tidegauge.impl.coordinators.fields import INT16, INT32, INT64, FieldReader, encode_string
from tidegauge.impl.records.batches import InvalidRecordError

OFFSET_KEYS: Final = (0, 1)
GROUP_KEY: Final = 2
CONSUMER_KINDS: Final = (3, 5, 6, 7, 8, 16)
"""The versions of the keys of consumer groups (KIP-848)."""
OWN_KINDS: Final = (5, 7, 8, 16)
"""Those whose keys have a member id, or, of the last one, a regular expression."""
OFFSET_KEY_VERSION: Final = 1
NO_TIME: Final = -1
NO_LEADER_EPOCH: Final = -1
_WITH_EXPIRY = 1
_WITH_LEADER_EPOCH = 3
_FLEXIBLE = 4


class OffsetKey(NamedTuple):
    """Whose offset of what."""

    group: str
    topic: str
    partition: int


class GroupKey(NamedTuple):
    """A group, whose record says who is in it."""

    group: str


class ConsumerKey(NamedTuple):
    """A record of a consumer group (`consumer.records`): its kind, and the member or the expression that it is of."""

    kind: int
    group: str
    member_id: str = ""


class OffsetValue(NamedTuple):
    """A committed offset, as a client has sent it."""

    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    commit_time: int = NO_TIME
    """ms since 1970."""
    expire_time: int = NO_TIME
    """ms since 1970, if the client has asked for a retention of its own (OffsetCommit up to version 4)."""


class GroupRecord(NamedTuple):
    """A record to append; without a value it is a tombstone."""

    key: bytes
    value: bytes | None


# --- keys ------------------------------------------------------------------------------------------------------------


def decode_key(key: bytes | None) -> OffsetKey | GroupKey | ConsumerKey | None:
    """What a record is of; None where it is of a kind that is not known here.

    Raises CorruptRecordError or InvalidRecordError.
    """
    if key is None:
        return None
    fields = FieldReader(key)
    version = fields.int16()
    if version in OFFSET_KEYS:
        return OffsetKey(fields.string(), fields.string(), fields.int32())
    if version in CONSUMER_KINDS:
        return ConsumerKey(version, fields.string(), fields.string() if version in OWN_KINDS else "")
    return GroupKey(fields.string()) if version == GROUP_KEY else None


def encode_offset_key(key: OffsetKey) -> bytes:
    """The key of an offset."""
    parts = (INT16.pack(OFFSET_KEY_VERSION), encode_string(key.group), encode_string(key.topic))
    return b"".join(parts) + INT32.pack(key.partition)


def encode_group_key(group: str) -> bytes:
    """The key of a group."""
    return INT16.pack(GROUP_KEY) + encode_string(group)


# --- values ----------------------------------------------------------------------------------------------------------


def decode_offset_value(value: bytes) -> OffsetValue:
    """A committed offset of any version.

    Raises CorruptRecordError, or InvalidRecordError for a version that Kafka does not have.
    """
    fields = FieldReader(value)
    version = fields.int16()
    if not 0 <= version <= _FLEXIBLE:
        raise InvalidRecordError(f"an offset of version {version}: known are 0 to {_FLEXIBLE}")
    offset = fields.int64()
    leader_epoch = fields.int32() if version >= _WITH_LEADER_EPOCH else NO_LEADER_EPOCH
    metadata = fields.string(compact=version >= _FLEXIBLE)
    commit_time = fields.int64()
    return OffsetValue(
        offset, leader_epoch, metadata, commit_time, fields.int64() if version == _WITH_EXPIRY else NO_TIME
    )


def encode_offset_value(value: OffsetValue) -> bytes:
    """A committed offset."""
    offset, metadata, commit_time = INT64.pack(value.offset), encode_string(value.metadata), value.commit_time
    if value.expire_time != NO_TIME:
        version = INT16.pack(_WITH_EXPIRY)
        return b"".join((version, offset, metadata, INT64.pack(commit_time), INT64.pack(value.expire_time)))
    epoch = INT32.pack(value.leader_epoch)
    return b"".join((INT16.pack(_WITH_LEADER_EPOCH), offset, epoch, metadata, INT64.pack(commit_time)))


def offset_record(key: OffsetKey, value: OffsetValue | None) -> GroupRecord:
    """The record of an offset; None is its tombstone."""
    return GroupRecord(encode_offset_key(key), None if value is None else encode_offset_value(value))


def group_tombstone(group: str) -> GroupRecord:
    """The record after which a group is no more."""
    return GroupRecord(encode_group_key(group), None)
