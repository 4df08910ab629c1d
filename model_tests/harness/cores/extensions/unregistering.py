"""The cores beside the machine of unregistering: brokers that an operator removes, and that come back."""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode

from tidegauge.model_tests.harness.cores import refusals, steps
from tidegauge.model_tests.harness.cores.message_parts import MessageParts
from tidegauge.model_tests.harness.cores.refusals import REFUSALS
from tidegauge.model_tests.harness.cores.replication import Cores
from tidegauge.model_tests.harness.cores.steps import ReplicationCores
from tidegauge.model_tests.harness.performing import Steps, on
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.replication import faults
from tidegauge.spec.replication.extensions.unregistering import (
    LearnBrokerEpoch,
    Rejoin,
    Unregister,
    Unregistered,
)


class UnregisteringMessages(MessageParts):
    """A session says that its broker is not registered."""

    def of_absent(self) -> Unregistered:
        return Unregistered(is_gone=True)


def unregister(cores: Cores, action: Unregister) -> None:
    """It counts as an incarnation, whose epoch is where the log says so: no process has that."""
    error = cores.commit(cores.controller.members.unregister(action.broker))
    assert error is ErrorCode.none
    cores.epochs.register(action.broker, cores.metadata_log.end_offset - 1)


def refuse_to_unregister(cores: Cores, action: Unregister) -> ErrorCode:
    return cores.commit(cores.controller.members.unregister(action.broker))


def rejoin(cores: Cores, action: Rejoin) -> None:
    """The process that registers is the one that had registered before, and does not know its new epoch yet."""
    broker = cores.brokers[action.broker]
    known = broker.broker_epoch
    steps.register_process(cores, action.broker)
    broker.broker_epoch = known


def learn_broker_epoch(cores: Cores, action: LearnBrokerEpoch) -> None:
    broker = cores.brokers[action.broker]
    broker.broker_epoch, broker.seen = cores.epochs.broker_epoch(action.broker, action.broker_epoch), None


def unfence(cores: Cores, action: faults.Unfence) -> None:
    """The broker has read all metadata, and may have to act on them yet."""
    refusals.heartbeat(cores, action.broker, cores.brokers[action.broker].broker_epoch, cores.metadata_log.end_offset)


class UnregisteringCores(ReplicationCores):
    """Brokers, controller and messages, with an operator who removes brokers."""

    refusals = Steps[Cores, [], ErrorCode | None](on(Unregister, refuse_to_unregister), over=REFUSALS)

    def step(self, action: Action) -> None:
        STEPS.perform(self, action)


STEPS: Final = Steps[Cores, [], None](
    on(Unregister, unregister),
    on(Rejoin, rejoin),
    on(LearnBrokerEpoch, learn_broker_epoch),
    on(faults.Unfence, unfence),
    over=steps.STEPS,
)
