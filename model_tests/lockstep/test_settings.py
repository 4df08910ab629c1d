"""Settings that change under a partition: the cores do what the machine says, and wrong ones don't."""

from __future__ import annotations

import pytest

from tidegauge.impl.controller.configs import ConfigRules
from tidegauge.impl.controller.controller import Controller
from tidegauge.impl.controller.decision import Decision
from tidegauge.impl.metadata.records import PartitionChangeRecord
from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.harness.cores.replication import Roles
from tidegauge.model_tests.harness.counterexamples.files import Failure
from tidegauge.model_tests.harness.registry import HARNESS
from tidegauge.spec.bugs import settings as wrong
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.replication.extensions import settings
from tidegauge.spec.replication.extensions.settings import Settings
from tidegauge.spec.replication.machine import Replication

WALKS = 200
SEED = 5
HARNESSED = HARNESS["settings"]
RARE = 2
"""Kinds of action that so few walks may miss."""


def test_random_walks_find_no_difference_and_take_every_action() -> None:
    taken: set[type[Action]] = set()
    for found in HARNESSED.walks(1, amount(40, deep=110)):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"
        taken.update(map(type, found.actions))
    assert settings.ChangeSettings in taken
    assert len(set(Replication(extensions=(Settings(),)).action_types) - taken) <= RARE


class NoConsequences(ConfigRules):
    """A change of the setting is no change of the partition."""

    def min_insync_replicas_changed(self, decision: Decision, topic: str) -> None:
        pass


class RaisesNoEpoch(Controller):
    config_rules = NoConsequences


class SameEligibleReplicas(ConfigRules):
    """An eligible replica stays so when fewer must be in sync."""

    def min_insync_replicas_changed(self, decision: Decision, topic: str) -> None:
        for index, partition in list(decision.image.topics[topic].partitions.items()):
            decision.write(PartitionChangeRecord(topic, index, elr=tuple(sorted(partition.elr))))


class KeepsTheEligible(Controller):
    config_rules = SameEligibleReplicas


@pytest.mark.parametrize("controller", [RaisesNoEpoch, KeepsTheEligible])
def test_wrong_cores_differ(controller: type[Controller]) -> None:
    found = HARNESSED.first_failure(SEED, WALKS, roles=Roles(controller=controller))
    assert found is not None
    assert found.failure is not None
    assert found.failure.expected.kind is Failure.DIFFERENCE


@pytest.mark.parametrize("machine", [wrong.RaisesNoEpoch, wrong.KeepsTheEligible])
def test_a_wrong_machine_is_not_what_the_cores_do(machine: type[Settings]) -> None:
    assert HARNESSED.first_failure(SEED, WALKS, wrong=machine) is not None
