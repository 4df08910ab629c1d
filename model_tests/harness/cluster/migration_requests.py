"""The requests of members of a group that goes over, on the wire, and what their responses say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.join_group.v9.request import JoinGroupRequest, JoinGroupRequestProtocol
from kio.schema.offset_fetch.v9.request import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kio.schema.sync_group.v5.request import SyncGroupRequest, SyncGroupRequestAssignment
from kio.schema.types import GroupId

from tidegauge.impl.coordinators.groups.migration.embedded import encode_assignment, read_assignment
from tidegauge.impl.wire.primitives import TopicName, i32
from tidegauge.model_tests.harness.cluster import group_requests
from tidegauge.model_tests.harness.cluster.group_requests import REBALANCE, SESSION
from tidegauge.model_tests.harness.cores.consumer_abstraction import GROUP, number_of, topic_name
from tidegauge.model_tests.harness.cores.migration_abstraction import partitions, subscription
from tidegauge.spec.groups.consumer import state as spec
from tidegauge.spec.groups.migration.machine import GroupMigration as Machine

PROTOCOL: Final = "cooperative"
CONSUMER: Final = "consumer"


def named(machine: Machine, partition: int) -> tuple[str, int]:
    """A partition's topic, and its index there."""
    return topic_name(partition % machine.topics), partition // machine.topics


def join(machine: Machine, request: spec.HeartbeatRequest, member_id: str, instance_id: str | None, nonce: int) -> Any:
    """A JoinGroup; with another nonce it says something else."""
    owned = [named(machine, one) for one in request.owned or ()]
    metadata = subscription(map(topic_name, request.topics), owned, nonce, request.generation)
    return JoinGroupRequest(
        group_id=GroupId(GROUP),
        session_timeout=SESSION,
        rebalance_timeout=REBALANCE,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type=CONSUMER,
        protocols=(JoinGroupRequestProtocol(name=PROTOCOL, metadata=metadata),),
    )


def sync(
    machine: Machine,
    generation: int,
    member_id: str,
    instance_id: str | None,
    shares: Mapping[str, Iterable[int]],
) -> Any:
    """A SyncGroup; a leader's has what each member is to have."""
    assignments = (
        SyncGroupRequestAssignment(
            member_id=name, assignment=bytes(encode_assignment([named(machine, one) for one in has], 1))
        )
        for name, has in shares.items()
    )
    return SyncGroupRequest(
        group_id=GroupId(GROUP),
        generation_id=i32(generation),
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type=CONSUMER,
        protocol_name=PROTOCOL,
        assignments=tuple(assignments),
    )


def heartbeat(generation: int, member_id: str, instance_id: str | None) -> Any:
    return HeartbeatRequest(
        group_id=GroupId(GROUP), generation_id=i32(generation), member_id=member_id, group_instance_id=instance_id
    )


def fetch_offsets(machine: Machine, count: int) -> Any:
    """Where a member goes on in each of so many partitions."""
    asked: dict[str, list[i32]] = {}
    for topic, index in (named(machine, one) for one in range(count)):
        asked.setdefault(topic, []).append(i32(index))
    topics = (OffsetFetchRequestTopics(name=TopicName(one), partition_indexes=tuple(of)) for one, of in asked.items())
    return OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=GroupId(GROUP), topics=tuple(topics)),))


def fetched(machine: Machine, response: Any) -> dict[int, int]:
    """What the response to `fetch_offsets` says, by partition; 0 where nothing is committed."""
    (group,) = response.groups
    assert group.error_code is ErrorCode.none, group
    return {
        int(one.partition_index) * machine.topics + int(topic.name[-1]): max(0, int(one.committed_offset))
        for topic in group.topics
        for one in topic.partitions
    }


def error_of(response: Any) -> ErrorCode:
    """The error of a response, or that of the one member or partition that it is about.

    None is a connection that has ended, of which nobody learns anything.
    """
    return ErrorCode.none if response is None else group_requests.error_of(response)


def has_joined(response: Any) -> bool:
    """Whether it is the response to a JoinGroup."""
    return hasattr(response, "skip_assignment")


def generation_of(response: Any) -> int:
    """The generation that a JoinGroup has brought its member into."""
    return int(response.generation_id)


def member_of(response: Any) -> int:
    """The member id in the response to a JoinGroup."""
    return number_of(response.member_id)


def assigned(machine: Machine, response: Any) -> tuple[int, ...]:
    """What the response to a SyncGroup says."""
    return partitions(read_assignment(response.assignment), machine)
