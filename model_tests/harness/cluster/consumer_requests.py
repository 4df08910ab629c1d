"""The requests of members of a consumer group (KIP-848) on the wire, and what their responses say."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest, TopicPartitions
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.offset_commit.v9.request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kio.schema.types import GroupId
from kio.static.primitive import i32Timedelta

from tidegauge.impl.coordinators.groups.consumer.state import Place
from tidegauge.impl.wire.primitives import TopicName, i8, i32, i64
from tidegauge.model_tests.harness.cores.consumer_abstraction import (
    GROUP,
    Numbers,
    expression_of,
    instance_name,
    member_name,
    topic_name,
)
from tidegauge.spec.groups.consumer import state as spec
from tidegauge.spec.groups.consumer.machine import ConsumerGroups as Machine

REBALANCE: Final = i32Timedelta.parse(timedelta(hours=1))
UNCHANGED: Final = i32Timedelta.parse(timedelta(milliseconds=-1))


def find() -> FindCoordinatorRequest:
    return FindCoordinatorRequest(key_type=i8(0), coordinator_keys=(GROUP,))


def heartbeat(machine: Machine, request: spec.HeartbeatRequest, numbers: Numbers, member_id: str = "") -> Any:
    """`member_id`: as the coordinator knows it, where the member has not made that itself."""
    by_topic: dict[str, list[i32]] = defaultdict(list)
    for topic_id, index in map(numbers.place, request.owned or ()):
        by_topic[topic_id].append(i32(index))
    owned = (TopicPartitions(topic_id=UUID(one), partitions=tuple(indexes)) for one, indexes in by_topic.items())
    says = request.full or request.epoch == spec.JOINING_EPOCH
    return ConsumerGroupHeartbeatRequest(
        group_id=GroupId(GROUP),
        member_id=member_id or member_name(request.member_id),
        member_epoch=i32(request.epoch),
        instance_id=instance_name(machine, request.process),
        rebalance_timeout=REBALANCE if says else UNCHANGED,
        subscribed_topic_names=tuple(TopicName(topic_name(topic)) for topic in request.topics),
        subscribed_topic_regex=expression_of(machine, request.expression),
        topic_partitions=None if request.owned is None else tuple(owned),
    )


def commit(machine: Machine, request: spec.CommitRequest, member_id: str = "", instance_id: str | None = None) -> Any:
    """The metadata says whose it is. `member_id`: as in `heartbeat`."""
    topic, index = request.partition % machine.topics, request.partition // machine.topics
    partition = OffsetCommitRequestPartition(
        partition_index=i32(index),
        committed_offset=i64(request.offset),
        committed_metadata=str(request.member_id),
    )
    return OffsetCommitRequest(
        group_id=GroupId(GROUP),
        generation_id_or_member_epoch=i32(request.epoch),
        member_id=member_id or member_name(request.member_id),
        group_instance_id=instance_id,
        topics=(OffsetCommitRequestTopic(name=TopicName(topic_name(topic)), partitions=(partition,)),),
    )


def error_of(response: Any) -> ErrorCode:
    """The error of a response, or that of the one partition that it is about; none is a connection that has ended."""
    if response is None:
        return ErrorCode.none
    found = response.topics[0].partitions[0] if hasattr(response, "topics") else response
    error: ErrorCode = found.error_code
    return error


def told(response: Any) -> tuple[int, list[Place] | None]:
    """The epoch that a member is told, and what it is to own."""
    given = response.assignment
    if given is None:
        return int(response.member_epoch), None
    places = [(str(one.topic_id), int(index)) for one in given.topic_partitions for index in one.partitions]
    return int(response.member_epoch), places
