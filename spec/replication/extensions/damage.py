"""A disk that damages what a log had on stable storage, and the repair of its replica from the leader.

Theory of operation
-------------------
A crash takes what was not flushed. Damage takes anything: some records of a log cannot be read any more, though they
had been flushed, and the process that stopped may have stopped cleanly. The next process finds the damage when it opens
the log. It is then as one that crashed: it forgets the note of a clean stop, so that its registration takes it out of
the ISR and out of the eligible replicas (KIP-966).

The log keeps its end, and so its leader can be elected as the last known one and lead on with what it can read. A
replica that follows is *repaired*: its log is cut before the damage and fetched again. It must not do so before it
knows that it is out of the ISR; until then others count on what it has. It must not have fetched either: a leader would
take a fetch from before the cut for what it has (KIP-903).

A disk may also say that a sync is done that is not, and lose power then: the log ends earlier than it was left
(`LoseEnd`), flushed or not. Its broker counts as one that crashed, whatever it has noted.

The extension requires `ControlledShutdown`. It adds to a replica where its damage begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.extension import Extension
from tidegauge.spec.kernel.machine import Action, Invariant, StepInvariant
from tidegauge.spec.kernel.parts import Part, with_part
from tidegauge.spec.replication import properties
from tidegauge.spec.replication.actions import BrokerAction, ReplicationAction
from tidegauge.spec.replication.convergence import acting_leader, living
from tidegauge.spec.replication.extension import ReplicationExtension
from tidegauge.spec.replication.extensions.directories import has_failed
from tidegauge.spec.replication.extensions.reassignment import ReplicaList
from tidegauge.spec.replication.extensions.shutdown import CleanStop, ControlledShutdown
from tidegauge.spec.replication.rules import ReplicationRules
from tidegauge.spec.replication.state import NONE, BrokerId, Controller, PartitionMetadata, Replica, State

# --- state -----------------------------------------------------------------------------------------------------------


@attrs.frozen
class Damaged(Part):
    """Of a replica: its log cannot be read from this offset on."""

    start: int = NONE


@attrs.frozen
class Eligible(Part):
    """Of metadata: the eligible leaders (KIP-966)."""

    brokers: tuple[int, ...] = ()

    def renamed(self, names: Sequence[int]) -> Eligible:
        return Eligible(tuple(sorted(names[broker] for broker in self.brokers)))


def damage_of(replica: Replica) -> int:
    """Where the damage of a replica's log begins; -1 without damage."""
    return Damaged.of(replica).start


# --- actions ---------------------------------------------------------------------------------------------------------


@attrs.frozen
class DamageLog(ReplicationAction):
    """The disk of a broker that is down damages its log from an offset on."""

    bounded_as: ClassVar[str] = "DamageLog"

    broker: BrokerId
    start: int

    @classmethod
    def candidates(cls, machine: ReplicationRules, state: State) -> Iterable[DamageLog]:
        for broker, replica in enumerate(state.replicas):
            yield from (cls(broker, start) for start in range(replica.log_end_offset))

    def guard(self, machine: ReplicationRules, state: State) -> str:
        replica = state.replicas[self.broker]
        if replica.running:
            return f"broker {self.broker} is running"
        if not 0 <= self.start < replica.log_end_offset:
            return f"the log of broker {self.broker} has {replica.log_end_offset} records"
        return "" if machine.may_perturb(state, self.bounded_as) else "no more damage in this model"

    def effect(self, machine: ReplicationRules, state: State) -> State:
        replica = with_part(state.replicas[self.broker], Damaged(self.start))
        return state.with_replica(self.broker, Damage.of(machine).found(replica)).spend(self.bounded_as)


@attrs.frozen
class LoseEnd(ReplicationAction):
    """The disk of a broker that is down has lost the end of its log, which it had said was on stable storage."""

    bounded_as: ClassVar[str] = "LoseEnd"

    broker: BrokerId
    kept: int

    @classmethod
    def candidates(cls, machine: ReplicationRules, state: State) -> Iterable[LoseEnd]:
        for broker, replica in enumerate(state.replicas):
            yield from (cls(broker, kept) for kept in range(replica.log_end_offset))

    def guard(self, machine: ReplicationRules, state: State) -> str:
        replica = state.replicas[self.broker]
        if replica.running:
            return f"broker {self.broker} is running"
        if not 0 <= self.kept < replica.log_end_offset:
            return f"the log of broker {self.broker} has {replica.log_end_offset} records"
        return "" if machine.may_perturb(state, self.bounded_as) else "no more syncs lie in this model"

    def effect(self, machine: ReplicationRules, state: State) -> State:
        left = machine.truncated(state.replicas[self.broker], self.kept)
        if self.kept <= damage_of(left):
            left = with_part(left, Damaged())
        return state.with_replica(self.broker, Damage.of(machine).found(left)).spend(self.bounded_as)


