"""A topic that is deleted, and one that was deleted before and had the same name (KIP-516).

Theory of operation
-------------------
A topic is known by its id; its name may be another topic's later. The partition of this machine is of one id. The
controller *deletes* it: from then on it has no replicas, nobody leads it, and no proposal for it is written. Brokers
learn that late, as they learn everything. Until then a leader leads on, and takes records that nobody will miss. A
broker that learns it deletes its replica.

Before this topic there may have been a *former* one of its name. A broker that slept through the deletion and the
creation still has the former log when it reads of the new topic: it deletes that one and starts empty (`taken_over`).
Leader epochs and partition epochs of both begin at 0, so no epoch tells their messages apart. Each message therefore
names the topic's id: the fetch of a former follower (`FetchOfFormer`) and the proposal of a former leader
(`ProposalOfFormer`) are refused with UNKNOWN_TOPIC_ID, whatever else they say.

Of a name that many topics have had, each id is one behaviour of this machine; they share brokers and nothing else.

The extension adds to controller, metadata and replicas that the topic is deleted, and to a replica the former log that
its broker has yet to delete. It requires `Reassignment`: a deleted partition is one whose replica list is empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar, Self

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.extension import Extension
from tidegauge.spec.kernel.guarded import AttemptedAction, Refusal
from tidegauge.spec.kernel.machine import Action, Invariant, StepInvariant
from tidegauge.spec.kernel.parts import Part, Parts, updated, with_part
from tidegauge.spec.replication.actions import ReplicationAction, fetched
from tidegauge.spec.replication.control import committed
from tidegauge.spec.replication.extension import ReplicationExtension
from tidegauge.spec.replication.extensions.reassignment import (
    Reassignment,
    replicas_change_by_reassignment,
)
from tidegauge.spec.replication.rules import ReplicationRules, not_acting
from tidegauge.spec.replication.state import (
    NONE,
    Acks,
    AlterPartitionRequest,
    Controller,
    ControllerPart,
    Error,
    FetchRequest,
    Log,
    PartitionMetadata,
    Record,
    Replica,
    State,
)

# --- state -----------------------------------------------------------------------------------------------------------


@attrs.frozen
class Deleted(ControllerPart):
    """Of the controller, of metadata, and of the replica of a broker that has applied them: the topic is deleted."""

    is_deleted: bool = False


@attrs.frozen
class FormerLog(Part):
    """Of a replica: what its broker still has of the former topic of this name."""

    log: Log = ()


def is_deleted(known: Controller | PartitionMetadata | Replica) -> bool:
    return Deleted.of(known).is_deleted


# --- actions ---------------------------------------------------------------------------------------------------------


@attrs.frozen
class DeleteTopic(ReplicationAction):
    """A client has the topic deleted."""

    bounded_as: ClassVar[str] = "DeleteTopic"

    @classmethod
    def candidates(cls, machine: ReplicationRules, state: State) -> Iterable[Self]:
        return (cls(),)

    def guard(self, machine: ReplicationRules, state: State) -> str:
        if is_deleted(state.controller):
            return Refusal("there is no such topic", Error.UNKNOWN_TOPIC_OR_PARTITION)
        return "" if machine.may_perturb(state, self.bounded_as) else "no topic is deleted in this model"

    def effect(self, machine: ReplicationRules, state: State) -> State:
        controller = Deletion.of(machine).deleted(machine, state.controller)
        return committed(state.spend(self.bounded_as), controller)


@attrs.frozen
class FetchOfFormer(AttemptedAction[ReplicationRules, State], ReplicationAction):
    """A broker that still follows the former topic fetches, at who leads the new one: it is refused in every state."""

    fair: ClassVar[bool] = False

    request: FetchRequest

    @classmethod
    def attempts(cls, machine: ReplicationRules, state: State) -> Iterable[Self]:
        """All that a former follower has counts as known, if anybody believes it."""
        for follower, replica in enumerate(state.replicas):
            if former := FormerLog.of(replica).log:
                for leader, other in enumerate(state.replicas):
                    if leader != follower and other.leader == leader:
                        epochs = other.leader_epoch, len(former), former[-1].epoch, replica.broker_epoch
                        yield cls(FetchRequest(follower, leader, *epochs))

    def guard(self, machine: ReplicationRules, state: State) -> str:
        if reason := not_acting(state, self.request.leader):
            return reason
        error = Deletion.of(machine).former_fetch_error(machine, state.replicas[self.request.leader], self.request)
        return Refusal("the fetch is for the former topic", error) if error else ""

    def effect(self, machine: ReplicationRules, state: State) -> State:
        """The response is for another topic than its follower's next one, and so for nobody."""
        return fetched(machine, state, self.request, 1)[0]


