"""The metadata log: where the controller's decisions become facts.

A decision is a list of records that are appended together: after a crash all of them are there or none. An offset
counts records. The controller of a quorum of one appends to its own disk; a quorum of many will replicate the same
log.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tidegauge.impl.metadata.records import MetadataRecord


class MetadataLog(Protocol):
    """What the controller needs of its log."""

    @property
    def end_offset(self) -> int:
        """Offset that the next record will get."""

    def append(self, records: Sequence[MetadataRecord]) -> None:
        """Append the records of one decision, durably and as a whole."""

    def read(self, offset: int) -> Sequence[MetadataRecord]:
        """Every record from `offset` on."""


class InMemoryMetadataLog:
    """A metadata log that lives as long as its object does: for tests and for clusters without a disk."""

    def __init__(self, records: Sequence[MetadataRecord] = ()) -> None:
        self._records = list(records)

    @property
    def end_offset(self) -> int:
        return len(self._records)

    def append(self, records: Sequence[MetadataRecord]) -> None:
        self._records.extend(records)

    def read(self, offset: int) -> Sequence[MetadataRecord]:
        return self._records[offset:]
