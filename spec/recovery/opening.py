"""What a log holds that is opened.

Segments are taken in by their names, the first one first. One is believed as it is when it was closed in order, or lies
below the recovery point; else it is read. The first place that is not intact is the torn tail if nothing below the
recovery point is in it: the log ends there. Otherwise it is a gap, and what lies behind it stays in the log.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.recovery.reading import Damaged, Rules
from tidegauge.spec.recovery.replacing import Replacements
from tidegauge.spec.recovery.state import (
    ENDLESS,
    NO_EPOCHS,
    NO_FILE,
    REACH,
    UNREADABLE,
    Batch,
    Gap,
    Rot,
    Segment,
    State,
    is_within,
)


@attrs.define
class Taken:
    """A log that is being taken in."""

    segments: list[Segment]
    gaps: list[Gap]
    aside: set[int]
    first_epoch: int
    end: int = 0
    is_rejected: bool = False
    ends_in_damage: bool = False
    cut_at: list[int] = attrs.field(factory=list)
    """Where the log ends since a torn tail was cut."""
    strays: list[int] = attrs.field(factory=list)
    """Where files begin that are set aside."""
    unsure_ends: list[int] = attrs.field(factory=list)
    """Where files end that end in damage, and may have held more."""
    hidden: set[int] = attrs.field(factory=set)
    """Where batches begin that stay behind the ends of files that end in damage."""
    passed: list[Gap] = attrs.field(factory=list)
    """What a cleaner has left out between two files, of which the first one is read."""
    has_left_out: bool = False
    """Whether it has left out anything there, read or not."""
    doubted: list[Gap] = attrs.field(factory=list)
    """Of these, where a file may be missing: a snapshot has its name."""

    def leave(self, batches: tuple[Batch, ...]) -> None:
        """Keep them in other files."""
        self.aside.update(batch.start for batch in batches if batch.rot is None)

    def set_aside(self, segment: Segment) -> None:
        """Its file gets another name."""
        self.strays.append(segment.base)
        self.leave(segment.batches)

    def add_gap(self, start: int, end: int) -> None:
        if start < end:
            self.gaps.append((start, end))


class Opening(Rules, Replacements):
    """The rules of opening a log; a bug overrides one of them."""

    def opened(self, state: State, *, reads_all: bool) -> State:
        """The log, open. If nothing else knows of a recovery point beyond its end, all is read and none is believed."""
        reads_all |= state.has_note or state.noted in (NO_FILE, UNREADABLE) or self.is_contradicted(state)
        state = self.replaced(state)
        taken = self.taken_in(state, point := self.believed_point(state), reads_all=reads_all)
        if was_rejected := taken.is_rejected:
            taken = self.taken_in(state, point := 0, reads_all=True)
        if self.begin_behind(state, taken):
            taken = self.taken_in(state, point, reads_all=True)
            state = evolve(state, is_contradicted=state.is_contradicted or self.begin_behind(state, taken))
            reads_all = True
        segments, gaps = taken.segments, sorted(taken.gaps)
        if not segments:
            segments = [Segment(max([state.start, taken.end, *(end for _, end in gaps)]))]
        elif segments[-1].torn or (gaps and gaps[-1][1] > segments[-1].base):
            segments = [*segments, Segment(taken.end)]
        end, first = max(taken.end, segments[-1].base), segments[0].base
        start = self.believed_start(state, first, end)
        gaps = [gap for gap in gaps if gap[1] > start or gap[0] < first]
        gaps = sorted({*gaps, *self.met(segments, start, end, gaps)})
        told = state.start if state.start <= start else 0
        in_doubt = bool(taken.segments) and first > told and self.is_start_unknown(state, first)
        in_doubt &= all(gap[0] >= first for gap in gaps)
        first_epoch = taken.first_epoch
        if first_epoch != NO_EPOCHS:
            first_epoch = NO_EPOCHS if first_epoch >= end else max(first_epoch, start - 1)
        written = min(state.start, start)
        state = evolve(state, first_epoch=first_epoch, start=start, gaps=tuple(gaps))
        return evolve(
            state,
            segments=tuple(evolve(one, synced=len(one.batches)) for one in segments),
            is_open=True,
            written=start if in_doubt else self.written_start(state, written),
            end=end,
            flushed=end,
            point=min(state.point, end),
            noted=state.first_epoch if in_doubt else state.written_epochs,
            snapshots=self.kept_snapshots(state, segments, start, end),
            is_clean=False,
            is_contradicted=state.is_contradicted and not reads_all,
            mark=min(state.mark, end),
            gap_in_doubt=bool(taken.doubted),
            has_begun=False,
            is_hit=False,
            left_out=tuple(one for one in state.left_out if one[0] < end),
            has_note=self.is_noted(gaps),
            was_rejected=was_rejected,
            ends_in_damage=taken.ends_in_damage,
            start_in_doubt=in_doubt,
            start_is_lost=False,
            began=0,
            aside=state.aside | taken.aside,
            hidden=frozenset(taken.hidden),
        )

    def taken_in(self, state: State, point: int, *, reads_all: bool) -> Taken:
        """The segments that belong to the log, with what of them is damaged."""
        flushed = self.flushed_up_to(state, point)
        taken = Taken([], [], set(), max(state.noted, NO_EPOCHS))
        waiting = list(state.segments)
        known_start = None if state.noted < 0 else state.noted
        if known_start is not None:
            while len(waiting) > 1 and self.is_early_stray(state, waiting[0], waiting[1].base):
                taken.set_aside(waiting.pop(0))
            if waiting and known_start + 1 < waiting[0].base:
                taken.add_gap(known_start + 1 if known_start else 0, waiting[0].base)
        while waiting:
            segment = waiting.pop(0)
            if not self.belongs(taken, segment, flushed):
                taken.set_aside(segment)
                continue
            limit = waiting[0].base if waiting else None
            if self.is_trusted(state, segment, limit, point, reads_all=reads_all):
                taken.segments.append(segment)
                taken.end = segment.end if limit is None else limit
                self.pass_over(state, taken, segment.end)
                continue
            while waiting and self.is_made_up(segment, waiting[0], waiting[1].base if waiting[1:] else None):
                taken.set_aside(waiting.pop(0))
            limit = waiting[0].base if waiting else None
            self.take_in_read(state, taken, segment, limit, point, flushed)
            if limit is not None and taken.end < limit and self.is_left_out(state, segment.base, limit, point):
                taken.passed.append((taken.end, limit))
                start, taken.end = taken.end, limit
                self.pass_over(state, taken, start)
        known_end = self.known_end(state, point, taken.end if taken.segments else None)
        if known_end > taken.end:
            start = taken.end if taken.segments else max(state.start, known_start or 0)
            taken.add_gap(start, known_end)
            taken.end = known_end
        taken.ends_in_damage |= self.is_end_unsure(state, taken, point)
        taken.is_rejected = self.is_rejected(point, max(taken.end, known_end, state.start))
        return taken

    def pass_over(self, state: State, taken: Taken, start: int) -> None:
        """What a cleaner has left out up to the next file, which may as well be a file that is lost.

        A cleaner removes the snapshot with the file that it is named after.
        """
        bases = {segment.base for segment in state.segments}
        taken.has_left_out |= start < taken.end
        if self.is_file_lost(state, bases, start, taken.end):
            taken.doubted.append((start, taken.end))

    def is_file_lost(self, state: State, bases: set[int], start: int, end: int) -> bool:
        """Whether a snapshot is named after an offset there, and no file is."""
        return any(start <= one < end and one not in bases for one in state.snapshots)

    def is_made_up(self, segment: Segment, behind: Segment, following: int | None) -> bool:
        """Whether the file behind one is none of the log's: two batches of that one lie behind where it begins.

        One alone may say so since its base offset has changed, unless nothing is missing before it, it begins where
        another one ends, or it ends where the file after that begins, which is `following`. If the file behind has
        batches of its own, one lies before.
        """
        believed, end = self.read(segment).believed, segment.base
        for batch in believed:
            if batch.start > end:
                break
            end = batch.end
        if behind.base < end:
            return True
        beyond = [one for one in believed if one.end > behind.base]
        is_borne_out = [one.end for one in beyond] == [following] or self.follows_another(believed, beyond)
        return (len(beyond) > 1 or is_borne_out) and (not self.read(behind).believed or believed[0].end <= behind.base)

    def follows_another(self, batches: tuple[Batch, ...], beyond: list[Batch]) -> bool:
        """Whether the first of these batches, which are the last ones of a file, begins where the one before it ends.

        If its base offset had grown, that one's would have grown as well.
        """
        return bool(beyond) and any(one.end == beyond[0].start for one in batches)

    def is_early_stray(self, state: State, segment: Segment, limit: int) -> bool:
        """Whether a first segment was never one of the log: all of it lies below the start, and holds nothing.

        In a log that is known to be damaged the leader epochs may begin behind what is damaged.
        """
        return not state.has_note and limit <= state.noted and not self.read(segment).believed

    def is_contradicted(self, state: State) -> bool:
        """Whether the batches at which the leader epochs are to begin say otherwise: then all is read."""
        return state.is_contradicted

    def begin_behind(self, state: State, taken: Taken) -> bool:
        """Whether the first leader epoch is to begin behind the end of what is left, so that it cannot be this log's.

        A clean stop flushes all. A crash takes what was not flushed, and may leave an epoch whose records are gone: it
        is later than any that is left.
        """
        if not taken.segments or state.noted <= taken.end:
            return False
        batches = [batch for segment in state.segments for batch in segment.batches]
        noted = [batch.epoch for batch in batches if batch.start <= state.noted < batch.end]
        left = [batch for segment in taken.segments for batch in segment.batches if batch.rot is None]
        left = [batch for batch in left if not is_within(batch, taken.gaps)]
        return state.is_clean or any(epoch <= left[-1].epoch for epoch in noted if left)

    def believed_point(self, state: State) -> int:
        """The recovery point; 0 where it is as good as lost.

        A clean stop notes the log's end. Where the log starts later, a cleaner was at later offsets, or a snapshot is
        named after a later offset and the last file does not end there, that is too low, and damage at the end would be
        taken for a torn tail. No snapshot of the log is named after an offset that its last file does not reach.
        """
        reach = self.reach(state.segments[-1].base if state.segments else None)
        is_beyond = any(state.point < offset <= reach for offset in state.snapshots)
        is_beyond = is_beyond and not self.ends_at(state, state.point)
        told = max(self.start_from(state, state.point), self.mark_of(state))
        is_too_low = state.point < told <= state.point + REACH or is_beyond
        return 0 if state.is_clean and is_too_low else state.point

    def ends_at(self, state: State, offset: int) -> bool:
        """Whether the last file is whole, and ends there; if it is empty, the last one does too that is not.

        It is whole as far as its own batches tell: of the first and the last one's leader epoch they do not.
        """
        last = [*state.segments[-1:], *[one for one in state.segments if one.batches or one.torn][-1:]]
        return all(map(_looks_whole, last)) and {one.end for one in last} == {offset}

    def rejected_end(self, state: State, point: int) -> int:
        """A recovery point that was rejected, when the log is read without it: no batch may leap over it."""
        was_lost = self.believed_point(state) != state.point
        return 0 if point or was_lost else state.point

    def is_rejected(self, point: int, known_end: int) -> bool:
        """Whether nothing else knows of what the recovery point says."""
        return point > known_end

    def belongs(self, taken: Taken, segment: Segment, flushed: int) -> bool:
        """Whether a segment that does not begin where the one before it ends is one of the log all the same."""
        if not taken.segments or segment.base == taken.end:
            return True
        if segment.base < taken.end or segment.base > flushed or not self.read(segment).believed:
            return False
        taken.add_gap(taken.end, segment.base)
        return True

    def is_trusted(self, state: State, segment: Segment, limit: int | None, point: int, *, reads_all: bool) -> bool:
        """Whether a segment is as its name and that of the next one say, without being read."""
        if reads_all or segment.torn:
            return False
        if limit is None:
            return state.is_clean and segment.end == point
        if not state.is_clean and limit > point:
            return False
        if segment.end < limit:
            return self.is_left_out(state, segment.base, limit, point)
        return segment.end == limit

    def is_left_out(self, state: State, base: int, limit: int, point: int) -> bool:
        """Whether a file that ends before the next one begins has lost nothing: a cleaner has left it out.

        The checkpoint of the cleaner names the log. No cleaner leaves out what was not flushed, and where one file ends
        is no farther from where it begins than a file reaches.
        """
        flushed = self.flushed_up_to(state, point)
        is_near = limit <= min(flushed, base + REACH + 1)
        return bool(state.left_out) and is_near and self.is_end_told(state, base, limit, point)

    def is_end_told(self, state: State, base: int, limit: int, point: int) -> bool:
        """Whether a log went as far as a file is named after: the file holds a batch, or something else says so."""
        told = (*state.snapshots, state.high_watermark, self.start_not_denied(state))
        is_told = limit <= self.known_flushed(state, point) or any(limit <= one <= base + REACH for one in told)
        return is_told or any(one.base == limit and self.read(one).believed for one in state.segments)

    def mark_of(self, state: State) -> int:
        """Up to where a cleaner was, which is in no file that is appended to; 0 where that is said, or none was."""
        return state.mark if state.left_out and state.segments and state.mark <= state.segments[-1].base else 0

    def take_in_read(
        self, state: State, taken: Taken, segment: Segment, limit: int | None, point: int, flushed: int
    ) -> None:
        """Read a segment: what is torn is cut, what is damaged is a gap."""
        rejected = self.rejected_end(state, point)
        ended = self.ended(state, point, segment.base)
        reading = self.read(segment, ended, limit, rejected=rejected, mark=self.mark_of(state))
        torn = next((one for one in reading.damaged if self.is_torn(one, flushed)), None)
        damaged = reading.damaged
        end = reading.end
        if torn is not None:
            damaged = damaged[: damaged.index(torn)]
            end = torn.start
            taken.cut_at.append(end)
            taken.leave(self.kept_of_cut(segment, torn))
            kept = tuple(batch for batch in segment.batches if batch.end <= torn.start)
            segment = evolve(segment, batches=kept, torn=False)
        if damaged and damaged[-1].end is None:
            known_end = self.known_end(state, point, reading.end)
            end = limit if limit is not None and limit <= flushed else max(end, known_end)
            hides = end == reading.end and any(one.start >= end and one.rot is None for one in segment.batches)
            is_unsure = hides or not self.is_known_end(state, segment, end, limit, flushed)
            taken.ends_in_damage |= is_unsure
            reached = tuple(batch for batch in segment.batches if batch.start < end)
            if self.stays(segment, end):
                taken.unsure_ends += [end] if is_unsure else []
                taken.hidden |= {one.start for one in segment.batches[len(reached) :] if one.rot is None}
                segment = evolve(segment, batches=reached, torn=segment.torn or reached != segment.batches)
            else:
                taken.set_aside(segment)
                segment = Segment(segment.base)
        gaps = [(one.start, end if one.end is None else one.end) for one in damaged]
        found = [max(one.start, segment.base) for one in reading.believed if one.start < end][:1]
        known = taken.first_epoch
        if known != NO_EPOCHS and (not segment.base <= known < end or any(a <= known < b for a, b in gaps)):
            found.append(known)
        taken.first_epoch = min(found, default=NO_EPOCHS)
        for start, stop in gaps:
            taken.add_gap(start, stop)
        taken.end = end
        taken.segments.append(segment)

    def kept_of_cut(self, segment: Segment, torn: Damaged) -> tuple[Batch, ...]:
        """What is kept apart of what is cut: all that is intact, whether or not it is believed to be the log's."""
        return tuple(batch for batch in segment.batches if batch.end > torn.start)

    def is_end_unsure(self, state: State, taken: Taken, point: int) -> bool:
        """Whether a log may have gone on where it ends now.

        It was closed, and a snapshot or a file is named after a later offset. Or it has what lies behind its recovery
        point, or something was cut, and nothing else says that it ended here.
        """
        if not taken.segments:
            return self.is_file_missing(state)
        ends = {self.start_from(state, taken.end), *state.snapshots}
        is_odd = point > 0 and taken.end not in ends and (bool(taken.cut_at) or taken.end > point)
        return state.is_clean and (is_odd or max([*ends, *self.later_files(state, taken)]) > taken.end)

    def later_files(self, state: State, taken: Taken) -> Iterator[int]:
        """After what files are named that may have been the log's end; one that holds nothing only if no file does.

        What is damaged is nothing: it may never have been a batch. What a cleaner has left out is something.
        """
        batches = (batch for segment in taken.segments for batch in segment.batches)
        is_empty = all(is_within(batch, taken.gaps) for batch in batches) and not taken.has_left_out
        for segment in state.segments:
            if segment.base > taken.end and (is_empty or self.read(segment).believed):
                yield segment.base

    def is_file_missing(self, state: State) -> bool:
        """Whether a log without any file has had one: it was closed, or its leader epochs were written down."""
        return state.is_clean or state.noted != NO_FILE

    def start_not_denied(self, state: State) -> int:
        """The log start that is written down, unless leader epochs deny it: 0 then. A file without any denies nothing.

        Of a log that was closed in order the end is not before it. So where nothing else tells, and the recovery point
        or a damaged file seems to end before it, these are damaged, and not the log start as well.
        """
        return 0 if 0 < state.noted + 1 < state.start else state.start

    def start_from(self, state: State, end: int) -> int:
        """The same; 0 as well where it is farther from the log's end than one can be."""
        start = self.start_not_denied(state)
        return start if start <= end + REACH else 0

    def is_known_end(self, state: State, segment: Segment, end: int, limit: int | None, flushed: int) -> bool:
        """Whether something tells that a file which ends in damage held nothing from there on."""
        return end > segment.base and (end == limit or (state.is_clean and end == flushed))

    def stays(self, segment: Segment, end: int) -> bool:
        """Whether a file that ends in damage is one of the log: else the file that goes on there has its name."""
        return end > segment.base

    def is_torn(self, damaged: Damaged, flushed: int) -> bool:
        """Whether a place that is not intact is what a crash leaves: nothing before the recovery point is in it."""
        return damaged.start >= flushed

    def known_end(self, state: State, point: int, end: int | None) -> int:
        """Up to where something beside the recovery point knows that a log was flushed that ends there, or has no file.

        A clean stop flushes all: without its recovery point the high watermark tells of an end that is lost, and so
        does a snapshot of the producers, for of those beyond the end none is kept. What is farther away than one file
        reaches nothing tells.
        """
        flushed = self.known_flushed(state, point)
        reach = self.reach(end)
        is_whole = state.is_clean and not point and state.high_watermark <= (end or 0) + REACH
        told = {state.high_watermark if is_whole else min(state.high_watermark, flushed), *self.ends_told(state, point)}
        told |= {self.borne_out(state, point, end)}
        names = {*state.snapshots, *(segment.base for segment in state.segments)}
        names |= {state.start} if state.start <= reach else set()
        return max([0, *(one for one in told if one <= reach), *(one for one in names if one <= flushed)])

    def reach(self, end: int | None) -> int:
        """How far a lost end of a log may be from where it ends; None where it has no file."""
        return ENDLESS if end is None else end + REACH

    def borne_out(self, state: State, point: int, end: int | None) -> int:
        """How far a log start bears out that the log went: to a recovery point before it, or to itself without one."""
        if state.is_clean and not point:
            return self.start_from(state, end or 0)
        return point if point <= min(state.start, self.reach(end)) else 0

    def ends_told(self, state: State, point: int) -> frozenset[int]:
        """What snapshots tell of the end after a clean stop whose recovery point is lost."""
        return state.snapshots if state.is_clean and not point else frozenset()

    def ended(self, state: State, point: int, base: int) -> int:
        """Where the log once ended: at its recovery point or, if a clean stop's is lost, at the newest snapshot.

        A snapshot tells it of a file that reaches so far.
        """
        return max([point, *(one for one in self.ends_told(state, point) if one <= base + REACH)])

    def known_flushed(self, state: State, point: int) -> int:
        """Below which nothing was lost by a crash: what lies before a log start is flushed before that is noted.

        So is what a cleaner was at.

        Without a recovery point a log that was closed is flushed as a whole.
        """
        start = state.start if self.is_start_witnessed(state) else 0
        return point if state.is_clean and point else max(point, start, self.mark_of(state))

    def flushed_up_to(self, state: State, point: int) -> int:
        """The same; a clean stop without its recovery point has flushed all."""
        return ENDLESS if state.is_clean and not point else self.known_flushed(state, point)

    def is_start_witnessed(self, state: State) -> bool:
        """Whether the leader epochs, which are written down before it, say that the log starts there."""
        return state.start <= state.noted + 1

    def met(self, segments: list[Segment], start: int, end: int, gaps: list[Gap]) -> Iterator[Gap]:
        """What a reader of all of the log meets in segments that were not read: it is looked for in the whole file.

        What lies below the start is no part of the log: a repair of it would cut what is whole.
        """
        ends = [*(one.base for one in segments[1:]), end]
        for segment, known_end in zip(segments, ends, strict=True):
            hit = [batch for batch in segment.batches if batch.rot is not None and batch.end > start]
            if not all(is_within(batch, gaps) for batch in hit):
                yield from self.gaps_in(segment, start, known_end)

    def gaps_in(self, segment: Segment, start: int, known_end: int) -> Iterator[Gap]:
        """What is damaged of a file that ends there, of a log that starts there."""
        for one in self.read(segment, following=known_end, known_end=known_end).damaged:
            end = known_end if one.end is None else one.end
            if end > start:
                yield one.start, end

    def met_again(self, state: State, base: int) -> State:
        """A reader has met damage in a file of an open log: all of the file is read, and what was known of it is new.

        A gap that is in no file stays.
        """
        segment = next(one for one in state.segments if one.base == base)
        following = state.following(segment)
        known_end = state.end if following is None else following
        known = {gap for gap in state.gaps if segment.base <= gap[0] < known_end}
        gaps = sorted({*state.gaps} - known | {*self.gaps_in(segment, state.start, known_end)})
        after = evolve(state, gaps=tuple(gaps), has_note=state.has_note or self.is_noted(gaps))
        return evolve(after, written=self.written_start(after, state.written))

    def is_noted(self, gaps: list[Gap]) -> bool:
        """Whether the next process is told to read all of the log."""
        return bool(gaps)

    def is_start_unknown(self, state: State, first: int) -> bool:
        """Whether nothing tells that what lay before the first segment was deleted: the leader epochs would.

        A file that is there without any says nothing: a log that was cut to its first record has one as well.
        They do not tell whether the record was deleted with which the first one begins. A clean stop writes that down.
        Those of a log that is known to be damaged may have been made anew, and begin behind what is damaged.
        """
        is_unsure = state.is_clean and not state.start_is_lost and first == state.noted + 1
        is_unsure |= state.has_note and not 0 <= state.noted < first
        return is_unsure or state.noted < 0 or self.is_contradicted(state)

    def written_start(self, state: State, written: int) -> int:
        """What is written down of the start of an open log, where `written` was: no less than leader epochs do not say.

        There are none that say it of a log that knows of none. Those of a log that is damaged are not believed later.
        """
        return state.start if state.first_epoch == NO_EPOCHS or state.gaps else written

    def checkpointed(self, state: State) -> int:
        """The same when all is written down: a start that its first file and its leader epochs say is left out."""
        is_said = state.start == state.segments[0].base
        return self.written_start(state, 0 if is_said else state.start)

    def believed_start(self, state: State, first: int, end: int) -> int:
        """Where the log starts: not beyond what the leader epochs bear witness to."""
        latest = end if state.noted < 0 else min(end, state.noted + 1)
        if state.start > max(first, latest):
            return min(first, end)
        return min(max(state.start, first), end)

    def kept_snapshots(self, state: State, segments: list[Segment], start: int, end: int) -> frozenset[int]:
        """Those at the beginning of a segment, and the last one."""
        last = max((offset for offset in state.snapshots if offset <= end), default=None)
        bases = {segment.base for segment in segments}
        return frozenset(
            offset for offset in state.snapshots if start < offset <= end and (offset in bases or offset == last)
        )


def _looks_whole(segment: Segment) -> bool:
    """Whether nothing of a file is damaged, as far as its batches tell."""
    rots = [batch.rot for batch in segment.batches]
    if rots and rots[0] is Rot.LOW:
        rots[0] = None
    if rots and rots[-1] is Rot.EPOCH:
        rots[-1] = None
    return not segment.torn and not any(rots)
