"""A consumer group as records of `__consumer_offsets` say it, the log that they are in, and a load of that log."""

from __future__ import annotations

from enum import Enum, IntEnum

import attrs

NONE = -1


class Error(IntEnum):
    """Kafka's error codes, those of who asks here."""

    COORDINATOR_LOAD_IN_PROGRESS = 14


class Kind(IntEnum):
    """What a record is of, by the number that its key begins with."""

    EPOCH = 3
    """The group's epoch: the group is there."""
    MEMBER = 5
    """A member is there."""
    TARGET_EPOCH = 6
    TARGET = 7
    """Whether the partition is to be a member's."""
    CURRENT = 8
    """A member's epoch, and what it has."""


class Holding(Enum):
    """What a member has of the partition."""

    NOTHING = "nothing"
    ASSIGNED = "assigned"
    GIVES_BACK = "gives back"
    """It is asked for the partition, and has not acknowledged."""


@attrs.frozen(cache_hash=True)
class Member:
    """A member as its records say it: MEMBER that it is there, CURRENT the rest."""

    epoch: int = 0
    holding: Holding = Holding.NOTHING


@attrs.frozen(cache_hash=True)
class Group:
    """A consumer group of one topic with one partition."""

    members: tuple[Member | None, ...]
    """By number; None is not there."""
    targets: tuple[bool | None, ...]
    """Whose the partition is to be, by the member's number; None has no target."""
    epoch: int = 1
    target_epoch: int = 1


@attrs.frozen(cache_hash=True)
class Value:
    """What a record says; which of it counts depends on the kind."""

    epoch: int = 0
    holding: Holding = Holding.NOTHING
    is_owner: bool = False


@attrs.frozen(cache_hash=True)
class Record:
    """A record of the log; without a value it is a tombstone."""

    batch: int
    """The batch that it is in, one for each change; they are numbered from 0."""
    kind: Kind
    member: int = NONE
    """Whose, if it is a member's: with the kind it is the record's key."""
    value: Value | None = None


@attrs.frozen(cache_hash=True)
class Load:
    """A coordinator that reads the log from its start."""

    position: int = 0
    """The batch that it reads next."""
    group: Group | None = None
    """What it has made of the records so far."""
    is_refused: bool = False
    """It has met a record that it does not take, and goes no further: the group has no coordinator."""


@attrs.frozen
class State:
    """The log of a group, the group that was written, and the load that is under way."""

    group: Group | None = None
    """As it was written; the coordinator's, if no load is under way."""
    log: tuple[Record, ...] = ()
    """What the cleaner has left."""
    end: int = 0
    """How many batches were written."""
    load: Load | None = None
    changes: int = 0
    """How often members came and went, and the group."""
    rounds: int = 0
    """How often the cleaner was there."""

    @property
    def unread(self) -> tuple[Record, ...]:
        """What the load has yet to read."""
        start = self.end if self.load is None else self.load.position
        return tuple(record for record in self.log if record.batch >= start)
