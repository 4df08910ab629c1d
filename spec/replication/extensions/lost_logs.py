"""Logs that are gone: a replica that has lost all that it had leads after the others, and says so before it can lead.

Theory of operation
-------------------
Someone removes a replica's log while its broker is down, with its directory or the whole disk. The next process makes
the log anew. It is as one that crashed, so it is in no ISR and not eligible (KIP-966). One way to the leadership is
left: when ISR and ELR are both empty, the last known leader leads, since no better replica can turn up. Of a replica
whose log is gone that is not true. Elected, it would have the others cut their records down to none.

So a broker says it: after it has registered, and before it is unfenced, it reports that a replica is in none of its
directories (KIP-858: it is assigned to `UNASSIGNED`). Such a replica is *lost* for the controller until it is in the
ISR, or its broker reports a directory, which it does when the replica has records again or is in sync. That it is in
the ISR has to count by itself: the broker may die before it reports, and what its replica has by then may be all that
is left. Where ISR and ELR are empty:

* the last known leader leads, if it is not lost;
* else the one replica that is not lost leads: no better one can turn up;
* if all are lost the last known leader leads, for nothing is left that could be lost;
* if several are not lost nobody can tell which one has most, and the partition waits for an operator's order.

An unclean election, by order or by the topic's setting, takes a lost replica only if no other one is live. A broker
that knows of another leader need not say anything: its replica follows that one, and is as one that lags.

A log without records may be reported so whatever took them: a crash, a removal, or damage to all. The extension
requires `Damage`. It adds to a replica that its log is gone, and to the controller which replicas are lost.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import ClassVar

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.extension import Extension
from tidegauge.spec.kernel.guarded import Refusal
from tidegauge.spec.kernel.machine import Action, Invariant, StepInvariant
from tidegauge.spec.kernel.parts import Part, with_part
from tidegauge.spec.replication.actions import BrokerAction
from tidegauge.spec.replication.control import UncleanElection, committed
from tidegauge.spec.replication.convergence import acting_leader, living
from tidegauge.spec.replication.extension import ReplicationExtension
from tidegauge.spec.replication.extensions.damage import Damage, Damaged, damage_of
from tidegauge.spec.replication.extensions.directories import is_registered
from tidegauge.spec.replication.extensions.retention import ForgottenEpoch, LogStart, log_start_of
from tidegauge.spec.replication.extensions.settings import topic_accepts_loss
from tidegauge.spec.replication.extensions.shutdown import ControlledShutdown
from tidegauge.spec.replication.properties import last_known_leader, loss_is_accepted
from tidegauge.spec.replication.rules import ReplicationRules
from tidegauge.spec.replication.state import (
    NONE,
    Controller,
    ControllerPart,
    Error,
    PartitionMetadata,
    Replica,
    State,
)

# --- state -----------------------------------------------------------------------------------------------------------


@attrs.frozen
class LostReplicas(ControllerPart):
    """Of the controller: replicas that are lost."""

    brokers: tuple[int, ...] = ()

    def only_on(self, replicas: tuple[int, ...]) -> LostReplicas:
        return LostReplicas(tuple(b for b in self.brokers if b in replicas))


@attrs.frozen
class Unassigned(ControllerPart):
    """Of the controller: replicas that are in no directory of their brokers, as far as these have reported."""

    is_of_partition: ClassVar[bool] = False

    brokers: tuple[int, ...] = ()

    def only_on(self, replicas: tuple[int, ...]) -> Unassigned:
        return Unassigned(tuple(b for b in self.brokers if b in replicas))


@attrs.frozen
class LogGone(Part):
    """Of a replica: its log has been removed, nothing has been fetched since, and the controller has not been told."""

    gone: bool = False


def is_gone(replica: Replica) -> bool:
    return LogGone.of(replica).gone


def is_bare(replica: Replica) -> bool:
    """Whether the replica has no record that can be read."""
    return log_start_of(replica) in (replica.log_end_offset, damage_of(replica))


def lost(controller: Controller) -> tuple[int, ...]:
    return LostReplicas.of(controller).brokers


def unassigned(controller: Controller) -> tuple[int, ...]:
    """Replicas whose brokers have reported no directory since they were lost."""
    return Unassigned.of(controller).brokers


def with_lost(controller: Controller, broker: int) -> Controller:
    """The broker has reported that its replica is in none of its directories."""
    for part in (LostReplicas, Unassigned):
        controller = with_part(controller, part(tuple(sorted({*part.of(controller).brokers, broker}))))
    return controller


def with_found(controller: Controller, broker: int) -> Controller:
    """The broker has reported the directory of its replica."""
    for part in (LostReplicas, Unassigned):
        controller = with_part(controller, part(tuple(b for b in part.of(controller).brokers if b != broker)))
    return controller


# --- actions ---------------------------------------------------------------------------------------------------------


@attrs.frozen
class LoseLog(BrokerAction):
    """The log of a broker that is down is removed, with all that its disk remembers of it."""

    bounded_as: ClassVar[str] = "LoseLog"

    def guard(self, machine: ReplicationRules, state: State) -> str:
        replica = state.replicas[self.broker]
        if replica.running:
            return f"broker {self.broker} is running"
        if not replica.log:
            return f"broker {self.broker} has no records"
        return "" if machine.may_perturb(state, self.bounded_as) else "no more logs are removed in this model"

    def effect(self, machine: ReplicationRules, state: State) -> State:
        replica = evolve(state.replicas[self.broker], log=(), flushed=0, checkpoint=0)
        for part in (Damaged(), LogStart(), ForgottenEpoch(), LogGone(gone=True)):
            replica = with_part(replica, part)
        return state.with_replica(self.broker, Damage.of(machine).found(replica)).spend(self.bounded_as)


@attrs.frozen
class ReportLost(BrokerAction):
    """A broker reports to the controller that a replica is in none of its directories."""

    def guard(self, machine: ReplicationRules, state: State) -> str:
        replica = state.replicas[self.broker]
        if self.broker in lost(state.controller):
            return Refusal(f"the replica of broker {self.broker} is lost", Error.OK)
        if not is_registered(state, self.broker):
            return f"broker {self.broker} has not registered"
        if not state.controller.sessions[self.broker].fenced:
            if self.broker in unassigned(state.controller):
                return Refusal(f"broker {self.broker} has said so, and its replica may be in sync by now", Error.OK)
            return f"broker {self.broker} is let in already"
        if not is_bare(replica):
            return f"broker {self.broker} has records"
        return machine.not_hosting(state, self.broker)

    def effect(self, machine: ReplicationRules, state: State) -> State:
        controller = machine.without(state.controller, self.broker, clean=False)
        controller = with_lost(controller, self.broker)
        controller, unclean = machine.with_leader(controller)
        told = with_part(state.replicas[self.broker], LogGone())
        return committed(state.with_replica(self.broker, told), controller, unclean=unclean)


@attrs.frozen
class ReportFound(BrokerAction):
    """A broker reports the directory of a replica that was lost: it has records again, or is in sync."""

    def guard(self, machine: ReplicationRules, state: State) -> str:
        replica = state.replicas[self.broker]
        if self.broker not in unassigned(state.controller):
            return Refusal(f"the directory of broker {self.broker}'s replica is known", Error.OK)
        if not is_registered(state, self.broker):
            return f"broker {self.broker} has not registered"
        if not replica.log and self.broker not in replica.isr:
            return f"broker {self.broker} has nothing yet"
        return machine.not_hosting(state, self.broker)

    def effect(self, machine: ReplicationRules, state: State) -> State:
        controller, unclean = machine.with_leader(with_found(state.controller, self.broker))
        return committed(state, controller, unclean=unclean)


# --- the extension ---------------------------------------------------------------------------------------------------


@attrs.frozen
class LostLogs(ReplicationExtension):
    """Logs that are removed while their brokers are down."""

    requires: ClassVar[tuple[type[Extension], ...]] = (ControlledShutdown, Damage)
    action_types: ClassVar[tuple[type[Action], ...]] = (LoseLog, ReportLost, ReportFound)
    cutting_types: ClassVar[tuple[type[Action], ...]] = (LoseLog,)
    part_types: ClassVar[tuple[type[Part], ...]] = (LostReplicas, Unassigned, LogGone)

    @property
    def invariants(self) -> Mapping[str, Invariant[State]]:
        return {"InSyncIsNotLost": in_sync_is_not_lost}

    def step_invariants(self, machine: ReplicationRules) -> Mapping[str, StepInvariant[State]]:
        accepted = loss_is_accepted(topic_accepts_loss(machine), last_known_or_not_lost)
        return {"LostLogLeadsLast": lost_log_leads_last(machine), "LossIsAccepted": accepted}

    def goals(self, machine: ReplicationRules) -> Mapping[str, Invariant[State]]:
        if not machine.bounds["LoseLog"]:
            return {}
        return {
            "a replica has lost its log, and another one leads": lambda s: (
                bool(lost(s.controller)) and s.controller.leader not in (NONE, *lost(s.controller))
            ),
            "a replica that had lost its log is in sync": lambda s: any(
                b in s.controller.isr and b in unassigned(s.controller) for b in range(machine.brokers)
            ),
        }

    def converges(self, machine: ReplicationRules) -> Mapping[str, Invariant[State]]:
        def best_left_leads(state: State) -> bool:
            controller = state.controller
            if acting_leader(machine, state) is not None or controller.isr or controller.elr:
                return True
            best = LostLogs.best_left(self, controller, tuple(machine.replica_order(controller)))
            return best not in living(machine, state)

        def found_again(state: State) -> bool:
            return not any(
                state.replicas[broker].log or broker in state.replicas[broker].isr
                for broker in living(machine, state)
                if broker in unassigned(state.controller)
            )

        return {
            "the replica leads that has most of what is left": best_left_leads,
            "a replica that has its log again is in a directory": found_again,
        }

    # --- rules of the controller -------------------------------------------------------------------------------------

    def with_isr(
        self,
        machine: ReplicationRules,
        inner: Callable[[Controller, tuple[int, ...]], Controller],
        controller: Controller,
        isr: tuple[int, ...],
    ) -> Controller:
        """Who joins the ISR is no longer lost."""
        return self.in_sync_found(inner(controller, isr))

    def with_leader(
        self,
        machine: ReplicationRules,
        inner: Callable[..., tuple[Controller, bool]],
        controller: Controller,
        *,
        unclean: bool = False,
    ) -> tuple[Controller, bool]:
        """Who is elected is no longer lost."""
        controller, was_unclean = inner(controller, unclean=unclean)
        return self.in_sync_found(controller), was_unclean

    def in_sync_found(self, controller: Controller) -> Controller:
        """What the ISR has counts, whatever its members had before."""
        still = tuple(b for b in lost(controller) if b not in controller.isr)
        return controller if still == lost(controller) else with_part(controller, LostReplicas(still))

    def elect(
        self,
        machine: ReplicationRules,
        inner: Callable[..., tuple[int, bool]],
        controller: Controller,
        *,
        unclean: bool,
    ) -> tuple[int, bool]:
        """Nobody of ISR and ELR can lead: a lost replica leads after those that are not."""
        leader, was_unclean = inner(controller, unclean=unclean)
        if not was_unclean and (controller.isr or controller.elr):
            return leader, False
        order = machine.replica_order(controller)
        live = [b for b in order if machine.is_active(controller, b)]
        if unclean and live:
            return next((b for b in live if b not in lost(controller)), live[0]), True
        best = self.best_left(controller, tuple(order))
        return (best, True) if best in live else (NONE, False)

    def best_left(self, controller: Controller, replicas: tuple[int, ...]) -> int:
        """The replica of which no better one can turn up when ISR and ELR are empty; -1 if that cannot be told."""
        kept = [b for b in replicas if b not in lost(controller)]
        if not kept or controller.last_known_leader in kept:
            return controller.last_known_leader
        return kept[0] if len(kept) == 1 else NONE

    def not_unfenced(
        self,
        machine: ReplicationRules,
        inner: Callable[[Controller, Replica, int], str],
        controller: Controller,
        replica: Replica,
        broker: int,
    ) -> str:
        """A broker sends no heartbeat before it has said what it no longer has."""
        if self.must_report(replica) and broker not in lost(controller):
            return f"broker {broker} has yet to report its log lost"
        return inner(controller, replica, broker)

    # --- rules of the broker -----------------------------------------------------------------------------------------

    def must_report(self, replica: Replica) -> bool:
        """The log is gone, and the broker has not known of anybody who leads."""
        return is_gone(replica) and replica.running

    def metadata_applied(
        self,
        machine: ReplicationRules,
        inner: Callable[[State, int, Replica, PartitionMetadata], State],
        state: State,
        broker: int,
        replica: Replica,
        metadata: PartitionMetadata,
    ) -> State:
        """Another one leads: the replica is filled from there, as one that lags."""
        if metadata.leader not in (NONE, broker):
            replica = with_part(replica, LogGone())
        return inner(state, broker, replica, metadata)

    def survivor(
        self, machine: ReplicationRules, inner: Callable[[Replica, int], Replica], replica: Replica, kept: int
    ) -> Replica:
        """The disk remembers that the log is gone, until it has records again."""
        return with_part(inner(replica, kept), LogGone(is_gone(replica) and not kept))


def in_sync_is_not_lost(state: State) -> bool:
    """What a member of the ISR has counts, whether or not its broker has reported a directory."""
    return not set(state.controller.isr).intersection(lost(state.controller))


def known_lost(before: State, action: Action, after: State) -> frozenset[int]:
    """Whom the controller took for lost when it chose a leader; who is elected is not lost any more afterwards."""
    found = {action.broker} if isinstance(action, ReportFound) else set()
    return frozenset({*lost(before.controller), *lost(after.controller)} - found)


def last_known_or_not_lost(before: State, action: Action, after: State) -> Collection[int]:
    """With neither ISR nor ELR: the last known leader, or a replica that has its log where that one has not."""
    gone = known_lost(before, action, after)
    kept = [broker for broker in range(len(after.replicas)) if broker not in gone]
    return kept or last_known_leader(before, action, after)


def lost_log_leads_last(
    machine: ReplicationRules, is_bare: Callable[[Replica], bool] = is_bare
) -> StepInvariant[State]:
    """Nobody orders it: then a replica whose log is gone is elected uncleanly only if no other one has records.

    A topic that prefers availability waits for nobody: of those that are live one leads that is not lost, if there is.
    What the controller cannot know is not meant: a process that has not registered has not said yet what it has, and a
    lost replica that has fetched since may have been neither in sync nor reported. `is_bare`: whether a replica has no
    record that can be read.
    """

    def holds(before: State, action: Action, after: State) -> bool:
        controller, leader = after.controller, after.controller.leader
        elected = after.history.unsettled and after.history.superseded_epoch > before.history.superseded_epoch
        if not elected or isinstance(action, UncleanElection) or not is_registered(after, leader):
            return True
        gone = known_lost(before, action, after)
        led_by = after.replicas[leader]
        if not is_bare(led_by) or not (is_gone(led_by) or leader in gone):
            return True
        if machine.elects_uncleanly(controller):
            kept = [b for b in machine.replica_order(controller) if b != leader and b not in gone]
            return not any(machine.is_active(controller, broker) for broker in kept)
        return all(is_bare(replica) for broker, replica in enumerate(after.replicas) if broker not in gone)

    return holds
