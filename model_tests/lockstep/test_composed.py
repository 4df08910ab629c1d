"""Everything at once that may happen to a partition: cores and clusters do what the machine says, wrong ones don't."""

from __future__ import annotations

import attrs
import pytest

from tidegauge.impl.controller.controller import Controller
from tidegauge.impl.controller.elections import ElectionRules
from tidegauge.impl.controller.membership import RegistrationRules
from tidegauge.impl.metadata.image import ClusterImage
from tidegauge.impl.partition.registration import PartitionRegistration
from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.harness.cores.extensions.composed import ComposedCores
from tidegauge.model_tests.harness.cores.replication import Roles
from tidegauge.model_tests.harness.counterexamples.files import Failure
from tidegauge.model_tests.harness.lockstep.lockstep import Lockstep
from tidegauge.model_tests.harness.registry import HARNESS, Side
from tidegauge.spec.bugs.directories import ElectsTheOffline
from tidegauge.spec.bugs.reassignment import CountsTheDeletedReplica
from tidegauge.spec.bugs.retention import DeletesBeyondHighWatermark
from tidegauge.spec.bugs.settings import KeepsTheEligible
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.registry import REGISTRY
from tidegauge.spec.replication.actions import Append
from tidegauge.spec.replication.extensions.directories import FailDirectory
from tidegauge.spec.replication.extensions.reassignment import StartReassignment
from tidegauge.spec.replication.extensions.settings import ChangeSettings
from tidegauge.spec.replication.extensions.shutdown import StopUnasked

SEED = 2
FIRST = {"WaitsForAnybody": 46, "KeepsTheEligible": 18}
"""The walk that shows it, where it is not one of the first: the search begins there."""
HARNESSED = HARNESS["composed-replication"]
OFTEN = attrs.evolve(HARNESSED, plan=attrs.evolve(HARNESSED.walk_plan(), perturbations=frozenset()))
"""As the registered ones, and everything happens in every walk."""
OVER_THE_WIRE = attrs.evolve(HARNESSED, plan=attrs.evolve(OFTEN.walk_plan(), forbidden_share=0.3))


def test_random_walks_find_no_difference_and_take_every_action() -> None:
    taken: set[type[Action]] = set()
    for found in OFTEN.walks(1, amount(90, deep=100)):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"
        taken.update(map(type, found.actions))
    assert taken == set(REGISTRY.registration("composed-replication").machine.action_types)


@pytest.mark.deep
def test_many_walks_find_no_difference() -> None:
    for found in OFTEN.walks(100, 5_000, length=200):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"


@pytest.mark.parametrize("count", [3, pytest.param(300, marks=pytest.mark.deep)])
def test_a_cluster_does_what_all_parts_mean_together(count: int) -> None:
    """Each extension's part of the cluster, and none for all."""
    taken: set[type[Action]] = set()
    refused: set[str] = set()
    for found in OVER_THE_WIRE.walks(SEED, count, side=Side.CLUSTER):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"
        taken.update(map(type, found.actions))
        refused.update(what for what, _ in found.refused)
    assert taken >= {FailDirectory, StartReassignment, ChangeSettings, StopUnasked}
    assert refused >= {"StartReassignment", "DeleteRecords", "ReplicaOnline", "UncleanElection"}


def test_a_broker_that_is_no_replica_has_no_directory_to_lose() -> None:
    machine = HARNESSED.walk(SEED, 0).machine
    lockstep = Lockstep(machine, ComposedCores(machine))
    assert not lockstep.perform(FailDirectory(2))
    assert lockstep.perform(FailDirectory(0))
    assert not lockstep.perform(Append(0))


class AnybodyKeepsItRunning(RegistrationRules):
    def must_keep_running(self, image: ClusterImage, broker_id: int) -> bool:
        """Any live broker, a replica or not."""
        leads = any(registration.leader == broker_id for _, _, registration in image.partitions())
        return leads and any(map(image.is_active, image.brokers))


class WaitsForAnybody(Controller):
    registration_rules = AnybodyKeepsItRunning


class OfflineMayLead(ElectionRules):
    def best_left(self, registration: PartitionRegistration) -> int:
        return next(iter(registration.replicas))


class ElectsAnybody(Controller):
    election_rules = OfflineMayLead


@pytest.mark.parametrize("side", [Side.CORES, pytest.param(Side.CLUSTER, marks=pytest.mark.deep)])
@pytest.mark.parametrize("controller", [WaitsForAnybody, ElectsAnybody])
def test_wrong_ones_differ(controller: type[Controller], side: Side) -> None:
    first = FIRST.get(controller.__name__, 0)
    found = OFTEN.first_failure(SEED, 400, first=first, side=side, roles=Roles(controller=controller))
    assert found is not None
    assert found.failure is not None
    assert found.failure.expected.kind is Failure.DIFFERENCE


@pytest.mark.parametrize(
    "wrong", [ElectsTheOffline, CountsTheDeletedReplica, DeletesBeyondHighWatermark, KeepsTheEligible]
)
def test_a_wrong_machine_is_not_what_the_cores_do(wrong: type[object]) -> None:
    assert OFTEN.first_failure(SEED, 400, first=FIRST.get(wrong.__name__, 0), wrong=wrong) is not None
