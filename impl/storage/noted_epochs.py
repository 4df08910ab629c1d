"""The leader epochs that were noted of a log, beside which its batches are read.

Theory of operation
-------------------
No checksum covers the leader epoch of a batch. Below the recovery point the checkpoint has every epoch of the log, so
a batch with another epoch than its entry is *odd*: its epoch has changed on the disk, or the checkpoint is not the
log's. The intact batches beside it bear witness, the last one before it and the next one behind it. The odd batch is
accused, and counts as damaged, if both have the epochs that are noted of them. On a side where nothing but damage is
left nobody contradicts the checkpoint; at the beginning or the end of the log the one batch beside it must have the
same entry, unless those between are damaged. In every other case the checkpoint is not believed, and the batch is.

An odd batch whose epoch would fit between those beside it is told from a good one by the checkpoint alone. Of these
one may be accused: a checkpoint with two is that of another log, whose epochs begin a little earlier or later.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple

from tidegauge.impl.records.batches import BatchHeader
from tidegauge.impl.storage.leader_epoch_cache import UNDEFINED_EPOCH, EpochEntry, LeaderEpochCache

_NOTHING: Final = 0, 0, UNDEFINED_EPOCH
"""A span without an offset."""


class Beside(NamedTuple):
    """What is on one side of a batch."""

    batch: BatchHeader | None
    """The nearest one that is intact."""
    is_damaged: bool
    """Whether there is damage between the two, or beside the batch if no other is intact."""


class _Witness(Enum):
    """What one side says of the checkpoint."""

    AGREES = "its batch has the epoch that is noted"
    DISAGREES = "its batch has another one"
    DAMAGED = "its batches are damaged"
    NONE = "there is no batch, or nothing is noted of it"


class NotedEpochs:
    """The epochs of one log, of which all are noted that begin below the offset `complete_below`.

    `first` is where its first file begins. A log that starts inside a batch has that one's epoch begin there.
    """

    def __init__(self, entries: Sequence[EpochEntry], complete_below: int, first: int = 0) -> None:
        ascending = LeaderEpochCache(entries).entries  # what does not ascend leaves fewer
        self._epochs = [entry.epoch for entry in ascending]
        self._starts = [entry.start_offset for entry in ascending]
        self._complete_below = complete_below
        self._first = first
        self._span = _NOTHING
        """Where the entry begins and ends that was looked up last, and its epoch."""
        self._accused: set[int] = set()
        """Where the odd batches begin that are told by the checkpoint alone."""
        self.accusations: dict[int, str] = {}
        """What is said of the batches that are accused, by where they begin."""
        self.contradiction = ""
        """Why the epochs are not those of the log, as far as it was read; "" when they may be."""

    def is_odd(self, batch: BatchHeader) -> bool:
        """Whether a batch has another epoch than is noted; False where nothing is."""
        start, end, epoch = self._span
        offset = max(batch.base_offset, self._first)
        if not start <= offset < end:
            epoch = self._look_up(offset)
        return epoch != batch.partition_leader_epoch and epoch != UNDEFINED_EPOCH

    def _look_up(self, offset: int) -> int:
        """The epoch that is noted of an offset, which is kept in mind with the offsets that it goes for."""
        if self.contradiction or offset >= self._complete_below:
            return UNDEFINED_EPOCH
        number = bisect_right(self._starts, offset)
        start = self._starts[number - 1] if number else 0
        end = self._starts[number] if number < len(self._starts) else self._complete_below
        epoch = self._epochs[number - 1] if number else UNDEFINED_EPOCH
        self._span = start, min(end, self._complete_below), epoch
        return epoch

    def bears_out(self, batch: BatchHeader) -> bool:
        """Whether a batch has the epoch that is noted of it."""
        return self._look_up(max(batch.base_offset, self._first)) == batch.partition_leader_epoch

    def accuses(self, odd: BatchHeader, before: Beside, behind: Beside) -> bool:
        """Whether an odd batch is damaged; else the checkpoint is contradicted, and says nothing any more."""
        noted = self._look_up(max(odd.base_offset, self._first))
        span = self._span
        if odd.next_offset >= self._complete_below:  # what is torn behind it is no damage
            behind = behind._replace(is_damaged=False)
        sides = self._witness(before), self._witness(behind)
        if _Witness.DISAGREES in sides:
            is_borne_out = False
        elif _Witness.NONE not in sides:
            is_borne_out = True
        else:
            nearest = before if sides[1] is _Witness.NONE else behind
            has_entry = nearest.batch is not None and span[0] <= max(nearest.batch.base_offset, self._first) < span[1]
            is_borne_out = nearest.is_damaged or has_entry
        if is_borne_out and _fits(odd, before.batch, behind.batch):
            self._accused.add(odd.base_offset)
            is_borne_out = len(self._accused) == 1
        reason = f"the batch at {odd.base_offset} has leader epoch {odd.partition_leader_epoch}, and {noted} is noted"
        if is_borne_out:
            self.accusations[odd.base_offset] = reason
        else:
            self.contradiction, self._span = reason, _NOTHING
        return is_borne_out

    def told(self, start: int, end: int) -> str:
        """What is said of batches that begin at these offsets, to go behind other words."""
        found = [reason for offset, reason in self.accusations.items() if start <= offset < end]
        return "".join(f"; {reason}" for reason in found)

    def _witness(self, side: Beside) -> _Witness:
        if side.batch is None:
            return _Witness.DAMAGED if side.is_damaged else _Witness.NONE
        epoch = self._look_up(max(side.batch.base_offset, self._first))
        if epoch == UNDEFINED_EPOCH:
            return _Witness.NONE
        return _Witness.AGREES if epoch == side.batch.partition_leader_epoch else _Witness.DISAGREES


def _fits(odd: BatchHeader, before: BatchHeader | None, behind: BatchHeader | None) -> bool:
    """Whether epochs ascend over an odd batch, so that those beside it do not tell it."""
    epoch = odd.partition_leader_epoch
    first = before.partition_leader_epoch if before is not None else 0
    last = behind.partition_leader_epoch if behind is not None else epoch
    return first <= epoch <= last
