"""Logs that are removed while their brokers are down: who leads then, by hand, at random and exhaustively."""

from __future__ import annotations

import attrs
import pytest

from tidegauge.model_tests.spec.replication.walk import Walk
from tidegauge.spec.bugs import lost_logs
from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.parts import with_part
from tidegauge.spec.kernel.simulation import simulate
from tidegauge.spec.replication.actions import Append
from tidegauge.spec.replication.control import ApplyMetadata, UncleanElection
from tidegauge.spec.replication.extensions.damage import Damage, DamageLog
from tidegauge.spec.replication.extensions.lost_logs import (
    LogGone,
    LoseLog,
    LostLogs,
    LostReplicas,
    ReportFound,
    ReportLost,
    is_gone,
    lost,
    unassigned,
)
from tidegauge.spec.replication.extensions.shutdown import CleanStop, ControlledShutdown, StopUnasked
from tidegauge.spec.replication.faults import Crash, ExpireSession, Register, Restart, Unfence
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.models import MODELS
from tidegauge.spec.replication.state import NONE, Record, State

EXTENSIONS = (ControlledShutdown(), Damage(), LostLogs())
BOUNDS = Bounds(ExpireSession=9, Crash=9, BeginShutdown=9, DamageLog=9, LoseLog=9, UncleanElection=1)


@pytest.fixture
def walk() -> Walk:
    return Walk(Replication(brokers=3, max_records=3, min_insync_replicas=1, bounds=BOUNDS, extensions=EXTENSIONS))


def back(walk: Walk, broker: int) -> None:
    """A new process that registers and reads the metadata."""
    walk.do(Restart(broker), Register(broker), ApplyMetadata(broker))


def all_gone(walk: Walk, *without_logs: int) -> None:
    """Each has the record, 0 led last, alone, and all of them have died; of these nothing is left."""
    walk.do(Append(0)).fetch(1, 2).do(ExpireSession(1), ExpireSession(2))
    walk.do(Crash(1, 1), Crash(2, 1), Crash(0, 1), ExpireSession(0), *map(LoseLog, without_logs))


def test_a_last_known_leader_without_its_log_says_so_before_it_is_unfenced_and_does_not_lead(walk: Walk) -> None:
    all_gone(walk, 0)
    back(walk, 0)
    assert not walk.enabled(Unfence(0))
    walk.do(ReportLost(0), Unfence(0))
    assert (walk.state.controller.leader, lost(walk.state.controller)) == (NONE, (0,))
    back(walk, 1)
    walk.do(Unfence(1))
    assert walk.state.controller.leader == NONE, "2 may have more"


def test_an_order_takes_a_replica_that_has_its_log(walk: Walk) -> None:
    all_gone(walk, 0)
    back(walk, 0)
    walk.do(ReportLost(0), Unfence(0))
    back(walk, 1)
    walk.do(Unfence(1), UncleanElection())
    assert walk.state.controller.leader == 1


def test_an_order_takes_a_replica_without_its_log_if_no_other_is_live(walk: Walk) -> None:
    all_gone(walk, 0)
    back(walk, 0)
    walk.do(ReportLost(0), Unfence(0), UncleanElection())
    assert walk.state.controller.leader == 0


def test_the_one_replica_that_has_its_log_leads_when_it_is_live(walk: Walk) -> None:
    all_gone(walk, 0, 2)
    for broker in (0, 2):
        back(walk, broker)
        walk.do(ReportLost(broker), Unfence(broker))
    assert walk.state.controller.leader == NONE
    back(walk, 1)
    walk.do(Unfence(1))
    assert walk.state.controller.leader == 1


def test_when_all_have_lost_their_logs_the_last_known_leader_leads(walk: Walk) -> None:
    all_gone(walk, 0, 1, 2)
    for broker in (0, 1, 2):
        assert walk.state.controller.leader == NONE
        back(walk, broker)
        walk.do(ReportLost(broker))
        if broker < 2:
            walk.do(Unfence(broker))
    assert walk.state.controller.leader == 0
    walk.do(ApplyMetadata(0))
    assert not walk.enabled(ReportFound(1))
    assert (lost(walk.state.controller), unassigned(walk.state.controller)) == ((1, 2), (0, 1, 2)), "it leads"
    walk.do(ReportFound(0))
    assert (lost(walk.state.controller), unassigned(walk.state.controller)) == ((1, 2), (1, 2))


def test_who_joins_the_isr_is_not_lost_though_its_broker_has_reported_nothing(walk: Walk) -> None:
    all_gone(walk, 0, 2)
    for broker in (0, 2, 1):
        back(walk, broker)
        walk.do(*[ReportLost(broker)] * (broker != 1), Unfence(broker))
    walk.do(ApplyMetadata(1), ApplyMetadata(0)).fetch(0).fetch(0).decide()
    assert walk.state.controller.isr == (0, 1)
    assert (lost(walk.state.controller), unassigned(walk.state.controller)) == ((2,), (0, 2))


def test_a_lost_replica_is_found_when_it_has_records_again(walk: Walk) -> None:
    all_gone(walk, 0, 2)
    for broker in (0, 2, 1):
        back(walk, broker)
        walk.do(*[ReportLost(broker)] * (broker != 1), Unfence(broker))
    walk.do(ApplyMetadata(1), ApplyMetadata(0))
    assert not walk.enabled(ReportFound(0))
    walk.fetch(0).do(ReportFound(0))
    assert lost(walk.state.controller) == (2,)


def test_a_broker_that_knows_of_another_leader_need_not_say_anything(walk: Walk) -> None:
    walk.do(Append(0)).fetch(1, 2).do(Crash(0, 1), LoseLog(0), ExpireSession(0))
    back(walk, 0)
    assert not is_gone(walk.state.replicas[0])
    walk.do(Unfence(0))


