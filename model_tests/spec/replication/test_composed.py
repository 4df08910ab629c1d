"""All parts of replication at once: what they mean together, small models to their end, and long random walks."""

from __future__ import annotations

import attrs
import pytest

from tidegauge.model_tests.spec.replication.walk import Walk
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.simulation import simulate
from tidegauge.spec.replication.actions import Append
from tidegauge.spec.replication.composed import everything
from tidegauge.spec.replication.control import ApplyMetadata
from tidegauge.spec.replication.extensions.reassignment import StartReassignment
from tidegauge.spec.replication.extensions.retention import DeleteRecords, LogStart, WriteLogStart, log_start_of
from tidegauge.spec.replication.extensions.settings import ChangeSettings
from tidegauge.spec.replication.extensions.shutdown import BeginShutdown
from tidegauge.spec.replication.faults import Crash, Restart
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.models import MODELS
from tidegauge.spec.replication.state import Acks, Error

EVERYTHING = Replication(brokers=3, extensions=everything())
TWICE = Bounds(dict.fromkeys(EVERYTHING.perturbations, 2))


@pytest.fixture
def walk() -> Walk:
    return Walk(attrs.evolve(EVERYTHING, max_records=9).without_bounds())


@pytest.mark.parametrize("name", ["moving-and-deleting", pytest.param("moving-and-failing", marks=pytest.mark.deep)])
def test_explored_to_the_end_every_invariant_holds(name: str) -> None:
    found = explore(MODELS[name].machine, converges=True)
    assert (found.holds, found.cut, found.unreached) == (True, None, ()), found.violations


def test_a_move_that_completes_relieves_who_waits_to_stop(walk: Walk) -> None:
    walk.do(StartReassignment((0, 2)), ApplyMetadata(0), ApplyMetadata(2), BeginShutdown(0))
    assert (walk.state.controller.leader, walk.state.controller.isr) == (1, (1,))
    walk.do(ApplyMetadata(1), ApplyMetadata(2)).fetch(2).decide()
    assert walk.state.controller.isr == (1, 2), "the target is not in sync, for one of it leaves"


def test_min_insync_replicas_is_never_more_than_there_are_replicas(walk: Walk) -> None:
    walk.do(ChangeSettings(3, elects_uncleanly=False), ApplyMetadata(0), Append(0))
    assert walk.machine.required_insync(walk.state.replicas[0]) == 2


def test_a_replica_that_is_added_starts_over_where_the_log_begins(walk: Walk) -> None:
    walk.do(Append(0), Append(0)).fetch(1).fetch(1).fetch(1).do(DeleteRecords(0, 2))
    walk.do(StartReassignment((0, 1, 2)), ApplyMetadata(0), ApplyMetadata(2)).fetch(2)
    assert (log_start_of(walk.state.replicas[2]), walk.state.replicas[2].log_end_offset) == (2, 2)


def test_a_fetch_of_a_broker_that_is_no_replica_is_refused_before_its_offset_is_looked_at(walk: Walk) -> None:
    walk.do(Append(0), Append(0)).fetch(1).fetch(1).fetch(1).do(DeleteRecords(0, 2))
    walk.do(StartReassignment((0, 1, 2)), ApplyMetadata(2)).ask(2).arrive(2)
    assert [response.error for response in walk.state.network.fetch_responses] == [Error.NOT_LEADER_OR_FOLLOWER]


def test_a_log_start_that_nobody_was_told_of_may_have_been_written_down(walk: Walk) -> None:
    walk.do(Append(0)).fetch(1).fetch(1).do(DeleteRecords(0, 1)).fetch(1)
    assert LogStart.of(walk.state.replicas[1]).checkpoint == 0
    walk.do(WriteLogStart(1, 1), Crash(1, 1), Restart(1))
    assert log_start_of(walk.state.replicas[1]) == 1


@pytest.mark.parametrize("min_insync_replicas", [1, 2])
def test_random_walks_find_nothing_and_take_nearly_everything(min_insync_replicas: int) -> None:
    machine = attrs.evolve(
        EVERYTHING, max_records=4, min_insync_replicas=min_insync_replicas, acks=tuple(Acks), bounds=TWICE
    )
    found = simulate(machine, 1, 30, length=80)
    assert found.holds, [str(walk.violation) for walk in found.violations.values()]


@pytest.mark.deep
@pytest.mark.parametrize("min_insync_replicas", [1, 2])
def test_many_long_walks_find_nothing(min_insync_replicas: int) -> None:
    machine = attrs.evolve(EVERYTHING, max_records=4, min_insync_replicas=min_insync_replicas, bounds=TWICE)
    found = simulate(machine, 2, 2_000, length=150)
    assert found.holds, [walk.violation.invariant for walk in found.violations.values() if walk.violation]
    assert found.unreached == ()
    assert set(found.never_enabled) <= {"HoldFetch", "PullMetadata"}, "the models of the parts have those"
