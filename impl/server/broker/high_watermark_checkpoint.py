"""The high watermarks on disk, from which a restarted broker begins.

A checkpoint is written in two halves, so that the disk's work may be done in any thread: `begin` says what to write,
`finish` notes that it is written.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from uuid import UUID

import attrs

from tidegauge.impl.server.broker.partition import TopicPartition
from tidegauge.impl.storage.log_directories import CheckpointWrite, LogDirectories
from tidegauge.impl.storage.log_directory import LogDirectory


@attrs.define(eq=False, repr=False)
class PendingCheckpoint:
    """High watermarks that are to be written, and those that were on disk before."""

    before: Mapping[TopicPartition, int]
    offsets: Mapping[TopicPartition, int]
    writes: list[CheckpointWrite]


class HighWatermarkCheckpoint:
    """The checkpoint of one broker, in all of its log directories."""

    def __init__(self, directories: LogDirectories) -> None:
        self._directories = directories
        self._offsets: Mapping[TopicPartition, int] = directories.high_watermarks()
        self._is_behind = False
        """Whether a disk without room has not taken the last one."""

    @property
    def offsets(self) -> Mapping[TopicPartition, int]:
        """What is on disk, but for partitions that have gone while it was full."""
        return self._offsets

    def forget(self, keys: Collection[TopicPartition]) -> None:
        """Remove partitions that are deleted: a later log of the same name must not begin from their offsets."""
        self._offsets = {key: offset for key, offset in self._offsets.items() if key not in keys}
        self._write()

    def forget_offline(self, keys: Collection[TopicPartition]) -> None:
        """The same of those that were offline and have been taken away, if anything is written of them."""
        if any(key in self._offsets for key in keys):
            self.forget(keys)

    def find(self, key: TopicPartition, directory: LogDirectory) -> None:
        """The partition's log turns out to be in a directory; its high watermark is the one that is written there."""
        self._offsets = {**self._offsets, key: directory.high_watermarks().get(key, 0)}

    def prepare_move(self, key: TopicPartition, target: LogDirectory, high_watermark: int) -> dict[TopicPartition, int]:
        """What a directory's checkpoint has to hold before a partition's log comes there."""
        there = {one: offset for one, offset in self._offsets.items() if self._directories.where(*one) is target}
        return {**there, key: high_watermark}

    def move(self, key: TopicPartition, target: LogDirectory, high_watermark: int) -> None:
        """The partition's log is in another directory now, which has this high watermark written down."""
        self._directories.moved(*key, target)
        self._offsets = {**self._offsets, key: high_watermark}  # a pending checkpoint is not what is on disk any more
        self._write()

    def _write(self) -> None:
        """Here and now; without room, with the next checkpoint."""
        writes = self._directories.begin_checkpoint_high_watermarks(self._offsets)
        self._directories.finish_checkpoint(write() for write in writes)
        self._is_behind = any(write.error is not None for write in writes)

    def begin(self, current: Mapping[TopicPartition, int]) -> PendingCheckpoint | None:
        """What has to be written; None when the disk has it all."""
        on_disk = self._offsets
        if not self._is_behind and (
            current == on_disk or all(on_disk.get(key, 0) == offset for key, offset in current.items())
        ):
            return None
        writes = self._directories.begin_checkpoint_high_watermarks(current)
        return PendingCheckpoint(self._offsets, current, writes)

    def finish(self, checkpoint: PendingCheckpoint) -> set[TopicPartition]:
        """Note what is written, or that a disk has failed; returns the partitions whose offsets have changed.

        A directory without room still has its former checkpoint, and gets the next one.
        """
        self._directories.finish_checkpoint(checkpoint.writes)
        if self._offsets is not checkpoint.before:
            return set()  # partitions have gone meanwhile, and `forget` has written a checkpoint without them
        before, written = checkpoint.before, checkpoint.offsets
        self._is_behind = any(write.error is not None for write in checkpoint.writes)
        if full := {write.directory.id for write in checkpoint.writes if write.error is not None}:
            written = {key: before.get(key, 0) if self._is_in(full, key) else offset for key, offset in written.items()}
        self._offsets = written
        return {key for key, offset in written.items() if before.get(key, 0) != offset}

    def written(self, topic: str, partition: int) -> int:
        """What the disk has of a partition."""
        return self._offsets.get((topic, partition), 0)

    def _is_in(self, directories: Collection[UUID], key: TopicPartition) -> bool:
        where = self._directories.where(*key)
        return where is not None and where.id in directories
