"""What an append has put where."""

from __future__ import annotations

from typing import NamedTuple


class AppendInfo(NamedTuple):
    """What an append put where."""

    base_offset: int
    last_offset: int
    max_timestamp: int
    """ms since 1970, -1 when no record has one."""
    size: int
    """Bytes."""


class AppendedBatch(NamedTuple):
    """What a segment has to know of a batch to index it."""

    last_offset: int
    size: int
    max_timestamp: int
