"""The machines that came with the broker drive whole clusters: moves, clean stops, log starts, settings, producers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.bugs.idempotence import IDEMPOTENCE_BUGS
from tidegauge.model_tests.harness.cores.replication import Roles
from tidegauge.model_tests.harness.counterexamples.files import Failure, Found, load, replay_line, save
from tidegauge.model_tests.harness.counterexamples.replay import Level, replay
from tidegauge.model_tests.harness.lockstep.lockstep import Bind
from tidegauge.model_tests.harness.lockstep.minimising import counterexample_of, difference_of
from tidegauge.model_tests.harness.lockstep.walks import Walk
from tidegauge.model_tests.harness.registry import HARNESS, Side
from tidegauge.model_tests.lockstep.test_moving import (
    CompletesTooSoon,
    ForgetsToFenceTheFormerLife,
    MayBeLeftEmpty,
    TrustsEveryProcess,
)
from tidegauge.model_tests.lockstep.test_retention import (
    DeletesWhatIsNotCommitted,
    NeverMovesItsLogStart,
    StaysBelowItsLogStart,
)
from tidegauge.model_tests.lockstep.test_settings import KeepsTheEligible, RaisesNoEpoch
from tidegauge.spec.kernel.machine import Action, Machine
from tidegauge.spec.registry import REGISTRY
from tidegauge.spec.replication.control import PullMetadata
from tidegauge.spec.replication.machine import Replication

WALKS = amount(7, deep=15)
ENOUGH_TO_FIND = 20
FIRST = {"MayBeLeftEmpty": 8, "kafka_6003": 19, "kafka_7692": 20, "librdkafka_4953": 8}
"""The walk that shows it, where it is not one of the first: the search begins there."""
FAILURES = Path(".hypothesis") / "counterexamples"
RARE = 5
"""Kinds of action that so few walks may miss."""

MACHINES = ("reassignment", "controlled-shutdown", "retention", "settings", "idempotence")
every_machine = pytest.mark.parametrize("machine", MACHINES)


def walk(machine: str, seed: int, number: int, roles: Roles | None = None) -> Walk[Any]:
    """A walk of a cluster beside the specification."""
    return HARNESS[machine].walk(seed, number, side=Side.CLUSTER, roles=roles)


def bind_cluster(machine: str, roles: Roles | None = None) -> Bind[Machine[Any]]:
    return HARNESS[machine].bind(Side.CLUSTER, roles)


def assert_holds(found: Walk[Any], seed: int) -> None:
    """Else save the shortest list of actions, and say how to replay it."""
    if found.failure is None:
        return
    told = f"walk {found.number} of seed {seed}: {found.failure.words}"
    if found.failure.expected.kind is Failure.DIFFERENCE:
        name = HARNESS.of(found.machine).machine
        path = FAILURES / f"{name}-{seed}-{found.number}.json"
        save(counterexample_of(bind_cluster(name), found.machine, found.actions, Found("cluster lockstep", seed)), path)
        told += f"\nreplay: {replay_line(path)}"
    pytest.fail(told)


@every_machine
def test_the_cluster_is_in_every_state_as_the_machine_says(machine: str) -> None:
    taken: set[type[Action]] = set()
    for number in range(WALKS):
        found = walk(machine, 1, number)
        assert_holds(found, 1)
        taken.update(map(type, found.actions))
    missed = set(REGISTRY.registration(machine).machine.action_types) - taken - {PullMetadata}
    assert len(missed) <= RARE, f"{missed} were not tried"
    assert taken - set(Replication.action_types), "what is the machine's own was tried"


def test_a_follower_that_is_cut_below_its_log_start_goes_on_from_there() -> None:
    """It forgot the epoch of its last record, and started over from the beginning of its leader's log."""
    assert_holds(walk("retention", 77, 84), 77)


def test_what_a_stopped_process_had_sent_is_lost_when_the_machine_of_the_next_one_dies() -> None:
    """A response was on its way by the connection that the stopped process had closed, and outlived its machine."""
    assert_holds(walk("controlled-shutdown", 100, 10), 100)


def test_a_broker_counts_as_cleanly_stopped_though_its_log_had_nothing_to_flush() -> None:
    """A snapshot of producers from before the log was cut was back, and the log's end was doubted."""
    assert_holds(walk("controlled-shutdown", 100, 41), 100)


@pytest.mark.deep
@every_machine
def test_many_walks_find_no_difference(machine: str) -> None:
    for seed in range(100, 104):
        for number in range(250):
            assert_holds(walk(machine, seed, number), seed)


@every_machine
def test_a_walk_of_a_cluster_is_a_function_of_its_seed_and_number(machine: str) -> None:
    assert walk(machine, 5, 3) == walk(machine, 5, 3)


def first_failure(machine: str, roles: Roles) -> Any:
    first = FIRST.get(roles.controller.__name__, 0)
    found = HARNESS[machine].first_failure(5, ENOUGH_TO_FIND, first=first, side=Side.CLUSTER, roles=roles)
    assert found is not None, f"nothing was noticed in {ENOUGH_TO_FIND} walks"
    return found


@pytest.mark.parametrize(
    ("machine", "roles"),
    [
        ("reassignment", Roles(controller=CompletesTooSoon)),
        ("reassignment", Roles(replica=ForgetsToFenceTheFormerLife)),
        ("controlled-shutdown", Roles(controller=MayBeLeftEmpty)),
        ("controlled-shutdown", Roles(controller=TrustsEveryProcess)),
        ("retention", Roles(replica=DeletesWhatIsNotCommitted)),
        ("retention", Roles(replica=NeverMovesItsLogStart)),
        ("retention", Roles(replica=StaysBelowItsLogStart)),
        ("settings", Roles(controller=RaisesNoEpoch)),
        ("settings", Roles(controller=KeepsTheEligible)),
    ],
    ids=[
        "completes too soon",
        "forgets to fence",
        "may be left empty",
        "trusts every process",
        "deletes too much",
        "deletes nothing",
        "stays below its log start",
        "raises no epoch",
        "keeps the eligible",
    ],
)
def test_wrong_classes_in_a_cluster_are_found(machine: str, roles: Roles) -> None:
    assert first_failure(machine, roles).failure.expected.kind is Failure.DIFFERENCE


def test_what_is_found_is_minimised_and_can_be_replayed(tmp_path: Path) -> None:
    roles = Roles(controller=CompletesTooSoon)
    found = first_failure("reassignment", roles)
    path = tmp_path / "found.json"
    bind = bind_cluster("reassignment", roles)
    save(counterexample_of(bind, found.machine, found.actions, Found("cluster lockstep", 5)), path)
    counterexample = load(path)
    assert [action.name for action in counterexample.actions] == ["StartReassignment"]
    assert counterexample.expected == found.failure.expected
    assert difference_of(bind, counterexample.machine, counterexample.actions) is not None
    assert not any(replay(counterexample, level).failed for level in Level), "the right classes do right at every level"


@pytest.mark.parametrize("bug", IDEMPOTENCE_BUGS)
def test_every_bug_of_idempotent_producing_is_found_in_a_cluster(bug: str) -> None:
    """By walks; that its counterexample shows it there as well, and nothing without it, is `test_replay`'s."""
    roles = IDEMPOTENCE_BUGS[bug].roles
    found = HARNESS["idempotence"].first_failure(3, 80, first=FIRST.get(bug, 0), side=Side.CLUSTER, roles=roles)
    assert found is not None, f"{bug} went unnoticed"
    assert found.failure is not None
    assert found.failure.expected.kind is Failure.DIFFERENCE
