"""Every bug of loading groups, once switched on in a coordinator, is caught: by comparison, and by an invariant."""

from __future__ import annotations

import pytest

from tidegauge.model_tests.bugs.loading import LOADING_BUGS, CoreBug
from tidegauge.model_tests.harness.cores.group_loading import LoadingRoles
from tidegauge.model_tests.harness.registry import HARNESS
from tidegauge.model_tests.zoo.switched_on import assert_walks_differ, assert_wrong_alike
from tidegauge.spec.bugs.loading import LOADING_BUGS as SPEC_BUGS

SEED = 2
LIMIT = 20
HARNESSED = HARNESS["group-loading"]
every_bug = pytest.mark.parametrize("bug", LOADING_BUGS.values(), ids=LOADING_BUGS)


def test_the_two_zoos_hold_the_same_bugs() -> None:
    assert list(LOADING_BUGS) == list(SPEC_BUGS)


@every_bug
def test_walks_show_the_difference_from_the_correct_specification(bug: CoreBug[LoadingRoles]) -> None:
    assert_walks_differ(HARNESSED, bug, SEED, LIMIT)


@every_bug
def test_specification_and_coordinator_that_are_wrong_alike_violate_the_invariant_together(
    bug: CoreBug[LoadingRoles],
) -> None:
    assert_wrong_alike(bug)
