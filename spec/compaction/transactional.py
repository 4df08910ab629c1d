"""Compaction of a log with transactions: what the cleaner may take of their records, and when their markers go.

Theory of operation
-------------------
A marker is an entry of the log, and its key says no more than which kind of marker it is. So a user's record may have
the same key, and neither says anything of the other. Four rules keep what transactions promise:

* a round ends below the first transaction that is open, so that it knows what became of every record that it meets;
* records of aborted transactions go in the first round that meets them, and supersede nothing;
* a marker stays while the log has something of its transaction: without it the transaction is open again for who reads
  the log, and for a consumer the next one of the same producer is a part of it;
* and then for `retention` ticks more, for a replica that has copied the records and comes for the marker.

The last batch of what a round has written stays without its record: the segment has to end where it did. Such a batch
still says that its producer's transaction has begun, and so its marker stays too.

One step is a whole round, over all the closed segments that it cleans at once. What a crash leaves of a round is in
`machine`, beside this, and the rule of tombstones is the same here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from typing import ClassVar, Final

import attrs

from tidegauge.spec.compaction.machine import DELETED, NEVER, table
from tidegauge.spec.compaction.machine import Record as KeyedRecord
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.guarded import GuardedAction, GuardedMachine
from tidegauge.spec.kernel.machine import Action, Invariant

NO_PRODUCER: Final = -1


class Kind(IntEnum):
    """What an entry is; of a marker it is the key too."""

    ABORT = 0
    COMMIT = 1
    RECORD = 2


@attrs.frozen
class Entry(KeyedRecord):
    """A batch of one record: a user's, in a transaction or not, or a marker."""

    kind: Kind = Kind.RECORD
    producer: int = NO_PRODUCER
    is_empty: bool = False
    """The cleaner has taken the record, and left the batch."""

    @property
    def is_marker(self) -> bool:
        return self.kind is not Kind.RECORD

    @property
    def emptied(self) -> Entry:
        """The batch without its record: of a marker it does not say any more which one it was."""
        kind = Kind.ABORT if self.is_marker else Kind.RECORD
        return Entry(self.offset, 0, DELETED, kind=kind, producer=self.producer, is_empty=True)


Log = tuple[Entry, ...]


@attrs.frozen
class Aborted:
    """An entry of the index of aborted transactions: from the first record to the marker."""

    producer: int
    first: int
    last: int


@attrs.frozen
class Replica:
    """Who copies the log from its start to its end, entry by entry."""

    log: Log = ()
    began: int = 0

    @property
    def position(self) -> int:
        return self.log[-1].offset + 1 if self.log else 0


@attrs.frozen
class State:
    """The log with the index of aborted transactions, what was ever appended, and a replica."""

    log: Log = ()
    segments: tuple[int, ...] = (0,)
    """Where each begins; the last one is active."""
    aborted: tuple[Aborted, ...] = ()
    clean: int = 0
    history: Log = ()
    now: int = 0
    replica: Replica = Replica()

    @property
    def end(self) -> int:
        return len(self.history)


def open_in(log: Log) -> dict[int, int]:
    """Producer -> where its open transaction begins, for who knows nothing but this log."""
    found: dict[int, int] = {}
    for entry in log:
        if not entry.is_marker and entry.producer != NO_PRODUCER:
            found.setdefault(entry.producer, entry.offset)
        elif not entry.is_empty:
            found.pop(entry.producer, None)
    return found


def stable(log: Log, end: int) -> int:
    """The last stable offset of a log that is committed up to its end."""
    return min(open_in(log).values(), default=end)


def committed_in(log: Log) -> Log:
    """The records that count: of no transaction, or of one whose marker says so."""
    markers: dict[int, Kind] = {NO_PRODUCER: Kind.COMMIT}
    found: list[Entry] = []
    for entry in reversed(log):
        if entry.is_empty:
            continue
        if entry.is_marker:
            markers[entry.producer] = entry.kind
        elif markers.get(entry.producer) is Kind.COMMIT:
            found.append(entry)
    return tuple(reversed(found))


