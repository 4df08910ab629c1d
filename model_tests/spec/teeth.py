"""Wrong rules for properties that no bug of the zoo and no other table of mutants makes false, one for each.

A property that no wrong rule can make false says nothing. `test_teeth` holds that there is one for every property of
every machine: here, in the zoo, or in the tables of the machine's own tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import attrs

from tidegauge.model_tests.spec.published import wrong_quorums
from tidegauge.model_tests.spec.rule_mutant import RuleMutant
from tidegauge.spec.administration.machine import Administration
from tidegauge.spec.administration.replicas import JoinIsr
from tidegauge.spec.administration.state import NONE as NOBODY
from tidegauge.spec.administration.state import Partition as AdministeredPartition
from tidegauge.spec.administration.state import State as Administered
from tidegauge.spec.administration.state import Topic
from tidegauge.spec.authentication.machine import Authentication, Outcome, Phase, Session
from tidegauge.spec.bugs import lost_logs, running_damage
from tidegauge.spec.bugs.groups.kafka_12890 import BUG as KAFKA_12890
from tidegauge.spec.bugs.kip320 import KIP320_BUGS
from tidegauge.spec.bugs.loading.kafka_17306 import BUG as KAFKA_17306
from tidegauge.spec.bugs.reading.kafka_9807 import BUG as KAFKA_9807
from tidegauge.spec.compaction.machine import Compaction, Segment
from tidegauge.spec.compaction.transactional import Clean, Copy, Entry, TransactionalCompaction
from tidegauge.spec.groups.classic.machine import ClassicGroups
from tidegauge.spec.groups.classic.timing import EndInitialDelay
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.machine import Action, Machine, constants_of
from tidegauge.spec.kernel.parts import with_part
from tidegauge.spec.lag.machine import Lag, Shrink
from tidegauge.spec.membership.machine import Membership, World
from tidegauge.spec.membership.moves import Moves
from tidegauge.spec.membership.moving import Tell
from tidegauge.spec.offsets.actions import WriteMarker
from tidegauge.spec.offsets.machine import Offsets
from tidegauge.spec.published.kip848.actions import CompleteReconciliation
from tidegauge.spec.published.kip848.machine import FirstKip848, Kip848
from tidegauge.spec.published.kip848.rules import Kip848Rules
from tidegauge.spec.published.kip848.state import Group, GroupStatus, Member, Members, Partitions
from tidegauge.spec.published.kraft.actions import SendFetchRequest
from tidegauge.spec.published.kraft.machine import Kraft
from tidegauge.spec.published.kraft.state import NOBODY as NO_SERVER
from tidegauge.spec.published.kraft.state import FetchRequest, Server
from tidegauge.spec.published.kraft.variants import CommitsOnSending, VotesForShorterLogs
from tidegauge.spec.published.pull_raft.state import PullEntriesRequest
from tidegauge.spec.published.pull_raft.state import Server as PullServer
from tidegauge.spec.published.pull_raft.variants import PullCommitsWithoutMajority, PullVotesForShorterLogs
from tidegauge.spec.published.pull_raft_2.machine import PullRaft2
from tidegauge.spec.published.replication35.actions import ReceiveFetchResponse
from tidegauge.spec.published.replication35.actions import SendFetchRequest as SendReplicaFetch
from tidegauge.spec.published.replication35.control import UnfenceBroker
from tidegauge.spec.published.replication35.machine import Replication35
from tidegauge.spec.published.replication35.state import Brokers, EpochEnd, MetadataLog
from tidegauge.spec.published.replication35.state import Replica as Replica35
from tidegauge.spec.published.replication35.state import State as State35
from tidegauge.spec.published.replication35.variants import CountsTheRecordFetched, LosesTheLastReplica
from tidegauge.spec.published.transactions_diary.actions import CommitTxnLogAppend, SendAddPartitionsToTxnRequest
from tidegauge.spec.published.transactions_diary.machine import TransactionsDiary
from tidegauge.spec.recovery.machine import Recovery
from tidegauge.spec.recovery.state import State as StoredLog
from tidegauge.spec.replication.control import with_metadata
from tidegauge.spec.replication.extensions.damage import Damage
from tidegauge.spec.replication.extensions.directories import Directories
from tidegauge.spec.replication.extensions.lost_logs import LostLogs
from tidegauge.spec.replication.extensions.reassignment import Assignment, Reassignment
from tidegauge.spec.replication.extensions.retention import LogStart, Retention
from tidegauge.spec.replication.extensions.running_damage import RunningDamage
from tidegauge.spec.replication.extensions.shutdown import ControlledShutdown
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.rules import ReplicationRules
from tidegauge.spec.replication.state import NONE, Controller, PartitionMetadata, Replica, State
from tidegauge.spec.transactions.coordinating import Complete
from tidegauge.spec.transactions.machine import Transactions
from tidegauge.spec.transactions.reading import CommittedReads, FinishRead

# --- replication -----------------------------------------------------------------------------------------------------

_SMALL: Final = Replication(brokers=2, max_records=2, bounds=Bounds(ExpireSession=1))
_BEGINS_NO_EPOCH: Final = RuleMutant(
    "BeginsNoEpoch",
    "led_by",
    lambda machine, right, old, leader: attrs.evolve(right(old, leader), leader_epoch=old.leader_epoch),
    _SMALL,
    "LogMatching",
)
_SHOWS_ALL: Final = RuleMutant(
    "ShowsAll",
    "next_high_watermark",
    lambda machine, right, leader, broker: leader.log_end_offset,
    _SMALL,
    "ConsistentRead",
)
_LEADS_WITHOUT: Final = attrs.evolve(
    _SHOWS_ALL, name="ShowsAllAndLeads", model=attrs.evolve(_SMALL, max_records=1), violates="LeaderCompleteness"
)

# --- reassignment ----------------------------------------------------------------------------------------------------


@attrs.frozen
class CompletesAtOnce(Reassignment):
    """A reassignment ends as it begins."""

    def may_complete(self, controller: Controller, target: tuple[int, ...]) -> bool:
        return True


@attrs.frozen
class DepartedStayInSync(Reassignment):
    """A replica leaves the list, and not the ISR."""

    def only_on(self, controller: Controller, replicas: tuple[int, ...]) -> Controller:
        return attrs.evolve(super().only_on(controller, replicas), isr=controller.isr, elr=controller.elr)


@attrs.frozen
class ListsTheTargetAlone(Reassignment):
    """The list does not grow: those that are to go are on it no more."""

    def reassigned(self, controller: Controller, target: tuple[int, ...]) -> Controller:
        moving = Assignment.of(super().reassigned(controller, target))
        return with_part(controller, attrs.evolve(moving, replicas=target))


@attrs.frozen
class KeepsTheDepartedLog(Reassignment):
    """A broker that has lost its replica keeps what it had."""

    def deleted(self, machine: ReplicationRules, replica: Replica, metadata: PartitionMetadata) -> Replica:
        idle = attrs.evolve(replica, leader=NONE, isr=(), pending_isr=(), remote=(), outstanding=())
        return with_metadata(machine, idle, metadata)


@attrs.frozen
class LagsOffTheList(Reassignment):
    """Who leaves the ISR leaves the list."""

    def with_isr(
        self,
        machine: ReplicationRules,
        inner: Callable[[Controller, tuple[int, ...]], Controller],
        controller: Controller,
        isr: tuple[int, ...],
    ) -> Controller:
        after = super().with_isr(machine, inner, controller, isr)
        now = Assignment.of(after)
        replicas = tuple(b for b in now.replicas if b in after.isr or b in now.adding)
        return with_part(after, attrs.evolve(now, replicas=replicas))


# --- retention -------------------------------------------------------------------------------------------------------


@attrs.frozen
class StartsAtZero(Retention):
    """A process reads no log start from its disk."""

    def restarted(self, machine: ReplicationRules, inner: Callable[[Replica], Replica], replica: Replica) -> Replica:
        return with_part(super().restarted(machine, inner, replica), LogStart())


# --- shutdowns, damage -----------------------------------------------------------------------------------------------


@attrs.frozen
class NobodyHandsOver(ControlledShutdown):
    """A leader that is shutting down leads on."""

    def handed_over(self, machine: ReplicationRules, controller: Controller) -> tuple[Controller, bool]:
        return controller, False


@attrs.frozen
class FollowsThoughDamaged(RunningDamage):
    """A broker that has met damage acts on metadata as if it had not."""

    def metadata_applied(
        self,
        machine: ReplicationRules,
        inner: Callable[[State, int, Replica, PartitionMetadata], State],
        state: State,
        broker: int,
        replica: Replica,
        metadata: PartitionMetadata,
    ) -> State:
        return inner(state, broker, replica, metadata)


# --- other machines --------------------------------------------------------------------------------------------------


class AsksNobodyWho(Authentication):
    """Every request is served."""

    def _request(self, state: Session, *, unauthenticated_may: bool) -> Session:
        return super()._request(state, unauthenticated_may=True)


class TakesAnythingForAProof(Authentication):
    """Who proves nothing is let in, as nobody."""

    def _prove(self, state: Session, user: int | None) -> Session:
        if state.phase is Phase.PROOF and user is None:
            return attrs.evolve(state, phase=Phase.REQUESTS, claimed=None, outcome=Outcome.HANDLED)
        return super()._prove(state, user)


class ForgetsWhenRefused(Membership):
    """A broker that is refused takes its note of what it has read for wrong."""

    def _pulled(self, state: World) -> World:
        after = super()._pulled(state)
        return attrs.evolve(after, noted=()) if after.refused else after


class KeepsNoStrays(Membership):
    """A replica that the log does not explain is forgotten."""

    def _pulled(self, state: World) -> World:
        return attrs.evolve(super()._pulled(state), strays=state.strays)


@attrs.frozen
class LeavesTheFirstOfTheGroup(Compaction):
    """The renamed segment stands beside the first of those that it replaces."""

    def replaces(self, swap: Segment, segment: Segment) -> bool:
        return swap.base < segment.base < swap.end


@attrs.frozen
class CleansTheEnd(TransactionalCompaction):
    """Nothing tells where a segment ended whose last entry went."""

    def leaves_its_place(self, entry: Entry, end: int) -> bool:
        return False


class GoesOnInATornFile(Recovery):
    """No file is begun behind one that ends in damage."""

    def opened(self, state: StoredLog, *, reads_all: bool) -> StoredLog:
        log = super().opened(state, reads_all=reads_all)
        is_behind_damage = len(log.segments) > 1 and log.segments[-2].torn and not log.segments[-1].batches
        return attrs.evolve(log, segments=log.segments[:-1]) if is_behind_damage else log


class DoubtsEveryStart(Recovery):
    """What leader epochs say of a log start does not count."""

    def is_start_unknown(self, state: StoredLog, first: int) -> bool:
        return True


class LeadsThoughOut(Administration):
    """A leader that has left the ISR leads on where nobody can follow it."""

    def led(
        self,
        state: Administered,
        topic: Topic,
        old: AdministeredPartition,
        new: AdministeredPartition,
        *,
        is_unclean_allowed: bool = False,
    ) -> AdministeredPartition:
        led = super().led(state, topic, old, new, is_unclean_allowed=is_unclean_allowed)
        return attrs.evolve(led, leader=old.leader) if led.leader == NOBODY != old.leader else led


class CountsTopics(Administration):
    """A topic's id is how many there are: that of a deleted one is given again."""

    def next_id(self, state: Administered) -> int:
        return 1 + sum(topic is not None for topic in state.topics)


