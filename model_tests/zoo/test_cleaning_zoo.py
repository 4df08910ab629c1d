"""Every bug of cleaning under transactions, switched on in the cleaner, is caught: by comparison, by an invariant."""

from __future__ import annotations

import pytest

from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.bugs.cleaning import CLEANING_BUGS, CoreBug
from tidegauge.model_tests.harness.cores.log_cleaning import CleaningRoles
from tidegauge.model_tests.harness.registry import HARNESS
from tidegauge.model_tests.zoo.switched_on import assert_walks_differ, assert_wrong_alike
from tidegauge.spec.bugs.cleaning import CLEANING_BUGS as SPEC_BUGS

SEED = 1
LIMIT = 20
WALKS = amount(15, deep=40)
HARNESSED = HARNESS["transactional-compaction"]
every_bug = pytest.mark.parametrize("bug", CLEANING_BUGS.values(), ids=CLEANING_BUGS)


def test_the_two_zoos_hold_the_same_bugs() -> None:
    assert list(CLEANING_BUGS) == list(SPEC_BUGS)


def test_the_cleaner_does_what_its_machine_does() -> None:
    failures = [walk.failure.words for walk in HARNESSED.walks(SEED, WALKS) if walk.failure is not None]
    assert not failures


@every_bug
def test_walks_show_the_difference_from_the_correct_specification(bug: CoreBug[CleaningRoles]) -> None:
    assert_walks_differ(HARNESSED, bug, SEED, LIMIT)


@every_bug
def test_specification_and_cleaner_that_are_wrong_alike_violate_the_invariant_together(
    bug: CoreBug[CleaningRoles],
) -> None:
    assert_wrong_alike(bug)
