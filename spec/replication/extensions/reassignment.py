"""Reassignment: the replicas of a partition move to other brokers while it is written to (KIP-455).

Theory of operation
-------------------
The controller never swaps one replica list for another. It first *grows* the list to both: the target, then those
that are to go (`removing`); who is new to it is `adding`. The added replicas fetch like any follower, and the leader
proposes them for the ISR once they have caught up. With the change that brings the last replica of the target into the
ISR the controller *completes*: the list is the target, the removed ones leave the ISR, and if the leader is one of them
another member leads. Until then nothing has been given up, so a reassignment may be cancelled: the added replicas go
again, unless nobody else is left who is known to hold every committed record.

Whenever a replica leaves the list a leader epoch begins, though the leader may stay. A broker deletes a replica that it
has lost, with its log and its checkpoint; if it gets the partition back it starts empty. A fetch of its former life
that is still on its way says that it holds records which are gone: the leader of a later epoch refuses it, and that of
the earlier one can change nothing any more.

This is `Replication` with a replica list that changes. All its invariants hold, and those below.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import permutations
from typing import Any, ClassVar

import attrs

from tidegauge.spec.kernel.machine import Action, Invariant, StepInvariant
from tidegauge.spec.replication import properties as replication_properties
from tidegauge.spec.replication.actions import ReplicationAction
from tidegauge.spec.replication.extensions.reassignment_actions import CancelReassignment, StartReassignment
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.state import (
    NONE,
    AlterPartitionRequest,
    Controller,
    Error,
    FetchRequest,
    PartitionWord,
    Replica,
    State,
)


@attrs.frozen(slots=False)  # so that it can be composed with others
class Reassignment(Replication):
    """The replication machine with reassignments; `targets` are those that may be asked for, () is every list."""

    action_types: ClassVar[tuple[type[ReplicationAction], ...]] = (
        *Replication.action_types,
        StartReassignment,
        CancelReassignment,
    )

    initial_replicas: tuple[int, ...] = (0, 1)
    targets: tuple[tuple[int, ...], ...] = ()

    def initial(self) -> Iterable[State]:
        """As in `Replication`, on `initial_replicas` only. Raises ValueError if the constants fit none."""
        listed = self.initial_replicas
        if not listed or len(set(listed)) < len(listed) or not set(listed) <= set(range(self.brokers)):
            raise ValueError(f"initial_replicas={listed} must name brokers from 0 to {self.brokers - 1}, each once")
        isr = self.initial_isr or tuple(sorted(listed))
        lead = self.initial_leader if self.initial_leader in isr else isr[0]
        (state,) = super(Reassignment, attrs.evolve(self, initial_isr=isr, initial_leader=lead)).initial()
        controller = attrs.evolve(state.controller, replicas=listed)
        replicas = tuple(
            attrs.evolve(replica, replicas=listed) if broker in listed else self.deleted(replica, controller.word)
            for broker, replica in enumerate(state.replicas)
        )
        yield attrs.evolve(state, replicas=replicas, controller=controller)

    @property
    def invariants(self) -> Mapping[str, Invariant[State]]:
        return {**super().invariants, **INVARIANTS}

    @property
    def step_invariants(self) -> Mapping[str, StepInvariant[State]]:
        return {**super().step_invariants, **STEP_INVARIANTS}

    @property
    def sometimes(self) -> Mapping[str, Invariant[State]]:
        return {**super().sometimes, **goals(self)}

    def explain(self, invariant: str, state: State) -> Mapping[str, Any]:
        controller = state.controller
        shown = f"{list(controller.replicas)}, adding {list(controller.adding)}, removing {list(controller.removing)}"
        return {"replicas": shown, **super().explain(invariant, state)}

    def target_lists(self) -> Iterable[tuple[int, ...]]:
        """The replica lists that may be asked for."""
        if self.targets:
            return self.targets
        sizes = range(max(1, self.min_insync_replicas), self.brokers + 1)
        return [target for size in sizes for target in permutations(range(self.brokers), size)]

    # --- rules of the broker -----------------------------------------------------------------------------------

    def hosts(self, word: PartitionWord, broker: int) -> bool:
        return broker in word.replicas

    def deleted(self, replica: Replica, word: PartitionWord) -> Replica:
        """The log is gone, and the checkpoint with it; the broker remembers only what it was told."""
        return Replica(
            running=replica.running,
            paused=replica.paused,
            broker_epoch=replica.broker_epoch,
            controller_epoch=word.controller_epoch,
            leader_epoch=word.leader_epoch,
            partition_epoch=word.partition_epoch,
            replicas=word.replicas,
        )

    def fetch_error(self, leader: Replica, broker: int, request: FetchRequest) -> Error:
        """Only a replica answers, and only a replica may fetch as one, as far as the leader knows."""
        if leader.replicas and broker not in leader.replicas:
            return Error.NOT_LEADER_OR_FOLLOWER
        error = super().fetch_error(leader, broker, request)
        if not error and request.follower not in leader.replicas:
            return Error.NOT_LEADER_OR_FOLLOWER
        return error

    # --- rules of the controller -------------------------------------------------------------------------------

    def replica_order(self, controller: Controller) -> Sequence[int]:
        return controller.replicas

    def alter_partition_error(self, controller: Controller, request: AlterPartitionRequest) -> Error:
        """As before; and only replicas are in sync."""
        error = super().alter_partition_error(controller, request)
        listed = {broker for broker, _ in request.isr} <= set(controller.replicas)
        return Error.INVALID_REQUEST if error in (Error.OK, Error.INELIGIBLE_REPLICA) and not listed else error

    def with_isr(self, controller: Controller, isr: tuple[int, ...]) -> tuple[Controller, bool]:
        """An ISR that has all of the target completes the reassignment."""
        changed, _ = super().with_isr(controller, isr)
        return self.settled(controller, self.completed(changed))

    def reassigned(self, controller: Controller, target: tuple[int, ...]) -> Controller:
        """The list grows to the target and what it replaces; who was being added still is, if the target wants it."""
        listed = set(controller.replicas)
        removing = tuple(sorted(listed.difference(target)))
        adding = tuple(b for b in sorted(target) if b not in listed or b in controller.adding)
        return attrs.evolve(controller, replicas=(*target, *removing), adding=adding, removing=removing)

    def completed(self, controller: Controller) -> Controller:
        """The reassignment is over once all of the target is in sync."""
        if not controller.adding and not controller.removing:
            return controller
        target = tuple(b for b in controller.replicas if b not in controller.removing)
        if not self.may_complete(controller, target):
            return controller
        return self.only_on(controller, target)

    def may_complete(self, controller: Controller, target: tuple[int, ...]) -> bool:
        """Every replica of the target is in the ISR."""
        return set(target) <= set(controller.isr)

    def cancelled(self, controller: Controller) -> Controller:
        """The list without what was being added."""
        return self.only_on(controller, tuple(b for b in controller.replicas if b not in controller.adding))

    def may_cancel(self, controller: Controller) -> bool:
        """Somebody remains who is known to hold every committed record, or the topic prefers availability."""
        remaining = {*controller.isr, *controller.elr}.difference(controller.adding)
        return bool(remaining) or self.elects_uncleanly(controller)

    def only_on(self, controller: Controller, replicas: tuple[int, ...]) -> Controller:
        """The partition on these replicas, nobody else in its ISR, and no reassignment."""
        isr = tuple(b for b in controller.isr if b in replicas)
        last_known = controller.last_known_leader
        return attrs.evolve(
            controller,
            replicas=replicas,
            isr=isr,
            elr=tuple(b for b in controller.elr if b in replicas),
            last_known_leader=last_known if last_known in replicas else NONE,
            adding=(),
            removing=(),
        )

    def settled(self, old: Controller, new: Controller) -> tuple[Controller, bool]:
        """With a leader from its list; a replica that left the list is fenced by a new leader epoch."""
        new, unclean = self.with_leader(new)
        if self.fences_departed(old, new) and new.leader_epoch == old.leader_epoch:
            new = attrs.evolve(new, leader_epoch=old.leader_epoch + 1)
        return new, unclean

    def fences_departed(self, old: Controller, new: Controller) -> bool:
        """Whether a replica has left the list."""
        return not set(old.replicas) <= set(new.replicas)


# --- invariants ----------------------------------------------------------------------------------------------------


def leader_in_replicas(state: State) -> bool:
    controller = state.controller
    return controller.leader == NONE or controller.leader in controller.replicas


def isr_within_replicas(state: State) -> bool:
    """Nobody is in sync, or eligible to lead, that is no replica."""
    controller = state.controller
    return {*controller.isr, *controller.elr} <= set(controller.replicas)


def adding_and_removing_are_replicas(state: State) -> bool:
    controller = state.controller
    adding, removing = set(controller.adding), set(controller.removing)
    return adding | removing <= set(controller.replicas) and not adding & removing


def removed_replicas_are_empty(state: State) -> bool:
    """A broker that knows that it has no replica has no log either."""
    return all(
        not replica.log and replica.leader == NONE
        for broker, replica in enumerate(state.replicas)
        if replica.replicas and broker not in replica.replicas
    )


INVARIANTS: Mapping[str, Invariant[State]] = {
    "LeaderInReplicas": leader_in_replicas,
    "IsrWithinReplicas": isr_within_replicas,
    "AddingAndRemovingAreReplicas": adding_and_removing_are_replicas,
    "RemovedReplicasAreEmpty": removed_replicas_are_empty,
}


def completes_in_sync(before: State, action: Action, after: State) -> bool:
    """A reassignment ends with all of its target in sync, unless it is cancelled."""
    old, new = before.controller, after.controller
    shrunk = not set(old.replicas) <= set(new.replicas)
    ended = bool(old.adding) and not new.adding and not new.removing
    if isinstance(action, CancelReassignment) or not (shrunk or ended):
        return True
    return set(new.replicas) <= set(new.isr)


def replicas_change_by_reassignment(before: State, action: Action, after: State) -> bool:
    """The list shrinks when a reassignment completes or is cancelled, and grows when one starts."""
    old, new = set(before.controller.replicas), set(after.controller.replicas)
    if isinstance(action, StartReassignment | CancelReassignment) or old == new:
        return True
    return new == old.difference(before.controller.removing)


STEP_INVARIANTS: Mapping[str, StepInvariant[State]] = {
    "CompletesInSync": completes_in_sync,
    "ReplicasChangeByReassignment": replicas_change_by_reassignment,
}


def goals(machine: Reassignment) -> Mapping[str, Invariant[State]]:
    """What a search must have reached."""
    began = frozenset(machine.initial_replicas)
    if not machine.bounds.reassignments:
        return {}
    wanted: dict[str, Invariant[State]] = {
        "a reassignment is under way": lambda s: bool(s.controller.adding),
        "a reassignment is complete": lambda s: not s.controller.adding and not began <= set(s.controller.replicas),
    }
    if any(began.isdisjoint(target) for target in machine.target_lists()):
        wanted["the former leader has deleted its replica"] = lambda s: (
            s.replicas[machine.initial_replicas[0]].leader == NONE
            and machine.initial_replicas[0] not in s.replicas[machine.initial_replicas[0]].replicas
            and s.replicas[machine.initial_replicas[0]].leader_epoch > 0
        )
        wanted["a record is committed on other brokers altogether"] = lambda s: any(
            replica.high_watermark and began.isdisjoint(replica.isr) for _, replica in replication_properties.leaders(s)
        )
    return wanted
