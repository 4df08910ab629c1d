"""A reader of one partition: it keeps its position, and leaves out what is not for its isolation level (KIP-98).

    async with PartitionReader(client, "orders", read_committed=True) as reader:
        records = await reader.poll()

With `read_committed` it gets the records of transactions that were committed, and no other's; it goes no further than
the first transaction that is not decided.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from tidegauge.impl.records.payload import Record

if TYPE_CHECKING:
    from tidegauge.impl.client.client import Client

MAX_WAIT_MS: Final = 500


class PartitionReader:
    """Reads one partition from a position on."""

    def __init__(
        self, client: Client, topic: str, partition: int = 0, *, offset: int = 0, read_committed: bool = False
    ) -> None:
        self.position = offset
        """The offset that it reads from next; it may be that of a marker."""
        self._client = client
        self._topic = topic
        self._partition = partition
        self._read_committed = read_committed

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """There is nothing to give back."""

    async def poll(self, max_wait_ms: int = MAX_WAIT_MS, *, timeout_ms: float | None = None) -> tuple[Record, ...]:
        """The next records; none after `max_wait_ms` without any. Raises KafkaError."""
        fetched = await self._client.fetch(
            self._topic,
            self.position,
            partition=self._partition,
            max_wait_ms=max_wait_ms,
            timeout_ms=timeout_ms,
            read_committed=self._read_committed,
        )
        self.position = fetched.next_offset
        return fetched.records
