"""The names of a segment's files."""

from __future__ import annotations

from tidegauge.impl.storage.transaction_index import TRANSACTION_INDEX_SUFFIX

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
SEGMENT_SUFFIXES = (TRANSACTION_INDEX_SUFFIX, TIME_INDEX_SUFFIX, INDEX_SUFFIX, LOG_SUFFIX)
"""A segment's files, the log last, for it makes the segment."""
DELETED_SUFFIX = ".deleted"
"""Of the files of a segment that is no longer part of the log."""
CLEANED_SUFFIX = ".cleaned"
"""Of a segment that is being written by the cleaner; dropped after a crash."""
SWAP_SUFFIX = ".swap"
"""Of a segment that is written and synced, and replaces others; put in place after a crash."""
SNAPSHOT_SUFFIX = ".snapshot"
"""Of what was known of the log's producers when the log ended at an offset."""

_OFFSET_DIGITS = 20


def file_name(base_offset: int, suffix: str) -> str:
    """Kafka's name: the base offset in 20 digits."""
    return f"{base_offset:020d}{suffix}"


def base_offset_of(name: str) -> int | None:
    """The base offset of the segment whose `.log` file has this name; None for other names."""
    return offset_in(name.removesuffix(LOG_SUFFIX)) if name.endswith(LOG_SUFFIX) else None


def offset_in(stem: str) -> int | None:
    """The offset that a file is named after, by its name without the suffix; None for names of no offset."""
    return int(stem) if len(stem) == _OFFSET_DIGITS and stem.isascii() and stem.isdigit() else None
