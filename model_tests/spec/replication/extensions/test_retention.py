"""Log starts: the rules one by one, and exhaustively in small models; each rule that is broken is found out."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.spec.counts import COUNTS, counted
from tidegauge.model_tests.spec.replication.walk import Walk
from tidegauge.spec.bugs import retention
from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.parts import with_part
from tidegauge.spec.replication.actions import Append, ReceiveFetchResponse
from tidegauge.spec.replication.control import ApplyMetadata, UncleanElection
from tidegauge.spec.replication.extensions.interrupted import DieStartingOver, InterruptedStarts
from tidegauge.spec.replication.extensions.retention import (
    DeleteRecords,
    LeaderLogStart,
    LogStart,
    Retain,
    Retention,
    knows_below,
    log_start_of,
    low_watermark_known,
)
from tidegauge.spec.replication.faults import Crash, ExpireSession, Register, Restart, Unfence
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.models import MODELS
from tidegauge.spec.replication.state import NONE, Error


def walking(initial_isr: tuple[int, ...] = ()) -> Walk:
    machine = Replication(brokers=2, max_records=9, initial_isr=initial_isr, extensions=(Retention(),))
    return Walk(machine.without_bounds())


@pytest.fixture
def two() -> Walk:
    """Two brokers, three records committed."""
    walk = walking()
    walk.do(Append(0), Append(0), Append(0))
    for _ in range(5):
        walk.fetch(1)
    assert (walk.hw(0), walk.hw(1)) == (3, 3)
    return walk


def starts(walk: Walk) -> list[int]:
    return list(map(log_start_of, walk.state.replicas))


def test_a_follower_moves_to_its_leaders_log_start(two: Walk) -> None:
    two.do(DeleteRecords(0, 2)).fetch(1)
    assert starts(two) == [2, 2]
    assert low_watermark_known(two.state.replicas[0]) == {1: 0}
    two.fetch(1)
    assert low_watermark_known(two.state.replicas[0]) == {1: 2}


def test_only_committed_records_are_deleted(two: Walk) -> None:
    two.do(Append(0))
    assert not two.enabled(DeleteRecords(0, 4))
    assert not two.enabled(Retain(1, 4))
    assert two.enabled(DeleteRecords(0, 3))


def test_only_the_leader_is_asked_and_only_a_follower_retains_by_itself(two: Walk) -> None:
    assert not two.enabled(DeleteRecords(1, 1))
    assert not two.enabled(Retain(0, 1))
    assert two.enabled(Retain(1, 1))


def test_a_log_start_does_not_go_back(two: Walk) -> None:
    two.do(DeleteRecords(0, 2))
    assert not two.enabled(DeleteRecords(0, 2))
    assert two.enabled(DeleteRecords(0, 3))


def test_a_follower_below_the_log_start_starts_over_there(two: Walk) -> None:
    lagging = walking(initial_isr=(0,))
    lagging.do(Append(0), Append(0), Append(0), DeleteRecords(0, 2)).ask(1).arrive(1)
    (response,) = lagging.state.network.fetch_responses
    assert (response.error, LeaderLogStart.of(response).offset) == (Error.OFFSET_OUT_OF_RANGE, 2)
    lagging.do(ReceiveFetchResponse(response))
    follower = lagging.state.replicas[1]
    assert (log_start_of(follower), follower.log_end_offset, follower.high_watermark) == (2, 2, 2)
    assert follower.last_epoch == 0, "of the last record that is gone"
    lagging.fetch(1)
    assert lagging.state.replicas[1].log_end_offset == 3


def test_a_follower_that_cuts_all_that_its_leader_has_too_has_not_started_over(two: Walk) -> None:
    """Only one whose log starts beyond what it has is no follower that was cut."""
    two.ask(1).arrive(1)
    (response,) = two.state.network.fetch_responses
    follower = two.state.replicas[1]
    emptied = two.state.with_replica(1, attrs.evolve(follower, log=()))
    assert follower.log
    holds = two.machine.step_invariants["CommonPrefixKept"]
    assert holds(two.state, ReceiveFetchResponse(response), two.state)
    assert not holds(two.state, ReceiveFetchResponse(response), emptied)
    started = two.state.with_replica(1, with_part(follower, LogStart(1, 1)))
    assert holds(started, ReceiveFetchResponse(response), emptied)


def test_the_epoch_of_the_last_record_that_is_gone_tells_that_the_logs_agree(two: Walk) -> None:
    two.do(ExpireSession(0), ApplyMetadata(1), Append(1), DeleteRecords(1, 3), ApplyMetadata(0)).fetch(0)
    assert (log_start_of(two.state.replicas[0]), two.state.replicas[0].log_end_offset) == (3, 4)
    assert two.values(0) == two.values(1) == [0, 1, 2, 3]


@pytest.fixture
def died_starting_over() -> Walk:
    """Three records are committed on brokers 0 and 2, two of them deleted on 0; 1 died when its log started over."""
    machine = Replication(brokers=3, max_records=9, initial_isr=(0, 2), extensions=(Retention(), InterruptedStarts()))
    walk = Walk(machine.without_bounds()).do(Append(0), Append(0), Append(0)).fetch(2, 2, 2, 2)
    walk.do(DeleteRecords(0, 2)).ask(1).arrive(1)
    (response,) = walk.state.network.fetch_responses
    return walk.do(DieStartingOver(response), Restart(1), Register(1), ApplyMetadata(1), Unfence(1))


def test_a_log_that_does_not_know_of_which_epoch_the_last_record_was_agrees_with_one_that_starts_there(
    died_starting_over: Walk,
) -> None:
    died_starting_over.ask(1)
    asked = died_starting_over.asked(1)
    assert (asked.offset, asked.last_fetched_epoch) == (2, NONE)
    died_starting_over.arrive(1).receive(1)
    assert (starts(died_starting_over), died_starting_over.values(1)) == ([2, 2, 0], [0, 1, 2])


def test_such_a_log_starts_over_where_its_leader_starts_earlier(died_starting_over: Walk) -> None:
    walk = died_starting_over.do(ExpireSession(0), ApplyMetadata(2), ApplyMetadata(1)).fetch(1)
    assert (starts(walk), walk.values(1)) == ([2, 0, 0], [])
    walk.fetch(1, 1, 1)
    assert walk.values(1) == [0, 1, 2]


def test_who_starts_over_at_such_a_log_knows_no_more(died_starting_over: Walk) -> None:
    walk = died_starting_over.do(ExpireSession(0), ExpireSession(2), UncleanElection())
    walk.do(ApplyMetadata(1), ApplyMetadata(2)).fetch(2)
    assert starts(walk) == [2, 2, 2]
    assert not any(map(knows_below, walk.state.replicas[1:]))


def test_a_log_start_that_was_told_survives_a_crash(two: Walk) -> None:
    two.do(DeleteRecords(0, 2)).fetch(1).ask(1)
    two.do(Crash(1, 3), Restart(1))
    assert log_start_of(two.state.replicas[1]) == 2


def test_a_log_start_that_was_not_told_may_be_lost_in_a_crash(two: Walk) -> None:
    two.do(DeleteRecords(0, 2)).fetch(1).do(Crash(1, 0), Restart(1))
    assert log_start_of(two.state.replicas[1]) == 0


def test_deleting_at_the_leader_flushes_up_to_there(two: Walk) -> None:
    two.do(DeleteRecords(0, 2))
    assert not two.enabled(Crash(0, 1))


@pytest.mark.parametrize("name", ("retention-shrink", "retention-unclean", "retention-crash")[: amount(1, deep=3)])
def test_explored_to_the_end_every_invariant_holds(name: str) -> None:
    found = explore(MODELS[name].machine, converges=True)
    assert (found.holds, found.cut, found.unreached) == (True, None, ()), found.violations
    assert counted(found) == COUNTS[name]
    taken = {coverage.action for coverage in found.coverage if coverage.taken}
    assert {"DeleteRecords", "Retain"} <= taken


@pytest.mark.deep
@pytest.mark.parametrize("is_unclean", [False, True])
def test_no_process_that_dies_while_its_log_starts_over_breaks_an_invariant(is_unclean: bool) -> None:
    machine = Replication(
        brokers=2,
        max_records=1,
        initial_isr=(0,),
        unclean_leader_election=is_unclean,
        bounds=Bounds(Crash=1, DeleteRecords=1),
        extensions=(Retention(), InterruptedStarts()),
    )
    found = explore(machine, converges=True)
    assert (found.holds, found.cut, found.unreached) == (True, None, ()), found.violations
    assert "DieStartingOver" in {coverage.action for coverage in found.coverage if coverage.taken}


@pytest.mark.deep
@pytest.mark.parametrize(
    "constants",
    [
        {"bounds": Bounds(ExpireSession=1, DeleteRecords=1)},
        {"bounds": Bounds(Crash=1, DeleteRecords=1)},
        {
            "bounds": Bounds(ShrinkIsr=1, ExpireSession=1, DeleteRecords=1),
            "max_records": 1,
            "unclean_leader_election": True,
        },
        {"bounds": Bounds(ExpireSession=1, DeleteRecords=2)},
    ],
    ids=["expire", "crash", "unclean", "twice"],
)
def test_larger_models_hold_too(constants: dict[str, Any]) -> None:
    found = explore(Replication(**{"brokers": 2, "max_records": 2, "extensions": (Retention(),), **constants}))
    assert (found.violations, found.cut, found.unreached) == ((), None, ())


@pytest.mark.parametrize(
    ("bug", "states"), list(zip(retention.BUGS, (3, 8, 15), strict=True)), ids=[bug.name for bug in retention.BUGS]
)
def test_a_wrong_rule_is_found(bug: Bug[Replication], states: int) -> None:
    (violation,) = explore(bug.machine()).violations
    assert ((violation.invariant,), len(violation.trace.steps) + 1) == (bug.violates, states)
