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
from tidegauge.spec.replication.extensions.directories import (
    Directories,
    FailDirectory,
    LoseTail,
    ReplicaOffline,
    ReplicaOnline,
    offline,
)
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
    assert (found.violations, found.cut, found.unreached) == ((), None, ())


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
