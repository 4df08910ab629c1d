"""All log directories of one broker (`log.dirs`): where a partition's log is, and the failure of one of them.

Theory of operation
-------------------
Each directory is a disk of its own as far as a broker can tell: with its own `meta.properties`, checkpoints and lock.
A new replica goes to the directory with the fewest partitions (its size is not looked at); a replica that has a log
stays where that is. A replica that has two logs is nowhere until the metadata say which one counts (`former_logs`).

A directory whose disk raises an `OSError`, whatever the operation, is *offline* from then on, until the broker starts
again: nobody knows what of it is on stable storage, so nothing is read or written there any more (KIP-112). That does
not hold for want of room, which passes, and for names that cannot be used (`disk_errors`). The others go on. Operations
on all directories therefore raise nothing: they take those that fail offline, and call `on_failure` once for each. The
caller of an operation on one log sees its OSError, and says so with `bounded`.

The lock keeps a second process out. It goes with the process that holds it, so that a crash leaves nothing to clear.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final
from uuid import UUID

import attrs

from tidegauge.impl.ports.disk import Disk, DiskLock, DiskLockedError, PendingSync
from tidegauge.impl.ports.disk_errors import Extent, extent_of, told
from tidegauge.impl.ports.log_lines import log_event
from tidegauge.impl.ports.repeated_lines import RepeatedLines
from tidegauge.impl.storage.checkpoints import TopicPartition
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.identity import DamagedIdentityError, read_identity, refuse_mixture
from tidegauge.impl.storage.log import Log
from tidegauge.impl.storage.log_directory import LogDirectory
from tidegauge.impl.storage.moving_logs import successors
from tidegauge.impl.storage.partition_directory import STRAY_SUFFIX
from tidegauge.impl.storage.strays import BY_ORDER, strays

LOGGER: Final = logging.getLogger(__name__)

LOCK = ".lock"


class LogDirectoryLockedError(Exception):
    """Another process uses the directory."""


class NoLogDirectoryError(Exception):
    """None of the broker's log directories can be used."""


@attrs.define(eq=False, repr=False)
class CheckpointWrite:
    """A checkpoint of one directory that is to be written, and what its disk said then."""

    directory: LogDirectory
    _write: Callable[[], None]
    error: OSError | None = None

    def __call__(self) -> CheckpointWrite:
        try:
            self._write()
        except OSError as error:
            self.error = error
        return self


