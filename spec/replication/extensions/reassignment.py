"""Reassignment: the replicas of a partition move to other brokers while it is written to (KIP-455).

Theory of operation
-------------------
The controller never swaps one replica list for another. It first *grows* the list to both: the target, then those
that are to go (`removing`); who is new to it is `adding`. The added replicas fetch like any follower, and the leader
proposes them for the ISR once they have caught up. With the change that brings the last replica of the target into the
ISR the controller *completes*: the list is the target, the removed ones leave the ISR, and if the leader is one of them
another member leads. Until then nothing has been given up, so a reassignment may be cancelled: the added replicas go
again, unless no other is left that is known to have every committed record.

Whenever a replica leaves the list a leader epoch begins, though the leader may stay. A broker deletes a replica that it
has lost, with its log and its checkpoint; if it gets the partition back it starts empty. A fetch of the deleted replica
that is still on its way says that it has records which are gone: the leader of a later epoch refuses it, and that of
the earlier one can change nothing any more.

The extension adds the replica list to the controller, to metadata and to replicas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import permutations
from typing import ClassVar, Final, Self

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.guarded import Refusal
from tidegauge.spec.kernel.machine import Action, Invariant, LeadsTo, StepInvariant
from tidegauge.spec.kernel.parts import Part, Parts, updated, with_part
from tidegauge.spec.replication import properties as replication_properties
from tidegauge.spec.replication.actions import ReplicationAction
from tidegauge.spec.replication.control import NO_REPLICAS, committed, with_metadata
from tidegauge.spec.replication.convergence import acting_leader, living
from tidegauge.spec.replication.extension import ReplicationExtension
from tidegauge.spec.replication.extensions.shutdown import is_shutting_down
from tidegauge.spec.replication.rules import ReplicationRules
from tidegauge.spec.replication.state import (
    NONE,
    AlterPartitionRequest,
    BrokerId,
    Controller,
    ControllerPart,
    Error,
    FetchRequest,
    PartitionMetadata,
    Replica,
    State,
)

# --- state -----------------------------------------------------------------------------------------------------------


@attrs.frozen
class Assignment(ControllerPart):
    """Of the controller: the replica list, in order of preference, and what of it is to come and to go."""

    replicas: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def moves(self) -> bool:
        """Whether a reassignment is under way."""
        return bool(self.adding or self.removing)

    def only_on(self, replicas: tuple[int, ...]) -> Assignment:
        return Assignment(replicas)


@attrs.frozen
class ReplicaList(Part):
    """Of metadata, and of the replica of a broker that has applied them; () before it has applied any."""

    replicas: tuple[int, ...] = ()


def assigned(controller: Controller) -> tuple[int, ...]:
    """The replica list."""
    return Assignment.of(controller).replicas


def listed(replica: Replica) -> tuple[int, ...]:
    """The replica list that a broker knows."""
    return ReplicaList.of(replica).replicas


NOT_MOVING: Final = Refusal("no reassignment is under way", Error.NO_REASSIGNMENT_IN_PROGRESS)
ONLY_ADDED_LEFT: Final = Refusal(
    "only added replicas are known to have every committed record", Error.INVALID_REPLICA_ASSIGNMENT
)

# --- actions ---------------------------------------------------------------------------------------------------------


@attrs.frozen
class StartReassignment(ReplicationAction):
    """The partition is to move to these replicas, the preferred leader first; it replaces a move that is under way."""

    bounded_as: ClassVar[str] = "StartReassignment"

    target: tuple[BrokerId, ...]

    @classmethod
    def candidates(cls, machine: ReplicationRules, state: State) -> Iterable[Self]:
        return [cls(target) for target in Reassignment.of(machine).target_lists(machine)]

    @classmethod
    def attempts(cls, machine: ReplicationRules, state: State) -> Iterable[Self]:
        """No broker, one twice, and one that does not exist."""
        return [cls(target) for target in ((), (0, 0), (0, machine.brokers))]

    def guard(self, machine: ReplicationRules, state: State) -> str:
        if not machine.may_perturb(state, self.bounded_as):
            return "no more reassignments in this model"
        if not self.target or len(set(self.target)) < len(self.target) or max(self.target) >= machine.brokers:
            wrong = Refusal(f"{self.target} does not name brokers, each once", Error.INVALID_REPLICA_ASSIGNMENT)
            return wrong if assigned(state.controller) else NO_REPLICAS
        assignment = Assignment.of(state.controller)
        if self.target == assignment.replicas and not assignment.moves:
            return f"the partition is on {self.target}"
        return ""

    def effect(self, machine: ReplicationRules, state: State) -> State:
        reassignment = Reassignment.of(machine)
        controller = reassignment.completed(machine, reassignment.reassigned(state.controller, self.target))
        controller, unclean = machine.settled(state.controller, controller)
        return committed(state.spend(self.bounded_as), controller, unclean=unclean)


@attrs.frozen
class CancelReassignment(ReplicationAction):
    """The replicas that were being added go again."""

    fair: ClassVar[bool] = False

    @classmethod
    def candidates(cls, machine: ReplicationRules, state: State) -> Iterable[Self]:
        return (cls(),)

    def guard(self, machine: ReplicationRules, state: State) -> str:
        if not Assignment.of(state.controller).moves:
            return NOT_MOVING if assigned(state.controller) else NO_REPLICAS
        if not Reassignment.of(machine).may_cancel(machine, state.controller):
            return ONLY_ADDED_LEFT
        return ""

    def effect(self, machine: ReplicationRules, state: State) -> State:
        cancelled = Reassignment.of(machine).cancelled(machine, state.controller)
        controller, unclean = machine.settled(state.controller, cancelled)
        return committed(state, controller, unclean=unclean)


# --- the extension ---------------------------------------------------------------------------------------------------


@attrs.frozen
class Reassignment(ReplicationExtension):
    """A replica list that changes; `targets` are those that may be asked for, () is every list."""

    action_types: ClassVar[tuple[type[Action], ...]] = (StartReassignment, CancelReassignment)
    part_types: ClassVar[tuple[type[Part], ...]] = (Assignment, ReplicaList)
    orders_brokers: ClassVar[bool] = True

    initial_replicas: tuple[int, ...] = (0, 1)
    targets: tuple[tuple[int, ...], ...] = ()

    def in_sync_at_first(
        self, machine: ReplicationRules, inner: Callable[[], tuple[tuple[int, ...], int]]
    ) -> tuple[tuple[int, ...], int]:
        """Only `initial_replicas`. Raises ValueError for a list that no partition has."""
        first = self.initial_replicas
        if not first or len(set(first)) < len(first) or not set(first) <= set(range(machine.brokers)):
            raise ValueError(f"initial_replicas={first} must name brokers from 0 to {machine.brokers - 1}, each once")
        isr = machine.initial_isr or tuple(sorted(first))
        return isr, machine.initial_leader if machine.initial_leader in isr else isr[0]

    def initial(self, machine: ReplicationRules, state: State) -> State:
        first = self.initial_replicas
        controller = with_part(state.controller, Assignment(first))
        replicas = tuple(
            with_part(replica, ReplicaList(first))
            if broker in first
            else self.deleted(machine, replica, machine.metadata(controller))
            for broker, replica in enumerate(state.replicas)
        )
        return evolve(state, replicas=replicas, controller=controller)

    @property
    def invariants(self) -> Mapping[str, Invariant[State]]:
        return INVARIANTS

    def step_invariants(self, machine: ReplicationRules) -> Mapping[str, StepInvariant[State]]:
        return STEP_INVARIANTS

    def goals(self, machine: ReplicationRules) -> Mapping[str, Invariant[State]]:
        return goals(machine, self)

    def converges(self, machine: ReplicationRules) -> Mapping[str, Invariant[State]]:
        return {"a reassignment to live replicas ends": reassignment_ends(machine)}

    def leads_to(self, machine: ReplicationRules) -> Mapping[str, LeadsTo[State]]:
        return {"a reassignment that is under way comes to its end": LeadsTo.again(reassignment_ends(machine))}

    def explain(self, state: State) -> Mapping[str, object]:
        now = Assignment.of(state.controller)
        return {"replicas": f"{list(now.replicas)}, adding {list(now.adding)}, removing {list(now.removing)}"}

    def target_lists(self, machine: ReplicationRules) -> Iterable[tuple[int, ...]]:
        """The replica lists that may be asked for."""
        if self.targets:
            return self.targets
        sizes = range(max(1, machine.min_insync_replicas), machine.brokers + 1)
        return [target for size in sizes for target in permutations(range(machine.brokers), size)]

    # --- rules of the broker -----------------------------------------------------------------------------------------

    def replica_count(
        self, machine: ReplicationRules, inner: Callable[[Replica | Controller], int], known: Replica | Controller
    ) -> int:
        replicas = assigned(known) if isinstance(known, Controller) else listed(known)
        return len(replicas) or inner(known)

    def parts_with_metadata(
        self,
        machine: ReplicationRules,
        inner: Callable[[Parts, PartitionMetadata], Parts],
        parts: Parts,
        metadata: PartitionMetadata,
    ) -> Parts:
        found, known = inner(parts, metadata), ReplicaList.of(metadata)
        return found if known in found else updated(found, known)

    def metadata_applied(
        self,
        machine: ReplicationRules,
        inner: Callable[[State, int, Replica, PartitionMetadata], State],
        state: State,
        broker: int,
        replica: Replica,
        metadata: PartitionMetadata,
    ) -> State:
        """A broker deletes a replica that is not in the list."""
        if broker not in ReplicaList.of(metadata).replicas:
            return state.with_replica(broker, self.deleted(machine, replica, metadata))
        return inner(state, broker, replica, metadata)

    def deleted(self, machine: ReplicationRules, replica: Replica, metadata: PartitionMetadata) -> Replica:
        """The log is gone, and the checkpoint with it; the broker has the metadata, and nothing else."""
        return with_metadata(machine, machine.taken_away(replica), metadata)

    def has_lost_since(
        self,
        machine: ReplicationRules,
        inner: Callable[[Replica, int, Replica], bool],
        leader: Replica,
        follower: int,
        replica: Replica,
    ) -> bool:
        """A leader may not know yet that a replica was taken away, and count on what it had."""
        is_gone = follower not in listed(replica) and leader.leader_epoch < replica.leader_epoch
        return is_gone or inner(leader, follower, replica)

    def fetch_error(
        self,
        machine: ReplicationRules,
        inner: Callable[[Replica, int, FetchRequest], Error],
        leader: Replica,
        broker: int,
        request: FetchRequest,
    ) -> Error:
        """Only a replica serves a fetch, and only a replica may fetch as one, as far as the leader knows."""
        replicas = listed(leader)
        if replicas and broker not in replicas:
            return Error.NOT_LEADER_OR_FOLLOWER
        error = inner(leader, broker, request)
        if not error and request.follower not in replicas:
            return Error.NOT_LEADER_OR_FOLLOWER
        return error

    # --- rules of the controller -------------------------------------------------------------------------------------

    def metadata(
        self, machine: ReplicationRules, inner: Callable[[Controller], PartitionMetadata], controller: Controller
    ) -> PartitionMetadata:
        return with_part(inner(controller), ReplicaList(assigned(controller)))

    def replica_order(
        self, machine: ReplicationRules, inner: Callable[[Controller], Sequence[int]], controller: Controller
    ) -> Sequence[int]:
        return assigned(controller)

    def alter_partition_error(
        self,
        machine: ReplicationRules,
        inner: Callable[[Controller, AlterPartitionRequest], Error],
        controller: Controller,
        request: AlterPartitionRequest,
    ) -> Error:
        """Only replicas are in sync."""
        error = inner(controller, request)
        are_replicas = {broker for broker, _ in request.isr} <= set(assigned(controller))
        return Error.INVALID_REQUEST if error in (Error.OK, Error.INELIGIBLE_REPLICA) and not are_replicas else error

    def with_isr(
        self,
        machine: ReplicationRules,
        inner: Callable[[Controller, tuple[int, ...]], Controller],
        controller: Controller,
        isr: tuple[int, ...],
    ) -> Controller:
        """An ISR that has all of the target completes the reassignment."""
        return self.completed(machine, inner(controller, isr))

    def settled(
        self,
        machine: ReplicationRules,
        inner: Callable[[Controller, Controller], tuple[Controller, bool]],
        old: Controller,
        new: Controller,
    ) -> tuple[Controller, bool]:
        """With a leader from its list; a replica that left the list is fenced by a new leader epoch."""
        new, unclean = inner(old, new)
        new, again = machine.with_leader(new)
        if self.fences_departed(old, new) and new.leader_epoch == old.leader_epoch:
            new = evolve(new, leader_epoch=old.leader_epoch + 1)
        return new, unclean or again

    def reassigned(self, controller: Controller, target: tuple[int, ...]) -> Controller:
        """The list grows to the target and what it replaces; who was being added still is, if the target wants it."""
        now = Assignment.of(controller)
        removing = tuple(sorted(set(now.replicas).difference(target)))
        adding = tuple(b for b in sorted(target) if b not in now.replicas or b in now.adding)
        return with_part(controller, Assignment((*target, *removing), adding, removing))

    def completed(self, machine: ReplicationRules, controller: Controller) -> Controller:
        """The reassignment is over once all of the target is in sync."""
        now = Assignment.of(controller)
        target = tuple(b for b in now.replicas if b not in now.removing)
        return self.only_on(controller, target) if now.moves and self.may_complete(controller, target) else controller

    def may_complete(self, controller: Controller, target: tuple[int, ...]) -> bool:
        """Every replica of the target is in the ISR."""
        return set(target) <= set(controller.isr)

    def cancelled(self, machine: ReplicationRules, controller: Controller) -> Controller:
        """The list without what was being added."""
        now = Assignment.of(controller)
        return self.only_on(controller, tuple(b for b in now.replicas if b not in now.adding))

    def may_cancel(self, machine: ReplicationRules, controller: Controller) -> bool:
        """A replica remains that is known to have every committed record, or the topic prefers availability."""
        remaining = {*controller.isr, *controller.elr}.difference(Assignment.of(controller).adding)
        return bool(remaining) or machine.elects_uncleanly(controller)

    def only_on(self, controller: Controller, replicas: tuple[int, ...]) -> Controller:
        """The partition on these replicas, with no others in its ISR, and no reassignment."""
        last_known = controller.last_known_leader
        parts: Parts = ()
        for part in controller.parts:
            parts = updated(parts, part.only_on(replicas) if isinstance(part, ControllerPart) else part)
        return evolve(
            controller,
            isr=tuple(b for b in controller.isr if b in replicas),
            elr=tuple(b for b in controller.elr if b in replicas),
            last_known_leader=last_known if last_known in replicas else NONE,
            parts=parts,
        )

    def fences_departed(self, old: Controller, new: Controller) -> bool:
        """Whether a replica has left the list."""
        return not set(assigned(old)) <= set(assigned(new))


# --- invariants ----------------------------------------------------------------------------------------------------


def leader_in_replicas(state: State) -> bool:
    """Who leads is a replica."""
    controller = state.controller
    return controller.leader == NONE or controller.leader in assigned(controller)


def isr_within_replicas(state: State) -> bool:
    """Only a replica is in sync, or eligible to lead."""
    controller = state.controller
    return {*controller.isr, *controller.elr} <= set(assigned(controller))


def adding_and_removing_are_replicas(state: State) -> bool:
    """Who is added and who is removed are replicas meanwhile, and nobody is both (KIP-455)."""
    now = Assignment.of(state.controller)
    adding, removing = set(now.adding), set(now.removing)
    return adding | removing <= set(now.replicas) and not adding & removing


def removed_replicas_are_empty(state: State) -> bool:
    """A broker that knows that it has no replica has no log either."""
    return all(
        not replica.log and replica.leader == NONE
        for broker, replica in enumerate(state.replicas)
        if (known := listed(replica)) and broker not in known
    )


INVARIANTS: Mapping[str, Invariant[State]] = {
    "LeaderInReplicas": leader_in_replicas,
    "IsrWithinReplicas": isr_within_replicas,
    "AddingAndRemovingAreReplicas": adding_and_removing_are_replicas,
    "RemovedReplicasAreEmpty": removed_replicas_are_empty,
}


def completes_in_sync(before: State, action: Action, after: State) -> bool:
    """A reassignment ends with all of its target in sync, unless it is cancelled.

    By the same decision those may leave the ISR that are about to stop.
    """
    old, new = Assignment.of(before.controller), Assignment.of(after.controller)
    shrunk = not set(old.replicas) <= set(new.replicas)
    ended = bool(old.adding) and not new.moves
    if isinstance(action, CancelReassignment) or not (shrunk or ended):
        return True
    missing = set(new.replicas).difference(after.controller.isr)
    return all(is_shutting_down(after.controller.sessions[broker]) for broker in missing)


def replicas_change_by_reassignment(before: State, action: Action, after: State) -> bool:
    """The list shrinks when a reassignment completes or is cancelled, and grows when one starts."""
    old, new = set(assigned(before.controller)), set(assigned(after.controller))
    if isinstance(action, StartReassignment | CancelReassignment) or old == new:
        return True
    return new == old.difference(Assignment.of(before.controller).removing)


STEP_INVARIANTS: Mapping[str, StepInvariant[State]] = {
    "CompletesInSync": completes_in_sync,
    "ReplicasChangeByReassignment": replicas_change_by_reassignment,
}


def goals(machine: ReplicationRules, reassignment: Reassignment) -> Mapping[str, Invariant[State]]:
    """What a search must have reached."""
    first = reassignment.initial_replicas
    began = frozenset(first)
    if not machine.bounds["StartReassignment"]:
        return {}
    wanted: dict[str, Invariant[State]] = {
        "a reassignment is under way": lambda s: bool(Assignment.of(s.controller).adding),
        "a reassignment is complete": lambda s: not began <= set(assigned(s.controller)),
    }
    if any(began.isdisjoint(target) for target in reassignment.target_lists(machine)):
        wanted["the former leader has deleted its replica"] = lambda s: (
            first[0] not in listed(s.replicas[first[0]]) and s.replicas[first[0]].leader_epoch != NONE
        )
        wanted["a record is committed on other brokers altogether"] = lambda s: any(
            replica.high_watermark and began.isdisjoint(replica.isr) for _, replica in replication_properties.leaders(s)
        )
    return wanted


def reassignment_ends(machine: ReplicationRules) -> Invariant[State]:
    """A replica that does not live, of the target or as the only leader, may hold it up."""

    def holds(state: State) -> bool:
        now = Assignment.of(state.controller)
        target = set(now.replicas).difference(now.removing)
        held_up = acting_leader(machine, state) is None or not target <= set(living(machine, state))
        return held_up or not now.moves

    return holds
