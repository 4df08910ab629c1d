"""Compaction of one log: what is dropped when, how the result takes the place of what it was made from, and crashes.

Theory of operation
-------------------
A log is a list of segments; the last one is active and grows. A round of cleaning takes the newest offset of each key
of the dirty part, as far as its map holds them, and then goes over the closed segments up to there, group by group,
oldest first: of a group a segment is written, is renamed (from then on it *replaces* the group, whatever happens), the
old segments are removed one by one, and the new one gets its name. A crash before the renaming undoes the group, one
after it is followed by a recovery that finishes it.

A tombstone stays for `retention` ticks after a round first met it, and takes its key's older values along at once. So a
reader that goes from the start of the log to its end in less than that ends up with what the log says.

The rules that make this right are methods of their own: which records stay (`keeps`), and what a recovery removes
(`replaces`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, Final

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.machine import Action, Invariant, Machine, NotEnabled

DELETED: Final = 0
"""The value of a tombstone; values count from 1."""
NEVER: Final = -1


@attrs.frozen
class Record:
    """A record; `horizon` is when a tombstone may go, NEVER until a round has met it."""

    offset: int
    key: int
    value: int
    horizon: int = NEVER


@attrs.frozen
class Segment:
    """The records that are left of the offsets [base, end)."""

    base: int
    end: int
    records: tuple[Record, ...] = ()


@attrs.frozen
class Round:
    """A round under way: its map, where that ends, and how far the log has been gone over."""

    offsets: tuple[tuple[int, int], ...]
    """Key -> newest offset, as pairs."""
    end: int
    reached: int = 0
    swap: Segment | None = None
    """A cleaned segment that has been renamed: it replaces what it covers."""


@attrs.frozen
class State:
    """The log, the round, what was ever appended, and one reader."""

    segments: tuple[Segment, ...] = (Segment(0, 0),)
    clean: int = 0
    round: Round | None = None
    history: tuple[Record, ...] = ()
    now: int = 0
    position: int = 0
    began: int = 0
    read: tuple[tuple[int, int], ...] = ()
    """What the reader has made of the records so far: key -> value."""
    crashes: int = 0

    @property
    def records(self) -> tuple[Record, ...]:
        return tuple(record for segment in self.segments for record in segment.records)

    @property
    def end(self) -> int:
        return self.segments[-1].end


def table(records: Iterable[Record], start: Iterable[tuple[int, int]] = ()) -> dict[int, int]:
    """What records say of each key, one after the other."""
    found = dict(start)
    for record in records:
        found.pop(record.key, None)
        if record.value != DELETED:
            found[record.key] = record.value
    return found


@attrs.frozen
class Append(Action):
    fair: ClassVar[bool] = False

    key: int
    tombstone: bool


@attrs.frozen
class Roll(Action):
    """The active segment is closed."""

    fair: ClassVar[bool] = False


@attrs.frozen
class BeginRound(Action):
    """The dirty part is read into a map of at most so many keys."""

    keys: int


@attrs.frozen
class CleanGroup(Action):
    """So many segments are gone over; the result is written and renamed: it replaces them from now on."""

    segments: int


@attrs.frozen
class RemoveOld(Action):
    """One of the replaced segments goes."""


@attrs.frozen
class EndRound(Action):
    """Up to the end of the map the log is clean."""


@attrs.frozen
class Crash(Action):
    """The process dies and comes back; a renamed segment takes its place, a round is forgotten."""

    fair: ClassVar[bool] = False


@attrs.frozen
class Tick(Action):
    """Time goes on."""

    fair: ClassVar[bool] = False


@attrs.frozen
class Read(Action):
    """The reader takes the next record."""


@attrs.frozen
class StartReading(Action):
    """The reader begins at the start of the log."""

    fair: ClassVar[bool] = False


@attrs.frozen
class Compaction(Machine[State]):
    """One log and its cleaner; the constants bound the search."""

    action_types: ClassVar[tuple[type[Action], ...]] = (
        Append,
        Roll,
        BeginRound,
        CleanGroup,
        RemoveOld,
        EndRound,
        Crash,
        Tick,
        Read,
        StartReading,
    )

    max_records: int = 3
    keys: int = 2
    retention: int = 1
    max_time: int = 2
    max_crashes: int = 1
    reads: bool = True

    # Rules

    def keeps(self, state: State, round_: Round, record: Record) -> bool:
        """What lies beyond the map; the newest of its key, and of tombstones those whose time has not come."""
        if record.offset >= round_.end:
            return True
        if record.offset < dict(round_.offsets).get(record.key, record.offset):
            return False
        return record.horizon == NEVER or state.now < record.horizon

    def meets(self, round_: Round, record: Record) -> bool:
        """Whether a tombstone's time begins: only once the values that it is for are gone, or are going now."""
        return record.offset < round_.end

    def horizon(self, state: State, record: Record) -> int:
        """When a tombstone that a round meets may go."""
        return state.now + self.retention

    def replaces(self, swap: Segment, segment: Segment) -> bool:
        """Whether a renamed segment stands for this one: up to where the last of its group ended."""
        return swap.base <= segment.base < swap.end

    def next_to_remove(self, replaced: tuple[Segment, ...]) -> Segment:
        return replaced[0]

    # Behaviour

    def initial(self) -> Iterable[State]:
        return (State(),)

    def actions(self, state: State) -> Iterable[Action]:
        candidates: list[Action] = [Append(key, dead) for key in range(self.keys) for dead in (False, True)]
        candidates += [Roll(), EndRound(), RemoveOld(), Crash(), Tick()]
        candidates += [BeginRound(keys) for keys in range(1, self.keys + 1)]
        candidates += [CleanGroup(count) for count in range(1, len(state.segments))]
        if self.reads:
            candidates += [StartReading(), Read()]
        for action in candidates:
            if not self.guard(state, action):
                yield action

    def step(self, state: State, action: Action) -> State:
        if guard := self.guard(state, action):
            raise NotEnabled(action, guard)
        match action:
            case Append(key, tombstone):
                value = DELETED if tombstone else 1 + sum(one.key == key for one in state.history)
                record = Record(state.end, key, value)
                active = state.segments[-1]
                grown = evolve(active, end=active.end + 1, records=(*active.records, record))
                segments = (*state.segments[:-1], grown)
                return evolve(state, segments=segments, history=(*state.history, record))
            case Roll():
                return evolve(state, segments=(*state.segments, Segment(state.end, state.end)))
            case BeginRound(keys):
                return evolve(state, round=self.mapped(state, keys))
            case CleanGroup(count):
                return self.cleaned(state, count)
            case RemoveOld():
                return self.without_old(state)
            case EndRound():
                assert state.round is not None
                return evolve(state, round=None, clean=state.round.end)
            case Crash():
                return self.recovered(state)
            case Tick():
                return evolve(state, now=state.now + 1)
            case StartReading():
                return evolve(state, position=0, began=state.now, read=())
            case _:
                record = next(one for one in self.visible(state) if one.offset >= state.position)
                read = tuple(sorted(table([record], state.read).items()))
                return evolve(state, position=record.offset + 1, read=read)

    def guard(self, state: State, action: Action) -> str:
        """Why the action cannot happen; "" when it can."""
        round_, swapping = state.round, state.round is not None and state.round.swap is not None
        match action:
            case Append() if len(state.history) >= self.max_records:
                return "enough was appended"
            case Roll() if not state.segments[-1].records:
                return "the active segment is empty"
            case BeginRound() if round_ is not None or state.clean >= state.segments[-1].base:
                return "nothing is dirty, or a round is under way"
            case CleanGroup(count):
                if round_ is None or swapping:
                    return "there is nothing to go over"
                group = self.group(state, round_, count)
                return "" if len(group) == count and group[-1].base < round_.end else "so many are not left"
            case RemoveOld() if not swapping:
                return "nothing is replaced"
            case EndRound() if round_ is None or swapping or round_.reached < round_.end:
                return "the round is not over"
            case Crash() if state.crashes >= self.max_crashes:
                return "enough crashes"
            case Tick() if state.now >= self.max_time:
                return "the end of time"
            case StartReading() if state.position == 0 and state.began == state.now:
                return "it is there"
            case Read() if all(one.offset < state.position for one in self.visible(state)):
                return "there is nothing to read"
            case _ if not isinstance(action, self.action_types):
                raise NotImplementedError(action)
        return ""

    def group(self, state: State, round_: Round, count: int) -> tuple[Segment, ...]:
        """The next closed segments."""
        return tuple(one for one in state.segments[:-1] if one.base >= round_.reached)[:count]

    def mapped(self, state: State, keys: int) -> Round:
        """The newest offset of each key in the dirty part, up to the first record that has no place."""
        offsets: dict[int, int] = {}
        dirty = [one for segment in state.segments[:-1] for one in segment.records if one.offset >= state.clean]
        for record in dirty:
            if record.key not in offsets and len(offsets) == keys:
                return Round(tuple(sorted(offsets.items())), record.offset)
            offsets[record.key] = record.offset
        return Round(tuple(sorted(offsets.items())), state.segments[-1].base)

    def cleaned(self, state: State, count: int) -> State:
        round_ = state.round
        assert round_ is not None
        group = self.group(state, round_, count)
        kept = tuple(
            evolve(one, horizon=self.horizon(state, one))
            if one.value == DELETED and one.horizon == NEVER and self.meets(round_, one)
            else one
            for segment in group
            for one in segment.records
            if self.keeps(state, round_, one)
        )
        swap = Segment(group[0].base, group[-1].end, kept)
        return evolve(state, round=evolve(round_, swap=swap, reached=swap.end))

    def without_old(self, state: State) -> State:
        """One replaced segment less; with the last one the new segment gets its name."""
        round_ = state.round
        assert round_ is not None
        assert round_.swap is not None
        replaced = tuple(one for one in state.segments[:-1] if self.replaces(round_.swap, one))
        if len(replaced) > 1:
            gone = self.next_to_remove(replaced)
            left = tuple(one for one in state.segments if one != gone)
            return evolve(state, segments=left)
        return evolve(self.swapped(state, round_.swap), round=evolve(round_, swap=None))

    def swapped(self, state: State, swap: Segment) -> State:
        """The renamed segment in its place, and nothing of what it replaces."""
        others = [one for one in state.segments if one is state.segments[-1] or not self.replaces(swap, one)]
        return evolve(state, segments=tuple(sorted((*others, swap), key=lambda one: (one.base, one.end))))

    def recovered(self, state: State) -> State:
        if state.round is not None and state.round.swap is not None:
            state = self.swapped(state, state.round.swap)
        return evolve(state, round=None, crashes=state.crashes + 1)

    # Properties

    @property
    def invariants(self) -> Mapping[str, Invariant[State]]:
        return {
            "NewestValues": self.newest_values,
            "OffsetsAscend": self.offsets_ascend,
            "CleanPart": self.clean_part,
            "PromptReader": self.prompt_reader,
        }

    def newest_values(self, state: State) -> bool:
        """The log says of every key what all that was ever appended says; no value is lost, none comes back."""
        return table(self.visible(state)) == table(state.history)

    def visible(self, state: State) -> tuple[Record, ...]:
        """What a recovery would find: a renamed segment counts, what it replaces does not."""
        if state.round is None or state.round.swap is None:
            return state.records
        return self.swapped(state, state.round.swap).records

    def offsets_ascend(self, state: State) -> bool:
        """Offsets ascend, and no two records have one."""
        offsets = [record.offset for record in self.visible(state)]
        return offsets == sorted(set(offsets))

    def clean_part(self, state: State) -> bool:
        """Below the clean offset no key comes twice."""
        keys = [record.key for record in self.visible(state) if record.offset < state.clean]
        return len(keys) == len(set(keys))

    def prompt_reader(self, state: State) -> bool:
        """A reader that has come to the end in less than the tombstones' time knows what the log knows."""
        at_end = all(record.offset < state.position for record in self.visible(state))
        if not at_end or state.now - state.began >= self.retention:
            return True
        return dict(state.read) == table(state.history)

    @property
    def converges(self) -> Mapping[str, Invariant[State]]:
        return {
            "what is closed gets clean": lambda state: state.round is None and state.clean >= state.segments[-1].base,
            "a reader that has begun gets to the end": lambda state: (
                not self.reads or all(one.offset < state.position for one in self.visible(state))
            ),
        }

    @property
    def sometimes(self) -> Mapping[str, Invariant[State]]:
        return {
            "a tombstone is gone": lambda state: (
                state.clean > 0
                and any(one.value == DELETED for one in state.history)
                and not any(one.value == DELETED for one in state.records)
            ),
            "a value was dropped": lambda state: len(state.records) < len(state.history),
            "a crash met a swap": lambda state: (
                state.round is None and state.clean == 0 and len(state.records) < len(state.history)
            ),
        }
