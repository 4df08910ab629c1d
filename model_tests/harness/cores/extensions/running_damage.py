"""The cores beside the machine of damage that is met by a process: the controller is told, and the log is cut then.

Which replica may return is the broker's rule (`impl.server.broker.withdrawn_replicas.may_return`); when it asks is the
shell's part, which is the harness here.
"""

from __future__ import annotations

from typing import Final

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.controller.directories import DAMAGED
from tidegauge.impl.partition.messages import PartitionFetchResponse
from tidegauge.impl.partition.registration import PartitionRegistration
from tidegauge.impl.server.broker.withdrawn_replicas import may_return
from tidegauge.model_tests.harness.cores import abstraction, refusals, steps
from tidegauge.model_tests.harness.cores.effects import told
from tidegauge.model_tests.harness.cores.extensions import damage, lost_logs
from tidegauge.model_tests.harness.cores.extensions.lost_logs import LostLogCores, report
from tidegauge.model_tests.harness.cores.extensions.shutdown import NO_NOTE
from tidegauge.model_tests.harness.cores.message_parts import Additions
from tidegauge.model_tests.harness.cores.replication import CORRECT, NOTHING, Broker, Cores, Roles
from tidegauge.model_tests.harness.performing import Steps, on
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.kernel.parts import with_part
from tidegauge.spec.replication import actions as protocol
from tidegauge.spec.replication import faults
from tidegauge.spec.replication import state as spec
from tidegauge.spec.replication.extensions.damage import Eligible
from tidegauge.spec.replication.extensions.running_damage import (
    MeetDamage,
    RepairWhileRunning,
    ReportArrivesLate,
    ReportDamaged,
    ReportUnread,
    Withdrawn,
)
from tidegauge.spec.replication.extensions.shutdown import Stop, StopUnasked
from tidegauge.spec.replication.machine import Replication


def refuse_receive_fetch(cores: Cores, action: protocol.ReceiveFetch) -> ErrorCode | None:
    """No core responds for a replica that is withdrawn."""
    assert isinstance(cores, RunningDamageCores)
    return None if cores.is_withdrawn(action.request.leader) else refusals.receive_fetch(cores, action)


def refuse_to_take_out_the_last(cores: Cores, action: ReportDamaged | ReportUnread) -> ErrorCode:
    """Nobody is in sync, and the broker may be fenced."""
    return report(cores, action.broker, DAMAGED)


class RunningDamageCores(LostLogCores):
    """Brokers, controller and messages, where a process may meet damage in a log."""

    refusals = Steps[Cores, [], ErrorCode | None](
        on(protocol.ReceiveFetch, refuse_receive_fetch),
        on(ReportDamaged, refuse_to_take_out_the_last),
        on(ReportUnread, refuse_to_take_out_the_last),
        over=LostLogCores.refusals,
    )

    def __init__(self, machine: Replication, roles: Roles = CORRECT, additions: Additions = NOTHING) -> None:
        self.withdrawn: dict[int, Withdrawn] = {}
        """By broker: what its process has met."""
        super().__init__(machine, roles, additions)

    def is_withdrawn(self, number: int) -> bool:
        return self.withdrawn.get(number, Withdrawn()).start != spec.NONE

    def may_return(self, number: int) -> bool:
        """By the metadata that the broker is about to act on."""
        known = self.metadata_of(number)
        is_pulled = self.brokers[number].pulled is not None
        elr = frozenset(Eligible.of(known).brokers if is_pulled else self.registration.elr)
        registration = PartitionRegistration(
            (), known.leader, known.leader_epoch, known.partition_epoch, frozenset(known.isr), elr
        )
        return may_return(registration, number, self.withdrawn[number].epoch)

    def apply_metadata(self, number: int) -> None:
        """Who is withdrawn follows nobody before it is repaired."""
        if not self.is_withdrawn(number):
            super().apply_metadata(number)
        elif self.metadata_of(number).leader in (spec.NONE, number) and self.may_return(number):
            met = self.withdrawn[number]
            self.damaged[number], self.withdrawn[number] = met.start, Withdrawn(epoch=met.epoch)
            super().apply_metadata(number)
        else:
            self.brokers[number].pulled = self.brokers[number].seen = None

    def _look_at_replica(self, number: int, broker: Broker) -> spec.Replica:
        return with_part(super()._look_at_replica(number, broker), self.withdrawn.get(number, Withdrawn()))

    def step(self, action: Action) -> None:
        STEPS.perform(self, action)


def meet_damage(cores: RunningDamageCores, action: MeetDamage) -> None:
    """The replica resigns; those that wait for it are given up."""
    number, broker, replica = action.broker, cores.brokers[action.broker], cores.replica(action.broker)
    replica.resign()
    cores.withdrawn[number] = Withdrawn(action.start, replica.leader_epoch)
    cores.damaged.pop(number, None)
    broker.outstanding, broker.seen, broker.told = {}, None, told(replica)
    cores.waiting = {value: one for value, one in cores.waiting.items() if one[0] != number}


def report_damaged(cores: RunningDamageCores, action: ReportDamaged | ReportUnread | ReportArrivesLate) -> None:
    error = report(cores, action.broker, DAMAGED)
    assert error is ErrorCode.none, error.name


def repair_while_running(cores: RunningDamageCores, action: RepairWhileRunning) -> None:
    number = action.broker
    assert cores.may_return(number), "the broker repairs it"
    met = cores.withdrawn[number]
    damage.cut(cores, number, met.start)
    cores.withdrawn[number] = attrs.evolve(met, start=spec.NONE)


def receive_fetch(cores: RunningDamageCores, action: protocol.ReceiveFetch) -> None:
    """A broker responds for a replica that it does not host at present."""
    request = action.request
    if not cores.is_withdrawn(request.leader):
        steps.receive_fetch(cores, action)
        return
    if not action.duplicate:
        del cores.fetches[request]
    if request in cores.brokers[request.follower].outstanding:
        refusal = PartitionFetchResponse(ErrorCode.kafka_storage_error)
        cores.fetch_responses[abstraction.fetch_response(request, refusal, (), cores.additions)] = refusal


def crash(cores: RunningDamageCores, action: faults.Crash) -> None:
    """Damage outlives the process that has met it."""
    met = cores.withdrawn.pop(action.broker, Withdrawn())
    lost_logs.crash(cores, action)
    if spec.NONE < met.start < action.kept:
        cores.damaged[action.broker] = met.start


def stop(cores: RunningDamageCores, action: Stop | StopUnasked) -> None:
    """The next process finds the damage, and forgets the note of the clean stop."""
    met = cores.withdrawn.pop(action.broker, Withdrawn())
    lost_logs.stop(cores, action)
    if met.start != spec.NONE:
        cores.damaged[action.broker] = met.start
        cores.notes[action.broker] = NO_NOTE


STEPS: Final = Steps[RunningDamageCores, [], None](
    on(MeetDamage, meet_damage),
    on(ReportDamaged, report_damaged),
    on(ReportUnread, report_damaged),
    on(ReportArrivesLate, report_damaged),
    on(RepairWhileRunning, repair_while_running),
    on(protocol.ReceiveFetch, receive_fetch),
    on(Stop, stop),
    on(StopUnasked, stop),
    on(faults.Crash, crash),
    over=lost_logs.STEPS,
)
