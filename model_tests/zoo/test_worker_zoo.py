"""Every bug of workers, once switched on in a consumer's queues, is caught: by comparison, and by an invariant."""

from __future__ import annotations

import pytest

from tidegauge.model_tests.bugs.workers import WORKER_BUGS, CoreBug
from tidegauge.model_tests.harness.cores.workers import WorkerRoles
from tidegauge.model_tests.harness.registry import HARNESS
from tidegauge.model_tests.zoo.switched_on import assert_walks_differ, assert_wrong_alike
from tidegauge.spec.bugs.workers import WORKER_BUGS as SPEC_BUGS

SEED = 1
LIMIT = 20
HARNESSED = HARNESS["workers"]
every_bug = pytest.mark.parametrize("bug", WORKER_BUGS.values(), ids=WORKER_BUGS)


def test_the_two_zoos_hold_the_same_bugs() -> None:
    assert list(WORKER_BUGS) == list(SPEC_BUGS)


@every_bug
def test_walks_show_the_difference_from_the_correct_specification(bug: CoreBug[WorkerRoles]) -> None:
    assert_walks_differ(HARNESSED, bug, SEED, LIMIT)


@every_bug
def test_specification_and_queues_that_are_wrong_alike_violate_the_invariant_together(
    bug: CoreBug[WorkerRoles],
) -> None:
    assert_wrong_alike(bug)
