"""A cluster does what the specification of groups that go over says, action by action, over the network.

Members of both protocols, dynamic and static; requests that are refused are sent too, and coordinators fail over.
"""

from __future__ import annotations

from collections import Counter

import attrs
import pytest

from tidegauge.impl.coordinators.groups.migration.rules import MigrationRules
from tidegauge.model_tests.harness.cluster.group_migration import BY_PROCESSES, STEPS
from tidegauge.model_tests.harness.cores.group_migration import MigrationRoles
from tidegauge.model_tests.harness.counterexamples.files import Failure
from tidegauge.model_tests.harness.registry import HARNESS, Side
from tidegauge.model_tests.lockstep.test_group_migration import (
    MUTANTS,
    BelievesWhatIsClaimed,
    CountsOn,
    ForgetsWhatIsLeftOver,
    NeverGoesBack,
    TellsNobodyWhatToGiveBack,
)
from tidegauge.spec.groups.migration.machine import GroupMigration
from tidegauge.spec.groups.migration.timing import ExpireRejoin
from tidegauge.spec.kernel.machine import Action

SEED = 9
WALKS = 9
WITHIN = 40
REGISTERED = HARNESS["group-migration"]
OFTEN = attrs.evolve(REGISTERED, plan=attrs.evolve(REGISTERED.walk_plan(), forbidden_share=0.25))
"""The walks with something forbidden before every fourth action."""
RARE = {ExpireRejoin}
"""A member that was told to join again, and does not: few walks have it."""
BESIDE_CORES = {ForgetsWhatIsLeftOver, BelievesWhatIsClaimed, TellsNobodyWhatToGiveBack}
"""Mutants that take hundreds of walks, which are cheap beside the cores."""
QUICK = (NeverGoesBack, CountsOn)
"""Found on few walks."""


def test_every_action_of_the_specification_has_a_step_or_is_no_coordinators() -> None:
    assert {*STEPS, *BY_PROCESSES} == set(GroupMigration.action_types)
    assert not set(STEPS) & set(BY_PROCESSES)


def test_random_walks_find_no_difference_and_take_every_action_and_refusal() -> None:
    taken: set[type[Action]] = set()
    refused = Counter[tuple[str, str]]()
    for found in OFTEN.walks(SEED, WALKS, side=Side.CLUSTER):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"
        taken.update(map(type, found.actions))
        refused.update(found.refused)
    assert taken >= {*STEPS} - RARE
    assert refused.keys() >= {
        ("ReceiveHeartbeat", "UNKNOWN_MEMBER_ID"),
        ("ReceiveHeartbeat", "FENCED_MEMBER_EPOCH"),
        ("ReceiveHeartbeat", "FENCED_INSTANCE_ID"),
        ("ReceiveHeartbeat", "GROUP_ID_NOT_FOUND"),
        ("ReceiveHeartbeat", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("ReceiveHeartbeat", "NONE"),
        ("ReceiveCommit", "UNKNOWN_MEMBER_ID"),
        ("ReceiveCommit", "ILLEGAL_GENERATION"),
        ("ReceiveCommit", "STALE_MEMBER_EPOCH"),
        ("ReceiveCommit", "FENCED_INSTANCE_ID"),
        ("ReceiveLeave", "UNKNOWN_MEMBER_ID"),
        ("ReceiveLeave", "FENCED_INSTANCE_ID"),
        ("ReceiveBeat", "NONE"),
    }


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(100, 104))
def test_many_walks_find_no_difference_and_take_every_action(seed: int) -> None:
    taken: set[type[Action]] = set()
    for found in OFTEN.walks(seed, 200, side=Side.CLUSTER, length=120):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"
        taken.update(map(type, found.actions))
    assert taken == set(GroupMigration.action_types)


@pytest.mark.parametrize(
    "mutant",
    [pytest.param(one, marks=[pytest.mark.deep] * (one not in QUICK)) for one in MUTANTS if one not in BESIDE_CORES],
)
def test_walks_find_a_rule_that_is_wrong(mutant: type[MigrationRules]) -> None:
    found = REGISTERED.first_failure(SEED, WITHIN, side=Side.CLUSTER, roles=MigrationRoles(mutant))
    assert found is not None, "no walk has found it"
    assert found.failure is not None
    assert found.failure.expected.kind is Failure.DIFFERENCE
    assert REGISTERED.walk(SEED, found.number, side=Side.CLUSTER).failure is None, "with the right rule it differs too"
