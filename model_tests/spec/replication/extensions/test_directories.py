"""Log directories that fail, by hand and exhaustively."""

from __future__ import annotations

import pytest

from tidegauge.model_tests.spec.replication.walk import Walk
from tidegauge.spec.bugs import directories
from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.replication.actions import Append, SendFetch
from tidegauge.spec.replication.control import ApplyMetadata
from tidegauge.spec.replication.extensions.deletion import DeleteTopic, Deletion
from tidegauge.spec.replication.extensions.directories import (
    Directories,
    FailDirectory,
    LeftLog,
    LoseTail,
    ReplicaOffline,
    ReplicaOnline,
    offline,
)
from tidegauge.spec.replication.extensions.reassignment import Reassignment, StartReassignment, listed
from tidegauge.spec.replication.extensions.shutdown import CleanStop, ControlledShutdown, StopUnasked
from tidegauge.spec.replication.faults import Crash, Register, Restart
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.models import MODELS
from tidegauge.spec.replication.state import NONE, Error

EXTENSIONS = (ControlledShutdown(), Directories())
BOUNDS = Bounds(ShrinkIsr=1, ExpireSession=9, Crash=9, BeginShutdown=9, FailDirectory=9)


@pytest.fixture
def walk() -> Walk:
    return Walk(Replication(brokers=3, max_records=3, min_insync_replicas=2, bounds=BOUNDS, extensions=EXTENSIONS))


def test_a_leader_without_its_log_leads_until_the_controller_learns_of_it(walk: Walk) -> None:
    walk.do(Append(0), FailDirectory(0))
    assert walk.state.controller.leader == 0
    assert not walk.enabled(Append(0))
    walk.do(ReplicaOffline(0))
    controller = walk.state.controller
    assert (controller.leader, controller.isr, offline(controller)) == (1, (1, 2), (0,))
    assert not controller.sessions[0].fenced, "its broker goes on"


def test_a_fetch_to_a_failed_directory_is_told_so(walk: Walk) -> None:
    walk.ask(1).do(FailDirectory(0)).arrive(1)
    assert [response.error for response in walk.state.network.fetch_responses] == [Error.KAFKA_STORAGE_ERROR]


def test_a_replica_without_its_log_follows_nobody_whatever_it_receives(walk: Walk) -> None:
    walk.do(FailDirectory(2), ReplicaOffline(2), ApplyMetadata(2))
    assert not walk.enabled(SendFetch(2))
    assert walk.state.replicas[2].partition_epoch == 1


def test_the_controller_is_told_the_truth(walk: Walk) -> None:
    assert not walk.enabled(ReplicaOffline(1)), "its directory works"
    walk.do(FailDirectory(1), ReplicaOffline(1))
    assert not walk.enabled(ReplicaOnline(1)), "it has failed"
    walk.do(Crash(1, 0), Restart(1))
    assert not walk.enabled(ReplicaOnline(1)), "the process is not known yet"
    walk.do(Register(1), ReplicaOnline(1))
    assert offline(walk.state.controller) == ()


@pytest.mark.parametrize(
    "machine",
    [
        MODELS["directories"].machine,
        pytest.param(
            Replication(
                extensions=EXTENSIONS,
                brokers=2,
                max_records=1,
                bounds=Bounds(BeginShutdown=1, FailDirectory=1),
            ),
            marks=pytest.mark.deep,
        ),
        pytest.param(
            Replication(extensions=EXTENSIONS, brokers=2, max_records=1, bounds=Bounds(Crash=1, FailDirectory=1)),
            marks=pytest.mark.deep,
        ),
    ],
    ids=["while the ISR changes", "and leaves", "and crashes"],
)
def test_every_reachable_state_satisfies_every_invariant(machine: Replication) -> None:
    found = explore(machine, converges=True)
    assert (found.holds, found.cut, found.unreached) == (True, None, ()), found.violations


@pytest.mark.parametrize("bug", directories.BUGS, ids=lambda bug: bug.name)
def test_a_wrong_rule_is_found(bug: Bug[Replication]) -> None:
    found = explore(bug.machine())
    assert found.violations, f"nothing is violated in {found.distinct} states"
    assert found.violations[0].invariant in bug.violates