def returned(state: State) -> Iterator[Entry]:
    """What a consumer of committed records gets, who goes by the index, and by the markers that end what it says."""
    bound, leaves_out = stable(state.log, state.end), set[int]()
    for entry in state.log:
        if entry.offset >= bound:
            return
        leaves_out |= {one.producer for one in state.aborted if one.first <= entry.offset <= one.last}
        if not entry.is_empty and entry.kind is Kind.ABORT:
            leaves_out.discard(entry.producer)
        elif not entry.is_marker and not entry.is_empty and entry.producer not in leaves_out:
            yield entry


@attrs.frozen
class Map:
    """What a round has found in the dirty part."""

    offsets: tuple[tuple[int, int], ...]
    """Key -> newest offset, as pairs."""
    end: int
    """Up to there it got."""

    def has_later(self, entry: KeyedRecord) -> bool:
        """Whether the key comes again."""
        return entry.offset < dict(self.offsets).get(entry.key, entry.offset)


@attrs.frozen
class CleaningRules:
    """The constants, and the rules of a round."""

    max_records: int = 3
    """Without markers."""
    keys: int = 2
    producers: int = 1
    retention: int = 1
    max_time: int = 1
    tombstones: bool = True
    copies: bool = True
    """Whether there is a replica."""

    def cleanable_end(self, state: State) -> int:
        """Closed segments in which all is decided may be cleaned."""
        bound = stable(state.history, state.end)
        return max(base for base in state.segments if base <= bound)

    def is_aborted(self, state: State, entry: Entry) -> bool:
        """Whether the index says so of a record."""
        return any(one.producer == entry.producer and one.first <= entry.offset <= one.last for one in state.aborted)

    def supersedes(self, state: State, entry: Entry) -> bool:
        """Whether an entry stands for the older ones of its key: a record does that is not aborted, and no marker."""
        return not entry.is_empty and not entry.is_marker and not self.is_aborted(state, entry)

    def keeps(self, state: State, map_: Map, entry: Entry) -> bool:
        """Whether a record stays: none that is aborted; else the newest of its key, and all beyond the map."""
        if entry.is_empty or self.is_aborted(state, entry):
            return False
        return not map_.has_later(entry) and (entry.value != DELETED or not self.is_due(state, entry))

    def keeps_marker(self, state: State, map_: Map, entry: Entry, *, needed: bool) -> bool:
        """Whether a marker stays: for what the log has of its transaction, and then for its time."""
        return not entry.is_empty and (needed or not self.is_due(state, entry))

    def leaves_its_place(self, entry: Entry, end: int) -> bool:
        """Whether an entry that goes leaves an empty batch: the last one before `end` does, where the round ends."""
        return entry.offset == end - 1

    def is_due(self, state: State, entry: Entry) -> bool:
        """Whether a tombstone's time has come, or a marker's."""
        return entry.horizon != NEVER and state.now >= entry.horizon

    def horizon(self, state: State, map_: Map, entry: Entry, *, needed: bool) -> int:
        """When an entry that stays may go: its time begins when a round meets it that leaves nothing that needs it."""
        ages = not needed if entry.is_marker else entry.value == DELETED
        if entry.horizon != NEVER or not ages or entry.offset >= map_.end:
            return entry.horizon
        return state.now + self.retention

    def mapped(self, state: State, keys: int) -> Map:
        """The newest offset of each key in the dirty part, up to the first record that has no place."""
        offsets: dict[int, int] = {}
        bound, end = self.cleanable_end(state), state.clean
        for entry in state.log:
            if entry.offset >= bound:
                break
            if entry.offset >= state.clean and self.supersedes(state, entry):
                if entry.key not in offsets and len(offsets) == keys:
                    closed = max(base for base in state.segments if base <= entry.offset)
                    return Map(tuple(sorted(offsets.items())), max(end, closed))
                offsets[entry.key] = entry.offset
            end = max(end, entry.offset + 1)
        return Map(tuple(sorted(offsets.items())), bound)

    def cleaned(self, state: State, keys: int) -> State:
        """The log after a round: the segments that the map reaches are one."""
        map_ = self.mapped(state, keys)
        end = next(base for base in state.segments if base >= map_.end)
        met, kept, index = set[int](), list[Entry](), [one for one in state.aborted if one.last >= end]
        for entry in state.log:
            needed = False
            if entry.is_marker and not entry.is_empty:
                needed = entry.producer in met
                met.discard(entry.producer)
                if needed:
                    index += [one for one in state.aborted if one.last == entry.offset < end]
            elif not entry.is_marker:
                met.add(entry.producer)
            if entry.offset >= end:
                kept.append(entry)
            elif self._stays(state, map_, entry, needed=needed):
                kept.append(evolve(entry, horizon=self.horizon(state, map_, entry, needed=needed)))
            elif self.leaves_its_place(entry, end):
                kept.append(entry.emptied)
        return evolve(
            state,
            log=tuple(kept),
            segments=(0, *(base for base in state.segments if base >= end)),
            aborted=tuple(sorted(index, key=lambda one: one.last)),
            clean=map_.end,
        )

    def _stays(self, state: State, map_: Map, entry: Entry, *, needed: bool) -> bool:
        if entry.is_marker:
            return self.keeps_marker(state, map_, entry, needed=needed)
        return self.keeps(state, map_, entry)


