"""Bringing hosted logs to stable storage: their records, how far each is flushed, and where each starts.

A flush has two halves, so that the disk's work may be done in any thread: `begin`, the work, `finish`. A disk that
fails takes its log directory offline.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidegauge.impl.server import trace
from tidegauge.impl.server.broker.hosted_partitions import HostedPartitions
from tidegauge.impl.server.broker.partition import Partition
from tidegauge.impl.server.trace.tracer import Tracer
from tidegauge.impl.storage.flushing import PendingFlush
from tidegauge.impl.storage.log_directories import LogDirectories


class LogFlushes:
    """The flushes of one broker's logs."""

    def __init__(self, hosted: HostedPartitions, directories: LogDirectories, tracer: Tracer) -> None:
        self._hosted = hosted
        self._directories = directories
        self._tracer = tracer
        self._flushed: dict[Partition, int] = {}
        """The flushed end offsets that the last checkpoint has."""

    def begin(self, partition: Partition, *, closed_only: bool = False) -> PendingFlush | None:
        """A flush of one log, of its closed segments with `closed_only`; None when its disk fails."""
        try:
            return partition.log.begin_flush(closed_only=closed_only)
        except OSError as error:
            self._hosted.storage_failed(partition, error)
            return None

    def finish(self, partition: Partition, flush: PendingFlush) -> bool:
        """Move the recovery point; False when the disk has failed, or the partition has another log by now."""
        if partition.is_gone:
            return False
        log = partition.log
        before = log.flushed_end_offset
        try:
            moved = log.finish_flush(flush)
        except OSError as error:
            self._hosted.storage_failed(partition, error)
            return False
        if before < log.flushed_end_offset == log.log_end_offset:
            self._trace_flush(partition)
        return moved

    def flush_all(self) -> None:
        """Flush every log here and now, and write a checkpoint of how far each one is."""
        for partition in self._hosted:
            if not partition.is_gone and partition.log.flushed_end_offset < partition.log.log_end_offset:
                try:
                    partition.log.flush()
                except OSError as error:
                    self._hosted.storage_failed(partition, error)
                else:
                    self._trace_flush(partition)
        flushed = {partition: partition.log.flushed_end_offset for partition in self._hosted}
        if flushed != self._flushed:
            self._directories.checkpoint()
            self._flushed = flushed

    def _trace_flush(self, partition: Partition) -> None:
        if self._tracer.trace is not None:
            self._tracer.replica(trace.events.Flush, partition.topic, partition.index, partition.replica)

    def write_log_starts(self, partitions: Iterable[Partition]) -> None:
        """Make the log starts of these partitions durable. Nobody may be told of one before that.

        A disk without room does not take them: `log_start_is_durable` says so.
        """
        moved = [one for one in partitions if not one.is_gone and not one.log.log_start_is_durable]
        if moved:
            self.write_log_starts_ahead({partition: partition.log.log_start_offset for partition in moved})

    def write_log_starts_ahead(self, starts: Mapping[Partition, int]) -> set[Partition]:
        """Make it durable that logs start at these offsets, before they do; returns those of which it is."""
        ready: dict[Partition, int] = {}
        for partition, offset in starts.items():
            if partition.is_gone or partition.log.is_durable_start(offset):
                continue
            try:
                partition.log.prepare_log_start(offset)
            except OSError as error:
                self._hosted.storage_failed(partition, error)
            else:
                ready[partition] = offset
        if ready:
            self._directories.write_log_starts({one.key: offset for one, offset in ready.items() if not one.is_gone})
        return {one for one, offset in starts.items() if not one.is_gone and one.log.is_durable_start(offset)}
