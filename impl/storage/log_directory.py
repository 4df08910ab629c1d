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

A partition's directory is `topic-N`. One that is deleted is renamed first, to `topic-N.<id>-delete`, and removed when
`file.delete.delay.ms` is over or the broker starts again. Where a replica moves between two directories of the broker
(KIP-113) it is `topic-N.<move>-future` in one and `topic-N.<move>-left` in the other, for a while (`moving_logs`). One
that the metadata do not know is renamed to `topic-N.<id>-stray` and kept (`strays`).

The directory does not know when its disk fails: `OSError` goes through, and `log_directories` draws the conclusion.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from uuid import UUID

from tidegauge.impl.ports.disk import Disk, PendingSync
from tidegauge.impl.ports.disk_errors import Extent, extent_of, told
from tidegauge.impl.ports.log_lines import log_event
from tidegauge.impl.storage import checkpoints
from tidegauge.impl.storage.absent_checkpoints import settle_absent
from tidegauge.impl.storage.checkpoints import Checkpoint, TopicPartition
from tidegauge.impl.storage.closing import close_logs
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.identity import Identity, read_identity, write_identity
from tidegauge.impl.storage.log import Log
from tidegauge.impl.storage.log_names import LogNames, names_in
from tidegauge.impl.storage.lost_logs import LostLogs, note_any
from tidegauge.impl.storage.moving_logs import LeftLog, MovingLogs
from tidegauge.impl.storage.offset_notes import OffsetNote, OffsetNotes, read_note
from tidegauge.impl.storage.partition_directory import (
    DELETED_SUFFIX,
    STRAY_SUFFIX,
    name_with_suffix,
    partition_of,
    remove_directory,
)
from tidegauge.impl.storage.segment_names import LOG_SUFFIX, file_name
from tidegauge.impl.storage.strays import BY_ORDER

LOGGER = logging.getLogger(__name__)
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"


