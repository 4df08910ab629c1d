"""A lock of a partition that is still there when the partition comes back."""

from __future__ import annotations

from collections.abc import Iterable

from tidegauge.impl.client.positions import Partition
from tidegauge.impl.client.work_queues import Lock, Run, WorkQueues
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.workers import WorkerRoles


class KeepsLocks(WorkQueues):
    """The queue of a partition goes, and its lock is kept for the next one."""

    def __init__(self, lock_timeout_ms: float) -> None:
        super().__init__(lock_timeout_ms)
        self._kept: dict[Partition, Lock] = {}

    def gone(self, partitions: Iterable[Partition]) -> list[Run]:
        for partition in partitions:
            queue = self.of(partition)
            if queue is not None and queue.lock is not None:
                self._kept[partition] = queue.lock
        super().gone(partitions)
        return []

    def given(self, partitions: Iterable[Partition]) -> None:
        super().given(partitions)
        for partition in partitions:
            queue = self.of(partition)
            assert queue is not None
            queue.lock = self._kept.pop(partition, None)

    def finish(self, run: Run) -> bool:
        """The position is that of the queue, whichever record it was."""
        queue = self.of(run.partition)
        if queue is None or queue.lock is None or queue.lock.run.lock != run.lock:
            return False
        if not queue.waiting:
            queue.lock = None
            return False
        return super().finish(Run(queue.waiting[0], run.lock))


BUG = CoreBug("lock_outlives_partition", WorkerRoles(queues=KeepsLocks))
