"""AssignReplicasToDirs (KIP-858) as kio's message: a broker tells the controller the directories of its replicas."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from kio.schema.assign_replicas_to_dirs.v0 import request as wire_request
from kio.schema.assign_replicas_to_dirs.v0.request import AssignReplicasToDirsRequest

from tidegauge.impl.server.broker.partition import TopicPartition
from tidegauge.impl.wire.primitives import BrokerId, i32, i64, topic_uuid


def assignment_request(
    broker_id: int, broker_epoch: int, assignments: Mapping[TopicPartition, tuple[str, UUID]]
) -> AssignReplicasToDirsRequest:
    """The request for these replicas -> (topic id, directory id)."""
    by_directory: dict[UUID, dict[str, list[int]]] = {}
    for (_, index), (topic_id, directory) in assignments.items():
        by_directory.setdefault(directory, {}).setdefault(topic_id, []).append(index)
    return AssignReplicasToDirsRequest(
        broker_id=BrokerId(broker_id),
        broker_epoch=i64(broker_epoch),
        directories=tuple(
            wire_request.DirectoryData(
                id_=directory,
                topics=tuple(
                    wire_request.TopicData(
                        topic_id=topic_uuid(topic_id),
                        partitions=tuple(wire_request.PartitionData(partition_index=i32(each)) for each in indexes),
                    )
                    for topic_id, indexes in topics.items()
                ),
            )
            for directory, topics in by_directory.items()
        ),
    )
