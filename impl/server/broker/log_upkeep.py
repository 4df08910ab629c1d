"""The upkeep of a broker's logs by the clock: retention, flushes, checkpoints, and the removal of deleted files.

The timers are those of Kafka's LogManager. Each looks at every log, but for the removal of files, which looks at logs
that have deleted segments. A disk that fails takes its log directory offline,
and the upkeep of the others goes on.

A sync waits for the disk, so it runs in the background (`Disk.in_background`) while the broker serves requests. This
holds for timed flushes, for flushes of closed segments and for checkpoints. Each has three steps: decide what to write,
write it, note what was written. A log may change or go during the second step.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from tidegauge.impl.records.batches import RecordError
from tidegauge.impl.server import trace
from tidegauge.impl.server.broker.partition import Partition
from tidegauge.impl.storage.flushing import PendingFlush

if TYPE_CHECKING:
    from tidegauge.impl.ports.clock import Clock
    from tidegauge.impl.ports.disk import Disk
    from tidegauge.impl.server.broker.replica_manager import ReplicaManager
    from tidegauge.impl.server.settings.server_config import ServerConfig
    from tidegauge.impl.server.trace.tracer import Tracer
    from tidegauge.impl.storage.log_directories import CheckpointWrite

FREE_INTERVAL_MS: Final = 5_000
"""How often the files are removed whose `file.delete.delay.ms` is over."""
FLUSHES_AT_ONCE: Final = 64
"""Logs that are flushed together: each has file descriptors open until its flush is done."""


class LogUpkeep:
    """The upkeep of one broker's logs. Timers call its methods, and so may a driver."""

    def __init__(
        self,
        replicas: ReplicaManager,
        config: ServerConfig,
        *,
        clock: Clock,
        disk: Disk,
        tracer: Tracer,
        timers: bool,
    ) -> None:
        """`timers`: whether `run` will run, and flush closed segments."""
        self._replicas = replicas
        self._config = config
        self._clock = clock
        self._disk = disk
        self._tracer = tracer
        self._timers = timers
        self._rolled: dict[Partition, None] = {}
        """Logs with a closed segment to flush."""
        self._has_rolled = trio.Event()
        self._to_free: dict[Partition, None] = {}
        """Logs that have deleted segments whose files are still there."""

    async def retain(self) -> int:
        """Remove segments by `retention.ms`, `retention.bytes` and the log starts; returns how many."""
        now_ms, tracer = self._clock.now_ms(), self._tracer

        def retain(partition: Partition) -> int:
            log, start = partition.log, partition.log.log_start_offset
            removed = log.retention(now_ms, partition.replica.high_watermark)
            if log.log_start_offset != start:
                if tracer.trace is not None:
                    tracer.replica(trace.events.Retain, partition.topic, partition.index, partition.replica)
                self._replicas.effects.log_start_moved(partition)
            return removed

        return self._each(retain, self._replicas)

    async def flush_due(self) -> int:
        """Sync the logs in which a record has waited for `flush.ms`; returns how many."""
        now_ms = self._clock.now_ms()
        due = [partition for partition in self._replicas if partition.log.is_flush_due(now_ms)]
        flushed = await self._flush([partition for partition in due if not partition.log.is_being_flushed])
        if flushed:
            await self.checkpoint()
        return flushed

    def rolled(self, partition: Partition) -> None:
        """Flush a log's closed segments soon: it has begun a new one."""
        if self._timers:
            self._rolled[partition] = None
            self._has_rolled.set()

    def segments_deleted(self, partition: Partition) -> None:
        """Remove the files of a log's deleted segments when their time has come."""
        self._to_free[partition] = None

    async def flush_rolled(self) -> int:
        """Sync the closed segments of the logs that have begun a new one; returns how many recovery points moved."""
        rolled, self._rolled, self._has_rolled = list(self._rolled), {}, trio.Event()
        return await self._flush([partition for partition in rolled if not partition.is_gone], closed_only=True)

    async def _flush(self, partitions: list[Partition], *, closed_only: bool = False) -> int:
        """Flush `FLUSHES_AT_ONCE` logs at a time; returns how many recovery points moved."""
        flushes, disk, flushed = self._replicas.flushes, self._disk, 0
        for first in range(0, len(partitions), FLUSHES_AT_ONCE):
            begun: list[tuple[Partition, PendingFlush]] = []
            for partition in partitions[first : first + FLUSHES_AT_ONCE]:
                flush = None if partition.is_gone else flushes.begin(partition, closed_only=closed_only)
                if flush is not None:
                    begun.append((partition, flush))
            await disk.in_background(partial(disk.all_at_once, [flush.work for _, flush in begun]))
            flushed += sum([flushes.finish(partition, flush) for partition, flush in begun])
            await trio.lowlevel.checkpoint_if_cancelled()  # a broker that has stopped has closed its logs
        return flushed

    async def checkpoint(self) -> None:
        """Save each log's recovery point and log start offset."""
        replicas = self._replicas
        replicas.flushes.write_log_starts(list(replicas))
        writes = replicas.directories.begin_checkpoint()
        await self._write(writes)
        replicas.directories.finish_checkpoint(writes)

    async def checkpoint_high_watermarks(self) -> None:
        """Save the high watermarks."""
        replicas = self._replicas
        checkpoint = replicas.high_watermark_checkpoint.begin(replicas.hosted.high_watermarks())
        if checkpoint is not None:
            await self._write(checkpoint.writes)
            replicas.finish_checkpoint(checkpoint)

    async def _write(self, writes: list[CheckpointWrite]) -> None:
        for write in writes:
            await self._disk.in_background(write)

    async def free_deleted(self) -> int:
        """Remove the files of what was deleted `file.delete.delay.ms` ago; returns of how many segments."""
        now_ms = self._clock.now_ms()
        self._replicas.directories.free_deleted(self._clock.steady_ms())
        freed = self._each(lambda partition: partition.log.free_deleted(now_ms), list(self._to_free))
        for partition in [one for one in self._to_free if one.is_gone or not one.log.has_deleted]:
            del self._to_free[partition]
        return freed

    def _each(self, work: Callable[[Partition], int], partitions: Iterable[Partition]) -> int:
        done = 0
        for partition in partitions:
            if not partition.is_gone:
                try:
                    done += work(partition)
                except (OSError, RecordError) as error:
                    self._replicas.storage_failed(partition, error)
        return done

    async def run(self) -> None:
        """Do all of it on time until cancelled."""
        config = self._config
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
            await trio.sleep(self._clock.coalesced_ms(interval_ms) / 1000)
            await self._clock.until_running()
            await work()

    async def _flush_rolled(self) -> None:
        while True:
            await self._has_rolled.wait()
            await self._clock.until_running()
            if await self.flush_rolled():
                await self.checkpoint()  # below the recovery point nothing is cut after a crash
