"""What may happen to the offsets of a group."""

from __future__ import annotations

from typing import ClassVar

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.guarded import GuardedAction, Refusal
from tidegauge.spec.offsets.rules import OffsetRules
from tidegauge.spec.offsets.state import NONE, Entry, Error, Kind, Membership, State, Store


@attrs.frozen
class OffsetAction(GuardedAction[OffsetRules, State]):
    """An action of this machine."""


def _refusal(error: Error) -> str:
    return Refusal(f"the response is {error.name}", error) if error is not Error.NONE else ""


def _has_room(machine: OffsetRules, state: State) -> bool:
    return state.end < machine.max_entries


def _appended(machine: OffsetRules, state: State, entry: Entry) -> State:
    log = (*state.log, machine.stored(entry))
    return evolve(state, log=log, history=(*state.history, entry), end=state.end + 1)


@attrs.frozen
class Commit(OffsetAction):
    """A client commits; one without a membership names no generation."""

    fair: ClassVar[bool] = False

    generation: int = NONE
    retention: int = NONE
    """For how long it asks the value to be kept (OffsetCommit 2 to 4)."""

    def guard(self, machine: OffsetRules, state: State) -> str:
        if not _has_room(machine, state):
            return "enough is in the log"
        if self.retention not in (NONE, *machine.asked):
            return "no client asks for that time"
        return _refusal(machine.commit_error(state, self.generation, is_transactional=False))

    def effect(self, machine: OffsetRules, state: State) -> State:
        expires_at = None if self.retention == NONE else state.now + self.retention
        entry = Entry(state.end, Kind.OFFSET, value=state.end, time=state.now, expires_at=expires_at)
        return _appended(machine, state, entry)


@attrs.frozen
class CommitInTransaction(OffsetAction):
    """The same in a transaction."""

    fair: ClassVar[bool] = False

    producer: int
    generation: int = NONE

    def guard(self, machine: OffsetRules, state: State) -> str:
        if not _has_room(machine, state):
            return "enough is in the log"
        return _refusal(machine.commit_error(state, self.generation, is_transactional=True))

    def effect(self, machine: OffsetRules, state: State) -> State:
        entry = Entry(state.end, Kind.OFFSET, producer=self.producer, value=state.end, time=state.now)
        return _appended(machine, state, entry)


@attrs.frozen
class WriteMarker(OffsetAction):
    """The transaction's coordinator ends it; it commits what its producer was told is in the log."""

    producer: int
    commits: bool

    def guard(self, machine: OffsetRules, state: State) -> str:
        if not any(self._is_open(entry, state) for entry in state.history):
            return "no transaction of this producer is open"
        if self.commits and any(self._is_open(entry, state) for entry in state.in_flight):
            return "the producer was not told that its offset is committed"
        return ""

    def _is_open(self, entry: Entry, state: State) -> bool:
        ended = [one.place for one in state.history if one.producer == self.producer and one.kind is not Kind.OFFSET]
        return entry.producer == self.producer and entry.place > max(ended, default=NONE)

    def effect(self, machine: OffsetRules, state: State) -> State:
        kind = Kind.COMMIT if self.commits else Kind.ABORT
        return _appended(machine, state, Entry(state.end, kind, producer=self.producer))


@attrs.frozen
class Replicate(OffsetAction):
    """The log is committed to its end, and the coordinator replays what is new."""

    def guard(self, machine: OffsetRules, state: State) -> str:
        return "" if state.high_watermark < state.end else "all is committed"

    def effect(self, machine: OffsetRules, state: State) -> State:
        state = evolve(state, high_watermark=state.end)
        return state if machine.applies_later else _applied(machine, state)


def _applied(machine: OffsetRules, state: State) -> State:
    """All that is committed is replayed."""
    new = tuple(entry for entry in state.in_flight if entry.place < state.high_watermark)
    return evolve(state, store=machine.replayed(state.store, new), applied=state.high_watermark)


@attrs.frozen
class Apply(OffsetAction):
    """The coordinator replays what is committed."""

    def guard(self, machine: OffsetRules, state: State) -> str:
        return "" if state.applied < state.high_watermark else "all that is committed is replayed"

    def effect(self, machine: OffsetRules, state: State) -> State:
        return _applied(machine, state)


@attrs.frozen
class Acknowledge(OffsetAction):
    """The transactions' coordinators are told that their markers are written."""

    def guard(self, machine: OffsetRules, state: State) -> str:
        if not machine.applies_later:
            return "markers are acknowledged as they are committed"
        return "" if state.acknowledged < machine.acknowledgeable(state) else "there is nothing to tell"

    def effect(self, machine: OffsetRules, state: State) -> State:
        return evolve(state, acknowledged=machine.acknowledgeable(state))


