"""What a replica needs of its log. The storage room's Log satisfies it; the lockstep tests bring one in memory.

The core never looks inside `batches`: one or more whole record batches, end to end, or one that is checked already.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from tidegauge.impl.partition.producer_state import ProducerStates
from tidegauge.impl.partition.transactions import AbortedTransaction
from tidegauge.impl.records.batches import BatchHeader
from tidegauge.impl.records.checked import Batches
from tidegauge.impl.records.lazy import LazyRecords
from tidegauge.impl.records.origin import Origin

Admit: TypeAlias = Callable[[Sequence[BatchHeader]], None]
"""Objects to an append by raising; it sees the headers of batches that are otherwise in order."""
Buffer: TypeAlias = bytes | bytearray | memoryview
Records: TypeAlias = Buffer | LazyRecords


class ReplicaLog(Protocol):
    """An append-only sequence of records, each in the leader epoch in which it was appended."""

    @property
    def log_start_offset(self) -> int:
        """Offset of the first record that is kept."""

    @property
    def log_start_epoch(self) -> int:
        """Leader epoch of the last record below the log start; -1 when there was none."""

    @property
    def log_end_offset(self) -> int:
        """Offset that the next record will get (LEO)."""

    @property
    def latest_epoch(self) -> int:
        """Leader epoch of the last record, though it may be below the log start; -1 when there was none."""

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        """The largest epoch of the log that is <= `epoch`, and the offset at which it ends (KIP-101, KIP-279).

        (-1, log start offset) when every record is of a later epoch.
        """

    @property
    def producers(self) -> ProducerStates:
        """What the producers of its batches have written; the log keeps it up to date, whatever happens to it."""

    def append_as_leader(
        self,
        batches: Batches,
        leader_epoch: int,
        now_ms: int,
        *,
        origin: Origin = Origin.CLIENT,
        admit: Admit | None = None,
    ) -> object:
        """Give the batches their offsets and this leader epoch, and append them, unless `admit` objects."""

    def append_as_follower(self, batches: Buffer) -> object:
        """Append batches that carry their offsets and epochs; the first one must start at the LEO or span it."""

    def fetch(self, offset: int, max_bytes: int, end_offset: int) -> Records:
        """Whole batches from the one that holds `offset`, below `end_offset`; the first however large it is."""

    def aborted_in(self, offset: int, records: Records) -> Sequence[AbortedTransaction]:
        """The aborted transactions that reach into records that were fetched from an offset; perhaps a few later ones.

        They are in the order of their markers.
        """

    def aborted_transactions(self, start_offset: int, end_offset: int) -> Sequence[AbortedTransaction]:
        """The aborted transactions with records in [start, end), in the order of their markers."""

    def truncate_to(self, offset: int, *, epoch: int = -1) -> object:
        """Remove every record at or above `offset`; below the log start all of them, `epoch` being the last one's."""

    def truncate_fully_and_start_at(self, offset: int, *, epoch: int = -1) -> object:
        """Remove every record; the log starts and ends at `offset`, after a record of this epoch."""

    def delete_records_before(self, offset: int) -> object:
        """Remove every record below `offset`: the log start moves there, never back."""
