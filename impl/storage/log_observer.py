"""What is told of the changes to a log, so that state beside it (the producers' snapshots) and its upkeep follow."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from tidegauge.impl.partition.transactions import AbortedTransaction
from tidegauge.impl.ports.disk import PendingSync
from tidegauge.impl.records.batches import BatchHeader
from tidegauge.impl.records.markers import MarkerRecord


class LogObserver:
    """An observer that does nothing; those that keep state override its methods."""

    def appended(
        self, header: BatchHeader, base_offset: int, marker: MarkerRecord | None = None
    ) -> AbortedTransaction | None:
        """A batch was appended, its first record at `base_offset`; its header need not say so.

        `marker` is what a control batch says. Returns the transaction that it aborts, to be indexed.
        """
        return None

    def rolled(self, offset: int) -> None:
        """A segment was begun at the log end offset `offset`."""

    def replaced(self, base_offsets: Collection[int]) -> None:
        """No segment begins at these offsets any more: the one before them holds their records."""

    def truncated(self, offset: int) -> None:
        """Every record at and above `offset`, the new log end offset, was removed.

        What is left is looked at again, and examined where it is not intact (`Log.examine`).
        """

    def started_anew(self, offset: int) -> None:
        """Every record was removed; the log starts and ends at `offset`."""

    def start_moved(self, offset: int) -> None:
        """Every record below `offset`, the new log start offset, was removed."""

    def closing(self) -> bool:
        """The log is about to be flushed and closed cleanly; whether the directory has another name for it."""
        return False

    def unsynced(self) -> list[PendingSync]:
        """The observer's files that are not on stable storage yet, to be synced with the log."""
        return []

    def flushed(self, offset: int) -> None:
        """Every record below `offset` is on stable storage, with what `unsynced` returned for it."""


class LogUpkeep:
    """What is to be done for a log later; this one does nothing."""

    __slots__ = ()

    def rolled(self) -> None:
        """A segment has been closed, which may be flushed."""

    def segments_deleted(self) -> None:
        """Segments have been deleted, whose files `Log.free_deleted` removes later."""


NO_UPKEEP: Final = LogUpkeep()
