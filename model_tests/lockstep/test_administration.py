"""A controller's core, and its node over the network, do what the machine of administration says; wrong ones don't."""

from __future__ import annotations

from collections import Counter

import pytest

from tidegauge.impl.controller.configs import ConfigRules
from tidegauge.impl.controller.controller import Controller
from tidegauge.impl.controller.decision import Decision, LedPartition
from tidegauge.impl.controller.elections import ElectionRules
from tidegauge.impl.controller.membership import RegistrationRules
from tidegauge.impl.controller.replica_lists import ReplicaListRules
from tidegauge.impl.metadata.image import ClusterImage
from tidegauge.impl.partition.registration import PartitionRegistration
from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.harness.cluster import administration as cluster
from tidegauge.model_tests.harness.cores import administration as cores
from tidegauge.model_tests.harness.cores.replication import Roles
from tidegauge.model_tests.harness.registry import HARNESS, Side
from tidegauge.model_tests.spec.administration import wrong_rules
from tidegauge.spec.administration.machine import Administration
from tidegauge.spec.administration.requests import Request
from tidegauge.spec.administration.state import Error
from tidegauge.spec.kernel.machine import Action

HARNESSED = HARNESS["administration"]
WALKS = amount(12, deep=30)
CLUSTER_WALKS = amount(3, deep=6)
WITHIN = 60
FIRST = {"CancelsAnyway": 14, "StillWaits": 11}
"""The walk that shows it, where it is not one of the first: the search begins there."""


def test_every_action_of_the_specification_has_a_step() -> None:
    assert set(cores.ASKED) == set(cluster.ASKED) == set(Administration.action_types)


def test_random_walks_find_no_difference_and_take_every_action_and_refusal() -> None:
    taken, refused = Counter[type[Action]](), Counter[tuple[str, str]]()
    for found in HARNESSED.walks(7, WALKS):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"
        taken.update(map(type, found.actions))
        refused.update(found.refused)
    assert set(taken) == set(Administration.action_types)
    assert {error for _, error in refused} >= {error.name for error in Error}
    assert {kind for kind, _ in refused} == {
        kind.__name__ for kind in Administration.action_types if issubclass(kind, Request)
    }


def test_walks_over_the_network_find_no_difference() -> None:
    taken = Counter[type[Action]]()
    for found in HARNESSED.walks(7, CLUSTER_WALKS, side=Side.CLUSTER):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"
        taken.update(map(type, found.actions))
    assert len(taken) >= len(Administration.action_types) - 1


@pytest.mark.deep
@pytest.mark.parametrize(("side", "count"), [(Side.CORES, 1_000), (Side.CLUSTER, 150)])
def test_many_walks_find_no_difference(side: Side, count: int) -> None:
    for found in HARNESSED.walks(11, count, side=side):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"


# --- what a controller may get wrong ---------------------------------------------------------------------------------


class NoConsequences(ConfigRules):
    def min_insync_replicas_changed(self, decision: Decision, topic: str) -> None:
        """A change of the setting is no change of partitions."""


class StillWaits(ConfigRules):
    def unclean_election_enabled(self, decision: Decision, topic: str) -> None:
        """Who may lead from now on is asked when something else happens."""


class ForgetsWhoLed(ElectionRules):
    def best_left(self, registration: PartitionRegistration) -> int:
        return registration.replicas[0]


class KeepsEligible(ElectionRules):
    def elr_after(
        self,
        image: ClusterImage,
        topic: str,
        registration: PartitionRegistration,
        isr: frozenset[int],
        elr: frozenset[int],
    ) -> frozenset[int]:
        return elr - isr


class ElectsAnyway(ElectionRules):
    def with_leader(
        self, image: ClusterImage, topic: str, registration: PartitionRegistration, *, unclean: bool = False
    ) -> LedPartition:
        return super().with_leader(image, topic, registration, unclean=True)


class CompletesTooSoon(ReplicaListRules):
    def may_complete(self, registration: PartitionRegistration, target: tuple[int, ...]) -> bool:
        return not registration.isr.isdisjoint(target)


class CancelsAnyway(ReplicaListRules):
    def may_cancel(self, image: ClusterImage, topic: str, registration: PartitionRegistration) -> bool:
        return True


class EligibleThoughGone(RegistrationRules):
    def unregistered(
        self, image: ClusterImage, topic: str, registration: PartitionRegistration, broker_id: int
    ) -> PartitionRegistration:
        return self.fenced(image, topic, registration, broker_id)


class EligibleThoughNew(RegistrationRules):
    def registered_uncleanly(
        self, image: ClusterImage, topic: str, registration: PartitionRegistration, broker_id: int
    ) -> PartitionRegistration:
        return self.fenced(image, topic, registration, broker_id)


WRONG = {
    NoConsequences: "config_rules",
    StillWaits: "config_rules",
    ForgetsWhoLed: "election_rules",
    KeepsEligible: "election_rules",
    ElectsAnyway: "election_rules",
    CompletesTooSoon: "replica_list_rules",
    CancelsAnyway: "replica_list_rules",
    EligibleThoughGone: "registration_rules",
    EligibleThoughNew: "registration_rules",
}


@pytest.mark.parametrize(("rules", "of"), WRONG.items())
def test_a_core_that_is_wrong_is_found(rules: type[object], of: str) -> None:
    controller = type("Wrong", (Controller,), {of: rules})
    first = FIRST.get(rules.__name__, 0)
    assert HARNESSED.first_failure(3, WITHIN, first=first, roles=Roles(controller=controller)) is not None


MUTANTS = [one for one in vars(wrong_rules).values() if isinstance(one, type) and issubclass(one, Administration)]


@pytest.mark.parametrize("mutant", [one for one in MUTANTS if one is not Administration])
def test_a_wrong_machine_is_not_what_the_core_does(mutant: type[Administration]) -> None:
    assert HARNESSED.first_failure(3, WITHIN, wrong=mutant) is not None
