"""A batch whose leader epoch has changed on the disk, where only the file of leader epochs tells it.

The batch behind it in its file would, if that is of an earlier epoch. The last one of a file has none: what is noted of
it says so, if the batch before it bears the noted epochs out, and what is behind it does not deny them. Without a
recovery point it tells nothing, since nobody knows up to where epochs are noted: so nothing is lost or damaged that has
the point rejected.

One that has become smaller than those of the two batches before it these tell, wherever they lie: the nearer one is not
taken for one that has grown, since it does not contradict the other.
"""

from __future__ import annotations

from collections.abc import Callable

from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.recovery.actions import LoseSegment, MakeUp, Spoil, StartAt
from tidegauge.spec.recovery.state import Batch, Rot, Segment, State


def told_by_epochs(state: State) -> tuple[Batch, ...]:
    """The batches of which only the noted epochs tell that they are damaged."""
    lasts = (segment.batches[-1] for segment in state.segments if segment.batches)
    return tuple(batch for batch in lasts if batch.rot is Rot.EPOCH)


def is_told_by_epochs(state: State, segment: Segment, number: int) -> bool:
    """Whether the epochs tell it, if the last batch of a file has another one: all are noted below the recovery point.

    The batch before it is intact and, but for what a cleaner has left out, ends where it begins; and no other one has
    an odd epoch: two would have the file of leader epochs in doubt.
    Batches behind it may be damaged; where none is that is noted the one before has to be of the same epoch.
    """
    if number + 1 < len(segment.batches) or state.is_contradicted or state.noted < 0:
        return False
    batches = [batch for one in state.segments for batch in one.batches]
    place = batches.index(segment.batches[number])
    is_odd = any(batch.rot in (Rot.EPOCH, Rot.LOW) for batch in batches)
    if place == 0 or is_odd or not _are_noted(state, batches[place]):
        return False
    before, batch, behind = batches[place - 1], batches[place], batches[place + 1 : place + 2]
    noted = [one for one in behind if one.start < state.point]
    is_borne_out = before.rot is None and state.noted <= before.start and (noted or before.epoch == batch.epoch)
    is_next = before.end == batch.start or any(a <= before.end and batch.start <= b for a, b in state.left_out)
    return bool(is_borne_out) and is_next and all(one.rot is not Rot.OFFSET for one in behind)


def _are_noted(state: State, batch: Batch) -> bool:
    """Whether it is known up to where epochs are noted, and the batch lies below: a crash may leave an old point."""
    is_known = state.point == state.flushed if state.is_clean else max(state.start, state.mark) <= state.point
    return is_known and batch.end <= state.point


def epochs_guard(state: State, action: Action, rejects_point: Callable[[], bool]) -> str:
    """Why nothing else is damaged where only the noted epochs tell a damage; "" where it may be, or none is such.

    `rejects_point`: whether an opening after the action does not believe the recovery point.
    """
    told = told_by_epochs(state)
    if not told:
        return ""
    is_harmless = isinstance(action, MakeUp) and action.base >= state.end
    if isinstance(action, Spoil) and action.rot in (Rot.CONTENT, Rot.LENGTH):
        batches = [batch for one in state.segments if one.base == action.base for batch in one.batches]
        is_harmless = batches[action.number].start >= told[0].end
    if isinstance(action, LoseSegment):
        is_harmless = action.base >= told[0].end and not state.left_out
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
