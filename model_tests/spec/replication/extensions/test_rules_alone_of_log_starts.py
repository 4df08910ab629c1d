"""Rules of log starts asked alone, of damage that is met while a broker runs, and of what processes leave behind."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.kernel.parts import with_part
from tidegauge.spec.replication.actions import Append, ReceiveFetchResponse
from tidegauge.spec.replication.extensions.damage import Damage, damage_of
from tidegauge.spec.replication.extensions.directories import Directories, FailedDirectory
from tidegauge.spec.replication.extensions.late import FetchArrivesLate, LateMessages, LeftBehind
from tidegauge.spec.replication.extensions.lost_logs import LostLogs, LostReplicas
from tidegauge.spec.replication.extensions.reassignment import ReplicaList
from tidegauge.spec.replication.extensions.retention import (
    DeleteRecords,
    ForgottenEpoch,
    LeaderLogStart,
    LogStart,
    Retain,
    Retention,
    log_start_of,
)
from tidegauge.spec.replication.extensions.running_damage import (
    MeetDamage,
    RepairWhileRunning,
    ReportArrivesLate,
    ReportUnread,
    RunningDamage,
    Withdrawn,
    not_reported,
    repaired_is_counted_on_by_nobody,
)
from tidegauge.spec.replication.extensions.shutdown import ControlledShutdown
from tidegauge.spec.replication.faults import Crash, with_session
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.state import (
    NONE,
    Acks,
    AlterPartitionRequest,
    Error,
    FetchRequest,
    FetchResponse,
    PartitionMetadata,
    Record,
    RemoteReplica,
    Replica,
    Session,
    State,
)

STARTS = Replication(brokers=3, extensions=(Retention(),), bounds=Bounds(DeleteRecords=1))
RETENTION = Retention.of(STARTS)
LOG = (Record(0, 0), Record(1, 1), Record(1, 2))


def initial(machine: Replication) -> State:
    return next(iter(machine.initial()))


def starting(offset: int, log: tuple[Record, ...] = LOG, *, knows: bool = True, **changes: Any) -> Replica:
    """A replica whose log starts at an offset, and that knows the epoch before or not."""
    replica = with_part(Replica(log=log, **changes), LogStart(offset, offset))
    return replica if knows else with_part(replica, ForgottenEpoch(offset))


# --- log starts ------------------------------------------------------------------------------------------------------


def test_records_are_deleted_up_to_the_high_watermark() -> None:
    state = initial(STARTS).with_replica(0, starting(1, high_watermark=3, leader=0))
    state = state.with_replica(1, starting(1, high_watermark=2, leader=0))
    assert [one for one in DeleteRecords.candidates(STARTS, state) if one.broker == 0] == [
        DeleteRecords(0, 2),
        DeleteRecords(0, 3),
    ]
    assert [one for one in Retain.candidates(STARTS, state) if one.broker == 1] == [Retain(1, 2)]


@pytest.mark.parametrize(("offset", "after"), [(3, (2, 1)), (2, (2, 1)), (1, (1, 1)), (0, (0, 0))])
def test_a_log_that_is_cut_below_its_start_starts_there(offset: int, after: tuple[int, int]) -> None:
    before = with_part(Replica(log=LOG, flushed=3, high_watermark=3), LogStart(2, 1))
    assert LogStart.of(STARTS.truncated(before, offset)) == LogStart(*after)
    assert len(STARTS.truncated(before, offset).log) == offset


@pytest.mark.parametrize(
    ("start", "checkpoint", "high_watermark"), [(0, 0, 0), (0, 2, 2), (2, 0, 2), (2, 3, 3), (2, 2, 2)]
)
def test_what_is_below_a_log_start_was_committed(start: int, checkpoint: int, high_watermark: int) -> None:
    stopped = starting(start, running=False, checkpoint=checkpoint)
    assert STARTS.restarted(stopped).high_watermark == high_watermark


@pytest.mark.parametrize(
    ("start", "knows", "epoch", "known"),
    [
        (0, True, NONE, (NONE, 0)),
        (0, True, 0, (0, 1)),
        (0, True, 1, (1, 3)),
        (1, True, 0, (0, 1)),
        (1, False, 0, (NONE, 1)),
        (1, False, 1, (1, 3)),
        (2, True, 0, (NONE, 2)),
        (2, True, 1, (1, 3)),
        (3, True, 1, (1, 3)),
        (3, False, 1, (NONE, 3)),
    ],
)
def test_an_epoch_is_known_by_the_records_that_are_left_and_the_last_that_is_gone(
    start: int, epoch: int, known: tuple[int, int], *, knows: bool
) -> None:
    assert RETENTION.known_end_offset(STARTS, starting(start, knows=knows), epoch) == known


@pytest.mark.parametrize(
    ("start", "offset", "epoch", "diverging"),
    [
        (0, 3, 1, None),
        (0, 4, 1, (1, 3)),
        (0, 2, 0, (0, 1)),
        (0, 2, 2, (1, 3)),
        (1, 1, 0, None),
        (2, 2, 0, (NONE, 2)),
        (1, 0, NONE, None),
    ],
)
def test_logs_diverge_by_the_epochs_that_a_leader_knows(
    start: int, offset: int, epoch: int, diverging: tuple[int, int] | None
) -> None:
    request = FetchRequest(1, 0, 2, offset, epoch, 0)
    assert STARTS.diverging_epoch(starting(start, leader=0), request) == diverging


@pytest.mark.parametrize(
    ("start", "knows", "epoch"), [(3, True, 1), (3, False, NONE), (1, False, 1), (1, True, 1), (0, True, 1)]
)
def test_a_follower_that_has_no_record_and_knows_no_epoch_names_none(start: int, epoch: int, *, knows: bool) -> None:
    assert STARTS.fetch_request(starting(start, knows=knows, leader=0), 1).last_fetched_epoch == epoch


@pytest.mark.parametrize(
    ("response", "start", "log"),
    [
        ({"high_watermark": 3}, 2, LOG),
        ({"high_watermark": 1}, 1, LOG),
        ({"error": Error.NOT_LEADER_OR_FOLLOWER}, 0, LOG),
        ({"high_watermark": 3, "diverging_epoch": 1, "diverging_end_offset": 3}, 0, LOG),
        ({"high_watermark": 3, "diverging_epoch": 1, "diverging_end_offset": 2}, 0, LOG[:2]),
        ({"high_watermark": 3, "diverging_epoch": 0, "diverging_end_offset": 2}, 0, LOG[:1]),
        ({"high_watermark": 3, "diverging_epoch": 2, "diverging_end_offset": 2}, 0, LOG),
    ],
)
def test_a_follower_moves_to_its_leaders_log_start_by_a_response_that_serves_it(
    response: dict[str, Any], start: int, log: tuple[Record, ...]
) -> None:
    follower = starting(0, high_watermark=1, leader=0)
    request = FetchRequest(1, 0, 0, 3, 1, 0)
    served = with_part(FetchResponse(request, **response), LeaderLogStart(2))
    after = STARTS.after_response(follower, served)
    assert (log_start_of(after), after.log) == (start, log)


def test_what_a_process_that_is_down_has_committed_it_has_yet_to_find() -> None:
    holds = STARTS.invariants["LogStartWithinCommitted"]
    state = attrs.evolve(initial(STARTS), history=attrs.evolve(initial(STARTS).history, committed=LOG))
    for high_watermark, running, is_right in ((2, True, True), (1, True, False), (1, False, True)):
        replica = starting(2, high_watermark=high_watermark, running=running)
        assert holds(state.with_replica(1, replica)) is is_right
    assert not holds(initial(STARTS).with_replica(1, starting(2, high_watermark=2)))


@pytest.mark.parametrize(
    ("action", "offset", "knows", "kept"),
    [
        (Append(0), 2, True, True),
        (Append(0), 1, True, False),
        (Crash(1, 3), 1, True, True),
        (Crash(1, 3), 0, True, False),
        (ReceiveFetchResponse(FetchResponse(FetchRequest(1, 0, 0, 3, 1, 0))), 1, True, False),
        (ReceiveFetchResponse(FetchResponse(FetchRequest(1, 0, 0, 3, 1, 0))), 0, False, True),
        (Append(0), 1, False, False),
    ],
)
def test_a_log_start_goes_back_in_a_crash_or_where_a_log_that_knows_no_epoch_starts_over(
    action: Action, offset: int, *, knows: bool, kept: bool
) -> None:
    state = initial(STARTS)
    before = with_part(starting(2, knows=knows), LogStart(2, 1))
    monotone = STARTS.step_invariants["LogStartMonotone"]
    assert monotone(state.with_replica(1, before), action, state.with_replica(1, starting(offset))) is kept


@pytest.mark.parametrize(
    ("start", "below", "after", "holds"),
    [
        (0, (), LOG[:2], False),
        (0, LOG[:1], LOG[:1], True),
        (0, LOG[:1], LOG[:2], False),
        (2, (), (), True),
        (1, (), LOG[:2], False),
        (2, (), LOG[:2], False),
        (0, (), (), False),
    ],
)
def test_a_follower_cuts_what_its_leader_has_if_it_starts_over(
    start: int, below: tuple[Record, ...], after: tuple[Record, ...], *, holds: bool
) -> None:
    kept = STARTS.step_invariants["CommonPrefixKept"]
    state = initial(STARTS)
    state = state.with_replica(0, attrs.evolve(state.replicas[0], log=LOG))
    follower = with_part(attrs.evolve(state.replicas[1], log=LOG), LogStart(start, start))
    before = state.with_replica(1, follower)
    response = with_part(FetchResponse(FetchRequest(1, 0, 0, 3, 1, 0)), LeaderLogStart(len(below), below))
    cut = before.with_replica(1, attrs.evolve(follower, log=after))
    assert kept(before, ReceiveFetchResponse(response), cut) is holds
    assert kept(before, Append(0), cut)


# --- what processes leave behind -------------------------------------------------------------------------------------

LATE = Replication(brokers=3, extensions=(LateMessages(),), bounds=Bounds(Crash=1, ArriveLate=2))
FETCH = FetchRequest(1, 0, 0, 0, NONE, 0)
PROPOSAL = AlterPartitionRequest(1, 0, 0, 0, ((0, 0), (1, 0)))


def test_a_process_that_has_died_receives_nothing_of_what_was_left_behind() -> None:
    left = LeftBehind((FETCH,), (FetchResponse(FETCH),), (PROPOSAL,))
    assert left.without_receiver(0) == LeftBehind((), left.responses, left.proposals)
    assert left.without_receiver(1) == LeftBehind(left.fetches, (), left.proposals)
    assert left.without_receiver(2) == left


def test_what_can_arrive_no_more_is_forgotten() -> None:
    state = initial(LATE)
    other = FetchRequest(2, 0, 0, 0, NONE, 0)
    for fetch in (FETCH, other):
        broker = fetch.follower
        state = state.with_replica(broker, with_part(state.replicas[broker], LeftBehind(fetches=(fetch,))))
    once = FetchArrivesLate(FETCH).effect(LATE, state)
    assert [LeftBehind.of(replica).fetches for replica in once.replicas] == [(), (), (other,)]
    assert once.network.fetches == (FETCH,)
    only = attrs.evolve(LATE, bounds=Bounds(Crash=1, ArriveLate=1))
    assert not any(LeftBehind.of(replica).fetches for replica in FetchArrivesLate(FETCH).effect(only, state).replicas)


# --- damage that is met while a broker runs --------------------------------------------------------------------------

RUNNING = Replication(
    brokers=3,
    extensions=(ControlledShutdown(), Directories(), Damage(), LostLogs(), RunningDamage()),
    bounds=Bounds(MeetDamage=1, ReportUnread=1, ReportArrivesLate=1),
)


@pytest.mark.parametrize(
    ("withdrawn", "failed", "may"), [(False, False, True), (True, False, False), (False, True, False)]
)
def test_damage_is_met_where_a_broker_reads_its_log(*, withdrawn: bool, failed: bool, may: bool) -> None:
    state = initial(RUNNING)
    replica = attrs.evolve(state.replicas[1], log=LOG)
    replica = with_part(with_part(replica, Withdrawn(0 if withdrawn else NONE)), FailedDirectory(failed=failed))
    reason = MeetDamage(1, 0).guard(RUNNING, state.with_replica(1, replica))
    assert reason == ("" if may else "broker 1 does not read its log")


@pytest.mark.parametrize(
    ("read_epoch", "read_isr", "may"), [(None, (), True), (1, (0,), False), (0, (0,), True), (1, (0, 1), True)]
)
def test_a_report_comes_again_before_its_broker_has_read_that_nobody_counts_on_it(
    read_epoch: int | None, read_isr: tuple[int, ...], *, may: bool
) -> None:
    state = initial(RUNNING)
    controller = attrs.evolve(state.controller, isr=(0,), leader_epoch=1, partition_epoch=1)
    read = None if read_epoch is None else PartitionMetadata(0, 0, read_epoch, 1, read_isr)
    replica = with_part(attrs.evolve(state.replicas[1], log=LOG, pulled=read), Withdrawn(0, 0))
    state = attrs.evolve(state.with_replica(1, replica), controller=controller)
    assert (ReportUnread(1).guard(RUNNING, state) == "") is may


@pytest.mark.parametrize(
    ("session", "isr", "lost", "part", "may"),
    [
        (Session(), (0,), (), Withdrawn(NONE, 0), True),
        (Session(broker_epoch=1), (0,), (), Withdrawn(NONE, 0), False),
        (Session(fenced=True), (0,), (), Withdrawn(NONE, 0), False),
        (Session(), (), (), Withdrawn(NONE, 0), False),
        (Session(), (0,), (1,), Withdrawn(NONE, 0), False),
        (Session(), (0,), (), Withdrawn(0, 0), False),
        (Session(), (0,), (), Withdrawn(), False),
    ],
)
def test_a_report_arrives_late_of_a_member_that_has_repaired_its_log(
    session: Session, isr: tuple[int, ...], lost: tuple[int, ...], part: Withdrawn, *, may: bool
) -> None:
    state = initial(RUNNING)
    controller = with_session(attrs.evolve(state.controller, isr=isr), 1, session)
    state = attrs.evolve(state, controller=with_part(controller, LostReplicas(lost)))
    state = state.with_replica(1, with_part(state.replicas[1], part))
    assert (ReportArrivesLate(1).guard(RUNNING, state) == "") is may


@pytest.mark.parametrize(
    ("follower", "leader_epoch", "offset", "isr", "holds"),
    [
        (1, 1, 2, (0,), False),
        (1, 1, 1, (0,), True),
        (1, 0, 2, (0,), True),
        (2, 1, 2, (0,), True),
        (1, 0, 0, (0, 1), False),
    ],
)
def test_who_cuts_its_log_is_in_no_isr_and_no_fetch_of_the_epoch_says_that_it_has_more(
    follower: int, leader_epoch: int, offset: int, isr: tuple[int, ...], *, holds: bool
) -> None:
    state = initial(RUNNING)
    controller = attrs.evolve(state.controller, isr=isr, leader_epoch=1)
    fetch = FetchRequest(follower, 0, leader_epoch, offset, 0, 0)
    state = attrs.evolve(state, controller=controller, network=attrs.evolve(state.network, fetches=(fetch,)))
    after = state.with_replica(1, attrs.evolve(state.replicas[1], log=LOG[:1]))
    assert repaired_is_counted_on_by_nobody(after, RepairWhileRunning(1), after) is holds
    assert repaired_is_counted_on_by_nobody(after, Append(0), after)
    unsettled = attrs.evolve(after, history=attrs.evolve(after.history, unsettled=True))
    assert repaired_is_counted_on_by_nobody(after, RepairWhileRunning(1), unsettled)


@pytest.mark.parametrize(
    ("broker_epoch", "isr", "lost", "part", "may"),
    [
        (0, (0,), (), Withdrawn(0, 0), True),
        (0, (0,), (), Withdrawn(NONE, 0), False),
        (1, (0,), (), Withdrawn(0, 0), False),
        (0, (), (), Withdrawn(0, 0), False),
        (0, (0,), (1,), Withdrawn(0, 0), False),
    ],
)
def test_a_registered_broker_reports_that_it_has_met_damage(
    broker_epoch: int, isr: tuple[int, ...], lost: tuple[int, ...], part: Withdrawn, *, may: bool
) -> None:
    state = initial(RUNNING)
    controller = with_part(attrs.evolve(state.controller, isr=isr), LostReplicas(lost))
    replica = with_part(attrs.evolve(state.replicas[1], broker_epoch=broker_epoch), part)
    state = attrs.evolve(state.with_replica(1, replica), controller=controller)
    assert (not_reported(state, 1) == "") is may


@pytest.mark.parametrize(
    ("pulled", "failed", "paused", "may"),
    [
        (None, False, False, True),
        ((0, 1, (0, 1)), False, False, False),
        ((0, 0, (0,)), False, False, False),
        ((NONE, 1, (0,)), False, False, False),
        (None, True, False, False),
        (None, False, True, False),
    ],
)
def test_a_withdrawn_replica_is_repaired_by_what_its_broker_knows(
    pulled: tuple[int, int, tuple[int, ...]] | None, *, failed: bool, paused: bool, may: bool
) -> None:
    state = initial(RUNNING)
    state = attrs.evolve(state, controller=attrs.evolve(state.controller, leader_epoch=1, isr=(0,)))
    known = None if pulled is None else PartitionMetadata(0, pulled[0], pulled[1], 1, pulled[2])
    replica = attrs.evolve(state.replicas[1], log=LOG, leader=NONE, pulled=known, paused=paused)
    replica = with_part(with_part(replica, Withdrawn(1, 0)), FailedDirectory(failed=failed))
    state = state.with_replica(1, replica)
    assert (RepairWhileRunning(1).guard(RUNNING, state) == "") is may
    cut = RepairWhileRunning(1).effect(RUNNING, state).replicas[1]
    assert (cut.log, Withdrawn.of(cut)) == (LOG[:1], Withdrawn(NONE, 0))


@pytest.mark.parametrize(
    ("leader", "leader_epoch", "isr", "may"),
    [(0, 1, (0,), True), (0, 0, (0,), False), (0, 1, (0, 1), False), (1, 1, (1,), True), (1, 1, (0, 1), False)],
)
def test_a_withdrawn_replica_returns_in_a_later_epoch_where_nobody_counts_on_it(
    leader: int, leader_epoch: int, isr: tuple[int, ...], *, may: bool
) -> None:
    metadata = PartitionMetadata(0, leader, leader_epoch, 1, isr)
    replica = with_part(Replica(log=LOG), Withdrawn(1, 0))
    assert RunningDamage.of(RUNNING).may_return(RUNNING, replica, 1, metadata) is may


@pytest.mark.parametrize(
    ("isr", "fenced", "leader_epoch", "lost"),
    [((0, 1), False, 1, (1,)), ((0, 2), True, 0, (1,)), ((0, 2), False, 1, (1,)), ((1,), False, 2, ())],
)
def test_by_a_report_of_damage_one_leader_epoch_begins_but_where_the_broker_is_fenced(
    isr: tuple[int, ...], leader_epoch: int, lost: tuple[int, ...], *, fenced: bool
) -> None:
    """Of the last of the ISR nothing is taken out: it leads, here by an election, and on in the next epoch."""
    before = attrs.evolve(initial(RUNNING).controller, isr=isr)
    if isr == (1,):
        before = attrs.evolve(before, leader=1, leader_epoch=1)
    before = with_session(before, 1, Session(fenced=fenced))
    after, unclean = RunningDamage.of(RUNNING).taken_out(RUNNING, before, 1)
    assert (after.leader_epoch, LostReplicas.of(after).brokers, unclean) == (leader_epoch, lost, False)


@pytest.mark.parametrize(
    ("known_epoch", "leader_epoch", "met_in", "has_lost"),
    [(1, 2, 1, False), (1, 1, 1, True), (1, 0, 1, True), (0, 2, 1, True), (1, 0, NONE, False)],
)
def test_a_leader_of_an_epoch_before_a_repair_counts_on_what_is_cut(
    known_epoch: int, leader_epoch: int, met_in: int, *, has_lost: bool
) -> None:
    known = RemoteReplica(3, known_epoch)
    leader = Replica(leader=0, leader_epoch=leader_epoch, remote=(known,) * 3)
    replica = with_part(Replica(broker_epoch=1), Withdrawn(NONE, met_in))
    assert RUNNING.has_lost_since(leader, 1, replica) is has_lost


@pytest.mark.parametrize(
    ("leader", "isr", "parts", "failed", "applies"),
    [
        (0, (0,), (), False, False),
        (1, (1,), (), False, True),
        (NONE, (0,), (), False, True),
        (0, (0,), (ReplicaList((0, 2)),), False, True),
        (0, (0,), (ReplicaList((0, 1)),), False, False),
        (0, (0,), (), True, True),
    ],
)
def test_who_is_withdrawn_goes_by_metadata_where_it_follows_nobody(
    leader: int, isr: tuple[int, ...], parts: tuple[ReplicaList, ...], *, failed: bool, applies: bool
) -> None:
    metadata = PartitionMetadata(0, leader, 1, 1, isr)
    for part in parts:
        metadata = with_part(metadata, part)
    state = initial(RUNNING)
    state = attrs.evolve(state, history=attrs.evolve(state.history, acks=(Acks.ALL,) * 3))
    replica = with_part(attrs.evolve(state.replicas[1], log=LOG, leader=NONE), Withdrawn(1, 0))
    replica = with_part(replica, FailedDirectory(failed=failed))
    after = RUNNING.metadata_applied(state.with_replica(1, replica), 1, replica, metadata)
    assert (after.replicas[1].leader_epoch == 1) is applies


@pytest.mark.parametrize(
    ("start", "kept", "damaged"), [(1, 3, 1), (1, 1, NONE), (1, 0, NONE), (NONE, 3, NONE), (0, 1, 0)]
)
def test_damage_that_was_met_outlives_the_process_as_far_as_the_log_does(start: int, kept: int, damaged: int) -> None:
    replica = with_part(Replica(log=LOG, flushed=3), Withdrawn(start, 0))
    assert damage_of(RUNNING.survivor(replica, kept)) == damaged


def test_who_is_withdrawn_neither_leads_nor_follows_nor_counts_on_followers() -> None:
    holds = RUNNING.invariants["WithdrawnTakesNoPart"]
    state = initial(RUNNING)
    withdrawn = with_part(attrs.evolve(state.replicas[1], leader=NONE), Withdrawn(0, 0))
    wrong: tuple[dict[str, Any], ...] = ({"leader": 0}, {"remote": (RemoteReplica(),) * 3})
    for changes, is_right in (({}, True), *((one, False) for one in wrong)):
        assert holds(state.with_replica(1, attrs.evolve(withdrawn, **changes))) is is_right
