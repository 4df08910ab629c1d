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


class CorruptLogError(Exception):
    """A log file whose structure is damaged below what recovery had found intact."""

    def __init__(self, path: str, position: int) -> None:
        super().__init__(
            f"{path} holds no record batch at position {position}: the disk has damaged it. "
            "Remove the partition's directory while its broker is down; it is then fetched again from the leader"
        )
