"""A replica's log in memory, for cores without a disk: as fast as a log can be, and it can forget its tail at will.

It holds the specification's records, so that the abstraction of a log is the log. On the way between two logs a record
is 16 bytes; a producer's record is the 8 bytes of its value.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from spec.replication_state import Record

_VALUE = struct.Struct(">q")
_RECORD = struct.Struct(">qq")


def produced(values: Iterable[int]) -> bytes:
    """What a producer sends."""
    return b"".join(map(_VALUE.pack, values))


class MemoryLog:
    """Satisfies `impl.partition.log.ReplicaLog`."""

    log_start_offset = 0

    def __init__(self, records: tuple[Record, ...] = (), flushed_end_offset: int = 0) -> None:
        self.records = records
        self.flushed_end_offset = flushed_end_offset

    @property
    def log_end_offset(self) -> int:
        return len(self.records)

    @property
    def latest_epoch(self) -> int:
        return self.records[-1].epoch if self.records else -1

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        end = len(self.records)
        while end and self.records[end - 1].epoch > epoch:
            end -= 1
        return (self.records[end - 1].epoch, end) if end else (-1, 0)

    def append_as_leader(self, batches: bytes, leader_epoch: int, now_ms: int) -> None:
        self.records += tuple(Record(leader_epoch, value) for (value,) in _VALUE.iter_unpack(batches))

    def append_as_follower(self, batches: bytes) -> None:
        self.records += decode(batches)

    def read(self, offset: int, max_bytes: int, end_offset: int) -> bytes:
        count = max(1, max_bytes // _RECORD.size)
        chosen = self.records[offset : min(end_offset, offset + count)]
        return b"".join(_RECORD.pack(record.epoch, record.value) for record in chosen)

    def truncate_to(self, offset: int) -> None:
        self.records = self.records[:offset]
        self.flushed_end_offset = min(self.flushed_end_offset, offset)

    def flush(self) -> None:
        self.flushed_end_offset = len(self.records)


def bytes_of(count: int) -> int:
    """The size of `count` records on their way."""
    return count * _RECORD.size


def decode(batches: bytes) -> tuple[Record, ...]:
    """The records that `MemoryLog.read` returned."""
    return tuple(Record(epoch, value) for epoch, value in _RECORD.iter_unpack(batches))
