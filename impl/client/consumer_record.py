"""What a consumer is given, and who may see it first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tidegauge.impl.client.positions import Partition, Truncation
from tidegauge.impl.records.payload import RecordHeader


class ConsumerRecord(NamedTuple):
    """One record, and where it was read."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    """ms since 1970."""
    key: bytes | None
    value: bytes | None
    headers: tuple[RecordHeader, ...]
    leader_epoch: int
    """Of its batch."""


Offsets = Mapping[Partition, int]
"""The offset to go on from, in each partition."""


class ConsumerInterceptor:
    """Sees what a consumer reads, and what it commits; a subclass overrides what it is for.

    One that raises is passed over, with a log line.
    """

    def on_consume(self, records: tuple[ConsumerRecord, ...]) -> tuple[ConsumerRecord, ...]:
        """What `poll` returns in place of these records."""
        return records

    def on_commit(self, offsets: Offsets) -> None:
        """These offsets are committed."""


class RebalanceListener:
    """Told which partitions come and go, within `poll` or `close`; a subclass overrides what it is for.

    What it does holds up the group. It may use the consumer: seek, pause, commit. If it raises, `poll` does, and the
    rebalance goes on with the next `poll`; if it is cancelled, it is told again.
    """

    async def revoked(self, partitions: Sequence[Partition]) -> None:
        """These are about to be another one's: the last moment to commit."""

    async def lost(self, partitions: Sequence[Partition]) -> None:
        """These may be another one's already: nothing can be committed any more."""

    async def assigned(self, partitions: Sequence[Partition]) -> None:
        """These are new."""

    async def truncated(self, truncation: Truncation) -> None:
        """Records that were read are in the log no more, and the consumer goes on where the log diverges."""
