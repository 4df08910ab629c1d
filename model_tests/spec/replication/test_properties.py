"""Each property is false of a state in which what it forbids has happened, and says nothing beyond its exemptions."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.kernel.parts import Part, with_part
from tidegauge.spec.replication.actions import Append, ReceiveFetchResponse
from tidegauge.spec.replication.composed import everything
from tidegauge.spec.replication.extensions.damage import LoseEnd
from tidegauge.spec.replication.extensions.deletion import Deleted
from tidegauge.spec.replication.extensions.lost_logs import LoseLog
from tidegauge.spec.replication.extensions.reassignment import Assignment, ReplicaList
from tidegauge.spec.replication.extensions.retention import FollowerLogStart, ForgottenEpoch, LogStart, Retention
from tidegauge.spec.replication.faults import ExpireSession, Register
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.properties import changed_replicas
from tidegauge.spec.replication.state import (
    NONE,
    FetchRequest,
    FetchResponse,
    Record,
    RemoteReplica,
    Replica,
    Session,
    State,
)

MACHINES = (Replication(extensions=(Retention(),)), Replication(extensions=everything((0, 1, 2))))


def initial() -> State:
    return next(iter(Replication().initial()))


def with_logs(*logs: tuple[Record, ...]) -> State:
    state = initial()
    for broker, log in enumerate(logs):
        state = state.with_replica(broker, attrs.evolve(state.replicas[broker], log=log))
    return state


def test_logs_that_agree_in_an_epoch_agree_before_it() -> None:
    holds = Replication().invariants["LogMatching"]
    assert holds(with_logs((Record(0, 0), Record(1, 1)), (Record(0, 0), Record(1, 1)), (Record(0, 0),)))
    assert holds(with_logs((Record(0, 0), Record(1, 1)), (Record(0, 0), Record(2, 2))))
    assert not holds(with_logs((Record(0, 0), Record(1, 1)), (Record(0, 2), Record(1, 1))))


def test_what_a_consumer_saw_is_what_a_leader_shows() -> None:
    holds = Replication().invariants["ConsistentRead"]
    state = with_logs((Record(0, 0),))
    shown = state.with_replica(0, attrs.evolve(state.replicas[0], high_watermark=1))
    seen = attrs.evolve(shown.history, committed=(Record(0, 0), Record(0, 1)))
    other = attrs.evolve(shown.history, committed=(Record(0, 7),))
    assert holds(shown)
    assert holds(attrs.evolve(shown, history=seen))
    assert not holds(attrs.evolve(shown, history=other))


@pytest.mark.parametrize("machine", MACHINES, ids=["retention", "composed"])
def test_a_log_start_that_goes_back_is_a_violation_unless_an_election_was_unclean(machine: Replication) -> None:
    monotone, true = machine.step_invariants["LogStartMonotone"], machine.invariants["LowWatermarkIsTrue"]
    (after,) = machine.initial()
    leader = after.replicas[0]
    before = after.with_replica(1, with_part(after.replicas[1], LogStart(2, 2)))
    assert monotone(after, Append(0), before)
    assert not monotone(before, Append(0), after)
    told = with_part(attrs.evolve(leader.remote[1], end_offset=2), FollowerLogStart(2))
    knowing = attrs.evolve(leader, remote=(leader.remote[0], told, leader.remote[2]))
    assert true(before.with_replica(0, knowing))
    assert not true(after.with_replica(0, knowing))
    unclean = attrs.evolve(after, history=attrs.evolve(after.history, superseded_epoch=1))
    assert monotone(before, Append(0), unclean)
    assert true(unclean.with_replica(0, knowing))


def superseded(state: State, epoch: int = 1, *, unsettled: bool = False) -> State:
    """After an unclean election of the leader of this epoch."""
    return attrs.evolve(state, history=attrs.evolve(state.history, superseded_epoch=epoch, unsettled=unsettled))


def test_of_many_logs_each_is_compared_with_each_at_every_offset() -> None:
    holds = Replication(brokers=4).invariants["LogMatching"]
    first = (Record(0, 0), Record(1, 1), Record(1, 2))
    other = (Record(9, 7), Record(1, 1), Record(2, 3))
    apart = ((Record(5, 5),), (Record(6, 6),))
    for place in range(4):
        for another in range(place + 1, 4):
            rest = list(apart)
            logs = [first if n == place else other if n == another else rest.pop() for n in range(4)]
            replicas = tuple(attrs.evolve(Replica(), log=log) for log in logs)
            assert not holds(attrs.evolve(initial(), replicas=replicas)), (place, another)


def test_a_leader_that_was_overtaken_promises_nothing_and_one_that_was_not_does() -> None:
    holds = Replication().invariants["ConsistentRead"]
    state = with_logs((Record(0, 0),))
    shown = state.with_replica(0, attrs.evolve(state.replicas[0], high_watermark=1))
    other = attrs.evolve(shown, history=attrs.evolve(shown.history, committed=(Record(0, 7),)))
    assert not holds(superseded(other, 0))
    assert holds(superseded(other, 1))


def test_who_is_in_sync_has_what_is_shown_once_it_is_settled_what_is_lost() -> None:
    holds = Replication().invariants["StrongIsr"]
    state = with_logs((Record(0, 0),))
    shown = state.with_replica(0, attrs.evolve(state.replicas[0], high_watermark=1))
    assert not holds(shown)
    assert not holds(superseded(shown, 0))
    assert holds(superseded(shown, 0, unsettled=True))


def test_what_changed_is_asked_anew_if_either_state_is_another_one() -> None:
    one, other, third = (with_logs((Record(0, value),)) for value in range(3))
    later = third.with_replica(0, one.replicas[0])
    assert [broker for broker, _, _ in changed_replicas(one, later)] == [1, 2]
    assert [broker for broker, _, _ in changed_replicas(other, later)] == [0, 1, 2]
    assert [broker for broker, _, _ in changed_replicas(other, one)] == [0, 1, 2]


@pytest.mark.parametrize(
    ("leads", "cut", "kept"),
    [
        ((Record(0, 0), Record(0, 1)), 1, False),
        ((Record(0, 0), Record(1, 1)), 1, True),
        ((Record(0, 0),), 1, True),
        ((Record(0, 0),), 0, False),
        ((Record(0, 0), Record(0, 1)), 2, True),
    ],
)
def test_a_follower_cuts_nothing_that_its_leader_has(leads: tuple[Record, ...], cut: int, *, kept: bool) -> None:
    holds = Replication().step_invariants["CommonPrefixKept"]
    before = with_logs(leads, (Record(0, 0), Record(0, 1)))
    after = before.with_replica(1, attrs.evolve(before.replicas[1], log=before.replicas[1].log[:cut]))
    response = FetchResponse(FetchRequest(1, 0, 0, 2, 0, 0), diverging_epoch=0, diverging_end_offset=cut)
    assert holds(before, ReceiveFetchResponse(response), after) is kept


@pytest.mark.parametrize(
    ("leader_of", "known_epoch", "holds_it"),
    [((0,), 1, False), ((0,), 0, True), ((1,), 0, False), ((), 0, False), ((0, 2), 0, True)],
)
def test_of_who_holds_a_record_the_leaders_know_who_may_have_lost_it(
    leader_of: tuple[int, ...], known_epoch: int, *, holds_it: bool
) -> None:
    """Broker 1 lacks it: it had it before it began anew, as far as another broker that leads knows."""
    machine = Replication(min_insync_replicas=3)
    state = with_logs((Record(0, 0),), (), (Record(0, 0),))
    for broker, replica in enumerate(state.replicas):
        known = (RemoteReplica(1, known_epoch if broker == 0 else 1),) * 3
        leads = broker if broker in leader_of else NONE
        state = state.with_replica(broker, attrs.evolve(replica, leader=leads, remote=known, broker_epoch=1))
    sessions = (Session(broker_epoch=1),) * 3
    state = attrs.evolve(state, controller=attrs.evolve(state.controller, sessions=sessions))
    told = attrs.evolve(state, history=attrs.evolve(state.history, acknowledged=(0,)))
    assert machine.step_invariants["AcknowledgedByEnough"](state, Append(0), told) is holds_it


def test_a_high_watermark_gets_smaller_with_the_process_alone() -> None:
    holds = Replication().step_invariants["HighWatermarkMonotone"]
    before = initial().with_replica(0, attrs.evolve(initial().replicas[0], log=(Record(0, 0),), high_watermark=1))
    after = before.with_replica(0, attrs.evolve(before.replicas[0], high_watermark=0))
    assert not holds(before, Append(0), after)
    assert holds(before, Append(0), before.with_replica(0, attrs.evolve(after.replicas[0], running=False)))
    assert holds(before, Append(0), before.with_replica(0, attrs.evolve(after.replicas[0], leader_epoch=1)))


@pytest.mark.parametrize(
    ("action", "elr", "kept"),
    [
        (Append(0), (), False),
        (Append(0), (1,), True),
        (Register(1), (), True),
        (Register(2), (), False),
        (ExpireSession(1), (), False),
    ],
)
def test_who_leaves_a_small_isr_stays_eligible_until_it_starts_anew(
    action: Action, elr: tuple[int, ...], *, kept: bool
) -> None:
    holds = Replication(min_insync_replicas=3).step_invariants["EligibleLeadersKept"]
    before = attrs.evolve(initial(), controller=attrs.evolve(initial().controller, isr=(0, 1)))
    after = attrs.evolve(before, controller=attrs.evolve(before.controller, isr=(0,), elr=elr))
    assert holds(before, action, after) is kept


def test_a_broker_that_is_down_is_shown_to_be() -> None:
    state = initial().with_replica(1, attrs.evolve(initial().replicas[1], running=False))
    shown = Replication().explain("WeakIsr", state)
    assert ["down" in str(shown[f"broker {broker}"]) for broker in range(3)] == [False, True, False]


# --- all extensions together ---------------------------------------------------------------------------------------

TOGETHER = Replication(extensions=everything((0, 1, 2)))


def with_start(state: State, broker: int, offset: int, checkpoint: int = 0) -> State:
    return state.with_replica(broker, with_part(state.replicas[broker], LogStart(offset, checkpoint)))


@pytest.mark.parametrize(
    ("start", "leads", "replicas", "superseded_epoch", "is_true"),
    [
        (1, 0, (0, 1, 2), NONE, True),
        (2, 0, (0, 1, 2), NONE, True),
        (0, 0, (0, 1, 2), NONE, False),
        (0, 1, (0, 1, 2), NONE, True),
        (0, 0, (0, 2), NONE, True),
        (0, 0, (0, 1, 2), 0, True),
    ],
)
def test_what_a_leader_knows_of_a_log_start_is_true_of_replicas_while_nobody_overtakes_it(
    start: int, leads: int, replicas: tuple[int, ...], superseded_epoch: int, *, is_true: bool
) -> None:
    (state,) = TOGETHER.initial()
    leader = state.replicas[0]
    told = with_part(attrs.evolve(leader.remote[1], end_offset=2), FollowerLogStart(1))
    state = state.with_replica(0, attrs.evolve(leader, remote=(leader.remote[0], told, leader.remote[2])))
    controller = attrs.evolve(with_part(state.controller, Assignment(replicas)), leader=leads)
    state = superseded(attrs.evolve(with_start(state, 1, start), controller=controller), superseded_epoch)
    assert TOGETHER.invariants["LowWatermarkIsTrue"](state) is is_true


@pytest.mark.parametrize(
    ("action", "offset", "changes", "parts", "kept"),
    [
        (Append(0), 2, {}, (), True),
        (Append(0), 1, {}, (), False),
        (Append(0), 1, {"running": False}, (), True),
        (Append(0), 0, {"running": False}, (), False),
        (Append(0), 1, {}, (Deleted(is_deleted=True),), True),
        (Append(0), 1, {}, (ReplicaList((0, 2)),), True),
        (Append(0), 1, {}, (ReplicaList(),), False),
        (LoseEnd(1, 0), 0, {}, (), True),
        (LoseEnd(2, 0), 0, {}, (), False),
        (LoseLog(1), 0, {}, (), True),
        (LoseLog(2), 0, {}, (), False),
    ],
)
def test_a_log_start_of_a_replica_goes_back_to_what_was_written_when_its_broker_stops_or_with_the_log(
    action: Action, offset: int, changes: dict[str, Any], parts: tuple[Part, ...], *, kept: bool
) -> None:
    (state,) = TOGETHER.initial()
    before = with_start(state, 1, 2, 1)
    after = attrs.evolve(with_start(state, 1, offset).replicas[1], **changes)
    for part in parts:
        after = with_part(after, part)
    monotone = TOGETHER.step_invariants["LogStartMonotone"]
    assert monotone(before, action, before.with_replica(1, after)) is kept
    assert monotone(before, action, superseded(before.with_replica(1, after)))


def test_a_log_that_knows_no_epoch_may_start_over_where_its_leader_does() -> None:
    (state,) = TOGETHER.initial()
    before = with_start(state, 1, 2, 2)
    after = with_start(before, 1, 1, 1)
    response = ReceiveFetchResponse(FetchResponse(FetchRequest(1, 0, 0, 2, 0, 0)))
    monotone = TOGETHER.step_invariants["LogStartMonotone"]
    assert not monotone(before, response, after)
    forgetful = before.with_replica(1, with_part(before.replicas[1], ForgottenEpoch(2)))
    assert monotone(forgetful, response, after)
    assert not monotone(forgetful, Append(0), after)
