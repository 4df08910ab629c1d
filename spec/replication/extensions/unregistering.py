"""Brokers that an operator removes from the cluster, and that may come back.

Theory of operation
-------------------
An operator *unregisters* a broker that is gone for good (KIP-631). The controller forgets its registration: it is no
member any more, and so in no ISR. It is not eligible to lead either, for what it had is not coming back. Its id stays
in the replica list, which only a reassignment changes.

The operator may be wrong. A process of that broker may still run, serve what it led, and not know. All that it sends
the controller is refused, its heartbeat with BROKER_ID_NOT_REGISTERED, upon which it registers again (`Rejoin`),
and goes on under its old epoch until it has the new one (`LearnBrokerEpoch`). Or a new process registers (`Register`).
Either comes as one of which nothing is known, whatever note of a clean stop it
has: the controller has forgotten which process was the last.

A process that has registered again may be unfenced before it acts on what was decided meanwhile: it is then as one that
is slow, which no rule relies on. The implementation waits until it has read that.

An unregistration counts as an incarnation that no process has: no message is of it. The extension adds to a session
that its broker is unregistered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import ClassVar, Self

import attrs

from tidegauge.spec.kernel.guarded import Refusal
from tidegauge.spec.kernel.machine import Action, Invariant
from tidegauge.spec.kernel.parts import Part, parts_of
from tidegauge.spec.replication.actions import BrokerAction, ReplicationAction
from tidegauge.spec.replication.control import committed
from tidegauge.spec.replication.extension import ReplicationExtension
from tidegauge.spec.replication.faults import Register, with_session
from tidegauge.spec.replication.rules import ReplicationRules, not_acting
from tidegauge.spec.replication.state import (
    NONE,
    AlterPartitionRequest,
    BrokerId,
    Controller,
    Error,
    Replica,
    Session,
    State,
)

# --- state -----------------------------------------------------------------------------------------------------------


@attrs.frozen
class Unregistered(Part):
    """Of a session: the controller knows no such broker."""

    is_gone: bool = False


def is_unregistered(controller: Controller, broker: int) -> bool:
    return Unregistered.of(controller.sessions[broker]).is_gone


@cache
def unknown_broker(broker: int) -> Refusal:
    return Refusal(f"broker {broker} is not registered", Error.BROKER_ID_NOT_REGISTERED)


# --- actions ---------------------------------------------------------------------------------------------------------


@attrs.frozen
class Unregister(BrokerAction):
    """An operator removes a broker; its process, if it has one, does not know it."""

    bounded_as: ClassVar[str] = "Unregister"

    def guard(self, machine: ReplicationRules, state: State) -> str:
        if is_unregistered(state.controller, self.broker):
            return unknown_broker(self.broker)
        return "" if machine.may_perturb(state, self.bounded_as) else "no more brokers are removed in this model"

    def effect(self, machine: ReplicationRules, state: State) -> State:
        broker_epoch = state.controller.sessions[self.broker].broker_epoch + 1
        session = Session(broker_epoch, fenced=True, parts=parts_of(Unregistered(is_gone=True)))
        controller = with_session(state.controller, self.broker, session)
        controller = Unregistering.of(machine).unregistered(machine, controller, self.broker)
        controller, unclean = machine.with_leader(controller)
        return committed(state.spend(self.bounded_as), controller, unclean=unclean)


@attrs.frozen
class Rejoin(BrokerAction):
    """The heartbeat of a process shows that its broker was removed: it registers again."""

    def guard(self, machine: ReplicationRules, state: State) -> str:
        if not is_unregistered(state.controller, self.broker):
            return f"broker {self.broker} is registered"
        if state.replicas[self.broker].broker_epoch == NONE:
            return f"the process of broker {self.broker} has yet to register"
        return not_acting(state, self.broker)

    def effect(self, machine: ReplicationRules, state: State) -> State:
        registered = Register(self.broker).effect(machine, state)
        return registered.with_replica(self.broker, state.replicas[self.broker])


@attrs.frozen
class LearnBrokerEpoch(ReplicationAction):
    """The response to its registration reaches a process that had registered before.

    By then the broker may have been removed again.
    """

    broker: BrokerId
    broker_epoch: int

    @classmethod
    def candidates(cls, machine: ReplicationRules, state: State) -> Iterable[Self]:
        return [cls(broker, last_registered(state.controller, broker)) for broker in range(machine.brokers)]

    def guard(self, machine: ReplicationRules, state: State) -> str:
        known, last = state.replicas[self.broker].broker_epoch, last_registered(state.controller, self.broker)
        if known == NONE or not known < self.broker_epoch <= last:
            return f"broker {self.broker} waits for no response to its registration"
        return not_acting(state, self.broker)

    def effect(self, machine: ReplicationRules, state: State) -> State:
        return state.with_replica(self.broker, machine.registered(state.replicas[self.broker], self.broker_epoch))


def last_registered(controller: Controller, broker: int) -> int:
    """The last incarnation of a broker that a process has, or had before it was removed."""
    return controller.sessions[broker].broker_epoch - is_unregistered(controller, broker)


# --- the extension ---------------------------------------------------------------------------------------------------


@attrs.frozen
class Unregistering(ReplicationExtension):
    """Brokers that an operator removes."""

    action_types: ClassVar[tuple[type[Action], ...]] = (Unregister, Rejoin, LearnBrokerEpoch)
    part_types: ClassVar[tuple[type[Part], ...]] = (Unregistered,)

    @property
    def invariants(self) -> Mapping[str, Invariant[State]]:
        return {"UnregisteredIsNotEligible": unregistered_is_not_eligible}

    def goals(self, machine: ReplicationRules) -> Mapping[str, Invariant[State]]:
        if not machine.bounds["Unregister"]:
            return {}
        return {
            "a broker that was removed still leads, as far as it knows": lambda s: any(
                replica.leader == broker and is_unregistered(s.controller, broker)
                for broker, replica in enumerate(s.replicas)
            ),
            "a broker is in sync again that was removed": lambda s: any(
                session.broker_epoch > 1 and broker in s.controller.isr
                for broker, session in enumerate(s.controller.sessions)
            ),
        }

    def converges(self, machine: ReplicationRules) -> Mapping[str, Invariant[State]]:
        return {"a broker that runs is registered": runs_and_is_registered}

    # --- rules -------------------------------------------------------------------------------------------------------

    def unregistered(self, machine: ReplicationRules, controller: Controller, broker: int) -> Controller:
        """Neither in sync nor eligible: it is not coming back, as far as anybody knows."""
        return machine.without(controller, broker, clean=False)

    def heartbeat_error(
        self,
        machine: ReplicationRules,
        inner: Callable[[Controller, int, int], Error],
        controller: Controller,
        broker: int,
        broker_epoch: int,
    ) -> Error:
        if is_unregistered(controller, broker):
            return Error.BROKER_ID_NOT_REGISTERED
        return inner(controller, broker, broker_epoch)

    def alter_partition_error(
        self,
        machine: ReplicationRules,
        inner: Callable[[Controller, AlterPartitionRequest], Error],
        controller: Controller,
        request: AlterPartitionRequest,
    ) -> Error:
        """Whatever epoch it names: no process is registered."""
        if is_unregistered(controller, request.leader):
            return Error.STALE_BROKER_EPOCH
        return inner(controller, request)

    def not_unfenced(
        self,
        machine: ReplicationRules,
        inner: Callable[[Controller, Replica, int], str],
        controller: Controller,
        replica: Replica,
        broker: int,
    ) -> str:
        """What comes of a heartbeat of the process that does not know."""
        if not is_unregistered(controller, broker):
            return inner(controller, replica, broker)
        sends = replica.running and not replica.paused and replica.broker_epoch != NONE
        return unknown_broker(broker) if sends else f"no process of broker {broker} is registered"


def unregistered_is_not_eligible(state: State) -> bool:
    """A broker that the controller does not know is in neither ISR nor ELR, and does not lead."""
    controller = state.controller
    eligible = {*controller.isr, *controller.elr, controller.leader}
    return not any(is_unregistered(controller, broker) for broker in eligible if broker != NONE)


def runs_and_is_registered(state: State) -> bool:
    """No process is left out for good."""
    return not any(
        replica.running and is_unregistered(state.controller, broker) for broker, replica in enumerate(state.replicas)
    )
