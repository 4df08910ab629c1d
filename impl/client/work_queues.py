"""The records that a consumer's workers have yet to process, partition by partition: pure (`spec.workers`).

The record that a worker begins stays first in its queue until it is finished, so that another worker can begin it again
if the lock is lost. Moments are in ms, of any clock that only goes on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import attrs

from tidegauge.impl.client.consumer_record import ConsumerRecord
from tidegauge.impl.client.positions import Partition


class Run(NamedTuple):
    """A record that a worker has begun, under a lock of this number."""

    record: ConsumerRecord
    lock: int

    @property
    def partition(self) -> Partition:
        return self.record.topic, self.record.partition


@attrs.define(eq=False)
class Lock:
    """Of a partition, which one worker has."""

    run: Run
    until_ms: float


@attrs.define(eq=False)
class Queue:
    """A partition, from when it is given to the consumer until it is gone."""

    waiting: deque[ConsumerRecord] = attrs.field(factory=deque)
    position: int | None = None
    """The offset behind the last record that was finished; None if none was."""
    lock: Lock | None = None
    gives_back: bool = False


class WorkQueues:
    """The queues of one consumer, and the locks of its workers."""

    def __init__(self, lock_timeout_ms: float) -> None:
        """A lock ends that is not renewed for so long."""
        self.lock_timeout_ms: Final = lock_timeout_ms
        self._queues: Final[dict[Partition, Queue]] = {}
        self._ready: Final[deque[Partition]] = deque()
        """Whose next record waits, and which no worker has locked, the one that has waited longest first.

        Some may be gone, locked or empty by now: `begin` passes over these.
        """
        self.locks = 0
        """How many were given out; they are numbered."""

    # --- partitions ----------------------------------------------------------------------------------------------

    def given(self, partitions: Iterable[Partition]) -> None:
        """The consumer owns these from now on; what was known of them is forgotten."""
        for partition in partitions:
            self._queues[partition] = Queue()

    def ask_back(self, partitions: Iterable[Partition]) -> None:
        """These are to be given back: no record of them begins any more."""
        for queue in self._of(partitions):
            queue.gives_back = True

    def gone(self, partitions: Iterable[Partition]) -> list[Run]:
        """The consumer has these no more. Returns what workers are at, and should not go on with."""
        queues = [self._queues.pop(partition) for partition in partitions if partition in self._queues]
        return [queue.lock.run for queue in queues if queue.lock is not None]

    def is_at_rest(self, partitions: Iterable[Partition]) -> bool:
        """Whether no worker has locked any of these."""
        return all(queue.lock is None for queue in self._of(partitions))

    def truncate(self, partition: Partition, offset: int) -> Run | None:
        """The partition's log ends at this offset: drop what was behind. Returns what a worker is at, if that is."""
        queue = self._queues.get(partition)
        if queue is None:
            return None
        while queue.waiting and queue.waiting[-1].offset >= offset:
            queue.waiting.pop()
        if queue.position is not None:
            queue.position = min(queue.position, offset)
        if queue.lock is None or queue.lock.run.record.offset < offset:
            return None
        run, queue.lock = queue.lock.run, None
        return run

    @property
    def partitions(self) -> frozenset[Partition]:
        """Those that the consumer owns."""
        return frozenset(self._queues)

    def of(self, partition: Partition) -> Queue | None:
        """The queue of a partition; None if the consumer does not own it."""
        return self._queues.get(partition)

    def _of(self, partitions: Iterable[Partition]) -> Iterator[Queue]:
        return (self._queues[partition] for partition in partitions if partition in self._queues)

    # --- records -------------------------------------------------------------------------------------------------

    def add(self, records: Iterable[ConsumerRecord]) -> None:
        """These are next, in the order of each partition."""
        for record in records:
            partition = record.topic, record.partition
            queue = self._queues.get(partition)
            if queue is not None and not queue.gives_back:
                queue.waiting.append(record)
                if len(queue.waiting) == 1:
                    self._ready.append(partition)

    def waiting(self, partition: Partition) -> int:
        """How many records of the partition are not finished."""
        queue = self._queues.get(partition)
        return 0 if queue is None else len(queue.waiting)

    def committable(self) -> dict[Partition, int]:
        """The offset to commit of each partition of which a record was finished: all before it are."""
        return {one: queue.position for one, queue in self._queues.items() if queue.position is not None}

    # --- workers -------------------------------------------------------------------------------------------------

    def begin(self, now_ms: float) -> Run | None:
        """Lock the partition that has waited longest, and begin its next record; None if nothing waits."""
        while self._ready:
            partition = self._ready.popleft()
            queue = self._queues.get(partition)
            if queue is None or queue.gives_back or queue.lock is not None or not queue.waiting:
                continue
            run = Run(queue.waiting[0], self.locks)
            self.locks += 1
            queue.lock = Lock(run, now_ms + self.lock_timeout_ms)
            return run
        return None

    def has_lock(self, run: Run) -> bool:
        """Whether the worker may go on: neither its lock nor its partition was lost."""
        return self._lock_of(run) is not None

    def renew(self, run: Run, now_ms: float) -> bool:
        """Put the end of the lock off; False if it was lost already."""
        lock = self._lock_of(run)
        if lock is not None:
            lock.until_ms = now_ms + self.lock_timeout_ms
        return lock is not None

    def finish(self, run: Run) -> bool:
        """The record is processed. False if the lock was lost: then that counts for nothing."""
        if not self.has_lock(run):
            return False
        queue = self._queues[run.partition]
        queue.waiting.popleft()
        queue.position = run.record.offset + 1
        self._unlock(run.partition, queue)
        return True

    def give_up(self, run: Run) -> None:
        """The worker is not going to finish: the record waits again."""
        if self.has_lock(run):
            self._unlock(run.partition, self._queues[run.partition])

    def expire(self, now_ms: float) -> list[Run]:
        """End the locks whose time is over. Returns what was under way, and begins again with another worker."""
        over = [
            (partition, queue, queue.lock.run)
            for partition, queue in self._queues.items()
            if queue.lock is not None and queue.lock.until_ms <= now_ms
        ]
        for partition, queue, _ in over:
            self._unlock(partition, queue)
        return [run for _, _, run in over]

    def next_expiry_ms(self) -> float | None:
        """When the first lock ends, if none is renewed."""
        return min((queue.lock.until_ms for queue in self._queues.values() if queue.lock is not None), default=None)

    def _lock_of(self, run: Run) -> Lock | None:
        queue = self._queues.get(run.partition)
        lock = None if queue is None else queue.lock
        return lock if lock is not None and lock.run.lock == run.lock else None

    def _unlock(self, partition: Partition, queue: Queue) -> None:
        queue.lock = None
        if queue.waiting:
            self._ready.append(partition)
