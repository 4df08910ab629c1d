"""The cores beside the machine of log directories that fail: a broker that lives on without its replica.

That a replica is gone with its directory is the broker's shell's part (`impl.server.broker.hosted_partitions`), which
is the harness here; what the controller makes of it is the core's. Every process of a broker has its replica in one
directory and names that when it registers. If the controller takes the replica for offline, the new process has it in a
directory of another id, as on a disk that was replaced: so its report comes apart from its registration, as in the
specification.
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode

from tidegauge.impl.metadata.records import MetadataRecord, RegisterBrokerRecord, ReplicaDirectoryRecord
from tidegauge.impl.partition.messages import PartitionFetchResponse
from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.model_tests.harness.cores import abstraction, steps
from tidegauge.model_tests.harness.cores.extensions import shutdown
from tidegauge.model_tests.harness.cores.extensions.shutdown import NO_NOTE, ShutdownCores
from tidegauge.model_tests.harness.cores.message_parts import Additions
from tidegauge.model_tests.harness.cores.replication import (
    CORRECT,
    ELSEWHERE,
    NOTHING,
    PARTITION,
    TOPIC,
    Broker,
    Cores,
    Roles,
)
from tidegauge.model_tests.harness.performing import Steps, on
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.kernel.parts import parts_of, with_part
from tidegauge.spec.replication import actions as protocol
from tidegauge.spec.replication import control, faults
from tidegauge.spec.replication import state as spec
from tidegauge.spec.replication.extensions.directories import (
    FailDirectory,
    FailedDirectory,
    LoseNote,
    LoseTail,
    OfflineReplicas,
    ReplicaOffline,
    ReplicaOnline,
)
from tidegauge.spec.replication.extensions.shutdown import CleanStop, Stop, StopUnasked
from tidegauge.spec.replication.machine import Replication

REFUSED_REPORTS: Final = (
    (ELSEWHERE, PARTITION, ErrorCode.not_leader_or_follower),
    (TOPIC, PARTITION + 1, ErrorCode.unknown_topic_or_partition),
    ("nowhere", PARTITION, ErrorCode.unknown_topic_or_partition),
)
"""Reports of replicas that no broker of the machine has."""


def refuse_replica_offline(cores: Cores, action: ReplicaOffline) -> ErrorCode | None:
    """The same report again. One of a new process is news of its directory, though none of its replica."""
    assert isinstance(cores, DirectoryCores)
    failed = cores.directories[action.broker]
    if failed in cores.controller.image.brokers[action.broker].directories:
        return None
    assert not cores.commit(cores.controller.directories.mark_offline(action.broker, {failed})), "it is news"
    return ErrorCode.none


def refuse_replica_online(cores: Cores, action: ReplicaOnline) -> ErrorCode:
    """A report of what the controller knows."""
    assert isinstance(cores, DirectoryCores)
    where = cores.directories[action.broker]
    return cores.commit(cores.controller.directories.assign(action.broker, TOPIC, PARTITION, where))


class DirectoryCores(ShutdownCores):
    """Brokers, controller and messages, where a replica may be lost with its directory."""

    refusals = Steps[Cores, [], ErrorCode | None](
        on(ReplicaOffline, refuse_replica_offline),
        on(ReplicaOnline, refuse_replica_online),
        over=ShutdownCores.refusals,
    )

    def __init__(self, machine: Replication, roles: Roles = CORRECT, additions: Additions = NOTHING) -> None:
        self.directories = [f"{number}/0" for number in range(machine.brokers)]
        """The directory, by id, in which each broker has its replica."""
        self.failed: set[int] = set()
        """The brokers whose directory has failed in the life of their last process."""
        self.lost: dict[int, PartitionReplica] = {}
        """The replicas of running brokers that went with their directories, as they were."""
        super().__init__(machine, roles, additions)

    def _founding_records(self) -> list[MetadataRecord]:
        founding = [
            record._replace(directories=(self.directories[record.broker_id],))
            if isinstance(record, RegisterBrokerRecord)
            else record
            for record in super()._founding_records()
        ]
        placed = (
            ReplicaDirectoryRecord(TOPIC, PARTITION, number, where) for number, where in enumerate(self.directories)
        )
        return [*founding, *placed]

    def apply_metadata(self, number: int) -> None:
        """A broker without its replica knows what the metadata say, and does nothing."""
        if number not in self.lost:
            super().apply_metadata(number)
            return
        broker = self.brokers[number]
        records = broker.pulled.records if broker.pulled else self.metadata_log.read(broker.image.offset)
        broker.image.replay(records)
        broker.pulled = broker.seen = None

    # --- as the specification sees it ----------------------------------------------------------------------------

    def _abstract_controller(self, expected: spec.Controller) -> spec.Controller:
        seen = super()._abstract_controller(with_part(expected, OfflineReplicas()))
        return with_part(seen, OfflineReplicas(abstraction.ids(self.registration.offline_replicas)))

    def _look_at_replica(self, number: int, broker: Broker) -> spec.Replica:
        lost = self.lost.get(number)
        seen = super()._look_at_replica(number, broker) if lost is None else self._look_at_lost(number, broker, lost)
        return with_part(seen, FailedDirectory(number in self.failed))

    def _look_at_lost(self, number: int, broker: Broker, lost: PartitionReplica) -> spec.Replica:
        """What the disk may have, and the newest that the broker knows: by its replica, or by the metadata since."""
        told = broker.image.partition(TOPIC, PARTITION)
        return spec.Replica(
            paused=broker.paused,
            broker_epoch=self.epochs.number(number, broker.broker_epoch),
            log=broker.log.records,
            flushed=broker.log.flushed_end_offset,
            high_watermark=lost.high_watermark,
            checkpoint=broker.checkpoint,
            controller_epoch=lost.controller_epoch
            if told is None
            else max(lost.controller_epoch, broker.image.controller_epoch),
            leader_epoch=lost.leader_epoch if told is None else max(lost.leader_epoch, told.leader_epoch),
            partition_epoch=lost.partition_epoch if told is None else max(lost.partition_epoch, told.partition_epoch),
            pulled=broker.pulled.word if broker.pulled else None,
            parts=parts_of(CleanStop(self.epochs.number(number, self.notes[number]))),
        )

    def step(self, action: Action) -> None:
        STEPS.perform(self, action)


# --- directories ---------------------------------------------------------------------------------------------------


def fail_directory(cores: DirectoryCores, action: FailDirectory) -> None:
    """The process has no such replica any more: its own requests and those that wait for it are given up."""
    number, broker = action.broker, cores.brokers[action.broker]
    cores.lost[number] = cores.replica(number)
    cores.failed.add(number)
    broker.replica = broker.pulled = None
    broker.outstanding = {}
    cores.waiting = {value: one for value, one in cores.waiting.items() if one[0] != number}


def replica_offline(cores: DirectoryCores, action: ReplicaOffline) -> None:
    cores.commit(cores.controller.directories.mark_offline(action.broker, {cores.directories[action.broker]}))


def replica_online(cores: DirectoryCores, action: ReplicaOnline) -> None:
    where = cores.directories[action.broker]
    error = cores.commit(cores.controller.directories.assign(action.broker, TOPIC, PARTITION, where))
    assert error is ErrorCode.none, error.name
    for topic, partition, refusal in REFUSED_REPORTS:
        refused = cores.controller.directories.assign(action.broker, topic, partition, where)
        assert (refused.response, refused.records) == (refusal, ()), f"a report of a replica in {topic}-{partition}"


def lose_tail(cores: DirectoryCores, action: LoseTail) -> None:
    broker = cores.brokers[action.broker]
    broker.log, broker.seen = broker.log.after_crash(action.kept), None


def lose_note(cores: DirectoryCores, action: LoseNote) -> None:
    cores.notes[action.broker] = NO_NOTE
    cores.brokers[action.broker].seen = None


# --- a broker's process --------------------------------------------------------------------------------------------


def stop(cores: DirectoryCores, action: Stop | StopUnasked) -> None:
    """A directory that has failed is not closed: neither flushed nor noted, and nobody knows yet what it kept."""
    number = action.broker
    if number not in cores.lost:
        shutdown.stop(cores, action)
    else:
        leave_failed(cores, number)


def leave_failed(cores: DirectoryCores, number: int) -> None:
    """A process ends with a directory that has failed, and leaves the log as it was."""
    cores.lost.pop(number, None)
    log = cores.brokers[number].log
    shutdown.end_process(cores, number, log.log_end_offset)
    cores.brokers[number].log = log
    cores.notes[number] = NO_NOTE


def crash(cores: DirectoryCores, action: faults.Crash) -> None:
    shutdown.crash(cores, action)
    cores.failed.discard(action.broker)
    cores.lost.pop(action.broker, None)


def restart(cores: DirectoryCores, action: faults.Restart) -> None:
    """A new process has its directory back, with what the disk kept."""
    cores.failed.discard(action.broker)
    steps.restart(cores, action)


def check_directories(cores: DirectoryCores, number: int) -> None:
    """Raise AssertionError unless a replica is online if its process names the directory where the replica is known."""
    known = cores.controller.image.topics[TOPIC].directories[PARTITION, number]
    for named in ((), (known,)):
        proposal = cores.controller.members.register(number, host="", port=0, directories=named)
        partition = proposal.image.partition(TOPIC, PARTITION)
        assert partition is not None
        is_offline = number in partition.offline_replicas
        assert is_offline == (known not in named), f"a process that names {named} has its replica in {known}"


def register(cores: DirectoryCores, action: faults.Register) -> None:
    number = action.broker
    check_directories(cores, number)
    if number in cores.registration.offline_replicas:
        cores.directories[number] = f"{number}/{cores.metadata_log.end_offset}"
    shutdown.register_process(cores, number, directories=(cores.directories[number],))


# --- messages to a broker without its replica ----------------------------------------------------------------------


def receive_fetch(cores: DirectoryCores, action: protocol.ReceiveFetch) -> None:
    request = action.request
    if request.leader not in cores.lost:
        steps.receive_fetch(cores, action)
        return
    if not action.duplicate:
        del cores.fetches[request]
    if request in cores.brokers[request.follower].outstanding:
        refusal = PartitionFetchResponse(ErrorCode.kafka_storage_error)
        cores.fetch_responses[abstraction.fetch_response(request, refusal, (), cores.additions)] = refusal


def receive_fetch_response(cores: DirectoryCores, action: protocol.ReceiveFetchResponse) -> None:
    if action.response.request.follower in cores.lost:
        del cores.fetch_responses[action.response]
    else:
        steps.receive_fetch_response(cores, action)


def receive_alter_partition_response(cores: DirectoryCores, action: control.ReceiveAlterPartitionResponse) -> None:
    if action.response.leader in cores.lost:
        del cores.alter_responses[action.response]
    else:
        steps.receive_alter_partition_response(cores, action)


STEPS: Final = Steps[DirectoryCores, [], None](
    on(FailDirectory, fail_directory),
    on(ReplicaOffline, replica_offline),
    on(ReplicaOnline, replica_online),
    on(LoseTail, lose_tail),
    on(LoseNote, lose_note),
    on(Stop, stop),
    on(StopUnasked, stop),
    on(faults.Crash, crash),
    on(faults.Restart, restart),
    on(faults.Register, register),
    on(protocol.ReceiveFetch, receive_fetch),
    on(protocol.ReceiveFetchResponse, receive_fetch_response),
    on(control.ReceiveAlterPartitionResponse, receive_alter_partition_response),
    over=shutdown.STEPS,
)
