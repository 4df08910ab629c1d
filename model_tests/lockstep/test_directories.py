"""Log directories that fail: cores and clusters do what the machine says, and wrong ones don't."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import attrs
import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.controller.config import ControllerConfig
from tidegauge.impl.controller.controller import Controller
from tidegauge.impl.controller.decision import Proposal
from tidegauge.impl.controller.directories import Directories as DirectoriesOfController
from tidegauge.impl.controller.elections import Elected, ElectionRules
from tidegauge.impl.controller.isr_changes import IsrRules
from tidegauge.impl.metadata.image import ClusterImage
from tidegauge.impl.partition.messages import AlterPartitionRequest
from tidegauge.impl.partition.registration import PartitionRegistration
from tidegauge.impl.storage.log_directories import LogDirectories
from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.harness.cores.replication import Roles
from tidegauge.model_tests.harness.counterexamples.files import Failure
from tidegauge.model_tests.harness.lockstep.checked import CheckedLockstep
from tidegauge.model_tests.harness.lockstep.replication_walks import large_machine
from tidegauge.model_tests.harness.registry import HARNESS, Side
from tidegauge.spec.bugs import directories as wrong
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.registry import REGISTRY
from tidegauge.spec.replication.actions import Append
from tidegauge.spec.replication.control import ApplyMetadata
from tidegauge.spec.replication.extensions.directories import (
    Directories,
    FailDirectory,
    LoseNote,
    LoseTail,
    ReplicaOffline,
    ReplicaOnline,
)
from tidegauge.spec.replication.extensions.shutdown import ControlledShutdown, StopUnasked
from tidegauge.spec.replication.faults import Register, Restart

WALKS = 50
SEED = 5
HARNESSED = HARNESS["directories"]
OFTEN = attrs.evolve(HARNESSED, plan=attrs.evolve(HARNESSED.walk_plan(), perturbations=frozenset()))
"""As the registered ones, and every walk loses directories."""
OVER_THE_WIRE = attrs.evolve(HARNESSED, plan=attrs.evolve(OFTEN.walk_plan(), forbidden_share=0.3))


def test_random_walks_find_no_difference_and_take_every_action() -> None:
    taken: set[type[Action]] = set()
    for found in OFTEN.walks(1, amount(28, deep=40)):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"
        taken.update(map(type, found.actions))
    assert taken == set(REGISTRY.registration("directories").machine.action_types)


@pytest.mark.deep
def test_many_walks_find_no_difference() -> None:
    for found in OFTEN.walks(100, 5_000, length=200):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"


class OfflineMayLead(ElectionRules):
    def elect(self, image: ClusterImage, registration: PartitionRegistration, *, unclean: bool) -> Elected:
        return super().elect(image, registration._replace(offline_replicas=frozenset()), unclean=unclean)


class ElectsTheOffline(Controller):
    election_rules = OfflineMayLead


class OfflineMayJoin(IsrRules):
    def error(
        self, image: ClusterImage, registration: PartitionRegistration, request: AlterPartitionRequest
    ) -> ErrorCode:
        return super().error(image, registration._replace(offline_replicas=frozenset()), request)


class TakesTheOfflineIn(Controller):
    isr_rules = OfflineMayJoin


class ReportsChangeNothing(DirectoriesOfController):
    def mark_offline(self, broker_id: int, offline: Collection[str]) -> Proposal[bool]:
        return super().mark_offline(broker_id, ())


class IgnoresReports(Controller):
    def __init__(self, node_id: int, config: ControllerConfig, image: ClusterImage | None = None) -> None:
        super().__init__(node_id, config, image)
        self.directories = ReportsChangeNothing(self.image, self.election_rules(config))


class EligibleNoMore(ElectionRules):
    def without(
        self, image: ClusterImage, topic: str, registration: PartitionRegistration, broker_id: int, *, clean: bool
    ) -> PartitionRegistration:
        return super().without(image, topic, registration, broker_id, clean=False)


class GivesTheOfflineUp(Controller):
    """What a replica had that went offline counts as gone."""

    def __init__(self, node_id: int, config: ControllerConfig, image: ClusterImage | None = None) -> None:
        super().__init__(node_id, config, image)
        self.directories = DirectoriesOfController(self.image, EligibleNoMore(config))


@pytest.mark.parametrize("controller", [ElectsTheOffline, TakesTheOfflineIn, IgnoresReports, GivesTheOfflineUp])
def test_wrong_cores_differ(controller: type[Controller]) -> None:
    found = OFTEN.first_failure(SEED, WALKS, roles=Roles(controller=controller))
    assert found is not None
    assert found.failure is not None
    assert found.failure.expected.kind is Failure.DIFFERENCE


@pytest.mark.parametrize("machine", [wrong.ElectsTheOffline, wrong.NotesAllTheSame])
def test_a_wrong_machine_is_not_what_the_cores_do(machine: type[Directories]) -> None:
    assert OFTEN.first_failure(SEED, WALKS, wrong=machine) is not None


@pytest.mark.parametrize("count", [3, pytest.param(300, marks=pytest.mark.deep)])
def test_a_cluster_lives_on_without_a_directory_as_the_machine_says(count: int) -> None:
    """Disks fail, heartbeats and registrations name directories, and reports of replicas go over the wire."""
    taken: set[type[Action]] = set()
    refused: set[tuple[str, str]] = set()
    for found in OVER_THE_WIRE.walks(SEED, count, side=Side.CLUSTER):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"
        taken.update(map(type, found.actions))
        refused.update(found.refused)
    assert taken >= {FailDirectory, ReplicaOffline, StopUnasked}
    assert refused >= {("ReplicaOffline", "OK"), ("ReplicaOnline", "OK")}


BACK: Final = (Restart(0), Register(0), ApplyMetadata(0))


def test_a_cluster_loses_the_end_of_a_failed_directory_and_comes_back_on_another_disk() -> None:
    """Walks are seldom in such states."""
    machine = large_machine(extensions=(ControlledShutdown(), Directories()))
    scenarios = (
        (FailDirectory(0), StopUnasked(0), ReplicaOffline(0), *BACK, ReplicaOnline(0)),
        (FailDirectory(0), StopUnasked(0), LoseTail(0, 0), *BACK),
        (StopUnasked(0), LoseNote(0), *BACK),
    )
    for actions in scenarios:
        pair = CheckedLockstep(machine, HARNESSED.bind(Side.CLUSTER)(machine))
        try:
            for action in (Append(0), *actions):
                assert pair.perform(action), action
        finally:
            pair.close()


@pytest.mark.parametrize("controller", [ElectsTheOffline, TakesTheOfflineIn, IgnoresReports, GivesTheOfflineUp])
def test_a_wrong_cluster_differs(controller: type[Controller]) -> None:
    assert OVER_THE_WIRE.first_failure(SEED, WALKS, side=Side.CLUSTER, roles=Roles(controller=controller)) is not None


def test_a_broker_that_notes_a_clean_stop_though_a_directory_has_failed_differs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def of_those_that_work(self: LogDirectories) -> int:
        return max(directory.stopped_cleanly_in for directory in self.online)

    monkeypatch.setattr(LogDirectories, "stopped_cleanly_in", property(of_those_that_work))
    assert OVER_THE_WIRE.first_failure(SEED, WALKS, side=Side.CLUSTER) is not None
