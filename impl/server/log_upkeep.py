"""What a broker does for its logs by the clock: retention, syncing what has waited, checkpoints, and freeing files.

The timers are those of Kafka's LogManager. Each looks at every log; a disk that fails takes its directory offline and
the others go on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from impl.server.partitions import Partition

if TYPE_CHECKING:
    from impl.server.broker import Broker

FREE_INTERVAL_MS = 5_000
"""How often files whose `file.delete.delay.ms` is over are looked for."""


class LogUpkeep:
    """The upkeep of one broker's logs; the timers call what a driver may call as well."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def retain(self) -> int:
        """Remove what `retention.ms`, `retention.bytes` and the log starts say; returns how many segments."""
        now_ms, tracer = self._broker.clock.now_ms(), self._broker.tracer

        def retain(partition: Partition) -> int:
            log, start = partition.log, partition.log.log_start_offset
            removed = log.retention(now_ms, partition.replica.high_watermark)
            if log.log_start_offset != start:
                tracer.replica("Retain", partition.topic, partition.index, partition.replica)
            return removed

        return self._each(retain)

    def flush_due(self) -> int:
        """Sync the logs in which a record has waited for `flush.ms`; returns how many."""
        now_ms, tracer = self._broker.clock.now_ms(), self._broker.tracer

        def flush(partition: Partition) -> int:
            if not partition.log.flush_if_due(now_ms):
                return 0
            tracer.replica("Flush", partition.topic, partition.index, partition.replica)
            return 1

        flushed = self._each(flush)
        if flushed:
            self.checkpoint()
        return flushed

    def checkpoint(self) -> None:
        """Write down how far each log is synced and where it starts."""
        self._broker.partitions.write_log_starts(list(self._broker.partitions))
        self._broker.partitions.directories.checkpoint()

    def free_deleted(self) -> int:
        """Remove the files of what went `file.delete.delay.ms` ago; returns of how many segments."""
        now_ms = self._broker.clock.now_ms()
        self._broker.partitions.directories.free_deleted(now_ms)
        return self._each(lambda partition: partition.log.free_deleted(now_ms))

    def _each(self, work: Callable[[Partition], int]) -> int:
        done = 0
        for partition in self._broker.partitions:
            if not partition.is_gone:
                try:
                    done += work(partition)
                except OSError as error:
                    self._broker.partitions.storage_failed(partition, error)
        return done

    async def run(self) -> None:
        """Look after the logs until cancelled."""
        config = self._broker.config
        checkpoint_ms = min(
            config.log_flush_offset_checkpoint_interval_ms, config.log_flush_start_offset_checkpoint_interval_ms
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._every, config.log_retention_check_interval_ms, self.retain)
            nursery.start_soon(self._every, config.log_flush_scheduler_interval_ms, self.flush_due)
            nursery.start_soon(self._every, checkpoint_ms, self.checkpoint)
            nursery.start_soon(self._every, FREE_INTERVAL_MS, self.free_deleted)

    async def _every(self, interval_ms: int, work: Callable[[], object]) -> None:
        while True:
            await trio.sleep(interval_ms / 1000)
            await self._broker.clock.until_running()
            work()
