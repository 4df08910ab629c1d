"""Workers: many tasks that process what one consumer reads, the records of each partition one after the other.

    async def process(work: Work) -> None:
        await charge(work.record)

    async with Consumer(client, ConsumerConfig(group_id="billing", enable_auto_commit=False)) as consumer:
        await Workers(consumer, process, workers=16).run(["orders"])

Theory of operation
-------------------
One task polls, commits and talks to the group; the workers process. A worker locks a partition for one record, so the
records of a partition are processed in order, one at a time, and those of many partitions at once. Committed is what
was processed, never what was only polled: after a crash a record is processed again, and none is left out.

A lock ends if it is not renewed for `lock_timeout_ms`: what hangs is cancelled, and another worker begins the record
again. When the group asks for a partition, no record of it begins any more, and it is given back once the one under way
has ended, or its lock has. When it was taken away without a word, the work on it is cancelled as soon as the consumer
learns of it.

The rules are `spec.workers`', and those of `WorkQueues` here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import trio

from tidegauge.impl.client.consumer_record import ConsumerRecord, RebalanceListener
from tidegauge.impl.client.errors import KafkaError, WakeupError
from tidegauge.impl.client.positions import Partition, Truncation
from tidegauge.impl.client.work_queues import Run, WorkQueues

if TYPE_CHECKING:
    import re

    from tidegauge.impl.client.consumer import Consumer

LAST_COMMIT_S: Final = 5.0
"""How long workers that end wait for their last commit."""
SHARE_OF_POLL_INTERVAL: Final = 0.8
"""Of max_poll_interval_ms: how long a partition that was asked for waits for its worker. Then its work is cancelled."""


class Work:
    """One record for the application, and the lock under which it is processed."""

    def __init__(self, run: Run, queues: WorkQueues) -> None:
        self.record: Final[ConsumerRecord] = run.record
        self._run = run
        self._queues = queues

    @property
    def is_dropped(self) -> bool:
        """Whether the lock or the partition was lost: what is done from now on is done by somebody else, too."""
        return not self._queues.has_lock(self._run)

    def renew(self) -> bool:
        """Keep the lock for another `lock_timeout_ms`; False if it was lost already."""
        return self._queues.renew(self._run, _now_ms())


class Workers:
    """Processes what a consumer of a group reads."""

    def __init__(
        self,
        consumer: Consumer,
        process: Callable[[Work], Awaitable[None]],
        *,
        workers: int = 8,
        lock_timeout_ms: float = 60_000,
        most_waiting: int = 1_000,
    ) -> None:
        """`process` is called with one record at a time of each partition, by at most so many workers at once.

        A partition of which `most_waiting` records wait is paused. Raises ValueError for a consumer that commits by
        itself, or has no group, and for numbers that are not positive.
        """
        if consumer.config.group_id is None:
            raise ValueError("the consumer has no group, where workers commit what they have processed: set group_id")
        if consumer.config.enable_auto_commit:
            raise ValueError("the consumer commits what was only polled: set enable_auto_commit to False")
        for name, value in (
            ("workers", workers),
            ("lock_timeout_ms", lock_timeout_ms),
            ("most_waiting", most_waiting),
        ):
            if not value > 0:
                raise ValueError(f"{name} is {value!r}: give a positive number")
        self._consumer = consumer
        self._process = process
        self._workers = workers
        self._most_waiting = most_waiting
        self._queues = WorkQueues(lock_timeout_ms)
        self._scopes: Final[dict[int, trio.CancelScope]] = {}
        """Of what is under way, by the number of its lock."""
        self._changed = trio.Event()
        self._paused: frozenset[Partition] = frozenset()
        """Those that were paused here, and not by the application."""
        self._committed: Final[dict[Partition, int]] = {}
        self._next_commit = 0.0
        self._has_begun = False
        self._is_stopping = False

    async def run(self, topics: Iterable[str] | re.Pattern[str], listener: RebalanceListener | None = None) -> None:
        """Subscribe, and process until `stop`. Raises an exception group of what `poll` or `process` raises.

        However it ends, what was processed by then is committed first, if that can be.
        """
        if self._has_begun:
            raise RuntimeError("the workers have run: make others, with a consumer of their own")
        self._has_begun = True
        try:
            async with trio.open_nursery() as nursery:
                for _ in range(self._workers):
                    nursery.start_soon(self._work)
                nursery.start_soon(self._expire)
                await self._consumer.subscribe(topics, _Handover(self, listener or RebalanceListener()))
                while not self._is_stopping:
                    await self._poll()
                await self._consumer.unsubscribe()
                nursery.cancel_scope.cancel()
        finally:
            with trio.move_on_after(LAST_COMMIT_S, shield=True):
                await self.commit()

    def stop(self) -> None:
        """Have `run` return: what is under way ends, is committed, and the consumer leaves its group."""
        self._is_stopping = True
        self._consumer.wakeup()

    # --- the task that polls -------------------------------------------------------------------------------------

    async def _poll(self) -> None:
        interval_s = self._consumer.config.auto_commit_interval_ms / 1000
        records: tuple[ConsumerRecord, ...] = ()
        with suppress(WakeupError):  # there is room again, or the workers stop
            records = await self._consumer.poll(max(0.0, self._next_commit - trio.current_time()) * 1000)
        self._queues.add(records)
        self._tell()
        self._pause()
        if trio.current_time() >= self._next_commit:
            self._next_commit = trio.current_time() + interval_s
            await self.commit()

    def _pause(self) -> None:
        """Read no more of partitions of which much waits, and go on with those that have room again."""
        consumer, queues = self._consumer, self._queues
        own = consumer.assignment
        full = {one for one in own - consumer.paused if queues.waiting(one) >= self._most_waiting}
        roomy = {one for one in self._paused & own if self._has_room(one)}
        if full:
            consumer.pause(*full)
        if roomy:
            consumer.resume(*roomy)
        self._paused = (self._paused & own | full) - roomy

    def _has_room(self, partition: Partition) -> bool:
        return self._queues.waiting(partition) <= self._most_waiting // 2

    async def commit(self) -> None:
        """Commit what was processed. What cannot be is read again, by this consumer or the next owner."""
        new = {one: at for one, at in self._queues.committable().items() if self._committed.get(one) != at}
        if new:
            try:
                await self._consumer.commit(new)
            except KafkaError:
                return
            self._committed.update(new)

    # --- rebalances ----------------------------------------------------------------------------------------------

    def given(self, partitions: Sequence[Partition]) -> None:
        """These are new."""
        self._queues.given(partitions)
        for partition in partitions:
            self._committed.pop(partition, None)

    async def give_back(self, partitions: Sequence[Partition]) -> None:
        """Let the work on these end, and commit."""
        self._queues.ask_back(partitions)
        with trio.move_on_after(self._consumer.config.max_poll_interval_ms * SHARE_OF_POLL_INTERVAL / 1000):
            while not self._queues.is_at_rest(partitions):
                await self._changed.wait()
        await self.commit()

    def drop(self, partitions: Sequence[Partition]) -> None:
        """These are gone: cancel the work on them."""
        self._cancel(self._queues.gone(partitions))

    def truncate(self, truncation: Truncation) -> None:
        """Drop what is in the log no more."""
        partition, offset = truncation.partition, truncation.diverges_at
        if offset is None:
            self.drop([partition])
            self.given([partition])
            return
        run = self._queues.truncate(partition, offset)
        self._cancel([] if run is None else [run])

    # --- the workers ---------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        while True:
            changed = self._changed
            run = self._queues.begin(_now_ms())
            if run is None:
                await changed.wait()
                continue
            with trio.CancelScope() as scope:
                self._scopes[run.lock] = scope
                try:
                    await self._process(Work(run, self._queues))
                    self._queues.finish(run)
                finally:
                    del self._scopes[run.lock]
                    self._queues.give_up(run)
            self._tell()
            if run.partition in self._paused and self._has_room(run.partition):
                self._consumer.wakeup()
            await trio.lowlevel.checkpoint()

    async def _expire(self) -> None:
        """Take the locks away that are not renewed. One that is given out meanwhile ends later."""
        while True:
            expiry_ms = self._queues.next_expiry_ms()
            await trio.sleep_until(
                (_now_ms() + self._queues.lock_timeout_ms if expiry_ms is None else expiry_ms) / 1000
            )
            self._cancel(self._queues.expire(_now_ms()))

    def _cancel(self, runs: Iterable[Run]) -> None:
        for run in runs:
            self._scopes[run.lock].cancel()
        self._tell()

    def _tell(self) -> None:
        """Something has changed that tasks may wait for."""
        self._changed.set()
        self._changed = trio.Event()


class _Handover(RebalanceListener):
    """Partitions come and go, with their work; the application's own listener is told as well."""

    def __init__(self, workers: Workers, listener: RebalanceListener) -> None:
        self._workers = workers
        self._listener = listener

    async def revoked(self, partitions: Sequence[Partition]) -> None:
        await self._workers.give_back(partitions)
        await self._listener.revoked(partitions)
        self._workers.drop(partitions)

    async def lost(self, partitions: Sequence[Partition]) -> None:
        self._workers.drop(partitions)
        await self._listener.lost(partitions)

    async def assigned(self, partitions: Sequence[Partition]) -> None:
        self._workers.given(partitions)
        await self._listener.assigned(partitions)

    async def truncated(self, truncation: Truncation) -> None:
        self._workers.truncate(truncation)
        await self._listener.truncated(truncation)


def _now_ms() -> float:
    return trio.current_time() * 1000
