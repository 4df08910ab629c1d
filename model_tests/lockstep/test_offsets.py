"""The coordinator of groups does what the specification says of offsets, action by action, refusals included."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import attrs
import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.coordinator import GroupCoordinator
from tidegauge.impl.coordinators.groups.offsets import CommittedOffset, GroupOffsets
from tidegauge.impl.coordinators.groups.record_formats import NO_TIME, OffsetKey
from tidegauge.impl.coordinators.groups.requests import Commit, Ruling
from tidegauge.model_tests.harness.cores.offset_abstraction import KEY
from tidegauge.model_tests.harness.cores.offsets import CORRECT_OFFSETS, STEPS, OffsetRoles
from tidegauge.model_tests.harness.counterexamples.files import Failure
from tidegauge.model_tests.harness.lockstep.checked import failure_of
from tidegauge.model_tests.harness.lockstep.on_cores import CoresLockstep
from tidegauge.model_tests.harness.registry import HARNESS
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.offsets.machine import Offsets

WALKS = 30
WITHIN = 60
OFTEN = attrs.evolve(HARNESS["offsets"], plan=attrs.evolve(HARNESS["offsets"].walk_plan(), forbidden_share=0.25))
"""The walks with something forbidden before every fourth action."""


def test_every_action_of_the_specification_has_a_step() -> None:
    assert set(STEPS) == set(Offsets.action_types)


def test_random_walks_find_no_difference_and_take_every_action_and_refusal() -> None:
    taken: set[type[Action]] = set()
    refused = Counter[tuple[str, str]]()
    for found in OFTEN.walks(7, WALKS):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"
        taken.update(map(type, found.actions))
        refused.update(found.refused)
    assert taken == set(Offsets.action_types)
    assert set(refused) == {
        ("Commit", "ILLEGAL_GENERATION"),
        ("Commit", "UNKNOWN_MEMBER_ID"),
        ("CommitInTransaction", "ILLEGAL_GENERATION"),
        ("CommitInTransaction", "UNKNOWN_MEMBER_ID"),
        ("Delete", "GROUP_ID_NOT_FOUND"),
        ("Delete", "NON_EMPTY_GROUP"),
        ("FetchStable", "UNSTABLE_OFFSET_COMMIT"),
    }


@pytest.mark.deep
def test_many_walks_find_no_difference() -> None:
    for found in OFTEN.walks(11, 1_000, length=150):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"


def test_the_ways_to_the_goals_are_the_cores_ways_too() -> None:
    machine = Offsets(producers=1, max_entries=3, max_failures=0, max_time=1)
    for goal, trace in explore(machine).reached.items():
        failure = failure_of(CoresLockstep(machine), trace.actions)
        assert failure is None, f"{goal}: {failure.words}"


# --- what a core may get wrong ---------------------------------------------------------------------------------------


class TheLastMarkerCounts(GroupOffsets):
    def _end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        waiting = dict(self.pending.get(producer_id, {}))
        super()._end_transaction(producer_id, is_commit=is_commit)
        for key, offset in waiting.items() if is_commit else ():
            self._keep(key, offset)


class AbortsCountToo(GroupOffsets):
    def _end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        super()._end_transaction(producer_id, is_commit=True)


class TombstonesLeaveWhatIsPending(GroupOffsets):
    def _remove(self, key: OffsetKey) -> None:
        self._committed.pop(key.group, None)


class ExpiresBesideAnOpenTransaction(GroupCoordinator):
    def is_expired(self, key: OffsetKey, now_ms: int) -> bool:
        known = self.offsets.get(key)
        is_old = known is not None and now_ms - known.value.commit_time >= self.limits.retention_ms
        return is_old and not self.in_flight[key]


class ExpiresBesideWhatIsOnItsWay(GroupCoordinator):
    def is_expired(self, key: OffsetKey, now_ms: int) -> bool:
        if key == KEY:
            del self.in_flight[key]
        return super().is_expired(key, now_ms)


class ExpiresATickLate(GroupCoordinator):
    def is_expired(self, key: OffsetKey, now_ms: int) -> bool:
        return super().is_expired(key, now_ms - 1)


class ForgetsWhenTheGroupBecameEmpty(GroupCoordinator):
    def empty_since(self, group_id: str) -> int:
        return NO_TIME


class GoesByTheGroupAlone(GroupCoordinator):
    def _idle_since(self, key: OffsetKey, offset: CommittedOffset) -> int:
        since = self.empty_since(key.group)
        return offset.value.commit_time if since == NO_TIME else since


class TellsWhatIsNotStable(GroupCoordinator):
    def fetch(self, key: OffsetKey, *, require_stable: bool) -> CommittedOffset | ErrorCode | None:
        return super().fetch(key, require_stable=False)


class TellsWhatIsAboutToChange(GroupCoordinator):
    def fetch(self, key: OffsetKey, *, require_stable: bool) -> CommittedOffset | ErrorCode | None:
        self.in_flight.pop(key, None)
        return super().fetch(key, require_stable=require_stable)


class TakesAnyGeneration(GroupCoordinator):
    def commit(self, commit: Commit, now_ms: int) -> Ruling:
        return super().commit(attrs.evolve(commit, generation=-1), now_ms)


class DeletesWhatIsNotThere(GroupCoordinator):
    def _delete_offsets(self, group: str, places: Iterable[tuple[str, int]]) -> Ruling:
        ruling = super()._delete_offsets(group, places)
        return Ruling() if ruling.error is ErrorCode.group_id_not_found else ruling


@pytest.mark.parametrize(
    "wrong",
    [
        TheLastMarkerCounts,
        AbortsCountToo,
        TombstonesLeaveWhatIsPending,
        ExpiresBesideAnOpenTransaction,
        ExpiresBesideWhatIsOnItsWay,
        ExpiresATickLate,
        ForgetsWhenTheGroupBecameEmpty,
        GoesByTheGroupAlone,
        TellsWhatIsNotStable,
        TellsWhatIsAboutToChange,
        TakesAnyGeneration,
        DeletesWhatIsNotThere,
    ],
)
def test_a_core_with_one_wrong_rule_is_found_within_few_walks(wrong: type[object]) -> None:
    roles = OffsetRoles(offsets=wrong) if issubclass(wrong, GroupOffsets) else CORRECT_OFFSETS
    roles = attrs.evolve(roles, coordinator=wrong) if issubclass(wrong, GroupCoordinator) else roles
    failures = (found.failure for found in OFTEN.walks(5, WITHIN, roles=roles) if found.failure)
    noticed = next((failure for failure in failures if failure.expected.name != "error"), None)
    assert noticed is not None, f"nothing was noticed in {WITHIN} walks"
    assert noticed.expected.kind is Failure.DIFFERENCE
