"""Every bug of consumer groups (KIP-848), once switched on in the core of a coordinator, is caught by comparison."""

from __future__ import annotations

import pytest

from tidegauge.model_tests.bugs.consumers import CONSUMER_BUGS, CoreBug
from tidegauge.model_tests.harness.cores.consumer_abstraction import ConsumerRoles
from tidegauge.model_tests.harness.lockstep.checked import failure_of
from tidegauge.model_tests.harness.lockstep.on_cores import CoresLockstep
from tidegauge.model_tests.harness.registry import HARNESS
from tidegauge.model_tests.zoo.switched_on import assert_walks_differ
from tidegauge.spec.bugs.consumers import CONSUMER_BUGS as SPEC_BUGS
from tidegauge.spec.kernel.explorer import explore

FIRST = {"kafka_19233": 5, "kafka_19974": 57}
"""The walk that shows it, where it is not one of the first: the search begins there."""
every_bug = pytest.mark.parametrize("bug", CONSUMER_BUGS.values(), ids=CONSUMER_BUGS)


def test_the_two_zoos_hold_the_same_bugs() -> None:
    assert list(CONSUMER_BUGS) == list(SPEC_BUGS)


@every_bug
def test_walks_show_the_difference_from_the_correct_specification(bug: CoreBug[ConsumerRoles]) -> None:
    assert_walks_differ(HARNESS["consumer-groups"], bug, 1, 200, FIRST.get(bug.name, 0))


@every_bug
def test_specification_and_core_that_are_wrong_alike_go_the_way_of_the_counterexample(
    bug: CoreBug[ConsumerRoles],
) -> None:
    machine = bug.twin.machine()
    found = explore(machine, converges=True)
    if found.violations:
        assert found.violations[0].invariant in bug.twin.violates
        failure = failure_of(CoresLockstep(machine, bug.roles), found.violations[0].trace.actions)
        assert failure is not None, f"{bug.name} went unnoticed"
        assert failure.expected.name in bug.twin.violates, failure.words
    else:
        assert found.convergence is not None
        lasso = found.convergence.lassos[0]
        assert lasso.goal in bug.twin.violates
        failure = failure_of(CoresLockstep(machine, bug.roles), lasso.stem.actions)
        assert failure is None, "they go the way from which nothing heals together"