def test_directories_require_controlled_shutdown_earlier_in_the_list() -> None:
    with pytest.raises(ValueError, match="Directories requires ControlledShutdown earlier in the list of extensions"):
        Replication(extensions=(Directories(),))
    with pytest.raises(ValueError, match="Directories requires ControlledShutdown earlier"):
        Replication(extensions=(Directories(), ControlledShutdown()))


def test_what_was_not_flushed_may_be_gone_after_a_stop(walk: Walk) -> None:
    walk.do(Append(0), FailDirectory(0), StopUnasked(0))
    assert CleanStop.of(walk.state.replicas[0]).broker_epoch == NONE
    walk.do(LoseTail(0, 0))
    assert walk.state.replicas[0].log == ()


MOVING = (*EXTENSIONS, Reassignment((0, 1)), Deletion())


@pytest.fixture
def moving() -> Walk:
    bounds = Bounds(BeginShutdown=9, Crash=9, DeleteTopic=1, FailDirectory=9, StartReassignment=9)
    return Walk(Replication(brokers=3, max_records=3, bounds=bounds, extensions=MOVING))


def test_a_topic_that_is_deleted_while_a_directory_has_failed_leaves_a_log_until_the_next_start(moving: Walk) -> None:
    moving.do(Append(0)).fetch(1).do(FailDirectory(1), DeleteTopic(), ApplyMetadata(1))
    assert moving.state.replicas[1].log == (), "its broker has no replica"
    moving.do(StopUnasked(1), LoseTail(1, 0))
    assert moving.state.replicas[1].log == (), "nobody knew what the disk had kept of it"


def test_the_next_process_finds_the_log_that_could_not_be_deleted_and_deletes_it(moving: Walk) -> None:
    moving.do(Append(0)).fetch(1).do(FailDirectory(1), DeleteTopic(), ApplyMetadata(1), StopUnasked(1))
    assert CleanStop.of(moving.state.replicas[1]).broker_epoch == NONE
    moving.do(Restart(1))
    assert moving.state.replicas[1].log_end_offset == 1
    moving.do(Register(1), ApplyMetadata(1))
    assert (moving.state.replicas[1].log, LeftLog.of(moving.state.replicas[1])) == ((), LeftLog())


def test_a_crash_keeps_what_the_disk_has_of_the_log_that_could_not_be_deleted(moving: Walk) -> None:
    moving.do(Append(0)).fetch(1).do(FailDirectory(1), DeleteTopic(), ApplyMetadata(1), ApplyMetadata(0))
    assert not moving.enabled(Crash(1, 2))
    moving.do(Crash(1, 1), Restart(1))
    assert moving.state.replicas[1].log_end_offset == 1


def test_a_replica_that_is_given_back_is_made_anew_beside_the_directory_that_has_failed(moving: Walk) -> None:
    moving.do(Append(0)).fetch(1).do(FailDirectory(1), StartReassignment((0, 2)), ApplyMetadata(0), ApplyMetadata(2))
    moving.fetch(2).decide().do(ApplyMetadata(1))
    assert LeftLog.of(moving.state.replicas[1]).replica is not None
    moving.do(StartReassignment((0, 1)), ApplyMetadata(1))
    made = moving.state.replicas[1]
    assert (listed(made), made.leader, made.log) == ((0, 1, 2), 0, ())
    moving.do(Crash(1, 0), Restart(1))
    assert moving.state.replicas[1].log == (), "what the failed directory had is a stray"


def test_a_directory_that_fails_where_a_broker_has_no_replica_is_nobodys_to_report(moving: Walk) -> None:
    known = moving.machine.converges["the controller knows which directories work"]
    moving.do(FailDirectory(2))
    assert known(moving.state)
    assert not moving.enabled(ReplicaOffline(2))
    moving.do(StartReassignment((0, 2)))
    assert not known(moving.state), "it is to have one now"
    moving.do(ReplicaOffline(2))
    assert known(moving.state)


def test_a_topic_deleted_beside_failing_directories_holds_in_every_state() -> None:
    bounds = Bounds(DeleteTopic=1, FailDirectory=1)
    found = explore(Replication(brokers=2, max_records=1, bounds=bounds, extensions=MOVING), converges=True)
    assert (found.holds, found.cut, found.unreached) == (True, None, ()), found.violations