@attrs.frozen
class CleaningAction(GuardedAction[CleaningRules, State]):
    """An action of this machine."""


def _appended(state: State, entry: Entry) -> State:
    return evolve(state, log=(*state.log, entry), history=(*state.history, entry))


@attrs.frozen
class Append(CleaningAction):
    """A user writes a record, in the transaction of a producer or in none."""

    fair: ClassVar[bool] = False

    key: int
    tombstone: bool = False
    producer: int = NO_PRODUCER

    def guard(self, machine: CleaningRules, state: State) -> str:
        written = sum(not entry.is_marker for entry in state.history)
        return "enough was appended" if written >= machine.max_records else ""

    def effect(self, machine: CleaningRules, state: State) -> State:
        value = 1 + sum(one.key == self.key and not one.is_marker for one in state.history)
        return _appended(
            state, Entry(state.end, self.key, DELETED if self.tombstone else value, producer=self.producer)
        )


@attrs.frozen
class EndTransaction(CleaningAction):
    """A coordinator writes the marker."""

    fair: ClassVar[bool] = False

    producer: int
    commits: bool

    def guard(self, machine: CleaningRules, state: State) -> str:
        return "" if self.producer in open_in(state.history) else "no transaction of this producer is open"

    def effect(self, machine: CleaningRules, state: State) -> State:
        kind = Kind.COMMIT if self.commits else Kind.ABORT
        first = open_in(state.history)[self.producer]
        index = () if self.commits else (Aborted(self.producer, first, state.end),)
        marker = Entry(state.end, kind.value, 1, kind=kind, producer=self.producer)
        return evolve(_appended(state, marker), aborted=(*state.aborted, *index))


@attrs.frozen
class Roll(CleaningAction):
    """The active segment is closed."""

    fair: ClassVar[bool] = False

    def guard(self, machine: CleaningRules, state: State) -> str:
        return "the active segment is empty" if state.segments[-1] == state.end else ""

    def effect(self, machine: CleaningRules, state: State) -> State:
        return evolve(state, segments=(*state.segments, state.end))


@attrs.frozen
class Clean(CleaningAction):
    """A round, with a map of at most so many keys."""

    keys: int

    def guard(self, machine: CleaningRules, state: State) -> str:
        return "nothing is dirty" if state.clean >= machine.cleanable_end(state) else ""

    def effect(self, machine: CleaningRules, state: State) -> State:
        return machine.cleaned(state, self.keys)


@attrs.frozen
class Tick(CleaningAction):
    """Time goes on."""

    fair: ClassVar[bool] = False

    def guard(self, machine: CleaningRules, state: State) -> str:
        return "the end of time" if state.now >= machine.max_time else ""

    def effect(self, machine: CleaningRules, state: State) -> State:
        return evolve(state, now=state.now + 1)


@attrs.frozen
class StartCopying(CleaningAction):
    """A replica begins at the start of the log, and has nothing."""

    fair: ClassVar[bool] = False

    def guard(self, machine: CleaningRules, state: State) -> str:
        is_there = state.replica.position == 0 and state.replica.began == state.now
        return "it is there" if is_there else ""

    def effect(self, machine: CleaningRules, state: State) -> State:
        return evolve(state, replica=Replica(began=state.now))


