"""Logs that a disk damages or loses: the cores do what the two machines say, and wrong ones don't."""

from __future__ import annotations

import attrs
import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.controller import decision
from tidegauge.impl.controller.config import ControllerConfig
from tidegauge.impl.controller.controller import Controller
from tidegauge.impl.controller.decision import Decision, Proposal
from tidegauge.impl.controller.directories import Directories
from tidegauge.impl.controller.elections import Elected, ElectionRules
from tidegauge.impl.metadata.image import ClusterImage
from tidegauge.impl.metadata.records import ReplicaDirectoryRecord
from tidegauge.impl.partition.registration import PartitionRegistration
from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.harness.cores.replication import Roles
from tidegauge.model_tests.harness.counterexamples.files import Failure
from tidegauge.model_tests.harness.registry import HARNESS, Registration, Side
from tidegauge.spec.bugs.lost_logs import ElectsTheLost
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.registry import REGISTRY, NotRegisteredError

SEED = 5
WALKS = 40
TAKING_ALL = {
    "damage": (7, amount(16, deep=WALKS)),
    "lost-logs": (7, amount(30, deep=WALKS)),
    "running-damage": (6, amount(38, deep=WALKS)),
}
"""A seed whose first walks take every action, and how many."""
MACHINES = ("damage", "lost-logs", "running-damage")


def always(machine: str) -> Registration:
    """As it is registered, and every walk damages logs and loses them."""
    return attrs.evolve(HARNESS[machine], plan=attrs.evolve(HARNESS[machine].walk_plan(), perturbations=frozenset()))


@pytest.mark.parametrize("machine", MACHINES)
def test_random_walks_find_no_difference_and_take_every_action(machine: str) -> None:
    taken: set[type[Action]] = set()
    seed, count = TAKING_ALL[machine]
    for found in (*always(machine).walks(seed, count), *HARNESS[machine].walks(seed, amount(8, deep=WALKS))):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"
        taken.update(map(type, found.actions))
    assert taken == set(REGISTRY.registration(machine).machine.action_types)


@pytest.mark.deep
@pytest.mark.parametrize("machine", MACHINES)
def test_many_walks_find_no_difference(machine: str) -> None:
    for found in always(machine).walks(100, 5_000, length=200):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"


class ElectsAnyone(ElectionRules):
    """Whose log is gone may lead as well as another."""

    def elect(self, image: ClusterImage, registration: PartitionRegistration, *, unclean: bool) -> Elected:
        return super().elect(image, registration._replace(lost_replicas=frozenset()), unclean=unclean)


class ElectsTheLostFirst(Controller):
    election_rules = ElectsAnyone


class NeverFound(Directories):
    """What is lost stays lost."""

    def _set_lost(self, decision: Decision, broker_id: int, topic: str, partition: int, lost: bool) -> None:
        if lost:
            super()._set_lost(decision, broker_id, topic, partition, lost)


class StaysEligible(ElectionRules):
    def without(
        self, image: ClusterImage, topic: str, registration: PartitionRegistration, broker_id: int, *, clean: bool
    ) -> PartitionRegistration:
        return super().without(image, topic, registration, broker_id, clean=True)


class TakesNothingBack(Controller):
    def __init__(self, node_id: int, config: ControllerConfig, image: ClusterImage | None = None) -> None:
        super().__init__(node_id, config, image)
        self.directories = NeverFound(self.image, self.election_rules(config))


class TrustsWhoHasCrashed(Controller):
    """Whose log is damaged or gone counts as if its process had stopped cleanly."""

    election_rules = StaysEligible


@pytest.mark.parametrize(
    ("machine", "controller"),
    [
        ("lost-logs", ElectsTheLostFirst),
        ("lost-logs", TakesNothingBack),
        ("lost-logs", TrustsWhoHasCrashed),
        ("damage", TrustsWhoHasCrashed),
    ],
)
def test_wrong_cores_differ(machine: str, controller: type[Controller]) -> None:
    found = always(machine).first_failure(SEED, WALKS, roles=Roles(controller=controller))
    assert found is not None
    assert found.failure is not None
    assert found.failure.expected.kind is Failure.DIFFERENCE


def test_a_controller_for_which_replicas_in_sync_are_lost_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision, "in_sync_found", lambda registration: registration)
    found = always("lost-logs").first_failure(SEED, WALKS)
    assert found is not None
    assert found.failure is not None
    assert "LostReplicas" in found.failure.words


def test_a_wrong_machine_is_not_what_the_cores_do() -> None:
    assert always("lost-logs").first_failure(SEED, WALKS, wrong=ElectsTheLost) is not None


class WritesAgain(Directories):
    """A report of what is known is written all the same."""

    def assign(self, broker_id: int, topic: str, partition: int, directory: str) -> Proposal[ErrorCode]:
        proposal = super().assign(broker_id, topic, partition, directory)
        if proposal.records:
            return proposal
        decision = Decision(self._image)
        decision.write(ReplicaDirectoryRecord(topic, partition, broker_id, directory))
        return decision.propose(proposal.response)


class WritesWhatIsKnown(Controller):
    def __init__(self, node_id: int, config: ControllerConfig, image: ClusterImage | None = None) -> None:
        super().__init__(node_id, config, image)
        self.directories = WritesAgain(self.image, self.election_rules(config))


@pytest.mark.parametrize(
    ("machine", "reports"),
    [("lost-logs", {"ReportLost", "ReportFound"}), ("directories", {"ReplicaOffline", "ReplicaOnline"})],
)
def test_reports_are_sent_again_and_change_nothing(machine: str, reports: set[str]) -> None:
    plan = attrs.evolve(HARNESS[machine].walk_plan(), perturbations=frozenset(), forbidden_share=0.25)
    often = attrs.evolve(HARNESS[machine], plan=plan)
    sent: set[tuple[str, str]] = set()
    for found in often.walks(SEED, 30):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"
        sent.update(found.refused)
    assert sent >= {(report, "OK") for report in reports}
    noticed = often.first_failure(SEED, 30, roles=Roles(controller=WritesWhatIsKnown))
    assert noticed is not None
    assert noticed.failure is not None
    assert "written: specification nothing, implementation ReplicaDirectoryRecord" in noticed.failure.words


@pytest.mark.parametrize("machine", MACHINES)
def test_a_cluster_is_not_bound_to_it(machine: str) -> None:
    with pytest.raises(NotRegisteredError, match=f"{machine} has no binding to the cluster: explore"):
        HARNESS[machine].bind(Side.CLUSTER)
