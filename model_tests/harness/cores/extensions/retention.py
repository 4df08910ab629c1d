"""The cores beside the machine of log starts: records that are deleted, and followers that start over.

That a log start is durable before it is told is the broker's shell's part (`follower_fetches`), which is
the harness here.
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode

from tidegauge.impl.partition.messages import FollowerFetch, PartitionFetchResponse
from tidegauge.impl.partition.state import RemoteReplica
from tidegauge.model_tests.harness.cores import steps
from tidegauge.model_tests.harness.cores.message_parts import MessageParts
from tidegauge.model_tests.harness.cores.refusals import REFUSALS
from tidegauge.model_tests.harness.cores.replication import Broker, Cores
from tidegauge.model_tests.harness.cores.steps import ReplicationCores
from tidegauge.model_tests.harness.performing import Steps, on
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.kernel.parts import Parts, with_part
from tidegauge.spec.replication import actions as protocol
from tidegauge.spec.replication import state as spec
from tidegauge.spec.replication.extensions.retention import (
    DeleteRecords,
    FollowerLogStart,
    LeaderLogStart,
    LogStart,
    Retain,
)


def refuse_to_delete_records(cores: Cores, action: DeleteRecords) -> ErrorCode | None:
    deleted = cores.replica(action.broker).delete_records(action.offset)
    return deleted if isinstance(deleted, ErrorCode) else ErrorCode.none


class RetentionMessages(MessageParts):
    """Fetches, and what a leader knows of followers, say where logs start; so do responses that may start one over."""

    def of_fetch(self, fetch: FollowerFetch) -> FollowerLogStart:
        return FollowerLogStart(fetch.log_start_offset)

    def of_fetch_response(self, response: PartitionFetchResponse, history: spec.Log) -> LeaderLogStart | None:
        if response.error not in (ErrorCode.none, ErrorCode.offset_out_of_range):
            return None
        starts_over = response.error is ErrorCode.offset_out_of_range or response.diverging_epoch is not None
        start = response.log_start_offset
        return LeaderLogStart(start, history[:start] if starts_over else ())

    def of_follower(self, follower: RemoteReplica) -> FollowerLogStart:
        return FollowerLogStart(follower.log_start_offset)

    def said(self, fetch: FollowerFetch, parts: Parts) -> FollowerFetch:
        starts = (part.offset for part in parts if isinstance(part, FollowerLogStart))
        return fetch._replace(log_start_offset=next(starts, 0))


class RetentionCores(ReplicationCores):
    """Brokers, controller and messages, where logs have a start."""

    refusals = Steps[Cores, [], ErrorCode | None](on(DeleteRecords, refuse_to_delete_records), over=REFUSALS)

    def _look_at_replica(self, number: int, broker: Broker) -> spec.Replica:
        start = LogStart(broker.log.log_start_offset, broker.log.log_start_checkpoint)
        return with_part(super()._look_at_replica(number, broker), start)

    def step(self, action: Action) -> None:
        STEPS.perform(self, action)


def delete_records(cores: RetentionCores, action: DeleteRecords) -> None:
    assert cores.replica(action.broker).delete_records(action.offset) == action.offset
    cores.brokers[action.broker].log.write_log_start()
    cores.carry_out_effects(action.broker)


def retain(cores: RetentionCores, action: Retain) -> None:
    log = cores.brokers[action.broker].log
    assert action.offset <= cores.replica(action.broker).high_watermark
    log.delete_records_before(action.offset)
    log.write_log_start()


def send_fetch(cores: RetentionCores, action: protocol.SendFetch) -> None:
    cores.brokers[action.broker].log.write_log_start()
    steps.send_fetch(cores, action)


def receive_fetch_response(cores: RetentionCores, action: protocol.ReceiveFetchResponse) -> None:
    """A log that starts over remembers what was below: the specification says so in the response."""
    accepted = steps.fetch_response_accepted(cores, action)
    log, below = cores.brokers[action.response.request.follower].log, LeaderLogStart.of(action.response).below
    if accepted and below and log.log_start_offset == log.log_end_offset == len(below):
        log.remember(below)


STEPS: Final = Steps[RetentionCores, [], None](
    on(DeleteRecords, delete_records),
    on(Retain, retain),
    on(protocol.SendFetch, send_fetch),
    on(protocol.ReceiveFetchResponse, receive_fetch_response),
    over=steps.STEPS,
)