@attrs.frozen
class Copy(CleaningAction):
    """The replica appends the next entry to its own log."""

    def guard(self, machine: CleaningRules, state: State) -> str:
        return "" if any(one.offset >= state.replica.position for one in state.log) else "it has all"

    def effect(self, machine: CleaningRules, state: State) -> State:
        replica = state.replica
        entry = next(one for one in state.log if one.offset >= replica.position)
        return evolve(state, replica=evolve(replica, log=(*replica.log, entry)))


@attrs.frozen
class TransactionalCompaction(CleaningRules, GuardedMachine[State]):
    """The machine: one log, its cleaner, and a replica that copies it."""

    action_base = CleaningAction
    action_types: ClassVar[tuple[type[Action], ...]] = (
        Append,
        EndTransaction,
        Roll,
        Clean,
        Tick,
        StartCopying,
        Copy,
    )

    def initial(self) -> Iterable[State]:
        return (State(),)

    def candidates(self, state: State) -> Iterable[GuardedAction[CleaningRules, State]]:
        kinds = (False, True) if self.tombstones else (False,)
        for producer in range(NO_PRODUCER, self.producers):
            yield from (Append(key, tombstone, producer) for key in range(self.keys) for tombstone in kinds)
        for producer in range(self.producers):
            yield from (EndTransaction(producer, commits) for commits in (True, False))
        yield Roll()
        yield from (Clean(keys) for keys in range(1, self.keys + 1))
        yield Tick()
        if self.copies:
            yield from (StartCopying(), Copy())

    # Properties

    @property
    def invariants(self) -> Mapping[str, Invariant[State]]:
        return {
            "NothingOpensAgain": nothing_opens_again,
            "NewestCommittedValues": newest_committed_values,
            "SegmentsEndWhereTheyDid": segments_end_where_they_did,
            "CleanPart": clean_part,
            "PromptReplica": self.prompt_replica,
        }

    def prompt_replica(self, state: State) -> bool:
        """A replica that has come to the end within the markers' time knows what was committed, and what is open."""
        replica = state.replica
        if replica.position < state.end or state.now - replica.began >= self.retention:
            return True
        is_same = table(committed_in(replica.log)) == table(committed_in(state.history))
        return is_same and open_in(replica.log) == open_in(state.history)

    @property
    def converges(self) -> Mapping[str, Invariant[State]]:
        return {
            "what is closed and decided gets clean": lambda state: state.clean >= self.cleanable_end(state),
            "a replica gets to the end": lambda state: not self.copies or state.replica.position == state.end,
        }

    def explain(self, invariant: str, state: State) -> Mapping[str, object]:
        return {
            "log": state.log,
            "what was ever appended": state.history,
            "the index says is aborted": state.aborted,
            "what a consumer of committed records gets": tuple(returned(state)),
            "open, by the log": open_in(state.log),
            "open": open_in(state.history),
        }

    @property
    def sometimes(self) -> Mapping[str, Invariant[State]]:
        return {
            "a marker has outlived its records": lambda state: any(
                one.is_marker and one.horizon != NEVER for one in state.log
            ),
            "a marker is gone": lambda state: any(
                one.is_marker and all(kept.is_empty or kept.offset != one.offset for kept in state.log)
                for one in state.history
            ),
            "a batch without its record keeps a marker": lambda state: any(
                one.is_empty and one.producer != NO_PRODUCER and not one.is_marker for one in state.log
            ),
        }


def newest_committed_values(state: State) -> bool:
    """A consumer of committed records gets what all that was ever committed says of each key."""
    bound = stable(state.history, state.end)
    return table(returned(state)) == table(one for one in committed_in(state.history) if one.offset < bound)


def nothing_opens_again(state: State) -> bool:
    """Who reads the log finds those transactions open that are."""
    return open_in(state.log) == open_in(state.history)


def segments_end_where_they_did(state: State) -> bool:
    """Each closed segment has its last offset, whatever a round has taken: the next one goes on from there."""
    offsets = {entry.offset for entry in state.log}
    return all(base - 1 in offsets for base in state.segments[1:])


def clean_part(state: State) -> bool:
    """Below the clean offset no key comes twice."""
    keys = [one.key for one in state.log if one.offset < state.clean and not one.is_empty and not one.is_marker]
    return len(keys) == len(set(keys))
