"""The requests of members of a classic group on the wire, and what their responses say.

A member that knows only what came before KIP-394 sends JoinGroup 3; all others the latest version.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.join_group.v9.request import JoinGroupRequest, JoinGroupRequestProtocol
from kio.schema.leave_group.v5.request import LeaveGroupRequest, MemberIdentity
from kio.schema.leave_group.v5.response import LeaveGroupResponse
from kio.schema.offset_commit.v8.request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kio.schema.offset_fetch.v9.request import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kio.schema.sync_group.v5.request import SyncGroupRequest, SyncGroupRequestAssignment
from kio.schema.types import GroupId
from kio.static.primitive import i32Timedelta

from tidegauge.impl.wire.apis import ApiKey, request_class
from tidegauge.impl.wire.primitives import TopicName, i8, i32, i64
from tidegauge.impl.wire.versions import convert
from tidegauge.model_tests.harness.cores.classic_beside import TOPIC
from tidegauge.model_tests.harness.cores.classic_times import GROUP
from tidegauge.model_tests.harness.cores.group_abstraction import (
    listed,
    number_of,
    partitions_of,
    protocol_of,
    said,
    subscription,
)
from tidegauge.spec.groups.classic import state as spec
from tidegauge.spec.groups.classic.state import NONE

SESSION: Final = i32Timedelta.parse(timedelta(minutes=29))
REBALANCE: Final = i32Timedelta.parse(timedelta(hours=1))
BEFORE_MEMBER_IDS: Final = 3
"""The last version of JoinGroup whose sender is a member before it knows its member id."""
LAST: Final = 9


def find() -> FindCoordinatorRequest:
    return FindCoordinatorRequest(key_type=i8(0), coordinator_keys=(GROUP,))


def join(
    request: spec.JoinRequest, protocols: tuple[int, ...], member_id: str, instance: str | None, *, knows_ids: bool
) -> Any:
    message = JoinGroupRequest(
        group_id=GroupId(GROUP),
        session_timeout=SESSION,
        rebalance_timeout=REBALANCE,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=tuple(JoinGroupRequestProtocol(name=str(one), metadata=said(request)) for one in protocols),
    )
    version = LAST if knows_ids or instance is not None else BEFORE_MEMBER_IDS
    return convert(message, request_class(ApiKey.JOIN_GROUP, version))


def sync(request: spec.SyncRequest, member_id: str, instance: str | None, given: dict[str, spec.Share]) -> Any:
    assignments = (
        SyncGroupRequestAssignment(member_id=name, assignment=listed(share.partitions).encode())
        for name, share in given.items()
    )
    return SyncGroupRequest(
        group_id=GroupId(GROUP),
        generation_id=i32(request.generation),
        member_id=member_id,
        group_instance_id=instance,
        protocol_type="consumer",
        protocol_name=str(request.protocol),
        assignments=tuple(assignments),
    )


def heartbeat(request: spec.HeartbeatRequest, member_id: str, instance: str | None) -> Any:
    return HeartbeatRequest(
        group_id=GroupId(GROUP),
        generation_id=i32(request.generation),
        member_id=member_id,
        group_instance_id=instance,
    )


def leave(member_id: str, instance: str | None) -> Any:
    leaving = MemberIdentity(member_id=member_id, group_instance_id=instance)
    return LeaveGroupRequest(group_id=GroupId(GROUP), members=(leaving,))


def commit(request: spec.CommitRequest, member_id: str, instance: str | None) -> Any:
    """The metadata says whose it is."""
    partition = OffsetCommitRequestPartition(
        partition_index=i32(request.partition),
        committed_offset=i64(request.offset),
        committed_metadata=f"{request.member_id}/{request.generation}",
    )
    return OffsetCommitRequest(
        group_id=GroupId(GROUP),
        generation_id_or_member_epoch=i32(request.generation),
        member_id=member_id,
        group_instance_id=instance,
        topics=(OffsetCommitRequestTopic(name=TopicName(TOPIC), partitions=(partition,)),),
    )


def fetch_offsets(partitions: int) -> Any:
    topic = OffsetFetchRequestTopics(name=TopicName(TOPIC), partition_indexes=tuple(map(i32, range(partitions))))
    group = OffsetFetchRequestGroup(group_id=GroupId(GROUP), topics=(topic,))
    return OffsetFetchRequest(groups=(group,), require_stable=True)


def fetched(response: Any) -> list[int]:
    """What the response to `fetch_offsets` says; 0 where nothing is committed."""
    (group,) = response.groups
    assert group.error_code is ErrorCode.none, group
    return [max(0, int(one.committed_offset)) for one in group.topics[0].partitions]


def error_of(response: Any) -> ErrorCode:
    """The error of a response, or that of the one member or partition that it is about."""
    found = response
    if hasattr(response, "topics"):
        found = response.topics[0].partitions[0]
    elif isinstance(response, LeaveGroupResponse) and response.members:
        found = response.members[0]
    error: ErrorCode = found.error_code
    return error


def told(response: Any) -> spec.Response:
    """What a process makes of the response to its JoinGroup or SyncGroup; None is a connection that has ended."""
    error = ErrorCode.not_coordinator if response is None else error_of(response)
    if error is not ErrorCode.none:
        return spec.Failed(spec.Error(error.value))
    if hasattr(response, "assignment"):
        return spec.Synced(partitions_of(response.assignment))
    members = () if getattr(response, "skip_assignment", False) else response.members
    return spec.Joined(
        number_of(response.member_id),
        int(response.generation_id),
        protocol_of(response.protocol_name) if response.protocol_name else NONE,
        number_of(response.leader),
        tuple((number_of(one.member_id), subscription(one.metadata)) for one in members),
    )
