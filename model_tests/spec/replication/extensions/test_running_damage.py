"""Damage that a broker meets while it runs, and its repair in the same process: by hand and exhaustively."""

from __future__ import annotations

import attrs
import pytest

from tidegauge.model_tests.spec.replication.walk import Walk
from tidegauge.spec.bugs import running_damage
from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.bugs.running_damage import RepairsInTheSameEpoch
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.machine import Action, NotEnabled
from tidegauge.spec.replication.actions import Append, ReceiveFetch, SendFetch
from tidegauge.spec.replication.control import ApplyMetadata, PullMetadata
from tidegauge.spec.replication.extensions.damage import Damage, damage_of
from tidegauge.spec.replication.extensions.lost_logs import LostLogs, ReportFound, lost
from tidegauge.spec.replication.extensions.running_damage import (
    MeetDamage,
    RepairWhileRunning,
    ReportArrivesLate,
    ReportDamaged,
    ReportUnread,
    RunningDamage,
    is_withdrawn,
)
from tidegauge.spec.replication.extensions.shutdown import CleanStop, ControlledShutdown, StopUnasked
from tidegauge.spec.replication.faults import Crash, ExpireSession, Unfence
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.models import MODELS
from tidegauge.spec.replication.rules import ReplicationRules
from tidegauge.spec.replication.state import NONE, Error, FetchRequest, State

MODEL = MODELS["running-damage"].machine
BOUNDS = Bounds(ExpireSession=9, Crash=9, BeginShutdown=9, MeetDamage=9, ReportUnread=9, ReportArrivesLate=9)


def walk_of(running: RunningDamage, brokers: int = 3) -> Walk:
    extensions = (ControlledShutdown(), Damage(), LostLogs(), running)
    machine = Replication(
        brokers, 3, min_insync_replicas=2, delayed_metadata=True, bounds=BOUNDS, extensions=extensions
    )
    return Walk(machine)


@pytest.fixture
def walk() -> Walk:
    return walk_of(RunningDamage())


def is_enabled(machine: ReplicationRules, state: State, action: Action) -> bool:
    try:
        machine.step(state, action)
    except NotEnabled:
        return False
    return True


def fetch_on_its_way(walk: Walk, follower: int) -> FetchRequest:
    """The follower has what the leader has, and says so in a fetch that has yet to arrive."""
    walk.do(Append(0)).fetch(follower).do(SendFetch(follower))
    (request,) = walk.state.network.fetches
    return request


def test_a_follower_is_taken_out_of_the_isr_before_it_is_cut_and_a_leader_epoch_begins(walk: Walk) -> None:
    walk.do(Append(0)).fetch(1, 2).do(MeetDamage(1, 0))
    assert not walk.enabled(RepairWhileRunning(1)), "others count on it"
    walk.do(ReportDamaged(1))
    controller = walk.state.controller
    assert (controller.leader, controller.leader_epoch, controller.isr, lost(controller)) == (0, 1, (0, 2), (1,))
    assert not walk.enabled(ReportDamaged(1)), "it is known"
    walk.do(RepairWhileRunning(1))
    assert walk.state.replicas[1].log == ()
    walk.do(ApplyMetadata(1))
    assert (walk.state.replicas[1].leader, is_withdrawn(walk.state.replicas[1])) == (0, False)


def test_a_report_that_arrives_after_the_repair_takes_the_replica_out_once_more_until_it_is_found(walk: Walk) -> None:
    walk.do(Append(0)).fetch(1, 2).do(MeetDamage(1, 0))
    assert not walk.enabled(ReportArrivesLate(1)), "it is not repaired"
    walk.do(ReportDamaged(1), RepairWhileRunning(1), ApplyMetadata(0), ApplyMetadata(1)).fetch(1)
    assert not walk.enabled(ReportArrivesLate(1)), "it is lost already"
    walk.do(ReportFound(1))
    before = walk.state.controller.leader_epoch
    walk.do(ReportArrivesLate(1))
    controller = walk.state.controller
    assert (controller.leader_epoch, controller.isr, lost(controller)) == (before + 1, (0, 2), (1,))
    walk.do(ReportFound(1))
    assert lost(walk.state.controller) == ()


