"""Every bug of classic groups, once switched on in the core of a coordinator or member, is caught by comparison."""

from __future__ import annotations

from random import Random

import attrs
import pytest

from tidegauge.model_tests.bugs.groups import GROUP_BUGS, CoreBug
from tidegauge.model_tests.harness.cores.classic_groups import GroupRoles
from tidegauge.model_tests.harness.lockstep.checked import failure_of
from tidegauge.model_tests.harness.lockstep.on_cores import CoresLockstep
from tidegauge.model_tests.harness.registry import HARNESS
from tidegauge.model_tests.zoo.switched_on import assert_walks_differ
from tidegauge.spec.bugs.groups import GROUP_BUGS as SPEC_BUGS
from tidegauge.spec.groups.classic.machine import ClassicGroups
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.explorer import explore

SEED = 3
LIMIT = 60
FIRST = {"kafka_5600": 9, "kafka_9823": 58, "kafka_12984": 14}
"""The walk that shows it, where it is not one of the first: the search begins there."""
HARNESSED = HARNESS["classic-groups"]


def lasting_members(_: Random) -> ClassicGroups:
    """Cooperative members that stay, and whose connections and rebalances end early: some miss a generation."""
    bounds = dict.fromkeys(ClassicGroups().perturbations, 1_000)
    bounds |= dict.fromkeys(("FailOver", "ExpireSession", "Hang", "Crash", "Leave"), 0)
    return ClassicGroups(processes=3, cooperative=True, partitions=3, bounds=Bounds(bounds))


NARROWED = {"kafka_12984": attrs.evolve(HARNESSED, plan=attrs.evolve(HARNESSED.walk_plan(), draw=lasting_members))}
"""For bugs that few of the walks of all groups come to."""
every_bug = pytest.mark.parametrize("bug", GROUP_BUGS.values(), ids=GROUP_BUGS)


def test_the_two_zoos_hold_the_same_bugs() -> None:
    assert list(GROUP_BUGS) == list(SPEC_BUGS)


@every_bug
def test_walks_show_the_difference_from_the_correct_specification(bug: CoreBug[GroupRoles]) -> None:
    assert_walks_differ(NARROWED.get(bug.name, HARNESSED), bug, SEED, LIMIT, FIRST.get(bug.name, 0))


@every_bug
def test_specification_and_core_that_are_wrong_alike_go_the_way_of_the_counterexample(bug: CoreBug[GroupRoles]) -> None:
    machine = bug.twin.machine()
    found = explore(machine, converges=True)
    violations, convergence = found.violations, found.convergence
    if violations:
        failure = failure_of(CoresLockstep(machine, bug.roles), violations[0].trace.actions)
        assert failure is not None, f"{bug.name} went unnoticed"
        assert failure.expected.name in bug.twin.violates, failure.words
    else:
        assert convergence is not None
        lasso = convergence.lassos[0]
        assert lasso.goal in bug.twin.violates
        failure = failure_of(CoresLockstep(machine, bug.roles), lasso.stem.actions)
        assert failure is None, "they go the way from which nothing heals together"
