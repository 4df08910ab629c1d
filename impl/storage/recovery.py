"""What a log directory holds after a shutdown or a crash, made into segments again.

Theory of operation
-------------------
A crash may have lost any unsynced bytes and undone any unsynced creation, renaming or removal. So, unless the
shutdown was clean, every segment that reaches beyond the recovery point, and the last one in any case, is read from
its start with its checksums, and its indexes are made anew. What is not intact above the recovery point is the torn
tail: the log ends there.

Below the recovery point nothing is lost by a crash: what is not intact there the disk has damaged (`damage`). Nothing
is removed for it. The damaged offsets become gaps of the log, and the segments behind them stay in it. Segments below
the recovery point are believed if they end where the next one begins, which costs one look at each; when they are
read, their checksums are looked at. A note of damage, or a damaged segment, has all of the log or segment read.

A log start counts like a recovery point if the leader epochs bear witness to it: what lies before it was flushed.

A segment that overlaps another one, or that follows nothing, is a stray: it is set aside, under a name that ends in
`.stray`, and is no reason to doubt the others.

A recovery point beyond the end of the log means a lost tail if something else knows of it: a later segment, a producer
snapshot, the high watermark. Else the recovery point is damaged: it is rejected, and all of the log is read. After a
clean stop whose recovery point is lost, a high watermark or a snapshot beyond the end means a lost tail by itself.

The aborted transactions of a segment that is read are found again by its markers.

Whatever else lies in the directory is left over from something that a crash has interrupted: `finish_replacements`
carries out what was decided and drops the rest.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from functools import partial
from itertools import islice
from typing import Final

import attrs

from tidegauge.impl.ports.disk import Disk
from tidegauge.impl.ports.log_lines import log_event
from tidegauge.impl.records.batches import RecordError
from tidegauge.impl.storage import checkpoints
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.damage import DAMAGE_NOTE, Gap, unused_path
from tidegauge.impl.storage.epoch_recovery import contradiction, read_epochs, reject
from tidegauge.impl.storage.interrupted_replacements import finish_replacements
from tidegauge.impl.storage.leader_epoch_cache import UNDEFINED_EPOCH, EpochEntry, LeaderEpochCache
from tidegauge.impl.storage.left_out import LeftOut, mark_of
from tidegauge.impl.storage.log_names import LogNames
from tidegauge.impl.storage.neighbours import first_batch, hold_nothing, last_batch
from tidegauge.impl.storage.noted_epochs import Beside, NotedEpochs
from tidegauge.impl.storage.recovered import Recovered
from tidegauge.impl.storage.recovery_lines import tell_cut, tell_end_in_damage, tell_end_in_doubt, tell_low_end
from tidegauge.impl.storage.recovery_points import Checkpointed, with_believed_point, without_point
from tidegauge.impl.storage.segment import Segment
from tidegauge.impl.storage.segment_names import LOG_SUFFIX, file_name
from tidegauge.impl.storage.stray_segments import StraySegments
from tidegauge.impl.storage.survey import NEVER, Around, Bounds, reaches
from tidegauge.impl.storage.transaction_recovery import index_transactions

LOGGER: Final = logging.getLogger(__name__)

_ENDLESS: Final = 1 << 62


@attrs.frozen(eq=False, repr=False)
class Recovery:
    """What recovery found and did."""

    scanned_segments: int = 0
    """Segments read from start to end."""
    cut_bytes: int = 0
    """Bytes that were no intact batch, cut from the ends of segments."""
    strays: Sequence[str] = ()
    """Segments that are not part of the log, set aside."""
    gaps: Sequence[Gap] = ()
    """Offsets that were on stable storage and cannot be read; of an open log, those from its start on."""
    is_point_rejected: bool = False
    """Whether the recovery point was beyond all that is known of the log."""
    ends_in_damage: bool = False
    """Whether the log or a file of it may have gone on: it ended in damage, and nothing told how far it went."""
    end_without_files: int = 0
    """Up to where something knows of a log that has no file left."""
    doubted: Sequence[Gap] = ()
    """Where a segment may be missing, though a cleaner leaves out offsets, too."""
    is_start_in_doubt: bool = False
    """Whether nothing told if there were segments before the first one."""
    was_damaged: bool = False
    """Whether there was a note of damage."""
    checkpointed_epochs: Sequence[EpochEntry] | None = None
    """The leader epochs as the checkpoint has them; None when there is none."""

    @property
    def has_changed_files(self) -> bool:
        """Whether the log's files are not as they were, so that they are to be flushed."""
        return bool(self.cut_bytes or self.strays or self.gaps or self.is_point_rejected)

    @property
    def may_end_early(self) -> bool:
        """Whether the log may have gone on where it ends now."""
        return bool(self.cut_bytes or self.is_point_rejected or self.ends_in_damage)

    @property
    def lost_nothing(self) -> bool:
        """Whether everything that was on stable storage is there, as far as can be told."""
        return not self.gaps and not self.doubt

    @property
    def doubt(self) -> str:
        """Why records may be missing that no gap tells of; "" where they are not."""
        if self.is_point_rejected:
            return "its recovery point is damaged"
        if self.ends_in_damage:
            return "it ends in damage"
        if self.doubted:
            return "a segment of it may be missing"
        return "nothing tells where it starts" if self.is_start_in_doubt else ""


