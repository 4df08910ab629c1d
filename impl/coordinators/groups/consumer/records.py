"""The records of consumer groups in `__consumer_offsets` (KIP-848), as Kafka's bytes, and what they amount to.

Keys begin with an int16 that says what kind of record it is, and have the group, and a member's id or an expression::

    3   a group's epoch       epoch int32; tag 0: hash of its topics int64
    4   its topics            of Kafka up to 4.0; read over
    5   a member              instance id, rack id or null; client id, client host; topic names; expression or "";
                              rebalance timeout int32; assignor or null; tag 0: of who speaks the classic protocol
                              int8 1, session timeout int32, and each protocol's name and metadata
    6   the target's epoch    epoch int32; tag 0: when it was made int64, ms since 1970 (KIP-1263)
    7   a member's target     partitions
    8   what a member has     epoch, previous epoch int32; state int8; partitions assigned, and those to be given back
    16  an expression         the topics that it has matched; version of the topics int64, time int64 (ms since 1970)

Values are of version 0 and flexible: compact strings and arrays, tagged fields at the end of each structure. Partitions
are an array of topic id (uuid), indexes int32, and in tag 0 the epochs in which they were assigned (KIP-1251).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final
from uuid import UUID

import attrs

from tidegauge.impl.coordinators.fields import (
    INT16,
    INT32,
    INT64,
    FieldReader,
    encode_string,
    encode_varint,
)
from tidegauge.impl.coordinators.groups.classic.state import Protocol
from tidegauge.impl.coordinators.groups.consumer.state import (
    ClassicSide,
    ConsumerGroup,
    ConsumerMember,
    Held,
    Place,
    Resolved,
)
from tidegauge.impl.coordinators.groups.record_formats import OWN_KINDS, ConsumerKey, GroupRecord
from tidegauge.impl.records.batches import InvalidRecordError

GROUP_EPOCH: Final = 3
MEMBER: Final = 5
TARGET_EPOCH: Final = 6
MEMBER_TARGET: Final = 7
CURRENT: Final = 8
EXPRESSION: Final = 16
_STABLE, _UNREVOKED, _UNRELEASED = 1, 2, 3
_PRESENT = 1
"""Before a structure that may be null."""


# --- writing -------------------------------------------------------------------------------------------------------


def encode_key(key: ConsumerKey) -> bytes:
    of = encode_string(key.member_id) if key.kind in OWN_KINDS else b""
    return INT16.pack(key.kind) + encode_string(key.group) + of


def _compact(text: str | None) -> bytes:
    if text is None:
        return encode_varint(0)
    data = text.encode()
    return encode_varint(len(data) + 1) + data


def _partitions(places: Iterable[Place], since: Held | None = None) -> bytes:
    by_topic: dict[str, list[int]] = defaultdict(list)
    for topic_id, index in sorted(places):
        by_topic[topic_id].append(index)
    parts = [encode_varint(len(by_topic) + 1)]
    for topic_id, indexes in by_topic.items():
        parts += UUID(topic_id).bytes, encode_varint(len(indexes) + 1), *map(INT32.pack, indexes)
        if since is None:
            parts.append(encode_varint(0))
        else:
            epochs = encode_varint(len(indexes) + 1) + b"".join(INT32.pack(since[topic_id, one]) for one in indexes)
            parts += encode_varint(1), encode_varint(0), encode_varint(len(epochs)), epochs
    return b"".join(parts)


def _value(*parts: bytes) -> bytes:
    return b"".join((INT16.pack(0), *parts))


_NO_TAGS: Final = b"\0"


def _group_epoch(group: ConsumerGroup) -> bytes:
    return _value(INT32.pack(group.epoch), _tag_0(group.metadata_hash))


def _target_epoch(group: ConsumerGroup) -> bytes:
    return _value(INT32.pack(group.target_epoch), _tag_0(group.target_ms))


def _tag_0(value: int) -> bytes:
    """A number in a tag, which is left out if it is 0."""
    return encode_varint(1) + encode_varint(0) + encode_varint(INT64.size) + INT64.pack(value) if value else _NO_TAGS


def _member(member: ConsumerMember) -> bytes:
    return _value(
        *map(_compact, (member.instance_id, member.rack_id, member.client_id, member.client_host)),
        *_names(member.topics),
        _compact(member.expression),
        INT32.pack(member.rebalance_timeout_ms),
        _compact(member.assignor),
        _NO_TAGS if member.classic is None else _classic_side(member.classic),
    )


def _classic_side(classic: ClassicSide) -> bytes:
    parts = [bytes([_PRESENT]), INT32.pack(classic.session_timeout_ms), encode_varint(len(classic.protocols) + 1)]
    for name, metadata in classic.protocols:
        parts += _compact(name), encode_varint(len(metadata) + 1), metadata, _NO_TAGS
    data = b"".join((*parts, _NO_TAGS))
    return encode_varint(1) + encode_varint(0) + encode_varint(len(data)) + data


def _names(topics: Iterable[str]) -> list[bytes]:
    names = sorted(topics)
    return [encode_varint(len(names) + 1), *map(_compact, names)]


def _resolved(resolved: Resolved) -> bytes:
    return _value(*_names(resolved.topics), INT64.pack(resolved.version), INT64.pack(resolved.time_ms), _NO_TAGS)


def _current(member: ConsumerMember) -> bytes:
    state = _UNREVOKED if member.revoking else _UNRELEASED if member.is_waiting else _STABLE
    return _value(
        INT32.pack(member.epoch),
        INT32.pack(member.previous_epoch),
        bytes([state]),
        _partitions(member.assigned, member.assigned),
        _partitions(member.revoking, member.revoking),
        _NO_TAGS,
    )


def changes(before: ConsumerGroup | None, after: ConsumerGroup | None, group_id: str) -> Iterator[GroupRecord]:
    """The records by which one group becomes the other; None is a group that is not there."""
    nothing = ConsumerGroup(group_id, epoch=0, target_epoch=0)
    old, new = before or nothing, after or nothing
    for member_id in sorted(old.members.keys() - new.members.keys()):
        for kind in (CURRENT, MEMBER_TARGET, MEMBER):
            yield GroupRecord(encode_key(ConsumerKey(kind, group_id, member_id)), None)
    touched = [
        (member_id, old.members.get(member_id), member)
        for member_id, member in new.members.items()
        if old.members.get(member_id) is not member
    ]
    for member_id, known, member in touched:
        if known is None or known.subscription != member.subscription:
            yield GroupRecord(encode_key(ConsumerKey(MEMBER, group_id, member_id)), _member(member))
    for expression in sorted(old.resolved.keys() - new.resolved.keys()):
        yield GroupRecord(encode_key(ConsumerKey(EXPRESSION, group_id, expression)), None)
    for expression, resolved in new.resolved.items():
        if old.resolved.get(expression) != resolved:
            yield GroupRecord(encode_key(ConsumerKey(EXPRESSION, group_id, expression)), _resolved(resolved))
    if after is None:
        yield GroupRecord(encode_key(ConsumerKey(TARGET_EPOCH, group_id)), None)
        yield GroupRecord(encode_key(ConsumerKey(GROUP_EPOCH, group_id)), None)
        return
    if (old.epoch, old.metadata_hash) != (new.epoch, new.metadata_hash):
        yield GroupRecord(encode_key(ConsumerKey(GROUP_EPOCH, group_id)), _group_epoch(new))
    for member_id, places in new.target.items() if new.target is not old.target else ():
        if (had := old.target.get(member_id)) is not places and had != places:
            value = _value(_partitions(places), _NO_TAGS)
            yield GroupRecord(encode_key(ConsumerKey(MEMBER_TARGET, group_id, member_id)), value)
    if (old.target_epoch, old.target_ms) != (new.target_epoch, new.target_ms):
        yield GroupRecord(encode_key(ConsumerKey(TARGET_EPOCH, group_id)), _target_epoch(new))
    for member_id, known, member in touched:
        if known is None or known.current != member.current:
            yield GroupRecord(encode_key(ConsumerKey(CURRENT, group_id, member_id)), _current(member))


# --- reading -------------------------------------------------------------------------------------------------------


def replayed(group: ConsumerGroup | None, key: ConsumerKey, value: bytes | None) -> ConsumerGroup | None:
    """The group once a record counts; None if there is none any more.

    Records come in the order of the log, and the cleaner may have taken any that a later one replaces, and may do so
    between two calls: of the records of a member the first may be any, a tombstone too (KAFKA-17306), and until the
    last one is read two members may have one partition (KAFKA-19862).

    Raises CorruptRecordError, or InvalidRecordError for a version that Kafka does not have.
    """
    if value is None:
        return None if group is None else _deleted(group, key)
    group = group or ConsumerGroup(key.group)
    fields = FieldReader(value)
    if (version := fields.int16()) != 0:
        raise InvalidRecordError(f"a record of a consumer group of version {version}: known is 0")
    match key.kind:
        case 3:
            epoch = fields.int32()
            return attrs.evolve(group, epoch=epoch, metadata_hash=_read_tag_0(fields))
        case 6:
            epoch = fields.int32()
            return attrs.evolve(group, target_epoch=epoch, target_ms=_read_tag_0(fields))
        case 7:
            places = frozenset(_read_partitions(fields))
            return attrs.evolve(group, target={**group.target, key.member_id: places})
        case 16:
            names = _read_names(fields)
            return attrs.evolve(
                group, resolved={**group.resolved, key.member_id: Resolved(names, fields.int64(), fields.int64())}
            )
    member = group.members.get(key.member_id) or ConsumerMember(key.member_id)
    read = _read_member if key.kind == MEMBER else _read_current
    return group.with_member(read(member, fields))


def _deleted(group: ConsumerGroup, key: ConsumerKey) -> ConsumerGroup | None:
    match key.kind:
        case 3:
            return None
        case 6:
            return attrs.evolve(group, target_epoch=0, target_ms=0)
        case 7:
            return attrs.evolve(group, target={one: has for one, has in group.target.items() if one != key.member_id})
        case 16:
            resolved = {one: found for one, found in group.resolved.items() if one != key.member_id}
            return attrs.evolve(group, resolved=resolved)
        case 5:
            return attrs.evolve(group, members={k: one for k, one in group.members.items() if k != key.member_id})
    member = group.members.get(key.member_id)
    if member is None:
        return group
    return group.with_member(
        attrs.evolve(member, epoch=0, previous_epoch=0, assigned={}, revoking={}, is_waiting=False)
    )


def _read_tag_0(fields: FieldReader) -> int:
    return next((int(INT64.unpack(data)[0]) for tag, data in fields.tagged_fields() if tag == 0), 0)


def _read_member(member: ConsumerMember, fields: FieldReader) -> ConsumerMember:
    instance_id, rack_id = fields.nullable_string(compact=True), fields.nullable_string(compact=True)
    client_id, client_host = fields.string(compact=True), fields.string(compact=True)
    names = _read_names(fields)
    expression = fields.nullable_string(compact=True) or ""
    return attrs.evolve(
        member,
        instance_id=instance_id,
        rack_id=rack_id,
        client_id=client_id,
        client_host=client_host,
        topics=names,
        expression=expression,
        rebalance_timeout_ms=fields.int32(),
        assignor=fields.nullable_string(compact=True),
        classic=next((_read_classic_side(data) for tag, data in fields.tagged_fields() if tag == 0), None),
    )


def _read_classic_side(data: bytes) -> ClassicSide | None:
    fields = FieldReader(data)
    if fields.bytes_of(1)[0] != _PRESENT:
        return None
    session_timeout_ms, protocols = fields.int32(), []
    for _ in range(fields.count(compact=True)):
        protocols.append(Protocol(fields.string(compact=True), fields.bytes_of(fields.count(compact=True))))
        dict(fields.tagged_fields())
    return ClassicSide(session_timeout_ms, tuple(protocols))


def _read_names(fields: FieldReader) -> frozenset[str]:
    return frozenset(fields.string(compact=True) for _ in range(fields.count(compact=True)))


def _read_current(member: ConsumerMember, fields: FieldReader) -> ConsumerMember:
    epoch, previous_epoch = fields.int32(), fields.int32()
    state = fields.bytes_of(1)[0]
    assigned = _read_partitions(fields)
    revoking = _read_partitions(fields)
    return attrs.evolve(
        member,
        epoch=epoch,
        previous_epoch=previous_epoch,
        is_waiting=state == _UNRELEASED,
        assigned={place: epoch if since is None else since for place, since in assigned.items()},
        revoking={place: epoch if since is None else since for place, since in revoking.items()},
    )


def _read_partitions(fields: FieldReader) -> Mapping[Place, int | None]:
    """Partitions, with the epochs in which they were assigned, as far as the record says so."""
    found: dict[Place, int | None] = {}
    for _ in range(fields.count(compact=True)):
        topic_id = str(UUID(bytes=fields.bytes_of(16)))
        indexes = [fields.int32() for _ in range(fields.count(compact=True))]
        epochs: list[int | None] = [None] * len(indexes)
        for tag, data in fields.tagged_fields():
            if tag == 0:
                inner = FieldReader(data)
                epochs = [inner.int32() for _ in range(inner.count(compact=True))]
        if len(epochs) != len(indexes):
            raise InvalidRecordError(f"{len(indexes)} partitions with {len(epochs)} epochs")
        found |= {(topic_id, index): since for index, since in zip(indexes, epochs, strict=True)}
    return found
