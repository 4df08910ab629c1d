"""Every goal that a search must have reached, with what it is reached by: without those steps it is not.

A goal that is easier to reach than its words say is reached by fewer steps, or without what it takes; one that is
harder, by more steps or never.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import attrs

from tidegauge.model_tests.spec.shortest import Steps, into, of
from tidegauge.spec.administration import brokers, replicas, topics
from tidegauge.spec.administration.machine import Administration
from tidegauge.spec.authentication import machine as authentication
from tidegauge.spec.authentication.machine import Authentication
from tidegauge.spec.compaction import machine as compaction
from tidegauge.spec.compaction import transactional
from tidegauge.spec.compaction.machine import Compaction
from tidegauge.spec.compaction.transactional import TransactionalCompaction
from tidegauge.spec.groups.classic import requests as group_requests
from tidegauge.spec.groups.classic import timing as group_timing
from tidegauge.spec.groups.classic.machine import ClassicGroups
from tidegauge.spec.groups.consumer import processes as consumers
from tidegauge.spec.groups.consumer import requests as consumer_requests
from tidegauge.spec.groups.consumer import timing as consumer_timing
from tidegauge.spec.groups.consumer.machine import ConsumerGroups
from tidegauge.spec.groups.consumer.models import CONSUMER_MODELS
from tidegauge.spec.groups.loading import actions as loading
from tidegauge.spec.groups.loading.machine import GroupLoading
from tidegauge.spec.groups.migration import requests as migration_requests
from tidegauge.spec.groups.migration.machine import GroupMigration
from tidegauge.spec.groups.migration.timing import StartOver
from tidegauge.spec.idempotence import partition, producer
from tidegauge.spec.idempotence.machine import Idempotence
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.machine import Action, Machine
from tidegauge.spec.lag import machine as lag
from tidegauge.spec.lag.machine import Lag
from tidegauge.spec.membership import machine as membership
from tidegauge.spec.membership import moving, placement, succession
from tidegauge.spec.membership.machine import Membership
from tidegauge.spec.membership.moves import Moves
from tidegauge.spec.membership.placement import Placement
from tidegauge.spec.membership.succession import OTHER, Succession
from tidegauge.spec.offsets import actions as offsets
from tidegauge.spec.offsets.machine import Offsets
from tidegauge.spec.published.kip320 import actions as kip320
from tidegauge.spec.published.kip320.machine import Kip320
from tidegauge.spec.published.kip848 import actions as kip848
from tidegauge.spec.published.kip848.machine import FirstKip848, Kip848
from tidegauge.spec.published.kip853 import actions as quorum
from tidegauge.spec.published.kip853 import messages as voters
from tidegauge.spec.published.kip853.machine import Kip853
from tidegauge.spec.published.kip996 import messages as pre_votes
from tidegauge.spec.published.kip996.machine import Kip996
from tidegauge.spec.published.kraft import actions as kraft
from tidegauge.spec.published.kraft.machine import Kraft
from tidegauge.spec.published.pull_raft import actions as pull_raft
from tidegauge.spec.published.pull_raft.machine import PullRaft
from tidegauge.spec.published.pull_raft_2 import actions as second_pull_raft
from tidegauge.spec.published.pull_raft_2.machine import PullRaft2
from tidegauge.spec.published.replication35 import actions as replication35
from tidegauge.spec.published.replication35 import control as control35
from tidegauge.spec.published.replication35 import lifecycle as lifecycle35
from tidegauge.spec.published.replication35.machine import Replication35
from tidegauge.spec.published.transactions_diary import actions as diary
from tidegauge.spec.published.transactions_diary.machine import TransactionsDiary
from tidegauge.spec.recovery import actions as recovery
from tidegauge.spec.recovery.machine import Recovery
from tidegauge.spec.replication.actions import ReceiveFetch, ReceiveFetchResponse, SendFetch
from tidegauge.spec.replication.composed import everything
from tidegauge.spec.replication.control import ApplyMetadata, PreferredElection
from tidegauge.spec.replication.extension import ReplicationExtension
from tidegauge.spec.replication.extensions.damage import Damage
from tidegauge.spec.replication.extensions.deletion import DeleteTopic, Deletion
from tidegauge.spec.replication.extensions.directories import Directories, FailDirectory, ReplicaOffline, has_failed
from tidegauge.spec.replication.extensions.late import FetchArrivesLate, LateMessages
from tidegauge.spec.replication.extensions.lost_logs import LostLogs, ReportLost, lost
from tidegauge.spec.replication.extensions.reads import LearnLeader, ListLatest, Reads
from tidegauge.spec.replication.extensions.reassignment import Reassignment, StartReassignment
from tidegauge.spec.replication.extensions.retention import DeleteRecords, Retention
from tidegauge.spec.replication.extensions.running_damage import ReportDamaged, RunningDamage
from tidegauge.spec.replication.extensions.settings import ChangeSettings, Settings
from tidegauge.spec.replication.extensions.shutdown import ControlledShutdown, Stop, StopUnasked
from tidegauge.spec.replication.extensions.unregistering import Rejoin, Unregister, Unregistering, is_unregistered
from tidegauge.spec.replication.faults import Unfence
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.transactions import coordinating, partitioning, producing
from tidegauge.spec.transactions.machine import Transactions
from tidegauge.spec.transactions.reading import CommittedReads, StartRead
from tidegauge.spec.transactions.state import Phase as ProducerPhase
from tidegauge.spec.transactions.unclean import ElectUnclean, UncleanTransactions
from tidegauge.spec.workers import actions as workers
from tidegauge.spec.workers.machine import Workers


@attrs.frozen
class Reached:
    """A goal, a machine that reaches it, how soon, and which steps it takes."""

    goal: str
    machine: Machine[Any]
    steps: int
    """Of a shortest behaviour."""
    by: Steps
    beyond: int = 0
    """How many steps further it is looked for without those that it takes."""


def _small(*extensions: ReplicationExtension, **constants: Any) -> Replication:
    """Two brokers, one record; numbers that begin with a capital letter are bounds."""
    bounds = Bounds({name: often for name, often in constants.items() if name[0].isupper()})
    others = {name: value for name, value in constants.items() if name[0].islower()}
    given: dict[str, Any] = {"brokers": 2, "max_records": 1, **others}
    return Replication(bounds=bounds, extensions=extensions, **given)


QUIET: Final = _small()
SHRINK: Final = _small(ShrinkIsr=1)
EXPIRE: Final = _small(ExpireSession=1)
TWO_RECORDS: Final = _small(max_records=2, ExpireSession=1)
CRASH: Final = _small(Crash=1)
UNCLEAN: Final = _small(unclean_leader_election=True, ShrinkIsr=1, ExpireSession=1)


ADVANCED: Final = into(lambda s: s.controller.leader_epoch > 0)


def _follower_knows(state: Any) -> bool:
    return any(r.leader != broker and r.high_watermark for broker, r in enumerate(state.replicas))


def _leader_is_removed(state: Any) -> bool:
    """Of the machine that begins with broker 0 as the leader, and removes one broker."""
    return is_unregistered(state.controller, 0)


DELETING: Final = _small(Retention(), max_records=2, DeleteRecords=1, ExpireSession=1)
MOVING: Final = _small(Reassignment((0,), ((1,),)), StartReassignment=1)
CLEANED: Final = TransactionalCompaction(max_records=3, keys=1, tombstones=False, copies=False)
STOPPING: Final = _small(ControlledShutdown(), BeginShutdown=1)
FAILING: Final = _small(ControlledShutdown(), Directories(), FailDirectory=1)
MOVING_AND_FAILING: Final = _small(*everything((0,), ((1,),)), FailDirectory=1, StartReassignment=1)
LOSING: Final = _small(ControlledShutdown(), Damage(), LostLogs(), initial_isr=(0,), Crash=1, LoseLog=1)
RUNNING: Final = _small(
    ControlledShutdown(), Damage(), LostLogs(), RunningDamage(), min_insync_replicas=2, MeetDamage=1
)
LATE: Final = _small(LateMessages(), min_insync_replicas=2, ArriveLate=1, Crash=1)
MOVING_CRASH: Final = _small(Reassignment((0,), ((1,),)), Crash=1, StartReassignment=1)
REMOVING: Final = _small(Unregistering(), Unregister=1)
REMOVING_CRASH: Final = _small(Unregistering(), Crash=1, Unregister=1)
DELETED: Final = _small(Reassignment(), Deletion(), DeleteTopic=1)
RECREATED: Final = _small(Reassignment(), Deletion(former=(0, 1)), max_records=2, initial_isr=(0,), DeleteTopic=1)
READING: Final = _small(Reads(), initial_leader=1, PreferredElection=1)
SETTING: Final = _small(Settings(unclean_values=(False,)), min_insync_replicas=2, ChangeSettings=1, ShrinkIsr=1)

OF_REPLICATION: Final = (
    Reached("a record is committed", QUIET, 6, of(ReceiveFetch)),
    Reached("a producer that waits for all is acknowledged", QUIET, 6, of(ReceiveFetch)),
    Reached("the ISR has shrunk", SHRINK, 2, into(lambda s: s.controller.partition_epoch > 0)),
    Reached("a later leader has committed", EXPIRE, 3, ADVANCED),
    Reached("two brokers think they lead", EXPIRE, 2, ADVANCED),
    Reached("a fetch is refused", EXPIRE, 4, of(ApplyMetadata)),
    Reached("two logs diverge", TWO_RECORDS, 4, ADVANCED),
    Reached("a new incarnation is in sync", CRASH, 9, of(Unfence)),
    Reached("an acknowledged record is lost", UNCLEAN, 6, into(lambda s: bool(s.history.superseded_epoch >= 0))),
)
OF_EXTENSIONS: Final = (
    Reached("a consumer was shown what its broker only follows", READING, 8, into(_follower_knows)),
    Reached("a consumer knows where the log ends", READING, 7, of(ListLatest)),
    Reached("a new leader cannot tell the latest offset", READING, 6, of(PreferredElection)),
    Reached("a consumer has followed to a later leader", READING, 10, of(LearnLeader)),
    Reached("a reassignment is under way", MOVING, 1, of(StartReassignment)),
    Reached("a reassignment is complete", MOVING, 6, of(SendFetch)),
    Reached("the former leader has deleted its replica", MOVING, 7, of(SendFetch)),
    Reached("the former leader has deleted its replica", MOVING_CRASH, 7, of(SendFetch)),
    Reached("a record is committed on other brokers altogether", MOVING, 8, of(SendFetch)),
    Reached("a follower has moved to its leader's log start", DELETING, 7, of(ReceiveFetchResponse)),
    Reached("a leader knows that a record is gone everywhere", DELETING, 9, of(ReceiveFetchResponse)),
    Reached("log starts differ", DELETING, 4, of(DeleteRecords)),
    Reached("a follower is out of range", DELETING, 6, of(DeleteRecords)),
    Reached("a broker has stopped cleanly", STOPPING, 1, of(Stop, StopUnasked)),
    Reached("a broker is back from a clean stop", STOPPING, 5, of(Unfence)),
    Reached("a replica has lost its directory while it leads", FAILING, 1, of(FailDirectory)),
    Reached(
        "a replica has lost its directory while it leads",
        _small(ControlledShutdown(), Directories(), initial_isr=(0,), ExpireSession=1, FailDirectory=1),
        1,
        into(lambda s: has_failed(s.replicas[0])),
        beyond=1,
    ),
    Reached("a replica is offline and its broker live", FAILING, 2, of(ReplicaOffline)),
    Reached(
        "a failed directory still has the log of a replica that was taken away",
        MOVING_AND_FAILING,
        9,
        of(FailDirectory),
    ),
    Reached("a replica has lost its log, and another one leads", LOSING, 4, of(ReportLost)),
    Reached(
        "a replica has lost its log, and another one leads",
        LOSING,
        4,
        into(lambda s: s.controller.leader == 1 or 1 in lost(s.controller)),
        beyond=1,
    ),
    Reached("a replica that had lost its log is in sync", LOSING, 10, of(ReportLost)),
    Reached(
        "a replica was taken out since its log is damaged, and another one leads",
        RUNNING,
        3,
        of(ReportDamaged),
        beyond=1,
    ),
    Reached("a fetch of a former process is on its way", LATE, 5, of(FetchArrivesLate)),
    Reached("a broker that was removed still leads, as far as it knows", REMOVING, 1, into(_leader_is_removed)),
    Reached("a broker is in sync again that was removed", REMOVING, 8, of(Rejoin)),
    Reached("a broker is in sync again that was removed", REMOVING_CRASH, 7, of(Unregister), beyond=1),
    Reached("a broker leads a deleted topic, and does not know it", DELETED, 1, of(DeleteTopic)),
    Reached("a log is deleted with its topic", DELETED, 8, of(DeleteTopic)),
    Reached("a record is committed while a broker still has the former log", RECREATED, 2, of(ApplyMetadata)),
    Reached("a leader commits by a number that is not true any more", SETTING, 7, of(ChangeSettings)),
)

RENAMED: Final = Administration(settings=(), blocks=0, bounds=Bounds(CreateTopic=2, DeleteTopic=1))
MANAGED: Final = Administration(settings=(), blocks=0, bounds=Bounds(CreateTopic=1, Reassign=1, Unregister=1))
ELIGIBLE: Final = Administration(settings=(), blocks=0, min_insync=2, bounds=Bounds(CreateTopic=1, Fence=1))
LOST: Final = Bounds(LoseConnection=1)
SENDING: Final = Idempotence(brokers=1, max_records=2, bounds=LOST)
ELECTING: Final = Idempotence(max_records=3, max_attempts=2, batches_retained=2, bounds=Bounds(Elect=1))
GIVING_UP: Final = Idempotence(brokers=1, max_records=2, max_attempts=2, batches_retained=2, bounds=Bounds(GiveUp=1))
EXPIRING: Final = Idempotence(brokers=1, max_records=2, batches_retained=2, reordering=False, bounds=Bounds(Expire=1))
OVERTAKING: Final = Idempotence(brokers=1, max_records=3, max_attempts=2, batches_retained=2, bounds=Bounds(Expire=1))
WRAPPING: Final = Idempotence(
    brokers=1, max_records=6, batch_sizes=(2, 1), batches_retained=2, sequences=5, max_attempts=1, reordering=False
)
REBUILDING: Final = Idempotence(
    max_records=2, max_attempts=1, batches_retained=2, segments=True, reordering=False, bounds=Bounds(Crash=1)
)
OF_IDEMPOTENCE: Final = (
    Reached("all records are acknowledged", SENDING, 4, of(partition.ReceiveProduce)),
    Reached("a repeat is acknowledged", SENDING, 5, of(producer.LoseConnection)),
    Reached("a marker has outlived its records", CLEANED, 7, of(transactional.EndTransaction)),
    Reached("a marker is gone", CLEANED, 11, of(transactional.Tick)),
    Reached("a batch without its record keeps a marker", CLEANED, 4, of(transactional.EndTransaction)),
    Reached("a gap is refused", SENDING, 3, into(lambda s: any(r.error for r in s.responses))),
    Reached("an old epoch is fenced", GIVING_UP, 4, of(producer.GiveUp)),
    Reached("a producer has expired, and is taken on trust", EXPIRING, 6, of(partition.Expire)),
    Reached("a batch is refused that one on trust has overtaken", OVERTAKING, 8, of(partition.Expire)),
    Reached("sequences have wrapped", WRAPPING, 7, of(partition.ReceiveProduce)),
    Reached("two logs have parted", ELECTING, 6, of(partition.Elect)),
    Reached("memory is rebuilt from a snapshot", REBUILDING, 6, of(partition.Crash)),
)

ONE: Final = Transactions(incarnations=1, partitions=1, transactions=1)
TWO: Final = Transactions(incarnations=1, transactions=1)
ZOMBIE: Final = Transactions(partitions=1, transactions=1)
DATABASE: Final = Transactions(partitions=1, transactions=1, two_phase=True, bounds=Bounds(CrashProducer=1))
USED_UP: Final = Transactions(incarnations=1, partitions=1, transactions=3, max_epoch=2)
GROUP: Final = Transactions(
    transactional_ids=2,
    incarnations=1,
    partitions=1,
    transactions=1,
    inputs=2,
    expiring=False,
    bounds=Bounds(Rebalance=1),
)
FAILING_OVER: Final = Transactions(incarnations=1, partitions=1, transactions=1, bounds=Bounds(FailOver=1))
SET_BACK: Final = attrs.evolve(ONE, bounds=Bounds(TurnClockBack=1))
FORGOTTEN: Final = attrs.evolve(ZOMBIE, bounds=Bounds(ExpireId=1))


def _commits_for_another(before: Any, action: Action, after: Any) -> bool:
    """Whether a process is told that a transaction is committed that is not its own."""
    return isinstance(action, coordinating.ReceiveEnd) and any(
        old.told != new.told and new.producer != action.request.producer
        for old, new in zip(before.transactions, after.transactions, strict=True)
    )


def _has_started(number: int) -> Callable[[Any], bool]:
    return lambda state: state.producers[number].phase is not ProducerPhase.DOWN


def _is_fenced(number: int) -> Callable[[Any], bool]:
    return lambda state: state.producers[number].phase is ProducerPhase.FENCED


def _marks_after_failover(before: Any, action: Action, after: Any) -> bool:
    return isinstance(action, partitioning.WriteMarker) and before.coordinator_epoch > 0


OF_TRANSACTIONS: Final = (
    Reached("a transaction over all partitions is committed and visible", TWO, 13, of(coordinating.ReceiveEnd)),
    Reached("an aborted record is left out", TWO, 8, of(partitioning.Append)),
    Reached(
        "a transaction is decided, and a marker is missing",
        ONE,
        6,
        of(coordinating.ReceiveEnd, coordinating.ExpireTransaction),
    ),
    Reached("a zombie is fenced", ZOMBIE, 7, into(_has_started(1)), beyond=2),
    Reached("a zombie is fenced", ZOMBIE, 7, into(_has_started(0)), beyond=2),
    Reached("a zombie is fenced", ZOMBIE, 7, into(_is_fenced(0)), beyond=5),
    Reached("a new process commits what an older one has prepared", DATABASE, 11, _commits_for_another),
    Reached("a producer id is used up", USED_UP, 16, of(coordinating.ReceiveEnd)),
    Reached("a member goes on where another one was", GROUP, 20, of(producing.Start)),
    Reached("a new coordinator completes what the last one has prepared", FAILING_OVER, 13, of(coordinating.FailOver)),
    Reached("a new coordinator completes what the last one has prepared", FAILING_OVER, 13, _marks_after_failover),
    Reached(
        "a transaction that began after the clock was set back is complete", SET_BACK, 9, of(coordinating.TurnClockBack)
    ),
    Reached("an id that was forgotten has a new producer", FORGOTTEN, 5, of(coordinating.ExpireId)),
    Reached("a process is told that its id was forgotten", FORGOTTEN, 6, of(coordinating.ExpireId)),
)

TAKEN_OVER: Final = ClassicGroups(processes=1, partitions=1, bounds=Bounds(FailOver=1))
TAKES_OVER: Final = "a new coordinator takes a stable group over"
OF_GROUPS: Final = (
    Reached("two members share the partitions", ClassicGroups(), 13, of(group_requests.ReceiveSync)),
    Reached(
        "a static member is replaced, and its former process knows it",
        ClassicGroups(instances=(0, 0), partitions=1),
        5,
        into(lambda s: s.member_ids > 1),
    ),
    Reached("a member goes on where another one was", ClassicGroups(commits=1), 20, of(group_requests.ReceiveCommit)),
    Reached(TAKES_OVER, TAKEN_OVER, 8, of(group_timing.FailOver)),
    Reached(TAKES_OVER, TAKEN_OVER, 8, of(group_requests.ReceiveSync)),
    Reached(
        "a partition is with nobody until it is given back",
        ClassicGroups(cooperative=True),
        14,
        of(group_requests.ReceiveHeartbeat),
    ),
)

SURVIVED: Final = ConsumerGroups(processes=1, partitions=1, bounds=Bounds(FailOver=1))
SURVIVES: Final = "a new coordinator goes on with the members"
OF_CONSUMERS: Final = (
    Reached("two processes own a part each", ConsumerGroups(), 9, of(consumers.Reconcile)),
    Reached(
        "a member waits for what another has to give back", ConsumerGroups(), 5, of(consumer_requests.ReceiveHeartbeat)
    ),
    Reached(
        "a member waits for the next target",
        ConsumerGroups(spaces_targets=True, partitions=1),
        4,
        of(consumer_requests.ReceiveHeartbeat),
    ),
    Reached(
        "an old target has more for a member, which waits for the next one",
        CONSUMER_MODELS["consumers-interval-expression"].machine,
        7,
        of(consumer_timing.EndResolution),
    ),
    Reached(
        "a static member is away, and keeps what it has",
        ConsumerGroups(processes=1, instances=(0,), bounds=Bounds(Leave=1)),
        3,
        of(consumer_requests.ReceiveLeave),
    ),
    Reached(
        "a member goes on where another one was", ConsumerGroups(commits=1), 14, of(consumer_requests.ReceiveCommit)
    ),
    Reached(
        "a member owns what came after its expression",
        ConsumerGroups(topics=2, matches=((0, 1),), expressions=(0,), processes=1, bounds=Bounds(CreateTopic=1)),
        6,
        of(consumers.CreateTopic, consumer_timing.EndResolution, consumers.Reconcile),
    ),
    Reached(
        "a member owns what it names before its expression is resolved",
        ConsumerGroups(partitions=1, topics=2, named=(0,), matches=((0, 1),), expressions=(0,), processes=1),
        3,
        of(consumers.Reconcile),
    ),
    Reached(
        "a new coordinator resolves expressions",
        ConsumerGroups(
            partitions=1, topics=2, matches=((0, 1),), expressions=(0,), processes=1, bounds=Bounds(FailOver=1)
        ),
        4,
        of(consumer_timing.FailOver),
    ),
    Reached(SURVIVES, SURVIVED, 5, of(consumer_timing.FailOver)),
    Reached(SURVIVES, SURVIVED, 5, of(consumer_timing.CommitRecord)),
)
OF_MIGRATION: Final = (
    Reached("members of both protocols own a part each", GroupMigration(), 8, of(migration_requests.ReceiveSync)),
    Reached(
        "a consumer group is a classic one again",
        GroupMigration(bounds=Bounds(Leave=1)),
        5,
        of(migration_requests.ReceiveLeave),
    ),
    Reached(
        "the next process of a static member has its part by the other protocol",
        GroupMigration(processes=1, instances=(0,), partitions=1, bounds=Bounds(StartOver=1)),
        3,
        of(StartOver, consumers.Reconcile),
    ),
)

_PAIR: Final = Replication35(brokers=2, replication_factor=2, max_fences=0)
OF_OTHERS: Final = (
    Reached("the controller has elected", Kip320(), 1, of(kip320.ControllerElectLeader)),
    Reached("a record is committed", Kip320(), 6, of(kip320.LeaderIncHighWatermark)),
    Reached("a leader is alone in the ISR", Kip320(), 4, of(kip320.LeaderShrinkIsr, kip320.ControllerShrinkIsr)),
    Reached("two replicas presume leadership", Kip320(), 4, of(kip320.BecomeLeader)),
    Reached("two logs have parted", Kip320(), 6, of(kip320.LeaderWrite)),
    Reached("a value is acknowledged", _PAIR, 6, of(replication35.ReceiveFetchRequest)),
    Reached("another broker leads", _PAIR, 1, of(lifecycle35.UncleanShutdown)),
    Reached("a broker is in the ISR again", _PAIR, 10, of(control35.ReceiveAlterPartitionRequest)),
    Reached("a member waits for another's partition", Kip848(), 4, of(kip848.ReceiveRegularHeartbeatRequest)),
    Reached("a member gives partitions back", Kip848(), 7, of(kip848.ReceiveSuccessResponse)),
    Reached("the group has converged", Kip848(), 10, of(kip848.CompleteReconciliation)),
    Reached("a member waits for another's partition", FirstKip848(), 4, of(kip848.ReceiveRegularHeartbeatRequest)),
    Reached("a member gives partitions back", FirstKip848(), 8, of(kip848.CompleteReconciliation)),
    Reached("the group has converged", FirstKip848(), 10, of(kip848.CompleteReconciliation)),
    Reached("a client has added a partition", TransactionsDiary(), 8, of(diary.ReceiveAddPartitionsToTxnResponse)),
    Reached("a client is fenced", TransactionsDiary(), 10, of(diary.ReceiveAddPartitionsToTxnResponse)),
    Reached("a coordinator is deposed", TransactionsDiary(), 1, of(diary.ElectLeader)),
    Reached("a server leads", Kraft(), 4, of(kraft.BecomeLeader)),
    Reached("a value is acknowledged", Kraft(), 11, of(kraft.AcceptFetchRequest)),
    Reached("a server leads", PullRaft(values=1), 5, of(pull_raft.BecomeLeader)),
    Reached("a server has pulled a value", PullRaft(values=1), 9, of(pull_raft.HandleSuccessPullEntriesResponse)),
    Reached("a value is acknowledged", PullRaft(servers=2), 12, of(pull_raft.AcceptPullEntriesRequest)),
    Reached("a value is acknowledged", Kip853(), 6, of(voters.AcceptFetchRequestFromVoter)),
    Reached("a server leads in a later epoch", Kip853(), 4, of(quorum.BecomeLeader)),
    Reached("a value is acknowledged", Kip996(), 6, of(pre_votes.AcceptFetchRequest)),
    Reached("a server leads", PullRaft2(values=1), 5, of(second_pull_raft.BecomeLeader)),
    Reached("a server has pulled a value", PullRaft2(values=1), 10, of(pull_raft.HandleSuccessPullEntriesResponse)),
    Reached("a value is acknowledged", PullRaft2(servers=2), 13, of(pull_raft.AcceptPullEntriesRequest)),
    Reached(
        "a record is returned of a log in which another one was aborted",
        CommittedReads(transactions=2, partitions=1, incarnations=1),
        18,
        of(StartRead),
    ),
    Reached(
        "an unclean election leaves nothing of a log",
        UncleanTransactions(transactions=1, partitions=1, incarnations=1, bounds=Bounds(ElectUnclean=1)),
        7,
        of(ElectUnclean),
    ),
    Reached("an offset expires", Offsets(producers=1, max_entries=3), 4, of(offsets.Expire)),
    Reached(
        "a marker commits what was written before the value that counts",
        Offsets(producers=1, max_entries=3),
        5,
        of(offsets.CommitInTransaction),
    ),
    Reached(
        "a tombstone is gone, and the marker of what it took is left",
        Offsets(producers=1, max_entries=3),
        6,
        of(offsets.Clean),
    ),
    Reached(
        "a load has read of two members that have the partition",
        GroupLoading(max_rounds=1),
        11,
        of(loading.Clean),
    ),
    Reached(
        "a load reads a tombstone of a group that it knows nothing of",
        GroupLoading(members=1, max_changes=2, max_rounds=1),
        4,
        of(loading.Clean),
    ),
    Reached("a group that is gone is loaded", GroupLoading(members=1), 7, of(loading.Delete)),
    Reached("one worker is at a partition, and a record waits", Workers(), 4, of(workers.Begin)),
    Reached(
        "a worker takes the partition over from one that hangs", Workers(bounds=Bounds(Hang=1)), 6, of(workers.Expire)
    ),
    Reached("a record was processed, and cannot be committed", Workers(bounds=Bounds(Expel=1)), 6, of(workers.Expel)),
    Reached(
        "a partition comes back while a worker is at it from before",
        Workers(bounds=Bounds(Expel=1)),
        6,
        of(workers.Learn),
    ),
    Reached(
        "a partition that was asked for waits for its worker", Workers(bounds=Bounds(AskBack=1)), 4, of(workers.Begin)
    ),
    Reached("a tombstone is gone", Compaction(max_records=2, keys=1, max_time=2), 7, of(compaction.EndRound)),
    Reached("a value was dropped", Compaction(max_records=2, keys=1, max_time=1), 6, of(compaction.CleanGroup)),
    Reached("a crash met a swap", Compaction(max_records=2, keys=1, max_time=1), 6, of(compaction.Crash)),
    Reached("a marker has outlived its records", CLEANED, 7, of(transactional.EndTransaction)),
    Reached("a marker is gone", CLEANED, 11, of(transactional.Tick)),
    Reached("a batch without its record keeps a marker", CLEANED, 4, of(transactional.EndTransaction)),
    Reached("a gap is refused", Recovery(max_appends=2, max_crashes=0), 6, of(*recovery.DAMAGE)),
    Reached("a recovery point is rejected", Recovery(max_appends=1), 4, of(*recovery.DAMAGE)),
    Reached("something is kept apart", Recovery(max_appends=2, max_damages=0), 6, of(recovery.Crash)),
    Reached("somebody is served", Authentication(users=1, lifetime=1), 3, into(lambda s: s.user is not None)),
    Reached("a session is renewed", Authentication(users=1, lifetime=1), 4, into(lambda s: s.user is not None)),
    Reached("a session expires", Authentication(users=1, lifetime=1), 3, of(authentication.TimePasses)),
    Reached("a replica is deleted", Membership(), 4, of(membership.Delete)),
    Reached("a replica is kept as a stray", Membership(), 7, of(membership.LoseTail, membership.LoseNote)),
    Reached("a broker is refused", Membership(), 2, of(membership.Meet)),
    Reached("a topic that was deleted while its broker was down", Membership(), 4, of(membership.Delete)),
    Reached("a name is another topic's", RENAMED, 3, of(topics.DeleteTopic)),
    Reached("a partition is being reassigned", MANAGED, 2, of(replicas.Reassign)),
    Reached("a replica is eligible without being in sync", ELIGIBLE, 2, of(brokers.Fence)),
    Reached("a partition waits for a leader", ELIGIBLE, 2, of(brokers.Fence)),
    Reached("a replica was removed", MANAGED, 2, of(brokers.Unregister)),
    Reached("a follower is dropped", Lag(), 3, of(lag.Shrink)),
    Reached("a fetch is at rest for longer than the limit", Lag(), 5, of(lag.AskAgain)),
    Reached("a follower that is behind stays in sync for longer than the limit", Lag(), 6, of(lag.Fetch)),
    Reached("two logs have records", Placement(), 9, of(placement.Fail)),
    Reached("a replica was made anew beside a former log", Placement(), 6, of(placement.Fail)),
    Reached("a replica waits until the controller knows where it is", Placement(), 2, of(placement.Make)),
    Reached("a replica has moved there and back", Moves(), 8, of(moving.Leave)),
    Reached("a process dies between the two names", Moves(), 4, of(moving.Begin)),
    Reached("a replica is kept offline, since it may have moved", Moves(), 4, of(moving.Leave)),
    Reached("a process is let in before the session of the one before it expires", Succession(), 6, of(succession.Die)),
    Reached("two processes run", Succession(), 2, into(lambda s: len(s.running) > 1)),
    Reached(
        "a process is let in that has not the directory of the one before it",
        Succession(),
        6,
        into(lambda s: any(process.directory_id == OTHER for process in s.running)),
    ),
)

GOALS: Final = (
    *OF_REPLICATION,
    *OF_EXTENSIONS,
    *OF_IDEMPOTENCE,
    *OF_TRANSACTIONS,
    *OF_GROUPS,
    *OF_CONSUMERS,
    *OF_MIGRATION,
    *OF_OTHERS,
)
