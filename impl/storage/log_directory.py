"""A broker's log directory: its identity, the checkpoints that concern all partitions, and the partitions' logs.

Theory of operation
-------------------
`meta.properties` says to which cluster and node the directory belongs, so that it cannot be used by another by
mistake. The checkpoints beside it save work or remember what the logs themselves do not say: how far each log has
been synced (the recovery point), where it starts (DeleteRecords), and its high watermark. They are written now and
then and when the broker stops, and may therefore be old at a start: an old high watermark is one that is too low, an
old recovery point only means more to scan. A log that is cut below its checkpointed recovery point takes the
checkpoint down with it first, for after that the point would claim too much.

A broker that stopped cleanly leaves `.kafka_cleanshutdown` behind, and removes it as soon as it starts again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from uuid import UUID

from impl.ports.disk import Disk
from impl.storage import checkpoints
from impl.storage.checkpoints import TopicPartition
from impl.storage.config import LogConfig
from impl.storage.log import DELETED_SUFFIX, Log, remove_directory

CLEAN_SHUTDOWN = ".kafka_cleanshutdown"


class ForeignLogDirectoryError(Exception):
    """The directory belongs to another cluster or node."""


class LogDirectory:
    """The logs under one path. Not for use by several brokers."""

    def __init__(self, disk: Disk, path: str) -> None:
        """Use `open`."""
        self.path = path
        self.logs: dict[TopicPartition, Log] = {}
        self.was_clean = False
        """Whether the broker that used the directory last stopped cleanly."""
        self._disk = disk
        self._recovery_points: dict[TopicPartition, int] = {}
        self._log_start_offsets: dict[TopicPartition, int] = {}

    @classmethod
    def open(cls, disk: Disk, path: str, *, cluster_id: str, node_id: int, directory_id: UUID) -> LogDirectory:
        """The directory at `path`, formatted for this node if it is new; `directory_id` is used only then.

        Raises ForeignLogDirectoryError when it is another cluster's or node's.
        """
        disk.make_directory(path)
        text = checkpoints.read_text(disk, path, checkpoints.META_PROPERTIES)
        if text is None:
            content = checkpoints.encode_meta_properties(cluster_id, node_id, directory_id)
            checkpoints.write_atomically(disk, path, checkpoints.META_PROPERTIES, content)
        else:
            _check_identity(path, checkpoints.decode_meta_properties(text), cluster_id, node_id)
        directory = cls(disk, path)
        directory._recovery_points = checkpoints.read_offsets(disk, path, checkpoints.RECOVERY_POINT_CHECKPOINT)
        directory._log_start_offsets = checkpoints.read_offsets(disk, path, checkpoints.LOG_START_OFFSET_CHECKPOINT)
        marker = f"{path}/{CLEAN_SHUTDOWN}"
        directory.was_clean = disk.exists(marker)
        if directory.was_clean:
            disk.remove(marker)
            disk.sync_directory(path)
        for name in disk.list_directory(path):
            if name.endswith(DELETED_SUFFIX):
                remove_directory(disk, f"{path}/{name}")
        return directory

    def partitions(self) -> list[TopicPartition]:
        """Partitions that have a log here, opened or not, sorted."""
        found = (partition_of(name) for name in self._disk.list_directory(self.path))
        return sorted(partition for partition in found if partition is not None)

    def open_log(self, topic: str, partition: int, config: LogConfig, now_ms: int, topic_id: UUID | None = None) -> Log:
        """The partition's log, recovered if the last broker crashed, created if it is new.

        A directory left by another topic of the same name (its `partition.metadata` has another id) is emptied first.
        """
        key = (topic, partition)
        path = f"{self.path}/{topic}-{partition}"
        if topic_id is not None:
            self._claim(path, key, topic_id)
        log = Log.open(
            self._disk,
            path,
            config,
            now_ms,
            recovery_point=self._recovery_points.get(key, 0),
            log_start_offset=self._log_start_offsets.get(key, 0),
            clean_shutdown=self.was_clean,
            before_recovery_point_falls=lambda offset: self._lower_recovery_point(key, offset),
        )
        self.logs[key] = log
        return log

    def topic_id(self, topic: str, partition: int) -> UUID | None:
        """The id of the topic whose partition lies here, from `partition.metadata`."""
        text = checkpoints.read_text(self._disk, f"{self.path}/{topic}-{partition}", checkpoints.PARTITION_METADATA)
        return None if text is None else checkpoints.decode_partition_metadata(text)

    def _claim(self, path: str, key: TopicPartition, topic_id: UUID) -> None:
        found = self.topic_id(*key)
        if found == topic_id:
            return
        if found is not None:
            remove_directory(self._disk, path)
            self._disk.sync_directory(self.path)
            self._recovery_points.pop(key, None)
            self._log_start_offsets.pop(key, None)
        self._disk.make_directory(path)
        text = checkpoints.encode_partition_metadata(topic_id)
        checkpoints.write_atomically(self._disk, path, checkpoints.PARTITION_METADATA, text)

    def delete_log(self, topic: str, partition: int) -> None:
        """Remove a partition with all its files."""
        key = (topic, partition)
        self.logs.pop(key).delete()
        self._recovery_points.pop(key, None)
        self._log_start_offsets.pop(key, None)
        self.checkpoint()

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """The checkpointed high watermarks; none when the checkpoint is missing or damaged."""
        return checkpoints.read_offsets(self._disk, self.path, checkpoints.HIGH_WATERMARK_CHECKPOINT)

    def checkpoint_high_watermarks(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Replace the checkpointed high watermarks."""
        self._write(checkpoints.HIGH_WATERMARK_CHECKPOINT, offsets)

    def checkpoint(self) -> None:
        """Write the recovery points and log start offsets of the open logs down."""
        for key, log in self.logs.items():
            self._recovery_points[key] = log.flushed_end_offset
            self._log_start_offsets[key] = log.log_start_offset
        self._write(checkpoints.RECOVERY_POINT_CHECKPOINT, self._recovery_points)
        self._write(checkpoints.LOG_START_OFFSET_CHECKPOINT, self._log_start_offsets)

    def _lower_recovery_point(self, key: TopicPartition, offset: int) -> None:
        if self._recovery_points.get(key, 0) > offset:
            self._recovery_points[key] = offset
            self._write(checkpoints.RECOVERY_POINT_CHECKPOINT, self._recovery_points)

    def _write(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        checkpoints.write_atomically(self._disk, self.path, name, checkpoints.encode_offsets(offsets))

    def close(self) -> None:
        """Close all logs, so that the next start has nothing to recover."""
        for log in self.logs.values():
            log.close()
        self.checkpoint()
        self.logs.clear()
        text = json.dumps({"version": 0, "brokerEpoch": -1})
        checkpoints.write_atomically(self._disk, self.path, CLEAN_SHUTDOWN, text)


def partition_of(name: str) -> TopicPartition | None:
    """The topic and partition that a directory is named after; None for other names."""
    topic, dash, number = name.rpartition("-")
    return (topic, int(number)) if dash and topic and number.isascii() and number.isdigit() else None


def _check_identity(path: str, found: Mapping[str, str], cluster_id: str, node_id: int) -> None:
    for name, ours in (("cluster.id", cluster_id), ("node.id", str(node_id))):
        theirs = found.get(name)
        if theirs != ours:
            raise ForeignLogDirectoryError(
                f"{path} belongs to {name}={theirs}, this broker has {name}={ours}: give it a log directory of its own"
            )
