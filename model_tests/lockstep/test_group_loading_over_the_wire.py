"""A group's records in a cluster beside the specification: written, cleaned, and loaded meanwhile by coordinators.

That a cluster shows each bug of the zoo is in `test_shortest_counterexamples`.
"""

from __future__ import annotations

import pytest

from tidegauge.impl.coordinators.groups.consumer.coordinator import ConsumerGroups
from tidegauge.impl.coordinators.groups.record_formats import ConsumerKey
from tidegauge.model_tests.harness.cluster.group_loading import STEPS
from tidegauge.model_tests.harness.cores.group_loading import LoadingRoles
from tidegauge.model_tests.harness.counterexamples.files import Failure
from tidegauge.model_tests.harness.registry import HARNESS, Side
from tidegauge.spec.groups.loading.machine import GroupLoading
from tidegauge.spec.kernel.machine import Action

SEED = 1
WALKS = 4
WITHIN = 4
REGISTERED = HARNESS["group-loading"]


def test_every_action_of_the_specification_has_a_step() -> None:
    assert set(STEPS) == set(GroupLoading.action_types)


def test_random_walks_find_no_difference_and_take_every_action() -> None:
    taken: set[type[Action]] = set()
    for found in REGISTERED.walks(SEED, WALKS, side=Side.CLUSTER):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"
        taken.update(map(type, found.actions))
    assert taken == set(GroupLoading.action_types)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(100, 104))
def test_many_walks_find_no_difference(seed: int) -> None:
    for found in REGISTERED.walks(seed, 100, side=Side.CLUSTER):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"


class LeavesTombstonesOut(ConsumerGroups):
    """What was deleted comes back."""

    def replay(self, key: ConsumerKey, value: bytes | None) -> None:
        if value is not None:
            super().replay(key, value)


class KeepsTheFirst(ConsumerGroups):
    """A record of a key that is known already is not looked at."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self.seen: set[ConsumerKey] = set()

    def replay(self, key: ConsumerKey, value: bytes | None) -> None:
        if key not in self.seen:
            super().replay(key, value)
        self.seen.add(key)


@pytest.mark.parametrize("wrong", [LeavesTombstonesOut, KeepsTheFirst])
def test_a_coordinator_with_one_wrong_rule_is_found_within_few_walks(wrong: type[ConsumerGroups]) -> None:
    found = REGISTERED.first_failure(SEED, WITHIN, side=Side.CLUSTER, roles=LoadingRoles(groups=wrong))
    assert found is not None, f"nothing was noticed in {WITHIN} walks"
    assert found.failure is not None
    assert found.failure.expected.kind is Failure.DIFFERENCE
    assert REGISTERED.walk(SEED, found.number, side=Side.CLUSTER).failure is None, "without it the walk shows nothing"
