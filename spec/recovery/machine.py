"""A log, a disk, crashes and damage: what a log that is opened again holds.

A log is appended to, rolled, flushed, cut, and started later. It is closed in order, or a crash takes what was not
flushed: of each file some of the last batches, perhaps in the middle of one. Then the disk may do worse: spoil a batch,
lose a file, lose or spoil what was written down beside the segments. Opening the log again loses nothing that was
flushed and is intact, serves nothing that is not, and gives no offset twice.

Two rules are not innocent. A recovery point that nothing else knows of is not believed: then what it alone said of a
lost tail is not believed either. And what is behind damage that was not flushed is kept in a file of its own, but is no
part of the log.

How a file is read is in `reading`, how a log is opened in `opening`, what an interrupted cleaner leaves in `replacing`,
what has to hold in `properties`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import ClassVar

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.machine import Action, Machine, NotEnabled
from tidegauge.spec.recovery.actions import (
    DAMAGE,
    FAR,
    Append,
    AppendAcross,
    Close,
    Crash,
    Flush,
    LoseEpochs,
    LosePoint,
    LoseSegment,
    LoseStart,
    LowerPoint,
    MakeUp,
    MakeUpSnapshot,
    Meet,
    NoteHighWatermark,
    Open,
    Repair,
    Roll,
    Spoil,
    SpoilHighWatermark,
    SpoilPoint,
    SpoilStart,
    StartAnew,
    StartAt,
    Truncate,
)
from tidegauge.spec.recovery.elsewhere import BeginEpoch, LeaveOut, done_elsewhere, elsewhere_guard, left_out
from tidegauge.spec.recovery.epoch_lies import Lie, SpoilEpochs, lie_guard
from tidegauge.spec.recovery.odd_epochs import (
    are_told,
    are_told_to_readers,
    epochs_guard,
    forgets_an_epoch,
    is_told_by_two,
    low_guard,
    told_by_epochs,
)
from tidegauge.spec.recovery.properties import Properties
from tidegauge.spec.recovery.replacing import Interrupt, interruption_guard, interruptions
from tidegauge.spec.recovery.state import NO_EPOCHS, NO_FILE, UNREADABLE, Batch, Replacing, Rot, Segment, State


def _is_there(state: State, action: Action) -> bool:
    """Whether the log has the file and the batch that the action names."""
    match action:
        case StartAt(offset):
            return any(offset in (batch.start, batch.end) for one in state.segments for batch in one.batches)
        case Truncate(offset):
            return any(offset == batch.start for one in state.segments for batch in one.batches)
        case Crash(file, kept):
            if file >= len(state.segments):
                return False
            return kept <= len(state.segments[file].batches) - state.segments[file].synced
        case LoseSegment(base):
            return any(one.base == base for one in state.segments)
        case Spoil(base, number) | Meet(base, number):
            return any(one.base == base and number < len(one.batches) for one in state.segments)
        case MakeUp(base):
            return base <= state.end + 1 or base == FAR
    return True


def _is_witness(state: State, action: Action) -> bool:
    """Whether what contradicts the leader epochs may be lost: the last batch, or the one at which the first begins.

    Nor all beside it: where nothing but damage is beside a batch, nobody contradicts what is noted of it.
    """
    if not isinstance(action, LoseSegment):
        return isinstance(action, Spoil)
    lost, left = list[Batch](), list[Batch]()
    for segment in state.segments:
        (lost if segment.base == action.base else left).extend(segment.batches)
    if action.base == state.segments[-1].base or len(left) < 2:
        return True
    is_last = bool(lost) and lost[-1].start > left[-1].start
    return is_last or any(batch.start <= state.noted < batch.end for batch in lost)


def _begins_before(segment: Segment) -> bool:
    """Whether the first batch of a file begins before it."""
    return bool(segment.batches) and segment.batches[0].start < segment.base


def _goes_far(action: Action) -> bool:
    """Whether it makes up an offset that no log has; points and starts that are such ones are in every model."""
    match action:
        case MakeUp(base):
            return base == FAR
        case Spoil(_, _, rot):
            return rot is Rot.FAR
    return isinstance(action, (MakeUpSnapshot, SpoilHighWatermark))


@attrs.frozen
class Recovery(Properties, Machine[State]):
    """The constants bound a search."""

    action_types: ClassVar[tuple[type[Action], ...]] = (
        Append,
        Roll,
        Flush,
        NoteHighWatermark,
        StartAt,
        Truncate,
        StartAnew,
        Repair,
        Close,
        Crash,
        Open,
        *DAMAGE,
        Meet,
        Interrupt,
        LeaveOut,
        BeginEpoch,
        AppendAcross,
    )

    max_appends: int = 3
    max_crashes: int = 1
    max_damages: int = 1
    replaces: bool = False
    """Whether a process may die while segments are replaced."""
    lies: bool = False
    """Whether a file of leader epochs may have others than the log's."""
    starts_anew: bool = False
    """Whether a log may start anew where its leader's does; each time counts as an append."""
    was_elsewhere: bool = False
    """Whether Kafka's own brokers have the log at times."""
    goes_far: bool = False
    """Whether base offsets, names and the high watermark may become offsets that no log has."""
    odd_epochs: bool = False
    """Whether the last batch of a file may have another leader epoch, which only those that are noted tell."""
    starts_inside: bool = False
    """Whether a log that starts anew may start inside a batch, which is its first one then."""
    reads_on: bool = False
    """Whether the disk damages an open log as well, and a reader meets that."""

    def initial(self) -> Iterable[State]:
        return (State(),)

    def actions(self, state: State) -> Iterable[Action]:
        return (action for action in self._candidates(state) if not self.guard(state, action))

    def _candidates(self, state: State) -> Iterator[Action]:
        if not state.is_open:
            yield from (Open(reads_all) for reads_all in (False, True))
            yield from (LoseEpochs(False), LoseEpochs(True), LosePoint(), SpoilPoint(), SpoilStart())
            yield LoseStart()
            yield from (LowerPoint(offset) for offset in range(1, state.end))
            left = {Rot.FAR} if not self.goes_far else set()
            rots = [rot for rot in Rot if rot not in left and (self.odd_epochs or rot is not Rot.LOW)]
            for segment in state.segments:
                yield LoseSegment(segment.base)
                yield from (Spoil(segment.base, number, rot) for number in range(len(segment.batches)) for rot in rots)
            far = (FAR,) if self.goes_far else ()
            yield from (MakeUp(base, is_empty) for base in (*range(state.end + 2), *far) for is_empty in (False, True))
            yield from (MakeUpSnapshot(False), MakeUpSnapshot(True), SpoilHighWatermark()) if self.goes_far else ()
            yield from (SpoilEpochs(lie) for lie in Lie if self.lies)
            yield from done_elsewhere(state) if self.was_elsewhere else ()
            return
        yield from (Append(records, new) for records in (1, 2) for new in (False, True))
        yield from (Roll(), Flush(False), Flush(True), NoteHighWatermark(), Repair(), Close())
        for segment in state.segments:
            for batch in segment.batches:
                yield from (StartAt(batch.start), StartAt(batch.end), Truncate(batch.start))
        yield from (StartAnew(state.end + 1, knows) for knows in (False, True) if self.starts_anew)
        yield from (AppendAcross(new) for new in (False, True) if self.starts_inside)
        yield from interruptions(state) if self.replaces else ()
        if self.reads_on:
            for segment in state.segments:
                for number in range(len(segment.batches)):
                    yield from (Meet(segment.base, number, rot) for rot in (Rot.CONTENT, Rot.LENGTH))
        for file, segment in enumerate(state.segments):
            for kept in range(len(segment.batches) - segment.synced + 1):
                yield from (Crash(file, kept, torn, first) for torn in (False, True) for first in (False, True))

    def guard(self, state: State, action: Action) -> str:
        """Why the action cannot happen; "" when it can."""
        if isinstance(action, (Open, LeaveOut, BeginEpoch, *DAMAGE)):
            if state.is_open:
                return "the log is open"
            if isinstance(action, (LeaveOut, BeginEpoch)):
                return elsewhere_guard(state, action) if self.was_elsewhere else "no other broker has the log"
            if isinstance(action, DAMAGE):
                if state.damages >= self.max_damages or not state.segments:
                    return "enough damage, or nothing that could be damaged"
                if not _is_there(state, action):
                    return "there is no such file or batch"
                return self._damage_guard(state, action)
            return self._open_guard(state, action)
        if not state.is_open:
            return "the log is closed"
        if isinstance(action, (StartAt, Truncate, Meet, Crash)) and not _is_there(state, action):
            return "the log has no such batch"
        match action:
            case Append() | AppendAcross() if state.appended >= self.max_appends:
                return "enough was appended"
            case AppendAcross():
                return self._across_guard(state) if self.starts_inside else "no log starts inside a batch"
            case Roll() if not state.segments[-1].batches:
                return "the active segment is empty"
            case Flush() if state.flushed == state.end == state.point and self.checkpointed(state) == state.written:
                return "all is flushed"
            case NoteHighWatermark() if state.high_watermark == state.end:
                return "it is written down"
            case StartAt(offset) if not state.start < offset <= state.end:
                return "the log does not start later then"
            case StartAnew() if not self.starts_anew or state.appended >= self.max_appends:
                return "enough has started anew"
            case StartAnew(offset) if offset <= state.end:
                return "a log starts anew where its leader's does, which is later than it ends"
            case StartAt() if why := low_guard(state, action):
                return why
            case StartAt(offset) if state.gaps:
                return self._giving_up_guard(state, offset)
            case Truncate() | StartAnew() if state.gaps:
                return "a damaged log is repaired first"
            case Truncate(offset) if any(b.end == offset and b.rot for one in state.segments for b in one.batches):
                return "what tells the damage before it would be gone"
            case Truncate(offset) if not state.start <= offset:
                return "the log starts later"
            case Truncate(offset) if any(end == offset for _, end in state.left_out):
                return "a log that is cut behind what was left out gets batches without records there"
            case Meet():
                return self._meeting_guard(state, action) if self.reads_on else "nobody reads on"
            case Repair() if not state.gaps:
                return "nothing is damaged"
            case Crash() | Interrupt() if state.crashes >= self.max_crashes:
                return "enough crashes"
            case Interrupt():
                return interruption_guard(state, action) if self.replaces else "nothing is replaced"
            case Crash(file, kept, torn, first):
                return self._crash_guard(state, file, kept, torn=torn, first=first)
            case _ if not isinstance(action, self.action_types):
                raise NotImplementedError(action)
        return ""

    def _across_guard(self, state: State) -> str:
        """A batch may begin before a log that has started anew: no snapshot is left of what it had, and no damage."""
        is_new = state.segments == (Segment(state.start),) and state.start == state.end and not state.snapshots
        return "" if is_new and state.start and not (state.aside or state.gaps) else "the log has begun"

    def _giving_up_guard(self, state: State, offset: int) -> str:
        """A damaged log may start behind damage, or with a batch that is served."""
        if not self.reads_on or not any(offset in (batch.start, batch.end) for batch in state.served):
            return "a damaged log is repaired first"
        is_inside = any(start <= offset < end for start, end in state.gaps)
        return "it would start in what is damaged" if is_inside else ""

    def _meeting_guard(self, state: State, action: Meet) -> str:
        segment = next(one for one in state.segments if one.base == action.base)
        batch = segment.batches[action.number]
        if state.damages >= self.max_damages or action.rot not in (Rot.CONTENT, Rot.LENGTH):
            return "enough damage, or none that its reader meets"
        if batch.rot is not None or batch.end <= state.start or state.is_refused(batch):
            return "nobody reads it"
        if any(one.rot is not None and not one.rot.is_seen_alone for one in segment.batches):
            odd = told_by_epochs(evolve(state, segments=(segment,)))
            is_alone = all(one in odd or one.rot is None or one.rot.is_seen_alone for one in segment.batches)
            spoilt = self._damaged(state, Spoil(action.base, action.number, action.rot))
            if not (is_alone and self.odd_epochs and are_told_to_readers(spoilt)):
                return "nothing would tell the damage before it"
        if not segment.torn and any(start == segment.end for start, _ in state.gaps):
            return "where its file ends only the process knows that has read it"
        return ""

    def _crash_guard(self, state: State, file: int, kept: int, *, torn: bool, first: bool) -> str:
        segment, later = state.segments[file], state.segments[file + 1 :]
        unsynced = len(segment.batches) - segment.synced
        if torn and kept == unsynced:
            return "there is nothing that could be torn"
        if first and not any(one.synced < len(one.batches) for one in later):
            return "nothing later was written first"
        return "" if kept < unsynced or file + 1 == len(state.segments) else "that is the crash of a later file"

    def _telling_guard(self, state: State, action: Action, *, is_lost: bool) -> str:
        """Why nothing would tell the damage, or what tells of another one would be damaged as well; "" where it may be.

        `is_lost`: whether the recovery point or the log start is one that no log has.
        """
        is_far = FAR in (state.high_watermark, *state.snapshots, *(one.base for one in state.segments))
        if state.replacing is not None or (state.has_begun and state.is_clean):
            return "the files of a replacement, or an epoch without records, are not damaged as well"
        if state.end + 1 in state.snapshots:
            return "what says that a snapshot is made up would be damaged as well"
        if isinstance(action, (SpoilPoint, SpoilStart)) and is_far:
            return "two that say the same would be believed"
        if isinstance(action, (Spoil, LoseSegment, MakeUp, MakeUpSnapshot, SpoilHighWatermark)) and is_lost:
            return "what tells damage from a torn tail is damaged"
        if isinstance(action, (Spoil, LoseEpochs, SpoilEpochs)) and forgets_an_epoch(state, action):
            return "what has the leader epoch of the record before the start would be damaged as well"
        if state.is_contradicted and _is_witness(state, action):
            return "what contradicts the file of leader epochs would be damaged as well"
        if not self.goes_far and _goes_far(action):
            return "nothing goes so far"
        if why := low_guard(state, action):
            return why
        if not (self.odd_epochs and told_by_epochs(state)):
            return ""
        return epochs_guard(state, action, self._damaged(state, action), partial(self._rejects_point, state, action))

    def _damage_guard(self, state: State, action: Action) -> str:
        made_up = any(segment.is_stray for segment in state.segments)
        spoilt = state.has_note or made_up or any(b.rot is not None for one in state.segments for b in one.batches)
        is_lost = FAR in (state.point, state.start)
        if why := self._telling_guard(state, action, is_lost=is_lost):
            return why
        match action:
            case LoseSegment() if FAR in state.snapshots and len(state.segments) == 1:
                return "a snapshot that somebody has made up would be all that is left"
            case LoseSegment() if made_up:
                return "a file that somebody has made up would be all that is left"
            case LoseSegment(base) if state.is_clean and 0 < state.point < state.flushed:
                left = [one for one in state.segments if one.base != base]
                return "a log that was closed there looks so too" if left and left[-1].end == state.point else ""
            case LosePoint() | LowerPoint() | LoseStart() if made_up or is_lost or (spoilt and not state.is_clean):
                return "it tells damage from a torn tail, and something is damaged"
            case SpoilPoint() | SpoilStart() if spoilt or is_lost:
                return "it tells damage from a torn tail, and something is damaged"
            case Spoil(base, number, rot):
                segment = next(one for one in state.segments if one.base == base)
                around = segment.batches[max(0, number - 1) : number + 2]
                if made_up or segment.batches[number].rot is not None:
                    return "it is damaged"
                if rot.is_seen_alone:
                    beside = any(one.rot is not None and not one.rot.is_seen_alone for one in around)
                    return "nothing would tell the damage before it" if beside else ""
                if rot is Rot.LOW:
                    is_told = self.odd_epochs and is_told_by_two(state, segment, number)
                    return "" if is_told else "nothing tells it"
                is_odd = rot is Rot.EPOCH and self.odd_epochs and segment.batches[number] == segment.batches[-1]
                if is_odd and are_told(self._damaged(state, action)) and not self._rejects_point(state, action):
                    return ""
                behind = segment.batches[number + 1 : number + 2]
                told = bool(behind) and all(one.rot is None for one in around)
                is_below_start = segment.batches[number].start < state.start
                return "" if told and not is_below_start else "nothing tells it, or nothing will"
            case MakeUp(base, False) if state.is_contradicted and not base >= state.end == state.point:
                return "nothing but damage would be beside the batch that contradicts the file of leader epochs"
            case MakeUp(base) if base < state.segments[0].base and _begins_before(state.segments[0]):
                return "only in the first file may a batch begin before it"
            case MakeUp(base, _):
                taken = any(segment.base == base for segment in state.segments)
                damaged = any(one.torn or any(b.rot for b in one.batches) for one in state.segments)
                return "there is such a file, or damage" if taken or damaged or made_up else ""
            case MakeUpSnapshot(False) if FAR in state.snapshots:
                return "there is one"
            case MakeUpSnapshot(True) if not (state.is_sound and self._is_end_known(state)):
                return "it would be believed: nothing else says that the log ended before"
            case SpoilHighWatermark() if state.high_watermark == FAR:
                return "it is spoilt"
            case LoseEpochs() if state.noted in (NO_FILE, UNREADABLE):
                return "there is none"
            case LosePoint() if not state.point:
                return "it is 0"
            case LowerPoint() if not state.is_clean:
                return "one that was written down earlier is lower too"
            case LowerPoint(offset) if state.segments[-1].end == offset:
                return "a log that was closed there looks so too"
            case LowerPoint(offset) if not 0 < offset < state.point:
                return "it is not beyond that"
            case LoseStart() if not state.start:
                return "it is 0"
            case SpoilEpochs(lie):
                return lie_guard(state, lie) if self.lies else "the file is never another log's"
        return ""

    def _is_end_known(self, state: State) -> bool:
        """Whether the recovery point of a clean stop and the last file say alike where a log ends."""
        return state.is_clean and 0 < state.point == state.end and self.ends_at(state, state.point)

    def _rejects_point(self, state: State, damage: Action) -> bool:
        """Whether an opening after the damage does not believe the recovery point."""
        return self.opened(self._damaged(state, damage), reads_all=True).was_rejected

    def _open_guard(self, state: State, action: Open) -> str:
        """What only reading tells is read."""
        untold = any(
            batch.rot is not None and batch.rot is not Rot.CONTENT
            for segment in state.segments
            for batch in segment.batches
        )
        return "something is damaged that only reading tells" if untold and not action.reads_all else ""

    def step(self, state: State, action: Action) -> State:
        if guard := self.guard(state, action):
            raise NotEnabled(action, guard)
        if isinstance(action, DAMAGE):
            is_hit = self.lies or self.was_elsewhere
            return self._damaged(evolve(state, damages=state.damages + 1, is_hit=is_hit), action)
        if isinstance(action, LeaveOut):
            return left_out(state, action)
        match action:
            case BeginEpoch():
                return evolve(state, has_begun=True)
            case Meet(base, number, rot):
                spoilt = self._damaged(evolve(state, damages=state.damages + 1), Spoil(base, number, rot))
                return self.met_again(spoilt, base)
            case Open(reads_all):
                return self.opened(state, reads_all=reads_all)
            case Append(records, by_new_leader):
                return self._appended(state, state.end, state.end + records, by_new_leader=by_new_leader)
            case AppendAcross(by_new_leader):
                return self._appended(state, state.end - 1, state.end + 1, by_new_leader=by_new_leader)
            case Roll():
                segments = (*state.segments, Segment(state.end))
                return evolve(state, segments=segments, snapshots=state.snapshots | {state.end})
            case Flush(noted):
                flushed = self._flushed(state)
                return evolve(flushed, point=flushed.end, written=self.checkpointed(flushed)) if noted else flushed
            case NoteHighWatermark():
                return evolve(state, high_watermark=state.end)
            case StartAt(offset):
                return self._started(state, offset)
            case Truncate(offset):
                return self._truncated(state, offset)
            case StartAnew(offset, knows_epoch):
                epoch = offset - 1 if knows_epoch else NO_EPOCHS
                anew = evolve(self._anew(state, offset, epoch), appended=state.appended + 1)
                return evolve(anew, point=min(state.point, state.start))
            case Repair():
                return self._repaired(state)
            case Close():
                flushed = self._flushed(state)
                last = max(state.snapshots, default=state.start)
                snapshots = state.snapshots | {state.end} if state.end > last else state.snapshots
                closed = evolve(flushed, is_open=False, is_clean=True, point=state.end, snapshots=snapshots, gaps=())
                high_watermark = min(state.high_watermark, state.end)
                return evolve(closed, high_watermark=high_watermark, began=state.start, written=0)
            case Interrupt(first, last, stage):
                flushed = self._flushed(state) if state.flushed < state.end else state
                left = Replacing(first, last, stage)
                crashes = state.crashes + 1
                died = evolve(flushed, is_open=False, crashes=crashes, replacing=left)
                return evolve(died, began=state.start, start=state.written, written=0)
        assert isinstance(action, Crash)
        return self._crashed(state, action)

    def _appended(self, state: State, start: int, end: int, *, by_new_leader: bool) -> State:
        epoch = state.epoch + by_new_leader
        batch = Batch(start, end, epoch)
        active = state.segments[-1]
        segments = (*state.segments[:-1], evolve(active, batches=(*active.batches, batch)))
        first = max(start, active.base) if state.first_epoch == NO_EPOCHS else state.first_epoch
        appended = state.appended + 1
        return evolve(state, segments=segments, end=batch.end, first_epoch=first, epoch=epoch, appended=appended)

    def _flushed(self, state: State) -> State:
        segments = tuple(evolve(one, synced=len(one.batches)) for one in state.segments)
        return evolve(state, segments=segments, flushed=state.end, noted=state.written_epochs)

    def _started(self, state: State, offset: int) -> State:
        """What lies before is flushed first; the last segment stays."""
        if state.flushed < offset:
            state = self._flushed(state)
        segments = state.segments
        while len(segments) > 1 and segments[1].base <= offset:
            segments = segments[1:]
        first = state.first_epoch
        if NO_EPOCHS < first < offset:
            first = offset - 1
        snapshots = frozenset(one for one in state.snapshots if one >= segments[0].base)
        gaps = tuple(gap for gap in state.gaps if gap[1] > offset)
        started = evolve(state, segments=segments, start=offset, first_epoch=first, snapshots=snapshots, gaps=gaps)
        started = evolve(started, has_note=bool(gaps))
        return evolve(started, noted=started.written_epochs, written=offset)

    def _truncated(self, state: State, offset: int) -> State:
        kept = [one for one in state.segments if one.base <= offset]
        left = tuple(batch for batch in kept[-1].batches if batch.end <= offset)
        kept[-1] = evolve(kept[-1], batches=left, torn=False)
        first = state.first_epoch if state.first_epoch < offset else NO_EPOCHS
        noted = state.noted if state.first_epoch == NO_EPOCHS else first
        snapshots = frozenset(one for one in state.snapshots if state.start < one <= offset)
        point, out = min(state.point, offset), tuple((a, min(b, offset)) for a, b in state.left_out if a < offset)
        mark = min(state.mark, offset)
        cut = evolve(state, segments=tuple(kept), end=offset, first_epoch=first, noted=noted, point=point, left_out=out)
        cut = evolve(cut, mark=mark)
        return evolve(self._flushed(cut), snapshots=snapshots, written=self.written_start(cut, state.written))

    def _repaired(self, state: State) -> State:
        """A gap that begins below the log start has the log start anew."""
        offset = state.gaps[0][0]
        batches = {batch.start: batch for segment in state.segments for batch in segment.batches}
        behind = {batch.start for batch in batches.values() if batch.start >= offset and batch.rot is None}
        point, written = min(state.point, offset), min(state.written, offset)
        state = evolve(state, gaps=(), has_note=False, point=point, written=written, aside=state.aside | behind)
        first = state.segments[0].base
        if first <= offset >= state.start:
            kept = [evolve(one, batches=tuple(b for b in one.batches if b.start < offset)) for one in state.segments]
            cut = evolve(state, segments=tuple(one for one in kept if one.base <= offset))
            return self._truncated(evolve(cut, end=offset), offset)
        offset = offset if offset < first else state.start
        epoch = offset - 1 if offset == state.start > state.first_epoch > NO_EPOCHS else NO_EPOCHS
        return self._anew(state, offset, epoch)

    def _anew(self, state: State, offset: int, epoch: int) -> State:
        """The log is empty and starts there; `epoch`: where that of the record before begins, if it is known."""
        anew = evolve(state, segments=(Segment(offset),), start=offset, end=offset, first_epoch=epoch, noted=epoch)
        anew = evolve(anew, left_out=(), mark=0)
        written = self.written_start(anew, min(state.written, offset))
        return evolve(self._flushed(anew), snapshots=frozenset(), written=written)

    def _crashed(self, state: State, crash: Crash) -> State:
        segments = []
        for number, segment in enumerate(state.segments):
            stays = len(segment.batches)
            if number == crash.file:
                stays = segment.synced + crash.kept
            elif number > crash.file and not crash.first:
                stays = segment.synced
            torn = segment.torn or (number == crash.file and crash.torn)
            segments.append(evolve(segment, batches=segment.batches[:stays], synced=stays, torn=torn))
        crashed = evolve(state, segments=tuple(segments), is_open=False, gaps=(), crashes=state.crashes + 1)
        return evolve(crashed, began=state.start, start=state.written, written=0)

    def _damaged(self, state: State, action: Action) -> State:
        match action:
            case Spoil(base, number, rot):
                segments = []
                for one in state.segments:
                    batches = list(one.batches)
                    if one.base == base:
                        batches[number] = evolve(batches[number], rot=rot)
                    segments.append(evolve(one, batches=tuple(batches)))
                return evolve(state, segments=tuple(segments))
            case LoseSegment(base):
                return evolve(state, segments=tuple(one for one in state.segments if one.base != base))
            case MakeUp(base, is_empty):
                made = Segment(base, torn=not is_empty, is_stray=True)
                return evolve(state, segments=tuple(sorted((*state.segments, made), key=lambda one: one.base)))
            case MakeUpSnapshot(is_near):
                return evolve(state, snapshots=state.snapshots | {state.end + 1 if is_near else FAR})
            case SpoilHighWatermark():
                return evolve(state, high_watermark=FAR)
            case LoseEpochs(is_there):
                return evolve(state, noted=UNREADABLE if is_there else NO_FILE)
            case LosePoint():
                return evolve(state, point=0)
            case LowerPoint(offset):
                return evolve(state, point=offset)
            case SpoilPoint():
                return evolve(state, point=FAR)
            case LoseStart():
                return evolve(state, start=0, start_is_lost=True)
            case SpoilEpochs():
                return evolve(state, is_contradicted=True)
        return evolve(state, start=FAR)


def of_all_kinds(*, max_appends: int, max_crashes: int, max_damages: int) -> Recovery:
    """The machine of logs of all kinds: every switch is on."""
    switches = {field.name: True for field in attrs.fields(Recovery) if field.default is False}
    return Recovery(max_appends, max_crashes, max_damages, **switches)


def enabled_of_class(machine: Recovery, state: State, kind: type[Action]) -> Iterator[Action]:
    """The enabled actions of one class."""
    candidates = machine._candidates(state)
    return (action for action in candidates if isinstance(action, kind) and not machine.guard(state, action))
