"""Requests of administrators about topics and replicas, and the values of their responses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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


def check(response: Any, what: str) -> None:
    """Raises KafkaError for the first error in a response about one topic or partition."""
    for outcome in _outcomes(response):
        if outcome.error_code is not ErrorCode.none:
            raise KafkaError(outcome.error_code, outcome.error_message or what)


def _outcomes(response: Any) -> list[Any]:
    found = [response] if hasattr(response, "error_code") else []
    for item in getattr(response, "responses", getattr(response, "results", ())):
        found += getattr(item, "partitions", (item,))
    return found
