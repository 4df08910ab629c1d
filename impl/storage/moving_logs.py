"""The logs of one directory that are on their way: here from another directory of the broker, or away (KIP-113).

Theory of operation
-------------------
A replica that moves here has a *future* log, `topic-N.<move>-future`, which copies the replica's. A swap gives it the
replica's place. Each step may be the last of a process, or of a disk:

1. `prepare`: the future log is flushed and closed; recovery point, log start and high watermark are written down here.
2. The source renames the replica's log to `topic-N.<move>-left`, and syncs its names. From here on the replica is here.
3. `adopt`: the future log is renamed to `topic-N`, and the names here are synced.

So no two directories have a log named as the replica's, whatever was the last step. What was left names the move, and
says at a start which future log is the replica's. It is kept until the controller knows the new directory: meanwhile
it also says that the replica may be in a directory that is offline.

The rules are those of `spec/membership/moves.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from uuid import UUID

import attrs

from tidegauge.impl.ports.disk import Disk
from tidegauge.impl.storage import checkpoints
from tidegauge.impl.storage.checkpoints import TopicPartition
from tidegauge.impl.storage.log import Log
from tidegauge.impl.storage.partition_directory import (
    FUTURE_SUFFIX,
    LEFT_SUFFIX,
    LONGEST_NAME,
    name_with_suffix,
    partition_of,
    remove_directory,
)


@attrs.frozen
class LeftLog:
    """What a replica has left in a directory."""

    name: str
    topic_id: UUID | None
    """None if its file is no help."""

    def is_of(self, key: TopicPartition, topic_id: UUID | None) -> bool:
        """Whether it was this replica's."""
        move = move_of(self.name, LEFT_SUFFIX)
        is_named_so = move is not None and name_with_suffix(*key, move, LEFT_SUFFIX) == self.name
        return is_named_so and (topic_id is None or self.topic_id in (None, topic_id))


class MovingLogs:
    """Those of one directory."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self.path = path
        self.futures: dict[TopicPartition, Log] = {}
        """Future logs that are being filled."""
        self.prepared: dict[TopicPartition, str] = {}
        """Replicas whose future log is closed, and its name; it becomes theirs with `adopt`."""
        self.waiting: set[TopicPartition] = set()
        """Replicas whose future log may be theirs: a directory is offline, and so nobody knows. A start finds out."""
        self.left: list[LeftLog] = []

    def open_future(self, source: Log, key: TopicPartition, topic_id: UUID, move: UUID, now_ms: int) -> Log:
        """An empty log that begins where `source` does, to be filled until `prepare`. Raises OSError."""
        path = f"{self.path}/{name_with_suffix(*key, move.int, FUTURE_SUFFIX)}"
        self._disk.make_directory(path)
        checkpoints.write_atomically(
            self._disk, path, checkpoints.PARTITION_METADATA, checkpoints.encode_partition_metadata(topic_id)
        )
        self._disk.sync_directory(self.path)
        log = Log.open(self._disk, path, source.config, now_ms, log_start_offset=source.log_start_offset)
        self.futures[key] = log
        return log

    def close_future(self, key: TopicPartition) -> int:
        """All of a future log is on stable storage, with its name; returns where it ends. Raises OSError."""
        future = self.futures[key]
        end = future.flush()
        future.close()
        self._disk.sync_directory(self.path)
        del self.futures[key]
        self.prepared[key] = future.directory.rpartition("/")[2]
        return end

    def adopt(self, key: TopicPartition) -> None:
        """A prepared log gets the replica's name, durably. It may be tried again. Raises OSError."""
        path, name = f"{self.path}/{key[0]}-{key[1]}", self.prepared[key]
        if self._disk.exists(f"{self.path}/{name}"):
            self._disk.rename(f"{self.path}/{name}", path)
        self._disk.sync_directory(self.path)
        del self.prepared[key]

    def leave(self, log: Log, key: TopicPartition, topic_id: UUID, move: UUID) -> None:
        """Rename a replica's log. Durable with `LogDirectory.settle_left`. Raises OSError, with nothing done."""
        name = name_with_suffix(*key, move.int, LEFT_SUFFIX)
        self._disk.rename(log.directory, f"{self.path}/{name}")
        self.left.append(LeftLog(name, topic_id))

    def rename_left(self, left: LeftLog, suffix: str) -> str:
        """Give what was left another suffix, durably; returns the name. Raises OSError."""
        key, move = partition_of(left.name.rpartition(".")[0]), move_of(left.name, LEFT_SUFFIX)
        if key is None or move is None:  # nobody has named it so by a move
            name = left.name.removesuffix(LEFT_SUFFIX)[: LONGEST_NAME - len(suffix)] + suffix
        else:
            name = name_with_suffix(*key, move, suffix)
        self._disk.rename(f"{self.path}/{left.name}", f"{self.path}/{name}")
        self.left.remove(left)
        self._disk.sync_directory(self.path)
        return name

    def keep_for_a_start(self, key: TopicPartition) -> None:
        """Nobody knows whether the source has lost its name: the next start finds out. The files stay as they are."""
        del self.prepared[key]
        self.waiting.add(key)

    def drop(self, key: TopicPartition) -> None:
        """Give a move up; the log has been let go of even where its files cannot be removed. Raises OSError."""
        if (future := self.futures.pop(key, None)) is not None:
            name = future.directory.rpartition("/")[2]
            future.abandon()
        else:
            name = self.prepared.pop(key)
        if self._disk.exists(f"{self.path}/{name}"):
            remove_directory(self._disk, f"{self.path}/{name}")

    # --- at a start ----------------------------------------------------------------------------------------------

    def find_left(self) -> None:
        """Look what was left here before this process. Raises OSError."""
        for name in self._disk.list_directory(self.path):
            if name.endswith(LEFT_SUFFIX):
                text = checkpoints.read_text(self._disk, f"{self.path}/{name}", checkpoints.PARTITION_METADATA)
                self.left.append(LeftLog(name, None if text is None else checkpoints.decode_partition_metadata(text)))

    def find_futures(
        self, successors: Collection[int], known: Sequence[TopicPartition]
    ) -> dict[str, list[TopicPartition]]:
        """Future logs of these moves become `prepared`; returns the others, by name. Raises OSError.

        `known` are partitions that the checkpoints here have: from those a long topic's name is taken, which is cut in
        a directory's. With the others come those that are known by their move alone.
        """
        others: dict[str, list[TopicPartition]] = {}
        for name in self._disk.list_directory(self.path):
            move = move_of(name, FUTURE_SUFFIX) if name.endswith(FUTURE_SUFFIX) else None
            if move is None:
                continue
            uncut = partition_of(name.rpartition(".")[0])
            candidates = [*known, uncut] if uncut is not None else known
            named = [key for key in candidates if name_with_suffix(*key, move, FUTURE_SUFFIX) == name]
            new = [key for key in named if not self._disk.exists(f"{self.path}/{key[0]}-{key[1]}")]
            if move in successors and new:
                self.prepared[new[0]] = name
            else:
                others[name] = new
        return others


def successors(left: Iterable[Sequence[LeftLog]]) -> set[int]:
    """The numbers of the moves that something was left in: their future logs have the replicas' places."""
    moves = (move_of(one.name, LEFT_SUFFIX) for some in left for one in some)
    return {move for move in moves if move is not None}


def move_of(name: str, suffix: str) -> int | None:
    """The number of the move that a directory is named after; None for other names."""
    digits = name.removesuffix(suffix).rpartition(".")[2]
    try:
        return int(digits, 16)
    except ValueError:
        return None
