"""The errors of a log."""

from __future__ import annotations

from typing import ClassVar

from kio.schema.errors import ErrorCode

from tidegauge.impl.records.batches import RecordError


class OffsetOutOfRangeError(Exception):
    """An offset that the log does not hold."""

    error_code: ClassVar[ErrorCode] = ErrorCode.offset_out_of_range

    def __init__(self, offset: int, log_start_offset: int, log_end_offset: int) -> None:
        super().__init__(f"offset {offset} is outside the log, which holds [{log_start_offset}, {log_end_offset})")


class BatchTooLargeError(RecordError):
    """A batch of more than `max.message.bytes`."""

    error_code: ClassVar[ErrorCode] = ErrorCode.message_too_large


class BatchListTooLargeError(RecordError):
    """Batches that do not fit into one segment."""

    error_code: ClassVar[ErrorCode] = ErrorCode.record_list_too_large


class FailedLogError(OSError):
    """The log's disk has failed before; the log can only be read until it is opened again."""


class CorruptLogError(RecordError):
    """A log file that the disk has damaged below what recovery had found intact."""

    def __init__(self, path: str, position: int) -> None:
        self.path = path
        self.position = position
        super().__init__(f"{path} holds no intact record batch at position {position}: the disk has damaged it")


class DamagedLogError(CorruptLogError):
    """Offsets that cannot be read, because the disk has damaged what held them."""

    def __init__(self, directory: str, start: int, end: int, reason: str) -> None:
        self.start = start
        self.end = end
        Exception.__init__(
            self,
            f"{directory} cannot serve the offsets [{start}, {end}), which the disk has damaged ({reason}). "
            "The replica is repaired from another one that is in sync. Where there is no other "
            f"replica: put the file back from a copy while the broker is down, or give the records below {end} up "
            "(DeleteRecords), or read on from there",
        )
