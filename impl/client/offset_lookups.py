"""What a consumer has to ask before it can fetch: committed offsets, ends of logs, and where epochs end (KIP-320)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.client import requests
from tidegauge.impl.client.coordinators import PASSING
from tidegauge.impl.client.errors import KafkaError, NoPositionError, TruncatedError
from tidegauge.impl.client.positions import (
    LATEST,
    Partition,
    Position,
    Positions,
    Resetting,
    Stage,
    Truncation,
    Undetermined,
    Validating,
)
from tidegauge.impl.client.requests import ListedOffset
from tidegauge.impl.wire.channel import NoResponseError, UnreachableError

if TYPE_CHECKING:
    from tidegauge.impl.client.client import Client
    from tidegauge.impl.client.consumer_config import ConsumerConfig

Committed = Callable[[Sequence[Partition]], Awaitable[dict[Partition, Position | None]]]


class OffsetLookups:
    """The lookups of one consumer: one under way for each partition that needs it.

    `committed` tells where the group goes on; None for a consumer without a group. `news` is called when a position is
    known, `failed` with an error for `poll`, `truncated` with what was read and is gone.
    """

    def __init__(
        self,
        client: Client,
        config: ConsumerConfig,
        positions: Positions,
        now_ms: Callable[[], int],
        news: Callable[[], None],
        failed: Callable[[KafkaError], None],
        truncated: Callable[[Truncation], None],
        committed: Committed | None,
    ) -> None:
        self._client = client
        self._config = config
        self._positions = positions
        self._now_ms = now_ms
        self._news = news
        self._failed = failed
        self._truncated = truncated
        self._committed = committed
        self._asking: Final[dict[Partition, Stage]] = {}

    def begin(self, nursery: trio.Nursery) -> None:
        """Ask for what is needed, and not asked for yet."""
        new = {
            partition: stage
            for partition, stage in self._positions.stages().items()
            if isinstance(stage, Undetermined | Resetting | Validating) and self._asking.get(partition) != stage
        }
        self._asking.update(new)
        unknown = [partition for partition, stage in new.items() if isinstance(stage, Undetermined)]
        if unknown:
            nursery.start_soon(self._determine, unknown)
        for partition, stage in new.items():
            if isinstance(stage, Resetting):
                nursery.start_soon(self._reset, partition, stage)
            elif isinstance(stage, Validating):
                nursery.start_soon(self._validate, partition, stage)

    @property
    def otherwise(self) -> int | None:
        """What to look up where there is no position."""
        return self._config.reset_timestamp(self._now_ms())

    async def _determine(self, partitions: list[Partition]) -> None:
        found: dict[Partition, Position | None] = {}
        asked: Stage = Undetermined()
        if self._committed is not None:
            try:
                found = await self._committed(partitions)
            except KafkaError as error:
                await self._failed_for(partitions, asked, error)
                return
        without = [one for one in partitions if not self._determined(one, found.get(one))]
        if without:
            names = ", ".join(f"{topic}-{number}" for topic, number in without)
            message = f"nothing is committed for {names}, and auto_offset_reset is none: seek, or commit"
            nothing = NoPositionError(ErrorCode.offset_out_of_range, message, tuple(without))
            await self._failed_for(without, asked, nothing)
        self._done([one for one in partitions if one not in without], asked)

    def _determined(self, partition: Partition, position: Position | None) -> bool:
        return partition not in self._positions or self._positions.determined(partition, position, self.otherwise)

    async def _reset(self, partition: Partition, asked: Resetting) -> None:
        try:
            found = await self.offset_at(partition, asked.timestamp)
            if found.offset < 0:
                found = await self.offset_at(partition, LATEST)
        except KafkaError as error:
            await self._failed_for([partition], asked, error)
            return
        self._positions.looked_up(partition, asked, found.offset, found.leader_epoch)
        self._done([partition], asked)

    async def offset_at(self, partition: Partition, timestamp: int, timeout_ms: float | None = None) -> ListedOffset:
        """The offset of EARLIEST, LATEST or a moment; -1 where no record is that late. Raises KafkaError."""
        client = self._client

        async def attempt() -> ListedOffset:
            route = await client._routes.leader(client, *partition)
            is_committed = self._config.isolation_level == "read_committed"
            request = requests.list_offsets(route, timestamp, read_committed=is_committed)
            return requests.listed_offset(await client._ask(route.address, request))

        return await client._read(attempt, partition[0], timeout_ms)

    async def _validate(self, partition: Partition, asked: Validating) -> None:
        client, (topic, number) = self._client, partition
        try:
            route = await client._routes.leader(client, *partition)
            request = requests.end_of_epoch(route, asked.position.epoch)
            end = requests.told_end_of_epoch(await client._ask(route.address, request))
        except (KafkaError, UnreachableError, NoResponseError) as error:
            client._routes.forget(topic)
            code = error.code if isinstance(error, KafkaError) else ErrorCode.network_exception
            await self._failed_for([partition], asked, KafkaError(code, str(error)))
            return
        otherwise = self.otherwise
        truncation = self._positions.validated(partition, asked, end.leader_epoch, end.offset, otherwise)
        if truncation is not None and otherwise is None:
            message = f"what was read of {topic}-{number} up to offset {truncation.position} is in its log no more"
            told_of = TruncatedError(ErrorCode.offset_out_of_range, message, truncation)
            await self._failed_for([partition], asked, told_of)
            return
        if truncation is not None:
            self._truncated(truncation)
        self._done([partition], asked)

    async def _failed_for(self, partitions: list[Partition], asked: Stage, error: KafkaError) -> None:
        """It is asked again after a while; an error that stays one is told."""
        if error.code not in PASSING:
            self._failed(error)
        await trio.sleep(self._client.config.retry_backoff_ms / 1000)
        self._done(partitions, asked)

    def _done(self, partitions: list[Partition], asked: Stage) -> None:
        for partition in partitions:
            if self._asking.get(partition) == asked:
                del self._asking[partition]
        self._news()
