"""Brokers that an operator removes: the cores do what the machine says, and wrong ones don't."""

from __future__ import annotations

from collections import Counter

import attrs
import pytest

from tidegauge.impl.controller.membership import RegistrationRules
from tidegauge.impl.metadata.image import ClusterImage
from tidegauge.impl.partition.registration import PartitionRegistration
from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.harness.cores.replication import Roles
from tidegauge.model_tests.harness.registry import HARNESS, Registration, Side
from tidegauge.model_tests.lockstep.refusal_mutants import TakesHeartbeatsOfUnknownBrokers, controlled_by, members_of
from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.bugs.unregistering import BUGS
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.replication.extensions.unregistering import LearnBrokerEpoch, Rejoin, Unregister
from tidegauge.spec.replication.machine import Replication

WALKS = 40
SEED = 5


def often(forbidden: float = 0.25) -> Registration:
    """Every walk removes brokers, and something forbidden is sent before every fourth action."""
    registration = HARNESS["unregistering"]
    plan = registration.walk_plan()
    return attrs.evolve(
        registration,
        plan=attrs.evolve(plan, perturbations=plan.perturbations - {Unregister}, forbidden_share=forbidden),
    )


def test_random_walks_find_no_difference_and_every_refusal_is_sent() -> None:
    taken: set[type[Action]] = set()
    refused = Counter[tuple[str, str]]()
    for found in often().walks(SEED, amount(16, deep=WALKS)):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"
        taken.update(map(type, found.actions))
        refused.update(found.refused)
    assert taken >= {Unregister, Rejoin, LearnBrokerEpoch}
    unknown = {what for what, error in refused if error == "BROKER_ID_NOT_REGISTERED"}
    assert unknown >= {"Unregister", "Unfence", "HeartbeatOfFormerProcess"}


@pytest.mark.parametrize("count", [4, pytest.param(300, marks=pytest.mark.deep)])
def test_a_cluster_removes_brokers_and_takes_them_back_as_the_machine_says(count: int) -> None:
    """The operator, the heartbeat that is refused and the registration that follows go over the wire."""
    taken: set[type[Action]] = set()
    refused: set[tuple[str, str]] = set()
    for found in often().walks(SEED, count, side=Side.CLUSTER):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"
        taken.update(map(type, found.actions))
        refused.update(found.refused)
    assert taken >= {Unregister, Rejoin, LearnBrokerEpoch}
    assert ("Unregister", "BROKER_ID_NOT_REGISTERED") in refused


class LeavesItEligible(RegistrationRules):
    def unregistered(
        self, image: ClusterImage, topic: str, registration: PartitionRegistration, broker_id: int
    ) -> PartitionRegistration:
        return self.fenced(image, topic, registration, broker_id)


class TrustsANoteOfAForgottenProcess(RegistrationRules):
    def registered_uncleanly(
        self, image: ClusterImage, topic: str, registration: PartitionRegistration, broker_id: int
    ) -> PartitionRegistration:
        return registration


@pytest.mark.parametrize(
    "roles",
    [
        controlled_by(registration_rules=LeavesItEligible),
        controlled_by(registration_rules=TrustsANoteOfAForgottenProcess),
        members_of(TakesHeartbeatsOfUnknownBrokers),
    ],
    ids=["stays eligible", "trusts anybody", "takes heartbeats of unknown brokers"],
)
def test_wrong_cores_differ(roles: Roles) -> None:
    assert often().first_failure(SEED, WALKS, roles=roles) is not None


def test_a_wrong_cluster_differs() -> None:
    roles = controlled_by(registration_rules=LeavesItEligible)
    assert any(walk.failure for walk in often(0.0).walks(SEED, 10, side=Side.CLUSTER, roles=roles))


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_the_right_cores_differ_from_a_wrong_specification(bug: Bug[Replication]) -> None:
    assert often(0.0).first_failure(SEED, WALKS, wrong=bug.buggy) is not None
