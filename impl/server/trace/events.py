"""What a node can decide, one class each, named as the specification's action.

A decision carries what is needed to rebuild that action and, where a replica made it, the state of the replica right
after it, so that a run can be held against the specification step by step. Decisions are immutable values: they
compare, and print the same in every process.

Three kinds of node decide. A *leader* or *follower* is a broker acting for one of its replicas (`OfReplica`); a
*broker* acts as a whole (`Decision`); what the *controller* decides says which partitions it changed
(`ControllerDecision`).
"""

from __future__ import annotations

from collections.abc import Mapping
from inspect import get_annotations
from typing import TYPE_CHECKING, ClassVar, Self, dataclass_transform

import attrs

from tidegauge.impl.records.batches import headers
from tidegauge.impl.records.lazy import in_memory
from tidegauge.impl.server.trace.contents import DamagedLog as DamagedLog
from tidegauge.impl.server.trace.contents import LoggedBatch as LoggedBatch
from tidegauge.impl.server.trace.contents import LostReplica as LostReplica
from tidegauge.impl.server.trace.contents import ProducerMemory as ProducerMemory
from tidegauge.impl.server.trace.contents import batches_appended as batches_appended
from tidegauge.impl.server.trace.contents import batches_from as batches_from
from tidegauge.impl.server.trace.contents import batches_in as batches_in
from tidegauge.impl.server.trace.contents import logged
from tidegauge.impl.server.trace.printing import plain

if TYPE_CHECKING:
    from kio.schema.errors import ErrorCode

    from tidegauge.impl.partition.messages import (
        AlterPartitionRequest,
        EpochEndOffset,
        FollowerFetch,
        PartitionFetchResponse,
    )
    from tidegauge.impl.partition.registration import PartitionRegistration
    from tidegauge.impl.partition.replica import PartitionReplica

TopicPartition = tuple[str, int]


@attrs.frozen
class ReplicaState:
    """What a replica knows of its partition."""

    leader: int
    leader_epoch: int
    partition_epoch: int
    log_end_offset: int
    high_watermark: int
    log_start: int
    isr: tuple[int, ...]
    """The committed ISR as far as the replica knows, sorted."""
    pending_isr: tuple[int, ...] | None
    """The ISR that a leader has proposed and that is not decided yet, sorted."""
    last_stable_offset: int
    """Where read_committed ends."""

    @classmethod
    def of(cls, replica: PartitionReplica) -> Self:
        """The state of a replica now."""
        return cls(
            leader=replica.leader,
            leader_epoch=replica.leader_epoch,
            partition_epoch=replica.partition_epoch,
            log_end_offset=replica.log_end_offset,
            high_watermark=replica.high_watermark,
            log_start=replica.log.log_start_offset,
            isr=tuple(sorted(replica.isr)),
            pending_isr=None if replica.pending_isr is None else tuple(sorted(replica.pending_isr)),
            last_stable_offset=replica.last_stable_offset,
        )


@attrs.frozen
class FetchOutcome:
    """What a leader's response to a follower's fetch says."""

    error: ErrorCode
    diverging_epoch: EpochEndOffset | None
    """Where the logs part, if they do (KIP-595)."""
    records: int
    """How many offsets the response takes the follower on."""
    high_watermark: int
    """The leader's."""
    log_start: int
    """The leader's."""
    batches: tuple[LoggedBatch, ...]
    """Those that the response brings."""

    @classmethod
    def of(cls, response: PartitionFetchResponse, fetch: FollowerFetch) -> Self:
        """The outcome of `fetch` when `response` is the leader's response to it."""
        batches = logged(header for _, header in headers(in_memory(response.records)))
        reached = max((batch.end_offset for batch in batches), default=fetch.fetch_offset)
        return cls(
            error=response.error,
            diverging_epoch=response.diverging_epoch,
            records=reached - fetch.fetch_offset,
            high_watermark=response.high_watermark,
            log_start=response.log_start_offset,
            batches=batches,
        )


