"""The rules of the offsets of groups, each a method that a mutant overrides; the constants bound the search."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.guarded import GuardedMachine
from tidegauge.spec.offsets.state import NONE, Committed, Entry, Error, Kind, Membership, State, Store


@attrs.frozen
class OffsetRules(GuardedMachine[State]):
    """What a coordinator of offsets decides, and what is left of its log."""

    producers: int = 2
    """Transactional ones; each may have one transaction open at a time."""
    max_entries: int = 5
    retention: int = 1
    """Ticks after which an offset expires."""
    max_time: int = 1
    max_failures: int = 1
    """How often another leader takes over."""
    max_rebalances: int = 0
    """How often members join, or join anew; with 0 the group never has any."""
    applies_later: bool = False
    """Whether what is committed is replayed in a step of its own, and markers are acknowledged in another."""
    asked: tuple[int, ...] = ()
    """The ticks for which clients may ask a value to be kept (OffsetCommit 2 to 4)."""
    is_old_format: bool = False
    """Whether every value in the log has an expiry, as brokers before 2.1 write it: -1 where no client has asked."""

    # --- the log -------------------------------------------------------------------------------------------------

    def stored(self, entry: Entry) -> Entry:
        """An entry as the log has it."""
        is_told = entry.kind is Kind.OFFSET and self.is_old_format and entry.expires_at is None
        return evolve(entry, expires_at=NONE) if is_told else entry

    def read(self, entry: Entry) -> Entry:
        """An entry as a load reads it: an expiry of -1 is none (KAFKA-8069)."""
        return evolve(entry, expires_at=None) if entry.expires_at == NONE else entry

    # --- the store -----------------------------------------------------------------------------------------------

    def replayed(self, store: Store, entries: Iterable[Entry]) -> Store:
        """The store after it was told of the next entries of the log."""
        for entry in entries:
            match entry.kind:
                case Kind.TOMBSTONE:
                    store = self.after_tombstone(store)
                case Kind.OFFSET if entry.producer == NONE:
                    store = evolve(store, committed=_committed(entry))
                case Kind.OFFSET:
                    waiting = entry.producer, _committed(entry)
                    pending = tuple(sorted((*store.without(entry.producer), waiting), key=_producer))
                    store = evolve(store, pending=pending)
                case Kind.COMMIT | Kind.ABORT:
                    store = self.after_marker(store, entry)
        return store

    def after_tombstone(self, store: Store) -> Store:
        """What is pending was written before the tombstone, and goes as well."""
        return Store()

    def after_marker(self, store: Store, marker: Entry) -> Store:
        """A commit marker makes a pending value count, unless another one was written later."""
        value = dict(store.pending).get(marker.producer)
        if value is None:
            return store
        committed = store.committed
        if marker.kind is Kind.COMMIT and self.counts_more(value, committed):
            committed = value
        return evolve(store, committed=committed, pending=store.without(marker.producer))

    def counts_more(self, value: Committed, committed: Committed | None) -> bool:
        """Of two values the one that was written later counts, for compaction keeps that one."""
        return committed is None or committed.place < value.place

    def loaded(self, log: Iterable[Entry]) -> Store:
        """What a new leader knows, all of whose log is committed."""
        return self.replayed(Store(), map(self.read, log))

    def kept_by_former(self, store: Store) -> Store | None:
        """What a leader whose replica is taken away goes on to tell: nothing (KAFKA-9235)."""
        return None

    # --- what is refused -----------------------------------------------------------------------------------------

    def commit_error(self, state: State, generation: int, *, is_transactional: bool) -> Error:
        """Nobody is a member here that could commit; a group that is not there has no generation at all.

        A producer of before KIP-447 does not say whose offset it commits, and is believed.
        """
        if generation == NONE:
            is_no_member = state.has_members and not is_transactional
            return Error.UNKNOWN_MEMBER_ID if is_no_member else Error.NONE
        return Error.UNKNOWN_MEMBER_ID if self.is_there(state) else Error.ILLEGAL_GENERATION

    def is_there(self, state: State) -> bool:
        """A group is there as long as it has, or has had, a member, or has an offset, committed or pending."""
        store = state.store
        return store.committed is not None or bool(store.pending) or state.membership is not Membership.NONE

    def fetch_error(self, state: State) -> Error:
        """Who asks for a stable offset is not told one that may change: by an open transaction, by what is on its way.

        A former member's commit is on its way, is acknowledged after all, and counts (KIP-447).
        """
        is_unstable = bool(state.store.pending) or self.is_in_flight(state)
        return Error.UNSTABLE_OFFSET_COMMIT if is_unstable else Error.NONE

    def deletion_error(self, state: State) -> Error:
        """Nobody takes away what members go by."""
        if state.has_members:
            return Error.NON_EMPTY_GROUP
        return Error.NONE if self.is_there(state) else Error.GROUP_ID_NOT_FOUND

    # --- expiry --------------------------------------------------------------------------------------------------

    def expires(self, state: State) -> bool:
        """Whether the committed value may go: it is old, and nothing newer is pending, or on its way."""
        committed = state.store.committed
        if committed is None or not self.is_over(committed, self.counts_from(state, committed), state.now):
            return False
        return not self.has_members(state) and not self.is_pending(state) and not self.is_in_flight(state)

    def is_over(self, committed: Committed, since: int, now: int) -> bool:
        """Whether a value's time is over: the one that its client has asked for, or else the broker's (KIP-211)."""
        if committed.expires_at is not None:
            return committed.expires_at <= now
        return since + self.retention <= now

    def counts_from(self, state: State, committed: Committed) -> int:
        """When the broker's time begins: with the commit, and not before the group has lost its members (KIP-211)."""
        return max(committed.time, state.empty_since)

    def has_members(self, state: State) -> bool:
        """Whether somebody may yet go on from the value: a member that has joined, assigned or not (KAFKA-13636)."""
        return state.has_members

    def is_pending(self, state: State) -> bool:
        """Whether an open transaction has a value too."""
        return bool(state.store.pending)

    def is_in_flight(self, state: State) -> bool:
        """Whether a value is in the log and not replayed yet."""
        return any(entry.kind in (Kind.OFFSET, Kind.TOMBSTONE) for entry in state.in_flight)

    # --- markers -------------------------------------------------------------------------------------------------

    def acknowledgeable(self, state: State) -> int:
        """Up to where markers are acknowledged: they have taken effect here (KAFKA-17507)."""
        return state.applied

    # --- the cleaner ---------------------------------------------------------------------------------------------

    def cleanable(self, state: State) -> int:
        """The cleaner stops where a transaction is open, and at the high watermark."""
        return min((*state.open_from(), state.high_watermark))

    def cleaned(self, state: State, end: int) -> tuple[Entry, ...]:
        """The log after a round up to `end`: the newest value or tombstone is left, and none that was aborted."""
        aborted = self.aborted(state)
        counting = [
            entry.place
            for entry in state.log
            if entry.place < end and entry.kind in (Kind.OFFSET, Kind.TOMBSTONE) and entry.place not in aborted
        ]
        newest = max(counting, default=NONE)
        kept: list[Entry] = []
        for entry in state.log:
            if (
                entry.place >= end
                or (entry.kind is Kind.OFFSET and entry.place == newest)
                or (entry.kind in (Kind.COMMIT, Kind.ABORT) and self.is_needed(entry, kept))
            ):
                kept.append(entry)
        return tuple(kept)

    def is_needed(self, marker: Entry, kept: Iterable[Entry]) -> bool:
        """Whether a marker ends a value that is left."""
        return any(entry.kind is Kind.OFFSET and entry.producer == marker.producer for entry in kept)

    def aborted(self, state: State) -> frozenset[int]:
        """The places of values whose transactions were aborted."""
        found: set[int] = set()
        written: dict[int, list[int]] = {}
        for entry in state.history:
            if entry.kind is Kind.OFFSET:
                written.setdefault(entry.producer, []).append(entry.place)
            elif entry.kind is Kind.COMMIT:
                written.pop(entry.producer, None)
            elif entry.kind is Kind.ABORT:
                found.update(written.pop(entry.producer, ()))
        return frozenset(found)


def _committed(entry: Entry) -> Committed:
    return Committed(entry.place, entry.value, entry.time, entry.expires_at)


def _producer(pending: tuple[int, Committed]) -> int:
    return pending[0]
