"""Who appends to a log, and what an append has put where."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Origin(Enum):
    """Who made the batches that a leader appends."""

    CLIENT = "client"
    BROKER = "broker"
    """A coordinator or the controller: it may write control batches, of any size that fits into a segment."""


class AppendInfo(NamedTuple):
    """What an append put where."""

    base_offset: int
    last_offset: int
    max_timestamp: int
    """ms since 1970, -1 when no record has one."""
    size: int
    """Bytes."""
