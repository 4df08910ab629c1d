"""What a coordinator of groups decides about their offsets, as events of the trace, where that is of groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegauge.impl.coordinators.groups.decisions import (
    Acknowledging,
    Appending,
    Applying,
    Committing,
    Confirming,
    Deleting,
    Dropping,
    Ending,
    Expiring,
    GivingUp,
    Reading,
    Telling,
)
from tidegauge.impl.coordinators.groups.log_entries import LogEntry, OffsetWritten, TransactionEnded
from tidegauge.impl.server import trace

if TYPE_CHECKING:
    from tidegauge.impl.coordinators.groups.coordinator import GroupCoordinator
    from tidegauge.impl.coordinators.groups.decisions import OffsetDecision
    from tidegauge.impl.server.trace.group_offsets import OffsetsSeen
    from tidegauge.impl.server.trace.tracer import Tracer


class GroupOffsetsTrace:
    """Records the decisions of one core, in one leader epoch."""

    def __init__(self, tracer: Tracer, core: GroupCoordinator, partition: int, leader_epoch: int) -> None:
        self._tracer = tracer
        self._core = core
        self._of = (partition, leader_epoch)
        self._read: list[LogEntry] = []

    def loaded(self) -> None:
        """All of the log is in memory."""
        self._tracer.record(trace.group_offsets.Load, *self._of, tuple(self._read), self._seen())
        self._read.clear()

    def decided(self, decision: OffsetDecision) -> None:
        """The core has decided this just now."""
        kinds, record, of = trace.group_offsets, self._tracer.record, self._of
        match decision:
            case Reading(entries=entries):
                self._read += [one for one in entries if isinstance(one, OffsetWritten | TransactionEnded)]
            case Committing(commit=commit, ruling=ruling, now_ms=now_ms):
                kind = kinds.CommitInTransaction if commit.is_transactional else kinds.Commit
                of_group = (*of, commit.group, self._members(commit.group))
                record(kind, *of_group, commit, ruling.error, ruling.refused, ruling.offsets, now_ms)
            case Deleting(group=group, places=places, ruling=ruling):
                of_group = (*of, group, self._members(group))
                record(kinds.Delete, *of_group, places, ruling.error, ruling.refused, ruling.offsets)
            case Telling(group=group, found=found, is_stable=is_stable, is_all=is_all):
                record(kinds.FetchStable, *of, group, self._members(group), found, is_stable, is_all)
            case Expiring(now_ms=now_ms, ruling=ruling) if ruling.offsets:
                groups = sorted({key.group for key in ruling.keys})
                members = tuple((group, self._members(group)) for group in groups)
                since = tuple((group, self._core.empty_since(group)) for group in groups)
                record(kinds.Expire, *of, members, since, self._core.limits.retention_ms, ruling.offsets, now_ms)
            case Dropping(topic=topic, ruling=ruling) if ruling.offsets:
                record(kinds.DropTopic, *of, topic, ruling.offsets)
            case Appending(ruling=ruling) if ruling.offsets:
                record(kinds.Append, *of, ruling.offsets)
            case Applying(ruling=ruling, base_offset=base_offset, producer_id=producer_id) if ruling.offsets:
                record(kinds.Apply, *of, ruling.offsets, base_offset, producer_id, self._seen())
            case GivingUp(ruling=ruling) if ruling.offsets:
                record(kinds.FailAppend, *of, ruling.offsets)
            case Ending(marker=marker):
                place, producer_id, commits = marker.log_offset, marker.producer_id, marker.is_commit
                record(kinds.EndTransaction, *of, place, producer_id, commits, self._seen())
            case Confirming(producer_id=producer_id, is_commit=is_commit, place=place):
                record(kinds.RespondToMarker, *of, producer_id, is_commit, place)
            case Acknowledging(ruling=ruling) if ruling.offsets:
                record(kinds.RespondToCommit, *of, ruling.offsets)

    def _seen(self) -> tuple[OffsetsSeen, ...]:
        return tuple(trace.group_offsets.OffsetsSeen.of(self._core.offsets))

    def _members(self, group: str) -> int | None:
        """How many there are; None in a group that is none but for its offsets."""
        if (consumers := self._core.migration.consumer_group(group)) is not None:
            return len(consumers.members)
        known = self._core.classic.get(group)
        return None if known is None else len(known.members)