class LogDirectories:
    """The log directories of one broker."""

    def __init__(self, disk: Disk) -> None:
        """Use `open`."""
        self.online: list[LogDirectory] = []
        """In the order of `log.dirs`."""
        self.offline: dict[str, OSError | DamagedIdentityError] = {}
        """Path -> why."""
        self.offline_ids: list[UUID] = []
        """Of the directories that failed since they were opened."""
        self.on_failure: Callable[[LogDirectory, OSError], None] = lambda directory, error: None
        self._disk = disk
        self._locks: list[DiskLock] = []
        self._where: dict[TopicPartition, LogDirectory] = {}
        self.doubles: dict[TopicPartition, list[LogDirectory]] = {}
        """Partitions with logs in several directories, of which none is open."""
        self._lines = RepeatedLines()
        self.missing: list[TopicPartition] = []
        """Partitions that had records on stable storage, and no directory when these were opened."""
        self._counts: Counter[UUID] = Counter()
        """Directory -> partitions in it."""

    @classmethod
    def open(
        cls,
        disk: Disk,
        paths: Sequence[str],
        *,
        cluster_id: str,
        node_id: int,
        new_id: Callable[[], UUID],
        check_bytes: int = 0,
    ) -> LogDirectories:
        """The directories at these paths, each formatted if it is new; `new_id` draws its id then.

        `check_bytes`: up to how many bytes of logs each directory reads from end to end when they are opened.

        A directory that cannot be read, or of which nobody can tell whose it is, is offline. Raises
        LogDirectoryLockedError, ForeignLogDirectoryError, or NoLogDirectoryError when none is left; nothing in a
        directory has been changed then, but its lock.
        """
        directories = cls(disk)
        try:
            directories._look_at(paths, cluster_id, node_id)
            for path in paths:
                if path not in directories.offline:
                    directories._open_one(path, cluster_id, node_id, new_id())
            directories._settle_moves()
            for directory in list(directories.online):
                with directories._guarded(directory):
                    directories._place_all(directory)
            directories._keep_what_was_left()
            directories._find_missing()
            for directory in directories.online:
                directory.check_bytes = check_bytes
            directories.require_one()
        except BaseException:
            directories._unlock()
            raise
        return directories

    def require_one(self) -> None:
        """Raise NoLogDirectoryError when every directory is offline."""
        if not self.online:
            raise _none_left(self.offline)

    def _look_at(self, paths: Sequence[str], cluster_id: str, node_id: int) -> None:
        """Lock every directory, and find out whose it is, before anything in one is changed."""
        found = []
        for path in paths:
            try:
                self._locks.append(lock_directory(self._disk, path, "broker"))
                identity = read_identity(self._disk, path, node_id=node_id, cluster_id=cluster_id)
            except (OSError, DamagedIdentityError) as error:
                self.offline[path] = error
                continue
            if identity is not None:
                found.append((path, identity))
        refuse_mixture(found)
        if self.offline and len(self.offline) == len(paths):
            raise _none_left(self.offline)
        for path, reason in self.offline.items():
            _tell_offline(path, reason)

    def _open_one(self, path: str, cluster_id: str, node_id: int, directory_id: UUID) -> None:
        try:
            directory = LogDirectory.open(
                self._disk, path, cluster_id=cluster_id, node_id=node_id, directory_id=directory_id
            )
        except OSError as error:
            self.offline[path] = error
            _tell_offline(path, told(error))
        else:
            self.online.append(directory)
            if kept := len(strays(self._disk, path)):
                log_event(LOGGER, logging.WARNING, "strays kept", directory=path, strays=kept, next=BY_ORDER)

    def _settle_moves(self) -> None:
        """Adopt the future logs whose move was begun at its source; drop the others, if no source is offline."""
        moves = successors(directory.moving.left for directory in self.online)
        for directory in list(self.online):
            with self._guarded(directory):
                directory.settle_futures(moves, may_drop=not self.offline)

    def _place_all(self, directory: LogDirectory) -> None:
        for key in directory.partitions():
            if (first := self._where.get(key)) is not None:
                self._place(key, None)
                self.doubles[key] = [first]
            if key in self.doubles:
                self.doubles[key].append(directory)
            else:
                self._place(key, directory)

    def _keep_what_was_left(self) -> None:
        """What nobody has moved on from becomes a stray: its successor was removed."""
        here = [*self._where, *self.doubles]
        for directory in list(self.online) if not self.offline else ():
            for left in list(directory.moving.left):
                if any(left.is_of(key, self.topic_id(*key)) for key in here):
                    continue
                with self._guarded(directory):
                    name = directory.moving.rename_left(left, STRAY_SUFFIX)
                    log_event(
                        LOGGER,
                        logging.WARNING,
                        "replica became a stray",
                        partition=left.name.rpartition(".")[0],
                        directory=directory.path,
                        name=name,
                        why="it has moved to another directory, and is in none",
                        next=BY_ORDER,
                    )

    def may_have_moved(self, topic: str, partition: int, topic_id: UUID) -> bool:
        """Whether a partition that is nowhere may have moved to a directory that is offline."""
        key = (topic, partition)
        is_left = (left.is_of(key, topic_id) for directory in self.online for left in directory.moving.left)
        return bool(self.offline) and any(is_left)

    def free_left(self, key: TopicPartition, topic_id: UUID | None, now_ms: int, delay_ms: int) -> None:
        """What a partition has left is needed no more: the controller knows where it is, or it is deleted."""
        for directory in list(self.online):
            for left in list(directory.moving.left):
                if left.is_of(key, topic_id):
                    with self._guarded(directory):
                        directory.free_left(left, now_ms, delay_ms)

    def _find_missing(self) -> None:
        """Tell of partitions that are in no directory any more, though the checkpoint of one has them."""
        for directory in list(self.online):
            here = self._where.keys() | self.doubles.keys()
            left = directory.moving.left
            gone = {
                key: end
                for key, end in directory.missing().items()
                if key not in here and not any(one.is_of(key, None) for one in left)
            }
            with self._guarded(directory):
                directory.forget_missing(gone)
            for key in gone:
                self.missing.append(key)
                directory.suspects[key] = "its directory is missing"
                log_event(
                    LOGGER,
                    logging.ERROR,
                    "partition directory missing",
                    partition=f"{key[0]}-{key[1]}",
                    directory=directory.path,
                    next="the replica is fetched from its leader; without another replica its records are gone",
                )

    def may_have_lost(self, topic: str, partition: int) -> bool:
        """Whether the partition's log may have been removed before this process: its records say nothing of that."""
        key, where = (topic, partition), self.where(topic, partition)
        if any(directory.lost.names(key) for directory in self.online):
            return True
        return where is not None and where.lost.may_be_any

    def settle_losses(self) -> None:
        """The controller has been told what was lost."""
        for directory in list(self.online):
            with self._guarded(directory):
                directory.lost.settle()

    @property
    def paths(self) -> list[str]:
        """Of all directories, the offline ones last."""
        return [*(directory.path for directory in self.online), *self.offline]

    @property
    def was_clean(self) -> bool:
        """Whether every directory was closed by the broker that used it last."""
        return all(directory.was_clean for directory in self.online)

    @property
    def stopped_cleanly_in(self) -> int:
        """The broker epoch in which every directory was closed; -1 when one was not, or they differ.

        It is -1 too when a log may have lost records since: the broker then is as one that crashed (KIP-966).
        """
        if any(directory.suspects for directory in self.online):
            return -1
        epochs = {directory.stopped_cleanly_in for directory in self.online}
        return epochs.pop() if len(epochs) == 1 and not self.offline else -1

    def where(self, topic: str, partition: int) -> LogDirectory | None:
        """The directory that has a partition's log; None when none that is online has."""
        found = self._where.get((topic, partition))
        return found if found in self.online else None

    def at(self, path: str) -> LogDirectory | None:
        """The directory at a path, if it is online."""
        return next((directory for directory in self.online if directory.path == path), None)

    def partitions(self) -> list[TopicPartition]:
        """Partitions that have a log, opened or not, sorted."""
        return sorted(key for key, directory in self._where.items() if directory in self.online)

    def emptiest(self) -> LogDirectory:
        """Where a new replica goes. Raises NoLogDirectoryError when every directory is offline."""
        if not self.online:
            raise NoLogDirectoryError("every log directory is offline")
        return min(self.online, key=lambda directory: self._counts[directory.id])

    def _place(self, key: TopicPartition, directory: LogDirectory | None) -> None:
        """A partition's log is here now; None: nowhere."""
        if (before := self._where.pop(key, None)) is not None:
            self._counts[before.id] -= 1
        if directory is not None:
            self._where[key] = directory
            self._counts[directory.id] += 1

    def claim(self, topic: str, partition: int, topic_id: UUID, *, into: str | None = None) -> PendingSync | None:
        """Make a place for a partition that is new here: in the directory at `into`, else in the emptiest.

        What is returned has to be done before `open_log`; None when there is nothing to do. Raises OSError, and the
        directory is offline then if its disk fails, or NoLogDirectoryError.
        """
        if self.where(topic, partition) is not None:
            return None
        directory = self._for_new(into)
        try:
            if any(one.lost.may_be_any for one in self.online):
                directory.lost.note({(topic, partition): 0})
            sync = directory.claim(topic, partition, topic_id)
        except OSError as error:
            self.bounded((topic, partition), directory, error)
            raise
        self._place((topic, partition), directory)
        return sync

    def _for_new(self, into: str | None) -> LogDirectory:
        return (self.at(into) if into is not None else None) or self.emptiest()

    def open_log(
        self,
        topic: str,
        partition: int,
        config: LogConfig,
        now_ms: int,
        topic_id: UUID | None = None,
        *,
        into: str | None = None,
    ) -> Log:
        """The partition's log, where it is, or a new one: in the directory at `into`, else in the emptiest.

        Raises OSError; the directory is offline then if its disk fails.
        """
        directory = self.where(topic, partition)
        if directory is None:
            directory = self._for_new(into)
        try:
            log = directory.open_log(topic, partition, config, now_ms, topic_id)
        except OSError as error:
            self.bounded((topic, partition), directory, error)
            raise
        self._place((topic, partition), directory)
        return log

    def topic_id(self, topic: str, partition: int) -> UUID | None:
        """The id of the topic whose partition has a log here; None when that cannot be told."""
        directory = self.where(topic, partition)
        if directory is None:
            return None
        try:
            return directory.topic_id(topic, partition)
        except OSError as error:
            self.bounded((topic, partition), directory, error)
            return None

    def delete_log(self, topic: str, partition: int, now_ms: int = 0, delay_ms: int = 0) -> None:
        """Take a partition away; its files are removed `delay_ms` later, by `free_deleted`."""
        self.delete_logs([(topic, partition)], now_ms, delay_ms)

    def delete_logs(self, keys: Sequence[TopicPartition], now_ms: int = 0, delay_ms: int = 0) -> list[TopicPartition]:
        """Take partitions away, those of a directory in one go; returns those that a disk has kept, which failed."""
        left: list[TopicPartition] = []
        for key in keys:
            if any(left.is_of(key, None) for directory in self.online for left in directory.moving.left):
                self.free_left(key, self.topic_id(*key), now_ms, delay_ms)
        for directory, mine in self._taken_away(keys):
            with self._guarded(directory):
                directory.delete_logs(mine, now_ms, delay_ms)
            left += [key for key in mine if key in directory.logs]
        return left

    def _taken_away(self, keys: Iterable[TopicPartition]) -> list[tuple[LogDirectory, list[TopicPartition]]]:
        """Forget where these partitions are; returns those of each directory that is online."""
        found: dict[UUID, list[TopicPartition]] = {}
        for key in keys:
            if (directory := self._where.get(key)) is not None:
                found.setdefault(directory.id, []).append(key)
            self._place(key, None)
        return [(directory, found[directory.id]) for directory in self.online if directory.id in found]

    def keep_as_strays(self, keys: Iterable[TopicPartition]) -> None:
        """Give partitions that the metadata do not know other names, and keep them."""
        for directory, mine in self._taken_away(keys):
            with self._guarded(directory):
                for (topic, partition), name in zip(mine, directory.keep_as_strays(mine), strict=True):
                    log_event(
                        LOGGER,
                        logging.WARNING,
                        "replica became a stray",
                        partition=f"{topic}-{partition}",
                        directory=directory.path,
                        name=name,
                        why="the metadata do not know it",
                        next=BY_ORDER,
                    )

    def logs_found(self, key: TopicPartition, topic_id: UUID) -> dict[UUID, bool]:
        """The directories with a log of a partition in `doubles`, and whether it has records; not another topic's."""
        found: dict[UUID, bool] = {}
        for directory in self.doubles[key]:
            with self._guarded(directory):
                if directory in self.online and directory.topic_id(*key) in (None, topic_id):
                    found[directory.id] = directory.has_records(key)
        return found

    def settle_double(self, key: TopicPartition, directory_id: UUID | None, why: str) -> None:
        """One of a partition's logs counts, or none; the others are kept as strays."""
        for directory in self.doubles.pop(key):
            if directory not in self.online:
                continue
            if directory.id == directory_id:
                self._place(key, directory)
                continue
            with self._guarded(directory):
                name = directory.keep_former(key)
                log_event(
                    LOGGER,
                    logging.WARNING,
                    "replica became a stray",
                    partition=f"{key[0]}-{key[1]}",
                    directory=directory.path,
                    name=name,
                    why=why,
                    next=BY_ORDER,
                )

    def free_deleted(self, now_ms: int) -> None:
        """Remove what was deleted long enough ago."""
        for directory in list(self.online):
            with self._guarded(directory):
                directory.free_deleted(now_ms)

    def moved(self, topic: str, partition: int, target: LogDirectory) -> None:
        """The partition's log is in `target` now."""
        self._place((topic, partition), target)

    # Checkpoints

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """The checkpointed high watermarks of all directories."""
        found: dict[TopicPartition, int] = {}
        for directory in list(self.online):
            with self._guarded(directory):
                mine = directory.high_watermarks()
                found.update((key, offset) for key, offset in mine.items() if self._where.get(key) is directory)
        return found

    def begin_checkpoint_high_watermarks(self, offsets: Mapping[TopicPartition, int]) -> list[CheckpointWrite]:
        """What replaces the checkpointed high watermarks, in each directory those of its logs.

        Each in any thread, before `finish_checkpoint`.
        """
        mine: dict[UUID, dict[TopicPartition, int]] = {directory.id: {} for directory in self.online}
        for key, offset in offsets.items():
            if (where := self._where.get(key)) is not None and where.id in mine:
                mine[where.id][key] = offset
        return [
            CheckpointWrite(directory, directory.begin_checkpoint_high_watermarks(mine[directory.id]))
            for directory in self.online
        ]

    def checkpoint(self) -> None:
        """Write recovery points and log start offsets down."""
        self.finish_checkpoint(write() for write in self.begin_checkpoint())

    def begin_checkpoint(self) -> list[CheckpointWrite]:
        """What does so, one for each directory and each in any thread, before `finish_checkpoint`."""
        return [CheckpointWrite(directory, directory.begin_checkpoint()) for directory in self.online]

    def finish_checkpoint(self, written: Iterable[CheckpointWrite]) -> None:
        """Take those directories offline whose disk did not take their checkpoint."""
        for write in list(written):
            if write.error is not None:
                self.fail(write.directory, write.error)

    def write_log_starts(self, starts: Mapping[TopicPartition, int]) -> None:
        """Write down where these logs start, or are about to; a disk without room does not take it."""
        for directory in list(self.online):
            mine = {key: offset for key, offset in starts.items() if self._where.get(key) is directory}
            with self._guarded(directory):
                directory.write_log_starts(mine)

    # The end

    def close(self, broker_epoch: int = -1) -> None:
        """Close all logs, so that the next start has nothing to recover, and knows who has stopped (KIP-966)."""
        for directory in list(self.online):
            with self._guarded(directory):
                directory.close(broker_epoch)
        self._unlock()

    def abandon(self) -> None:
        """Let go of all files as they are, and of the locks, as a process does that is killed."""
        for directory in self.online:
            directory.abandon()
        self._unlock()

    def _unlock(self) -> None:
        for lock in self._locks:
            with suppress(OSError):
                lock.release()
        self._locks.clear()

    # Failing

    def fail(self, directory: LogDirectory, error: OSError) -> None:
        """Take a directory offline, if it is not; its logs are let go of. Not for want of room, which passes."""
        if directory not in self.online:
            return
        if extent_of(error) is Extent.PASSING:
            self._without_room(directory, error)
            return
        _tell_offline(directory.path, told(error))
        self.online.remove(directory)
        self.offline[directory.path] = error
        self.offline_ids.append(directory.id)
        directory.abandon()
        self.on_failure(directory, error)

    def bounded(self, key: TopicPartition, directory: LogDirectory, error: OSError) -> bool:
        """Whether an error of one partition concerns nothing but it, or the moment; else its directory is offline."""
        if extent_of(error) is Extent.DISK:
            self.fail(directory, error)
            return False
        if extent_of(error) is Extent.PASSING:
            self._without_room(directory, error)
        elif directory in self.online:
            self._lines.log_event(
                LOGGER,
                logging.ERROR,
                "partition cannot be used",
                partition=f"{key[0]}-{key[1]}",
                directory=directory.path,
                why=told(error),
                next="its replica is offline, all else serves: mend what the error names, and restart the broker",
            )
        return True

    def _without_room(self, directory: LogDirectory, error: OSError) -> None:
        self._lines.log_event(
            LOGGER,
            logging.WARNING,
            "no room",
            directory=directory.path,
            why=told(error),
            next="it is tried again: free space, or give the process more descriptors",
        )

    @contextmanager
    def _guarded(self, directory: LogDirectory) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.fail(directory, error)


def lock_directory(disk: Disk, path: str, role: str) -> DiskLock:
    """Lock a directory for a node of this role; made if it is missing. Raises LogDirectoryLockedError, OSError."""
    disk.make_directory(path)
    try:
        return disk.lock(f"{path}/{LOCK}")
    except DiskLockedError:
        raise LogDirectoryLockedError(
            f"{path} is used by another {role} (its {LOCK} is locked): stop that one, or give this one a directory of "
            "its own with log.dirs or --data"
        ) from None


def _tell_offline(path: str, why: object) -> None:
    log_event(
        LOGGER,
        logging.ERROR,
        "log directory offline",
        directory=path,
        why=why,
        next="its replicas are offline, other directories serve: mend it and restart the broker",
    )


def _none_left(offline: Mapping[str, Exception]) -> NoLogDirectoryError:
    reasons = "; ".join(f"{path}: {error}" for path, error in offline.items())
    return NoLogDirectoryError(f"no log directory can be used ({reasons}): mend one, or name others")