@attrs.frozen
class ProposalOfFormer(AttemptedAction[ReplicationRules, State], ReplicationAction):
    """A broker that still leads the former topic proposes an ISR: it is refused in every state."""

    fair: ClassVar[bool] = False

    request: AlterPartitionRequest

    @classmethod
    def attempts(cls, machine: ReplicationRules, state: State) -> Iterable[Self]:
        """With the epochs that the new topic has, and everybody in sync."""
        controller = state.controller
        everybody = tuple((broker, session.broker_epoch) for broker, session in enumerate(controller.sessions))
        epochs = controller.leader_epoch, controller.partition_epoch
        for leader in Deletion.of(machine).former:
            yield cls(AlterPartitionRequest(leader, everybody[leader][1], *epochs, everybody))

    def guard(self, machine: ReplicationRules, state: State) -> str:
        error = Deletion.of(machine).former_proposal_error(machine, state.controller, self.request)
        return Refusal("the proposal is for the former topic", error) if error else ""

    def effect(self, machine: ReplicationRules, state: State) -> State:
        proposed = machine.with_isr(state.controller, tuple(broker for broker, _ in self.request.isr))
        controller, unclean = machine.settled(state.controller, proposed)
        return committed(state, controller, unclean=unclean)


# --- the extension ---------------------------------------------------------------------------------------------------


