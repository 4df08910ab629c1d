"""Which leader epoch began at which offset of a log (KIP-101, KIP-279, KIP-320).

Theory of operation
-------------------
Every batch carries the epoch of the leader that appended it, and epochs only grow along a log. The cache keeps one
entry (epoch, start offset) for each epoch that wrote to this log; an epoch ends where the next larger one starts, the
latest at the log's end. Two replicas whose caches agree on an epoch and its end agree on the log up to there, so a
follower finds where its log leaves the leader's by asking for the end of its own last epoch, and cuts there: never at
the high watermark.

The cache is plain memory. `Log` writes it to `leader-epoch-checkpoint` whenever it changed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


class EpochEntry(NamedTuple):
    """An epoch and the offset of the first record that its leader appended."""

    epoch: int
    start_offset: int


class EpochEndOffset(NamedTuple):
    """The largest epoch of a log that is not larger than the one asked for, and the offset after its last record."""

    epoch: int
    end_offset: int


UNDEFINED = EpochEndOffset(UNDEFINED_EPOCH, UNDEFINED_OFFSET)


class LeaderEpochCache:
    """Entries in the order of the log: epochs and start offsets both strictly increase."""

    __slots__ = ("_epochs", "_starts")

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        for epoch, start_offset in entries:
            self.assign(epoch, start_offset)

    def replace(self, entries: Sequence[EpochEntry]) -> None:
        """Hold these entries, which ascend, and no others."""
        self._epochs = [epoch for epoch, _ in entries]
        self._starts = [start_offset for _, start_offset in entries]

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        return tuple(map(EpochEntry, self._epochs, self._starts))

    @property
    def latest_epoch(self) -> int | None:
        """The epoch of the last leader that wrote here; None when nothing was ever assigned."""
        return self._epochs[-1] if self._epochs else None

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Note that `epoch` starts at `start_offset`; True when that was news.

        An epoch that is known keeps its start, unless the new one is earlier. Entries that contradict the new one (a
        larger epoch, or a later start) are from a log that has been cut since and go.
        """
        assert epoch >= 0, f"leader epoch {epoch} is negative"
        assert start_offset >= 0, f"start offset {start_offset} is negative"
        if self._epochs and self._epochs[-1] == epoch and self._starts[-1] <= start_offset:
            return False
        keep = min(bisect_left(self._epochs, epoch), bisect_left(self._starts, start_offset))
        del self._epochs[keep:], self._starts[keep:]
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        return True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEndOffset:
        """Where `epoch` ended in this log, for OffsetForLeaderEpoch.

        The latest epoch ends at the log's end. For an epoch that wrote nothing here it is that of the next smaller
        one; one that is smaller than all, with itself and the start of the first; one that is larger than all, with
        `UNDEFINED`.
        """
        if epoch == UNDEFINED_EPOCH or not self._epochs or epoch > self._epochs[-1]:
            return UNDEFINED
        if epoch == self._epochs[-1]:
            return EpochEndOffset(epoch, log_end_offset)
        higher = bisect_right(self._epochs, epoch)
        floor = self._epochs[higher - 1] if higher else epoch
        return EpochEndOffset(floor, self._starts[higher])

    def floor_epoch(self, epoch: int) -> int | None:
        """The largest known epoch that is not larger than `epoch`; None when all are."""
        found = bisect_right(self._epochs, epoch) - 1
        return self._epochs[found] if found >= 0 else None

    def epoch_for_offset(self, offset: int) -> int | None:
        """The epoch of the leader that appended the record at `offset`; None when that is not known."""
        found = bisect_right(self._starts, offset) - 1
        return self._epochs[found] if found >= 0 else None

    def spans(self, start_offset: int, end_offset: int) -> Iterator[tuple[int, int, int]]:
        """(start, end, epoch) of the parts of a range of offsets that lie in one epoch each; -1 where none is known."""
        while start_offset < end_offset:
            higher = bisect_right(self._starts, start_offset)
            stop = min(end_offset, self._starts[higher]) if higher < len(self._starts) else end_offset
            yield start_offset, stop, self._epochs[higher - 1] if higher else UNDEFINED_EPOCH
            start_offset = stop

    def truncate_from_end(self, end_offset: int) -> bool:
        """Forget epochs that start at `end_offset` or later; True when there were any."""
        keep = bisect_left(self._starts, end_offset)
        changed = keep < len(self._starts)
        del self._epochs[keep:], self._starts[keep:]
        return changed

    def truncate_from_start(self, start_offset: int) -> bool:
        """Forget epochs that ended by `start_offset`; the one in force there starts there now.

        True when anything changed.
        """
        in_force = bisect_right(self._starts, start_offset) - 1
        if in_force < 0 or (in_force == 0 and self._starts[0] == start_offset):
            return False
        del self._epochs[:in_force], self._starts[:in_force]
        self._starts[0] = start_offset
        return True

    def clear(self) -> bool:
        """Forget everything; True when there was anything."""
        return self.truncate_from_end(UNDEFINED_OFFSET)