class GrowsAnew(Administration):
    """A topic has the new partitions, and no others."""

    def grown(self, topic: Topic, more: tuple[AdministeredPartition, ...]) -> Topic:
        return attrs.evolve(topic, partitions=more)


class GivesToAll(Kip848Rules):
    """Every member is to have every partition."""

    def targets(self, group: Group, member: int, one: Member) -> Iterator[tuple[tuple[int, Partitions], ...]]:
        yield tuple((known, self.partitions) for known, _ in group.members_with(member, one))


class CallsItStable(Kip848Rules):
    """A group is stable as soon as it has a target."""

    def status_of(self, members: Members, epoch: int, target_epoch: int) -> GroupStatus:
        status = super().status_of(members, epoch, target_epoch)
        return GroupStatus.STABLE if status is GroupStatus.RECONCILING else status


@attrs.frozen
class GivesEachToAll(GivesToAll, Kip848):
    """The second version."""


@attrs.frozen
class CallsAnyStable(CallsItStable, Kip848):
    """The second version."""


@attrs.frozen
class NotesNoEpochs(Kip848):
    """Nobody writes down in which epoch a partition is held."""

    def partition_epochs(self, group: Group, before: Member | None, after: Member | None) -> tuple[int, ...]:
        return group.partition_epochs


