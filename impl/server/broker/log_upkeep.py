"""What a broker does for its logs by the clock: retention, syncing what has waited, checkpoints, and freeing files.

The timers are those of Kafka's LogManager. Each looks at every log; a disk that fails takes its directory offline and
the others go on.

What waits for the disk, a sync, is done in the background (`Disk.in_background`) while requests are served: flushes by
the clock, of segments that were closed, and checkpoints. Before it is looked what has to be written, after it what has
been is noted; in between everything may have changed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from tidegauge.impl.server import trace
from tidegauge.impl.server.broker.partition import Partition
from tidegauge.impl.storage.flushing import PendingFlush

if TYPE_CHECKING:
    from tidegauge.impl.server.broker_server import Broker
    from tidegauge.impl.storage.log_directories import CheckpointWrite

FREE_INTERVAL_MS = 5_000
"""How often files whose `file.delete.delay.ms` is over are looked for."""
FLUSHES_AT_ONCE: Final = 64


class LogUpkeep:
    """The upkeep of one broker's logs; the timers call what a driver may call as well."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._rolled: dict[Partition, None] = {}
        """Logs with a closed segment that is to be flushed."""
        self._has_rolled = trio.Event()

    async def retain(self) -> int:
        """Remove what `retention.ms`, `retention.bytes` and the log starts say; returns how many segments."""
        now_ms, tracer = self._broker.clock.now_ms(), self._broker.tracer

        def retain(partition: Partition) -> int:
            log, start = partition.log, partition.log.log_start_offset
            removed = log.retention(now_ms, partition.replica.high_watermark)
            if log.log_start_offset != start and tracer.trace is not None:
                tracer.replica(trace.events.Retain, partition.topic, partition.index, partition.replica)
            return removed

        return self._each(retain)

    async def flush_due(self) -> int:
        """Sync the logs in which a record has waited for `flush.ms`; returns how many."""
        now_ms = self._broker.clock.now_ms()
        due = [partition for partition in self._broker.replicas if partition.log.is_flush_due(now_ms)]
        flushed = await self._flush([partition for partition in due if not partition.log.is_being_flushed])
        if flushed:
            await self.checkpoint()
        return flushed

    def rolled(self, partition: Partition) -> None:
        """A log has a segment that will not grow any more: it is flushed soon, as Kafka's is."""
        if self._broker.timers:
            self._rolled[partition] = None
            self._has_rolled.set()

    async def flush_rolled(self) -> int:
        """Sync the closed segments of logs that have begun another one; returns how many logs."""
        rolled, self._rolled, self._has_rolled = list(self._rolled), {}, trio.Event()
        return await self._flush([partition for partition in rolled if not partition.is_gone], closed_only=True)

    async def _flush(self, partitions: list[Partition], *, closed_only: bool = False) -> int:
        """Some at a time, for each has descriptors open until it is done; returns how many recovery points moved."""
        hosted, disk, flushed = self._broker.replicas, self._broker.disk, 0
        for first in range(0, len(partitions), FLUSHES_AT_ONCE):
            begun: list[tuple[Partition, PendingFlush]] = []
            for partition in partitions[first : first + FLUSHES_AT_ONCE]:
                flush = None if partition.is_gone else hosted.begin_flush(partition, closed_only=closed_only)
                if flush is not None:
                    begun.append((partition, flush))
            await disk.in_background(partial(disk.all_at_once, [flush.work for _, flush in begun]))
            flushed += sum([hosted.finish_flush(partition, flush) for partition, flush in begun])
            await trio.lowlevel.checkpoint_if_cancelled()  # a broker that has stopped has closed its logs
        return flushed

    async def checkpoint(self) -> None:
        """Write down how far each log is synced and where it starts."""
        partitions = self._broker.replicas
        partitions.write_log_starts(list(partitions))
        writes = partitions.directories.begin_checkpoint()
        await self._write(writes)
        partitions.directories.finish_checkpoint(writes)

    async def checkpoint_high_watermarks(self) -> None:
        """Write the high watermarks down."""
        partitions = self._broker.replicas
        if (checkpoint := partitions.begin_checkpoint_high_watermarks()) is not None:
            await self._write(checkpoint.writes)
            partitions.finish_checkpoint_high_watermarks(checkpoint)

    async def _write(self, writes: list[CheckpointWrite]) -> None:
        for write in writes:
            await self._broker.disk.in_background(write)

    async def free_deleted(self) -> int:
        """Remove the files of what went `file.delete.delay.ms` ago; returns of how many segments."""
        now_ms = self._broker.clock.now_ms()
        self._broker.replicas.directories.free_deleted(now_ms)
        return self._each(lambda partition: partition.log.free_deleted(now_ms))

    def _each(self, work: Callable[[Partition], int]) -> int:
        done = 0
        for partition in self._broker.replicas:
            if not partition.is_gone:
                try:
                    done += work(partition)
                except OSError as error:
                    self._broker.replicas.storage_failed(partition, error)
        return done

    async def run(self) -> None:
        """Look after the logs until cancelled."""
        config = self._broker.config.current
        checkpoint_ms = min(
            config.log_flush_offset_checkpoint_interval_ms, config.log_flush_start_offset_checkpoint_interval_ms
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._every, config.log_retention_check_interval_ms, self.retain)
            nursery.start_soon(self._every, config.log_flush_scheduler_interval_ms, self.flush_due)
            nursery.start_soon(self._every, checkpoint_ms, self.checkpoint)
            nursery.start_soon(self._every, FREE_INTERVAL_MS, self.free_deleted)
            nursery.start_soon(self._flush_rolled)

    async def _every(self, interval_ms: int, work: Callable[[], Awaitable[object]]) -> None:
        while True:
            await trio.sleep(interval_ms / 1000)
            await self._broker.clock.until_running()
            await work()

    async def _flush_rolled(self) -> None:
        while True:
            await self._has_rolled.wait()
            await self._broker.clock.until_running()
            await self.flush_rolled()
