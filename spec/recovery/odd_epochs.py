"""A batch whose leader epoch has changed on the disk, where only the file of leader epochs tells it.

The batch behind it in its file would, if that is of an earlier epoch. The last one of a file has none: what is noted of
it says so, if the batches on both sides bear the noted epochs out, or are damaged so that nobody denies them. On a side
where no batch is, the one on the other side has to be of the same epoch, unless there is damage between. Without a
recovery point it tells nothing, since nobody knows up to where epochs are noted: so nothing is lost or damaged that has
the point rejected.

One that has become smaller than those of the two batches before it these tell, wherever they lie: the nearer one is not
taken for one that has grown, since it does not contradict the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.recovery.actions import LoseEpochs, LoseSegment, MakeUp, Spoil, StartAt
from tidegauge.spec.recovery.epoch_lies import SpoilEpochs
from tidegauge.spec.recovery.state import Batch, Rot, Segment, State


class _Side(NamedTuple):
    """What lies on one side of a batch."""

    batch: Batch | None
    """The nearest one that is intact, and of which an epoch is noted."""
    is_damaged: bool
    """Whether there is damage between the two, or beside the batch if no other is intact."""

    @property
    def says_nothing(self) -> bool:
        return self.batch is None and not self.is_damaged


def told_by_epochs(state: State) -> tuple[Batch, ...]:
    """The batches of which only the noted epochs tell that they are damaged."""
    lasts = (segment.batches[-1] for segment in state.segments if segment.batches)
    return tuple(batch for batch in lasts if batch.rot is Rot.EPOCH)


def are_told(state: State) -> bool:
    """Whether the epochs tell of each such batch that it is damaged: all are noted below the recovery point."""
    told = told_by_epochs(state)
    return all(_are_noted(state, odd) and _is_told(state, odd, state.noted, state.point) for odd in told)


def are_told_to_readers(state: State) -> bool:
    """The same of an open log, which knows all its epochs."""
    return all(_is_told(state, odd, state.first_epoch, state.end) for odd in told_by_epochs(state))


def _is_told(state: State, odd: Batch, noted: int, below: int) -> bool:
    """Whether the epochs that are noted from one offset to another tell that the last batch of a file has another one.

    No other one is odd: two would have the file of leader epochs in doubt.
    """
    batches = [batch for one in state.segments for batch in one.batches]
    others = [batch for batch in batches if batch != odd]
    if any(batch.rot in (Rot.EPOCH, Rot.LOW) for batch in others) or state.is_contradicted or noted < 0:
        return False
    if max(odd.start, state.segments[0].base) < noted:
        return False  # of where it begins nothing is noted
    before, behind = _before(state, odd, noted), _behind(state, odd, below)
    if before is None or behind is None:
        return False
    if not (before.says_nothing or behind.says_nothing):
        return True
    nearest = before if behind.says_nothing else behind
    return nearest.is_damaged or (nearest.batch is not None and nearest.batch.epoch == odd.epoch)


def _before(state: State, odd: Batch, noted: int) -> _Side | None:
    """What lies before a batch; None where it cannot be said whether the nearest one is believed."""
    is_near = False
    is_damaged = False
    for segment in reversed(state.segments):
        for number in reversed(range(len(segment.batches))):
            batch = segment.batches[number]
            if batch.start >= odd.start:
                continue
            if batch.rot is None:
                is_noted = max(noted, segment.base) <= batch.start
                is_sure = is_noted and _is_sure(segment, number, state.following(segment))
                return _Side(batch, is_near) if is_sure else None
            is_damaged = True
            is_near |= odd in segment.batches
    return _Side(None, is_damaged)


def _behind(state: State, odd: Batch, below: int) -> _Side | None:
    """What lies behind the last batch of a file; None where it cannot be said whether the nearest one is believed."""
    is_damaged = False
    for segment in state.segments:
        for number, batch in enumerate(segment.batches):
            if batch.start <= odd.start:
                continue
            if batch.rot is None:
                if not _is_sure(segment, number, None):
                    return None
                return _Side(batch if batch.start < below else None, is_damaged)
            if batch.rot is Rot.OFFSET:
                return None
            is_damaged = True
    is_lost = state.segments[-1].end == odd.end < below and not state.left_out and not state.is_open
    return _Side(None, (is_damaged or is_lost) and odd.end < below)


def _is_sure(segment: Segment, number: int, following: int | None) -> bool:
    """Whether an intact batch is believed: nothing is damaged before it in its file, or another one follows it."""
    if all(batch.rot is None for batch in segment.batches[:number]):
        return True
    batch = segment.batches[number]
    if number + 1 == len(segment.batches):
        return following in (None, batch.end)
    behind = segment.batches[number + 1]
    return behind.start == batch.end and (behind.rot is None or behind.rot is Rot.EPOCH)


def forgets_an_epoch(state: State, action: Action) -> bool:
    """Whether leader epochs would be made anew without that of the last record before the start, which is damaged.

    The next process finds that its batch says another one, and reads all once more: nothing is lost.
    """
    if isinstance(action, Spoil) and action.rot is Rot.CONTENT:
        spoilt = next(one for one in state.segments if one.base == action.base).batches[action.number]
    else:
        spoilt = None
    batches = [batch for one in state.segments for batch in one.batches]
    intact = [batch for batch in batches if batch.end < state.start and batch.rot is None and batch != spoilt]
    last = [batch for batch in batches if batch.end == state.start and (batch.rot is Rot.CONTENT or batch == spoilt)]
    is_lost = state.noted < 0 or state.is_contradicted or isinstance(action, (LoseEpochs, SpoilEpochs))
    return is_lost and any(intact[-1].epoch != batch.epoch for batch in last if intact)


def _are_noted(state: State, batch: Batch) -> bool:
    """Whether it is known up to where epochs are noted, and the batch lies below: a crash may leave an old point."""
    is_known = state.point == state.flushed if state.is_clean else max(state.start, state.mark) <= state.point
    return is_known and batch.end <= state.point


def epochs_guard(state: State, action: Action, damaged: State, rejects_point: Callable[[], bool]) -> str:
    """Why what is damaged beside a leader epoch would have nothing tell that one; "" where it may be, or none is such.

    `damaged` is the log after it. `rejects_point`: whether an opening then does not believe the recovery point.
    """
    if not told_by_epochs(state):
        return ""
    is_harmless = isinstance(action, MakeUp) and action.base >= state.end
    is_plain = isinstance(action, Spoil) and action.rot in (Rot.CONTENT, Rot.LENGTH)
    if is_plain or (isinstance(action, LoseSegment) and not state.left_out):
        is_harmless = told_by_epochs(damaged) == told_by_epochs(state) and are_told(damaged)
    if is_harmless and not rejects_point():
        return ""
    return "what tells that a leader epoch is damaged would be damaged as well"


def is_told_by_two(state: State, segment: Segment, number: int) -> bool:
    """Whether two batches before one tell it that has a smaller epoch; no cleaner was there, and no other is odd.

    It is not the second one of its file: read by itself, that file would have the first one contradicted.
    """
    batches = [batch for one in state.segments for batch in one.batches]
    place = batches.index(segment.batches[number])
    is_odd = any(batch.rot in (Rot.EPOCH, Rot.LOW) for batch in batches)
    is_plain = number != 1 and place > 1 and not (is_odd or state.left_out)
    return is_plain and batches[place].start >= state.start and all(b.rot is None for b in batches[place - 2 : place])


def low_guard(state: State, action: Action) -> str:
    """Why nothing before a batch with a smaller epoch is damaged or given up; "" where it may be, or none is such."""
    low = next((b for one in state.segments for b in one.batches if b.rot is Rot.LOW), None)
    if low is None:
        return ""
    is_behind = isinstance(action, (LoseSegment, MakeUp)) and action.base >= low.end
    if isinstance(action, Spoil):
        batches = [batch for one in state.segments if one.base == action.base for batch in one.batches]
        is_behind = batches[action.number].start >= low.end and action.rot is not Rot.EPOCH
    if is_behind or not isinstance(action, (LoseSegment, MakeUp, Spoil, StartAt)):
        return ""
    return "what tells that a leader epoch has become smaller would be gone"
