"""What a lockstep needs of a log, and a log in memory that is fast and loses its tail when told to.

The one in memory holds the specification's records, so that the abstraction of a log is the log. On the way between two
logs a record is 16 bytes; a producer's record is the 8 bytes of its value.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Protocol

from tidegauge.impl.partition.log import Admit, Buffer, Records, ReplicaLog
from tidegauge.impl.partition.producer_state import ProducerStates
from tidegauge.impl.partition.transactions import AbortedTransaction
from tidegauge.impl.records.checked import Batches, CheckedBatch
from tidegauge.impl.records.origin import Origin
from tidegauge.spec.replication.state import Record

_VALUE = struct.Struct(">q")
_RECORD = struct.Struct(">qq")
UNKNOWN = Record(-1, -1)
"""A record below the log start, until the log is told which."""


class LockstepLog(ReplicaLog, Protocol):
    """A replica's log that a lockstep can look into, and that can crash."""

    @property
    def records(self) -> tuple[Record, ...]:
        """All of it, as the specification has it."""

    @property
    def flushed_end_offset(self) -> int:
        """Every record below it survives a crash."""

    @property
    def log_start_checkpoint(self) -> int:
        """The log start that survives a crash."""

    def flush(self) -> object:
        """Make everything survive a crash."""

    def write_log_start(self) -> None:
        """Make the log start survive a crash, and what is below it."""

    def remember(self, below: tuple[Record, ...]) -> None:
        """Learn which records a log starts after that had none: the specification knows, the log never had them."""

    def after_crash(self, kept: int) -> LockstepLog:
        """What a restarted process finds: the first `kept` records."""

    @staticmethod
    def produced(values: Iterable[int]) -> bytes:
        """What a producer sends."""

    @staticmethod
    def bytes_of(count: int) -> int:
        """The size of `count` records on their way."""

    @staticmethod
    def decode(batches: Buffer) -> tuple[Record, ...]:
        """The records that `read` returned."""


class MemoryLog:
    """A log in memory; of records below the log start it still knows what they were, for the abstraction."""

    def __init__(self, records: tuple[Record, ...] = (), flushed_end_offset: int = 0) -> None:
        self.records = records
        self.flushed_end_offset = flushed_end_offset
        self.log_start_offset = self.log_start_checkpoint = 0
        self.producers = ProducerStates()
        """Nobody's: these records have no producer ids."""

    @property
    def log_end_offset(self) -> int:
        return len(self.records)

    @property
    def latest_epoch(self) -> int:
        return self.records[-1].epoch if self.records else -1

    @property
    def log_start_epoch(self) -> int:
        return self.records[self.log_start_offset - 1].epoch if self.log_start_offset else -1

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        start = self.log_start_offset
        for end in range(len(self.records), max(0, start - 1), -1):
            if self.records[end - 1].epoch <= epoch:
                return self.records[end - 1].epoch, end
        return -1, start

    def append_as_leader(
        self,
        batches: Batches,
        leader_epoch: int,
        now_ms: int,
        *,
        origin: Origin = Origin.CLIENT,
        admit: Admit | None = None,
    ) -> None:
        assert not isinstance(batches, CheckedBatch), "these batches are plain numbers: nobody has checked them"
        self.records += tuple(Record(leader_epoch, value) for (value,) in _VALUE.iter_unpack(batches))

    def append_as_follower(self, batches: Buffer) -> None:
        self.records += self.decode(batches)

    def fetch(self, offset: int, max_bytes: int, end_offset: int) -> bytes:
        assert offset < end_offset, f"a log is read at {offset}, where nothing below {end_offset} can be"
        count = max(1, max_bytes // _RECORD.size)
        chosen = self.records[offset : min(end_offset, offset + count)]
        return b"".join(_RECORD.pack(record.epoch, record.value) for record in chosen)

    def aborted_in(self, offset: int, records: Records) -> tuple[AbortedTransaction, ...]:
        return ()

    def aborted_transactions(self, start_offset: int, end_offset: int) -> tuple[AbortedTransaction, ...]:
        return ()

    def truncate_to(self, offset: int, *, epoch: int = -1) -> None:
        self.records = self.records[:offset]
        self.flushed_end_offset = min(self.flushed_end_offset, offset)
        self.log_start_offset = min(self.log_start_offset, offset)
        self.log_start_checkpoint = min(self.log_start_checkpoint, offset)

    def truncate_fully_and_start_at(self, offset: int, *, epoch: int = -1) -> None:
        self.records = (*(UNKNOWN,) * (offset - 1), *(Record(epoch, -1),) * (offset > 0))
        self.flushed_end_offset = self.log_start_offset = self.log_start_checkpoint = offset

    def delete_records_before(self, offset: int) -> None:
        assert 0 <= offset <= len(self.records)
        self.log_start_offset = max(self.log_start_offset, offset)

    def remember(self, below: tuple[Record, ...]) -> None:
        self.records = (*below, *self.records[len(below) :])

    def write_log_start(self) -> None:
        if self.flushed_end_offset < self.log_start_offset:
            self.flush()
        self.log_start_checkpoint = self.log_start_offset

    def flush(self) -> None:
        self.flushed_end_offset = len(self.records)

    def after_crash(self, kept: int) -> MemoryLog:
        survivor = MemoryLog(self.records[:kept], kept)
        survivor.log_start_offset = survivor.log_start_checkpoint = self.log_start_checkpoint
        return survivor

    @staticmethod
    def produced(values: Iterable[int]) -> bytes:
        return b"".join(map(_VALUE.pack, values))

    @staticmethod
    def bytes_of(count: int) -> int:
        return count * _RECORD.size

    @staticmethod
    def decode(batches: Buffer) -> tuple[Record, ...]:
        return tuple(Record(epoch, value) for epoch, value in _RECORD.iter_unpack(batches))