@attrs.frozen
class FirstGivesEachToAll(GivesToAll, FirstKip848):
    """The first version."""


@attrs.frozen
class FirstCallsAnyStable(CallsItStable, FirstKip848):
    """The first version."""


@attrs.frozen
class ReadsAgain(CommittedReads):
    """A read begins where the log does."""

    def begins(self, position: int) -> int:
        return 0


# --- what never happens ----------------------------------------------------------------------------------------------


def without(machine: Machine[Any], kind: type[Action]) -> Machine[Any]:
    """The machine, in which an action is never taken."""
    base = type(machine)

    def actions(self: Machine[Any], state: Any) -> Iterable[Action]:
        return (action for action in base.actions(self, state) if not isinstance(action, kind))

    def successors(self: Machine[Any], state: Any) -> Iterable[tuple[Action, Any]]:
        return ((action, after) for action, after in base.successors(self, state) if not isinstance(action, kind))

    return _with(machine, f"Without{kind.__name__}", actions=actions, successors=successors)


@attrs.frozen
class DeletesWhatFailed(Directories):
    """A log counts as deleted though its directory has failed: the next process finds it again."""

    def taken_away(self, machine: ReplicationRules, inner: Callable[[Replica], Replica], replica: Replica) -> Replica:
        return inner(replica)


