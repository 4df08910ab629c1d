"""The intact batches that are nearest to a segment of a log, before it and behind it, and whether there is any."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

from tidegauge.impl.records.batches import BatchHeader, RecordError
from tidegauge.impl.storage.damage import Gap
from tidegauge.impl.storage.noted_epochs import Beside
from tidegauge.impl.storage.segment import Segment


def last_batch(segments: Sequence[Segment]) -> BatchHeader | None:
    """The last batch of these segments, as far as their headers lead to one; None without one."""
    for segment in reversed(segments):
        with suppress(RecordError):
            found = list(segment.headers_from(segment.next_offset - 1)) or list(segment.headers())
            if found:
                return found[-1]
    return None


def hold_nothing(segments: Iterable[Segment], gaps: Sequence[Gap]) -> bool:
    """Whether no offset of these segments is known to be intact: each lies in a gap of their log."""
    ranges = [(segment.base_offset, segment.next_offset) for segment in segments]
    lost = [max(0, min(gap.end, end) - max(gap.start, base)) for base, end in ranges for gap in gaps]
    return sum(end - base for base, end in ranges) == sum(lost)


def first_batch(segments: Iterable[Segment]) -> Beside:
    """The first intact batch of these segments, and whether there is anything else before it."""
    is_damaged = False
    for segment in segments:
        found = segment.first_intact()
        if found is not None:
            return Beside(found, is_damaged)
        is_damaged |= segment.size > 0
    return Beside(None, is_damaged)