def test_that_a_log_is_gone_outlives_a_process_that_did_not_say_so(walk: Walk) -> None:
    all_gone(walk, 0)
    walk.do(Restart(0), Crash(0, 0))
    back(walk, 0)
    assert not walk.enabled(Unfence(0))


def test_a_log_that_is_damaged_from_its_beginning_may_be_reported_lost(walk: Walk) -> None:
    walk.do(Append(0), Append(0)).fetch(1, 2).do(Crash(0, 2), DamageLog(0, 1), Restart(0), Register(0))
    assert not walk.enabled(ReportLost(0)), "it has a record that can be read"
    walk.do(Crash(0, 2), DamageLog(0, 0), Restart(0), Register(0), ReportLost(0))
    assert lost(walk.state.controller) == (0,)


def test_a_removed_log_voids_the_note_of_a_clean_stop(walk: Walk) -> None:
    walk.do(Append(0), StopUnasked(0))
    assert not walk.enabled(LoseLog(1)), "it is running"
    walk.do(LoseLog(0))
    assert CleanStop.of(walk.state.replicas[0]).broker_epoch == NONE
    assert not walk.enabled(LoseLog(0)), "nothing is left"


# --- what an election may come to ------------------------------------------------------------------------------------


def elected(*, uncleanly: bool = True, active: tuple[int, ...], lost_ones: tuple[int, ...]) -> tuple[State, State]:
    """Before and after broker 0 is elected without its log; the others have records, and of them these are active."""
    (state,) = Replication(brokers=3, extensions=EXTENSIONS).initial()
    for broker in range(3):
        replica = state.replicas[broker]
        replica = with_part(replica, LogGone(True)) if broker == 0 else attrs.evolve(replica, log=(Record(0, broker),))
        state = state.with_replica(broker, replica)
    sessions = tuple(
        attrs.evolve(session, fenced=broker not in active) for broker, session in enumerate(state.controller.sessions)
    )
    controller = attrs.evolve(state.controller, leader=0, sessions=sessions)
    state = attrs.evolve(state, controller=with_part(controller, LostReplicas(lost_ones)))
    history = attrs.evolve(state.history, unsettled=True, superseded_epoch=1)
    return (state if uncleanly else attrs.evolve(state, history=history)), attrs.evolve(state, history=history)


@pytest.mark.parametrize(
    ("active", "lost_ones", "is_right"),
    [((0,), (0,), True), ((0,), (), True), ((0, 1), (0, 1), True), ((0, 1), (0,), False), ((0, 1, 2), (0, 1), False)],
)
def test_where_availability_is_preferred_a_live_replica_with_its_log_comes_first(
    active: tuple[int, ...], lost_ones: tuple[int, ...], is_right: bool
) -> None:
    machine = Replication(brokers=3, unclean_leader_election=True, extensions=EXTENSIONS)
    before, after = elected(active=active, lost_ones=lost_ones)
    assert machine.step_invariants["LostLogLeadsLast"](before, ExpireSession(1), after) is is_right


def test_only_the_step_that_elects_uncleanly_is_asked_who_has_a_log() -> None:
    holds = Replication(brokers=3, extensions=EXTENSIONS).step_invariants["LostLogLeadsLast"]
    before, after = elected(active=(0,), lost_ones=(0,))
    assert not holds(before, ExpireSession(1), after), "others have records"
    assert holds(before, UncleanElection(), after), "somebody has ordered it"
    before, after = elected(uncleanly=False, active=(0,), lost_ones=(0,))
    assert holds(before, ExpireSession(1), after), "it was elected before"


def test_a_lost_replica_that_has_records_again_leads_before_one_that_has_nothing(walk: Walk) -> None:
    """Both were lost; 0 was filled, was in sync and died with its records before its broker could report them."""
    all_gone(walk, 0, 2)
    for broker in (0, 2, 1):
        back(walk, broker)
        walk.do(*[ReportLost(broker)] * (broker != 1), Unfence(broker))
    walk.do(ApplyMetadata(1), ApplyMetadata(0)).fetch(0).fetch(0).decide()
    walk.do(Crash(1, 1), LoseLog(1), ExpireSession(1), ApplyMetadata(0), Crash(0, 1), ExpireSession(0))
    for broker in (1, 0):
        back(walk, broker)
        walk.do(*[ReportLost(1)] * (broker == 1), Unfence(broker))
    assert walk.state.controller.leader == 0


@pytest.mark.deep
def test_every_reachable_state_satisfies_every_invariant() -> None:
    found = explore(MODELS["lost-log"].machine, converges=True)
    assert (found.holds, found.cut, found.unreached) == (True, None, ()), found.violations
    assert found.holds, found.convergence


def test_random_walks_of_three_brokers_find_nothing() -> None:
    bounds = Bounds(Crash=4, LoseLog=3, BeginShutdown=3, ExpireSession=2, DamageLog=2, UncleanElection=1, ShrinkIsr=2)
    machine = attrs.evolve(MODELS["lost-log"].machine, brokers=3, max_records=2, initial_isr=(), bounds=bounds)
    found = simulate(machine, 1, 40, length=80)
    assert found.holds, [str(one.violation) for one in found.violations.values()]


@pytest.mark.parametrize("bug", lost_logs.BUGS, ids=lambda bug: bug.name)
def test_a_wrong_rule_is_found(bug: Bug[Replication]) -> None:
    found = explore(bug.machine())
    assert found.violations, f"nothing is violated in {found.distinct} states"
    assert found.violations[0].invariant in bug.violates
