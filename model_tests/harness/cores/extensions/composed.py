"""The cores beside the machine of everything at once: what each extension's cores say, and what they mean together.

A broker that is no replica has no log, and none to lose with a directory: a failure of its disk is nobody's business,
and is left out on both sides (`can_perform`). Every process of a broker names several directories. A replica that is
made anew after its directory failed is in the next of them, and its broker says so.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from tidegauge.impl.metadata.records import MetadataRecord, RegisterBrokerRecord
from tidegauge.impl.metadata.topic_configs import MIN_INSYNC_REPLICAS
from tidegauge.impl.partition.messages import PartitionFetchResponse
from tidegauge.model_tests.harness.cores import abstraction, steps
from tidegauge.model_tests.harness.cores.extensions import directories, reassignment, retention, settings, shutdown
from tidegauge.model_tests.harness.cores.extensions.directories import DirectoryCores
from tidegauge.model_tests.harness.cores.extensions.reassignment import ReassignmentCores
from tidegauge.model_tests.harness.cores.extensions.retention import RetentionCores
from tidegauge.model_tests.harness.cores.extensions.settings import SettingsCores
from tidegauge.model_tests.harness.cores.memory_log import LockstepLog, MemoryLog
from tidegauge.model_tests.harness.cores.message_parts import Additions
from tidegauge.model_tests.harness.cores.replication import CORRECT, NOTHING, PARTITION, TOPIC, Broker, Cores, Roles
from tidegauge.model_tests.harness.performing import Steps, on
from tidegauge.spec.kernel.guarded import Refusal
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.kernel.parts import parts_of, with_part
from tidegauge.spec.replication import actions as protocol
from tidegauge.spec.replication import control, faults
from tidegauge.spec.replication import state as spec
from tidegauge.spec.replication.extensions.directories import (
    FailDirectory,
    FailedDirectory,
    LeftLog,
    LoseNote,
    LoseTail,
    ReplicaOffline,
    ReplicaOnline,
)
from tidegauge.spec.replication.extensions.reassignment import CancelReassignment, ReplicaList, StartReassignment
from tidegauge.spec.replication.extensions.retention import DeleteRecords, LogStart, Retain, Retention, WriteLogStart
from tidegauge.spec.replication.extensions.settings import ChangeSettings, KnownSettings
from tidegauge.spec.replication.extensions.shutdown import CleanStop, Stop, StopUnasked
from tidegauge.spec.replication.machine import Replication

SPARE: Final = 40
"""Directories that each process names beside the one of its replica."""


def refuse_to_delete_records(cores: Cores, action: DeleteRecords) -> ErrorCode | None:
    there = cores.brokers[action.broker].replica is not None
    return retention.refuse_to_delete_records(cores, action) if there else None


def refuse_replica_online(cores: Cores, action: ReplicaOnline) -> ErrorCode | None:
    """A report of what the controller knows; of anything else it is news."""
    assert isinstance(cores, DirectoryCores)
    known = cores.controller.image.topics[TOPIC].directories.get((PARTITION, action.broker))
    is_known = action.broker in cores.registration.replicas and known == cores.directories[action.broker]
    return directories.refuse_replica_online(cores, action) if is_known else None


class Left(NamedTuple):
    """What a failed directory has of a replica that was taken away: its log, and the high watermark written down."""

    log: LockstepLog
    checkpoint: int


class ComposedCores(ReassignmentCores, RetentionCores, SettingsCores, DirectoryCores):
    """Brokers, controller and messages, where everything may happen at once."""

    refusals = Steps[Cores, [], ErrorCode | None](
        on(StartReassignment, reassignment.refuse_to_reassign),
        on(CancelReassignment, reassignment.refuse_to_cancel),
        on(DeleteRecords, refuse_to_delete_records),
        on(ReplicaOnline, refuse_replica_online),
        over=DirectoryCores.refusals,
    )

    def named(self, number: int) -> tuple[str, ...]:
        """The directories that a process of the broker names, that of its replica among them."""
        first = self.directories[number].split("+")[0]
        return tuple(f"{first}+{place}" if place else first for place in range(SPARE))

    def _founding_records(self) -> list[MetadataRecord]:
        return [
            record._replace(directories=self.named(record.broker_id))
            if isinstance(record, RegisterBrokerRecord)
            else record
            for record in super()._founding_records()
        ]

    def __init__(self, machine: Replication, roles: Roles = CORRECT, additions: Additions = NOTHING) -> None:
        self.left: dict[int, Left] = {}
        """What the failed directories of running brokers have of replicas that were taken away."""
        super().__init__(machine, roles, additions)

    def can_perform(self, action: Action, before: spec.State) -> bool:
        if isinstance(action, FailDirectory):
            return self.hosts(action.broker)
        if isinstance(action, ReplicaOffline):
            online = self.controller.image.brokers[action.broker].directories
            is_news = action.broker in self.registration.replicas and self.directories[action.broker] in online
            return is_news or isinstance(action.guard(self.machine, before), Refusal)
        return True

    def hosts(self, number: int) -> bool:
        """Whether the broker has a replica, as far as it knows."""
        told = self.told(number)
        return self.brokers[number].replica is not None and told is not None and number in told.replicas

    def apply_metadata(self, number: int) -> None:
        broker, image = self.brokers[number], self.brokers[number].image
        image.replay(broker.pulled.records if broker.pulled else self.metadata_log.read(image.offset))
        broker.pulled = broker.seen = None
        registration = self.told(number)
        assert registration is not None
        if number not in registration.replicas:
            self.delete_replica(number)
        elif number not in self.lost:
            if broker.replica is None:
                self.left.pop(number, None)
                self.start_replica(number)
            self.report_directory(number)
            self.configure(number)
            self.replica(number).apply_metadata(registration, image.controller_epoch, self.now_ms)
            self.carry_out_effects(number)

    def report_directory(self, number: int) -> None:
        """A replica that is made anew may be in another directory than the one before it."""
        known = self.registration
        if number in known.replicas and number not in known.offline_replicas:
            self.commit(self.controller.directories.assign(number, TOPIC, PARTITION, self.directories[number]))

    def delete_replica(self, number: int) -> None:
        broker = self.brokers[number]
        if number in self.lost:
            self.left[number] = Left(broker.log, broker.checkpoint)
        super().delete_replica(number)
        if number in self.failed:
            named = self.named(number)
            self.directories[number] = named[(named.index(self.directories[number]) + 1) % SPARE]
        self.failed.discard(number)
        self.lost.pop(number, None)

    # --- as the specification sees it ----------------------------------------------------------------------------

    def _look_at_replica(self, number: int, broker: Broker) -> spec.Replica:
        """What each extension adds is added to whatever a broker has that is no replica, too."""
        told = self.told(number)
        lost = self.lost.get(number)
        seen = Cores._look_at_replica(self, number, broker)
        if lost is not None:
            seen = self._look_at_lost(number, broker, lost)
        elif broker.replica is None and number not in self.down:
            seen = self._look_at_nothing(number, broker)
        if broker.replica is not None:
            seen = settings.with_known_setting(seen, broker.replica)
            seen = with_part(seen, ReplicaList(broker.replica.replicas))
        elif told is not None and number not in self.down:
            seen = with_part(seen, KnownSettings(int(broker.image.topics[TOPIC].configs[MIN_INSYNC_REPLICAS])))
            seen = with_part(seen, ReplicaList(told.replicas))
        seen = with_part(seen, LogStart(broker.log.log_start_offset, broker.log.log_start_checkpoint))
        seen = with_part(seen, CleanStop(self.epochs.number(number, self.notes[number])))
        if number in self.left:
            seen = with_part(seen, LeftLog(self._look_at_left(self.left[number])))
        return with_part(seen, FailedDirectory(number in self.failed))

    def _look_at_left(self, left: Left) -> spec.Replica:
        start = left.log.log_start_checkpoint
        return spec.Replica(
            running=False,
            log=left.log.records,
            flushed=left.log.flushed_end_offset,
            checkpoint=left.checkpoint,
            parts=parts_of(FailedDirectory(failed=True), LogStart(start, start)),
        )

    def _look_at_nothing(self, number: int, broker: Broker) -> spec.Replica:
        """A broker that runs and has no replica knows what it was told."""
        told = self.told(number)
        seen = spec.Replica(
            paused=broker.paused,
            broker_epoch=self.epochs.number(number, broker.broker_epoch),
            outstanding=tuple(sorted(broker.outstanding)),
            pulled=broker.pulled.word if broker.pulled else None,
        )
        if told is None:
            return seen
        return spec.Replica(
            paused=seen.paused,
            broker_epoch=seen.broker_epoch,
            controller_epoch=broker.image.controller_epoch,
            leader_epoch=told.leader_epoch,
            partition_epoch=told.partition_epoch,
            pulled=seen.pulled,
        )

    def end_with_left(self, number: int) -> bool:
        """A process is about to end: its disk has what could not be deleted there. Whether there is any of that."""
        if number not in self.left:
            return False
        self.brokers[number].log, self.brokers[number].checkpoint = self.left.pop(number)
        return True

    def step(self, action: Action) -> None:
        STEPS.perform(self, action)


def write_log_start(cores: ComposedCores, number: int, offset: int) -> None:
    """What is below a log start that is written down is flushed; more only where no clock writes it."""
    log = cores.brokers[number].log
    if not Retention.of(cores.machine).written_by_clock:
        log.write_log_start()
        return
    assert isinstance(log, MemoryLog), "only a log in memory is written down as the specification's clock does it"
    log.flushed_end_offset = max(log.flushed_end_offset, offset)
    log.log_start_checkpoint = offset
    cores.brokers[number].seen = None


def log_start_written(cores: ComposedCores, action: WriteLogStart) -> None:
    write_log_start(cores, action.broker, action.offset)


def delete_records(cores: ComposedCores, action: DeleteRecords) -> None:
    assert cores.replica(action.broker).delete_records(action.offset) == action.offset
    write_log_start(cores, action.broker, action.offset)
    cores.carry_out_effects(action.broker)


def retain(cores: ComposedCores, action: Retain) -> None:
    log = cores.brokers[action.broker].log
    assert action.offset <= cores.replica(action.broker).high_watermark
    log.delete_records_before(action.offset)
    write_log_start(cores, action.broker, action.offset)


def send_fetch(cores: ComposedCores, action: protocol.SendFetch) -> None:
    log = cores.brokers[action.broker].log
    write_log_start(cores, action.broker, log.log_start_offset)
    steps.send_fetch(cores, action)


def receive_fetch(cores: ComposedCores, action: protocol.ReceiveFetch) -> None:
    """A broker without its log refuses, as the replica that it is or is not."""
    request, leader = action.request, action.request.leader
    if leader not in cores.lost:
        reassignment.receive_fetch(cores, action)
        return
    if not action.duplicate:
        del cores.fetches[request]
    if request in cores.brokers[request.follower].outstanding:
        refusal = PartitionFetchResponse(ErrorCode.kafka_storage_error)
        cores.fetch_responses[abstraction.fetch_response(request, refusal, (), cores.additions)] = refusal


def receive_fetch_response(cores: ComposedCores, action: protocol.ReceiveFetchResponse) -> None:
    if cores.brokers[action.response.request.follower].replica is None:
        del cores.fetch_responses[action.response]
    else:
        retention.receive_fetch_response(cores, action)


def replica_offline(cores: ComposedCores, action: ReplicaOffline) -> None:
    """A replica that was taken away and given back before its broker knew is in no directory for the controller."""
    cores.report_directory(action.broker)
    directories.replica_offline(cores, action)


def stop(cores: ComposedCores, action: Stop | StopUnasked) -> None:
    """What is written at a clean stop is written of replicas, and noted; a failed directory is as the disk left it."""
    number = action.broker
    broker = cores.brokers[number]
    if cores.end_with_left(number) or number in cores.lost:
        cores.failed.add(number)
        log, flushed = broker.log, broker.log.flushed_end_offset
        directories.leave_failed(cores, number)
        left = log.after_crash(log.log_end_offset)
        assert isinstance(left, MemoryLog)
        left.flushed_end_offset = flushed
        cores.brokers[number].log = left
    elif broker.replica is not None:
        broker.log.flush()
        broker.log.write_log_start()
        shutdown.stop(cores, action)
    else:
        note = broker.broker_epoch
        shutdown.end_process(cores, number, 0)
        cores.notes[number] = note
    cores.down.add(number)


def crash(cores: ComposedCores, action: faults.Crash) -> None:
    cores.end_with_left(action.broker)
    directories.crash(cores, action)
    cores.down.add(action.broker)


def restart(cores: ComposedCores, action: faults.Restart) -> None:
    directories.restart(cores, action)
    cores.down.discard(action.broker)


def register(cores: ComposedCores, action: faults.Register) -> None:
    number = action.broker
    if number in cores.registration.offline_replicas:
        cores.directories[number] = f"{number}/{cores.metadata_log.end_offset}"
    shutdown.register_process(cores, number, directories=cores.named(number))


STEPS: Final = Steps[ComposedCores, [], None](
    on(StartReassignment, reassignment.start_reassignment),
    on(CancelReassignment, reassignment.cancel_reassignment),
    on(ChangeSettings, settings.change_settings),
    on(DeleteRecords, delete_records),
    on(Retain, retain),
    on(WriteLogStart, log_start_written),
    on(FailDirectory, directories.fail_directory),
    on(ReplicaOffline, replica_offline),
    on(ReplicaOnline, directories.replica_online),
    on(LoseTail, directories.lose_tail),
    on(LoseNote, directories.lose_note),
    on(Stop, stop),
    on(StopUnasked, stop),
    on(faults.Crash, crash),
    on(faults.Restart, restart),
    on(faults.Register, register),
    on(protocol.SendFetch, send_fetch),
    on(protocol.ReceiveFetch, receive_fetch),
    on(protocol.ReceiveFetchResponse, receive_fetch_response),
    on(control.ReceiveAlterPartitionResponse, reassignment.receive_alter_partition_response),
    over=shutdown.STEPS,
)