class LogDirectory:
    """The logs under one path. Not for use by several brokers."""

    def __init__(self, disk: Disk, path: str, directory_id: UUID) -> None:
        """Use `open`."""
        self.path = path
        self.id = directory_id
        """Told to the controller, so that it knows what is lost with the directory (KIP-858)."""
        self.logs: dict[TopicPartition, Log] = {}
        self.moving = MovingLogs(disk, path)
        """Logs that are to take the place of another directory's, and that have lost theirs."""
        self.was_clean = False
        """Whether the broker that used the directory last stopped cleanly."""
        self.stopped_cleanly_in = -1
        """The broker epoch in which it did; -1 when it did not, had none (it never registered), or is not known."""
        self._is_unsure = True
        """Whether the last broker did not stop cleanly, or nobody can tell what is lost of what it left."""
        self._disk = disk
        self.suspects: dict[TopicPartition, str] = {}
        """Partitions that may lack what was on stable storage when the last process stopped, and why."""
        self.lost = LostLogs(disk, path)
        """Logs that were removed while no broker used the directory, as far as the controller may not know of it."""
        self.check_bytes = 0
        """Of logs that are opened, how many more bytes are read from end to end."""
        self._has_given_up = False
        """Whether a log was given up because it is damaged; the broker then does not stop cleanly."""
        self._recovery_points: dict[TopicPartition, int] = {}
        self._knows_recovery_points = False  # whether a clean stop's checkpoint names every log that was ever open
        self._high_watermarks: dict[TopicPartition, int] = {}
        """As they were checkpointed when the directory was opened."""
        self._log_start_offsets: dict[TopicPartition, int] = {}
        self._knows_log_starts = False
        """Whether the checkpoint has every log start but 0, as a clean stop leaves it."""
        self._cleaned: dict[TopicPartition, int] = {}
        self._notes: OffsetNotes | None = None
        self._doomed: list[tuple[int, str]] = []
        self._in_doubt: set[TopicPartition] = set()
        """Logs that were let go of as they were, and are to be recovered."""
        self._claimed: dict[TopicPartition, UUID] = {}
        """New partitions whose log is yet to be opened -> their topic's id."""
        self._made: set[TopicPartition] = set()
        """Partitions that were made, by this process or a former one, and whose log was never open."""
        self._files = {
            name: Checkpoint(disk, path, name)
            for name in (
                checkpoints.HIGH_WATERMARK_CHECKPOINT,
                checkpoints.RECOVERY_POINT_CHECKPOINT,
                checkpoints.LOG_START_OFFSET_CHECKPOINT,
                checkpoints.CLEANER_OFFSET_CHECKPOINT,
            )
        }

    @classmethod
    def open(cls, disk: Disk, path: str, *, cluster_id: str, node_id: int, directory_id: UUID) -> LogDirectory:
        """The directory at `path`, formatted for this node if it is new; `directory_id` is used only then.

        Raises ForeignLogDirectoryError when it is another cluster's or node's, and DamagedIdentityError.
        """
        identity = read_identity(disk, path, node_id=node_id, cluster_id=cluster_id)
        if identity is None:
            disk.make_directory(path)
            note_any(disk, path)
            identity = Identity(cluster_id, node_id, directory_id)
            write_identity(disk, path, identity)
        return cls._opened(disk, path, identity.directory_id)

    @classmethod
    def _opened(cls, disk: Disk, path: str, directory_id: UUID) -> LogDirectory:
        directory = cls(disk, path, directory_id)
        points = checkpoints.read_known_offsets(disk, path, checkpoints.RECOVERY_POINT_CHECKPOINT)
        directory._recovery_points, directory._knows_recovery_points = points or {}, points is not None
        starts = checkpoints.read_known_offsets(disk, path, checkpoints.LOG_START_OFFSET_CHECKPOINT)
        directory._log_start_offsets, directory._knows_log_starts = starts or {}, starts is not None
        directory._high_watermarks = directory.high_watermarks()
        directory._cleaned = checkpoints.read_offsets(disk, path, checkpoints.CLEANER_OFFSET_CHECKPOINT)
        known = directory._high_watermarks, directory._recovery_points, directory._log_start_offsets, directory._cleaned
        for file, offsets in zip(directory._files.values(), known, strict=True):
            file.on_disk = dict(offsets)
        marker = f"{path}/{CLEAN_SHUTDOWN}"
        directory.was_clean = disk.exists(marker)
        settle_absent(disk, path, was_clean=directory.was_clean, has_logs=bool(directory.partitions()))
        if directory.was_clean:
            directory.stopped_cleanly_in = checkpoints.decode_clean_shutdown(
                checkpoints.read_text(disk, path, CLEAN_SHUTDOWN) or ""
            )
            is_known = bool(directory._recovery_points and directory._knows_log_starts) or not directory.partitions()
            directory._is_unsure = not is_known
            if not is_known:
                directory.stopped_cleanly_in = -1  # a clean stop notes them: nobody can tell what else is lost
            disk.remove(marker)
            disk.sync_directory(path)
        here = set(directory.partitions())
        directory.moving.find_left()
        for name in disk.list_directory(path):
            if name.endswith(DELETED_SUFFIX):
                directory._remove(name)
            key = partition_of(name.rpartition(".")[0]) if name.endswith(DELETED_SUFFIX) else None
            if key is not None and key not in here:
                directory._forget(key)  # without room for a checkpoint, it may still be remembered
        return directory

    def missing(self) -> dict[TopicPartition, int]:
        """Partitions without a directory whose logs had records when they were used last; and how many, at least."""
        here, ends = self.moving.waiting.union(self.partitions()), dict(self._high_watermarks)
        for key, point in self._recovery_points.items():
            ends[key] = max(point, ends.get(key, 0))
        return {key: end for key, end in sorted(ends.items()) if end and key not in here}

    def forget_missing(self, ends: Mapping[TopicPartition, int]) -> None:
        """Note that these logs are gone; what was remembered of them does not count for later ones of their names."""
        if not ends:
            return
        self.lost.note(ends)
        for key in ends:
            self._forget(key)
        self._files[checkpoints.HIGH_WATERMARK_CHECKPOINT].write(self._high_watermarks)
        self.checkpoint()

    def partitions(self) -> list[TopicPartition]:
        """Partitions that have a log here, opened or not, sorted."""
        found = (partition_of(name) for name in self._disk.list_directory(self.path))
        return sorted({partition for partition in found if partition is not None} | self.moving.prepared.keys())

    def open_log(
        self,
        topic: str,
        partition: int,
        config: LogConfig,
        now_ms: int,
        topic_id: UUID | None = None,
        *,
        was_closed: bool = False,
    ) -> Log:
        """The partition's log, recovered if the last broker crashed, created if it is new.

        A directory left by another topic of the same name (its `partition.metadata` has another id) becomes a stray.
        `was_closed`: the log was closed by this very process.
        """
        key = (topic, partition)
        path = f"{self.path}/{topic}-{partition}"
        if key in self.moving.prepared:
            self.moving.adopt(key)
        is_made_here = topic_id is not None and self._claimed.pop(key, None) == topic_id
        if topic_id is not None and not is_made_here:
            self._claim(path, key, topic_id)
        names = LogNames() if is_made_here else names_in(self._disk, path)
        if self._knows_recovery_points and key not in self._recovery_points and names and not names.bases:
            self._made.add(key)  # there was no room to open it
        log = Log.open(
            self._disk,
            path,
            config,
            now_ms,
            recovery_point=self._recovery_points.get(key, 0),
            log_start_offset=self._log_start_offsets.get(key, 0),
            high_watermark=self._high_watermarks.get(key, 0),
            cleaned_offset=self._cleaned.get(key),
            clean_shutdown=(self.was_clean and key not in self._in_doubt | self._made) or was_closed,
            knows_log_start=self._knows_log_starts and not was_closed,
            reads_all=names is not None and bool(self.check_bytes) and not was_closed and self._may_check(path, names),
            names=names,
            before_lowering=lambda offset: self._lower_recovery_point(key, offset),
            note_start=lambda offset: self._write_log_start(key, offset),
        )
        if not log.recovery.lost_nothing:
            self.suspects[key] = str(log.damage.gaps[0]) if log.damage else log.recovery.doubt
        self.logs[key] = log
        self._lower_recovery_point(key, log.log_end_offset)  # the cleaner's mark may be beyond that, too
        self._in_doubt.discard(key)
        self._made.discard(key)
        return log

    def _may_check(self, path: str, names: LogNames) -> bool:
        """Whether a log whose directory has these names is small enough to be read from end to end."""
        size = sum([self._disk.size(f"{path}/{file_name(base, LOG_SUFFIX)}") for base in names.bases])
        if not names.all or size > self.check_bytes:
            return False
        self.check_bytes -= size
        return True

    def topic_id(self, topic: str, partition: int) -> UUID | None:
        """The id of the topic whose partition lies here, from `partition.metadata`; None if that is no help."""
        path = f"{self.path}/{topic}-{partition}"
        text = checkpoints.read_text(self._disk, path, checkpoints.PARTITION_METADATA)
        found = None if text is None else checkpoints.decode_partition_metadata(text)
        names = self._disk.list_directory(path) if found is None and self._disk.exists(path) else ()
        if checkpoints.PARTITION_METADATA in names and len(names) > 1:  # alone it lacked room to be written
            self._tell_damaged_id(path, "it is no topic id")
        return found

    def _tell_damaged_id(self, path: str, why: str) -> None:
        file = f"{path}/{checkpoints.PARTITION_METADATA}"
        log_event(
            LOGGER, logging.ERROR, "topic id rejected", file=file, why=why, next="the id is taken from the metadata"
        )

    def claim(self, topic: str, partition: int, topic_id: UUID) -> PendingSync | None:
        """Make the directory of a new partition, with the topic's id in it; None when there is such a directory.

        The id has to be on stable storage before a record may be, or a crash could leave a log of nobody knows which
        topic; then the directory's name (`sync_names`). The rest is made durable by the log's first flush.

        A checkpoint that remembers a former partition of this name is written without it first.
        """
        key, path = (topic, partition), f"{self.path}/{topic}-{partition}"
        if any(key in one.on_disk for one in self._files.values()) and not self._disk.exists(path):
            self._forget_durably(key)
        if not self._disk.create_directory(path):
            return None
        self._claimed[key] = topic_id
        self._made.add(key)
        file = self._disk.open_apart(f"{path}/{checkpoints.PARTITION_METADATA}", create=True)
        try:
            file.append(checkpoints.encode_partition_metadata(topic_id).encode())
            return file.begin_sync()
        finally:
            file.close()

    def sync_names(self) -> None:
        """Bring the names of new partitions' directories to stable storage; in any thread."""
        self._disk.sync_directory(self.path)

    def _claim(self, path: str, key: TopicPartition, topic_id: UUID) -> None:
        if (sync := self.claim(*key, topic_id)) is not None:
            sync.run()
            self.sync_names()
            del self._claimed[key]  # the log is opened now, and may be deleted and made again
            return
        found = self.topic_id(*key)
        if found == topic_id:
            return
        if found is not None and checkpoints.is_almost(found, topic_id):
            self._tell_damaged_id(
                path, f"it is one of the topic's, {checkpoints.encode_uuid(topic_id)}, that has changed"
            )
        elif found is not None:
            if self.has_records(key):  # the file may be damaged: then others count on what the stray has
                self.suspects[key] = "what lay in its place became a stray"
                self.lost.note({key: 0})
            was, wanted = checkpoints.encode_uuid(found), checkpoints.encode_uuid(topic_id)
            name = self._set_aside(path, key, STRAY_SUFFIX)
            log_event(
                LOGGER,
                logging.WARNING,
                "replica became a stray",
                partition=f"{key[0]}-{key[1]}",
                directory=self.path,
                name=name,
                why=f"it is of the topic with id {was}, not {wanted}",
                next=BY_ORDER,
            )
            self._disk.sync_directory(self.path)
            self._claim(path, key, topic_id)
            return
        text = checkpoints.encode_partition_metadata(topic_id)
        checkpoints.write_atomically(self._disk, path, checkpoints.PARTITION_METADATA, text)

    def give_up(self, key: TopicPartition) -> None:
        """Let go of a log that is damaged, until the directory is opened again; its files stay as they are."""
        log = self.logs.pop(key)
        self._has_given_up = True
        log.damage.write_note()
        log.abandon()

    def let_go(self, key: TopicPartition) -> None:
        """Close a partition's files as they are; it is recovered when it is opened again."""
        if (log := self.logs.pop(key, None)) is not None:
            self._in_doubt.add(key)
            self._note_log_start(key, log)
            with suppress(OSError):
                log.abandon()

    def delete_log(self, topic: str, partition: int, now_ms: int = 0, delay_ms: int = 0) -> None:
        """As `delete_logs`, of one."""
        self.delete_logs([(topic, partition)], now_ms, delay_ms)

    def delete_logs(self, keys: Sequence[TopicPartition], now_ms: int = 0, delay_ms: int = 0) -> None:
        """Take partitions away: their directories get other names now, durably, and are removed `delay_ms` later.

        Without a delay they are removed at once; else `free_deleted` does it. Where a disk fails, what is left is among
        `logs`. Raises OSError.
        """
        for key in keys:
            log = self.logs[key]
            log.abandon()
            try:
                self._doomed.append((now_ms + delay_ms, self._set_aside(log.directory, key, DELETED_SUFFIX)))
            except OSError as error:
                self._tell_left(log.directory, error)
            del self.logs[key]
        self._disk.sync_directory(self.path)
        self.checkpoint()
        if delay_ms <= 0:
            self.free_deleted(now_ms)

    def keep_as_strays(self, keys: Sequence[TopicPartition]) -> list[str]:
        """Give partitions that nobody knows other names, durably, and keep them; returns the names, in that order."""
        names = []
        for key in keys:
            log = self.logs.pop(key)
            log.abandon()
            names.append(self._set_aside(log.directory, key, STRAY_SUFFIX))
        self._disk.sync_directory(self.path)
        self.checkpoint()
        return names

    def has_records(self, key: TopicPartition) -> bool:
        """Whether there is anything in a log that is not open."""
        path = f"{self.path}/{key[0]}-{key[1]}"
        names = [name for name in self._disk.list_directory(path) if name.endswith(LOG_SUFFIX)]
        return any(self._disk.size(f"{path}/{name}") for name in names)

    def keep_former(self, key: TopicPartition) -> str:
        """Give a partition whose log is not open another name, durably, and keep it; returns the name."""
        name = self._set_aside(f"{self.path}/{key[0]}-{key[1]}", key, STRAY_SUFFIX)
        self._disk.sync_directory(self.path)
        self.checkpoint()
        return name

    def _set_aside(self, path: str, key: TopicPartition, suffix: str) -> str:
        """Give a partition's directory another name, which is returned, and forget the partition."""
        self._forget(key)
        name = self._unused_name(key, suffix)
        self._disk.rename(path, f"{self.path}/{name}")
        return name

    def _forget(self, key: TopicPartition) -> None:
        for offsets in (self._recovery_points, self._log_start_offsets, self._high_watermarks, self._cleaned):
            offsets.pop(key, None)
        self._made.discard(key)

    def _unused_name(self, key: TopicPartition, suffix: str) -> str:
        """`topic-N.<32 hex digits><suffix>` for a directory on its way, as no other is called."""
        topic_id = self.topic_id(*key)
        number = 0 if topic_id is None else topic_id.int
        while self._disk.exists(f"{self.path}/{(name := name_with_suffix(*key, number, suffix))}"):
            number = (number + 1) % (1 << 128)
        return name

    def free_deleted(self, now_ms: int) -> int:
        """Remove the directories of deleted partitions whose time is over, by `Clock.steady_ms`; returns how many."""
        due = [name for free_ms, name in self._doomed if free_ms <= now_ms]
        self._doomed = [(free_ms, name) for free_ms, name in self._doomed if free_ms > now_ms]
        for name in due:
            self._remove(name)
        return len(due)

    def _remove(self, name: str) -> None:
        """Remove a directory that is not in use; one that cannot be removed is left, and told. Raises OSError."""
        try:
            remove_directory(self._disk, f"{self.path}/{name}")
        except OSError as error:
            self._tell_left(f"{self.path}/{name}", error)

    def _tell_left(self, path: str, error: OSError) -> None:
        """Of a directory that cannot be removed. Raises the error if it is the disk's."""
        if extent_of(error) is Extent.DISK:
            raise error
        log_event(
            LOGGER,
            logging.WARNING,
            "directory cannot be removed",
            directory=path,
            why=told(error),
            next="it is tried again when the broker starts",
        )

    # Moves from and to other directories of the broker

    def settle_futures(self, successors: Collection[int], *, may_drop: bool) -> None:
        """At a start: adopt the future logs of these moves, and drop the others. Raises OSError."""
        others = self.moving.find_futures(successors, [*self._recovery_points])
        for name, keys in others.items() if may_drop else ():
            for key in keys:
                self._forget_durably(key)
            self._remove(name)
        self.moving.waiting = set() if may_drop else {key for keys in others.values() for key in keys}
        for key in list(self.moving.prepared):
            self.moving.adopt(key)

    def prepare_future(self, key: TopicPartition, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """All of a future log, and what the checkpoints have to say of it, is on stable storage. Raises OSError.

        `high_watermarks` are those of all logs here, and of this one.
        """
        future = self.moving.futures[key]
        start, end = future.log_start_offset, self.moving.close_future(key)
        self._recovery_points[key], self._log_start_offsets[key] = end, start
        self._high_watermarks[key] = high_watermarks[key]
        self._cleaned.pop(key, None)
        self.checkpoint()  # a crash from here on finds no record that was deleted on the way
        self._files[checkpoints.HIGH_WATERMARK_CHECKPOINT].write(high_watermarks)

    def drop_future(self, key: TopicPartition) -> None:
        """Give a move up. Raises OSError."""
        try:
            if key in self.moving.prepared:
                self._forget_durably(key)
        finally:
            self.moving.drop(key)

    def settle_left(self, key: TopicPartition) -> None:
        """After `MovingLogs.leave`: the replica is another directory's from here on. Raises OSError."""
        self._disk.sync_directory(self.path)
        log = self.logs.pop(key)
        with suppress(OSError):
            log.abandon()
        self._forget(key)

    def free_left(self, left: LeftLog, now_ms: int, delay_ms: int) -> None:
        """What was left is needed no more: it is removed like a log that is deleted. Raises OSError."""
        self._doomed.append((now_ms + delay_ms, self.moving.rename_left(left, DELETED_SUFFIX)))
        self.checkpoint()
        if delay_ms <= 0:
            self.free_deleted(now_ms)

    def _forget_durably(self, key: TopicPartition) -> None:
        self._forget(key)
        for checkpoint in self._files.values():
            checkpoint.forget(key)

    # Checkpoints

    def read_note(self, name: str) -> OffsetNote | None:
        """The highest note of a log's offset in a file of this directory. Raises OSError."""
        return read_note(self._disk, self.path, name)

    def notes(self, name: str) -> OffsetNotes:
        """Such a file, to be written; it is closed with the logs."""
        self._notes = OffsetNotes(self._disk, self.path, name)
        return self._notes

    def cleaned_offset(self, topic: str, partition: int) -> int | None:
        """Up to where the cleaner has compacted a log; None when it never has."""
        return self._cleaned.get((topic, partition))

    def checkpoint_cleaned(self, topic: str, partition: int, offset: int) -> None:
        """Note how far a log is compacted."""
        self._cleaned[topic, partition] = offset
        self._files[checkpoints.CLEANER_OFFSET_CHECKPOINT].write(self._cleaned)

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """The checkpointed high watermarks; none when the checkpoint is missing or damaged."""
        return checkpoints.read_offsets(self._disk, self.path, checkpoints.HIGH_WATERMARK_CHECKPOINT)

    def begin_checkpoint_high_watermarks(self, offsets: Mapping[TopicPartition, int]) -> Callable[[], None]:
        """What replaces the checkpointed high watermarks, in any thread."""
        waiting = {key: self._high_watermarks[key] for key in self.moving.waiting if key in self._high_watermarks}
        return self._files[checkpoints.HIGH_WATERMARK_CHECKPOINT].begin_write({**waiting, **offsets})

    def checkpoint(self) -> None:
        """Write the recovery points and log start offsets of the open logs down, and forget logs that are gone."""
        self.begin_checkpoint()()

    def begin_checkpoint(self, *, is_last: bool = False) -> Callable[[], None]:
        """What does `checkpoint`, in any thread; the last one of a clean stop has log starts that files say, too."""
        for key, log in self.logs.items():
            self._recovery_points[key] = log.flushed_end_offset
            self._note_log_start(key, log)
            if is_last and log.log_start_offset:
                self._log_start_offsets[key] = log.log_start_offset
        files, cleaned = self._files, self._files[checkpoints.CLEANER_OFFSET_CHECKPOINT]
        writes = [
            files[checkpoints.RECOVERY_POINT_CHECKPOINT].begin_write(self._recovery_points),
            files[checkpoints.LOG_START_OFFSET_CHECKPOINT].begin_write(self._log_start_offsets),
        ]
        if cleaned.on_disk != self._cleaned:
            writes.append(cleaned.begin_write(self._cleaned))

        def write() -> None:
            for each in writes:
                each()

        return write

    def checkpoint_log_starts(self) -> None:
        """Make every log start durable that is not. Raises OSError."""
        starts = {key: log.log_start_offset for key, log in self.logs.items() if not log.log_start_is_durable}
        for key, offset in starts.items():
            self.logs[key].prepare_log_start(offset)
        self.write_log_starts(starts)

    def write_log_starts(self, starts: Mapping[TopicPartition, int]) -> None:
        """Write down where these logs start, or are about to, each after `Log.prepare_log_start`. Raises OSError.

        As Kafka's, the checkpoint has a log only if it starts inside a segment, as all of these do.
        """
        if not starts:
            return
        self._files[checkpoints.LOG_START_OFFSET_CHECKPOINT].write({**self._log_start_offsets, **starts})
        self._log_start_offsets.update(starts)
        for key, offset in starts.items():
            self.logs[key].record_log_start_written(offset)

    def _note_log_start(self, key: TopicPartition, log: Log) -> None:
        if log.log_start_is_implied:
            self._log_start_offsets.pop(key, None)
        elif log.log_start_offset <= log.flushed_end_offset and log.epochs_are_synced:
            self._log_start_offsets[key] = log.log_start_offset

    def _write_log_start(self, key: TopicPartition, offset: int) -> None:
        if self._log_start_offsets.get(key, 0) != offset:
            self._log_start_offsets[key] = offset
            self._files[checkpoints.LOG_START_OFFSET_CHECKPOINT].write(self._log_start_offsets)

    def _lower_recovery_point(self, key: TopicPartition, offset: int) -> None:
        if self._log_start_offsets.get(key, 0) > offset:  # a log that starts anew below does not start where it did
            self._write_log_start(key, offset)
        if self._recovery_points.get(key, 0) > offset:
            self._recovery_points[key] = offset
            self._files[checkpoints.RECOVERY_POINT_CHECKPOINT].write(self._recovery_points)
        if self._cleaned.get(key, 0) > offset:  # what is appended there from now on is dirty, and not flushed
            self.checkpoint_cleaned(*key, offset)

    def close(self, broker_epoch: int = -1) -> None:
        """Close all logs, so that the next start has nothing to recover, and knows that they were closed."""
        for key in list(self.moving.futures):
            self.drop_future(key)
        for key in close_logs(self._disk, self.logs):
            self.let_go(key)
        self.begin_checkpoint(is_last=True)()
        if self._is_unsure:  # what this process has not opened is as the last one left it
            self._in_doubt.update(set(self.partitions()) - self.logs.keys() - self._claimed.keys())
        self.logs.clear()
        for _, name in self._doomed:
            self._remove(name)
        self._doomed.clear()
        if self._notes is not None:
            self._notes.sync()
            self._notes.close()
        if self._in_doubt:
            return  # what was let go of as it was, the next process has to recover
        text = json.dumps({"version": 0, "brokerEpoch": -1 if self._has_given_up else broker_epoch})
        checkpoints.write_atomically(self._disk, self.path, CLEAN_SHUTDOWN, text)

    def abandon(self) -> None:
        """Let go of all files as they are; a disk that fails to close one says nothing that is not known."""
        for log in (*self.logs.values(), *self.moving.futures.values()):
            with suppress(OSError):
                log.abandon()
        if self._notes is not None:
            with suppress(OSError):
                self._notes.close()
