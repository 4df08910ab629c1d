"""What a coordinator of groups can decide about their offsets, one class each, named as the action of `spec.offsets`.

Each decision says of which partition of `__consumer_offsets` and leader epoch it is (`groups.OfGroups`). What is
*written* is on its way from `Append` on, and counts with `Apply`; in a transaction, with `EndTransaction`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from tidegauge.impl.server.trace.groups import OfGroups

if TYPE_CHECKING:
    from kio.schema.errors import ErrorCode

    from tidegauge.impl.coordinators.groups.log_entries import LogEntry
    from tidegauge.impl.coordinators.groups.offsets import CommittedOffset, GroupOffsets
    from tidegauge.impl.coordinators.groups.record_formats import OffsetKey, OffsetValue
    from tidegauge.impl.coordinators.groups.requests import Commit as CommitRequest

    Written = tuple[tuple[OffsetKey, OffsetValue | None], ...]
    """Offsets and, by None, tombstones."""
    Found = CommittedOffset | ErrorCode | None


class OffsetsSeen(NamedTuple):
    """What a coordinator knows of one offset of a group."""

    key: OffsetKey
    committed: CommittedOffset | None
    pending: tuple[tuple[int, CommittedOffset], ...]
    """Those in open transactions, by producer id."""

    @classmethod
    def of(cls, offsets: GroupOffsets) -> Iterator[OffsetsSeen]:
        """All that it knows."""
        for key in sorted(offsets.every_key()):
            pending = ((one, waiting[key]) for one, waiting in offsets.pending.items() if key in waiting)
            yield cls(key, offsets.get(key), tuple(sorted(pending)))


class OfOffsets(OfGroups):
    """A decision about offsets."""


class Load(OfOffsets):
    """The coordinator has read its log."""

    entries: tuple[LogEntry, ...]
    """What the log said of offsets and transactions, in its order."""
    after: tuple[OffsetsSeen, ...]


class OfGroupsOffsets(OfOffsets):
    """A decision about the offsets of one group."""

    group: str
    members: int | None
    """How many it has; None where nobody has ever joined."""


class Commit(OfGroupsOffsets):
    """OffsetCommit."""

    request: CommitRequest
    error: ErrorCode
    refused: Mapping[tuple[str, int], ErrorCode]
    """Of partitions, by topic and number."""
    written: Written
    now_ms: int


class CommitInTransaction(Commit):
    """TxnOffsetCommit."""


class Delete(OfGroupsOffsets):
    """OffsetDelete, or DeleteGroups."""

    places: tuple[tuple[str, int], ...] | None
    """By topic and number; None for the whole group."""
    error: ErrorCode
    refused: Mapping[tuple[str, int], ErrorCode]
    written: Written


class FetchStable(OfGroupsOffsets):
    """OffsetFetch: for what stays, or for what there is."""

    found: Mapping[tuple[str, int], Found]
    is_stable: bool
    is_all: bool
    """Whether it has asked for all that the group has."""


class Expire(OfOffsets):
    """Offsets are let go that nobody has committed for long."""

    members: tuple[tuple[str, int | None], ...]
    """Of the groups whose offsets they are."""
    empty_since: tuple[tuple[str, int], ...]
    """Of the same, when a group has lost its last member, in ms since 1970; -1 where nothing says that."""
    retention_ms: int
    written: Written
    now_ms: int


class DropTopic(OfOffsets):
    """Offsets in a topic are let go that was deleted."""

    deleted: str
    written: Written


class Append(OfOffsets):
    """Records are on their way into the log."""

    written: Written


class Apply(OfOffsets):
    """They are committed, from this offset of the log on."""

    written: Written
    base_offset: int
    producer_id: int
    """-1 if they are of no transaction."""
    after: tuple[OffsetsSeen, ...]


class RespondToCommit(OfOffsets):
    """Who has asked for it is told that it is in the log."""

    written: Written


class FailAppend(OfOffsets):
    """They are not in the log, and never will be."""

    written: Written


class EndTransaction(OfOffsets):
    """A producer's marker is committed, at this offset of the log."""

    place: int
    producer_id: int
    commits: bool
    after: tuple[OffsetsSeen, ...]


class RespondToMarker(OfOffsets):
    """Who has asked for a producer's marker is told that it counts."""

    producer_id: int
    commits: bool
    place: int | None
    """Where it is in the log; None if the coordinator does not know of it."""