@attrs.frozen
class ChangedPartition:
    """A partition as a decision of the controller left it."""

    topic: str
    partition: int
    registration: PartitionRegistration
    metadata_offset: int
    """The end of the metadata log right after the decision."""


@attrs.frozen
class TopicSettings:
    """The settings of a topic by which the controller decides."""

    topic: str
    min_insync_replicas: int
    unclean_leader_election: bool


# --- the kinds of decision -----------------------------------------------------------------------------------------


@dataclass_transform(frozen_default=True)
class Decision:
    """What a node decided. One that has no fields of its own concerns the broker that decided it.

    The annotations of a subclass are its fields, after those of its bases, as with attrs. What attrs would generate for
    each of fifty classes is written once, here: it takes 8 ms to generate, which every start of a cluster would pay.
    """

    fields: ClassVar[tuple[str, ...]] = ()
    """The names of the fields, in the order in which the constructor takes them."""
    _names: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls) -> None:
        cls.fields = (*cls.fields, *get_annotations(cls))
        cls._names = frozenset(cls.fields)

    def __init__(self, *args: object, **kwargs: object) -> None:
        """Raises TypeError unless each field is given once."""
        values = dict(zip(self.fields, args, strict=False), **kwargs)
        if len(args) + len(kwargs) != len(self.fields) or values.keys() != self._names:
            raise TypeError(f"{type(self).__name__} takes the fields {', '.join(self.fields)}")
        self.__dict__.update(values)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a decision does not change: {name} cannot be set")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((type(self), *map(self.__dict__.get, self.fields)))

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        fields = [f"{name}={plain(self.__dict__[name])}" for name in self.fields]
        return " ".join([type(self).__name__, *fields])


class OfPartition(Decision):
    """A decision of a broker about one partition."""

    topic: str
    partition: int


class OfReplica(OfPartition):
    """A decision of a broker's replica."""

    state: ReplicaState
    """Right after the decision."""


class OfLog(OfReplica):
    """A decision of a broker's replica by which its log may be another than before, or what it knows of producers."""

    producers: ProducerMemory
    """Right after the decision."""


class ControllerDecision(Decision):
    """A decision of the controller."""

    changed: tuple[ChangedPartition, ...]
    """The partitions that it changed, as they are now."""


class PartitionDecision(ControllerDecision):
    """A decision of the controller that was about one partition."""

    topic: str
    partition: int


class TopicDecision(ControllerDecision):
    """A decision of the controller that was about a topic."""

    topic: str


class BrokerDecision(ControllerDecision):
    """A decision of the controller that was about a broker."""

    broker: int


class SessionDecision(BrokerDecision):
    """A decision of the controller about one process of a broker."""

    broker_epoch: int


# --- produce, fetch and replication --------------------------------------------------------------------------------


class Append(OfLog):
    """The leader appends batches of `records` offsets, nearly always one."""

    acks: int
    base_offset: int
    records: int
    batches: tuple[LoggedBatch, ...]


class AcknowledgeRepeat(OfLog):
    """The leader has been sent what it has at `base_offset` already, and appends nothing."""

    base_offset: int
    batches: tuple[LoggedBatch, ...]
    """As they came: without a place."""


class RefuseSequence(OfLog):
    """The leader refuses batches that are not the next ones of their producer, and appends nothing."""

    batches: tuple[LoggedBatch, ...]
    """As they came: without a place."""
    error: ErrorCode


class ExpireProducers(OfLog):
    """The replica forgets producers that have been idle for too long."""

    expired: tuple[int, ...]


class SendFetch(OfReplica):
    """The follower sends a fetch to the broker `source`."""

    source: int
    fetch: FollowerFetch


class ReceiveFetch(OfReplica):
    """The leader handles a fetch and responds."""

    fetch: FollowerFetch
    outcome: FetchOutcome


