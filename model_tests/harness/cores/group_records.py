"""The values of offsets and of groups as brokers of every version write them: in lockstep logs have those of all.

What a version has no field for is left out, so a log of theirs says less.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidegauge.impl.coordinators.fields import INT16, INT32, INT64, encode_string, encode_varint
from tidegauge.impl.coordinators.groups.group_metadata import GroupMember, GroupMetadata, decode_group_metadata
from tidegauge.impl.coordinators.groups.record_formats import (
    GroupRecord,
    OffsetValue,
    decode_offset_value,
    encode_group_key,
)
from tidegauge.impl.records.batches import InvalidRecordError

FLEXIBLE: Final = 4
"""The version from which strings are compact, of both."""
WITH_EXPIRY: Final = 1
"""The one version of an offset that has a time of its client's."""
WITH_LEADER_EPOCH: Final = 3
WITH_REBALANCE_TIMEOUT: Final = 1
WITH_STATE_TIME: Final = 2
WITH_INSTANCE_ID: Final = 3
_NO_TAGS: Final = b"\0"


def offset_value(value: OffsetValue, version: int) -> bytes:
    """A committed offset, in this version."""
    parts = [INT16.pack(version), INT64.pack(value.offset)]
    if version >= WITH_LEADER_EPOCH:
        parts.append(INT32.pack(value.leader_epoch))
    parts += _string(value.metadata, version), INT64.pack(value.commit_time)
    if version == WITH_EXPIRY:
        parts.append(INT64.pack(value.expire_time))
    return b"".join((*parts, _tags(version)))


def group_value(metadata: GroupMetadata, version: int) -> bytes:
    """A group, in this version."""
    parts = [INT16.pack(version), _string(metadata.protocol_type, version), INT32.pack(metadata.generation)]
    parts += _string(metadata.protocol, version), _string(metadata.leader, version)
    if version >= WITH_STATE_TIME:
        parts.append(INT64.pack(metadata.state_time))
    parts.append(_count(len(metadata.members), version))
    parts += (_member(member, version) for member in metadata.members)
    return b"".join((*parts, _tags(version)))


def group_as_stored(group: str, metadata: GroupMetadata, nth: int) -> GroupRecord:
    """A group's record: the versions that have a field for the ids of static members take turns."""
    is_static = any(member.instance_id is not None for member in metadata.members)
    versions = range(WITH_INSTANCE_ID if is_static else 0, FLEXIBLE + 1)
    return GroupRecord(encode_group_key(group), group_value(metadata, versions[nth % len(versions)]))


def _member(member: GroupMember, version: int) -> bytes:
    parts = [_string(member.member_id, version)]
    if version >= WITH_INSTANCE_ID:
        parts.append(_string(member.instance_id, version))
    parts += _string(member.client_id, version), _string(member.client_host, version)
    if version >= WITH_REBALANCE_TIMEOUT:
        parts.append(INT32.pack(member.rebalance_timeout_ms))
    parts.append(INT32.pack(member.session_timeout_ms))
    for data in (member.subscription, member.assignment):
        parts += _count(len(data), version), data
    return b"".join((*parts, _tags(version)))


def _string(text: str | None, version: int) -> bytes:
    if version < FLEXIBLE:
        return encode_string(text)
    return encode_varint(0) if text is None else encode_varint(len(text.encode()) + 1) + text.encode()


def _count(number: int, version: int) -> bytes:
    return INT32.pack(number) if version < FLEXIBLE else encode_varint(number + 1)


def _tags(version: int) -> bytes:
    return _NO_TAGS if version >= FLEXIBLE else b""


def refuses_other_versions() -> None:
    """What no broker of ours or of Kafka's has written is no offset and no group."""
    offset, group = offset_value(OffsetValue(1), 0), group_value(GroupMetadata("consumer", 1, None, None, 1, ()), 0)
    readers: tuple[tuple[Callable[[bytes], object], bytes], ...] = (
        (decode_offset_value, offset),
        (decode_group_metadata, group),
    )
    for read, value in readers:
        for version in (-1, FLEXIBLE + 1):
            other = INT16.pack(version) + value[INT16.size :]
            try:
                found = read(other)
            except InvalidRecordError:
                continue
            raise AssertionError(f"{found} is read where the value is of version {version}")
