"""Log directories that fail, by hand and exhaustively."""

from __future__ import annotations

import pytest

from tidegauge.model_tests.spec.test_replication import Walk
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.replication.actions import Append, SendFetch
from tidegauge.spec.replication.control import ApplyMetadata
from tidegauge.spec.replication.extensions.directories import (
    Directories,
    ElectsTheOffline,
    FailDirectory,
    LoseTail,
    NotesAllTheSame,
    ReplicaOffline,
    ReplicaOnline,
)
from tidegauge.spec.replication.extensions.shutdown import StopUnasked
from tidegauge.spec.replication.faults import Crash, Register, Restart
from tidegauge.spec.replication.machine import Bounds
from tidegauge.spec.replication.models import MODELS
from tidegauge.spec.replication.state import NONE, Error

BOUNDS = Bounds(lapses=9, crashes=9, controlled_shutdowns=9, directory_failures=9)


@pytest.fixture
def walk() -> Walk:
    return Walk(Directories(brokers=3, max_records=3, min_insync_replicas=2, bounds=BOUNDS))


def test_a_leader_without_its_log_leads_until_the_controller_hears_of_it(walk: Walk) -> None:
    walk.do(Append(0), FailDirectory(0))
    assert walk.state.controller.leader == 0
    assert not walk.enabled(Append(0))
    walk.do(ReplicaOffline(0))
    controller = walk.state.controller
    assert (controller.leader, controller.isr, controller.offline) == (1, (1, 2), (0,))
    assert not controller.sessions[0].fenced, "its broker goes on"


def test_a_fetch_to_a_failed_directory_is_told_so(walk: Walk) -> None:
    walk.ask(1).do(FailDirectory(0)).arrive(1)
    assert [answer.error for answer in walk.state.network.fetch_responses] == [Error.KAFKA_STORAGE_ERROR]


def test_a_replica_without_its_log_follows_nobody_whatever_it_hears(walk: Walk) -> None:
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
    assert walk.state.controller.offline == ()


@pytest.mark.parametrize(
    "machine",
    [
        MODELS["directories"].machine,
        pytest.param(
            Directories(
                brokers=2,
                max_records=1,
                bounds=Bounds(shrinks=0, lapses=0, directory_failures=1, controlled_shutdowns=1),
            ),
            marks=pytest.mark.deep,
        ),
        pytest.param(
            Directories(brokers=2, max_records=1, bounds=Bounds(shrinks=0, lapses=0, directory_failures=1, crashes=1)),
            marks=pytest.mark.deep,
        ),
    ],
    ids=["while the ISR changes", "and leaves", "and crashes"],
)
def test_every_reachable_state_satisfies_every_invariant(machine: Directories) -> None:
    found = explore(machine)
    assert (found.violations, found.cut, found.unreached) == ((), None, ())


@pytest.mark.parametrize(
    ("kind", "perturbation", "falls"),
    [
        (ElectsTheOffline, "lapses", "OfflineIsOutOfSync"),
        (NotesAllTheSame, "controlled_shutdowns", "LeaderCandidateCompleteness"),
    ],
    ids=["elects the offline", "notes all the same"],
)
def test_a_wrong_rule_is_found(kind: type[Directories], perturbation: str, falls: str) -> None:
    bounds = Bounds(**{"shrinks": 0, "lapses": 0, "directory_failures": 1, perturbation: 1})
    machine = kind(brokers=2, max_records=1, min_insync_replicas=2, bounds=bounds)
    assert explore(machine).violations[0].invariant == falls


def test_what_was_not_flushed_may_be_gone_after_a_stop(walk: Walk) -> None:
    walk.do(Append(0), FailDirectory(0), StopUnasked(0))
    assert walk.state.replicas[0].stopped_cleanly_in == NONE
    walk.do(LoseTail(0, 0))
    assert walk.state.replicas[0].log == ()
