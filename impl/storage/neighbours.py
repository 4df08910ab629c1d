"""The intact batches that are nearest to a segment of a log: the last one before it, and the first one behind it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

from tidegauge.impl.records.batches import BatchHeader, RecordError
from tidegauge.impl.storage.segment import Segment


def last_batch(segments: Sequence[Segment]) -> BatchHeader | None:
    """The last batch of these segments, as far as their headers lead to one; None without one."""
    for segment in reversed(segments):
        with suppress(RecordError):
            found = list(segment.headers_from(segment.next_offset - 1)) or list(segment.headers())
            if found:
                return found[-1]
    return None


def first_batch(segments: Iterable[Segment]) -> BatchHeader | None:
    """The first intact batch of these segments; None without one."""
    return next((found for segment in segments if (found := segment.first_intact()) is not None), None)