NOTHING_RECOVERED: Final = Recovery()


def recover_segments(
    disk: Disk,
    directory: str,
    config: LogConfig,
    now_ms: int,
    names: LogNames,
    checkpointed: Checkpointed,
    epochs: LeaderEpochCache,
) -> tuple[list[Segment], Recovery]:
    """The log's segments in order, the last one ready to grow; none when the directory is empty.

    `names` are those in the directory. `epochs` becomes what the checkpoint says of the segments that are believed, and
    what the others hold.
    """
    has_deleted = bool(names.deleted)
    names = finish_replacements(disk, directory, names, config.index_interval_bytes)
    is_clean = checkpointed.clean_shutdown
    entries = read_epochs(disk, directory, names.all, was_flushed=checkpointed.recovery_point > 0)
    reads_all = checkpointed.reads_all or DAMAGE_NOTE in names or entries is None
    start = checkpointed.start_not_denied(entries)
    starts = {"start": start, "witnessed_start": start if entries else 0}

    def ends_at(offset: int) -> bool:
        if not names.bases:
            return False
        filled = (one for one in reversed(names.bases) if disk.size(f"{directory}/{file_name(one, LOG_SUFFIX)}"))
        base = next(filled, names.bases[-1])
        with closing(Segment(disk, directory, base, config.index_interval_bytes, now_ms)) as last:
            last.recover(LeaderEpochCache(), Bounds(base), flushed=_ENDLESS)
        is_last = base == names.bases[-1] or names.bases[-1] == offset
        return last.next_offset == offset and not last.damaged and is_last

    mark = mark_of(checkpointed.cleaned_offset, names.bases)
    snapshots = [offset for offset in names.snapshots if not names.bases or reaches(names.bases[-1], offset)]
    checkpointed = with_believed_point(directory, checkpointed, snapshots, entries, mark, ends_at)
    starts_below = None if has_deleted or not entries else entries[0].start_offset

    def again(before: _Recovering, known: Checkpointed, *, believes: bool = True) -> _Recovering:
        before.close()
        work = _Recovering(disk, directory, config, now_ms, known, epochs, reads_all=True, **starts)
        work.go_on_from(before)
        work.rejected_point = rejected
        work.load(LogNames(disk.list_directory(directory)), entries or (), starts_below, believes=believes)
        return work

    work = _Recovering(disk, directory, config, now_ms, checkpointed, epochs, reads_all=reads_all, **starts)
    work.load(names, entries or (), starts_below, believes=True)
    reason = work.contradiction or contradiction(work.segments, entries or (), is_clean=is_clean)
    is_rejected, rejected = work.is_point_rejected, 0
    if is_rejected:
        rejected, why = checkpointed.recovery_point, "nothing else knows of records up to there"
        checkpointed = without_point(directory, checkpointed, work.end_offset, why)
    if is_rejected or reason:  # an epoch that a batch contradicts may be right, and the batch damaged
        work = again(work, checkpointed)
        reason = work.contradiction or contradiction(work.segments, entries or (), is_clean=is_clean)
    if reason:
        reject(directory, reason)
        work = again(work, checkpointed, believes=False)
    believed = None if entries is None or reason else tuple(entries)
    found = work.found(is_point_rejected=is_rejected, checkpointed_epochs=believed)
    return work.segments, attrs.evolve(found, was_damaged=DAMAGE_NOTE in names)


