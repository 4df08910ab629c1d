"""Moving replicas between the log directories of a broker (KIP-113).

Theory of operation
-------------------
A replica that is to move gets a *future* log in the target directory. A task copies the replica's log there, piece by
piece, as a follower would from a leader: when the logs have parted, since the replica's own was cut, the future log is
cut at the end of what both have (KIP-101); when the replica's log begins later than the future one ends, that one
starts anew. Once the future log has everything it takes the other's place, between two pieces of anybody else's work,
so that no append comes between. The old log is deleted.

The replica itself notices nothing: its offsets, its epochs and its high watermark are those of the records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import trio

from tidegauge.impl.records.batches import RecordError
from tidegauge.impl.server.broker.partition import Partition
from tidegauge.impl.storage.log import Log
from tidegauge.impl.storage.log_directory import LogDirectory
from tidegauge.impl.wire.channel import NoAnswerError, UnreachableError
from tidegauge.impl.wire.primitives import topic_uuid

if TYPE_CHECKING:
    from tidegauge.impl.server.broker_server import Broker

TopicPartition = tuple[str, int]
PIECE_BYTES = 256 << 10


@attrs.define(eq=False)
class Move:
    """One replica on its way."""

    partition: Partition
    target: LogDirectory
    future: Log
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)


class DirectoryMoves:
    """The replicas of one broker that are on their way from one directory to another."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._moves: dict[TopicPartition, Move] = {}

    def of(self, topic: str, index: int) -> Move | None:
        """Where a replica is going; None when it stays."""
        return self._moves.get((topic, index))

    def begin(self, partition: Partition, target: LogDirectory) -> None:
        """Let a replica move; one that is on its way to somewhere else turns round. Raises OSError."""
        directories = self._broker.replicas.directories
        current = self._moves.get(partition.key)
        if current is not None and current.target is not target:
            self.give_up(partition.key)
        elif current is not None:
            return
        if directories.where(*partition.key) is target:
            return
        try:
            future = target.open_future(
                partition.log, partition.key, topic_uuid(partition.topic_id), self._broker.clock.now_ms()
            )
        except OSError as error:
            directories.fail(target, error)
            raise
        move = self._moves[partition.key] = Move(partition, target, future)
        self._broker.tasks.start_soon(self._run, move)

    def give_up(self, key: TopicPartition) -> None:
        """Let a replica stay where it is."""
        move = self._moves.pop(key)
        move.scope.cancel()
        if move.target in self._broker.replicas.directories.online:
            try:
                move.target.drop_future(key)
            except OSError as error:
                self._broker.replicas.directories.fail(move.target, error)

    async def _run(self, move: Move) -> None:
        key, broker = move.partition.key, self._broker
        with move.scope:
            while self._goes_on(move):
                if self._copy_piece(move):
                    if self._goes_on(move):
                        self._arrive(move)
                    break
                await trio.lowlevel.checkpoint()
                await broker.clock.until_running()
        if self._moves.get(key) is move:
            self.give_up(key)
        elif not move.scope.cancel_called and broker.timers:
            await self._tell()

    async def _tell(self) -> None:
        try:
            await self._broker.directory_failures.assign()
        except (UnreachableError, NoAnswerError):
            return  # the next one tells it as well

    def _goes_on(self, move: Move) -> bool:
        """Whether the replica is still there, and both of its directories."""
        partitions = self._broker.replicas
        here = partitions.get(*move.partition.key) is move.partition
        return here and move.target in partitions.directories.online and self._moves.get(move.partition.key) is move

    def _copy_piece(self, move: Move) -> bool:
        """Bring the future log nearer to the replica's; True when they are the same."""
        source, future, partitions = move.partition.log, move.future, self._broker.replicas
        try:
            records = _next_records(source, future)
        except (RecordError, OSError) as error:
            partitions.storage_failed(move.partition, error)
            return True
        try:
            future.config = source.config
            cut = _common_end(source, future)
            if cut < future.log_end_offset:
                future.truncate_to(cut)
            elif future.log_end_offset < source.log_start_offset:
                future.truncate_fully_and_start_at(source.log_start_offset, self._broker.clock.now_ms())
            elif records:
                future.append_as_follower(records)
            future.delete_records_before(min(source.log_start_offset, future.log_end_offset))
        except OSError as error:
            partitions.directories.fail(move.target, error)
            return True
        return future.log_end_offset == source.log_end_offset and _common_end(source, future) == future.log_end_offset

    def _arrive(self, move: Move) -> None:
        """The future log takes the place of the other."""
        partition, broker = move.partition, self._broker
        directories, now_ms = broker.replicas.directories, broker.clock.now_ms()
        source = directories.where(*partition.key)
        assert source is not None, "a replica that goes on has a directory"
        del self._moves[partition.key]
        try:
            log = move.target.adopt_future(partition.key, now_ms)
        except OSError as error:
            directories.fail(move.target, error)
            return
        log.on_roll = partition.log.on_roll
        delay_ms = partition.log.config.file_delete_delay_ms
        partition.log = partition.replica.log = log
        broker.replicas.moved(partition, move.target)
        try:
            source.delete_log(*partition.key, now_ms, delay_ms)
        except OSError as error:
            directories.fail(source, error)


def _next_records(source: Log, future: Log) -> bytes:
    """What the future log lacks first; nothing where the logs have to be brought together otherwise."""
    offset = future.log_end_offset
    if not source.log_start_offset <= offset < source.log_end_offset:
        return b""
    return bytes(source.read(offset, PIECE_BYTES))


def _common_end(source: Log, future: Log) -> int:
    """Up to where the future log can be a copy of the other, judged by leader epochs."""
    if future.latest_epoch < 0:
        return min(future.log_end_offset, max(source.log_end_offset, source.log_start_offset))
    epoch, end = source.end_offset_for(future.latest_epoch)
    if epoch == future.latest_epoch:
        return min(future.log_end_offset, end)
    own_epoch, own_end = future.end_offset_for(epoch)
    return min(own_end, end) if own_epoch == epoch else own_end
