"""A classic group, its log and what members say, as the specification has them.

Names are made of the specification's numbers: a member id ends in its number, and what a member says of itself or is
assigned is a list of them. So each is read back of what an implementation has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.fields import INT16, INT32, FieldReader, encode_string
from tidegauge.impl.coordinators.groups.classic.messages import GroupWrite, JoinResponse, Response, SyncResponse
from tidegauge.impl.coordinators.groups.classic.state import ClassicGroup, ClassicMember, ClassicState, Token
from tidegauge.impl.coordinators.groups.group_metadata import GroupMember, GroupMetadata
from tidegauge.impl.coordinators.groups.log_entries import GroupWritten, LogEntry, OffsetWritten
from tidegauge.impl.coordinators.groups.requests import Ruling
from tidegauge.spec.groups.classic import state as spec
from tidegauge.spec.groups.classic.state import NONE, Status, Waiting

STATUSES: Final = {
    ClassicState.EMPTY: Status.EMPTY,
    ClassicState.PREPARING_REBALANCE: Status.PREPARING_REBALANCE,
    ClassicState.COMPLETING_REBALANCE: Status.COMPLETING_REBALANCE,
    ClassicState.STABLE: Status.STABLE,
}


def listed(numbers: Iterable[int]) -> str:
    return " ".join(map(str, numbers))


def numbers_of(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split()))


def topic_name(topic: int) -> str:
    """The name by which members subscribe to a topic."""
    return f"t{topic}"


def said(request: spec.JoinRequest) -> bytes:
    """The metadata of a member: as consumers write them, of version 0, with all that it says once more behind that."""
    one = request.subscription
    names = b"".join(encode_string(topic_name(topic)) for topic in one.topics)
    told = f"{listed(one.topics)}/{listed(one.owned)}/{one.generation}".encode()
    return INT16.pack(0) + INT32.pack(len(one.topics)) + names + INT32.pack(len(told)) + told


def subscription(metadata: bytes) -> spec.Subscription:
    fields = FieldReader(metadata)
    fields.int16()
    for _ in range(fields.count()):
        fields.string()
    topics, owned, generation = fields.bytes_of(fields.count()).decode().split("/")
    return spec.Subscription(numbers_of(topics), numbers_of(owned), int(generation))


def number_of(member_id: str | None) -> int:
    """The number of a member id that the coordinator has given."""
    return int(member_id.rsplit("-", 1)[1]) if member_id else NONE


def protocol_of(name: str | None) -> int:
    return NONE if name is None else int(name)


def partitions_of(assignment: bytes) -> tuple[int, ...]:
    return numbers_of(assignment.decode())


def abstract_group(group: ClassicGroup, process_of: Callable[[Token], int]) -> spec.Group:
    """What the coordinator knows; `process_of`: who has the response to a request that waits, NONE if nobody has."""
    return spec.Group(
        STATUSES[group.state],
        group.generation,
        protocol_of(group.protocol),
        number_of(group.leader),
        tuple(abstract_member(group, member, process_of) for member in group.members.values()),
        tuple(map(number_of, group.pending)),
        group.initial is not None,
    )


def abstract_member(group: ClassicGroup, member: ClassicMember, process_of: Callable[[Token], int]) -> spec.Member:
    token = member.joining if member.joining is not None else member.syncing
    waiting = Waiting.NOTHING if token is None else Waiting.SYNC if member.joining is None else Waiting.JOIN
    return spec.Member(
        number_of(member.member_id),
        NONE if member.instance_id is None else int(member.instance_id[1:]),
        tuple(int(protocol.name) for protocol in member.protocols),
        subscription(member.protocols[0].metadata),
        partitions_of(member.assignment),
        waiting,
        NONE if token is None else process_of(token),
        member.is_new,
        member.member_id in group.unsynced,
        member.session_deadline is not None,
    )


def abstract_record(metadata: GroupMetadata) -> spec.GroupRecord:
    protocol = protocol_of(metadata.protocol)
    members = tuple(durable(member, protocol) for member in metadata.members)
    return spec.GroupRecord(metadata.generation, protocol, number_of(metadata.leader), members)


def durable(member: GroupMember, protocol: int) -> spec.Member:
    return spec.Member(
        number_of(member.member_id),
        NONE if member.instance_id is None else int(member.instance_id[1:]),
        (protocol,),
        subscription(member.subscription),
        partitions_of(member.assignment),
    )


def abstract_offset(value: int, metadata: str) -> spec.Offset:
    member_id, generation = map(int, metadata.split("/"))
    return spec.Offset(value, member_id, generation)


def abstract_log(entries: Iterable[LogEntry], partitions: int) -> spec.Log:
    """What is committed, as the cleaner may have left it."""
    groups: list[spec.GroupRecord] = []
    offsets = [spec.Offset()] * partitions
    for entry in entries:
        match abstract_logged(entry):
            case spec.GroupRecord() as record:
                groups.append(record)
            case spec.OffsetRecord(partition, offset):
                offsets[partition] = offset
    return spec.Log(tuple(groups[-2:]), tuple(offsets))


def abstract_logged(entry: LogEntry) -> spec.GroupRecord | spec.OffsetRecord | None:
    """One record; None for what is none of the specification's."""
    if isinstance(entry, GroupWritten) and entry.metadata is not None:
        return abstract_record(entry.metadata)
    if isinstance(entry, OffsetWritten) and entry.value is not None:
        return spec.OffsetRecord(entry.key.partition, abstract_offset(entry.value.offset, entry.value.metadata))
    return None


def abstract_response(response: Response) -> spec.Response:
    """What a process is told."""
    if response.error is not ErrorCode.none:
        return spec.Failed(spec.Error(response.error.value))
    if isinstance(response, SyncResponse):
        return spec.Synced(partitions_of(response.assignment))
    assert isinstance(response, JoinResponse), "no other response has to wait"
    members = () if response.skip_assignment else response.members
    return spec.Joined(
        number_of(response.member_id),
        response.generation,
        protocol_of(response.protocol),
        number_of(response.leader),
        tuple((number_of(one.member_id), subscription(one.metadata)) for one in members),
    )


def abstract_entry(appended: GroupWrite | Ruling) -> spec.Entry:
    if isinstance(appended, GroupWrite):
        replacing = None if appended.replacement is None else appended.replacement.member_id
        return spec.Entry(abstract_record(appended.metadata), number_of(replacing))
    ((key, value),) = appended.offsets
    assert value is not None, "nothing is deleted"
    return spec.Entry(spec.OffsetRecord(key.partition, abstract_offset(value.offset, value.metadata)))