def next_segment(segments: Sequence[Segment], recovery: Recovery, log_start_offset: int) -> int | None:
    """Where the log goes on in a new segment: it has none, or its end is damaged; None when the last one grows."""
    if not segments:
        return max([log_start_offset, recovery.end_without_files, *(gap.end for gap in recovery.gaps)])
    last = segments[-1]
    ends_in_gap = bool(recovery.gaps) and recovery.gaps[-1].end > last.base_offset
    return last.next_offset if last.ends_damaged or ends_in_gap else None


class _Recovering:
    """One log that is being opened."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        config: LogConfig,
        now_ms: int,
        checkpointed: Checkpointed,
        epochs: LeaderEpochCache,
        *,
        reads_all: bool,
        start: int,
        witnessed_start: int,
    ) -> None:
        self.segments: list[Segment] = []
        self.gaps: list[Gap] = []
        self.doubted: list[Gap] = []
        self._strays = StraySegments(disk, directory)
        self.scanned = self.cut_bytes = self._end_without_files = 0
        self.is_point_rejected = self.ends_in_damage = False
        self.rejected_point = 0
        """The recovery point that was not believed, when the log is read without it."""
        self._later: list[tuple[int, bool]] = []
        """What segments were set aside that do not follow the log, and whether they hold batches."""
        self._disk = disk
        self._directory = directory
        self._config = config
        self._now_ms = now_ms
        self._bases: Sequence[int] = ()
        self._snapshots: Sequence[int] = ()
        """The offsets that files are named after."""
        self._start = start
        """The log start that is written down; 0 if leader epochs deny it."""
        self._known = checkpointed
        self._epochs = epochs
        self._names: Container[str] = ()
        self._entries: Sequence[EpochEntry] = ()
        """Those of the checkpoint that may accuse a batch."""
        self._noted: NotedEpochs | None = None
        """The same, once a segment is read."""
        self._epoch_read = UNDEFINED_EPOCH
        """Of the last batch that was read."""
        self._reads_all = reads_all
        self._witnessed_start = witnessed_start

    def _know_flushed(self) -> None:
        """Up to where the log was flushed, as far as that is written down: log starts are, after a flush."""
        known, point = self._known, self._known.recovery_point
        told = max(point, self._witnessed_start, mark_of(known.cleaned_offset, self._bases))
        self._known_flushed = point if known.clean_shutdown and point else told
        self._flushed = _ENDLESS if known.clean_shutdown and not point else self._known_flushed
        """Below it nothing was lost by a crash."""
        self._left_out = LeftOut(
            known.cleaned_offset is not None,
            self._flushed,
            self._known_flushed,
            self._bases,
            self._snapshots,
            (known.high_watermark, self._start),
            self._holds_batches,
        )

    @property
    def end_offset(self) -> int:
        return self.segments[-1].next_offset if self.segments else 0

    def found(self, *, is_point_rejected: bool, checkpointed_epochs: Sequence[EpochEntry] | None) -> Recovery:
        """What was found and done."""
        work = self.scanned, self.cut_bytes, tuple(self._strays.names), tuple(sorted(self.gaps))
        end = self.ends_in_damage, self._end_without_files, tuple(self.doubted)
        return Recovery(*work, is_point_rejected, *end, checkpointed_epochs=checkpointed_epochs)

    def go_on_from(self, before: _Recovering) -> None:
        """Take over what was done to files: a torn tail stays cut, and what was set aside is put back."""
        self.cut_bytes = before.cut_bytes
        before._strays.put_back()

    def close(self) -> None:
        """Let go of the segments' files."""
        for segment in self.segments:
            segment.close()

    @property
    def contradiction(self) -> str:
        """Why the noted leader epochs are not those of the log, as far as it was read; "" when they may be."""
        return "" if self._noted is None else self._noted.contradiction

    def load(self, names: LogNames, entries: Sequence[EpochEntry], starts_below: int | None, *, believes: bool) -> None:
        """Take in the segments among the names.

        `starts_below`: the offset before the log start, if epochs know it. `believes`: whether the epochs may accuse a
        batch.
        """
        self._names, self._bases, self._snapshots = names.all, names.bases, names.snapshots
        self._know_flushed()
        self._entries = entries if believes else ()
        self._epochs.replace(entries)
        waiting = list(self._bases)
        self._tell_odd_names(names.odd)
        self._drop_early_strays(waiting, starts_below or 0)
        if starts_below is not None and waiting and starts_below + 1 < waiting[0]:
            self._add_gap(starts_below + 1 if starts_below else 0, waiting[0], "the segments before are missing")
        while waiting:
            base = waiting.pop(0)
            if self.segments and base != self.end_offset and not self._follows(base):
                continue
            self._take_in(base, waiting)
        self._find_lost_tail(starts_below)
        self._doubt_end()

    def _tell_odd_names(self, names: Iterable[str]) -> None:
        for name in names:
            log_event(
                LOGGER, logging.WARNING, "not a segment", file=f"{self._directory}/{name}", next="it is left alone"
            )

    def _drop_early_strays(self, waiting: list[int], starts_below: int) -> None:
        """Set aside first segments that lie below the log start as a whole and hold nothing.

        In a log that is known to be damaged the leader epochs may begin behind what is damaged.
        """
        while DAMAGE_NOTE not in self._names and len(waiting) > 1 and waiting[1] <= starts_below:
            first = self._first_behind(waiting[:1]).batch
            if first is not None and first.base_offset < waiting[1]:
                return
            self._strays.set_aside(waiting.pop(0), f"the log starts at {starts_below + 1}, and it holds no batch")

    def _holds_batches(self, base: int, limit: int | None = None) -> bool:
        """Whether there is an intact batch in a segment, which ends at `limit` at the latest."""
        segment = self._segment(base)
        segment.recover(LeaderEpochCache(), Bounds(base, limit), flushed=_ENDLESS)
        segment.close()
        return segment.next_offset > base

    def _segment(self, base: int) -> Segment:
        return Segment(self._disk, self._directory, base, self._config.index_interval_bytes, self._now_ms)

    def _follows(self, base: int) -> bool:
        """Whether a segment that does not begin where the one before it ends belongs to the log all the same."""
        end = self.end_offset
        if not self._holds_batches(base):
            self._later.append((base, False))
            self._strays.set_aside(base, f"the log ends at {end}, and it holds no batch")
            return False
        if base > self._flushed:
            self._later.append((base, True))
            self._strays.set_aside(base, f"the log ends at {end}, and nothing beyond {self._flushed} was flushed")
            return False
        self._add_gap(end, base, "no segment holds them")
        return True

    def _take_in(self, base: int, waiting: list[int]) -> None:
        """Take in one segment, and set aside those among the waiting that it overlaps."""
        limit = waiting[0] if waiting else None
        segment = self._segment(base)
        segment.found_beside(self._names)
        segment.may_begin_before = not self.segments
        if not self._is_believed(segment, limit):
            segment = self._read(segment, waiting)
        self.segments.append(segment)
        if waiting and segment.next_offset < waiting[0] and self._left_out.reaches(base, waiting[0]):
            start, segment.next_offset = segment.next_offset, waiting[0]
            log_event(LOGGER, logging.INFO, "gap of a compacted log", log=self._directory, start=start, end=waiting[0])
            self._pass_over(start, waiting[0])

    def _is_believed(self, segment: Segment, limit: int | None) -> bool:
        known = self._known
        if self._reads_all:
            return False
        if limit is None:
            believed = known.clean_shutdown and segment.load_active()
            return believed and segment.next_offset == known.recovery_point
        if not known.clean_shutdown and limit > known.recovery_point:
            return False
        end = segment.load_closed(limit)
        if end is None or end > limit or (end < limit and not self._left_out.reaches(segment.base_offset, limit)):
            return False
        self._pass_over(end, limit)
        return True

    def _pass_over(self, start: int, limit: int) -> None:
        """A cleaner has left out what lies between two segments, or it is in doubt whether one is missing."""
        if start != limit and self._left_out.is_in_doubt(self._directory, start, limit):
            self.doubted.append(Gap(start, limit, "a segment of it may be missing"))

    def _read(self, segment: Segment, waiting: list[int]) -> Segment:
        """Read a segment from its start; what is torn of it is cut, what is damaged becomes gaps."""
        base = segment.base_offset
        before = self._epochs.entries
        if self._noted is None and self._knows_noted:
            first = self.segments[0].base_offset if self.segments else base
            self._noted = NotedEpochs(self._entries, self._flushed, first)
        around = self._around(waiting)
        is_last_end = self._known.clean_shutdown and self._flushed < _ENDLESS
        cleaned = mark_of(self._known.cleaned_offset, self._bases) if self._left_out.was_cleaned else NEVER
        bounds = Bounds(base, None, self._ended(base), is_last_end, waiting, around, self.rejected_point, cleaned)
        found = self._recover(segment, bounds)
        if waiting and segment.next_offset > waiting[0]:
            while waiting and (waiting[0] < found.contiguous_end or self._is_made_up(segment, waiting)):
                self._strays.set_aside(waiting.pop(0), f"the segment before it ends at {segment.next_offset}")
            limit = waiting[0] if waiting else None
            around = self._around(waiting)
            bounds = Bounds(base, limit, self._ended(base), around=around, cleaned=cleaned)
            found = self._recover(segment, bounds)
        self.scanned += 1
        self._epoch_read = max(self._epoch_read, found.last_epoch)
        segment.indexes_were_flushed = self._known.clean_shutdown
        if found.cut:
            self._cut(segment, found)
        limit = waiting[0] if waiting else None
        if segment.ends_damaged:
            segment.end_at(self._end_behind(segment.next_offset, limit))
            is_known = self._known.clean_shutdown and segment.next_offset == self._flushed
            if segment.next_offset == base:  # the file that goes on there has its name
                segment.close()
                self.ends_in_damage = True
                self._strays.set_aside(base, "all of it is damaged, and nothing tells which offsets it held")
                return self._segment(base)
            tails = [one.position for one in segment.damaged.values() if one.start == one.end]
            end = segment.next_offset
            hides = any(segment.holds_batch_from(one, end) for one in tails)  # a batch that no offset is left for
            if hides or (segment.next_offset != limit and not is_known):
                self._tell_end_in_damage(segment)
        for extent in segment.damaged.values():
            told = "" if self._noted is None else self._noted.told(extent.start, extent.end)
            reason = f"{segment.path(LOG_SUFFIX)} is damaged at position {extent.position}{told}"
            self._add_gap(extent.start, extent.end, reason)
        self._restore_epochs(before, segment)
        index_transactions(self.segments, segment, has_markers=found.has_markers)
        return segment

    @property
    def _knows_noted(self) -> bool:
        """Whether it is known up to where all leader epochs are noted: not by a point that no file reaches."""
        return self._flushed == _ENDLESS or reaches(self._bases[-1], self._flushed)

    def _is_made_up(self, segment: Segment, waiting: Sequence[int]) -> bool:
        """Whether the next file is none of the log's: two batches of the segment before it lie behind where it begins.

        One alone may say so because its base offset has changed, unless it begins where another one ends, or ends where
        the file after that begins. If the file has batches of its own, one lies before. A file that leads from its own
        name to that of the file after it is the log's: what the segment has there was left behind its damaged end.
        """
        base, following = waiting[0], next(iter(waiting[1:]), None)
        with suppress(RecordError):
            ends = [header.next_offset for header in segment.headers()]
            beyond = list(islice(segment.headers_from(base), 2))
            if not beyond or self._leads_to(base, following):
                return False
            if len(beyond) == 1 and beyond[0].base_offset not in ends and beyond[0].next_offset != following:
                return False
            return not self._holds_batches(base, following) or ends[0] <= base
        return False

    def _leads_to(self, base: int, following: int | None) -> bool:
        """Whether a file holds each offset from its own name to that of the next file, which there is."""
        segment = self._segment(base)
        found = segment.recover(LeaderEpochCache(), Bounds(base, following), flushed=_ENDLESS)
        segment.close()
        return found.contiguous_end == following

    def _ended(self, base: int) -> int:
        """Where the log once ended: at its recovery point or, if a clean stop's is lost, at the newest snapshot."""
        if self._flushed < _ENDLESS:
            return self._known.recovery_point
        return max((offset for offset in self._snapshots if reaches(base, offset)), default=0)

    def _around(self, waiting: Sequence[int]) -> Around:
        before = partial(last_batch, self.segments) if self.segments else None
        behind = partial(self._first_behind, tuple(waiting)) if waiting else None
        return Around(self._noted, self._epoch_read, before, behind)

    def _first_behind(self, bases: Sequence[int]) -> Beside:
        """The first intact batch of segments that are not taken in yet."""
        return first_batch(self._opened(bases))

    def _opened(self, bases: Sequence[int]) -> Iterator[Segment]:
        """Segments, each as long as it is looked at."""
        for base in bases:
            segment = self._segment(base)
            try:
                yield segment
            finally:
                segment.close()

    def _recover(self, segment: Segment, bounds: Bounds) -> Recovered:
        self._epochs.truncate_from_end(segment.base_offset)
        return segment.recover(self._epochs, bounds, flushed=self._flushed)

    def _cut(self, segment: Segment, found: Recovered) -> None:
        cut, aside = found.cut, ""
        position = segment.size - cut
        if segment.holds_batch_from(position):
            aside = unused_path(self._disk, f"{segment.path(LOG_SUFFIX)}.from-{position}.damaged")
            segment.copy_from(position, aside)
        tell_cut(segment.path(LOG_SUFFIX), cut, segment.next_offset, aside)
        segment.cut(cut)
        self.cut_bytes += cut

    def _tell_end_in_damage(self, segment: Segment) -> None:
        self.ends_in_damage = True
        tell_end_in_damage(segment.path(LOG_SUFFIX), segment.next_offset, self._known.recovery_point)

    def _end_behind(self, end: int, limit: int | None) -> int:
        """Where a segment ends whose file ends with damage."""
        if limit is not None and limit <= self._flushed:
            return limit
        return max(end, self._known_end(end))

    def _start_from(self, end: int) -> int:
        """The log start that is written down; 0 if it is denied, or farther from where the log ends than one can be."""
        return self._start if reaches(end, self._start) else 0

    def _known_end(self, end: int | None) -> int:
        """Up to where something besides the recovery point knows that the log was flushed; None: it has no file.

        A clean stop flushes all. If its recovery point is lost, the high watermark tells of a lost end, and so does a
        snapshot of the producers. What is farther away than a segment reaches no file tells, be they of one mind.
        """
        flushed, committed, start = self._known_flushed, self._known.high_watermark, self._known.log_start_offset
        was_lost = self._flushed == _ENDLESS
        if not was_lost or not reaches(end or 0, committed):
            committed = min(committed, flushed)
        told = [committed, *(self._snapshots if was_lost else ()), self._borne_out(end or 0)]
        told += [start] if start <= flushed else []
        if end is not None:
            told = [offset for offset in told if reaches(end, offset)]
        return max([0, *told, *(offset for offset in (*self._snapshots, *self._bases) if offset <= flushed)])

    def _borne_out(self, end: int) -> int:
        """How far a log start bears out that the log went: to a recovery point before it, or to itself without one."""
        if self._flushed == _ENDLESS:
            return self._start_from(end)
        point = self._known.recovery_point
        return point if point <= self._known.log_start_offset else 0

    def _find_lost_tail(self, starts_below: int | None) -> None:
        """Where the log ends before its recovery point, the rest is a gap if something else knows of it."""
        start = end = self.end_offset
        known_end = max(end, self._known_end(end if self.segments else None))
        if self.segments:
            self.segments[-1].next_offset = known_end
        else:
            start, self._end_without_files = max(self._known.log_start_offset, starts_below or 0), known_end
        self._add_gap(start, known_end, "the end of the log is missing")
        if known_end == self.end_offset < self._known.high_watermark:
            tell_low_end(self._directory, known_end, self._known.high_watermark)
        if self._known.recovery_point > max(known_end, self._known.log_start_offset):
            self.is_point_rejected = True

    def _doubt_end(self) -> None:
        """Whether a log may have gone on where it ends now.

        It was closed, and a snapshot or a file is named after a later offset. Or it has what lies behind its recovery
        point, or something was cut, and nothing else says that it ended here.
        """
        end, point, was_closed = self.end_offset, self._known.recovery_point, self._known.clean_shutdown
        if self.is_point_rejected:
            return  # all is read again without it
        if not self.segments:
            had_file = was_closed or checkpoints.LEADER_EPOCH_CHECKPOINT in self._names
            why = "it has no file left" if had_file else ""
        elif was_closed:
            ends = self._start_from(end), *self._snapshots
            is_odd = point and end not in ends and (self.cut_bytes or end > point)
            why = "nothing says that it ended here" if is_odd or max([*ends, *self._later_files()]) > end else ""
        else:
            return
        self.ends_in_damage |= bool(why)
        if why and (self.segments or not self.gaps):  # else the gap tells what it was
            why = f"the log was closed, and {why}" if was_closed else why
            tell_end_in_doubt(self._directory, max(end, self._end_without_files), point, why)

    def _later_files(self) -> Iterator[int]:
        """After what files are named that may have been the end; one that holds nothing intact only if no file does."""
        return (base for base, has_batches in self._later if has_batches or hold_nothing(self.segments, self.gaps))

    def _restore_epochs(self, before: Sequence[tuple[int, int]], segment: Segment) -> None:
        """Epochs that began in what is damaged are known from the checkpoint only; later segments may not be read."""
        extents, end = segment.damaged.values(), segment.next_offset
        missing = [one for one in before if one[1] >= end or any(gap.start <= one[1] < gap.end for gap in extents)]
        found = sorted({*self._epochs.entries, *missing}, key=lambda entry: entry[1])
        self._epochs.clear()
        for epoch, start_offset in found:
            if self._epochs.latest_epoch is None or epoch > self._epochs.latest_epoch:
                self._epochs.assign(epoch, start_offset)

    def _add_gap(self, start: int, end: int, reason: str) -> None:
        if start < end:
            self.gaps.append(Gap(start, end, reason))
