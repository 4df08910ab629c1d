"""Rules of the extensions of replication asked alone: damage, deletions, directories, late messages, lost logs."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.guarded import Refusal
from tidegauge.spec.kernel.parts import Part, with_part
from tidegauge.spec.replication.actions import Append
from tidegauge.spec.replication.control import UncleanElection
from tidegauge.spec.replication.extensions.damage import Damage, Damaged, RepairLog, damage_of
from tidegauge.spec.replication.extensions.deletion import Deletion, FetchOfFormer, FormerLog, ProposalOfFormer
from tidegauge.spec.replication.extensions.directories import (
    Directories,
    FailedDirectory,
    LeftLog,
    LoseTail,
    OfflineReplicas,
    ReplicaOffline,
    has_failed,
    log_that_failed,
)
from tidegauge.spec.replication.extensions.late import (
    HeartbeatArrivesLate,
    LateMessages,
    LeftBehind,
    ProposalArrivesLate,
    ResponseArrivesLate,
)
from tidegauge.spec.replication.extensions.lost_logs import (
    LogGone,
    LostLogs,
    LostReplicas,
    ReportFound,
    Unassigned,
    is_gone,
    lost_log_leads_last,
)
from tidegauge.spec.replication.extensions.reassignment import Reassignment, ReplicaList
from tidegauge.spec.replication.extensions.shutdown import ControlledShutdown
from tidegauge.spec.replication.faults import with_session
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.state import (
    NONE,
    AlterPartitionRequest,
    Controller,
    Error,
    FetchRequest,
    FetchResponse,
    PartitionMetadata,
    Record,
    Replica,
    Session,
    State,
)

FIRST, SECOND = Record(0, 0), Record(0, 1)


def initial(machine: Replication) -> State:
    return next(iter(machine.initial()))


def with_replica(state: State, broker: int, *parts: Part, **changes: Any) -> State:
    """The state with something of a replica changed."""
    replica = attrs.evolve(state.replicas[broker], **changes)
    for part in parts:
        replica = with_part(replica, part)
    return state.with_replica(broker, replica)


def with_controller(state: State, *parts: Part, **changes: Any) -> State:
    controller = attrs.evolve(state.controller, **changes)
    for part in parts:
        controller = with_part(controller, part)
    return attrs.evolve(state, controller=controller)


# --- damage ----------------------------------------------------------------------------------------------------------

DAMAGE = Replication(brokers=3, extensions=(ControlledShutdown(), Damage()), bounds=Bounds(DamageLog=1))


@pytest.mark.parametrize(
    ("changes", "pulled_isr", "may"),
    [
        ({}, None, True),
        ({}, (0,), True),
        ({}, (0, 1), False),
        ({"paused": True}, None, False),
        ({"running": False}, None, False),
        ({"parts": ()}, None, False),
    ],
)
def test_a_damaged_replica_is_repaired_by_what_its_broker_knows(
    changes: dict[str, Any], pulled_isr: tuple[int, ...] | None, *, may: bool
) -> None:
    pulled = None if pulled_isr is None else PartitionMetadata(0, 0, 0, 1, pulled_isr)
    state = with_controller(initial(DAMAGE), isr=(0, 2))
    state = with_replica(state, 1, Damaged(0), leader=NONE, log=(FIRST,), pulled=pulled)
    assert (RepairLog(1).guard(DAMAGE, with_replica(state, 1, **changes)) == "") is may


@pytest.mark.parametrize(("kept", "start"), [(2, 1), (1, NONE), (0, NONE)])
def test_damage_outlives_a_process_as_far_as_the_log_does(kept: int, start: int) -> None:
    replica = with_part(Replica(log=(FIRST, SECOND), flushed=2), Damaged(1))
    assert damage_of(DAMAGE.survivor(replica, kept)) == start


@pytest.mark.parametrize(
    ("leader", "isr", "parts", "is_failed", "applies"),
    [
        (0, (0,), (), False, False),
        (1, (1,), (), False, True),
        (1, (0, 1), (), False, False),
        (NONE, (0,), (), False, True),
        (NONE, (1,), (), False, False),
        (NONE, (), (), False, True),
        (0, (0,), (ReplicaList((0, 2)),), False, True),
        (0, (0,), (ReplicaList((0, 1)),), False, False),
        (0, (0,), (), True, True),
    ],
)
def test_a_damaged_replica_leads_alone_or_waits_or_is_taken_away_before_it_is_repaired(
    leader: int, isr: tuple[int, ...], parts: tuple[Part, ...], *, is_failed: bool, applies: bool
) -> None:
    metadata = PartitionMetadata(0, leader, 1, 1, isr)
    for part in parts:
        metadata = with_part(metadata, part)
    failed = FailedDirectory(failed=is_failed)
    state = with_replica(initial(DAMAGE), 1, Damaged(0), failed, leader=NONE, log=(FIRST,))
    after = DAMAGE.metadata_applied(state, 1, state.replicas[1], metadata)
    assert (after.replicas[1].leader_epoch == 1) is applies


def test_a_repair_is_no_fall_of_a_leaders_high_watermark() -> None:
    before = with_replica(initial(DAMAGE), 0, log=(FIRST,), high_watermark=1)
    after = with_replica(initial(DAMAGE), 0)
    holds = DAMAGE.step_invariants["HighWatermarkMonotone"]
    assert holds(before, RepairLog(0), after)
    assert not holds(before, Append(0), after)


# --- deletion --------------------------------------------------------------------------------------------------------

FORMER = Replication(brokers=3, extensions=(Reassignment((0, 1, 2)), Deletion(former=(2,))), bounds=Bounds())


def test_a_broker_that_has_the_former_topic_is_refused_by_all_who_lead_the_new_one() -> None:
    state = initial(FORMER)
    former = FetchOfFormer(FetchRequest(2, 0, 0, 1, 0, 0))
    assert list(FetchOfFormer.attempts(FORMER, state)) == [former]
    assert list(FetchOfFormer.attempts(FORMER, with_replica(state, 2, leader=2))) == [former]
    assert not list(FetchOfFormer.attempts(FORMER, with_replica(state, 0, leader=1)))
    assert not list(FetchOfFormer.attempts(FORMER, with_replica(state, 2, FormerLog())))
    reason = former.guard(FORMER, state)
    assert isinstance(reason, Refusal)
    assert reason.error is Error.UNKNOWN_TOPIC_ID
    assert not isinstance(former.guard(FORMER, with_replica(state, 0, paused=True)), Refusal)


def test_a_proposal_of_who_leads_the_former_topic_is_refused_with_all_that_is_right_besides() -> None:
    state = initial(FORMER)
    (proposal,) = ProposalOfFormer.attempts(FORMER, state)
    everybody = ((0, 0), (1, 0), (2, 0))
    assert proposal == ProposalOfFormer(AlterPartitionRequest(2, 0, 0, 0, everybody))
    reason = proposal.guard(FORMER, state)
    assert isinstance(reason, Refusal)
    assert reason.error is Error.UNKNOWN_TOPIC_ID


class BelievesFormer(Deletion):
    """Takes what is of the former topic for its own."""

    def former_fetch_error(self, machine: Any, leader: Replica, request: FetchRequest) -> Error:
        return Error.OK

    def former_proposal_error(self, machine: Any, controller: Controller, request: AlterPartitionRequest) -> Error:
        return Error.OK


def test_who_believes_a_former_follower_takes_note_of_what_that_has() -> None:
    machine = attrs.evolve(FORMER, extensions=(Reassignment((0, 1, 2)), BelievesFormer(former=(2,))))
    state = initial(machine)
    (fetch,) = FetchOfFormer.attempts(machine, state)
    assert fetch.guard(machine, state) == ""
    leading = with_replica(state, 0, log=(FIRST,))
    assert fetch.effect(machine, leading).replicas[0].remote[2].end_offset == 1
    (proposal,) = ProposalOfFormer.attempts(machine, state)
    assert proposal.guard(machine, state) == ""


# --- directories -----------------------------------------------------------------------------------------------------

DIRECTORIES = Replication(
    brokers=3,
    extensions=(ControlledShutdown(), Directories(), Reassignment((0, 1))),
    bounds=Bounds(FailDirectory=1),
)
FAILED = FailedDirectory(failed=True)


def test_of_replicas_that_stay_those_are_offline_or_lost_that_were() -> None:
    assert OfflineReplicas((0, 1)).only_on((1, 2)) == OfflineReplicas((1,))
    assert LostReplicas((0, 1)).only_on((1, 2)) == LostReplicas((1,))
    assert Unassigned((0, 1)).only_on((1, 2)) == Unassigned((1,))


@pytest.mark.parametrize(
    ("broker", "parts", "broker_epoch", "why"),
    [
        (1, (FAILED,), 0, ""),
        (1, (), 0, "the log directory of broker 1 works"),
        (1, (), NONE, "broker 1 has reported nothing of its log directory"),
        (2, (FAILED,), 0, "broker 2 has no replica, as far as the controller knows"),
    ],
)
def test_a_broker_reports_the_directory_of_a_replica_that_has_failed(
    broker: int, parts: tuple[Part, ...], broker_epoch: int, why: str
) -> None:
    state = with_replica(initial(DIRECTORIES), broker, *parts, broker_epoch=broker_epoch)
    assert ReplicaOffline(broker).guard(DIRECTORIES, state) == why


@pytest.mark.parametrize(
    ("kept", "running", "parts", "may"),
    [
        (1, False, (FAILED,), True),
        (2, False, (FAILED,), True),
        (0, False, (FAILED,), False),
        (3, False, (FAILED,), False),
        (1, True, (FAILED,), False),
        (1, False, (), False),
    ],
)
def test_a_failed_directory_turns_out_to_have_kept_less_than_there_was_and_what_was_flushed(
    kept: int, parts: tuple[Part, ...], *, running: bool, may: bool
) -> None:
    log = (FIRST, SECOND, Record(0, 2))
    state = with_replica(initial(DIRECTORIES), 1, *parts, log=log, flushed=1, running=running)
    assert (LoseTail(1, kept).guard(DIRECTORIES, state) == "") is may
    offered = [LoseTail(1, 1), LoseTail(1, 2)] if parts and not running else []
    assert list(LoseTail.candidates(DIRECTORIES, state)) == offered


def test_a_log_that_cannot_be_deleted_is_left_in_its_directory() -> None:
    replica = Replica(log=(FIRST, SECOND), flushed=1, leader=0)
    assert DIRECTORIES.taken_away(replica).log == ()
    assert LeftLog.of(DIRECTORIES.taken_away(replica)).replica is None
    taken = DIRECTORIES.taken_away(with_part(replica, FAILED))
    left = LeftLog.of(taken).replica
    assert (taken.log, has_failed(taken)) == ((), False)
    assert left is not None
    assert (left.log, left.flushed, has_failed(left)) == ((FIRST, SECOND), 1, True)
    assert DIRECTORIES.on_disk(taken) == left
    assert DIRECTORIES.on_disk(replica) == replica
    assert [log_that_failed(one) for one in (replica, with_part(replica, FAILED), taken)] == [(), replica.log, left.log]


@pytest.mark.parametrize(
    ("old", "new", "holds"),
    [
        ((FAILED,), (FAILED,), True),
        ((FAILED,), (), False),
        ((LeftLog(Replica(log=(FIRST,))),), (), True),
        ((LeftLog(Replica(log=(FIRST,))),), (LeftLog(Replica(log=(SECOND,))),), False),
        ((LeftLog(Replica(log=(FIRST,))),), (LeftLog(Replica(log=(FIRST,))),), True),
        ((), (FAILED,), True),
    ],
)
def test_in_the_life_of_a_process_a_failed_directory_keeps_its_log_or_it_is_forgotten(
    old: tuple[Part, ...], new: tuple[Part, ...], *, holds: bool
) -> None:
    keeps = DIRECTORIES.step_invariants["FailedKeepsItsLog"]
    state = with_replica(initial(DIRECTORIES), 1, log=(FIRST,))
    before, after = with_replica(state, 1, *old), with_replica(state, 1, *new, paused=True)
    assert keeps(before, Append(0), after) is holds
    assert keeps(with_replica(before, 1, running=False), Append(0), after)
    assert keeps(before, Append(0), with_replica(after, 1, running=False))


# --- late messages ---------------------------------------------------------------------------------------------------

LATE = Replication(brokers=3, extensions=(LateMessages(),), bounds=Bounds(Crash=1, ArriveLate=1))


def test_a_proposal_arrives_late_that_was_left_behind() -> None:
    proposal = AlterPartitionRequest(1, 0, 0, 0, ((0, 0), (1, 0)))
    state = initial(LATE)
    assert ProposalArrivesLate(proposal).guard(LATE, state)
    assert not ProposalArrivesLate(proposal).guard(LATE, with_replica(state, 1, LeftBehind(proposals=(proposal,))))


@pytest.mark.parametrize(
    ("left", "changes", "may"),
    [
        (True, {}, True),
        (False, {}, False),
        (True, {"running": False}, False),
        (True, {"broker_epoch": 1}, False),
        (True, {"outstanding": (FetchRequest(1, 0, 0, 0, NONE, 0),)}, False),
    ],
)
def test_a_response_arrives_late_at_the_process_that_has_fetched(
    changes: dict[str, Any], *, left: bool, may: bool
) -> None:
    response = FetchResponse(FetchRequest(1, 0, 0, 0, NONE, 0))
    state = with_replica(initial(LATE), 1, **changes)
    state = with_replica(state, 0, LeftBehind(responses=(response,) if left else ()))
    assert (ResponseArrivesLate(response).guard(LATE, state) == "") is may


class BelievesHeartbeats(LateMessages):
    """Takes the heartbeat of a former process for one of the present one."""

    def heartbeat_error(self, machine: Any, inner: Any, controller: Controller, broker: int, epoch: int) -> Error:
        return Error.OK


def test_a_late_heartbeat_unfences_nobody_but_where_it_is_believed() -> None:
    believing = attrs.evolve(LATE, extensions=(BelievesHeartbeats(),))
    for machine, fenced in ((LATE, True), (believing, False)):
        state = initial(machine)
        registered = with_session(state.controller, 1, Session(broker_epoch=1, fenced=True))
        state = attrs.evolve(state, controller=registered)
        after = HeartbeatArrivesLate(1, 0).effect(machine, state)
        assert after.controller.sessions[1].fenced is fenced


# --- lost logs -------------------------------------------------------------------------------------------------------

LOST = Replication(brokers=3, extensions=(ControlledShutdown(), Damage(), LostLogs()), bounds=Bounds(LoseLog=1))
GONE = LogGone(gone=True)


def electing(
    lost: tuple[int, ...], isr: tuple[int, ...] = (), elr: tuple[int, ...] = (), fenced: tuple[int, ...] = ()
) -> Controller:
    before = initial(LOST).controller
    sessions = tuple(Session(fenced=broker in fenced) for broker in range(3))
    chosen = attrs.evolve(before, leader=NONE, isr=isr, elr=elr, sessions=sessions, last_known_leader=0)
    return with_part(chosen, LostReplicas(lost))


@pytest.mark.parametrize(
    ("controller", "unclean", "elected"),
    [
        (electing((), isr=(1,)), False, (1, False)),
        (electing((), isr=(1,), fenced=(1,)), False, (NONE, False)),
        (electing((), elr=(1,), fenced=(1,)), False, (NONE, False)),
        (electing((), elr=(2,)), False, (2, False)),
        (electing(()), False, (0, True)),
        (electing((0,)), False, (NONE, False)),
        (electing((0, 1)), False, (2, True)),
        (electing((0, 1), fenced=(2,)), False, (NONE, False)),
        (electing((0, 1), fenced=(0,)), False, (2, True)),
        (electing((0, 1, 2)), False, (0, True)),
        (electing((0,)), True, (1, True)),
        (electing((0, 1, 2)), True, (0, True)),
        (electing((1,), isr=(2,), fenced=(0, 2)), True, (1, True)),
    ],
)
def test_a_lost_replica_is_elected_after_those_that_are_not(
    controller: Controller, elected: tuple[int, bool], *, unclean: bool
) -> None:
    assert LOST.elect(controller, unclean=unclean) == elected


@pytest.mark.parametrize(
    ("gone", "running", "told", "may"),
    [(True, True, False, False), (True, True, True, True), (False, True, False, True), (True, False, False, True)],
)
def test_a_broker_is_let_in_when_it_has_said_what_is_gone(*, gone: bool, running: bool, told: bool, may: bool) -> None:
    replica = with_part(Replica(running=running), LogGone(gone=gone))
    assert (LOST.not_unfenced(electing((1,) if told else ()), replica, 1) == "") is may


def test_the_disk_remembers_that_a_log_is_gone_until_it_has_records() -> None:
    for part, kept, remembers in ((GONE, 0, True), (GONE, 1, False), (LogGone(), 0, False)):
        replica = with_part(Replica(log=(FIRST,) * kept), part)
        assert is_gone(LOST.survivor(replica, kept)) is remembers


@pytest.mark.parametrize(
    ("broker_epoch", "changes", "may"),
    [(0, {"log": (FIRST,)}, True), (1, {"log": (FIRST,)}, False), (0, {"isr": (0, 2)}, False), (0, {}, True)],
)
def test_a_broker_that_has_registered_reports_where_its_replica_is_again(
    broker_epoch: int, changes: dict[str, Any], *, may: bool
) -> None:
    state = with_controller(initial(LOST), Unassigned((1,)))
    state = with_replica(state, 1, broker_epoch=broker_epoch, **changes)
    assert (ReportFound(1).guard(LOST, state) == "") is may


def elected(leader: int, *, unclean: bool = True) -> State:
    """Somebody leads by an unclean election, and nobody has a record."""
    state = with_controller(initial(LOST), leader=leader, leader_epoch=1)
    superseded = 1 if unclean else NONE
    return attrs.evolve(state, history=attrs.evolve(state.history, superseded_epoch=superseded, unsettled=unclean))


@pytest.mark.parametrize(
    ("parts", "lost", "records_of", "holds"),
    [
        ((GONE,), (), (), True),
        ((GONE,), (), (1,), False),
        ((GONE,), (0,), (1,), False),
        ((), (0,), (1,), False),
        ((), (), (1,), True),
        ((GONE,), (1,), (1,), True),
        ((GONE,), (), (0, 1), True),
    ],
)
def test_who_has_lost_its_log_is_elected_if_nobody_else_has_records(
    parts: tuple[Part, ...], lost: tuple[int, ...], records_of: tuple[int, ...], *, holds: bool
) -> None:
    leads_last = lost_log_leads_last(LOST)
    before = with_controller(initial(LOST), LostReplicas(lost))
    after = with_replica(elected(0), 0, *parts)
    for broker in records_of:
        after = with_replica(after, broker, log=(FIRST,))
    assert leads_last(before, Append(0), after) is holds
    assert leads_last(before, UncleanElection(), after)
    settled = attrs.evolve(after.history, unsettled=False)
    assert leads_last(before, Append(0), attrs.evolve(after, history=settled))
    assert leads_last(after, Append(0), after)
    assert leads_last(before, Append(0), with_replica(after, 0, broker_epoch=1))


@pytest.mark.parametrize(
    ("lost", "fenced", "holds"),
    [
        ((), (), False),
        ((), (1,), False),
        ((), (1, 2), True),
        ((1, 2), (), True),
        ((1,), (2,), True),
        ((0, 1, 2), (), True),
    ],
)
def test_a_topic_that_waits_for_nobody_takes_who_is_live_and_not_lost(
    lost: tuple[int, ...], fenced: tuple[int, ...], *, holds: bool
) -> None:
    machine = attrs.evolve(LOST, unclean_leader_election=True)
    before = with_controller(initial(LOST), LostReplicas(lost))
    after = with_replica(elected(0), 0, GONE)
    for broker in fenced:
        fencing = with_session(after.controller, broker, Session(fenced=True))
        after = attrs.evolve(after, controller=fencing)
    assert lost_log_leads_last(machine)(before, Append(0), after) is holds
