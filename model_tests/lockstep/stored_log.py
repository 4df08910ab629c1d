"""The storage room's log in a lockstep: the same cores over real record batches, segments and recovery.

It lies on a simulated disk of its own. A crash cuts it where the action says and opens it again, so that recovery has
to find everything by scanning.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

from impl.partition.log import Admit, Buffer
from impl.partition.producer_state import ProducerStates
from impl.ports.simulated_disk import SimulatedDisk
from impl.storage.config import LogConfig
from impl.storage.log import Log
from impl.wire.records import headers
from impl.wire.records_payload import Record as StoredRecord
from impl.wire.records_payload import build_batch, decode_records
from spec.replication_state import Record

_DIRECTORY = "records-0"
_CONFIG = LogConfig()


class StoredLog:
    """Satisfies `model_tests.lockstep.memory_log.LockstepLog`; every record is a batch of its own."""

    def __init__(self, disk: SimulatedDisk | None = None) -> None:
        self._disk = SimulatedDisk(random.Random(0)) if disk is None else disk
        self._log = Log.open(self._disk, _DIRECTORY, _CONFIG, now_ms=0)
        self.log_start_offset = self._log.log_start_offset
        self._flushed_end_offset = self._log.log_end_offset

    @property
    def log_end_offset(self) -> int:
        return self._log.log_end_offset

    @property
    def latest_epoch(self) -> int:
        return self._log.latest_epoch

    @property
    def flushed_end_offset(self) -> int:
        """What was asked to be flushed; the log may have flushed more, since truncating is durable, but never less."""
        assert self._log.flushed_end_offset >= self._flushed_end_offset
        return self._flushed_end_offset

    @property
    def records(self) -> tuple[Record, ...]:
        return self.decode(self._log.read(0, 1 << 20))

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        return self._log.end_offset_for(epoch)

    @property
    def producers(self) -> ProducerStates:
        return self._log.producers

    def append_as_leader(self, batches: Buffer, leader_epoch: int, now_ms: int, *, admit: Admit | None = None) -> None:
        self._log.append_as_leader(batches, leader_epoch, now_ms, admit=admit)

    def append_as_follower(self, batches: Buffer) -> None:
        self._log.append_as_follower(batches)

    def fetch(self, offset: int, max_bytes: int, end_offset: int) -> bytes:
        return self._log.read(offset, max_bytes, end_offset)

    def truncate_to(self, offset: int) -> None:
        self._log.truncate_to(offset)
        self._flushed_end_offset = min(self._flushed_end_offset, offset)

    def flush(self) -> None:
        self._log.flush()
        self._flushed_end_offset = self._log.log_end_offset

    def after_crash(self, kept: int) -> StoredLog:
        self._log.truncate_to(kept)
        self._log.abandon()
        return StoredLog(self._disk)

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
