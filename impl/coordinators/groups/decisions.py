"""What the coordinator of groups decides about offsets, and what its log brings: told to who follows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol, TypeAlias

from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.log_entries import LogEntry, TransactionEnded
from tidegauge.impl.coordinators.groups.offsets import CommittedOffset
from tidegauge.impl.coordinators.groups.requests import Commit, Ruling
from tidegauge.impl.records.batches import NO_PRODUCER_ID

Found: TypeAlias = CommittedOffset | ErrorCode | None


class Committing(NamedTuple):
    """A client commits."""

    commit: Commit
    ruling: Ruling
    now_ms: int


class Deleting(NamedTuple):
    """An operator deletes offsets of a group, or all of it."""

    group: str
    places: tuple[tuple[str, int], ...] | None
    """By topic and number; None for the group."""
    ruling: Ruling


class Expiring(NamedTuple):
    """The coordinator looks for what nobody has committed for long."""

    now_ms: int
    ruling: Ruling


class Dropping(NamedTuple):
    """A topic was deleted."""

    topic: str
    ruling: Ruling


class Appending(NamedTuple):
    """What a ruling writes is on its way into the log."""

    ruling: Ruling


class Applying(NamedTuple):
    """It is committed, from this offset of the log on, and counts; in a transaction once that is committed."""

    ruling: Ruling
    base_offset: int
    producer_id: int = NO_PRODUCER_ID


class Acknowledging(NamedTuple):
    """Who has asked for it is told that it is in the log."""

    ruling: Ruling


class GivingUp(NamedTuple):
    """It never will be in the log."""

    ruling: Ruling


class Ending(NamedTuple):
    """A marker is committed."""

    marker: TransactionEnded


class Reading(NamedTuple):
    """The log is read while it is loaded."""

    entries: tuple[LogEntry, ...]


class Telling(NamedTuple):
    """A client is told what is committed."""

    group: str
    found: Mapping[tuple[str, int], Found]
    """By topic and number."""
    is_stable: bool
    """Whether it has asked for what stays."""
    is_all: bool = False
    """Whether it has asked for all that there is."""


class Confirming(NamedTuple):
    """Who has asked for a producer's marker is told that it counts."""

    producer_id: int
    is_commit: bool
    place: int | None
    """Where it is in the log; None if the coordinator does not know of it."""


OffsetDecision: TypeAlias = (
    Committing
    | Deleting
    | Expiring
    | Dropping
    | Appending
    | Applying
    | Acknowledging
    | GivingUp
    | Ending
    | Confirming
    | Reading
    | Telling
)


class OffsetWatch(Protocol):
    """Is told of every decision, right after it."""

    def __call__(self, decision: OffsetDecision, /) -> None: ...
