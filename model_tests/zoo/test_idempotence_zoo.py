"""Every bug of idempotent producing, once switched on in the cores, is caught: by comparison, and by an invariant."""

from __future__ import annotations

from functools import cache

import pytest

from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.bugs.idempotence import IDEMPOTENCE_BUGS, CoreBug
from tidegauge.model_tests.harness.cores.replication import CORRECT, Roles
from tidegauge.model_tests.harness.counterexamples.files import Failure
from tidegauge.model_tests.harness.lockstep.checked import failure_of
from tidegauge.model_tests.harness.lockstep.on_cores import CoresLockstep
from tidegauge.model_tests.harness.registry import HARNESS
from tidegauge.model_tests.zoo.switched_on import assert_walks_differ
from tidegauge.spec.bugs.idempotence import IDEMPOTENCE_BUGS as SPEC_BUGS
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.machine import Action

SEED = 3
LIMIT = 300
FIRST = {"kafka_6003": 19, "kafka_7692": 20, "librdkafka_4953": 8}
"""The walk that shows it, where it is not one of the first: the search begins there."""
HARNESSED = HARNESS["idempotence"]
every_bug = pytest.mark.parametrize("bug", IDEMPOTENCE_BUGS.values(), ids=IDEMPOTENCE_BUGS)


@cache
def shortest(name: str) -> tuple[Action, ...]:
    """The explorer's counterexample."""
    return explore(SPEC_BUGS[name].machine()).violations[0].trace.actions


def test_the_two_zoos_hold_the_same_bugs() -> None:
    assert list(IDEMPOTENCE_BUGS) == list(SPEC_BUGS)


@every_bug
def test_walks_show_the_difference_from_the_correct_specification(bug: CoreBug[Roles]) -> None:
    assert_walks_differ(HARNESSED, bug, SEED, LIMIT, FIRST.get(bug.name, 0))


@every_bug
def test_the_shortest_counterexample_fells_the_invariant_when_both_are_wrong_alike(bug: CoreBug[Roles]) -> None:
    failure = failure_of(CoresLockstep(bug.twin.machine(), bug.roles), shortest(bug.name))
    assert failure is not None, f"{bug.name} went unnoticed"
    assert failure.expected.kind is Failure.INVARIANT, failure.words
    assert failure.expected.name in bug.twin.violates


@every_bug
def test_the_counterexample_shows_the_difference_when_only_the_cores_are_wrong(bug: CoreBug[Roles]) -> None:
    failure = failure_of(CoresLockstep(bug.twin.correct_machine(), bug.roles), shortest(bug.name))
    assert failure is not None
    assert failure.expected.kind is Failure.DIFFERENCE


@every_bug
def test_the_counterexample_harms_nothing_without_the_bug(bug: CoreBug[Roles]) -> None:
    assert failure_of(CoresLockstep(bug.twin.correct_machine(), CORRECT), shortest(bug.name)) is None


@every_bug
def test_the_twin_and_the_buggy_cores_agree_until_an_invariant_is_violated(bug: CoreBug[Roles]) -> None:
    for number in range(amount(6, deep=20)):
        failure = HARNESSED.walk(SEED, number, wrong=bug.twin.buggy, roles=bug.roles).failure
        assert failure is None or failure.expected.kind is Failure.INVARIANT, failure.words