def asked_only(machine: Machine[Any], name: str) -> Machine[Any]:
    """The machine with one property and no other: what else is wrong there ends no search."""
    kinds = ("invariants", "step_invariants", "converges", "leads_to")
    return _with(machine, "", **{kind: _just(getattr(machine, kind), name) for kind in kinds})


def _just(properties: Mapping[str, object], name: str) -> property:
    found = {known: holds for known, holds in properties.items() if known == name}
    return property(lambda machine: found)


def _with(machine: Machine[Any], suffix: str, **body: object) -> Machine[Any]:
    base = type(machine)
    kind = type(f"{base.__name__}{suffix}", (base,), {**body, "__doc__": base.__doc__})
    other: Machine[Any] = kind(**constants_of(machine))
    return other


def _moving(reassignment: Reassignment, bounds: Bounds) -> Replication:
    return Replication(brokers=2, max_records=1, bounds=bounds, extensions=(reassignment,))


_MOVES: Final = ((0,), ((1,),))
_ONCE: Final = Bounds(StartReassignment=1)
_DAMAGED: Final = (ControlledShutdown(), Damage(), LostLogs(), FollowsThoughDamaged())
_GROWS: Final[dict[str, Any]] = {
    "settings": (),
    "blocks": 0,
    "bounds": Bounds(CreateTopic=2, DeleteTopic=1, Grow=1),
}


@attrs.frozen
class VotesOnSending(CommitsOnSending, VotesForShorterLogs):
    """What only the leader has is acknowledged, and who lacks it is elected."""


@attrs.frozen
class BelievesFollowers(VotesForShorterLogs):
    """A leader looks at no follower's last entry."""

    def is_valid(self, leader: Server, request: FetchRequest) -> bool:
        return True


@attrs.frozen
class ForgetsItsLeader(Kraft):
    """A server that learns of an epoch knows no leader."""

    def transitioned(self, number: int, server: Server, leader: int, epoch: int) -> Server:
        return super().transitioned(number, attrs.evolve(server, leader=NO_SERVER), leader, epoch)


@attrs.frozen
class PullVotesOnSending(PullCommitsWithoutMajority, PullVotesForShorterLogs):
    """What only the leader has is acknowledged, and who lacks it is elected."""


@attrs.frozen
class PullBelievesFollowers(PullVotesOnSending):
    """A leader looks at no follower's last entry."""

    def is_valid(self, leader: PullServer, request: PullEntriesRequest) -> bool:
        return True


@attrs.frozen
class Pull2VotesOnSending(PullCommitsWithoutMajority, PullVotesForShorterLogs, PullRaft2):
    """What only the leader has is acknowledged, and who lacks it is elected."""


@attrs.frozen
class Pull2BelievesFollowers(Pull2VotesOnSending):
    """A leader looks at no follower's last entry."""

    def is_valid(self, leader: PullServer, request: PullEntriesRequest) -> bool:
        return True


@attrs.frozen
class CommitsByTheFormerIsr(Replication35):
    """A leader commits with the ISR that it has, though it has proposed another."""

    def maximal_isr(self, isr: Brokers, proposed: Brokers) -> Brokers:
        return isr


