"""A coordinator's records of a consumer group beside the specification: written, cleaned, and loaded meanwhile."""

from __future__ import annotations

from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.harness.cores.group_loading import STEPS
from tidegauge.model_tests.harness.registry import HARNESS
from tidegauge.spec.groups.loading.machine import GroupLoading
from tidegauge.spec.kernel.machine import Action


def test_every_action_of_the_specification_has_a_step() -> None:
    assert set(STEPS) == set(GroupLoading.action_types)


def test_random_walks_find_no_difference_and_take_every_action() -> None:
    taken: set[type[Action]] = set()
    for found in HARNESS["group-loading"].walks(1, amount(6, deep=200)):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"
        taken.update(map(type, found.actions))
    assert taken == set(GroupLoading.action_types)
