"""Where logs end on a disk: what a crash will keep, what it has kept, and whether there is a note of a clean stop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import attrs

from tidegauge.impl.ports.disk import Disk
from tidegauge.impl.records.batches import RecordError, checked_header
from tidegauge.impl.storage import checkpoints
from tidegauge.impl.storage.log_directory import CLEAN_SHUTDOWN
from tidegauge.impl.storage.log_names import LogNames
from tidegauge.impl.storage.moving_logs import MovingLogs, successors
from tidegauge.impl.storage.partition_directory import partition_of
from tidegauge.impl.storage.segment_names import LOG_SUFFIX, file_name

if TYPE_CHECKING:
    from tidegauge.impl.ports.simulated_disk import SimulatedDisk

TopicPartition = tuple[str, int]


def unsynced_bytes_below(
    disk: SimulatedDisk, directories: Sequence[str], keep: Mapping[TopicPartition, int]
) -> dict[str, int]:
    """For each segment of these partitions, how many of its unsynced bytes lie below the offset to be kept.

    Raises ValueError when the offset cannot be kept exactly: already synced beyond, not there, or inside a batch.
    """
    kept: dict[str, int] = {}
    there = _logs(disk, directories)
    for (topic, index), end_offset in keep.items():
        directory, name = there.get((topic, index), (directories[0], f"{topic}-{index}"))
        path = f"{directory}/{name}"
        reached = 0
        for base_offset in _base_offsets(disk, path):
            if base_offset <= end_offset:
                reached = max(reached, base_offset)
            file = f"{path}/{file_name(base_offset, LOG_SUFFIX)}"
            content = disk.files()[file]
            position, reached = _position(content, end_offset, reached)
            synced = len(content) - disk.unsynced(file)
            if position < synced:
                raise ValueError(f"{topic}-{index} is synced beyond offset {end_offset}: a crash cannot lose that")
            kept[file] = position - synced
        if reached != end_offset:
            raise ValueError(f"{topic}-{index} cannot keep up to {end_offset}: the batches there end at {reached}")
    return kept


def _position(content: bytes, end_offset: int, reached: int) -> tuple[int, int]:
    """Where in a segment the batches below an offset end, and the offset that they reach."""
    position = 0
    while position < len(content):
        try:
            header = checked_header(content, position)
        except RecordError:
            break
        if header.next_offset > end_offset:
            break
        position, reached = position + header.size, header.next_offset
    return position, reached


def surviving_end_offsets(disk: Disk, directories: Sequence[str]) -> dict[TopicPartition, int]:
    """The log end offset that each partition will have when it is opened again, sorted by partition."""
    logs = sorted(_logs(disk, directories).items())
    return {key: _end_offset(disk, f"{directory}/{name}") for key, (directory, name) in logs}


def _logs(disk: Disk, directories: Sequence[str]) -> dict[TopicPartition, tuple[str, str]]:
    """The directory of each log, and its name there; a future log too that the next process will take for one."""
    found: dict[TopicPartition, tuple[str, str]] = {}
    moving = [MovingLogs(disk, directory) for directory in directories if disk.exists(directory)]
    for one in moving:
        one.find_left()
    moves = successors(one.left for one in moving)
    for one in moving:
        for name in disk.list_directory(one.path):
            if (key := partition_of(name)) is not None:
                found.setdefault(key, (one.path, name))
        one.find_futures(moves, ())
    for one in moving:
        for key, name in one.prepared.items():
            found.setdefault(key, (one.path, name))
    return found


@attrs.frozen
class Survivors:
    """What a disk holds of each log."""

    ends: Mapping[TopicPartition, int]
    """Where each log ends."""
    starts: Mapping[TopicPartition, int]
    """Where those logs start that do not start at 0."""
    high_watermarks: Mapping[TopicPartition, int]
    """The high watermarks that are written down beside them, but for 0."""
    noted: int = -1
    """The broker epoch in the notes of a clean stop; -1 where a directory has none, or they differ."""


def survivors(disk: Disk, directories: Sequence[str]) -> Survivors:
    """What the disk holds of each log in these directories."""
    starts: dict[TopicPartition, int] = {}
    high_watermarks: dict[TopicPartition, int] = {}
    logs = _logs(disk, directories)
    for directory in {directory for directory, _ in logs.values()}:
        written = checkpoints.read_offsets(disk, directory, checkpoints.LOG_START_OFFSET_CHECKPOINT)
        known = checkpoints.read_offsets(disk, directory, checkpoints.HIGH_WATERMARK_CHECKPOINT)
        for key in [key for key, (where, _) in logs.items() if where == directory]:
            first = next(iter(_base_offsets(disk, f"{directory}/{logs[key][1]}")), 0)
            starts[key] = max(first, written.get(key, 0))
            high_watermarks[key] = known.get(key, 0)
    ends = surviving_end_offsets(disk, directories)
    return Survivors(ends, _beyond_0(starts), _beyond_0(high_watermarks), _noted(disk, directories))


def _noted(disk: Disk, directories: Sequence[str]) -> int:
    """What the next process will take for the epoch in which the broker stopped cleanly."""
    texts = (checkpoints.read_text(disk, directory, CLEAN_SHUTDOWN) or "" for directory in directories)
    epochs = {checkpoints.decode_clean_shutdown(text) for text in texts}
    return epochs.pop() if len(epochs) == 1 else -1


def _beyond_0(offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    return {key: offset for key, offset in sorted(offsets.items()) if offset}


def _base_offsets(disk: Disk, path: str) -> Sequence[int]:
    """The offsets that a log's segments are named after, in order."""
    return LogNames(disk.list_directory(path)).bases


def _end_offset(disk: Disk, path: str) -> int:
    reached: int | None = None
    for base_offset in _base_offsets(disk, path):
        if reached is not None and base_offset != reached:
            break
        reached = base_offset
        file = disk.open(f"{path}/{file_name(base_offset, LOG_SUFFIX)}")
        try:
            _, reached = _position(file.read(0, file.size), 1 << 62, reached)
        finally:
            file.close()
    return reached or 0
