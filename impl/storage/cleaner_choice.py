"""Which log is compacted next, and how far: the dirtiest of those that are due (KIP-58, KIP-354)."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from tidegauge.impl.records.batches import NO_TIMESTAMP
from tidegauge.impl.storage.config import NEVER
from tidegauge.impl.storage.log import Log
from tidegauge.impl.storage.segment import Segment


@attrs.frozen(eq=False, repr=False)
class LogToClean:
    """A compacted log, and where its clean, cleanable and uncleanable parts meet."""

    log: Log = attrs.field(eq=False)
    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    is_overdue: bool
    """Whether a dirty record is older than `max.compaction.lag.ms`."""

    @property
    def cleanable_ratio(self) -> float:
        """Part of the bytes up to the first uncleanable offset that is dirty."""
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    @property
    def is_due(self) -> bool:
        """Whether the log is dirty enough, or has waited for long enough."""
        overdue = self.is_overdue and self.cleanable_bytes > 0
        return overdue or self.cleanable_ratio > self.log.config.min_cleanable_dirty_ratio


def dirtiest(candidates: Iterable[LogToClean]) -> LogToClean | None:
    """Of the logs that are due the one with the largest dirty part; None when none is."""
    return max((one for one in candidates if one.is_due), key=lambda one: one.cleanable_ratio, default=None)


def cleanable(log: Log, checkpointed: int | None, last_stable_offset: int, now_ms: int) -> LogToClean:
    """What of a log can be cleaned now.

    `checkpointed` is where the last round ended; None, or an offset that the log does not have any more: from its
    start. `last_stable_offset` is the high watermark, or the first offset of an open transaction below it.
    """
    first_dirty = log.log_start_offset
    if checkpointed is not None and log.log_start_offset <= checkpointed <= log.log_end_offset:
        first_dirty = checkpointed
    first_uncleanable = max(first_dirty, _first_uncleanable_offset(log, first_dirty, last_stable_offset, now_ms))
    closed = log.closed_segments
    return LogToClean(
        log,
        first_dirty,
        first_uncleanable,
        clean_bytes=sum(segment.size for segment in closed if segment.next_offset <= first_dirty),
        cleanable_bytes=sum(
            segment.size for segment in closed if first_dirty < segment.next_offset <= first_uncleanable
        ),
        is_overdue=_is_overdue(log, first_dirty, now_ms),
    )


def _first_uncleanable_offset(log: Log, first_dirty: int, last_stable_offset: int, now_ms: int) -> int:
    """Where the first segment begins that has to stay as it is."""
    youngest = now_ms - log.config.min_compaction_lag_ms
    for segment in log.closed_segments:
        if segment.next_offset <= first_dirty:
            continue
        too_young = log.config.min_compaction_lag_ms > 0 and segment.max_timestamp > youngest
        if segment.next_offset > last_stable_offset or too_young:
            return segment.base_offset
    return log.log_end_offset if not log.closed_segments else log.closed_segments[-1].next_offset


def _is_overdue(log: Log, first_dirty: int, now_ms: int) -> bool:
    if log.config.max_compaction_lag_ms == NEVER:
        return False
    limit = now_ms - log.config.max_compaction_lag_ms
    dirty = (segment for segment in log.closed_segments if segment.next_offset > first_dirty)
    return any(NO_TIMESTAMP < _first_timestamp(segment) < limit for segment in dirty)


def _first_timestamp(segment: Segment) -> int:
    """The largest timestamp of the first batch; -1 when there is none."""
    return next((header.max_timestamp for header in segment.headers()), NO_TIMESTAMP)