@attrs.frozen
class KnowsNoEpochs(Replication35):
    """Every epoch ends where the log does."""

    def end_of_epoch(self, replica: Replica35, epoch: int) -> EpochEnd:
        return EpochEnd(epoch, replica.end)


@attrs.frozen
class MissesTheFirstChange(Replication35):
    """A broker's copy of the metadata log begins with the second record."""

    def metadata_log(self, state: State35, offset: int) -> MetadataLog:
        return state.metadata_log[1:offset]


_TWO_BROKERS: Final = Replication35(
    brokers=2, replication_factor=2, min_isr=1, initial_isr=1, max_fences=0, max_unclean_shutdowns=0
)
_TRANSACTIONS: Final = Transactions(incarnations=1, partitions=1, transactions=1)

# fmt: off
WRONG: Final[tuple[tuple[str, Machine[Any], str], ...]] = (
    *(("replication", one.machine, one.violates) for one in (_BEGINS_NO_EPOCH, _SHOWS_ALL, _LEADS_WITHOUT)),
    *(("kip320", KIP320_BUGS["HighWatermarkByMajority"].machine(), name) for name in ("WeakIsr", "StrongIsr")),
    ("lost-logs", next(bug for bug in lost_logs.BUGS if bug.name == "elects_the_lost").machine(), "LossIsAccepted"),
    ("reassignment", _moving(CompletesAtOnce(*_MOVES), _ONCE), "CompletesInSync"),
    ("reassignment", _moving(DepartedStayInSync(*_MOVES), _ONCE), "IsrWithinReplicas"),
    ("reassignment", _moving(DepartedStayInSync(*_MOVES), _ONCE), "LeaderInReplicas"),
    ("reassignment", _moving(ListsTheTargetAlone(*_MOVES), _ONCE), "AddingAndRemovingAreReplicas"),
    ("reassignment", _moving(KeepsTheDepartedLog(*_MOVES), _ONCE), "RemovedReplicasAreEmpty"),
    ("reassignment", _moving(LagsOffTheList((0, 1)), Bounds(ShrinkIsr=1)), "ReplicasChangeByReassignment"),
    ("directories", Replication(brokers=2, max_records=1, bounds=Bounds(FailDirectory=1, StartReassignment=1),
                                extensions=(ControlledShutdown(), DeletesWhatFailed(), Reassignment(*_MOVES))),
     "FailedKeepsItsLog"),
    ("retention", Replication(brokers=2, max_records=1, bounds=Bounds(Crash=1, DeleteRecords=1),
                              extensions=(StartsAtZero(),)), "LogStartMonotone"),
    ("controlled-shutdown", Replication(brokers=2, max_records=0, bounds=Bounds(BeginShutdown=1),
                                        extensions=(NobodyHandsOver(),)), "ShuttingDownLeadsLast"),
    ("running-damage", attrs.evolve(running_damage.MODEL, extensions=_DAMAGED), "WithdrawnTakesNoPart"),
    ("authentication", AsksNobodyWho(), "NoUnauthenticatedClientIsServed"),
    ("authentication", TakesAnythingForAProof(), "OnlyTheProvedAreServed"),
    ("membership", ForgetsWhenRefused(topics=1), "ARefusalTouchesNothing"),
    ("membership", KeepsNoStrays(topics=1), "NoReplicaVanishes"),
    ("compaction", LeavesTheFirstOfTheGroup(max_records=3, keys=1, reads=False), "OffsetsAscend"),
    ("transactional-compaction", CleansTheEnd(max_records=2, keys=1, copies=False), "SegmentsEndWhereTheyDid"),
    ("recovery", GoesOnInATornFile(max_appends=1), "NothingIsAppendedToDamage"),
    ("recovery", DoubtsEveryStart(max_appends=1, max_damages=0), "NoFalseAlarm"),
    ("administration", LeadsThoughOut(max_partitions=1, settings=(), min_insync=2,
                                      bounds=Bounds(CreateTopic=1, Fence=1)), "LeaderIsInSync"),
    ("administration", CountsTopics(**_GROWS), "NamesAreNoIds"),
    ("administration", GrowsAnew(**_GROWS, max_partitions=3), "TopicsOnlyGrow"),
    ("kip848", GivesEachToAll(), "LegalTargetAssignment"),
    ("kip848", CallsAnyStable(), "ValidStableGroupState"),
    ("kip848", NotesNoEpochs(), "ValidPartitionEpoch"),
    ("kip848-first", FirstGivesEachToAll(), "LegalTargetAssignment"),
    ("kip848-first", FirstCallsAnyStable(), "ValidStableGroupState"),
    ("kraft", VotesOnSending(servers=2, max_elections=2), "LeaderHasAllAckedValues"),
    ("kraft", BelievesFollowers(servers=2, max_elections=2, values=2), "NoLogDivergence"),
    ("kraft", ForgetsItsLeader(servers=2, max_elections=2), "NoIllegalState"),
    ("pull-raft", PullVotesOnSending(servers=2, max_elections=2), "LeaderHasAllAckedValues"),
    ("pull-raft", PullBelievesFollowers(servers=2, max_elections=2, values=3), "NoLogDivergence"),
    ("pull-raft-2", Pull2VotesOnSending(servers=2, max_elections=2), "LeaderHasAllAckedValues"),
    ("pull-raft-2", Pull2BelievesFollowers(servers=2, max_elections=2, values=3), "NoLogDivergence"),
    ("replication-3.5", CommitsByTheFormerIsr(), "ReplicationQuorumSupersetProperty"),
    ("replication-3.5", KnowsNoEpochs(brokers=2, replication_factor=2, min_isr=1, values=2, max_unclean_shutdowns=0),
     "LogMatchingProperty"),
    ("replication-3.5", MissesTheFirstChange(brokers=2, replication_factor=2), "MetadataLogMatchingProperty"),
    ("replication-3.5", LosesTheLastReplica(brokers=2, replication_factor=2), "ConsistentReadProperty"),
    ("replication-3.5", CountsTheRecordFetched(brokers=2, replication_factor=2, max_fences=0),
     "NoCommittedRecordLostGlobally"),
    *wrong_quorums.WRONG,
    # goals
    ("replication-3.5", without(_TWO_BROKERS, UnfenceBroker), "every broker runs, and is unfenced"),
    ("replication-3.5", without(_TWO_BROKERS, SendReplicaFetch), "every write is acknowledged or refused"),
    ("replication-3.5", without(_TWO_BROKERS, ReceiveFetchResponse), "every replica has what was acknowledged"),
    ("transactions-diary", without(TransactionsDiary(clients=1), CommitTxnLogAppend), "every client has a producer id"),
    ("transactions-diary", without(TransactionsDiary(clients=1), SendAddPartitionsToTxnRequest),
     "a client has added every partition"),
    ("kraft", without(Kraft(servers=2), SendFetchRequest), "each value is in every log or in none"),
    ("group-loading", KAFKA_17306.machine(), "every load ends"),
    ("kip848", without(Kip848(), CompleteReconciliation), "the group has converged"),
    ("kip848-first", without(FirstKip848(), CompleteReconciliation), "the group has converged"),
    ("offsets", without(Offsets(producers=1, max_entries=2), WriteMarker),
     "every transaction ends, and all is committed"),
    ("lag", without(Lag(max_time=2), Shrink), "who lags is not in sync"),
    ("transactional-compaction", without(TransactionalCompaction(max_records=2, keys=1, copies=False), Clean),
     "what is closed and decided gets clean"),
    ("transactional-compaction", without(TransactionalCompaction(max_records=1, keys=1), Copy),
     "a replica gets to the end"),
    ("administration", without(Administration(max_partitions=1, settings=(),
                                              bounds=Bounds(CreateTopic=1, Fence=1)), JoinIsr),
     "who is live and follows a leader is in sync"),
    ("moves", without(Moves(max_moves=1, failures=0, fills=False), Tell),
     "the replica is in a directory that the controller knows"),
    ("committed-reads", ReadsAgain(transactions=2, partitions=1, incarnations=1, expiring=False), "ConsumedOnce"),
    ("committed-reads", without(KAFKA_9807.correct_machine(), FinishRead),
     "a fetch that waits is served once there is something"),
    # what is owed
    ("transactions", without(_TRANSACTIONS, Complete), "a prepared transaction of id 0 is completed"),
    *(("classic-groups", machine, f"the {request} of process {number} has its response") for number in (0, 1)
      for machine, request in ((without(ClassicGroups(partitions=1), EndInitialDelay), "JoinGroup"),
                               (KAFKA_12890.machine(), "SyncGroup"))),
)
# fmt: on
"""Machine, as the registry names it; a wrong one of it; what is violated there."""
