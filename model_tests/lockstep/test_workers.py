"""A consumer's queues do what the specification says of workers, action by action."""

from __future__ import annotations

from collections.abc import Iterable

import attrs
import pytest

from tidegauge.impl.client.consumer_record import ConsumerRecord
from tidegauge.impl.client.positions import Partition
from tidegauge.impl.client.work_queues import Run, WorkQueues
from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.harness.cores.workers import STEPS, WorkerRoles
from tidegauge.model_tests.harness.lockstep.checked import failure_of
from tidegauge.model_tests.harness.lockstep.on_cores import CoresLockstep
from tidegauge.model_tests.harness.registry import HARNESS
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.workers.machine import Workers

WALKS = 40
HARNESSED = HARNESS["workers"]


def test_every_action_of_the_specification_has_a_step() -> None:
    assert set(STEPS) == set(Workers.action_types)


def test_random_walks_find_no_difference_and_take_every_action() -> None:
    taken: set[type[Action]] = set()
    for found in HARNESSED.walks(7, amount(16, deep=WALKS)):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"
        taken.update(map(type, found.actions))
    assert taken == set(Workers.action_types)


@pytest.mark.deep
def test_many_walks_find_no_difference() -> None:
    for found in HARNESSED.walks(11, 2_000, length=150):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"


def test_the_ways_to_the_goals_are_the_queues_ways_too() -> None:
    machine = Workers(bounds=Bounds(AskBack=1, Expel=1, Hang=1), consumers=1)
    for goal, trace in explore(machine).reached.items():
        failure = failure_of(CoresLockstep(machine), trace.actions)
        assert failure is None, f"{goal}: {failure.words}"


# --- what queues may get wrong ---------------------------------------------------------------------------------------


class Forgetful(WorkQueues):
    """A partition that was asked for is worked on."""

    def ask_back(self, partitions: Iterable[Partition]) -> None:
        return


class GoesOn(WorkQueues):
    """What was known of a partition counts when it comes back."""

    def given(self, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            if self.of(partition) is None:
                super().given([partition])

    def gone(self, partitions: Iterable[Partition]) -> list[Run]:
        self.ask_back(partitions)
        return []


class CountsWithoutALock(WorkQueues):
    def has_lock(self, run: Run) -> bool:
        queue = self.of(run.partition)
        return queue is not None and bool(queue.waiting)


class TakesLocksEarly(WorkQueues):
    def expire(self, now_ms: float) -> list[Run]:
        return super().expire(now_ms + self.lock_timeout_ms)


class RenewsNothing(WorkQueues):
    def renew(self, run: Run, now_ms: float) -> bool:
        return self.has_lock(run)


class CancelsNothing(WorkQueues):
    def gone(self, partitions: Iterable[Partition]) -> list[Run]:
        super().gone(partitions)
        return []


class LastFirst(WorkQueues):
    def add(self, records: Iterable[ConsumerRecord]) -> None:
        for record in records:
            super().add([record])
            queue = self.of((record.topic, record.partition))
            if queue is not None and queue.lock is None:
                queue.waiting.rotate(1)


@pytest.mark.parametrize(
    "wrong", [Forgetful, GoesOn, CountsWithoutALock, TakesLocksEarly, RenewsNothing, CancelsNothing, LastFirst]
)
def test_queues_with_one_wrong_rule_are_found_within_few_walks(wrong: type[WorkQueues]) -> None:
    assert HARNESSED.first_failure(5, WALKS, roles=attrs.evolve(WorkerRoles(), queues=wrong)) is not None
