"""The cores beside the machine of controlled shutdowns: brokers that hand over, stop, and come back with everything."""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode

from tidegauge.impl.metadata.image import BrokerRegistration
from tidegauge.model_tests.harness.cores import steps
from tidegauge.model_tests.harness.cores.message_parts import Additions, MessageParts
from tidegauge.model_tests.harness.cores.refusals import REFUSALS
from tidegauge.model_tests.harness.cores.replication import CORRECT, NOTHING, Broker, Cores, Roles
from tidegauge.model_tests.harness.cores.steps import ReplicationCores
from tidegauge.model_tests.harness.performing import Steps, on
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.kernel.parts import with_part
from tidegauge.spec.replication import faults
from tidegauge.spec.replication import state as spec
from tidegauge.spec.replication.extensions.shutdown import (
    BeginShutdown,
    CleanStop,
    GiveUpWaiting,
    GrantShutdown,
    ShuttingDown,
    Stop,
    StopUnasked,
)
from tidegauge.spec.replication.machine import Replication

NO_NOTE: Final = -1


def refuse_to_grant_shutdown(cores: Cores, action: GrantShutdown) -> ErrorCode:
    """A heartbeat that asks to stop is taken, and the broker is not told that it may."""
    broker = cores.brokers[action.broker]
    response = cores.commit(
        cores.controller.members.heartbeat(
            action.broker, broker.broker_epoch, broker.image.offset, cores.now_ms, want_shut_down=True
        )
    )
    assert not response.should_shut_down, f"broker {action.broker} is told to stop"
    return response.error


class ShutdownMessages(MessageParts):
    """A session says that its broker has asked to stop."""

    def of_session(self, broker: BrokerRegistration) -> ShuttingDown:
        return ShuttingDown(broker.in_controlled_shutdown)


class ShutdownCores(ReplicationCores):
    """Brokers, controller and messages, with the note that a broker leaves on its disk when it stops cleanly."""

    refusals = Steps[Cores, [], ErrorCode | None](on(GrantShutdown, refuse_to_grant_shutdown), over=REFUSALS)

    def __init__(self, machine: Replication, roles: Roles = CORRECT, additions: Additions = NOTHING) -> None:
        self.notes = [NO_NOTE] * machine.brokers
        """The broker epoch in which each broker stopped, as its disk or its new process knows; -1 without a note."""
        super().__init__(machine, roles, additions)

    def _look_at_replica(self, number: int, broker: Broker) -> spec.Replica:
        note = self.epochs.number(number, self.notes[number])
        return with_part(super()._look_at_replica(number, broker), CleanStop(note))

    def step(self, action: Action) -> None:
        STEPS.perform(self, action)


def begin_shutdown(cores: ShutdownCores, action: BeginShutdown) -> None:
    assert cores.commit(cores.controller.members.begin_shutdown(action.broker)), "it is about to stop already"
    assert not cores.commit(cores.controller.members.begin_shutdown(action.broker)), "it is about to stop twice"


def grant_shutdown(cores: ShutdownCores, action: GrantShutdown) -> None:
    """What the next heartbeat of a broker brings that wants to stop."""
    heartbeat(cores, action.broker, want_fence=False)


def give_up_waiting(cores: ShutdownCores, action: GiveUpWaiting) -> None:
    heartbeat(cores, action.broker, want_fence=True)


def heartbeat(cores: ShutdownCores, number: int, *, want_fence: bool) -> None:
    broker = cores.brokers[number]
    response = cores.commit(
        cores.controller.members.heartbeat(
            number, broker.broker_epoch, broker.image.offset, cores.now_ms, want_fence=want_fence, want_shut_down=True
        )
    )
    assert response.should_shut_down


def stop(cores: ShutdownCores, action: Stop | StopUnasked) -> None:
    """Flush, checkpoint, note the clean stop, end."""
    broker, replica = cores.brokers[action.broker], cores.replica(action.broker)
    kept, checkpoint, note = replica.log_end_offset, replica.high_watermark, broker.broker_epoch
    broker.log.flush()
    end_process(cores, action.broker, kept)
    cores.brokers[action.broker].checkpoint = checkpoint
    cores.notes[action.broker] = note


def end_process(cores: ShutdownCores, ending: int, kept: int) -> None:
    """The process ends, its log with the first `kept` records. Its responses on their way still arrive."""
    sent = {r: response for r, response in cores.fetch_responses.items() if r.request.leader == ending}
    waiting = [dict(broker.outstanding) for broker in cores.brokers]
    steps.crash(cores, faults.Crash(ending, kept))
    cores.fetch_responses |= sent
    awaited = {r.request for r in sent}
    for number, follower in enumerate(cores.brokers):
        if number != ending:
            follower.outstanding |= {r: fetch for r, fetch in waiting[number].items() if r in awaited}


def crash(cores: ShutdownCores, action: faults.Crash) -> None:
    steps.crash(cores, action)
    cores.notes[action.broker] = NO_NOTE


def register(cores: ShutdownCores, action: faults.Register) -> None:
    register_process(cores, action.broker)


def register_process(cores: ShutdownCores, number: int, *, directories: tuple[str, ...] = ()) -> None:
    """A process registers, and reads the note of the one before it."""
    steps.register_process(cores, number, directories=directories, stopped_cleanly_in=cores.notes[number])
    cores.notes[number] = NO_NOTE


STEPS: Final = Steps[ShutdownCores, [], None](
    on(BeginShutdown, begin_shutdown),
    on(GrantShutdown, grant_shutdown),
    on(GiveUpWaiting, give_up_waiting),
    on(Stop, stop),
    on(StopUnasked, stop),
    on(faults.Crash, crash),
    on(faults.Register, register),
    over=steps.STEPS,
)
