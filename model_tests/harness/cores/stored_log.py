"""A log of `impl.storage` in a lockstep: the same cores over real record batches, segments and recovery.

It is on a simulated disk of its own. A crash truncates it where the action says and opens it again, so that recovery
has to find everything by scanning.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidegauge.impl.partition.log import Buffer
from tidegauge.impl.ports.simulated_disk import SimulatedDisk
from tidegauge.impl.records.batches import headers
from tidegauge.impl.records.payload import Record as StoredRecord
from tidegauge.impl.records.payload import build_batch, decode_records
from tidegauge.impl.storage.config import LogConfig
from tidegauge.model_tests.harness.cores.disk_log import DiskLog
from tidegauge.model_tests.harness.cores.memory_log import UNKNOWN
from tidegauge.spec.replication.state import Record

_CONFIG = LogConfig(segment_bytes=2 * 79)
"""Two records a segment."""


class StoredLog(DiskLog):
    """Satisfies `model_tests.harness.cores.memory_log.LockstepLog`; every record is a batch of its own."""

    def __init__(self, disk: SimulatedDisk | None = None, ghosts: tuple[Record, ...] = ()) -> None:
        super().__init__(disk, _CONFIG, len(ghosts), None)
        self._ghosts = ghosts
        """The records below the log start, which the disk may no longer have."""
        self.log_start_checkpoint = len(ghosts)
        self._flushed_end_offset = self._log.log_end_offset

    @property
    def flushed_end_offset(self) -> int:
        """What was asked to be flushed; the log may have flushed more, since truncating is durable, but never less."""
        assert self._log.flushed_end_offset >= self._flushed_end_offset
        return self._flushed_end_offset

    @property
    def records(self) -> tuple[Record, ...]:
        assert len(self._ghosts) == self.log_start_offset
        return (*self._ghosts, *self._between(self.log_start_offset, self.log_end_offset))

    def _between(self, start: int, end: int) -> tuple[Record, ...]:
        found: list[Record] = []
        while start + len(found) < end:
            found += self.decode(self._log.read(start + len(found), 1 << 20, end))
        return tuple(found)

    def fetch(self, offset: int, max_bytes: int, end_offset: int) -> bytes:
        """The storage room's log reads up to the end of a segment; the specification knows no segments."""
        parts = [self._log.read(offset, max_bytes, end_offset)]
        while parts[-1] and (room := max_bytes - sum(map(len, parts))) >= self.bytes_of(1):
            offset = list(headers(parts[-1]))[-1][1].next_offset
            parts.append(self._log.read(offset, room, end_offset))
        return b"".join(parts)

    def truncate_to(self, offset: int, *, epoch: int = -1) -> None:
        super().truncate_to(offset, epoch=epoch)
        self._flushed_end_offset = min(self._flushed_end_offset, offset)
        self._ghosts = self._ghosts[:offset]
        self.log_start_checkpoint = min(self.log_start_checkpoint, offset)

    def truncate_fully_and_start_at(self, offset: int, *, epoch: int = -1) -> None:
        super().truncate_fully_and_start_at(offset, epoch=epoch)
        self._ghosts = (UNKNOWN,) * offset
        self._flushed_end_offset = self.log_start_checkpoint = offset

    def delete_records_before(self, offset: int) -> None:
        self._ghosts += self._between(self.log_start_offset, offset)
        super().delete_records_before(offset)

    def remember(self, below: tuple[Record, ...]) -> None:
        self._ghosts = (*below, *self._ghosts[len(below) :])

    def write_log_start(self) -> None:
        """And free the segments below it."""
        if self._flushed_end_offset < self.log_start_offset:
            self.flush()
        self._log.prepare_log_start(self.log_start_offset)
        self.log_start_checkpoint = self.log_start_offset
        self._log.retention(now_ms=0, high_watermark=self.log_start_offset)

    def flush(self) -> None:
        self._log.flush()
        self._flushed_end_offset = self._log.log_end_offset

    def after_crash(self, kept: int) -> StoredLog:
        self._log.abandon()
        restarted = StoredLog(self._disk, self._ghosts[: self.log_start_checkpoint])
        restarted._log.truncate_to(kept)
        restarted._log.abandon()
        return StoredLog(self._disk, restarted._ghosts)

    @staticmethod
    def produced(values: Iterable[int]) -> bytes:
        return b"".join(build_batch([StoredRecord(0, 0, None, value.to_bytes(8, "big"))]) for value in values)

    @staticmethod
    def bytes_of(count: int) -> int:
        return count * len(StoredLog.produced([0]))

    @staticmethod
    def decode(batches: Buffer) -> tuple[Record, ...]:
        return tuple(
            Record(header.partition_leader_epoch, int.from_bytes(record.value or b"", "big"))
            for position, header in headers(batches)
            for record in decode_records(batches, position)
        )
