"""The state of one partition of `__consumer_offsets`: its log, and what the coordinator has made of it."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, IntEnum

import attrs

NONE = -1


class Error(IntEnum):
    """Errors of responses, by Kafka's numbers."""

    NONE = 0
    ILLEGAL_GENERATION = 22
    UNKNOWN_MEMBER_ID = 25
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    UNSTABLE_OFFSET_COMMIT = 88


class Kind(Enum):
    """What an entry of the log is."""

    OFFSET = "offset"
    TOMBSTONE = "tombstone"
    COMMIT = "commit marker"
    ABORT = "abort marker"


class Membership(Enum):
    """Whether the group has members."""

    NONE = "none"
    """It never had any."""
    EMPTY = "empty"
    """They have gone."""
    REBALANCING = "rebalancing"
    """They have joined, and nobody knows yet who reads what."""
    STABLE = "stable"


@attrs.frozen
class Entry:
    """An entry of the log."""

    place: int
    """Its offset in the log: what is committed here is called a value."""
    kind: Kind
    producer: int = NONE
    """Of a marker, and of a value in a transaction."""
    value: int = NONE
    """Every commit has one of its own."""
    time: int = NONE
    """When it was written."""
    is_expiry: bool = False
    """Whether a tombstone was written because the value's time was over."""
    has_members: bool = False
    """Whether the group had members when such a tombstone was written."""
    empty_since: int = NONE
    """If it had none any more then: since when."""
    expires_at: int | None = None
    """When a value's time is over, if its client has asked for a time; in the log NONE may say that none has."""


@attrs.frozen
class Committed:
    """A value that counts, or may come to count."""

    place: int
    value: int
    time: int
    expires_at: int | None = None
    """If its client has asked for a time (OffsetCommit 2 to 4)."""


@attrs.frozen
class Store:
    """What the coordinator knows of one group's offset for one partition."""

    committed: Committed | None = None
    pending: tuple[tuple[int, Committed], ...] = ()
    """(producer, value) of open transactions, by producer."""

    def without(self, producer: int) -> tuple[tuple[int, Committed], ...]:
        """What else is pending."""
        return tuple(one for one in self.pending if one[0] != producer)


@attrs.frozen
class State:
    """The log, the store of its leader, and what was ever appended."""

    log: tuple[Entry, ...] = ()
    """What the cleaner has left."""
    end: int = 0
    high_watermark: int = 0
    applied: int = 0
    """Up to where the coordinator has replayed what is committed."""
    acknowledged: int = 0
    """Up to where the transactions' coordinators were told that their markers are written."""
    store: Store = Store()
    now: int = 0
    failures: int = 0
    membership: Membership = Membership.NONE
    rebalances: int = 0
    former: Store | None = None
    """What the last leader tells still, if it does not know that it leads no more."""
    history: tuple[Entry, ...] = ()
    """What was ever appended and not truncated: of what is replayed, for the invariants alone."""
    empty_since: int = NONE
    """When the group has lost its last member, if it is empty: its record says so."""

    @property
    def has_members(self) -> bool:
        """Whether the group has members, assigned or not."""
        return self.membership in (Membership.REBALANCING, Membership.STABLE)

    @property
    def in_flight(self) -> tuple[Entry, ...]:
        """What is in the log and not replayed yet."""
        return tuple(entry for entry in self.history if entry.place >= self.applied)

    def open_from(self) -> Iterator[int]:
        """Where each transaction begins in the log that no committed marker ends."""
        first: dict[int, int] = {}
        for entry in self.history:
            if entry.place >= self.high_watermark:
                break
            if entry.kind is Kind.OFFSET and entry.producer != NONE:
                first.setdefault(entry.producer, entry.place)
            elif entry.kind in (Kind.COMMIT, Kind.ABORT):
                first.pop(entry.producer, None)
        return iter(first.values())
