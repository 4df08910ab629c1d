"""What Kafka's own brokers do to a log that is opened here later: two things that no process here does.

Their cleaner leaves out whole batches, and the offsets of these belong to no batch then: a file may end before the next
one begins. And their leaders write an epoch down when it begins, which is where the log ends: a crash that takes the
end of the log leaves an epoch that begins behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.recovery.state import Gap, Segment, State


@attrs.frozen
class LeaveOut(Action):
    """The cleaner leaves out a batch of a file that is not the last one."""

    fair: ClassVar[bool] = False

    base: int
    number: int


@attrs.frozen
class BeginEpoch(Action):
    """A leader writes its epoch down, and has no record yet."""

    fair: ClassVar[bool] = False


def done_elsewhere(state: State) -> Iterator[Action]:
    """What Kafka's brokers may do to a closed log."""
    yield BeginEpoch()
    for segment in state.segments[:-1]:
        yield from (LeaveOut(segment.base, number) for number in range(len(segment.batches)))


def elsewhere_guard(state: State, action: Action) -> str:
    """Why it cannot have happened; "" when it can."""
    if not state.is_sound:
        return "something is damaged, or under way"
    if isinstance(action, BeginEpoch):
        return "the file of leader epochs has none, or has it" if state.noted < 0 or state.has_begun else ""
    assert isinstance(action, LeaveOut)
    cleaned = next((one for one in state.segments if one.base == action.base), None)
    following = None if cleaned is None else state.following(cleaned)
    if cleaned is None or following is None or action.number >= len(cleaned.batches):
        return "no such batch lies before the last file"
    flushed = max(state.point, state.flushed)
    return "" if following <= flushed else "the cleaner leaves alone what was not flushed"


def left_out(state: State, action: LeaveOut) -> State:
    """The log without the batch, and how far the cleaner came: it leaves no file half done."""
    segments: list[Segment] = []
    mark = state.mark
    gone = list(state.left_out)
    for segment in state.segments:
        if segment.base == action.base:
            batch = segment.batches[action.number]
            gone.append((batch.start, batch.end))
            kept = tuple(one for one in segment.batches if one != batch)
            mark = max(mark, state.following(segment) or 0)
            segment = evolve(segment, batches=kept, synced=len(kept))
        segments.append(segment)
    return evolve(state, segments=tuple(segments), left_out=joined(gone), mark=mark)


def joined(gaps: list[Gap]) -> tuple[Gap, ...]:
    """The same offsets in as few gaps as may be, in their order."""
    found: list[Gap] = []
    for start, end in sorted(gaps):
        if found and found[-1][1] == start:
            found[-1] = found[-1][0], end
        else:
            found.append((start, end))
    return tuple(found)
