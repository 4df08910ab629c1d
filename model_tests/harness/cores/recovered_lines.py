"""What a log says while it is opened, beside what the specification finds there.

A line that nobody is told is a rule that is not tested: what recovery rejects, cuts, sets aside and doubts it says, and
so it says how far. The specification knows which lines there are, and the offsets in them.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterator
from typing import Any, Final

import attrs

from tidegauge.spec.recovery.actions import Open
from tidegauge.spec.recovery.machine import Recovery
from tidegauge.spec.recovery.opening import Taken
from tidegauge.spec.recovery.state import NO_FILE, UNREADABLE, Gap, Segment, State

LOGGER: Final = logging.getLogger("tidegauge.impl.storage")
ENDS_LOW: Final = "log ends below its high watermark"
IN_DOUBT: Final = "log end in doubt"
REJECTED: Final = "checkpoint rejected"
NOT_A_SEGMENT: Final = "not a segment"
SET_ASIDE: Final = "stray segment set aside"
PUT_BACK: Final = "stray segments put back"
FOUND: Final = "damage found"
MET: Final = "damage met"
DETAILS: Final = {
    "torn tail cut": "log_end",
    "log ends in damage": "log_end",
    SET_ASIDE: "segment",
    "gap of a compacted log": "start",
    "log gap in doubt": "start",
    "recovery point rejected": "recovery_point",
    "log start rejected": "log_start",
    "log start in doubt": "log_start",
    ENDS_LOW: "log_end",
    IN_DOUBT: "log_end",
    "checkpoint missing": "",
    REJECTED: "",
    NOT_A_SEGMENT: "",
}
"""The lines of recovery that are compared as they are, and what they tell: an offset, or the name of a file."""
_PAIR: Final = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*"|\S*)')
Said = tuple[str, int]
"""What happened, and at which offset; -1 without one."""


@attrs.frozen
class Line:
    """A line of a log."""

    event: str
    level: int
    details: dict[str, str]
    unsynced: Collection[str] = ()
    """The names of files that a crash would take back when it is said, if it tells of names."""

    @property
    def said(self) -> Said:
        """What it says, as `DETAILS` has it."""
        told = self.details.get(DETAILS[self.event], "-1")
        return self.event, int(told.partition(".")[0])

    @property
    def gap(self) -> tuple[int, int, bool]:
        """Of damage: where it begins and ends, and whether it is lost."""
        return int(self.details["start"]), int(self.details["end"]), self.level == logging.ERROR


class Listening(logging.Handler):
    """Takes what the storage says, and nobody else gets it; `unsynced` are names that a crash would take back."""

    def __init__(self, unsynced: Callable[[], Collection[str]] = tuple) -> None:
        super().__init__()
        self.lines: list[Line] = []
        self.unsynced = unsynced

    def __enter__(self) -> list[Line]:
        self.before = LOGGER.level, LOGGER.propagate
        LOGGER.setLevel(logging.INFO)
        LOGGER.propagate = False
        LOGGER.addHandler(self)
        return self.lines

    def __exit__(self, *_: object) -> None:
        LOGGER.removeHandler(self)
        level, LOGGER.propagate = self.before
        LOGGER.setLevel(level)

    def emit(self, record: logging.LogRecord) -> None:
        event, _, rest = record.getMessage().partition(": ")
        details = {name: value.strip('"') for name, value in _PAIR.findall(rest)}
        unsynced = self.unsynced() if event in (SET_ASIDE, PUT_BACK) else ()
        self.lines.append(Line(event, record.levelno, details, unsynced))


@attrs.define
class Opening:
    """What the specification does and says while it opens a log, perhaps twice."""

    taken: Taken
    """What it takes in; if it does so twice, the second time."""
    read: int = 0
    """How many segments it reads then."""
    is_cut: bool = False
    rejects_epochs: bool = False
    """Whether it finds that the leader epochs are not the log's."""
    said: set[Said] = attrs.field(factory=set)


def opening(machine: Recovery, state: State, action: Open) -> Opening:
    """How the specification opens a log in this state."""
    found = Opening(Taken([], [], set(), 0))

    class Watched(Recovery):
        def taken_in(self, state: State, point: int, *, reads_all: bool) -> Taken:
            found.read = 0
            found.taken = taken = super().taken_in(state, point, reads_all=reads_all)
            found.is_cut |= bool(taken.cut_at)
            found.said.update(_said_of(self, state, taken, point))
            return taken

        def take_in_read(
            self, state: State, taken: Taken, segment: Segment, limit: int | None, point: int, flushed: int
        ) -> None:
            found.read += 1
            super().take_in_read(state, taken, segment, limit, point, flushed)

        def begin_behind(self, state: State, taken: Taken) -> bool:
            is_behind = super().begin_behind(state, taken)
            found.rejects_epochs = is_behind or machine.is_contradicted(state)
            return is_behind

    after = Watched(**attrs.asdict(machine, recurse=False)).opened(state, reads_all=action.reads_all)
    point = machine.believed_point(state)
    found.said.update(("recovery point rejected", one) for one in {state.point} - {point})
    if after.was_rejected:
        found.said.add(("recovery point rejected", point))
    if after.start < state.start:
        found.said.add(("log start rejected", state.start))
    if after.start_in_doubt:
        found.said.add(("log start in doubt", after.start))
    if state.noted == NO_FILE and state.point:
        found.said.add(("checkpoint missing", -1))
    if state.noted == UNREADABLE or (found.rejects_epochs and state.noted != NO_FILE):
        found.said.add((REJECTED, -1))
    return found


def _said_of(machine: Recovery, state: State, taken: Taken, point: int) -> Iterator[Said]:
    """What taking in a log's files by a recovery point says."""
    yield from (("torn tail cut", end) for end in taken.cut_at)
    yield from (("log ends in damage", end) for end in taken.unsure_ends)
    yield from (("stray segment set aside", base) for base in taken.strays)
    yield from (("gap of a compacted log", start) for start, _ in taken.passed)
    yield from (("log gap in doubt", start) for start, _ in taken.doubted)
    if taken.end < state.high_watermark and (taken.segments or not taken.end):
        yield ENDS_LOW, taken.end
    is_told = bool(taken.segments or not taken.gaps) and not taken.is_rejected
    if is_told and machine.is_end_unsure(state, taken, point):
        yield IN_DOUBT, taken.end


def damage_found(taken: Taken, after: State) -> set[tuple[int, int, bool]]:
    """What is damaged of a log, and whether it is lost: what lies below its start is not."""
    first = after.segments[0].base
    return {(start, end, end > after.start or start < first) for start, end in taken.gaps}


def damage_met(known: set[Gap], after: State) -> set[tuple[int, int, bool]]:
    """What readers met of it."""
    return {(start, end, True) for start, end in {*after.gaps} - known}


def said_in(lines: list[Line]) -> set[Said]:
    """What some lines say that are compared as they are."""
    return {line.said for line in lines if line.event in DETAILS}


def gaps_in(lines: list[Line], event: str) -> set[Any]:
    """What the lines of one kind say of damage."""
    return {line.gap for line in lines if line.event == event}
