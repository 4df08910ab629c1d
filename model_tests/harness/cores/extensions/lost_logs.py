"""The cores beside the machine of logs that are gone: a broker says so, and the controller elects its replica last.

That a process knows of a log that it had is the broker's shell's part (`impl.server.broker.lost_replicas`), which is
the harness here; what the controller makes of the report is the core's.
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode

from tidegauge.impl.controller.directories import UNASSIGNED
from tidegauge.impl.metadata.records import MetadataRecord, RegisterBrokerRecord, ReplicaDirectoryRecord
from tidegauge.model_tests.harness.cores import abstraction
from tidegauge.model_tests.harness.cores.extensions import damage, shutdown
from tidegauge.model_tests.harness.cores.extensions.damage import DamageCores
from tidegauge.model_tests.harness.cores.extensions.shutdown import NO_NOTE
from tidegauge.model_tests.harness.cores.message_parts import Additions
from tidegauge.model_tests.harness.cores.replication import CORRECT, NOTHING, PARTITION, TOPIC, Broker, Cores, Roles
from tidegauge.model_tests.harness.performing import Steps, on
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.kernel.parts import with_part
from tidegauge.spec.replication import faults
from tidegauge.spec.replication import state as spec
from tidegauge.spec.replication.extensions.lost_logs import (
    LogGone,
    LoseLog,
    LostReplicas,
    ReportFound,
    ReportLost,
    Unassigned,
)
from tidegauge.spec.replication.extensions.shutdown import Stop, StopUnasked
from tidegauge.spec.replication.machine import Replication


def refuse_to_lose_it_again(cores: Cores, action: ReportLost) -> ErrorCode:
    """The same report again, or late: the replica may be in sync by now."""
    return report(cores, action.broker, UNASSIGNED)


def refuse_to_find_it_again(cores: Cores, action: ReportFound) -> ErrorCode:
    """A report of what the controller knows."""
    return report(cores, action.broker, directory_of(action.broker))


class LostLogCores(DamageCores):
    """Brokers, controller and messages, where a log may be removed while its broker is down."""

    refusals = Steps[Cores, [], ErrorCode | None](
        on(ReportLost, refuse_to_lose_it_again),
        on(ReportFound, refuse_to_find_it_again),
        over=DamageCores.refusals,
    )

    def __init__(self, machine: Replication, roles: Roles = CORRECT, additions: Additions = NOTHING) -> None:
        self.gone: set[int] = set()
        """The brokers whose log was removed, which have known of no leader since, and have not told the controller."""
        super().__init__(machine, roles, additions)

    def _founding_records(self) -> list[MetadataRecord]:
        founding = [
            record._replace(directories=(directory_of(record.broker_id),))
            if isinstance(record, RegisterBrokerRecord)
            else record
            for record in super()._founding_records()
        ]
        everyone = range(self.machine.brokers)
        return [
            *founding,
            *(ReplicaDirectoryRecord(TOPIC, PARTITION, number, directory_of(number)) for number in everyone),
        ]

    def apply_metadata(self, number: int) -> None:
        """Another one leads: the replica is filled from there, and nothing need be said of it."""
        metadata, replica = self.metadata_of(number), self.replica(number)
        is_old = (
            metadata.partition_epoch < replica.partition_epoch or metadata.controller_epoch < replica.controller_epoch
        )
        if not is_old and metadata.leader not in (spec.NONE, number):
            self.gone.discard(number)
        super().apply_metadata(number)

    # --- as the specification sees it ----------------------------------------------------------------------------

    def _abstract_controller(self, expected: spec.Controller) -> spec.Controller:
        seen = super()._abstract_controller(with_part(with_part(expected, LostReplicas()), Unassigned()))
        known = self.controller.image.topics[TOPIC].directories
        unassigned = (b for b in range(self.machine.brokers) if known.get((PARTITION, b)) == UNASSIGNED)
        seen = with_part(seen, LostReplicas(abstraction.ids(self.registration.lost_replicas)))
        return with_part(seen, Unassigned(tuple(unassigned)))

    def _look_at_replica(self, number: int, broker: Broker) -> spec.Replica:
        return with_part(super()._look_at_replica(number, broker), LogGone(number in self.gone))

    def step(self, action: Action) -> None:
        STEPS.perform(self, action)


def directory_of(number: int) -> str:
    """The directory, by id, in which a broker has its replica."""
    return f"{number}/0"


def lose_log(cores: LostLogCores, action: LoseLog) -> None:
    cores.brokers[action.broker] = Broker(cores.roles.log())
    cores.notes[action.broker] = NO_NOTE
    cores.damaged.pop(action.broker, None)
    cores.gone.add(action.broker)


def report_lost(cores: LostLogCores, action: ReportLost) -> None:
    error = report(cores, action.broker, UNASSIGNED)
    assert error is ErrorCode.none, error.name
    cores.gone.discard(action.broker)
    cores.brokers[action.broker].seen = None


def report_found(cores: LostLogCores, action: ReportFound) -> None:
    error = report(cores, action.broker, directory_of(action.broker))
    assert error is ErrorCode.none, error.name


def report(cores: Cores, number: int, directory: str) -> ErrorCode:
    """Tell the controller where a broker's replica is."""
    return cores.commit(cores.controller.directories.assign(number, TOPIC, PARTITION, directory))


def crash(cores: LostLogCores, action: faults.Crash) -> None:
    damage.crash(cores, action)
    if action.kept:
        cores.gone.discard(action.broker)


def stop(cores: LostLogCores, action: Stop | StopUnasked) -> None:
    """A log that has records again is not gone."""
    shutdown.stop(cores, action)
    if cores.brokers[action.broker].log.records:
        cores.gone.discard(action.broker)


def register(cores: LostLogCores, action: faults.Register) -> None:
    shutdown.register_process(cores, action.broker, directories=(directory_of(action.broker),))


STEPS: Final = Steps[LostLogCores, [], None](
    on(LoseLog, lose_log),
    on(ReportLost, report_lost),
    on(ReportFound, report_found),
    on(Stop, stop),
    on(StopUnasked, stop),
    on(faults.Crash, crash),
    on(faults.Register, register),
    over=damage.STEPS,
)
