"""Log starts: the cores do what the machine says, over logs in memory and stored ones, and wrong ones don't."""

from __future__ import annotations

import pytest

from tidegauge.impl.partition.messages import EpochEndOffset, FollowerFetch, PartitionFetchResponse
from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.harness.cores.replication import Roles
from tidegauge.model_tests.harness.cores.stored_log import StoredLog
from tidegauge.model_tests.harness.counterexamples.files import Failure
from tidegauge.model_tests.harness.registry import HARNESS
from tidegauge.spec.bugs.retention import KeepsRecordsBelowGap, TruncatesToItsOwnStart, TrustsEmptyLogs
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.kernel.traces import replay
from tidegauge.spec.replication.extensions.retention import Retention
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.state import Error

WALKS = 250
SEED = 7
TAKING_ALL = 2
"""A seed whose first walks take every action."""
FIRST = {"CutsWhereNothingIsInCommon": 100, "StaysBelowItsLogStart": 21, "TrustsEmptyLogs": 147}
"""The walk that shows it, where it is not one of the first: the search begins there."""
HARNESSED = HARNESS["retention"]


def test_random_walks_find_no_difference_and_take_every_action() -> None:
    taken: set[type[Action]] = set()
    reached: set[str] = set()
    for found in HARNESSED.walks(TAKING_ALL, amount(40, deep=120)):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"
        taken.update(map(type, found.actions))
        if found.number < 40:
            for state in replay(found.machine, found.actions).trace.states:
                reached.update(m.error.name for m in state.network.fetch_responses)
    assert taken == set(Replication(extensions=(Retention(),)).action_types)
    assert Error.OFFSET_OUT_OF_RANGE.name in reached


def test_the_cores_over_stored_logs_do_what_the_machine_says() -> None:
    """Segments of two records, freed as log starts pass them, and recovery with the written log start."""
    for found in HARNESSED.walks(2, amount(20, deep=60), roles=Roles(log=StoredLog)):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"


@pytest.mark.deep
def test_many_walks_find_no_difference() -> None:
    for seed in range(100, 105):
        for found in HARNESSED.walks(seed, 1_000, length=200):
            assert found.failure is None, f"seed {seed}, walk {found.number}: {found.failure.words}"


class DeletesWhatIsNotCommitted(PartitionReplica):
    def follow_log_start(self, leader_log_start_offset: int) -> None:
        if leader_log_start_offset > self.log.log_start_offset:
            self.log.delete_records_before(min(leader_log_start_offset + 1, self.log_end_offset))


class NeverMovesItsLogStart(PartitionReplica):
    def follow_log_start(self, leader_log_start_offset: int) -> None:
        pass


class StaysBelowItsLogStart(PartitionReplica):
    def follow_high_watermark(self, leader_high_watermark: int) -> None:
        self._set_high_watermark(min(leader_high_watermark, self.log_end_offset))


class CutsWhereNothingIsInCommon(PartitionReplica):
    def reconcile(self, diverging: EpochEndOffset, response: PartitionFetchResponse) -> None:
        self.truncate(self.truncation_offset(diverging))


@pytest.mark.parametrize(
    "replica", [DeletesWhatIsNotCommitted, NeverMovesItsLogStart, StaysBelowItsLogStart, CutsWhereNothingIsInCommon]
)
def test_wrong_cores_differ(replica: type[PartitionReplica]) -> None:
    first = FIRST.get(replica.__name__, 0)
    found = HARNESSED.first_failure(SEED, WALKS, first=first, roles=Roles(replica=replica))
    assert found is not None, f"nothing was noticed in {WALKS} walks"
    assert found.failure is not None
    assert found.failure.expected.kind is Failure.DIFFERENCE


@pytest.mark.parametrize("machine", [TrustsEmptyLogs, KeepsRecordsBelowGap, TruncatesToItsOwnStart])
def test_a_wrong_machine_is_not_what_the_cores_do(machine: type[Retention]) -> None:
    assert HARNESSED.first_failure(SEED, WALKS, first=FIRST.get(machine.__name__, 0), wrong=machine) is not None


class TrustsEveryEmptyLog(PartitionReplica):
    def diverging_epoch(self, fetch: FollowerFetch) -> EpochEndOffset | None:
        return None if fetch.fetch_offset == fetch.log_start_offset else super().diverging_epoch(fetch)


def test_a_log_without_records_may_be_of_another_history() -> None:
    """After an unclean election it was, and without the epoch of its last record it would be in sync."""
    roles = Roles(replica=TrustsEveryEmptyLog)
    found = HARNESSED.first_failure(SEED, WALKS, wrong=TrustsEmptyLogs, roles=roles, length=200)
    assert found is not None
    assert found.failure is not None
    assert found.failure.expected.kind is Failure.INVARIANT
