"""Moving replicas between the log directories of a broker (KIP-113).

Theory of operation
-------------------
A replica that is to move gets a *future* log in the target directory. A task copies the replica's log there, piece by
piece, as a follower copies its leader's log. Where the logs diverge, because the replica's log was truncated, the
future log is truncated at the end of their common part (KIP-101). Where the replica's log starts after the end of the
future log, the future log starts anew. When the future log has everything, it replaces the replica's log. No await
comes between the last look and the replacement, so no append is lost. What is left of the old log is deleted when the
controller knows the new directory.

The replica itself is the same after a move: its offsets, its leader epochs and its high watermark are those of the
records.

The replacement is a sequence of names on two disks (`impl.storage.moving_logs`). Until the source has lost its name a
move that fails is given up, and the replica remains where it is. From then on it is in the target: where
that one's disk fails the replica is offline, and where it has no room the replica is opened when it has.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum
from errno import EIO
from typing import TYPE_CHECKING, Final
from uuid import UUID

import attrs
import trio

from tidegauge.impl.ports.disk_errors import Extent, extent_of, told
from tidegauge.impl.ports.log_lines import log_event
from tidegauge.impl.records.batches import RecordError
from tidegauge.impl.server.broker.partition import Partition, TopicPartition
from tidegauge.impl.storage.log import Log
from tidegauge.impl.storage.log_directory import LogDirectory
from tidegauge.impl.wire.channel import NoResponseError, UnreachableError
from tidegauge.impl.wire.primitives import topic_uuid

if TYPE_CHECKING:
    from tidegauge.impl.ports.clock import Clock
    from tidegauge.impl.server.broker.directory_failures import DirectoryFailures
    from tidegauge.impl.server.broker.replica_manager import ReplicaManager
    from tidegauge.impl.server.broker.tasks import BrokerTasks

PIECE_BYTES: Final = 256 << 10
"""Most bytes that are copied before other tasks run."""


LOGGER: Final = logging.getLogger(__name__)


class Copied(Enum):
    """What one look at a move has copied."""

    PIECE = "a piece"
    ALL = "all that there is"
    NOTHING = "nothing: a disk has failed or the log is damaged"


@attrs.define(eq=False, repr=False)
class Move:
    """One replica that moves."""

    partition: Partition
    target: LogDirectory
    id: UUID
    future: Log
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)


class DirectoryMoves:
    """The moves of one broker's replicas."""

    def __init__(
        self,
        replicas: ReplicaManager,
        failures: DirectoryFailures,
        tasks: BrokerTasks,
        *,
        clock: Clock,
        timers: bool,
        new_id: Callable[[], UUID],
    ) -> None:
        """`timers`: whether the controller is told of a move as soon as it is complete; `new_id` draws a move's id."""
        self._replicas = replicas
        self._failures = failures
        self._tasks = tasks
        self._clock = clock
        self._timers = timers
        self._new_id = new_id
        self._moves: dict[TopicPartition, Move] = {}
        failures.on_assigned = self._free_left

    def of(self, topic: str, index: int) -> Move | None:
        """The move of a replica; None when it does not move."""
        return self._moves.get((topic, index))

    def begin(self, partition: Partition, target: LogDirectory) -> None:
        """Move a replica to `target`, and give up its move to any other directory. Raises OSError."""
        directories = self._replicas.directories
        current = self._moves.get(partition.key)
        if current is not None and current.target is not target:
            self.give_up(partition.key)
        elif current is not None:
            return
        if directories.where(*partition.key) is target:
            return
        move_id, topic_id = self._new_id(), topic_uuid(partition.topic_id)
        try:
            future = target.moving.open_future(partition.log, partition.key, topic_id, move_id, self._clock.now_ms())
        except OSError as error:
            directories.fail(target, error)
            raise
        move = self._moves[partition.key] = Move(partition, target, move_id, future)
        self._tasks.start_soon(self._run, move)

    def give_up(self, key: TopicPartition) -> None:
        """End a move; the replica remains where it is."""
        move = self._moves.pop(key)
        move.scope.cancel()
        self._drop(move)

    def _drop(self, move: Move) -> None:
        if move.target in self._replicas.directories.online:
            try:
                move.target.drop_future(move.partition.key)
            except OSError as error:
                self._replicas.directories.fail(move.target, error)

    def _tell_given_up(self, move: Move, error: Exception) -> None:
        log_event(
            LOGGER,
            logging.ERROR,
            "move given up",
            partition=f"{move.partition.topic}-{move.partition.index}",
            directory=move.target.path,
            why=str(error),
            next="the replica remains where it is",
        )

    def _free_left(self, partition: Partition) -> None:
        """The controller knows where a replica is: what it has left elsewhere is deleted."""
        delay_ms = partition.log.config.file_delete_delay_ms
        topic_id = topic_uuid(partition.topic_id)
        self._replicas.directories.free_left(partition.key, topic_id, self._clock.steady_ms(), delay_ms)

    async def _run(self, move: Move) -> None:
        key = move.partition.key
        with move.scope:
            while self._continues(move):
                copied = self._copy_piece(move)
                if copied is not Copied.PIECE:
                    if copied is Copied.ALL and self._continues(move):
                        self._replace_log(move)
                    break
                await trio.lowlevel.checkpoint()
                await self._clock.until_running()
        if self._moves.get(key) is move:
            self.give_up(key)
        elif not move.scope.cancel_called and self._timers:
            await self._report()

    async def _report(self) -> None:
        try:
            await self._failures.assign()
        except (UnreachableError, NoResponseError):
            return  # the next assignment says the same

    def _continues(self, move: Move) -> bool:
        """Whether the replica is still hosted, and the target still online."""
        key = move.partition.key
        is_hosted = self._replicas.get(*key) is move.partition
        return is_hosted and move.target in self._replicas.directories.online and self._moves.get(key) is move

    def _copy_piece(self, move: Move) -> Copied:
        """Copy one piece to the future log."""
        source, future, replicas = move.partition.log, move.future, self._replicas
        try:
            records = _next_records(source, future)
        except (RecordError, OSError) as error:
            self._tell_given_up(move, error)
            replicas.storage_failed(move.partition, error)
            return Copied.NOTHING
        try:
            future.config = source.config
            cut = _common_end(source, future)
            if cut < future.log_end_offset:
                future.truncate_to(cut)
            elif future.log_end_offset < source.log_start_offset:
                start, epoch = source.log_start_offset, source.log_start_epoch
                future.truncate_fully_and_start_at(start, self._clock.now_ms(), epoch=epoch)
            elif records:
                future.append_as_follower(records)
            future.delete_records_before(min(source.log_start_offset, future.log_end_offset))
        except (RecordError, OSError) as error:
            self._tell_given_up(move, error)
            if isinstance(error, OSError):
                replicas.directories.fail(move.target, error)
            return Copied.NOTHING
        has_all = future.log_end_offset == source.log_end_offset
        return Copied.ALL if has_all and _common_end(source, future) == future.log_end_offset else Copied.PIECE

    def _replace_log(self, move: Move) -> None:
        """Replace the replica's log by the future log."""
        directories, key = self._replicas.directories, move.partition.key
        source, high_watermark = directories.where(*key), move.partition.replica.high_watermark
        assert source is not None, "a hosted replica has a directory"
        high_watermarks = self._replicas.high_watermark_checkpoint
        del self._moves[key]
        try:
            move.target.prepare_future(key, high_watermarks.prepare_move(key, move.target, high_watermark))
        except OSError as error:
            self._tell_given_up(move, error)
            directories.fail(move.target, error)
            self._drop(move)
            return
        if self._leave(move, source):
            high_watermarks.move(key, move.target, high_watermark)
            self._adopt(move)

    def _leave(self, move: Move, source: LogDirectory) -> bool:
        """Whether the replica is the target's from here on. Where nobody can tell, the source is offline with it."""
        directories, key = self._replicas.directories, move.partition.key
        try:
            source.moving.leave(move.partition.log, key, topic_uuid(move.partition.topic_id), move.id)
        except OSError as error:
            if extent_of(error) is not Extent.DISK:
                self._tell_given_up(move, error)
                self._drop(move)
                return False
            move.target.moving.keep_for_a_start(key)
            directories.fail(source, error)
            return False
        try:
            source.settle_left(key)
        except OSError as error:
            move.target.moving.keep_for_a_start(key)
            directories.fail(source, OSError(EIO, f"the names here cannot be synced: {told(error)}", source.path))
            return False
        return True

    def _adopt(self, move: Move) -> None:
        """The replica goes on with the log in the target."""
        partition, now_ms = move.partition, self._clock.now_ms()
        try:
            log = move.target.open_log(*partition.key, partition.log.config, now_ms, was_closed=True)
        except (OSError, RecordError) as error:
            self._replicas.hosted.lost_while_moving(partition, move.target, error)
            return
        log.upkeep = partition.log.upkeep
        log.producers.forgot |= partition.log.producers.forgot  # one that was forgotten may go on from any sequence
        partition.log = partition.replica.log = log


def _next_records(source: Log, future: Log) -> bytes:
    """The first records that the future log lacks; none where it must be truncated or start anew."""
    offset = future.log_end_offset
    if not source.log_start_offset <= offset < source.log_end_offset:
        return b""
    return bytes(source.read(offset, PIECE_BYTES))


def _common_end(source: Log, future: Log) -> int:
    """The end of the common part of both logs, by their leader epochs."""
    if future.latest_epoch < 0:
        return min(future.log_end_offset, max(source.log_end_offset, source.log_start_offset))
    epoch, end = source.end_offset_for(future.latest_epoch)
    if epoch == future.latest_epoch:
        return min(future.log_end_offset, end)
    own_epoch, own_end = future.end_offset_for(epoch)
    return min(own_end, end) if own_epoch == epoch else own_end