@attrs.frozen
class Deletion(ReplicationExtension):
    """A topic that may be deleted; the brokers in `former` have a log of a topic that was, and do not know yet."""

    requires: ClassVar[tuple[type[Extension], ...]] = (Reassignment,)
    action_types: ClassVar[tuple[type[Action], ...]] = (DeleteTopic,)
    refused_types: ClassVar[tuple[type[Action], ...]] = (FetchOfFormer, ProposalOfFormer)
    part_types: ClassVar[tuple[type[Part], ...]] = (Deleted, FormerLog)

    former: tuple[int, ...] = ()
    former_records: int = 1
    """How many records the former topic's logs have: the first values that there are."""

    def initial(self, machine: ReplicationRules, state: State) -> State:
        """Who has a former log has not read of the new topic. Its records were acknowledged, as the former's."""
        if not self.former:
            return state
        log = tuple(Record(0, value) for value in range(self.former_records))
        replicas = tuple(
            with_part(Replica(broker_epoch=replica.broker_epoch), FormerLog(log)) if broker in self.former else replica
            for broker, replica in enumerate(state.replicas)
        )
        history = evolve(state.history, acks=(Acks.ALL,) * len(log))
        return evolve(state, replicas=replicas, history=history)

    @property
    def invariants(self) -> Mapping[str, Invariant[State]]:
        def nothing_of_the_former(state: State) -> bool:
            """No log of this topic has a record of the former one."""
            first = self.former_records if self.former else 0
            return all(record.value >= first for replica in state.replicas for record in replica.log)

        return {
            "NothingOfTheFormerTopic": nothing_of_the_former,
            "DeletedIsNobodys": deleted_is_nobodys,
            "DeletedLeavesNoLog": deleted_leaves_no_log,
        }

    def step_invariants(self, machine: ReplicationRules) -> Mapping[str, StepInvariant[State]]:
        return {"ReplicasChangeByReassignment": replicas_change_by_request, "DeletedForGood": deleted_for_good}

    def goals(self, machine: ReplicationRules) -> Mapping[str, Invariant[State]]:
        found: dict[str, Invariant[State]] = {}
        if self.former:
            found["a record is committed while a broker still has the former log"] = lambda s: (
                bool(s.history.committed) and any(FormerLog.of(replica).log for replica in s.replicas)
            )
        if machine.bounds["DeleteTopic"]:
            found["a broker leads a deleted topic, and does not know it"] = lambda s: (
                is_deleted(s.controller) and any(replica.leader == b for b, replica in enumerate(s.replicas))
            )
            found["a log is deleted with its topic"] = lambda s: (
                bool(s.history.committed) and any(is_deleted(replica) for replica in s.replicas)
            )
        return found

    def converges(self, machine: ReplicationRules) -> Mapping[str, Invariant[State]]:
        return {
            "a deleted topic leaves no log behind": lambda s: (
                not is_deleted(s.controller) or not any(replica.log for replica in s.replicas if replica.running)
            ),
            "no log of a former topic is left": lambda s: (
                not any(FormerLog.of(replica).log for replica in s.replicas if replica.running)
            ),
        }

    # --- rules -------------------------------------------------------------------------------------------------------

    def deleted(self, machine: ReplicationRules, controller: Controller) -> Controller:
        """No replicas, and so nobody in sync, nobody eligible, no leader."""
        gone = Reassignment.of(machine).only_on(controller, ())
        return with_part(evolve(gone, leader=NONE), Deleted(is_deleted=True))

    def taken_over(self, former: Log) -> Log:
        """What of a former log counts for the new topic of its name: nothing."""
        return ()

    def former_fetch_error(self, machine: ReplicationRules, leader: Replica, request: FetchRequest) -> Error:
        """A fetch names the id of its topic."""
        return Error.UNKNOWN_TOPIC_ID

    def former_proposal_error(
        self, machine: ReplicationRules, controller: Controller, request: AlterPartitionRequest
    ) -> Error:
        """A proposal names the id of its topic."""
        return Error.UNKNOWN_TOPIC_ID

    def metadata(
        self, machine: ReplicationRules, inner: Callable[[Controller], PartitionMetadata], controller: Controller
    ) -> PartitionMetadata:
        found = inner(controller)
        return with_part(found, Deleted.of(controller)) if is_deleted(controller) else found

    def parts_with_metadata(
        self,
        machine: ReplicationRules,
        inner: Callable[[Parts, PartitionMetadata], Parts],
        parts: Parts,
        metadata: PartitionMetadata,
    ) -> Parts:
        found = inner(parts, metadata)
        return updated(found, Deleted.of(metadata)) if is_deleted(metadata) else found

    def metadata_applied(
        self,
        machine: ReplicationRules,
        inner: Callable[[State, int, Replica, PartitionMetadata], State],
        state: State,
        broker: int,
        replica: Replica,
        metadata: PartitionMetadata,
    ) -> State:
        """What a former topic has left goes before the new one counts."""
        if former := FormerLog.of(replica).log:
            log = self.taken_over(former)
            replica = with_part(evolve(replica, log=log, flushed=len(log)), FormerLog())
        return inner(state, broker, replica, metadata)

    def survivor(
        self, machine: ReplicationRules, inner: Callable[[Replica, int], Replica], replica: Replica, kept: int
    ) -> Replica:
        """A former log is on the disk like any other."""
        former = FormerLog.of(replica)
        return with_part(inner(replica, kept), former) if former.log else inner(replica, kept)

    def fetch_error(
        self,
        machine: ReplicationRules,
        inner: Callable[[Replica, int, FetchRequest], Error],
        leader: Replica,
        broker: int,
        request: FetchRequest,
    ) -> Error:
        """A broker that has the former topic, or has deleted this one, does not know the id."""
        if is_deleted(leader) or FormerLog.of(leader).log:
            return Error.UNKNOWN_TOPIC_ID
        return inner(leader, broker, request)

    def settled(
        self,
        machine: ReplicationRules,
        inner: Callable[[Controller, Controller], tuple[Controller, bool]],
        old: Controller,
        new: Controller,
    ) -> tuple[Controller, bool]:
        """Whatever is asked of a deleted partition, it stays as it is."""
        return (old, False) if is_deleted(old) else inner(old, new)

    def alter_partition_error(
        self,
        machine: ReplicationRules,
        inner: Callable[[Controller, AlterPartitionRequest], Error],
        controller: Controller,
        request: AlterPartitionRequest,
    ) -> Error:
        return Error.UNKNOWN_TOPIC_ID if is_deleted(controller) else inner(controller, request)


# --- invariants ----------------------------------------------------------------------------------------------------


def deleted_is_nobodys(state: State) -> bool:
    """A deleted partition has nobody in sync, nobody eligible, and no leader."""
    controller = state.controller
    return not is_deleted(controller) or (controller.leader, controller.isr, controller.elr) == (NONE, (), ())


def deleted_leaves_no_log(state: State) -> bool:
    """A broker that knows of the deletion has no log of the topic."""
    return not any(replica.log for replica in state.replicas if is_deleted(replica))


def replicas_change_by_request(before: State, action: Action, after: State) -> bool:
    """As in `Reassignment`, but for a deletion."""
    return isinstance(action, DeleteTopic) or replicas_change_by_reassignment(before, action, after)


def deleted_for_good(before: State, action: Action, after: State) -> bool:
    """No topic comes back under its id: the controller changes nothing of it any more."""
    if not is_deleted(before.controller):
        return True
    return before.controller.registration == after.controller.registration
