"""Damage that a broker meets while it runs, and the repair of the replica in the same process.

Theory of operation
-------------------
A broker that reads its log may meet damage. Unless the replica leads and nobody else is in sync, it is *withdrawn*:
it neither leads nor follows, and responds with KAFKA_STORAGE_ERROR. To be repaired it must be cut before the damage, as
after a restart (`damage`). Two things stand in the way of that in the life of a process:

* Others count on what it has: it is in the ISR, or eligible. So the broker first reports the damage to the controller,
  which takes the replica out of both (KIP-858: it is in none of the broker's directories; `lost_logs`).
* What it has fetched before is still on its way, and says that it has what is about to be cut. A restart begins a
  broker epoch, which tells those fetches from later ones (KIP-903). Here a *leader epoch* does: the controller begins
  one with the report, though the leader may stay, as when a replica leaves the replica list (`reassignment`). A fetch
  of an earlier epoch changes nothing at the leader of the new one, and that of an earlier one can change no ISR.

The broker goes by what it knows, and so does the report. A later leader epoch may have the replica out already, which
the broker has yet to read: then it reports all the same (`ReportUnread`). The controller cannot tell up to which epoch
the replica took part, so it begins one more. That costs an epoch, and nothing else.

The broker cuts the log when it has metadata of a later leader epoch than any that the replica took part in, which have
it out of the ISR and of the eligible replicas. Who alone is in sync by then, since all others have gone, is not taken
out: it leads on with what it can read, in the new epoch. Its former proposals count no more, so nobody can be in the
ISR of whom it does not know.

A report may also arrive when it is over: the leader epoch that its broker waited for came from elsewhere, the replica
is repaired, and in sync perhaps. The request names the broker's process and no leader epoch, so the controller takes
the replica out once more (`ReportArrivesLate`). Its broker reports its directory again as soon as it has read of that.

A process that ends leaves a damaged log, of which the next one goes by the rules of `damage`.

The extension requires `Damage` and `LostLogs`. It adds to a replica that it is withdrawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar, Final

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.extension import Extension
from tidegauge.spec.kernel.guarded import Refusal
from tidegauge.spec.kernel.machine import Action, Invariant, StepInvariant
from tidegauge.spec.kernel.parts import Part, with_part
from tidegauge.spec.replication.actions import BrokerAction, ReplicationAction
from tidegauge.spec.replication.control import committed
from tidegauge.spec.replication.convergence import acting_leader, living
from tidegauge.spec.replication.extension import ReplicationExtension
from tidegauge.spec.replication.extensions.damage import Damage, Damaged, damage_of, high_watermark_monotone, resigned
from tidegauge.spec.replication.extensions.directories import has_failed, is_registered
from tidegauge.spec.replication.extensions.lost_logs import LostLogs, is_bare, lost, lost_log_leads_last, with_lost
from tidegauge.spec.replication.extensions.reassignment import ReplicaList
from tidegauge.spec.replication.extensions.retention import log_start_of
from tidegauge.spec.replication.extensions.shutdown import CleanStop, ControlledShutdown
from tidegauge.spec.replication.rules import ReplicationRules, not_acting
from tidegauge.spec.replication.state import (
    NONE,
    BrokerId,
    Controller,
    Error,
    FetchRequest,
    PartitionMetadata,
    Replica,
    State,
)

# --- state -----------------------------------------------------------------------------------------------------------


@attrs.frozen
class Withdrawn(Part):
    """Of a replica: its broker has met damage from `start` on, after it took part in leader epochs up to `epoch`.

    The epoch stays known when the replica is repaired, for the invariants.
    """

    start: int = NONE
    epoch: int = NONE


def is_withdrawn(replica: Replica) -> bool:
    return Withdrawn.of(replica).start != NONE


NOBODY_IN_SYNC: Final = Refusal("nobody is in sync", Error.ELIGIBLE_LEADERS_NOT_AVAILABLE)
"""Fenced or not: who is eligible has what is left, and would be elected last if it were taken out."""

# --- actions ---------------------------------------------------------------------------------------------------------


@attrs.frozen
class MeetDamage(ReplicationAction):
    """A broker that runs finds its log damaged from an offset on, and others have the records."""

    bounded_as: ClassVar[str] = "MeetDamage"

    broker: BrokerId
    start: int

    @classmethod
    def candidates(cls, machine: ReplicationRules, state: State) -> Iterable[MeetDamage]:
        for broker, replica in enumerate(state.replicas):
            known = damage_of(replica)
            starts = range(replica.log_end_offset) if known == NONE else (known,)
            yield from (cls(broker, start) for start in starts)

    def guard(self, machine: ReplicationRules, state: State) -> str:
        replica = state.replicas[self.broker]
        if not machine.may_perturb(state, self.bounded_as):
            return "no more damage is met in this model"
        if is_withdrawn(replica) or has_failed(replica):
            return f"broker {self.broker} does not read its log"
        if replica.leader == self.broker and set(replica.maximal_isr) <= {self.broker}:
            return f"broker {self.broker} leads alone: it leads on"
        if not 0 <= self.start < replica.log_end_offset:
            return f"the log of broker {self.broker} has {replica.log_end_offset} records"
        return machine.not_hosting(state, self.broker)

    def effect(self, machine: ReplicationRules, state: State) -> State:
        replica = state.replicas[self.broker]
        withdrawn = resigned(with_part(with_part(replica, Damaged()), Withdrawn(self.start, replica.leader_epoch)))
        return state.with_replica(self.broker, withdrawn).spend(self.bounded_as)


@attrs.frozen
class ReportDamaged(BrokerAction):
    """A broker reports to the controller that it is about to cut the log of a replica that it has withdrawn."""

    def guard(self, machine: ReplicationRules, state: State) -> str:
        if settled(machine, state, self.broker):
            return f"the controller knows of the damage at broker {self.broker}"
        return not_reported(state, self.broker)

    def effect(self, machine: ReplicationRules, state: State) -> State:
        return reported(machine, state, self.broker)


@attrs.frozen
class ReportUnread(BrokerAction):
    """The same of a replica that a later leader epoch has out already: its broker has yet to read of that."""

    bounded_as: ClassVar[str] = "ReportUnread"

    def guard(self, machine: ReplicationRules, state: State) -> str:
        replica = state.replicas[self.broker]
        read = replica.pulled
        if not machine.may_perturb(state, self.bounded_as):
            return "every report comes after what was written before it has been read, in this model"
        if reason := not_reported(state, self.broker):
            return reason
        if not settled(machine, state, self.broker):
            return f"the controller does not know of the damage at broker {self.broker}"
        if read is not None and RunningDamage.of(machine).may_return(machine, replica, self.broker, read):
            return f"broker {self.broker} has read that nobody counts on its replica"
        return ""

    def effect(self, machine: ReplicationRules, state: State) -> State:
        return reported(machine, state, self.broker).spend(self.bounded_as)


@attrs.frozen
class ReportArrivesLate(BrokerAction):
    """The same of a replica that has been repaired in the life of this process."""

    bounded_as: ClassVar[str] = "ReportArrivesLate"

    def guard(self, machine: ReplicationRules, state: State) -> str:
        replica, broker = state.replicas[self.broker], self.broker
        if not machine.may_perturb(state, self.bounded_as):
            return "no report arrives late in this model"
        if is_withdrawn(replica) or Withdrawn.of(replica).epoch == NONE:
            return f"broker {broker} has repaired nothing"
        if not is_registered(state, broker) or state.controller.sessions[broker].fenced:
            return f"broker {broker} is no member"
        if not state.controller.isr:
            return "nobody is in sync"
        if broker in lost(state.controller):
            return f"the replica of broker {broker} is lost"
        return machine.not_hosting(state, broker)

    def effect(self, machine: ReplicationRules, state: State) -> State:
        return reported(machine, state, self.broker).spend(self.bounded_as)


def settled(machine: ReplicationRules, state: State, broker: int) -> bool:
    """Whether the replica may be repaired as soon as its broker has read what is written."""
    metadata = machine.metadata(state.controller)
    return RunningDamage.of(machine).may_return(machine, state.replicas[broker], broker, metadata)


def not_reported(state: State, broker: int) -> str:
    """Why a broker reports no damage, or the controller makes nothing of it; empty if neither is so."""
    if not is_withdrawn(state.replicas[broker]):
        return f"broker {broker} has met no damage"
    if not is_registered(state, broker):
        return f"broker {broker} has not registered"
    if not state.controller.isr:
        return NOBODY_IN_SYNC
    if broker in lost(state.controller):
        return f"the replica of broker {broker} is lost: it has to be found first"
    return not_acting(state, broker)


def reported(machine: ReplicationRules, state: State, broker: int) -> State:
    controller, unclean = RunningDamage.of(machine).taken_out(machine, state.controller, broker)
    return committed(state, controller, unclean=unclean)


@attrs.frozen
class RepairWhileRunning(BrokerAction):
    """A broker cuts the log of a withdrawn replica before the damage, to follow another one again."""

    def guard(self, machine: ReplicationRules, state: State) -> str:
        replica = state.replicas[self.broker]
        metadata = replica.pulled or machine.metadata(state.controller)
        if not is_withdrawn(replica) or has_failed(replica):
            return f"broker {self.broker} has nothing to repair"
        if metadata.leader in (NONE, self.broker):
            return f"broker {self.broker} knows of no other leader"
        if not RunningDamage.of(machine).may_return(machine, replica, self.broker, metadata):
            return f"broker {self.broker} knows of nobody who has been told"
        return not_acting(state, self.broker)

    def effect(self, machine: ReplicationRules, state: State) -> State:
        replica = state.replicas[self.broker]
        cut = machine.truncated(replica, Withdrawn.of(replica).start)
        return state.with_replica(self.broker, with_part(cut, Withdrawn(epoch=Withdrawn.of(replica).epoch)))


# --- the extension ---------------------------------------------------------------------------------------------------


@attrs.frozen
class RunningDamage(ReplicationExtension):
    """Damage that is met, and repaired, in the life of a process."""

    requires: ClassVar[tuple[type[Extension], ...]] = (ControlledShutdown, Damage, LostLogs)
    action_types: ClassVar[tuple[type[Action], ...]] = (
        MeetDamage,
        ReportDamaged,
        ReportUnread,
        ReportArrivesLate,
        RepairWhileRunning,
    )
    cutting_types: ClassVar[tuple[type[Action], ...]] = (RepairWhileRunning,)
    part_types: ClassVar[tuple[type[Part], ...]] = (Withdrawn,)

    @property
    def invariants(self) -> Mapping[str, Invariant[State]]:
        return {"WithdrawnTakesNoPart": withdrawn_takes_no_part}

    def step_invariants(self, machine: ReplicationRules) -> Mapping[str, StepInvariant[State]]:
        return {
            "HighWatermarkMonotone": monotone_but_for_repairs,
            "RepairedIsCountedOnByNobody": repaired_is_counted_on_by_nobody,
            "LostLogLeadsLast": lost_log_leads_last(machine, has_nothing_to_read),
        }

    def goals(self, machine: ReplicationRules) -> Mapping[str, Invariant[State]]:
        if not machine.bounds["MeetDamage"]:
            return {}
        return {
            "a replica was taken out since its log is damaged, and another one leads": lambda s: any(
                is_withdrawn(replica) and s.controller.leader not in (NONE, broker) and broker in lost(s.controller)
                for broker, replica in enumerate(s.replicas)
            ),
        }

    def converges(self, machine: ReplicationRules) -> Mapping[str, Invariant[State]]:
        def all_return(state: State) -> bool:
            leader = acting_leader(machine, state)
            return leader is None or not any(is_withdrawn(state.replicas[b]) for b in living(machine, state))

        return {"a replica that met damage is repaired in the life of its process": all_return}

    # --- rules -------------------------------------------------------------------------------------------------------

    def may_return(self, machine: ReplicationRules, replica: Replica, broker: int, metadata: PartitionMetadata) -> bool:
        """Whether a withdrawn replica may be repaired, or lead on alone, as the metadata have the partition."""
        if not self.is_fenced_off(replica, metadata):
            return False
        leads_alone = metadata.leader == broker and set(metadata.isr) <= {broker}
        return leads_alone or not Damage.of(machine).not_repairable(metadata, broker)

    def is_fenced_off(self, replica: Replica, metadata: PartitionMetadata) -> bool:
        """A leader epoch has begun since the replica last took part: what it has sent is of earlier ones."""
        return metadata.leader_epoch > Withdrawn.of(replica).epoch

    def taken_out(self, machine: ReplicationRules, controller: Controller, broker: int) -> tuple[Controller, bool]:
        """The replica is neither in sync nor eligible, but for the last of the ISR; and a leader epoch begins.

        A broker that has been fenced without its knowledge reports as one that has lost its log: it is found again, and
        says the same when it is a member.
        """
        before, is_fenced = controller.leader_epoch, controller.sessions[broker].fenced
        if set(controller.isr) != {broker}:
            controller = self.counted_out(machine, controller, broker)
            controller = with_lost(controller, broker)
        controller, unclean = machine.with_leader(controller)
        if controller.leader_epoch == before and not is_fenced:
            controller = self.in_next_epoch(controller)
        return controller, unclean

    def counted_out(self, machine: ReplicationRules, controller: Controller, broker: int) -> Controller:
        """It is about to lose what it has."""
        return machine.without(controller, broker, clean=False)

    def in_next_epoch(self, controller: Controller) -> Controller:
        """The leader stays, in a new epoch."""
        return evolve(controller, leader_epoch=controller.leader_epoch + 1)

    def has_lost_since(
        self,
        machine: ReplicationRules,
        inner: Callable[[Replica, int, Replica], bool],
        leader: Replica,
        follower: int,
        replica: Replica,
    ) -> bool:
        """A leader of an epoch before the repair may receive a fetch from before it, and count on that."""
        return inner(leader, follower, replica) or leader.leader_epoch <= Withdrawn.of(replica).epoch

    def fetch_error(
        self,
        machine: ReplicationRules,
        inner: Callable[[Replica, int, FetchRequest], Error],
        leader: Replica,
        broker: int,
        request: FetchRequest,
    ) -> Error:
        """A replica that is withdrawn serves nobody."""
        return Error.KAFKA_STORAGE_ERROR if is_withdrawn(leader) else inner(leader, broker, request)

    def metadata_applied(
        self,
        machine: ReplicationRules,
        inner: Callable[[State, int, Replica, PartitionMetadata], State],
        state: State,
        broker: int,
        replica: Replica,
        metadata: PartitionMetadata,
    ) -> State:
        """Who is withdrawn follows nobody before it is repaired; as the last one in sync, or without a leader, it goes
        by the rules of `damage` again.
        """
        is_taken = broker not in (ReplicaList.of(metadata).replicas or (broker,))
        if not is_withdrawn(replica) or is_taken or has_failed(replica):
            return inner(state, broker, replica, metadata)
        if metadata.leader not in (NONE, broker) or not self.may_return(machine, replica, broker, metadata):
            return state.with_replica(broker, replica)
        met = Withdrawn.of(replica)
        hosted = with_part(with_part(replica, Withdrawn(epoch=met.epoch)), Damaged(met.start))
        return inner(state, broker, hosted, metadata)

    def survivor(
        self, machine: ReplicationRules, inner: Callable[[Replica, int], Replica], replica: Replica, kept: int
    ) -> Replica:
        """Damage outlives a process."""
        start = Withdrawn.of(replica).start
        left = inner(replica, kept)
        return with_part(left, Damaged(start)) if NONE < start < kept else left

    def stopped(self, machine: ReplicationRules, inner: Callable[[Replica], Replica], replica: Replica) -> Replica:
        """The next process finds the damage."""
        left = inner(replica)
        return with_part(left, CleanStop()) if is_withdrawn(replica) else left


def withdrawn_takes_no_part(state: State) -> bool:
    """A withdrawn replica neither leads nor follows."""
    return not any(is_withdrawn(replica) and (replica.leader != NONE or replica.remote) for replica in state.replicas)


def repaired_is_counted_on_by_nobody(before: State, action: Action, after: State) -> bool:
    """When a log is cut its replica is neither in sync nor eligible, and no fetch of the present epoch says otherwise.

    The controller's word counts, not what the broker knows of it. It may have elected the replica uncleanly since: what
    that costs is settled when the replica takes over.
    """
    if not isinstance(action, RepairWhileRunning) or after.history.unsettled:
        return True
    controller, cut = after.controller, after.replicas[action.broker]
    fetches = (request for request in after.network.fetches if request.follower == action.broker)
    return action.broker not in (*controller.isr, *controller.elr) and not any(
        request.leader_epoch >= controller.leader_epoch and request.offset > cut.log_end_offset for request in fetches
    )


def has_nothing_to_read(replica: Replica) -> bool:
    """As in `lost_logs`; of a withdrawn replica nothing can be read from the damage on."""
    return is_bare(replica) or log_start_of(replica) == Withdrawn.of(replica).start


def monotone_but_for_repairs(before: State, action: Action, after: State) -> bool:
    """As in `damage`, but for a repair, which begins the following in a new leader epoch."""
    return isinstance(action, RepairWhileRunning) or high_watermark_monotone(before, action, after)
