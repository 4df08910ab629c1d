"""A producer's batch that was held against the rules of its topic before it came to the log."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from tidegauge.impl.records.batches import BatchHeader, Buffer


class CheckedBatch(NamedTuple):
    """What the check of a batch has found in order: the log does not look at it again."""

    header: BatchHeader
    stored: Buffer
    """The bytes to append, which may differ from those that came."""


Batches: TypeAlias = Buffer | CheckedBatch
"""Record batches end to end, or one that has been checked."""
