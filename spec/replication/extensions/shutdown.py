"""Controlled shutdown: a broker hands over what it leads before it stops, and loses nothing by stopping (KIP-841, 966).

Theory of operation
-------------------
A broker that is to stop says so with its heartbeats. From then on it is *shutting down*: it is not elected, and no
leader may add it to an ISR, though it is not fenced and its clients are still served. The controller moves its
leadership to the first member of the ISR that is not shutting down, and takes it out of the ISR. An ISR is never
emptied by that: the last of an ISR stays in it, and leads, until another replica has joined or there is none that
could.

When it leads nothing any more, or waits for nobody, its stop is *granted*: the controller fences it, so that it counts
no longer, and the broker flushes its logs, notes the broker epoch in which it stopped, and ends. A process that starts
from such a note has lost nothing. It registers with that epoch, and if the controller knows no later one it stays
eligible to lead where it was (KIP-966); any other process may have lost its log's tail. The note is read once: a
process that crashes later starts without it.

The extension adds to a broker's session that it is shutting down, and to a replica the note on its disk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.guarded import Refusal
from tidegauge.spec.kernel.machine import Action, Invariant, LeadsTo, StepInvariant
from tidegauge.spec.kernel.parts import Part, with_part
from tidegauge.spec.kernel.piecemeal import one_at_a_time
from tidegauge.spec.replication.actions import BrokerAction, on_network
from tidegauge.spec.replication.control import committed
from tidegauge.spec.replication.extension import ReplicationExtension
from tidegauge.spec.replication.faults import with_session
from tidegauge.spec.replication.rules import ReplicationRules, not_acting
from tidegauge.spec.replication.state import (
    NONE,
    Controller,
    Error,
    FetchRequest,
    Replica,
    Session,
    State,
    responses_of,
    with_all,
)

# --- state -----------------------------------------------------------------------------------------------------------


@attrs.frozen
class ShuttingDown(Part):
    """Of a session: the broker has asked to hand over its leaderships (KIP-841)."""

    asked: bool = False


@attrs.frozen
class CleanStop(Part):
    """Of a replica: the note that its last process has left."""

    broker_epoch: int = NONE
    """The broker epoch in which that process stopped with nothing lost."""


def is_shutting_down(session: Session) -> bool:
    return ShuttingDown.of(session).asked


# --- actions ---------------------------------------------------------------------------------------------------------


@attrs.frozen
class BeginShutdown(BrokerAction):
    """A broker asks to stop, and hands over what others can take over."""

    bounded_as: ClassVar[str] = "BeginShutdown"

    def guard(self, machine: ReplicationRules, state: State) -> str:
        if not machine.may_perturb(state, self.bounded_as):
            return "no more controlled shutdowns in this model"
        replica, session = state.replicas[self.broker], state.controller.sessions[self.broker]
        if replica.broker_epoch != session.broker_epoch or session.fenced:
            return f"broker {self.broker} is no member of the cluster"
        if is_shutting_down(session):
            return f"broker {self.broker} has asked already"
        return not_acting(state, self.broker)

    def effect(self, machine: ReplicationRules, state: State) -> State:
        session = with_part(state.controller.sessions[self.broker], ShuttingDown(asked=True))
        controller = with_session(state.controller, self.broker, session)
        controller, unclean = ControlledShutdown.of(machine).handed_over(machine, controller)
        return committed(state.spend(self.bounded_as), controller, unclean=unclean)


@attrs.frozen
class GrantShutdown(BrokerAction):
    """A broker that asked may stop: it is fenced, last where nobody else is in sync."""

    def guard(self, machine: ReplicationRules, state: State) -> str:
        if reason := not_leaving(state, self.broker):
            return reason
        if ControlledShutdown.of(machine).must_wait(machine, state.controller, self.broker):
            return Refusal(f"broker {self.broker} is the last of the ISR, and others may join it", Error.OK)
        return ""

    def effect(self, machine: ReplicationRules, state: State) -> State:
        return _granted(machine, state, self.broker)


@attrs.frozen
class GiveUpWaiting(BrokerAction):
    """A broker that has waited long enough for another to join leaves as the last of the ISR."""

    fair: ClassVar[bool] = False

    def guard(self, machine: ReplicationRules, state: State) -> str:
        return not_leaving(state, self.broker)

    def effect(self, machine: ReplicationRules, state: State) -> State:
        return _granted(machine, state, self.broker)


def not_leaving(state: State, broker: int) -> str:
    """Why a broker does not wait for its stop to be granted."""
    replica, session = state.replicas[broker], state.controller.sessions[broker]
    if replica.broker_epoch != session.broker_epoch:
        return f"broker {broker} is not the process that has asked"
    if session.fenced or not is_shutting_down(session):
        return f"broker {broker} has not asked to stop, or has been told that it may"
    return not_acting(state, broker)


def _granted(machine: ReplicationRules, state: State, broker: int) -> State:
    controller = machine.without(state.controller, broker, clean=True)
    session = evolve(controller.sessions[broker], fenced=True)
    controller, unclean = machine.with_leader(with_session(controller, broker, session))
    return committed(state, controller, unclean=unclean)


@attrs.frozen
class Stop(BrokerAction):
    """A broker whose stop was granted flushes, notes its broker epoch, and ends."""

    def guard(self, machine: ReplicationRules, state: State) -> str:
        replica, session = state.replicas[self.broker], state.controller.sessions[self.broker]
        if replica.broker_epoch != session.broker_epoch or not is_shutting_down(session) or not session.fenced:
            return f"broker {self.broker} may not stop"
        return not_acting(state, self.broker)

    def effect(self, machine: ReplicationRules, state: State) -> State:
        return _stopped(machine, state, self.broker)


@attrs.frozen
class StopUnasked(BrokerAction):
    """A broker that does not reach the controller stops ungranted, and flushes and notes all the same."""

    bounded_as: ClassVar[str] = BeginShutdown.bounded_as

    def guard(self, machine: ReplicationRules, state: State) -> str:
        if not machine.may_perturb(state, self.bounded_as):
            return "no more controlled shutdowns in this model"
        return not_acting(state, self.broker)

    def effect(self, machine: ReplicationRules, state: State) -> State:
        return _stopped(machine, state, self.broker).spend(self.bounded_as)


def _stopped(machine: ReplicationRules, state: State, stopping: int) -> State:
    """Everything is on the disk, the note as well; responses that it has sent still arrive, and nothing else does."""
    responses = responses_of(state.network.fetch_responses, stopping)
    state = machine.cut_off(state, stopping)
    stopped = machine.stopped(state.replicas[stopping])
    state = on_network(state, fetch_responses=with_all(state.network.fetch_responses, responses))
    responded = tuple(m.request for m in responses)
    for broker, replica in enumerate(state.replicas):
        waiting = still_waiting(replica.outstanding, (stopping, responded))
        if waiting != replica.outstanding:
            state = state.with_replica(broker, evolve(replica, outstanding=waiting))
    return state.with_replica(stopping, stopped)


@one_at_a_time
def still_waiting(
    outstanding: tuple[FetchRequest, ...], stopped: tuple[int, tuple[FetchRequest, ...]]
) -> tuple[FetchRequest, ...]:
    """The requests that wait on when a leader has stopped: those to others, and those that it has responded to."""
    leader, responded = stopped
    return tuple(r for r in outstanding if r.leader != leader or r in responded)


# --- the extension ---------------------------------------------------------------------------------------------------


@attrs.frozen
class ControlledShutdown(ReplicationExtension):
    """Brokers that hand over and stop cleanly."""

    action_types: ClassVar[tuple[type[Action], ...]] = (BeginShutdown, GrantShutdown, GiveUpWaiting, Stop, StopUnasked)
    part_types: ClassVar[tuple[type[Part], ...]] = (ShuttingDown, CleanStop)

    @property
    def invariants(self) -> Mapping[str, Invariant[State]]:
        return {"ShuttingDownLeadsLast": shutting_down_leads_last}

    def step_invariants(self, machine: ReplicationRules) -> Mapping[str, StepInvariant[State]]:
        return {"ShutdownNeverEmptiesTheIsr": shutdown_never_empties_the_isr}

    def goals(self, machine: ReplicationRules) -> Mapping[str, Invariant[State]]:
        if not machine.bounds["BeginShutdown"]:
            return {}
        return {
            "a broker has stopped cleanly": lambda s: any(
                CleanStop.of(replica).broker_epoch != NONE for replica in s.replicas
            ),
            "a broker is back from a clean stop": lambda s: any(
                session.broker_epoch and not session.fenced for session in s.controller.sessions
            ),
        }

    def converges(self, machine: ReplicationRules) -> Mapping[str, Invariant[State]]:
        return {"a controlled shutdown ends": shutdown_ends}

    def leads_to(self, machine: ReplicationRules) -> Mapping[str, LeadsTo[State]]:
        return {"a broker that is to shut down comes to stop": LeadsTo.again(shutdown_ends)}

    # --- rules of the controller -------------------------------------------------------------------------------------

    def is_eligible_for_isr(
        self,
        machine: ReplicationRules,
        inner: Callable[[Controller, int, int], bool],
        controller: Controller,
        broker: int,
        broker_epoch: int,
    ) -> bool:
        """A broker that is shutting down joins no ISR; one that is in it as the last may stay (KIP-841)."""
        leaving = is_shutting_down(controller.sessions[broker]) and broker not in controller.isr
        return not leaving and inner(controller, broker, broker_epoch)

    def settled(
        self,
        machine: ReplicationRules,
        inner: Callable[[Controller, Controller], tuple[Controller, bool]],
        old: Controller,
        new: Controller,
    ) -> tuple[Controller, bool]:
        """A replica has joined the ISR: the brokers that waited for that hand over."""
        new, unclean = inner(old, new)
        new, again = self.handed_over(machine, new)
        return new, unclean or again

    def handed_over(self, machine: ReplicationRules, controller: Controller) -> tuple[Controller, bool]:
        """Brokers that are shutting down have left the ISR, and hand over what they led."""
        return machine.with_leader(self.without_leaving(machine, controller))

    def without_leaving(self, machine: ReplicationRules, controller: Controller) -> Controller:
        """Brokers that are shutting down leave the ISR, unless that would empty it."""
        leaving = {b for b in controller.isr if is_shutting_down(controller.sessions[b])}
        if self.may_leave(controller, leaving):
            for broker in sorted(leaving):
                controller = machine.without(controller, broker, clean=True)
        return controller

    def may_leave(self, controller: Controller, leaving: set[int]) -> bool:
        """Another stays in the ISR."""
        return not set(controller.isr) <= leaving

    def elect(
        self,
        machine: ReplicationRules,
        inner: Callable[..., tuple[int, bool]],
        controller: Controller,
        *,
        unclean: bool,
    ) -> tuple[int, bool]:
        """A broker that is shutting down leads only where it is the last of the ISR."""
        leader, was_unclean = inner(controller, unclean=unclean)
        if leader != NONE and not was_unclean:
            return leader, False
        order = machine.replica_order(controller)
        last = [b for b in order if b in controller.isr and not controller.sessions[b].fenced]
        return (last[0], False) if last else (leader, was_unclean)

    def is_active(
        self, machine: ReplicationRules, inner: Callable[[Controller, int], bool], controller: Controller, broker: int
    ) -> bool:
        return inner(controller, broker) and not is_shutting_down(controller.sessions[broker])

    def must_wait(self, machine: ReplicationRules, controller: Controller, broker: int) -> bool:
        """The broker leads, and another replica that stays could still join the ISR."""
        others = [controller.sessions[b] for b in machine.replica_order(controller) if b != broker]
        joining = any(not session.fenced and not is_shutting_down(session) for session in others)
        return controller.leader == broker and joining

    def with_registration(
        self,
        machine: ReplicationRules,
        inner: Callable[[Controller, Replica, int], Controller],
        controller: Controller,
        replica: Replica,
        broker: int,
    ) -> Controller:
        """A process that starts from a clean stop of the last known one has lost nothing (KIP-966)."""
        if CleanStop.of(replica).broker_epoch != NONE and self.is_last_process(controller, replica, broker):
            return self.back_from_a_clean_stop(machine, controller, broker)
        return inner(controller, replica, broker)

    def back_from_a_clean_stop(self, machine: ReplicationRules, controller: Controller, broker: int) -> Controller:
        """Out of the ISR, for it has to catch up; eligible to lead if it was, or was in sync."""
        return machine.without(controller, broker, clean=True) if broker in controller.isr else controller

    def is_last_process(self, controller: Controller, replica: Replica, broker: int) -> bool:
        """The note is of the process that was registered until now."""
        return CleanStop.of(replica).broker_epoch + 1 == controller.sessions[broker].broker_epoch

    def not_unfenced(
        self,
        machine: ReplicationRules,
        inner: Callable[[Controller, Replica, int], str],
        controller: Controller,
        replica: Replica,
        broker: int,
    ) -> str:
        session = controller.sessions[broker]
        if not is_shutting_down(session):
            return inner(controller, replica, broker)
        granted = f"the stop of broker {broker} was granted"
        return Refusal(granted, Error.OK) if replica.broker_epoch == session.broker_epoch else granted

    # --- rules of a broker's process and disk ------------------------------------------------------------------------

    def registered(
        self, machine: ReplicationRules, inner: Callable[[Replica, int], Replica], replica: Replica, broker_epoch: int
    ) -> Replica:
        """The note is read once."""
        return with_part(inner(replica, broker_epoch), CleanStop())

    def stopped(self, machine: ReplicationRules, inner: Callable[[Replica], Replica], replica: Replica) -> Replica:
        """The note is written last."""
        return with_part(inner(replica), CleanStop(replica.broker_epoch))


def shutdown_ends(state: State) -> bool:
    """No process still waits for its stop, or has yet to stop."""
    return not any(
        replica.running and replica.broker_epoch == session.broker_epoch and is_shutting_down(session)
        for replica, session in zip(state.replicas, state.controller.sessions, strict=True)
    )


def shutting_down_leads_last(state: State) -> bool:
    """A broker that is shutting down leads only while all others in sync are, too."""
    controller = state.controller
    if controller.leader == NONE or not is_shutting_down(controller.sessions[controller.leader]):
        return True
    return all(is_shutting_down(controller.sessions[b]) for b in controller.isr)


def shutdown_never_empties_the_isr(before: State, action: Action, after: State) -> bool:
    """Asking to stop, or being granted it while others could join, leaves a replica in sync."""
    if not isinstance(action, BeginShutdown) or not before.controller.isr:
        return True
    return bool(after.controller.isr)
