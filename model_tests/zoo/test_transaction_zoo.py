"""Every bug of transactions, once switched on in the cores, is caught: by comparison, and by an invariant or a goal."""

from __future__ import annotations

import pytest

from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.bugs.transactions import TRANSACTION_BUGS, WITHOUT_A_CORE, CoreBug
from tidegauge.model_tests.harness.cores.transaction_roles import TransactionRoles
from tidegauge.model_tests.harness.counterexamples.files import FOLDER, Failure, load
from tidegauge.model_tests.harness.lockstep.checked import failure_of
from tidegauge.model_tests.harness.lockstep.on_cores import CoresLockstep
from tidegauge.model_tests.harness.registry import HARNESS
from tidegauge.model_tests.zoo.switched_on import assert_walks_differ
from tidegauge.spec.bugs.transactions import TRANSACTION_BUGS as SPEC_BUGS

SEED = 3
LIMIT = 600
HARNESSED = HARNESS["transactions"]
FOUND_SOON = ("kafka_5231", "kafka_14402", "kafka_14884", "kafka_17754")
"""By a handful of walks; the others take seconds."""
every_bug = pytest.mark.parametrize("bug", TRANSACTION_BUGS.values(), ids=TRANSACTION_BUGS)


def test_the_two_zoos_hold_the_same_bugs_but_for_those_of_parts_without_a_core() -> None:
    assert list(TRANSACTION_BUGS) == [name for name in SPEC_BUGS if name not in WITHOUT_A_CORE]


@pytest.mark.parametrize(
    "bug",
    [
        pytest.param(bug, id=name, marks=[pytest.mark.deep] * (name not in FOUND_SOON))
        for name, bug in TRANSACTION_BUGS.items()
    ],
)
def test_walks_show_the_difference_from_the_correct_specification(bug: CoreBug[TransactionRoles]) -> None:
    assert_walks_differ(HARNESSED, bug, SEED, LIMIT)


@every_bug
def test_specification_and_cores_that_are_wrong_alike_violate_the_invariant_together(
    bug: CoreBug[TransactionRoles],
) -> None:
    saved = load(FOLDER / f"{bug.name}.json")
    failure = failure_of(CoresLockstep(saved.buggy_machine(), bug.roles), saved.actions)
    if saved.expected.kind is Failure.GOAL:
        assert failure is None, "they go the way from which nothing heals together"
    else:
        assert failure is not None, f"{bug.name} went unnoticed"
        assert failure.expected.kind is saved.expected.kind, "a step may violate two; lockstep asks of steps first"
        assert failure.expected.name in bug.twin.violates


@every_bug
def test_the_twin_and_the_buggy_cores_agree_until_an_invariant_is_violated(bug: CoreBug[TransactionRoles]) -> None:
    for number in range(amount(2, deep=5)):
        failure = HARNESSED.walk(SEED, number, wrong=bug.twin.buggy, roles=bug.roles).failure
        assert failure is None or failure.expected.kind is Failure.INVARIANT, failure.words
