"""The actions of retention on a cluster: an operator deletes records, or a broker its oldest ones."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from kio.schema.delete_records.v2.request import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kio.schema.errors import ErrorCode

from tidegauge.impl.wire.primitives import TopicName, i32, i64, millis
from tidegauge.model_tests.harness.cluster.binding import FOR_EVER_MS, PARTITION, TOPIC, ClusterBinding
from tidegauge.model_tests.harness.cluster.operator_requests import ask_at
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.replication.extensions.retention import DeleteRecords, Retain
from tidegauge.spec.replication.state import State

DELETION_ENDS: Final = (ErrorCode.none, ErrorCode.not_leader_or_follower)
"""The errors that a response to a DeleteRecords may have."""


async def delete_records(binding: ClusterBinding, action: DeleteRecords, before: State) -> None:
    binding.start_soon(_delete_records, binding, action)


async def _delete_records(binding: ClusterBinding, action: DeleteRecords) -> None:
    """The response comes when every live replica has deleted, or when this one no longer leads."""
    part = DeleteRecordsPartition(partition_index=i32(PARTITION), offset=i64(action.offset))
    topic = DeleteRecordsTopic(name=TopicName(TOPIC), partitions=(part,))
    request = DeleteRecordsRequest(topics=(topic,), timeout=millis(FOR_EVER_MS))
    response = await ask_at(binding.cluster, binding.broker(action.broker).address, request)
    if response is None:
        return
    (outcome,) = response.topics[0].partitions
    if outcome.error_code not in DELETION_ENDS:
        binding.surprises.append(f"the response to {action} is {outcome.error_code.name}")
    elif outcome.error_code is ErrorCode.none and outcome.low_watermark < action.offset:
        binding.surprises.append(f"the response to {action} has the low watermark {outcome.low_watermark}")


async def retain(binding: ClusterBinding, action: Retain, before: State) -> None:
    hosted = binding.hosted(action.broker)
    assert hosted is not None
    hosted.log.delete_records_before(action.offset)
    binding.broker(action.broker).replicas.flushes.write_log_starts([hosted])


STEPS: Final[Mapping[type[Action], Callable[[ClusterBinding, Any, State], Awaitable[None]]]] = {
    DeleteRecords: delete_records,
    Retain: retain,
}
