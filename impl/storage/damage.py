"""What of one log the disk has damaged: offsets that were on stable storage and cannot be read any more.

Theory of operation
-------------------
A crash takes what was not flushed, and the log then ends earlier: that is recovery. Damage is everything else: bytes
below the recovery point that are no intact batches, and segments that are missing. Nothing is removed because of it.
The log keeps its end, so that no offset is given twice, and the damaged offsets are a *gap* that is never served: a
read that begins there raises `DamagedLogError`, one that begins before ends there.

What lies below the log start is no part of the log, whatever has become of its bytes. A segment is walked over a
damaged place there as anywhere, but it is no gap, and nothing is repaired for it. Segments that are missing before the
first one are a gap all the same: the log began before that one.

A note beside the segments says that there is damage, so that the next process reads all of the log, whatever the last
stop was like. A replica with damage is repaired from its leader: `Log.repair` sets aside what is damaged and all behind
it, in files whose names end in `.damaged`, and the log ends before. Nobody but an operator removes such files.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Sequence
from typing import Final

import attrs

from tidegauge.impl.ports.disk import Disk
from tidegauge.impl.ports.log_lines import log_event
from tidegauge.impl.storage import checkpoints
from tidegauge.impl.storage.errors import CorruptLogError, DamagedLogError
from tidegauge.impl.storage.leader_epoch_cache import LeaderEpochCache
from tidegauge.impl.storage.segment import Segment
from tidegauge.impl.storage.segment_names import LOG_SUFFIX
from tidegauge.impl.storage.segments import Segments
from tidegauge.impl.storage.survey import Around, Bounds, DamagedExtent

LOGGER: Final = logging.getLogger(__name__)

DAMAGE_NOTE: Final = "damage-note"
"""The file that says that a log is damaged."""
DAMAGED_SUFFIX: Final = ".damaged"
"""Of what was set aside because it was damaged, or because it came after damage that was repaired."""
BELOW_START: Final = "nothing is lost, for the log starts behind it; the disk is to be looked at"
STRAY_SUFFIX: Final = ".stray"
"""Of segments that were set aside because they are not part of the log."""


@attrs.frozen(order=True)
class Gap:
    """Offsets [start, end) that cannot be read."""

    start: int
    end: int
    reason: str = attrs.field(order=False)

    def __str__(self) -> str:
        return f"[{self.start}, {self.end}): {self.reason}"


class Damage:
    """The gaps of one log, oldest first."""

    __slots__ = ("_directory", "_disk", "doubted", "gaps")

    def __init__(self, disk: Disk, directory: str, gaps: Iterable[Gap] = (), doubted: Iterable[Gap] = ()) -> None:
        self.gaps: list[Gap] = sorted(gaps)
        self.doubted: list[Gap] = sorted(doubted)
        """Where a segment may be missing, or a cleaner has left out what was there: readers go on behind it."""
        self._disk = disk
        self._directory = directory

    def __bool__(self) -> bool:
        return bool(self.gaps)

    @property
    def start(self) -> int:
        """The first offset that cannot be read."""
        return self.gaps[0].start

    @property
    def first(self) -> Gap | None:
        """The first gap that is to be repaired where others have the records, be it in doubt."""
        return min((*self.gaps, *self.doubted), default=None)

    def believe_doubts(self) -> None:
        """What is in doubt is missing: others have it."""
        self.gaps, self.doubted = sorted((*self.gaps, *self.doubted)), []

    def check(self, *, was_whole: bool) -> None:
        """Raises DamagedLogError for the first gap of a log that had none."""
        if was_whole and self.gaps:
            self.readable_end(self.start, self.start)

    def readable_end(self, offset: int, end_offset: int) -> int:
        """Where a read from `offset` ends at the latest. Raises DamagedLogError when it begins in a gap."""
        for gap in self.gaps:
            if offset < gap.start:
                return min(end_offset, gap.start)
            if offset < gap.end:
                raise DamagedLogError(self._directory, gap.start, gap.end, gap.reason)
        return end_offset

    def examine(self, segment: Segment, around: Around, error: CorruptLogError, log_start_offset: int) -> bool:
        """Find out what of a segment is damaged in which a read met damage; True when that is news.

        What is damaged below the log start is news for who walks over the segment, and no gap.
        """
        before = set(segment.damaged.values())
        extents = _examined(segment, around)
        if before.issuperset(extents):
            return False
        found = [
            Gap(extent.start, extent.end, f"{segment.path(LOG_SUFFIX)} is damaged at position {extent.position}")
            for extent in extents
        ]
        kept = [gap for gap in found if gap.end > log_start_offset]
        formerly = {(extent.start, extent.end) for extent in before}
        self.gaps = sorted([gap for gap in self.gaps if (gap.start, gap.end) not in formerly] + kept)
        for gap in found:
            if (gap.start, gap.end) not in formerly:
                self._tell_met(gap, f"{gap.reason}; met when {error}", is_lost=gap in kept)
        if self.gaps:
            self.write_note()
        return True

    def _tell_met(self, gap: Gap, why: str, *, is_lost: bool) -> None:
        refused = "these offsets are not served; where others have them the replica is repaired"
        log_event(
            LOGGER,
            logging.ERROR if is_lost else logging.WARNING,
            "damage met",
            log=self._directory,
            start=gap.start,
            end=gap.end,
            why=why,
            next=refused if is_lost else BELOW_START,
        )

    def tell_found(self, deleted: Iterable[Gap]) -> None:
        """Tell what opening the log has found: the gaps, and damage to what was deleted."""
        refused = (
            "nothing is removed; these offsets are not served until the replica is repaired from its leader, or, with "
            "one replica, until the file is put back"
        )
        for gap, is_lost in [*((gap, True) for gap in self.gaps), *((gap, False) for gap in deleted)]:
            log_event(
                LOGGER,
                logging.ERROR if is_lost else logging.WARNING,
                "damage found",
                log=self._directory,
                start=gap.start,
                end=gap.end,
                why=gap.reason,
                next=refused if is_lost else BELOW_START,
            )

    def write_note(self) -> None:
        """Have the next process read all of the log. Durable when it returns."""
        text = "".join(f"{gap}\n" for gap in self.gaps)
        checkpoints.write_atomically(self._disk, self._directory, DAMAGE_NOTE, text)

    def renew_note(self, names: Container[str]) -> None:
        """Write what was found, or remove a note that is among the names of the directory."""
        if self:
            self.write_note()
        elif DAMAGE_NOTE in names:
            self.clear_note()

    def clear_note(self) -> None:
        """All of the log is intact again."""
        if self._disk.exists(f"{self._directory}/{DAMAGE_NOTE}"):
            self._disk.remove(f"{self._directory}/{DAMAGE_NOTE}")
            self._disk.sync_directory(self._directory)

    def keep_from(self, start_offset: int) -> None:
        """What lies below this offset was deleted."""
        self._keep([gap for gap in self.gaps if gap.end > start_offset])
        self.doubted = [gap for gap in self.doubted if gap.end > start_offset]

    def keep_below(self, end_offset: int) -> None:
        """What lies from this offset on was cut."""
        self._keep(_below(self.gaps, end_offset))
        self.doubted = _below(self.doubted, end_offset)

    def forget(self) -> None:
        """Nothing of what the log held is part of it any more."""
        self._keep([])
        self.doubted = []

    def _keep(self, gaps: list[Gap]) -> None:
        had, self.gaps = bool(self.gaps), gaps
        if had and not gaps:
            self.clear_note()

    # --- repair -------------------------------------------------------------------------------------------------------

    def set_aside(self, segments: Segments, *, empties: bool = False) -> list[str]:
        """Keep what the segments have from the first gap on in files of other names; returns these.

        The segments behind the one with the gap are no part of the log any more then; that one is the caller's to cut.
        `empties`: those before it go as well, and one of them may end in damage that holds a batch of later offsets.
        """
        number = segments.number_of(self.start)
        before = segments.ordered[:number] if empties else ()
        names = [name for segment in before for name in self._copy_damaged_end(segment)]
        names += self._copy_tail(segments.ordered[number])
        suffix = DAMAGED_SUFFIX
        while any(self._disk.exists(segment.path(LOG_SUFFIX) + suffix) for segment in segments.ordered[number + 1 :]):
            suffix += DAMAGED_SUFFIX
        return names + segments.set_aside_from(number + 1, suffix)

    def _copy_tail(self, segment: Segment) -> list[str]:
        return self._copy_from(segment, segment.position_from(self.start))

    def _copy_damaged_end(self, segment: Segment) -> list[str]:
        ends = [extent.position for extent in segment.damaged.values() if extent.is_tail]
        return [name for one in ends if segment.holds_batch_from(one) for name in self._copy_from(segment, one)]

    def _copy_from(self, segment: Segment, position: int) -> list[str]:
        if position >= segment.size:
            return []
        path = unused_path(self._disk, f"{segment.path(LOG_SUFFIX)}.from-{position}{DAMAGED_SUFFIX}")
        segment.copy_from(position, path)
        self._disk.sync_directory(self._directory)
        return [path.rpartition("/")[2]]

    def repaired(self, gap: Gap, end_offset: int, names: Sequence[str]) -> None:
        """Say what became of a log that ended at `end_offset`: all from this gap on is set aside."""
        log_event(
            LOGGER,
            logging.WARNING,
            "log repaired",
            log=self._directory,
            start=gap.start,
            end=end_offset,
            set_aside=",".join(names) or "none",
            why=str(gap),
            next=f"the log ends at {gap.start} and is fetched from the leader; the files stay until they are removed",
        )


def _below(gaps: Iterable[Gap], end_offset: int) -> list[Gap]:
    return [attrs.evolve(gap, end=min(gap.end, end_offset)) for gap in gaps if gap.start < end_offset]


def _examined(segment: Segment, around: Around) -> Sequence[DamagedExtent]:
    """Read all of a segment's file; returns the damaged places, which are walked over from now on."""
    next_offset = segment.next_offset
    bounds = Bounds(segment.base_offset, next_offset, around=around)
    segment.recover(LeaderEpochCache(), bounds, flushed=next_offset)
    if around.noted is not None and around.noted.contradiction:
        segment.recover(LeaderEpochCache(), bounds._replace(around=Around()), flushed=next_offset)
    segment.end_at(next_offset)
    segment.opened()
    return tuple(segment.damaged.values())


def unused_path(disk: Disk, path: str) -> str:
    """The path, or one that nothing has: with `.1`, `.2` and so on behind it."""
    number, found = 0, path
    while disk.exists(found):
        number += 1
        found = f"{path}.{number}"
    return found
