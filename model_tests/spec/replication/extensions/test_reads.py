"""What consumers are shown and told, by hand and exhaustively (KIP-207, KIP-320, KIP-392)."""

from __future__ import annotations

import attrs
import pytest

from tidegauge.model_tests.spec.counts import COUNTS, counted
from tidegauge.model_tests.spec.replication.walk import Walk
from tidegauge.spec.bugs import reads
from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.guarded import Refusal
from tidegauge.spec.replication.actions import Append, ReplicationAction
from tidegauge.spec.replication.control import ApplyMetadata, PreferredElection
from tidegauge.spec.replication.extensions.reads import (
    Consume,
    LearnLeader,
    ListLatest,
    ReadAt,
    Reads,
    consumer_of,
)
from tidegauge.spec.replication.faults import ExpireSession
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.models import MODELS
from tidegauge.spec.replication.state import Error

MACHINE = Replication(
    brokers=2,
    max_records=3,
    initial_leader=1,
    bounds=Bounds(PreferredElection=9, ExpireSession=9),
    extensions=(Reads(),),
)


@pytest.fixture
def walk() -> Walk:
    return Walk(MACHINE)


def error_of(walk: Walk, action: ReplicationAction) -> Error | None:
    refusal = action.guard(MACHINE, walk.state)
    return Error(refusal.error) if isinstance(refusal, Refusal) else None


def test_a_follower_shows_what_it_knows_to_be_committed(walk: Walk) -> None:
    walk.do(Append(1)).fetch(0).fetch(0)
    walk.do(Append(1)).fetch(0)
    assert (walk.hw(1), walk.hw(0)) == (1, 1)
    walk.do(Consume(0, 0))
    assert [record.value for record in consumer_of(walk.state, 0).shown] == [0]
    assert error_of(walk, Consume(0, 0)) is Error.OK, "the second record is not committed"


def test_a_follower_does_not_tell_the_latest_offset(walk: Walk) -> None:
    walk.do(Append(1)).fetch(0).fetch(0)
    assert error_of(walk, ListLatest(0, 0)) is Error.NOT_LEADER_OR_FOLLOWER
    walk.do(ListLatest(0, 1))
    assert consumer_of(walk.state, 0).told == 1


def test_a_new_leader_tells_no_offset_before_it_knows_what_is_committed(walk: Walk) -> None:
    walk.do(Append(1)).fetch(0)
    walk.do(PreferredElection(), ApplyMetadata(0), LearnLeader(0, 0))
    assert walk.hw(0) == 0
    assert error_of(walk, ListLatest(0, 0)) is Error.OFFSET_NOT_AVAILABLE
    assert error_of(walk, Consume(0, 0)) is Error.OFFSET_NOT_AVAILABLE
    walk.do(ApplyMetadata(1)).fetch(1)
    assert walk.hw(0) == 1
    walk.do(ListLatest(0, 0), Consume(0, 0))


def test_a_new_leader_shows_what_it_knows_to_be_committed_before_it_knows_all_that_is(walk: Walk) -> None:
    walk.do(Append(1)).fetch(0).fetch(0)
    walk.do(Append(1)).fetch(0)
    walk.do(PreferredElection(), ApplyMetadata(0), LearnLeader(0, 0))
    assert (walk.hw(0), walk.state.replicas[0].epoch_start_offset) == (1, 2)
    assert error_of(walk, ReadAt(0, 1, 1)) is Error.OFFSET_NOT_AVAILABLE
    walk.do(Consume(0, 0))
    assert [record.value for record in consumer_of(walk.state, 0).shown] == [0]


def test_consumer_and_broker_must_know_of_the_same_leader(walk: Walk) -> None:
    walk.do(ExpireSession(1), ApplyMetadata(0))
    assert error_of(walk, Consume(0, 0)) is Error.FENCED_LEADER_EPOCH
    walk.do(LearnLeader(0, 0))
    assert error_of(walk, Consume(0, 1)) is Error.UNKNOWN_LEADER_EPOCH
    assert not walk.enabled(LearnLeader(0, 1)), "older metadata count no more"


def test_an_offset_beyond_the_log_is_out_of_range(walk: Walk) -> None:
    walk.do(Append(1))
    assert error_of(walk, ReadAt(0, 1, 0)) is Error.OFFSET_OUT_OF_RANGE
    assert error_of(walk, ReadAt(1, 1, 0)) is Error.OK
    assert error_of(walk, ReadAt(1, 2, 0)) is Error.OFFSET_OUT_OF_RANGE


def test_consumers_who_know_nothing_are_no_part_of_the_state() -> None:
    (state,) = MACHINE.initial()
    (without,) = attrs.evolve(MACHINE, extensions=()).initial()
    assert state == without


def test_every_reachable_state_satisfies_every_invariant() -> None:
    found = explore(MODELS["reads"].machine, converges=True)
    assert found.holds, found.convergence
    assert (found.violations, found.cut, found.unreached) == ((), None, ())
    assert counted(found) == COUNTS["reads"]


@pytest.mark.deep
@pytest.mark.parametrize(
    ("bounds", "unclean"),
    [(Bounds(Crash=1, PreferredElection=1), False), (Bounds(ExpireSession=1, ShrinkIsr=1), True)],
    ids=["a crash", "unclean"],
)
def test_larger_models_hold(bounds: Bounds, unclean: bool) -> None:
    machine = attrs.evolve(MACHINE, max_records=1, bounds=bounds, unclean_leader_election=unclean)
    found = explore(machine, converges=True)
    assert found.holds, found.convergence
    assert found.cut is None


@pytest.mark.parametrize("bug", reads.BUGS, ids=lambda bug: bug.name)
def test_a_wrong_rule_is_found(bug: Bug[Replication]) -> None:
    found = explore(bug.machine())
    assert found.violations, f"nothing is violated in {found.distinct} states"
    assert found.violations[0].invariant in bug.violates