class HoldFetch(OfReplica):
    """The leader handles a fetch, notes its offset, and holds the response until there is something new."""

    fetch: FollowerFetch
    outcome: FetchOutcome


class RefuseFetch(OfPartition):
    """A broker gets a fetch for a replica that it does not have."""

    fetch: FollowerFetch
    error: ErrorCode
    topic_id: str
    """As the fetch has it."""


class ReceiveFetchResponse(OfLog):
    """The follower handles the response of `source`; `accepted` unless it was refused or out of date."""

    source: int
    fetch: FollowerFetch
    outcome: FetchOutcome
    accepted: bool


class TakeInPart(ReceiveFetchResponse):
    """The follower's disk failed while it acted on a response: it took of that what its log has, and nothing else."""


class Disconnect(OfReplica):
    """The follower gives up a fetch to `source`: no response will come."""

    source: int
    fetch: FollowerFetch


class ShrinkIsr(OfReplica):
    """The leader proposes an ISR without the followers that lag; the proposal is in `state.pending_isr`."""


class RetryAlterPartition(OfReplica):
    """The leader sends its open proposal again."""

    request: AlterPartitionRequest


class ReceiveAlterPartitionResponse(OfReplica):
    """The leader handles the controller's response to its proposal."""

    request: AlterPartitionRequest
    error: ErrorCode


class DisconnectController(OfReplica):
    """The leader gives up a proposal: no response will come."""

    request: AlterPartitionRequest
    error: ErrorCode


class DeleteRecords(OfReplica):
    """The leader deletes on demand what is before `offset`: its log starts there at least, durably."""

    offset: int


class Retain(OfReplica):
    """Retention has moved the start of the replica's log, durably."""


class WithdrawReplica(OfPartition):
    """The broker has met damage in a log that others have: the replica is offline until nobody counts on it."""

    start: int
    """The first offset that cannot be read."""
    log_end_offset: int


class RepairReplica(OfLog):
    """The replica's log is cut before what the disk has damaged, to be fetched from the leader."""


class Flush(OfReplica):
    """All of the replica's log is on stable storage."""


class CheckpointHighWatermark(OfReplica):
    """The replica's high watermark is on the disk, where a restart begins from it."""

    offset: int
    """What was written; the high watermark may have moved while the disk took its time."""


# --- what a broker does with metadata ------------------------------------------------------------------------------


class PullMetadata(Decision):
    """The broker has read the metadata log up to `metadata_offset`, and acts on it now."""

    metadata_offset: int


class SendRegistration(Decision):
    """The broker's process asks the controller to register it; its heartbeat was refused, or it has yet to register."""


class LearnBrokerEpoch(Decision):
    """The broker's process has registered, and goes on under this broker epoch."""

    broker_epoch: int


class ApplyMetadata(OfReplica):
    """The replica takes over a registration of its partition."""

    controller_epoch: int
    replicas: tuple[int, ...]
    elr: tuple[int, ...]
    """Sorted (KIP-966)."""
    topic_id: str
    """As the metadata have it."""


class RemoveReplica(OfPartition):
    """The metadata log has taken the replica away by `metadata_offset`: its log is gone, or left on a failed disk."""

    metadata_offset: int
    topic_id: str
    """Of the replica's log."""
    is_left: bool
    """Whether the log could not be deleted, for its directory has failed: the next process finds it."""


# --- a broker's process and its disks ------------------------------------------------------------------------------


class Crash(Decision):
    """The broker's machine died."""

    kept: Mapping[TopicPartition, int]
    """Where each log on its disk ends now."""
    starts: Mapping[TopicPartition, int]
    """Where those begin that do not begin at 0."""
    high_watermarks: Mapping[TopicPartition, int]
    """The high watermarks that are written down there, but for 0."""


