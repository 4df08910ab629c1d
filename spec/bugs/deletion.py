"""Topics that are deleted and created again, with one rule wrong each, and the small model in which it shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar, Final, Self

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.kernel.parts import with_part
from tidegauge.spec.replication.extensions.deletion import (
    Deleted,
    DeleteTopic,
    Deletion,
    FetchOfFormer,
    ProposalOfFormer,
    is_deleted,
)
from tidegauge.spec.replication.extensions.reassignment import Reassignment
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.rules import ReplicationRules
from tidegauge.spec.replication.state import (
    AlterPartitionRequest,
    Controller,
    Error,
    FetchRequest,
    Log,
    PartitionMetadata,
    Replica,
    State,
)


@attrs.frozen
class LogByName(Deletion):
    """A log is its partition's by the name of its directory."""

    def taken_over(self, former: Log) -> Log:
        return former


@attrs.frozen
class TakesFetchByName(FetchOfFormer):
    """A fetch names the topic's name alone."""

    @classmethod
    def candidates(cls, machine: ReplicationRules, state: State) -> Iterable[Self]:
        return cls.attempts(machine, state)


@attrs.frozen
class FetchByName(Deletion):
    """A leader takes the fetch of a former follower for one of its own."""

    action_types: ClassVar[tuple[type[Action], ...]] = (DeleteTopic, TakesFetchByName)

    def former_fetch_error(self, machine: ReplicationRules, leader: Replica, request: FetchRequest) -> Error:
        return machine.fetch_error(leader, request.leader, request)


@attrs.frozen
class TakesProposalByName(ProposalOfFormer):
    """A proposal names the topic's name alone."""

    @classmethod
    def candidates(cls, machine: ReplicationRules, state: State) -> Iterable[Self]:
        return cls.attempts(machine, state)


@attrs.frozen
class ProposalByName(Deletion):
    """The controller takes the proposal of a former leader for one of the new topic's."""

    action_types: ClassVar[tuple[type[Action], ...]] = (DeleteTopic, TakesProposalByName)

    def former_proposal_error(
        self, machine: ReplicationRules, controller: Controller, request: AlterPartitionRequest
    ) -> Error:
        return machine.alter_partition_error(controller, request)


@attrs.frozen
class KeepsItsLog(Deletion):
    """A broker that learns of a deletion stops leading, and keeps the log."""

    def metadata_applied(
        self,
        machine: ReplicationRules,
        inner: Callable[[State, int, Replica, PartitionMetadata], State],
        state: State,
        broker: int,
        replica: Replica,
        metadata: PartitionMetadata,
    ) -> State:
        after = super().metadata_applied(machine, inner, state, broker, replica, metadata)
        if not is_deleted(metadata):
            return after
        return after.with_replica(broker, evolve(after.replicas[broker], log=replica.log, flushed=replica.flushed))


@attrs.frozen
class StaysLed(Deletion):
    """A deletion is noted, and the partition stays as it was."""

    def deleted(self, machine: ReplicationRules, controller: Controller) -> Controller:
        return with_part(controller, Deleted(is_deleted=True))


@attrs.frozen
class StillMoves(Deletion):
    """A deleted partition may be given replicas."""

    def settled(
        self,
        machine: ReplicationRules,
        inner: Callable[[Controller, Controller], tuple[Controller, bool]],
        old: Controller,
        new: Controller,
    ) -> tuple[Controller, bool]:
        return inner(old, new)


_DELETED: Final = Replication(
    brokers=2,
    max_records=1,
    bounds=Bounds(DeleteTopic=1),
    extensions=(Reassignment(), Deletion()),
)
_FORMER: Final = Replication(
    brokers=2,
    max_records=2,
    bounds=Bounds(),
    extensions=(Reassignment(), Deletion(former=(0, 1))),
)
_BEHIND: Final = evolve(_FORMER, initial_isr=(0,))

BUGS: Final = (
    Bug(
        name="log_by_name",
        title="a new topic begins with the records of a deleted one",
        reference="KIP-516",
        mechanism="A broker slept through a deletion and a creation; it takes the log that it has for the new topic's.",
        violates=("NothingOfTheFormerTopic",),
        buggy=LogByName,
        model=_FORMER,
    ),
    Bug(
        name="fetch_by_name",
        title="a follower of a deleted topic counts for the new one",
        reference="KIP-516",
        mechanism="Its fetch says how much it has of the former topic, and the leader takes that for its own records.",
        violates=("WeakIsr", "StrongIsr", "LeaderCandidateCompleteness", "NoCommittedRecordLost"),
        buggy=FetchByName,
        model=_FORMER,
    ),
    Bug(
        name="proposal_by_name",
        title="a leader of a deleted topic changes the ISR of the new one",
        reference="KIP-516, KIP-841",
        mechanism="Both topics' epochs begin at 0, so the proposal of the former leader has the right ones.",
        violates=("ReplicationQuorumSuperset", "LeaderCandidateCompleteness", "StrongIsr"),
        buggy=ProposalByName,
        model=_BEHIND,
    ),
    Bug(
        name="keeps_its_log",
        title="a deleted topic's log stays on the disk",
        reference="KIP-516",
        mechanism="A broker that learns of the deletion leads no more; its log is there for the next of the name.",
        violates=("DeletedLeavesNoLog",),
        buggy=KeepsItsLog,
        model=_DELETED,
    ),
    Bug(
        name="stays_led",
        title="a deleted topic is still led",
        reference="KIP-516",
        mechanism="The deletion leaves leader, ISR and replicas in place: elections go on, and writes are taken.",
        violates=("DeletedIsNobodys",),
        buggy=StaysLed,
        model=_DELETED,
    ),
    Bug(
        name="still_moves",
        title="a reassignment brings a deleted topic back",
        reference="KIP-455, KIP-516",
        mechanism="The controller gives a deleted partition replicas, and the first that is live leads it.",
        violates=("DeletedForGood",),
        buggy=StillMoves,
        model=evolve(_DELETED, bounds=Bounds(DeleteTopic=1, StartReassignment=1)),
    ),
)
"""Each overrides a rule of `Deletion`."""
