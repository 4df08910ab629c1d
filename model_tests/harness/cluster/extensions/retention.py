"""Retention on a cluster: an operator deletes records, or a broker its oldest ones; logs have a start.

What the records below a log start were cannot be read from the cluster: the specification lends them, but for the epoch
of the last one. A flush writes log starts down, so that a crash can't lose those: the specification allows that, and
the cluster is not asked to.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

import attrs
from kio.schema.delete_records.v2.request import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kio.schema.errors import ErrorCode

from tidegauge.impl.storage.checkpoints import LOG_START_OFFSET_CHECKPOINT, read_offsets
from tidegauge.impl.storage.log import Log as StoredLog
from tidegauge.impl.wire.primitives import TopicName, i32, i64, millis
from tidegauge.model_tests.harness.cluster.binding import (
    FOR_EVER_MS,
    PARTITION,
    TOPIC,
    ClusterBinding,
    ClusterExtension,
)
from tidegauge.model_tests.harness.cluster.operator_requests import ask_at
from tidegauge.model_tests.harness.cluster.refusals import error_at
from tidegauge.model_tests.harness.cores.extensions.retention import RetentionMessages
from tidegauge.model_tests.harness.performing import Steps, on
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.kernel.parts import with_part
from tidegauge.spec.replication.extensions.retention import DeleteRecords, LogStart, Retain, Retention, WriteLogStart
from tidegauge.spec.replication.faults import Crash
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.state import Log, Replica, State

DELETION_ENDS: Final = (ErrorCode.none, ErrorCode.not_leader_or_follower, ErrorCode.kafka_storage_error)
"""The errors that a response to a DeleteRecords may have."""


async def delete_records(binding: ClusterBinding, action: DeleteRecords, before: State) -> None:
    binding.start_soon(_delete_records, binding, action)


def request_of(action: DeleteRecords) -> DeleteRecordsRequest:
    part = DeleteRecordsPartition(partition_index=i32(PARTITION), offset=i64(action.offset))
    topic = DeleteRecordsTopic(name=TopicName(TOPIC), partitions=(part,))
    return DeleteRecordsRequest(topics=(topic,), timeout=millis(FOR_EVER_MS))


async def _delete_records(binding: ClusterBinding, action: DeleteRecords) -> None:
    """The response comes when every live replica has deleted, or when this one no longer leads or has its replica."""
    response = await ask_at(binding.cluster, binding.broker(action.broker).address, request_of(action))
    if response is None:
        return
    (outcome,) = response.topics[0].partitions
    if outcome.error_code not in DELETION_ENDS:
        binding.surprises.append(f"the response to {action} is {outcome.error_code.name}")
    elif outcome.error_code is ErrorCode.none and outcome.low_watermark < action.offset:
        binding.surprises.append(f"the response to {action} has the low watermark {outcome.low_watermark}")


async def refuse_to_delete_records(binding: ClusterBinding, action: DeleteRecords, before: State) -> ErrorCode:
    """A deletion below the log start is taken, and may have to wait for followers that have yet to delete."""
    response = await binding.told_at_once(binding.broker(action.broker).address, request_of(action))
    if response is None:
        return ErrorCode.none
    (outcome,) = response.topics[0].partitions
    return error_at(binding, action.broker, outcome.error_code, action, before)


async def retain(binding: ClusterBinding, action: Retain, before: State) -> None:
    hosted = binding.hosted(action.broker)
    assert hosted is not None
    hosted.log.delete_records_before(action.offset)
    binding.broker(action.broker).replicas.flushes.write_log_starts([hosted])


async def log_start_written(binding: ClusterBinding, action: WriteLogStart, before: State) -> None:
    hosted = binding.hosted(action.broker)
    assert hosted is not None
    binding.broker(action.broker).replicas.flushes.write_log_starts([hosted])


STEPS: Final = Steps[ClusterBinding, [State], Awaitable[None]](
    on(DeleteRecords, delete_records),
    on(Retain, retain),
    on(WriteLogStart, log_start_written),
)


class RetentionOnCluster(ClusterExtension):
    """Log starts. Beside a machine without them every log must start at 0."""

    extends = Retention
    messages = RetentionMessages()
    steps = STEPS
    refusals = Steps(on(DeleteRecords, refuse_to_delete_records))

    def __init__(self, binding: ClusterBinding) -> None:
        super().__init__(binding)
        self.written = [0] * binding.machine.brokers
        """Each broker's log start as written down."""
        self.starts = [0] * binding.machine.brokers
        """Each broker's log start as it was last."""

    @classmethod
    def reads(cls, machine: Replication) -> bool:
        return True

    def can_perform(self, action: Action, before: State) -> bool:
        if isinstance(action, WriteLogStart):
            hosted = self.binding.hosted(action.broker)
            return hosted is not None and hosted.log.log_start_offset == action.offset
        if not isinstance(action, Crash) or self.binding.hosted(action.broker) is None:
            return True
        return self._checkpoint(action.broker) <= LogStart.of(before.replicas[action.broker]).checkpoint

    def _checkpoint(self, number: int) -> int:
        """The log start on the broker's disk."""
        broker = self.binding.broker(number)
        directory = broker.replicas.directories.where(TOPIC, PARTITION)
        assert directory is not None, "no disk fails here"
        return read_offsets(broker.disk, directory.path, LOG_START_OFFSET_CHECKPOINT).get((TOPIC, PARTITION), 0)

    def replica(self, number: int, beside: Replica, seen: Replica) -> Replica:
        if not seen.running:
            return with_part(seen, LogStart(self.written[number], self.written[number]))
        hosted = self.binding.hosted(number)
        if hosted is None and self.binding.has_log(number):
            return with_part(seen, LogStart(self.starts[number], self.written[number]))
        if hosted is None:
            self.written[number] = 0
            return seen
        log = hosted.log
        self.starts[number] = log.log_start_offset
        if log.log_start_is_durable:
            self.written[number] = log.log_start_offset
        started = attrs.evolve(seen, log=(*ghosts(log, beside), *seen.log)) if log.log_start_offset else seen
        return with_part(started, LogStart(log.log_start_offset, self.written[number]))


def ghosts(log: StoredLog, beside: Replica) -> Log:
    """The records that a log starts after: the epoch of the last one is known, the rest is lent."""
    start = log.log_start_offset
    lent = beside.log[:start]
    return lent if len(lent) < start else (*lent[:-1], attrs.evolve(lent[-1], epoch=log.log_start_epoch))
