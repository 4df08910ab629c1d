"""What a follower checks of the batches that its leader sent, and how it divides them among segments."""

from __future__ import annotations

from collections.abc import Sequence

from tidegauge.impl.records.batches import BatchHeader, InvalidRecordError


def check_ascending(headers: Sequence[BatchHeader], log_end_offset: int, epoch: int, *, log_is_empty: bool) -> None:
    """Raise InvalidRecordError unless each batch begins at or after the end of the one before it, in no older epoch.

    The first batch of an empty log may begin below the log end offset and end above it.
    """
    expected = log_end_offset
    for number, header in enumerate(headers):
        spans = number == 0 and log_is_empty and header.base_offset < expected <= header.last_offset
        if header.base_offset < expected and not spans:
            raise InvalidRecordError(f"a batch at offset {header.base_offset}: the log continues at {expected}")
        if header.partition_leader_epoch < epoch:
            raise InvalidRecordError(
                f"leader epoch {header.partition_leader_epoch} at offset {header.base_offset} after epoch {epoch}"
            )
        expected, epoch = header.next_offset, header.partition_leader_epoch


def segment_loads(headers: Sequence[BatchHeader], room: int, segment_bytes: int) -> list[tuple[int, int, int, int]]:
    """(first batch, end, position, bytes) of runs of batches, each of which goes into one segment.

    The first run goes where `room` bytes are free, each other one into a segment of its own of `segment_bytes`.
    """
    loads: list[tuple[int, int, int, int]] = []
    first, start, position = 0, 0, 0
    for number, header in enumerate(headers):
        if position + header.size - start > room and number > first:
            loads.append((first, number, start, position - start))
            first, start, room = number, position, segment_bytes
        position += header.size
    if headers:
        loads.append((first, len(headers), start, position - start))
    return loads