@attrs.frozen
class FailOver(OffsetAction):
    """Another broker takes over, with what is committed and perhaps more: it loads what it has."""

    fair: ClassVar[bool] = False

    end: int

    def guard(self, machine: OffsetRules, state: State) -> str:
        if state.failures >= machine.max_failures:
            return "no more leaders fail in this model"
        return "" if state.high_watermark <= self.end <= state.end else "nobody has a log that ends there"

    def effect(self, machine: OffsetRules, state: State) -> State:
        log = tuple(entry for entry in state.log if entry.place < self.end)
        return evolve(
            state,
            log=log,
            history=tuple(entry for entry in state.history if entry.place < self.end),
            end=self.end,
            high_watermark=self.end,
            applied=self.end,
            store=machine.loaded(log),
            former=machine.kept_by_former(state.store),
            failures=state.failures + 1,
        )


@attrs.frozen
class FetchStable(OffsetAction):
    """A client asks for the offset, and for one that stays; it is told, or has to ask again."""

    fair: ClassVar[bool] = False

    def guard(self, machine: OffsetRules, state: State) -> str:
        return _refusal(machine.fetch_error(state)) or "being told changes nothing"

    def effect(self, machine: OffsetRules, state: State) -> State:
        return state


@attrs.frozen
class Delete(OffsetAction):
    """An operator deletes the offset, or the group."""

    fair: ClassVar[bool] = False

    def guard(self, machine: OffsetRules, state: State) -> str:
        if refusal := _refusal(machine.deletion_error(state)):
            return refusal
        if state.store == Store():
            return "the group has had members, and has no offset"
        return "" if _has_room(machine, state) else "enough is in the log"

    def effect(self, machine: OffsetRules, state: State) -> State:
        return _appended(machine, state, Entry(state.end, Kind.TOMBSTONE, time=state.now))


@attrs.frozen
class Expire(OffsetAction):
    """The coordinator lets an offset go that nobody has committed for long."""

    def guard(self, machine: OffsetRules, state: State) -> str:
        return "" if machine.expires(state) else "nothing expires"

    def effect(self, machine: OffsetRules, state: State) -> State:
        tombstone = Entry(
            state.end,
            Kind.TOMBSTONE,
            time=state.now,
            is_expiry=True,
            has_members=state.has_members,
            empty_since=state.empty_since,
        )
        return _appended(machine, state, tombstone)


@attrs.frozen
class Clean(OffsetAction):
    """The cleaner goes over the log up to an offset; tombstones have had their time."""

    fair: ClassVar[bool] = False

    end: int

    def guard(self, machine: OffsetRules, state: State) -> str:
        if self.end > machine.cleanable(state):
            return "what is behind it is not stable"
        return "" if machine.cleaned(state, self.end) != state.log else "nothing would go"

    def effect(self, machine: OffsetRules, state: State) -> State:
        return evolve(state, log=machine.cleaned(state, self.end))


@attrs.frozen
class Tick(OffsetAction):
    """Time goes on."""

    fair: ClassVar[bool] = False

    def guard(self, machine: OffsetRules, state: State) -> str:
        return "" if state.now < machine.max_time else "the end of time"

    def effect(self, machine: OffsetRules, state: State) -> State:
        return evolve(state, now=state.now + 1)


@attrs.frozen
class Join(OffsetAction):
    """A member joins, or joins anew: the group rebalances."""

    fair: ClassVar[bool] = False

    def guard(self, machine: OffsetRules, state: State) -> str:
        if state.rebalances >= machine.max_rebalances:
            return "no more members join in this model"
        return "" if state.membership is not Membership.REBALANCING else "the group rebalances"

    def effect(self, machine: OffsetRules, state: State) -> State:
        rebalances = state.rebalances + 1
        return evolve(state, membership=Membership.REBALANCING, rebalances=rebalances, empty_since=NONE)


@attrs.frozen
class Assign(OffsetAction):
    """Members are told what to read."""

    def guard(self, machine: OffsetRules, state: State) -> str:
        return "" if state.membership is Membership.REBALANCING else "the group does not rebalance"

    def effect(self, machine: OffsetRules, state: State) -> State:
        return evolve(state, membership=Membership.STABLE)


@attrs.frozen
class Leave(OffsetAction):
    """The last member leaves."""

    fair: ClassVar[bool] = False

    def guard(self, machine: OffsetRules, state: State) -> str:
        return "" if state.has_members else "nobody is there"

    def effect(self, machine: OffsetRules, state: State) -> State:
        return evolve(state, membership=Membership.EMPTY, empty_since=state.now)
