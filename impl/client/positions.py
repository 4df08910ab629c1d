"""Where a consumer reads on in each of its partitions, and what it has to ask before it can.

Theory of operation
-------------------
A partition is in one of four states. `Undetermined`: where the group goes on has to be asked. `Resetting`: there is
nothing to go on from, and an end of the log, or a moment in it, has to be looked up. `Validating`: there is a position,
and a leader that may have another log (KIP-320). `Fetching`: records are fetched from the position on.

A response that comes late finds another state than the one that its request was made in, and is dropped: states are
compared, not numbers, so that nothing has to be counted.

The epoch of a position is that of the batch before it, as its leader wrote it. When a partition has a later leader,
that one is asked where this epoch ends in its log. An end before the position says that what was
read is in the log no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import attrs

Partition = tuple[str, int]
"""A topic, and the number of a partition of it."""
UNKNOWN = -1
EARLIEST = -2
LATEST = -1


@attrs.frozen
class Position:
    """The offset that is read next, and whose log that is about."""

    offset: int
    epoch: int = UNKNOWN
    """The leader epoch of what was read last; UNKNOWN: nothing was, or it had none."""
    leader_epoch: int = UNKNOWN
    """The latest epoch of the partition's leaders that the position is known to be right for."""


@attrs.frozen
class Undetermined:
    """Nobody has said where to read on."""


@attrs.frozen
class Resetting:
    """An offset has to be looked up: EARLIEST, LATEST, or the first one of a moment in ms since 1970."""

    timestamp: int


@attrs.frozen
class Validating:
    """The leader of this epoch has to be asked whether it has what was read."""

    position: Position
    leader_epoch: int


@attrs.frozen
class Fetching:
    """Records are read from the position on."""

    position: Position


Stage = Undetermined | Resetting | Validating | Fetching


@attrs.frozen
class Truncation:
    """What was read from a partition up to `position` is in its log no more.

    `diverges_at` is the first offset that may have other records now; None: nobody can tell.
    """

    partition: Partition
    position: int
    diverges_at: int | None


@attrs.frozen
class _Held:
    stage: Stage = Undetermined()
    is_paused: bool = False


class Positions:
    """The partitions that a consumer has."""

    def __init__(self) -> None:
        self._held: dict[Partition, _Held] = {}

    def __contains__(self, partition: object) -> bool:
        return partition in self._held

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._held)

    def assign(self, partitions: Iterable[Partition]) -> None:
        """These are its partitions now; it goes on in those that it has."""
        self._held = {partition: self._held.get(partition, _Held()) for partition in partitions}

    # --- what the application says -------------------------------------------------------------------------------

    def seek(self, partition: Partition, position: Position) -> None:
        """Read on from there. A position with an epoch is asked about before anything is read."""
        self._to(partition, Fetching(position))

    def reset(self, partition: Partition, timestamp: int) -> None:
        """Look up where to read on."""
        self._to(partition, Resetting(timestamp))

    def pause(self, partition: Partition) -> None:
        self._held[partition] = attrs.evolve(self._held[partition], is_paused=True)

    def resume(self, partition: Partition) -> None:
        self._held[partition] = attrs.evolve(self._held[partition], is_paused=False)

    # --- what may be asked ---------------------------------------------------------------------------------------

    def stage(self, partition: Partition) -> Stage | None:
        """None where the partition is another one's."""
        held = self._held.get(partition)
        return None if held is None else held.stage

    def position(self, partition: Partition) -> Position | None:
        """Where it reads on, as far as that is known."""
        stage = self.stage(partition)
        return stage.position if isinstance(stage, Fetching | Validating) else None

    def is_paused(self, partition: Partition) -> bool:
        return partition in self._held and self._held[partition].is_paused

    def stages(self) -> Mapping[Partition, Stage]:
        """Of all partitions."""
        return {partition: held.stage for partition, held in self._held.items()}

    def fetchable(self) -> dict[Partition, Position]:
        """From where on records are to be fetched."""
        return {
            partition: held.stage.position
            for partition, held in self._held.items()
            if isinstance(held.stage, Fetching) and not held.is_paused
        }

    def consumed(self) -> dict[Partition, Position]:
        """What may be committed: where it reads on, in every partition where that is known."""
        found = ((partition, self.position(partition)) for partition in self._held)
        return {partition: position for partition, position in found if position is not None}

    # --- what brokers say ----------------------------------------------------------------------------------------

    def determined(self, partition: Partition, position: Position | None, otherwise: int | None) -> bool:
        """The group goes on from there; from nowhere: a lookup of `otherwise`. False if there is nothing to go by."""
        if not isinstance(self.stage(partition), Undetermined):
            return True
        if position is not None:
            self._to(partition, Fetching(position))
        elif otherwise is not None:
            self._to(partition, Resetting(otherwise))
        else:
            return False
        return True

    def looked_up(self, partition: Partition, asked: Stage, offset: int, epoch: int) -> None:
        """A lookup has found an offset, and the epoch of its leader."""
        if self._is_at(partition, asked):
            self._to(partition, Fetching(Position(offset, leader_epoch=epoch)))

    def led(self, partition: Partition, leader_epoch: int) -> None:
        """The partition has a leader of this epoch; one of an earlier epoch is none any more."""
        stage = self.stage(partition)
        if not isinstance(stage, Fetching) or leader_epoch <= stage.position.leader_epoch:
            return
        if stage.position.epoch == UNKNOWN:
            self._to(partition, Fetching(attrs.evolve(stage.position, leader_epoch=leader_epoch)))
        else:
            self._to(partition, Validating(stage.position, leader_epoch))

    def validated(
        self, partition: Partition, asked: Validating, end_epoch: int, end_offset: int, otherwise: int | None
    ) -> Truncation | None:
        """The leader's log of the position's epoch, or of the last one before it, ends there.

        A truncation goes on at the divergence, or by a lookup of `otherwise`; with None it stays where it is, for
        the application to decide.
        """
        if not self._is_at(partition, asked):
            return None
        position = asked.position
        if UNKNOWN in (end_epoch, end_offset):
            if otherwise is not None:
                self._to(partition, Resetting(otherwise))
            return Truncation(partition, position.offset, None)
        if end_offset < position.offset:
            if otherwise is not None:
                self._to(partition, Fetching(Position(end_offset, end_epoch, asked.leader_epoch)))
            return Truncation(partition, position.offset, end_offset)
        self._to(partition, Fetching(attrs.evolve(position, leader_epoch=asked.leader_epoch)))
        return None

    def out_of_range(self, partition: Partition, offset: int, otherwise: int | None) -> bool:
        """There is no such offset in the log. False where nothing says what to do instead."""
        stage = self.stage(partition)
        if not isinstance(stage, Fetching) or stage.position.offset != offset:
            return True
        if otherwise is not None:
            self._to(partition, Resetting(otherwise))
        return otherwise is not None

    def advance(self, partition: Partition, offset: int, position: Position) -> bool:
        """What was fetched from `offset` on is read, up to a position. False where nobody reads there any more."""
        stage = self.stage(partition)
        if not isinstance(stage, Fetching) or stage.position.offset != offset:
            return False
        leader_epoch = max(stage.position.leader_epoch, position.leader_epoch)
        self._to(partition, Fetching(attrs.evolve(position, leader_epoch=leader_epoch)))
        return True

    # --- stages --------------------------------------------------------------------------------------------------

    def _is_at(self, partition: Partition, asked: Stage) -> bool:
        return self.stage(partition) == asked

    def _to(self, partition: Partition, stage: Stage) -> None:
        self._held[partition] = attrs.evolve(self._held[partition], stage=stage)
