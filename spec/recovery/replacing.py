"""A process dies while the cleaner puts one segment in the place of several.

The new segment is written beside the others, under another name. A second name decides: from then on it stands for all
of them. They are renamed one by one, and the new one gets its proper name. Opening the log carries out what was
decided, and drops what else is left over.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.recovery.state import Batch, Replacing, Segment, Stage, State

MOST: Final = 3
"""Segments that one is put in the place of."""


@attrs.frozen
class Interrupt(Action):
    """The process dies in a replacement of the segments with these bases; all that was written stays."""

    fair: ClassVar[bool] = False

    first: int
    last: int
    stage: Stage


def interruptions(state: State) -> Iterator[Interrupt]:
    """Of one segment, or of a few that follow each other, but not of the active one."""
    closed = [segment.base for segment in state.segments[:-1]]
    for number, first in enumerate(closed):
        for last in closed[number : number + MOST]:
            yield from (Interrupt(first, last, stage) for stage in Stage)


def interruption_guard(state: State, action: Interrupt) -> str:
    """Why no such replacement is under way; "" when it is."""
    closed = [segment.base for segment in state.segments[:-1]]
    first = closed.index(action.first) if action.first in closed else len(closed)
    if action.last not in closed[first : first + MOST]:
        return "no such segments follow each other"
    if state.gaps or state.damages or any(not one.batches for one in _replaced(state, action)):
        return "the cleaner leaves alone what is damaged, or empty"
    if state.left_out:
        return "this cleaner leaves out no offsets"
    return ""


def _replaced(state: State, action: Interrupt | Replacing) -> list[Segment]:
    return [segment for segment in state.segments if action.first <= segment.base <= action.last]


class Replacements:
    """The rules by which a log that is opened deals with a replacement; a bug overrides one of them."""

    def is_decided(self, stage: Stage) -> bool:
        """Whether the new segment stands for the old ones."""
        return stage >= Stage.DECIDED

    def replaced(self, state: State) -> State:
        """The segments as opening the log leaves them."""
        left = state.replacing
        if left is None:
            return state
        old = _replaced(state, left)
        gone = {Stage.BEGUN: old[:1], Stage.CLEARED: old, Stage.PLACED: old}.get(left.stage, [])
        kept = [segment for segment in state.segments if segment not in gone]
        if self.is_decided(left.stage) or left.stage is Stage.PLACED:
            batches: tuple[Batch, ...] = tuple(batch for segment in old for batch in segment.batches)
            kept = [segment for segment in state.segments if segment not in old]
            kept.append(Segment(left.first, batches, len(batches)))
        segments = tuple(sorted(kept, key=lambda segment: segment.base))
        return evolve(state, segments=segments, replacing=None)