@attrs.frozen
class RepairLog(BrokerAction):
    """A broker whose replica is damaged follows another one: it cuts its log before the damage."""

    def guard(self, machine: ReplicationRules, state: State) -> str:
        replica = state.replicas[self.broker]
        metadata = replica.pulled or machine.metadata(state.controller)
        if not replica.running or replica.paused or damage_of(replica) == NONE:
            return f"broker {self.broker} has nothing to repair"
        if metadata.leader in (NONE, self.broker):
            return f"broker {self.broker} knows of no other leader"
        if replica.leader not in (NONE, self.broker):
            return f"broker {self.broker} has fetched"
        return Damage.of(machine).not_repairable(metadata, self.broker)

    def effect(self, machine: ReplicationRules, state: State) -> State:
        replica = state.replicas[self.broker]
        cut = with_part(machine.truncated(replica, damage_of(replica)), Damaged())
        return state.with_replica(self.broker, resigned(cut))


def resigned(replica: Replica) -> Replica:
    """The replica leads and follows nobody, and waits for nothing; it may have led on alone before it is repaired."""
    return evolve(replica, leader=NONE, isr=(), epoch_start_offset=NONE, remote=(), pending_isr=(), outstanding=())


# --- the extension ---------------------------------------------------------------------------------------------------


@attrs.frozen
class Damage(ReplicationExtension):
    """Disks that damage what was on stable storage."""

    requires: ClassVar[tuple[type[Extension], ...]] = (ControlledShutdown,)
    action_types: ClassVar[tuple[type[Action], ...]] = (DamageLog, LoseEnd, RepairLog)
    cutting_types: ClassVar[tuple[type[Action], ...]] = (LoseEnd, RepairLog)
    part_types: ClassVar[tuple[type[Part], ...]] = (Damaged, Eligible)

    def step_invariants(self, machine: ReplicationRules) -> Mapping[str, StepInvariant[State]]:
        return {"HighWatermarkMonotone": high_watermark_monotone}

    def converges(self, machine: ReplicationRules) -> Mapping[str, Invariant[State]]:
        return {"a damaged replica that follows is repaired": damage_is_repaired(machine)}

    # --- rules -------------------------------------------------------------------------------------------------------

    def found(self, replica: Replica) -> Replica:
        """The replica when its broker has found the damage: the note of a clean stop counts no more."""
        return with_part(replica, CleanStop())

    def not_repairable(self, metadata: PartitionMetadata, broker: int) -> str:
        """Why a replica may not be repaired yet; empty if it may."""
        counted_on = (*metadata.isr, *Eligible.of(metadata).brokers)
        return f"broker {broker} is in sync or eligible, as far as it knows" if broker in counted_on else ""

    def metadata(
        self, machine: ReplicationRules, inner: Callable[[Controller], PartitionMetadata], controller: Controller
    ) -> PartitionMetadata:
        return with_part(inner(controller), Eligible(controller.elr))

    def survivor(
        self, machine: ReplicationRules, inner: Callable[[Replica, int], Replica], replica: Replica, kept: int
    ) -> Replica:
        """Damage outlives a process."""
        start = damage_of(replica)
        return with_part(inner(replica, kept), Damaged(start if start < kept else NONE))

    def metadata_applied(
        self,
        machine: ReplicationRules,
        inner: Callable[[State, int, Replica, PartitionMetadata], State],
        state: State,
        broker: int,
        replica: Replica,
        metadata: PartitionMetadata,
    ) -> State:
        """A damaged replica neither follows nor leads others before it is repaired; it may be taken away, or fail."""
        leads_alone = metadata.leader == broker and set(metadata.isr) <= {broker}
        waits = metadata.leader == NONE and broker not in metadata.isr
        is_taken = broker not in (ReplicaList.of(metadata).replicas or (broker,))
        if damage_of(replica) == NONE or leads_alone or waits or is_taken or has_failed(replica):
            return inner(state, broker, replica, metadata)
        return state.with_replica(broker, replica)


def damage_is_repaired(machine: ReplicationRules) -> Invariant[State]:
    """A leader has nobody to be repaired from, and of who is eligible others count on what it has."""

    def holds(state: State) -> bool:
        leader = acting_leader(machine, state)
        return leader is None or all(
            broker in (leader, *state.controller.elr) or damage_of(state.replicas[broker]) == NONE
            for broker in living(machine, state)
        )

    return holds


def high_watermark_monotone(before: State, action: Action, after: State) -> bool:
    """As in the base, but for a repair: it begins the following of a new leader, and the replica leads no more."""
    return isinstance(action, RepairLog) or properties.high_watermark_monotone(before, action, after)
