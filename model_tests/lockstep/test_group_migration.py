"""The cores of a coordinator go beside the specification of groups that go over, walk by walk."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.migration.rules import MigrationRules
from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.harness.cores.group_migration import MigrationRoles
from tidegauge.model_tests.harness.registry import HARNESS
from tidegauge.spec.groups.migration.machine import GroupMigration as Machine
from tidegauge.spec.kernel.machine import Action

SEED = 6
WALKS = amount(12, deep=24)
REGISTERED = HARNESS["group-migration"]
REFUSED = {
    ("ReceiveHeartbeat", "UNKNOWN_MEMBER_ID"),
    ("ReceiveCommit", "UNKNOWN_MEMBER_ID"),
    ("ReceiveCommit", "ILLEGAL_GENERATION"),
    ("ReceiveCommit", "STALE_MEMBER_EPOCH"),
    ("ReceiveBeat", "NONE"),
    ("ReceiveLeave", "UNKNOWN_MEMBER_ID"),
    ("ReceiveHeartbeat", "FENCED_INSTANCE_ID"),
    ("ReceiveCommit", "FENCED_INSTANCE_ID"),
    ("ReceiveLeave", "FENCED_INSTANCE_ID"),
}


def test_walks_find_no_difference_and_take_every_action_and_refusal() -> None:
    taken: set[type[Action]] = set()
    refused = Counter[tuple[str, str]]()
    for found in REGISTERED.walks(SEED, WALKS):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"
        taken.update(map(type, found.actions))
        refused.update(found.refused)
    assert taken == set(Machine.action_types)
    assert set(refused) >= REFUSED


@pytest.mark.deep
def test_many_walks_find_no_difference() -> None:
    for found in REGISTERED.walks(100, 500, length=150):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"


# --- the cores with a rule that is wrong -----------------------------------------------------------------------------


class GoesOverUnasked(MigrationRules):
    def refusal(self, group: Any) -> str:
        return ""


class NeverGoesBack(MigrationRules):
    def downgrades(self, group: Any) -> bool:
        return False


class ForgetsWhatIsLeftOver(MigrationRules):
    def left_over(self, group: Any, member: Any, topics: Any, given: Any) -> set[Any]:
        return set()


class BelievesWhatIsClaimed(MigrationRules):
    """As Kafka does."""

    def claims_error(self, member: Any, owned: Any) -> ErrorCode:
        return ErrorCode.none


class TakesAnyGeneration(MigrationRules):
    def generation_error(self, group: Any, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        return self.member_error(group, member_id, instance_id)


class HasNothingMore(MigrationRules):
    def has_more(self, group: Any, member: Any) -> bool:
        return False


class TellsNobodyWhatToGiveBack(MigrationRules):
    def may_sync(self, group: Any, member: Any) -> bool:
        return bool(member.epoch == group.epoch)


class CountsOn(MigrationRules):
    """The generation is one more than the epoch."""

    def generation_after(self, group: Any) -> int:
        return int(group.epoch) + 1


class TakesAFencedMemberForAnUnknownOne(MigrationRules):
    def heartbeat_in_classic_error(self, group: Any, member_id: str, instance_id: str | None) -> ErrorCode:
        return ErrorCode.unknown_member_id


MUTANTS = (
    TakesAFencedMemberForAnUnknownOne,
    GoesOverUnasked,
    NeverGoesBack,
    ForgetsWhatIsLeftOver,
    BelievesWhatIsClaimed,
    TakesAnyGeneration,
    HasNothingMore,
    TellsNobodyWhatToGiveBack,
    CountsOn,
)
QUICK = (NeverGoesBack,)
"""Found on few walks."""


@pytest.mark.parametrize(
    "mutant", [pytest.param(one, marks=[pytest.mark.deep] * (one not in QUICK)) for one in MUTANTS]
)
def test_walks_find_a_rule_that_is_wrong(mutant: type[MigrationRules]) -> None:
    assert REGISTERED.first_failure(SEED, 2_000, roles=MigrationRoles(mutant)) is not None, "no walk has found it"
