"""A cluster does what the specification of classic groups says, action by action, over the network, refusals included.

The counterexamples of the bugs are replayed on it with all others (`model_tests/counterexamples/test_replay.py`).
"""

from __future__ import annotations

from collections import Counter

import attrs
import pytest

from tidegauge.impl.coordinators.groups.classic.coordinator import ClassicGroups as Core
from tidegauge.impl.coordinators.groups.classic.messages import Moment, Outcome
from tidegauge.impl.coordinators.groups.coordinator import GroupCoordinator, Limits
from tidegauge.impl.coordinators.groups.group_metadata import GroupMetadata
from tidegauge.model_tests.bugs.groups import GROUP_BUGS
from tidegauge.model_tests.harness.cluster.classic_groups import BY_PROCESSES, STEPS
from tidegauge.model_tests.harness.cores.classic_groups import GroupRoles
from tidegauge.model_tests.harness.counterexamples.files import Failure
from tidegauge.model_tests.harness.registry import HARNESS, Side
from tidegauge.spec.groups.classic.machine import ClassicGroups
from tidegauge.spec.groups.classic.processes import NoticePartitions
from tidegauge.spec.groups.classic.requests import SENT
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.machine import Action

SEED = 18
WALKS = 5
WITHIN = 20
REGISTERED = HARNESS["classic-groups"]
OFTEN = attrs.evolve(REGISTERED, plan=attrs.evolve(REGISTERED.walk_plan(), forbidden_share=0.25))
"""The walks with something forbidden before every fourth action."""


def test_every_action_of_the_specification_has_a_step_or_is_no_coordinators() -> None:
    assert {*STEPS, *BY_PROCESSES} == set(ClassicGroups.action_types)
    assert not set(STEPS) & set(BY_PROCESSES)


def test_random_walks_find_no_difference_and_take_every_action_and_refusal() -> None:
    taken: set[type[Action]] = set()
    refused = Counter[tuple[str, str]]()
    for found in OFTEN.walks(SEED, WALKS, side=Side.CLUSTER):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"
        taken.update(map(type, found.actions))
        refused.update(found.refused)
    assert taken >= set(STEPS) - {NoticePartitions}, "what comes of partitions that are added has a test of its own"
    for kind in SENT:
        assert {"UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID"} <= {
            error for name, error in refused if name == kind.__name__
        }
    loading = {(name, error) for name, error in refused if "LOAD_IN_PROGRESS" in error or name == "ReceiveSync"}
    assert loading >= {
        ("ReceiveJoin", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("ReceiveCommit", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("ReceiveLeave", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("ReceiveSync", "REBALANCE_IN_PROGRESS"),
        ("ReceiveSync", "ILLEGAL_GENERATION"),
    }


def test_a_leader_that_sees_more_partitions_joins_again() -> None:
    machine = ClassicGroups(processes=1, partitions=1, bounds=Bounds(AddPartition=8))
    plan = attrs.evolve(REGISTERED.walk_plan(), draw=lambda _: machine, perturbations=frozenset())
    (found,) = attrs.evolve(REGISTERED, plan=plan).walks(SEED, 1, first=1, side=Side.CLUSTER, length=40)
    assert found.failure is None, found.failure.words
    assert NoticePartitions in map(type, found.actions)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(100, 104))
def test_many_walks_find_no_difference(seed: int) -> None:
    for found in OFTEN.walks(seed, 200, side=Side.CLUSTER, length=120):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"


class CountsOneMore(Core):
    def load(self, group: str, metadata: GroupMetadata, now: Moment) -> Outcome:
        return super().load(group, metadata._replace(generation=metadata.generation + 1), now)


class LoadsWrong(GroupCoordinator):
    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self.classic = CountsOneMore(limits.classic)


def test_a_coordinator_that_reads_its_log_wrong_differs_by_name() -> None:
    found = REGISTERED.first_failure(SEED, WITHIN, side=Side.CLUSTER, roles=GroupRoles(coordinator=LoadsWrong))
    assert found is not None
    assert found.failure is not None
    assert found.failure.expected.kind is Failure.DIFFERENCE
    assert "group.generation" in found.failure.words
    assert "after Load" in found.failure.words


@pytest.mark.deep
@pytest.mark.parametrize("name", [name for name, bug in GROUP_BUGS.items() if bug.on_cluster])
def test_walks_show_the_bugs_of_the_zoo(name: str) -> None:
    found = REGISTERED.first_failure(3, 400, side=Side.CLUSTER, roles=GROUP_BUGS[name].roles)
    assert found is not None, f"{name} went unnoticed"
    assert REGISTERED.walk(3, found.number, side=Side.CLUSTER).failure is None, "without the bug it shows nothing"