class Stop(Decision):
    """The broker stopped in good order."""

    kept: Mapping[TopicPartition, int]
    """Where each log on its disk ends now."""
    starts: Mapping[TopicPartition, int]
    """Where those begin that do not begin at 0."""
    high_watermarks: Mapping[TopicPartition, int]
    """The high watermarks that are written down there, but for 0."""
    noted: int
    """The broker epoch in the note of a clean stop; -1 where not all of its log directories have one."""


class Restart(OfLog):
    """The broker started again, and found this replica on its disk."""

    batches: tuple[LoggedBatch, ...]
    """All that its log has and that can be read."""
    log_start_epoch: int
    """Leader epoch of the last record below the log start; -1 when there was none, or the log does not know it."""
    topic_id: str
    """As the log's directory has it; empty where nobody can tell."""


class Pause(Decision):
    """The broker's process was stopped, as by SIGSTOP."""


class Resume(Decision):
    """The broker's process goes on."""


class LogDirectoryFailed(Decision):
    """A log directory failed, and its replicas are offline."""

    path: str
    lost: tuple[LostReplica, ...]


class DamageFound(Decision):
    """A process has opened logs that are not as the last one left them."""

    damaged: tuple[DamagedLog, ...]
    is_suspect: bool
    """Whether more was found than torn tails, as a crash leaves them: it does not count as stopped cleanly."""


class ReplicaDamaged(LogDirectoryFailed):
    """A replica is offline alone, because its log is damaged."""


class LogNotOpened(LogDirectoryFailed):
    """A replica is offline, because its log cannot be opened, or made."""


class WaitForRoom(OfPartition):
    """A replica cannot use its log for want of room or descriptors, and refuses everybody until it can."""


class HasRoom(OfLog):
    """A replica that waited has opened its log again, with its memory of producers made anew."""


class RequestFailed(Decision):
    """A handler raised an exception that it should not: a bug of the node."""

    api: str
    error: str


# --- the controller ------------------------------------------------------------------------------------------------


class ControllerFailover(ControllerDecision):
    """A controller takes over, with the metadata log up to `metadata_offset`."""

    controller_epoch: int
    metadata_offset: int


class Register(SessionDecision):
    """A broker's process joins and gets its broker epoch."""


class Unfence(SessionDecision):
    """A broker has caught up, and may lead and be in ISRs."""


class ExpireSession(SessionDecision):
    """A broker's session expires, or the broker asks for it: it is fenced."""


class BeginShutdown(SessionDecision):
    """A broker wants to stop, and has to wait until it leads nothing."""


class GrantShutdown(SessionDecision):
    """A broker that has waited may stop."""


class Shutdown(SessionDecision):
    """A broker wants to stop, and may at once."""


class UnregisterBroker(BrokerDecision):
    """A broker that is gone for good is removed."""


class AssignReplicasToDirs(BrokerDecision):
    """The controller notes in which log directory the broker has its replicas."""


class DirectoriesOffline(BrokerDecision):
    """The controller takes the replicas in the broker's failed directories for offline."""


class ReceiveAlterPartition(PartitionDecision):
    """The controller decides on a proposed ISR."""

    request: AlterPartitionRequest
    error: ErrorCode


class PreferredElection(PartitionDecision):
    """The preferred replica is elected."""


class UncleanElection(PartitionDecision):
    """A leader is elected from outside the ISR and the ELR, at an operator's order."""


class StartReassignment(PartitionDecision):
    """The partition is to move to the brokers in `target`."""

    target: tuple[int, ...]


class CancelReassignment(PartitionDecision):
    """The partition is to stay where it is."""


class CreateTopic(TopicDecision):
    """A topic is created, with all its partitions."""

    topic_id: str


class CreatePartitions(TopicDecision):
    """A topic gets more partitions."""


class DeleteTopic(TopicDecision):
    """A topic is deleted, with all its partitions."""

    metadata_offset: int
    """The end of the metadata log right after the decision."""


class AlterConfigs(ControllerDecision):
    """Settings of a resource are changed; `settings` has those of all topics as they are now."""

    resource: str
    settings: tuple[TopicSettings, ...]
