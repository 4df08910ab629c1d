"""Controlled shutdown: a broker hands over what it leads before it stops, and loses nothing by stopping (KIP-841, 966).

Theory of operation
-------------------
A broker that is to stop says so with its heartbeats. From then on it is *shutting down*: nobody elects it, and nobody
may add it to an ISR, though it is not fenced and its clients are still served. The controller moves its leadership to
the first member of the ISR that is not shutting down, and takes it out of the ISR. An ISR is never emptied by that: the
last of an ISR stays in it, and leads, until another replica has joined or there is none that could.

When it leads nothing any more, or waits for nobody, its stop is *granted*: the controller fences it, so that it counts
no longer, and the broker flushes its logs, notes the broker epoch in which it stopped, and ends. A process that starts
from such a note has lost nothing. It registers with that epoch, and if the controller knows no later one it stays
eligible to lead where it was (KIP-966); any other process may have lost its log's tail. The note is read once: whoever
crashes later starts without it.

This is `Replication` with that way of leaving.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import attrs

from tidegauge.spec.kernel.machine import Action, Invariant, StepInvariant
from tidegauge.spec.replication.actions import BrokerAction, ReplicationAction, not_acting
from tidegauge.spec.replication.control import committed
from tidegauge.spec.replication.faults import with_session
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.state import NONE, Controller, Perturbation, Replica, State


@attrs.frozen
class BeginShutdown(BrokerAction):
    """A broker asks to be let go, and is relieved of what others can take over."""

    def guard(self, machine: Replication, state: State) -> str:
        if not machine.may_perturb(state, Perturbation.CONTROLLED_SHUTDOWN):
            return "no more controlled shutdowns in this model"
        replica, session = state.replicas[self.broker], state.controller.sessions[self.broker]
        if replica.broker_epoch != session.broker_epoch or session.fenced:
            return f"broker {self.broker} is no member of the cluster"
        if session.shutting_down:
            return f"broker {self.broker} has asked already"
        return not_acting(state, self.broker)

    def effect(self, machine: Replication, state: State) -> State:
        assert isinstance(machine, ControlledShutdown)
        session = attrs.evolve(state.controller.sessions[self.broker], shutting_down=True)
        controller, unclean = machine.relieved(with_session(state.controller, self.broker, session))
        return committed(state.spend(Perturbation.CONTROLLED_SHUTDOWN), controller, unclean=unclean)


@attrs.frozen
class GrantShutdown(BrokerAction):
    """A broker that asked may stop: it is fenced, last where nobody else is in sync."""

    def guard(self, machine: Replication, state: State) -> str:
        assert isinstance(machine, ControlledShutdown)
        if machine.must_wait(state.controller, self.broker):
            return f"broker {self.broker} is the last of the ISR, and others may join it"
        return not_leaving(state, self.broker)

    def effect(self, machine: Replication, state: State) -> State:
        return _let_go(machine, state, self.broker)


@attrs.frozen
class GiveUpWaiting(BrokerAction):
    """A broker that has waited long enough for somebody to join leaves as the last of the ISR."""

    def guard(self, machine: Replication, state: State) -> str:
        return not_leaving(state, self.broker)

    def effect(self, machine: Replication, state: State) -> State:
        return _let_go(machine, state, self.broker)


def not_leaving(state: State, broker: int) -> str:
    """Why a broker is not waiting for leave to stop."""
    replica, session = state.replicas[broker], state.controller.sessions[broker]
    if replica.broker_epoch != session.broker_epoch:
        return f"broker {broker} is not the process that has asked"
    if not session.shutting_down or session.fenced:
        return f"broker {broker} has not asked to stop, or has been told that it may"
    return not_acting(state, broker)


def _let_go(machine: Replication, state: State, broker: int) -> State:
    controller = machine.without(state.controller, broker, clean=True)
    session = attrs.evolve(controller.sessions[broker], fenced=True)
    controller, unclean = machine.with_leader(with_session(controller, broker, session))
    return committed(state, controller, unclean=unclean)


@attrs.frozen
class Stop(BrokerAction):
    """A broker whose stop was granted flushes, notes its broker epoch, and ends."""

    def guard(self, machine: Replication, state: State) -> str:
        replica, session = state.replicas[self.broker], state.controller.sessions[self.broker]
        if replica.broker_epoch != session.broker_epoch or not session.shutting_down or not session.fenced:
            return f"broker {self.broker} may not stop"
        return not_acting(state, self.broker)

    def effect(self, machine: Replication, state: State) -> State:
        return _stopped(machine, state, self.broker)


@attrs.frozen
class StopUnasked(BrokerAction):
    """A broker that does not reach the controller stops without its leave, and flushes and notes all the same."""

    def guard(self, machine: Replication, state: State) -> str:
        if not machine.may_perturb(state, Perturbation.CONTROLLED_SHUTDOWN):
            return "no more controlled shutdowns in this model"
        return not_acting(state, self.broker)

    def effect(self, machine: Replication, state: State) -> State:
        return _stopped(machine, state, self.broker).spend(Perturbation.CONTROLLED_SHUTDOWN)


def _stopped(machine: Replication, state: State, stopping: int) -> State:
    """Everything is on the disk, the note as well; answers that it has sent still arrive, and nothing else does."""
    assert isinstance(machine, ControlledShutdown)
    stopped = machine.stopped(state.replicas[stopping])
    answers = tuple(m for m in state.network.fetch_responses if m.request.leader == stopping)
    network = state.network.without_broker(stopping)
    network = attrs.evolve(network, fetch_responses=tuple(sorted((*network.fetch_responses, *answers))))
    state = attrs.evolve(state, network=network)
    answered = {m.request for m in answers}
    for broker, replica in enumerate(state.replicas):
        waiting = tuple(r for r in replica.outstanding if r.leader != stopping or r in answered)
        if waiting != replica.outstanding:
            state = state.with_replica(broker, attrs.evolve(replica, outstanding=waiting))
    return state.with_replica(stopping, stopped)


@attrs.frozen
class ControlledShutdown(Replication):
    """The replication machine with brokers that leave in good order."""

    action_types: ClassVar[tuple[type[ReplicationAction], ...]] = (
        *Replication.action_types,
        BeginShutdown,
        GrantShutdown,
        GiveUpWaiting,
        Stop,
        StopUnasked,
    )

    @property
    def invariants(self) -> Mapping[str, Invariant[State]]:
        return {**super().invariants, "ShuttingDownLeadsLast": shutting_down_leads_last}

    @property
    def step_invariants(self) -> Mapping[str, StepInvariant[State]]:
        return {**super().step_invariants, "ShutdownNeverEmptiesTheIsr": shutdown_never_empties_the_isr}

    @property
    def sometimes(self) -> Mapping[str, Invariant[State]]:
        wanted: dict[str, Invariant[State]] = dict(super().sometimes)
        if self.bounds.controlled_shutdowns:
            wanted["a broker has stopped cleanly"] = lambda s: any(r.stopped_cleanly_in != NONE for r in s.replicas)
            wanted["a broker is back from a clean stop"] = lambda s: any(
                session.broker_epoch and not session.fenced for session in s.controller.sessions
            )
        return wanted

    # --- rules -------------------------------------------------------------------------------------------------

    def is_eligible_for_isr(self, controller: Controller, broker: int, broker_epoch: int) -> bool:
        """A broker that is shutting down joins no ISR; one that is in it as the last may stay (KIP-841)."""
        leaving = controller.sessions[broker].shutting_down and broker not in controller.isr
        return not leaving and super().is_eligible_for_isr(controller, broker, broker_epoch)

    def with_isr(self, controller: Controller, isr: tuple[int, ...]) -> tuple[Controller, bool]:
        """Somebody has joined: whoever waited for that is relieved."""
        changed, _ = super().with_isr(controller, isr)
        return self.relieved(changed)

    def relieved(self, controller: Controller) -> tuple[Controller, bool]:
        """Whoever is shutting down has left the ISR, and hands over what it led."""
        return self.with_leader(self.without_leaving(controller))

    def without_leaving(self, controller: Controller) -> Controller:
        """Brokers that are shutting down leave the ISR, unless that would empty it."""
        leaving = {b for b in controller.isr if controller.sessions[b].shutting_down}
        if self.may_relieve(controller, leaving):
            for broker in sorted(leaving):
                controller = self.without(controller, broker, clean=True)
        return controller

    def may_relieve(self, controller: Controller, leaving: set[int]) -> bool:
        """Somebody stays."""
        return not set(controller.isr) <= leaving

    def elect(self, controller: Controller, *, unclean: bool) -> tuple[int, bool]:
        """Whoever is shutting down leads only where it is the last of the ISR."""
        leader, was_unclean = super().elect(controller, unclean=unclean)
        if leader != NONE and not was_unclean:
            return leader, False
        order = self.replica_order(controller)
        last = [b for b in order if b in controller.isr and not controller.sessions[b].fenced]
        return (last[0], False) if last else (leader, was_unclean)

    def is_active(self, controller: Controller, broker: int) -> bool:
        return super().is_active(controller, broker) and not controller.sessions[broker].shutting_down

    def must_wait(self, controller: Controller, broker: int) -> bool:
        """The broker leads, and another one that stays could still join the ISR."""
        others = [s for b, s in enumerate(controller.sessions) if b != broker and not s.fenced and not s.shutting_down]
        return controller.leader == broker and bool(others)

    def registered(self, controller: Controller, replica: Replica, broker: int) -> Controller:
        """A process that starts from a clean stop of the last known one has lost nothing (KIP-966)."""
        if replica.stopped_cleanly_in != NONE and self.is_last_process(controller, replica, broker):
            return self.back_from_a_clean_stop(controller, broker)
        return super().registered(controller, replica, broker)

    def back_from_a_clean_stop(self, controller: Controller, broker: int) -> Controller:
        """Out of the ISR, for it has to catch up; eligible to lead if it was, or was in sync."""
        return self.without(controller, broker, clean=True) if broker in controller.isr else controller

    def stopped(self, replica: Replica) -> Replica:
        """What a clean stop leaves on the disk: all of the log, and the note."""
        return Replica(
            running=False,
            log=replica.log,
            flushed=replica.log_end_offset,
            checkpoint=replica.high_watermark,
            stopped_cleanly_in=replica.broker_epoch,
        )

    def is_last_process(self, controller: Controller, replica: Replica, broker: int) -> bool:
        """The note is of the process that was registered until now."""
        return replica.stopped_cleanly_in + 1 == controller.sessions[broker].broker_epoch


def shutting_down_leads_last(state: State) -> bool:
    """A broker that is shutting down leads only while everybody else in sync is, too."""
    controller = state.controller
    if controller.leader == NONE or not controller.sessions[controller.leader].shutting_down:
        return True
    return all(controller.sessions[b].shutting_down for b in controller.isr)


def shutdown_never_empties_the_isr(before: State, action: Action, after: State) -> bool:
    """Asking to stop, or being granted it while others could join, leaves somebody in sync."""
    if not isinstance(action, BeginShutdown) or not before.controller.isr:
        return True
    return bool(after.controller.isr)


# --- as it should not be -------------------------------------------------------------------------------------------


@attrs.frozen
class EmptiesTheIsr(ControlledShutdown):
    """A broker that is shutting down leaves the ISR though nobody else is in it."""

    def may_relieve(self, controller: Controller, leaving: set[int]) -> bool:
        return True


@attrs.frozen
class TrustsEveryRestart(ControlledShutdown):
    """Whoever starts is believed to have stopped cleanly."""

    def registered(self, controller: Controller, replica: Replica, broker: int) -> Controller:
        return self.back_from_a_clean_stop(controller, broker)
