"""The core of consumer groups (KIP-848) goes beside its specification, walk by walk, refusals and failovers included.

The bugs of the zoo are in `zoo/test_consumer_zoo.py`.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import attrs
import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.consumer.rules import ConsumerRules
from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.harness.cores.consumer_abstraction import ConsumerRoles
from tidegauge.model_tests.harness.registry import HARNESS
from tidegauge.spec.groups.consumer.machine import ConsumerGroups as Machine
from tidegauge.spec.kernel.machine import Action

SEED = 1
"""Of walks that take every action and refusal."""
WALKS = amount(20, deep=24)
REGISTERED = HARNESS["consumer-groups"]
REFUSED = {
    ("ReceiveHeartbeat", "UNKNOWN_MEMBER_ID"),
    ("ReceiveHeartbeat", "FENCED_INSTANCE_ID"),
    ("ReceiveHeartbeat", "FENCED_MEMBER_EPOCH"),
    ("ReceiveHeartbeat", "UNRELEASED_INSTANCE_ID"),
    ("ReceiveCommit", "UNKNOWN_MEMBER_ID"),
    ("ReceiveCommit", "STALE_MEMBER_EPOCH"),
    ("ReceiveLeave", "UNKNOWN_MEMBER_ID"),
    ("ReceiveLeave", "FENCED_INSTANCE_ID"),
}
"""What a core refuses; while a coordinator loads there is no core to ask."""


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


# --- the core with a rule that is wrong ------------------------------------------------------------------------------


class AcceptsAnyEpoch(ConsumerRules):
    def epoch_error(self, member: Any, request: Any) -> ErrorCode:
        return ErrorCode.none


class CommitsOfTheEpochOnly(ConsumerRules):
    """Before KIP-1251."""

    def place_error(self, group: Any, commit: Any, place: Any) -> ErrorCode:
        member = group.members.get(commit.member_id)
        is_behind = member is not None and commit.generation != member.epoch
        return ErrorCode.stale_member_epoch if is_behind else ErrorCode.none


class KeepsItsPart(ConsumerRules):
    def part_of(self, group: Any, member: Any, topics: Any) -> Any:
        return group.target.get(member.member_id, frozenset())


class KeepsWhatItWantsNoMore(ConsumerRules):
    def unwanted(self, group: Any, member: Any, topics: Any) -> Any:
        return set()


class GivesBackOneAfterTheOther(ConsumerRules):
    def revoking_more(self, group: Any, member: Any, topics: Any) -> Any:
        return member


class GivesAgain(ConsumerRules):
    def is_stable(self, group: Any, member: Any) -> bool:
        return super().is_stable(group, member) and group.epoch == group.target_epoch


class IsNotGivenTheRest(ConsumerRules):
    def waits_for_others(self, missing: Any, free: Any) -> bool:
        return False


class WaitsForNobody(ConsumerRules):
    def waits_for_others(self, missing: Any, free: Any) -> bool:
        return bool(missing)


class KeepsWhatTheTargetGave(ConsumerRules):
    def giving_up(self, group: Any, member: Any, owned: Any, topics: Any) -> Any:
        return member


class CommitsWhatIsGivenBack(ConsumerRules):
    def may_be_anothers(self, group: Any, member: Any, place: Any) -> bool:
        return False


class CommitsOnlyWhatItHas(ConsumerRules):
    def may_be_anothers(self, group: Any, member: Any, place: Any) -> bool:
        return place not in member.assigned and place not in member.revoking


REVOKING = (
    KeepsItsPart,
    KeepsWhatItWantsNoMore,
    GivesBackOneAfterTheOther,
    GivesAgain,
    IsNotGivenTheRest,
    WaitsForNobody,
    KeepsWhatTheTargetGave,
    CommitsWhatIsGivenBack,
    CommitsOnlyWhatItHas,
)


class ForgivesWhatIsOwned(ConsumerRules):
    def is_behind(self, member: Any, request: Any) -> bool:
        return bool(request.epoch == member.previous_epoch < member.epoch)


class ResolvesOnce(ConsumerRules):
    def needs_resolution(self, group: Any, known: Any, refresh_ms: int, *, is_resolving: bool) -> bool:
        needs = super().needs_resolution(group, known, refresh_ms, is_resolving=is_resolving)
        return needs and not group.resolved


class ResolvesWithoutPause(ConsumerRules):
    def needs_resolution(self, group: Any, known: Any, refresh_ms: int, *, is_resolving: bool) -> bool:
        return bool(group.expressions) and not is_resolving


class ResolvesTwiceAtOnce(ConsumerRules):
    def needs_resolution(self, group: Any, known: Any, refresh_ms: int, *, is_resolving: bool) -> bool:
        return super().needs_resolution(group, known, refresh_ms, is_resolving=False)


class BeginsAnEpochForNothing(ConsumerRules):
    def expression_begins_epoch(self, group: Any, before: Any, after: Any) -> bool:
        return bool(before.expression != after.expression)


class IgnoresResolutions(ConsumerRules):
    def resolution_begins_epoch(self, before: Any, after: Any) -> bool:
        return False


class KeepsWhatNobodyHas(ConsumerRules):
    def still_resolved(self, group: Any) -> Any:
        return group


RESOLVING = (
    ResolvesOnce,
    ResolvesWithoutPause,
    ResolvesTwiceAtOnce,
    BeginsAnEpochForNothing,
    IgnoresResolutions,
    KeepsWhatNobodyHas,
)


class MakesATargetAtOnce(ConsumerRules):
    def needs_target(self, group: Any, now_ms: int, interval_ms: int) -> bool:
        return super().needs_target(group, now_ms, 0)


class WaitsForTheFirstTarget(ConsumerRules):
    def needs_target(self, group: Any, now_ms: int, interval_ms: int) -> bool:
        return super().needs_target(attrs.evolve(group, target_ms=group.target_ms or now_ms), now_ms, interval_ms)


class WaitsLonger(ConsumerRules):
    def needs_target(self, group: Any, now_ms: int, interval_ms: int) -> bool:
        return super().needs_target(group, now_ms - 1, interval_ms)


class ForgetsWhenItWasMade(ConsumerRules):
    def time_of_target(self, now_ms: int) -> int:
        return 0


class LetsAnEmptyGroupWait(ConsumerRules):
    def removed(self, group: Any, member_id: str) -> Any:
        return attrs.evolve(super().removed(group, member_id), target_ms=group.target_ms)


SPACING = (
    MakesATargetAtOnce,
    WaitsForTheFirstTarget,
    WaitsLonger,
    ForgetsWhenItWasMade,
    LetsAnEmptyGroupWait,
)


MUTANTS = (AcceptsAnyEpoch, CommitsOfTheEpochOnly, ForgivesWhatIsOwned, *REVOKING, *RESOLVING, *SPACING)
SLOW = (KeepsItsPart, CommitsOfTheEpochOnly, ForgivesWhatIsOwned)
"""Found on many walks only."""
FIRST = {"CommitsWhatIsGivenBack": 4, "GivesBackOneAfterTheOther": 28}
"""The walk that shows it, where it is not one of the first: the search begins there."""


@pytest.mark.parametrize("mutant", [pytest.param(one, marks=[pytest.mark.deep] * (one in SLOW)) for one in MUTANTS])
def test_walks_find_a_rule_that_is_wrong(mutant: type[ConsumerRules]) -> None:
    found = REGISTERED.first_failure(SEED, 2_000, first=FIRST.get(mutant.__name__, 0), roles=ConsumerRoles(mutant))
    assert found is not None, "no walk has found it"
