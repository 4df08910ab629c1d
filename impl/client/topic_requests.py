"""Requests of administrators about topics and replicas, and the values of their responses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kio.schema.alter_partition_reassignments.v1.request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kio.schema.create_partitions.v3.request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState
from kio.schema.errors import ErrorCode

from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.client.requests import TIMEOUT, brokers_of
from tidegauge.impl.wire.primitives import TopicName, i32

if TYPE_CHECKING:
    from kio.schema.alter_partition_reassignments.v1.response import AlterPartitionReassignmentsResponse
    from kio.schema.create_partitions.v3.response import CreatePartitionsResponse
    from kio.schema.delete_topics.v6.response import DeleteTopicsResponse


def delete_topic(name: str) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topics=(DeleteTopicState(name=TopicName(name), topic_id=None),), timeout=TIMEOUT)


def create_partitions(name: str, count: int, assignments: Sequence[Sequence[int]]) -> CreatePartitionsRequest:
    given = tuple(
        CreatePartitionsAssignment(broker_ids=brokers_of(brokers, f"topic {name}")) for brokers in assignments
    )
    topic = CreatePartitionsTopic(name=TopicName(name), count=i32(count), assignments=given or None)
    return CreatePartitionsRequest(topics=(topic,), timeout=TIMEOUT, validate_only=False)


def reassign(topic: str, partition: int, brokers: Sequence[int] | None) -> AlterPartitionReassignmentsRequest:
    """To these brokers, the preferred leader first; None takes the reassignment back that is under way."""
    replicas = None if brokers is None else brokers_of(brokers, f"{topic}-{partition}")
    moved = ReassignablePartition(partition_index=i32(partition), replicas=replicas)
    return AlterPartitionReassignmentsRequest(
        topics=(ReassignableTopic(name=TopicName(topic), partitions=(moved,)),), timeout=TIMEOUT
    )


def check_deleted(response: DeleteTopicsResponse) -> None:
    """Raises KafkaError for a topic that was not deleted."""
    for topic in response.responses:
        _check(topic.error_code, topic.error_message, f"topic {topic.name} was not deleted")


def check_grown(response: CreatePartitionsResponse) -> None:
    """Raises KafkaError for a topic that did not grow."""
    for topic in response.results:
        _check(topic.error_code, topic.error_message, f"topic {topic.name} did not grow")


def check_reassigned(response: AlterPartitionReassignmentsResponse) -> None:
    """Raises KafkaError for a partition that was not reassigned."""
    _check(response.error_code, response.error_message, "no partition was reassigned")
    for topic in response.responses:
        for partition in topic.partitions:
            which = f"{topic.name}-{partition.partition_index}"
            _check(partition.error_code, partition.error_message, f"{which} was not reassigned")


def _check(error: ErrorCode, message: str | None, what: str) -> None:
    if error is not ErrorCode.none:
        raise KafkaError(error, message or what)