def test_who_has_yet_to_read_of_a_later_epoch_reports_all_the_same_and_who_has_read_of_it_does_not(walk: Walk) -> None:
    walk.do(Append(0)).fetch(1, 2).do(MeetDamage(1, 0))
    assert not walk.enabled(ReportUnread(1)), "the controller does not know"
    walk.do(ExpireSession(1), Unfence(1), ExpireSession(0))
    controller = walk.state.controller
    assert (controller.leader, controller.leader_epoch, controller.isr, lost(controller)) == (2, 1, (2,), ())
    assert not walk.enabled(ReportDamaged(1)), "it is known"
    read = walk.machine.step(walk.state, PullMetadata(1))
    assert not is_enabled(walk.machine, read, ReportUnread(1)), "it has read of that"
    walk.do(ReportUnread(1))
    controller = walk.state.controller
    assert (controller.leader, controller.leader_epoch, controller.isr, lost(controller)) == (2, 2, (2,), (1,))
    walk.do(PullMetadata(1), RepairWhileRunning(1), ApplyMetadata(1))
    assert (walk.state.replicas[1].leader, walk.state.replicas[1].leader_epoch) == (2, 2)


def test_a_fetch_from_before_the_repair_does_not_count_after_it(walk: Walk) -> None:
    request = fetch_on_its_way(walk, 1)
    walk.do(MeetDamage(1, 0), ReportDamaged(1), RepairWhileRunning(1), ApplyMetadata(0), ReceiveFetch(request))
    assert walk.state.replicas[0].remote[1].end_offset == NONE
    assert not walk.state.network.fetch_responses, "nobody waits for it"


def test_in_the_same_epoch_it_would_count() -> None:
    walk = walk_of(RepairsInTheSameEpoch(), brokers=2)
    request = fetch_on_its_way(walk, 1)
    walk.do(MeetDamage(1, 0), ReportDamaged(1))
    with pytest.raises(AssertionError, match="RepairedIsCountedOnByNobody"):
        walk.do(RepairWhileRunning(1))
    assert request.leader_epoch == walk.state.controller.leader_epoch


def test_a_leader_hands_over_to_a_member_of_the_isr(walk: Walk) -> None:
    walk.do(Append(0)).fetch(1, 2).do(MeetDamage(0, 0))
    assert walk.machine.fetch_error(walk.state.replicas[0], 0, FetchRequest(1, 0, 0, 1, 0, 0)) == (
        Error.KAFKA_STORAGE_ERROR
    )
    walk.do(ReportDamaged(0))
    assert (walk.state.controller.leader, walk.state.controller.isr) == (1, (1, 2))
    walk.do(ApplyMetadata(1), RepairWhileRunning(0), ApplyMetadata(0)).fetch(0)
    assert len(walk.state.replicas[0].log) == 1
    walk.do(ReportFound(0))
    assert lost(walk.state.controller) == ()


def test_who_turns_out_to_be_the_last_one_in_sync_leads_on_in_a_new_epoch(walk: Walk) -> None:
    walk.do(Append(0)).fetch(1, 2).do(MeetDamage(0, 0), ExpireSession(1), ExpireSession(2))
    assert walk.state.controller.isr == (0,)
    walk.do(ReportDamaged(0))
    controller = walk.state.controller
    assert (controller.leader, controller.leader_epoch, controller.isr, lost(controller)) == (0, 1, (0,), ())
    assert not walk.enabled(RepairWhileRunning(0))
    walk.do(ApplyMetadata(0))
    leader = walk.state.replicas[0]
    assert (leader.leader, damage_of(leader), leader.log_end_offset) == (0, 0, 1)


def test_a_leader_that_is_alone_is_not_withdrawn(walk: Walk) -> None:
    walk.do(Append(0), ExpireSession(1), ExpireSession(2), ApplyMetadata(0))
    assert not walk.enabled(MeetDamage(0, 0))


def test_the_next_process_finds_what_was_not_repaired(walk: Walk) -> None:
    walk.do(Append(0)).fetch(1, 2).do(MeetDamage(1, 0), StopUnasked(1), MeetDamage(2, 0), Crash(2, 1))
    for broker in (1, 2):
        assert damage_of(walk.state.replicas[broker]) == 0
        assert CleanStop.of(walk.state.replicas[broker]).broker_epoch == NONE


@pytest.mark.parametrize(
    "machine",
    [
        MODEL,
        pytest.param(attrs.evolve(MODEL, bounds=Bounds(MeetDamage=1, ShrinkIsr=1)), marks=pytest.mark.deep),
        pytest.param(attrs.evolve(MODEL, bounds=Bounds(MeetDamage=2)), marks=pytest.mark.deep),
        MODELS["running-damage-unread"].machine,
    ],
    ids=["met once", "met while the ISR changes", "met twice", "reported once more than need be"],
)
def test_every_reachable_state_satisfies_every_invariant(machine: Replication) -> None:
    found = explore(machine, converges=True)
    assert (found.holds, found.cut, found.unreached) == (True, None, ()), found.violations


@pytest.mark.parametrize("bug", running_damage.BUGS, ids=lambda bug: bug.name)
def test_a_wrong_rule_is_found(bug: Bug[Replication]) -> None:
    found = explore(bug.machine())
    assert found.violations[0].invariant in bug.violates
