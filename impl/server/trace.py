"""The trace of decisions: what each node decided, at the moment it did, in the specification's words.

An event is named as the specification's action and carries what is needed to rebuild that action, and the state of the
node's replica right after it, so that a run can be held against the specification step by step. Fields are plain values
(int, str, bool, None, tuples of them): they compare, print and serialise the same in every process.

| event | node | fields besides topic, partition and state |
|---|---|---|
| ApplyMetadata | broker | controller_epoch, replicas, leader, elr |
| Append | leader | acks, base_offset, records, error |
| SendFetch | follower | source (who is asked), fetch |
| ReceiveFetch, HoldFetch | leader | fetch, error, diverging_…, records, leader_high_watermark, leader_log_start |
| RefuseFetch | broker | fetch, error: it has no such replica |
| ReceiveFetchResponse | follower | source, accepted, and as for ReceiveFetch |
| Disconnect | follower | source, fetch: the request will not be answered |
| ShrinkIsr, ExpandIsr, RetryAlterPartition | leader | isr: what is proposed |
| ReceiveAlterPartition | controller | topic, partition, request, error, changed |
| ReceiveAlterPartitionResponse, DisconnectController | leader | request, error |
| PullMetadata | broker | metadata_offset: it has read the metadata log up to there, and acts on it now |
| RemoveReplica | broker | metadata_offset: by then it is no replica any more; its log is gone |
| Flush, CheckpointHighWatermark | broker | |
| DeleteRecords | leader | offset: the log starts there at least, durably |
| Retain | broker | its log start has moved, durably |
| LogDirectoryFailed | broker | path, partitions: what was lost, ((topic, partition, log end, log start), …) |
| Register, Unfence, LapseSession | controller | broker, broker_epoch, changed |
| CreateTopic, PreferredElection, UncleanElection | controller | topic, partition, changed |
| StartReassignment, CancelReassignment | controller | topic, partition, target, changed |
| AssignReplicasToDirs, DirectoriesOffline | controller | broker, changed |
| AlterConfigs | controller | resource, settings, changed |
| ControllerFailover | controller | controller_epoch, metadata_offset, changed |
| Crash, Stop | broker | kept: what its disk has, ((topic, partition, log end), …); starts: likewise, log starts |
| Restart, Pause, Resume | broker | |
| RequestFailed | both | api, error: a handler failed in a way that nobody foresaw |

`fetch` is (replica id, broker epoch, leader epoch, fetch offset, last fetched epoch, log start); `request` is (broker
id, broker epoch, leader epoch, partition epoch, ((member, broker epoch), …)). `changed` is what the controller's
decision made of each partition that it changed: see `registration_state`. `settings` is ((topic, min.insync.replicas,
unclean.leader.election.enable), …) as they are now.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import attrs

from tidegauge.impl.records.batches import extents
from tidegauge.impl.records.lazy import in_memory

if TYPE_CHECKING:
    from tidegauge.impl.partition.messages import AlterPartitionRequest, FollowerFetch, PartitionFetchResponse
    from tidegauge.impl.partition.registration import PartitionRegistration
    from tidegauge.impl.partition.replica import PartitionReplica
    from tidegauge.impl.ports.clock import Clock


@attrs.frozen
class TraceEvent:
    """One decision. `time` is the node's clock in ms, `node` a broker id or the controller's id."""

    time: int
    node: int
    name: str
    fields: Mapping[str, Any]

    def __str__(self) -> str:
        fields = " ".join(f"{name}={value}" for name, value in self.fields.items())
        return f"{self.time} {self.node} {self.name} {fields}"


class Trace(list[TraceEvent]):
    """The events of a whole cluster, in the order in which they happened."""

    def digest(self) -> str:
        """A hash of everything in it: equal runs have equal digests, in any process."""
        hasher = sha256()
        for event in self:
            hasher.update(str(event).encode() + b"\n")
        return hasher.hexdigest()


@attrs.frozen
class Tracer:
    """One node's pen on the cluster's trace; without a trace it writes nothing."""

    trace: Trace | None
    node: int
    clock: Clock

    def record(self, name: str, /, **fields: Any) -> None:
        if self.trace is not None:
            self.trace.append(TraceEvent(self.clock.now_ms(), self.node, name, fields))

    def replica(self, name: str, topic: str, partition: int, replica: PartitionReplica, /, **fields: Any) -> None:
        """A decision of a replica, with its state right after it."""
        if self.trace is not None:
            self.record(name, topic=topic, partition=partition, **fields, **replica_state(replica))


def replica_state(replica: PartitionReplica) -> dict[str, Any]:
    """What a replica knows, as plain values."""
    return {
        "leader": replica.leader,
        "leader_epoch": replica.leader_epoch,
        "partition_epoch": replica.partition_epoch,
        "log_end_offset": replica.log_end_offset,
        "high_watermark": replica.high_watermark,
        "log_start": replica.log.log_start_offset,
        "isr": tuple(sorted(replica.isr)),
        "pending_isr": None if replica.pending_isr is None else tuple(sorted(replica.pending_isr)),
    }


def registration_state(
    topic: str, partition: int, registration: PartitionRegistration, metadata_offset: int
) -> tuple[object, ...]:
    """(topic, partition, leader, leader epoch, partition epoch, ISR, ELR, last known leader, replicas, adding,
    removing, offline, the metadata log's end) as plain values.
    """
    return (
        topic,
        partition,
        registration.leader,
        registration.leader_epoch,
        registration.partition_epoch,
        tuple(sorted(registration.isr)),
        tuple(sorted(registration.elr)),
        registration.last_known_leader,
        registration.replicas,
        registration.adding_replicas,
        registration.removing_replicas,
        tuple(sorted(registration.offline_replicas)),
        metadata_offset,
    )


def fetch_fields(fetch: FollowerFetch) -> dict[str, Any]:
    return {
        "fetch": (
            fetch.replica_id,
            fetch.broker_epoch,
            fetch.leader_epoch,
            fetch.fetch_offset,
            fetch.last_fetched_epoch,
            fetch.log_start_offset,
        )
    }


def answer_fields(answer: PartitionFetchResponse, fetch: FollowerFetch) -> dict[str, Any]:
    """What a leader answers; `records` is how many offsets the answer takes the follower on."""
    diverging = answer.diverging_epoch
    batches = extents(in_memory(answer.records))
    return {
        "error": answer.error.name,
        "diverging_epoch": -1 if diverging is None else diverging.epoch,
        "diverging_end_offset": -1 if diverging is None else diverging.end_offset,
        "records": max((batch.next_offset for batch in batches), default=fetch.fetch_offset) - fetch.fetch_offset,
        "leader_high_watermark": answer.high_watermark,
        "leader_log_start": answer.log_start_offset,
    }


def request_fields(request: AlterPartitionRequest) -> dict[str, Any]:
    return {
        "request": (
            request.broker_id,
            request.broker_epoch,
            request.leader_epoch,
            request.partition_epoch,
            request.isr,
        )
    }
