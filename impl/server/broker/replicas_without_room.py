"""Replicas whose disk lacks room or descriptors: they are tried again, and have what their process knew of them.

What such a process has told others still holds, though the disk could not take it: the high watermark, and where the
log starts.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.impl.server import trace
from tidegauge.impl.server.broker.partition import Partition, TopicPartition
from tidegauge.impl.server.trace.tracer import Tracer
from tidegauge.impl.storage.log import Log


class _Known(NamedTuple):
    topic_id: str
    high_watermark: int
    log_start_offset: int


class ReplicasWithoutRoom:
    """Those of one broker."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self.waiting: Final[set[TopicPartition]] = set()
        """To be tried again with the next metadata."""
        self._refusing: Final[set[TopicPartition]] = set()
        """Those that have not been opened since they began to wait."""
        self._known: Final[dict[TopicPartition, _Known]] = {}

    def wait(self, key: TopicPartition, partition: Partition | None) -> None:
        """It is to be tried again; `partition` is what was hosted until now, if anything was."""
        self.waiting.add(key)
        if key not in self._refusing:
            self._refusing.add(key)
            if self._tracer.trace is not None:
                self._tracer.record(trace.events.WaitForRoom, *key)
        if partition is not None:
            replica = partition.replica
            known = _Known(partition.topic_id, replica.high_watermark, replica.log.log_start_offset)
            self._known[key] = known

    def note_opened(self, key: TopicPartition, replica: PartitionReplica) -> None:
        """A replica has opened its log: it waits no more, if it did."""
        if key in self._refusing:
            self._refusing.remove(key)
            if self._tracer.trace is not None:
                self._tracer.log(trace.events.HasRoom, *key, replica)

    def forget(self, keys: Collection[TopicPartition]) -> None:
        """These were taken away."""
        for key in keys:
            self._known.pop(key, None)
            self._refusing.discard(key)

    def recall(self, key: TopicPartition, topic_id: str, log: Log, written: int) -> int:
        """The high watermark to begin with, which is at least what is written down. The log starts where it did.

        Raises OSError.
        """
        known = self._known.pop(key, None)
        if known is None or known.topic_id != topic_id:
            return written
        high_watermark = min(max(written, known.high_watermark), log.log_end_offset)
        log_start = min(known.log_start_offset, high_watermark)
        if log_start > log.log_start_offset:
            log.delete_records_before(log_start)
        return high_watermark
