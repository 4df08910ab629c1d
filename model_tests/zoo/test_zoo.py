"""Every bug of the zoo, once switched on in the cores, is caught: by comparison, and by the invariant."""

from __future__ import annotations

import pytest

from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.bugs import BUGS, CoreBug
from tidegauge.model_tests.harness.cores.replication import CORRECT, Roles
from tidegauge.model_tests.harness.counterexamples.files import FOLDER, Failure, load
from tidegauge.model_tests.harness.lockstep.checked import failure_of
from tidegauge.model_tests.harness.lockstep.on_cores import CoresLockstep
from tidegauge.model_tests.harness.registry import HARNESS
from tidegauge.model_tests.zoo.switched_on import assert_walks_differ, assert_wrong_alike
from tidegauge.spec.bugs import BUGS as SPEC_BUGS

SEED = 3
LIMIT = 300
FIRST = {"kafka_6361": 145, "kafka_7128": 27, "minimal_isr": 18}
"""The walk that shows it, where it is not one of the first: the search begins there."""
HARNESSED = HARNESS["replication"]
every_bug = pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)


def test_the_two_zoos_hold_the_same_bugs() -> None:
    assert list(BUGS) == list(SPEC_BUGS)


@every_bug
def test_walks_show_the_difference_from_the_correct_specification(bug: CoreBug[Roles]) -> None:
    assert_walks_differ(HARNESSED, bug, SEED, LIMIT, FIRST.get(bug.name, 0))


@every_bug
def test_the_invariant_is_violated_when_specification_and_cores_are_wrong_alike(bug: CoreBug[Roles]) -> None:
    assert_wrong_alike(bug)
    assert load(FOLDER / f"{bug.name}.json").expected.kind is Failure.INVARIANT


@every_bug
def test_the_counterexample_harms_nothing_without_the_bug(bug: CoreBug[Roles]) -> None:
    saved = load(FOLDER / f"{bug.name}.json")
    assert failure_of(CoresLockstep(saved.machine, CORRECT), saved.actions) is None


@every_bug
def test_the_counterexample_shows_the_difference_when_only_the_cores_are_wrong(bug: CoreBug[Roles]) -> None:
    saved = load(FOLDER / f"{bug.name}.json")
    failure = failure_of(CoresLockstep(saved.machine, bug.roles), saved.actions)
    assert failure is not None
    assert failure.expected.kind is Failure.DIFFERENCE
    assert len(failure.actions) <= len(saved.actions)


@every_bug
def test_the_twin_and_the_buggy_cores_agree_until_the_invariant_is_violated(bug: CoreBug[Roles]) -> None:
    for number in range(amount(6, deep=20)):
        failure = HARNESSED.walk(SEED, number, wrong=bug.twin.buggy, roles=bug.roles).failure
        assert failure is None or failure.expected.kind is Failure.INVARIANT, str(failure)


def test_a_bug_in_the_specification_alone_differs_as_well() -> None:
    bug = BUGS["high_watermark_by_majority"]
    found = HARNESSED.first_failure(SEED, LIMIT, wrong=bug.twin.buggy)
    assert found is not None
    assert found.failure is not None
    assert found.failure.expected.kind is Failure.DIFFERENCE
