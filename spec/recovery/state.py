"""The files of one log, what was written down beside them, and what the log says that it holds.

A batch is known by where it begins. What a disk does to it is `Rot`; a file may end in a torn piece of a batch.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, IntEnum
from typing import Final

import attrs

ENDLESS: Final = 1 << 62
REACH: Final = (1 << 31) - 1
"""How far offsets may be from where their file begins."""
NO_EPOCHS: Final = -1
"""In the place of where the first leader epoch begins: the file that has them is there, and has none."""
UNREADABLE: Final = -2
"""The same: the file is there, and is no list of epochs."""
NO_FILE: Final = -3


class Rot(Enum):
    """What has become of a batch's bytes."""

    CONTENT = "its records"
    LENGTH = "its length, which leads nowhere"
    EPOCH = "its leader epoch, which is larger than that of the batch behind it"
    LOW = "its leader epoch, which is smaller than those of the two batches before it"
    OFFSET = "its base offset, which is larger than that of the batch behind it"
    FAR = "its base offset, which is farther from where its file begins than one can be"

    @property
    def is_seen_alone(self) -> bool:
        """Whether the batch's own checksum or length tells it, or the name of its file."""
        return self in (Rot.CONTENT, Rot.LENGTH, Rot.FAR)


@attrs.frozen
class Batch:
    """The records [start, end)."""

    start: int
    end: int
    epoch: int
    rot: Rot | None = None

    @property
    def is_whole(self) -> bool:
        """Whether it looks like a batch by itself."""
        return self.rot is None or not self.rot.is_seen_alone


@attrs.frozen
class Segment:
    """One file."""

    base: int
    batches: tuple[Batch, ...] = ()
    synced: int = 0
    """How many of its batches are on stable storage."""
    torn: bool = False
    """Whether a piece of a batch follows."""
    is_stray: bool = False
    """Whether the disk has made it up: it holds no batch of the log."""

    @property
    def end(self) -> int:
        return self.batches[-1].end if self.batches else self.base


class Stage(IntEnum):
    """How far a replacement has come."""

    WRITTEN = 0
    DECIDED = 1
    BEGUN = 2
    """One of the old segments is renamed."""
    CLEARED = 3
    """All of them are."""
    PLACED = 4


@attrs.frozen
class Replacing:
    """What a process has left: the segments with these bases were to become one."""

    first: int
    last: int
    stage: Stage


Gap = tuple[int, int]
"""Offsets [start, end) that nobody is served."""


def is_within(batch: Batch, gaps: Iterable[Gap]) -> bool:
    """Whether a batch lies in one of these gaps, from where it begins or from where its file does."""
    return any(start < batch.end and batch.start < end for start, end in gaps)


@attrs.frozen
class State:
    """One log, open or closed."""

    segments: tuple[Segment, ...] = ()
    is_open: bool = False
    start: int = 0
    """Where the log starts; while it is closed, what is written down of it."""
    written: int = 0
    """What is written down of it while the log is open."""
    end: int = 0
    gaps: tuple[Gap, ...] = ()
    flushed: int = 0
    """The recovery point in memory: all below it is on stable storage."""
    point: int = 0
    """The recovery point as it is written down."""
    high_watermark: int = 0
    """As it is written down."""
    first_epoch: int = NO_EPOCHS
    """Where the first leader epoch begins that the log knows of."""
    noted: int = NO_FILE
    """The same, as the file of leader epochs has it."""
    snapshots: frozenset[int] = frozenset()
    """Offsets at which a snapshot of the producers was written: names that nothing but a flush explains."""
    is_clean: bool = False
    """Whether the log was closed in order."""
    has_note: bool = False
    """Whether a note says that something is damaged."""
    was_rejected: bool = False
    """Whether the last opening did not believe the recovery point."""
    ends_in_damage: bool = False
    """Whether the last opening met a file that ends in damage, where nothing tells what else it held."""
    start_in_doubt: bool = False
    """Whether nothing told the last opening if there were segments before the first one."""
    start_is_lost: bool = False
    """Whether the file with the log starts is gone, which its directory tells."""
    began: int = 0
    """Of a closed log, where it started, whatever is written down of that."""
    aside: frozenset[int] = frozenset()
    """Where batches begin that are kept in other files than those of the log."""
    hidden: frozenset[int] = frozenset()
    """Where batches begin that the last opening has left where they were, behind the damaged ends of files."""
    replacing: Replacing | None = None
    """A replacement of segments by one, in which a process has died that nobody has opened the log after."""
    is_hit: bool = False
    """Of a closed log, whether anything was damaged since it was closed; where that matters."""
    left_out: tuple[Gap, ...] = ()
    """Offsets of which a cleaner has left nothing; a log that has any is known to have been cleaned."""
    mark: int = 0
    """Up to where a cleaner says that it was; all below is on stable storage."""
    gap_in_doubt: bool = False
    """Whether a file may be missing where the last opening has taken offsets for left out."""
    has_begun: bool = False
    """Of a closed log, whether its file of leader epochs has one more, which began where the log ended."""
    is_contradicted: bool = False
    """Whether the file of leader epochs has what the batches contradict."""
    epoch: int = 0
    """The leader's."""
    appended: int = 0
    crashes: int = 0
    damages: int = 0

    @property
    def written_epochs(self) -> int:
        """What the file of leader epochs has after a flush; without any, none is made."""
        return NO_FILE if self.noted == NO_FILE and self.first_epoch == NO_EPOCHS else self.first_epoch

    @property
    def is_sound(self) -> bool:
        """Whether a closed log is as its process has left it, and nothing of it is damaged."""
        is_damaged = self.has_note or self.is_hit or self.is_contradicted or self.replacing is not None
        batches = (batch for segment in self.segments for batch in segment.batches)
        return not is_damaged and all(batch.rot is None for batch in batches)

    def following(self, segment: Segment) -> int | None:
        """Where the next file begins; None behind the last one."""
        return min((one.base for one in self.segments if one.base > segment.base), default=None)

    def is_refused(self, batch: Batch) -> bool:
        """Whether nobody is served the batch."""
        return is_within(batch, self.gaps)

    @property
    def served(self) -> tuple[Batch, ...]:
        """What a reader finds from the start to the end."""
        batches = (batch for segment in self.segments for batch in segment.batches)
        return tuple(batch for batch in batches if batch.end > self.start and not self.is_refused(batch))
