"""A cluster does what the specification of consumer groups (KIP-848) says, action by action, over the network.

Requests that are refused are sent too; coordinators fail over, and topics come and go.
"""

from __future__ import annotations

import attrs
import pytest

from tidegauge.model_tests.bugs.consumers import CONSUMER_BUGS
from tidegauge.model_tests.harness.cluster.consumer_groups import STEPS
from tidegauge.model_tests.harness.registry import HARNESS, Side
from tidegauge.spec.groups.consumer.machine import ConsumerGroups
from tidegauge.spec.groups.consumer.processes import ChangeRacks
from tidegauge.spec.groups.consumer.requests import ReceiveCommit, ReceiveHeartbeat, ReceiveLeave
from tidegauge.spec.groups.consumer.timing import CommitRecord, FailOver, Load
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.machine import Action

SEED = 2
WALKS = 8
REGISTERED = HARNESS["consumer-groups"]
OFTEN = attrs.evolve(REGISTERED, plan=attrs.evolve(REGISTERED.walk_plan(), forbidden_share=0.25))
"""The walks with something forbidden before every fourth action."""


def test_a_step_is_an_action_of_the_specification() -> None:
    assert {*STEPS} <= {*ConsumerGroups.action_types}


def test_random_walks_find_no_difference_and_fail_over_and_are_refused() -> None:
    taken: set[type[Action]] = set()
    refused: set[str] = set()
    for found in OFTEN.walks(SEED, WALKS, side=Side.CLUSTER):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"
        taken.update(map(type, found.actions))
        refused.update(error for _, error in found.refused)
    assert taken >= {ReceiveHeartbeat, ReceiveCommit, ReceiveLeave, CommitRecord, FailOver, Load}
    assert refused >= {"UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH", "FENCED_INSTANCE_ID", "COORDINATOR_LOAD_IN_PROGRESS"}


def test_a_group_begins_an_epoch_when_replicas_are_in_other_racks() -> None:
    machine = ConsumerGroups(partitions=1, bounds=Bounds(ChangeRacks=2))
    plan = attrs.evolve(REGISTERED.walk_plan(), draw=lambda rng: machine, perturbations=frozenset())
    (found,) = attrs.evolve(REGISTERED, plan=plan).walks(SEED, 1, side=Side.CLUSTER, length=30)
    assert found.failure is None, found.failure.words
    assert [*map(type, found.actions)].count(ChangeRacks) == 2


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(100, 104))
def test_many_walks_find_no_difference_and_take_every_action(seed: int) -> None:
    taken: set[type[Action]] = set()
    for found in OFTEN.walks(seed, 200, side=Side.CLUSTER, length=120):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"
        taken.update(map(type, found.actions))
    assert taken == {*ConsumerGroups.action_types}


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=[pytest.mark.deep] * (one != "kafka_19233")) for one in CONSUMER_BUGS]
)
def test_walks_show_the_bugs_of_the_zoo(name: str) -> None:
    found = REGISTERED.first_failure(SEED, 400, side=Side.CLUSTER, roles=CONSUMER_BUGS[name].roles)
    assert found is not None, f"{name} went unnoticed"
    assert REGISTERED.walk(SEED, found.number, side=Side.CLUSTER).failure is None, "without the bug it shows nothing"
