"""Fetches ahead of a consumer: one request under way at each leader, and what it brought until it is polled.

Theory of operation
-------------------
A partition is fetched from while nothing of it is buffered. What is taken from the buffer moves the position, and the
next fetch begins at once, so that it is under way while the application works. What comes from where nobody reads any
more, because the application has sought, or has given the partition back, is dropped: the position tells.

Each request names the consumer's rack. A leader may respond with a follower there, and no records; then that is fetched
from (`preferred_replicas`, KIP-392). What a follower refuses the leader is asked for, out of range or not: a follower
may be behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

import attrs
import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.client import requests
from tidegauge.impl.client.client import RETRIABLE
from tidegauge.impl.client.consumer_record import ConsumerRecord
from tidegauge.impl.client.errors import KafkaError, NoPositionError
from tidegauge.impl.client.positions import Partition, Position, Positions
from tidegauge.impl.client.preferred_replicas import PreferredReplicas
from tidegauge.impl.wire.channel import NoResponseError, UnreachableError
from tidegauge.impl.wire.fetch_messages import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionFetched

if TYPE_CHECKING:
    from tidegauge.impl.client.client import Client
    from tidegauge.impl.client.consumer_config import ConsumerConfig
    from tidegauge.impl.client.route import Route
    from tidegauge.impl.ports.network import Address


@attrs.define
class _Buffered:
    """What is left of a fetch."""

    offset: int
    records: list[ConsumerRecord]
    end: Position
    """Where the next fetch begins."""
    taken: int = 0


@attrs.frozen
class _Asked:
    route: Route
    position: Position
    address: Address
    """The leader's, or that of a follower."""

    @property
    def partition(self) -> Partition:
        return self.route.topic, self.route.partition

    @property
    def is_of_leader(self) -> bool:
        return self.address == self.route.address


class Prefetching:
    """The fetches of one consumer. `news` is called when there is something to poll, `failed` with an error for it."""

    def __init__(
        self,
        client: Client,
        config: ConsumerConfig,
        positions: Positions,
        now_ms: Callable[[], int],
        news: Callable[[], None],
        failed: Callable[[KafkaError], None],
    ) -> None:
        self._client = client
        self._config = config
        self._positions = positions
        self._now_ms = now_ms
        self._news = news
        self._failed = failed
        self._buffered: Final[dict[Partition, _Buffered]] = {}
        self._asked_of: Final[dict[Address, set[Partition]]] = {}
        """The fetches that are under way."""
        self._learning: Final[set[str]] = set()
        """Topics whose leaders are looked for."""
        self._preferred: Final = PreferredReplicas(config.metadata_max_age_ms)
        self._resting: Final[set[Partition]] = set()
        """Partitions that are tried again after a while."""

    # --- what was fetched ----------------------------------------------------------------------------------------

    def take(self, most: int) -> list[ConsumerRecord]:
        """At most so many records; positions are behind them."""
        taken: list[ConsumerRecord] = []
        for partition, buffered in list(self._buffered.items()):
            if len(taken) == most:
                break
            if not self._positions.is_paused(partition):
                taken += self._taken(partition, buffered, most - len(taken))
        return taken

    def _taken(self, partition: Partition, buffered: _Buffered, most: int) -> list[ConsumerRecord]:
        records = buffered.records[buffered.taken : buffered.taken + most]
        is_last = buffered.taken + len(records) == len(buffered.records)
        after = buffered.end if is_last else Position(records[-1].offset + 1, records[-1].leader_epoch)
        is_read_here = self._positions.advance(partition, buffered.offset, after)
        if is_last or not is_read_here:
            del self._buffered[partition]
        buffered.offset, buffered.taken = after.offset, buffered.taken + len(records)
        return records if is_read_here else []

    # --- fetches -------------------------------------------------------------------------------------------------

    def begin(self, nursery: trio.Nursery) -> None:
        """Ask each leader for what is fetchable and not there, unless it is asked for something already."""
        asked: dict[Address, list[_Asked]] = {}
        for partition, position in self._positions.fetchable().items():
            if not self._is_due(partition):
                continue
            route = self._client._routes.known(*partition)
            if route is None:
                self._learn(partition, nursery)
                continue
            self._positions.led(partition, route.leader_epoch)
            if partition not in self._positions.fetchable():
                self._news()  # it has to be validated first
            elif (address := self._source(partition, route)) not in self._asked_of:
                asked.setdefault(address, []).append(_Asked(route, position, address))
        for address, those in asked.items():
            self._asked_of[address] = {one.partition for one in those}
            nursery.start_soon(self._fetch, address, those, nursery)

    def _source(self, partition: Partition, route: Route) -> Address:
        """The broker to fetch from: the follower that is preferred, or the leader."""
        broker = self._preferred.broker(partition, route.leader_epoch, trio.current_time())
        return route.address if broker is None else self._client._routes.address(broker) or route.address

    def _is_due(self, partition: Partition) -> bool:
        buffered = self._buffered.get(partition)
        if buffered is not None:
            position = self._positions.position(partition)
            if position is not None and position.offset == buffered.offset:
                return False
            del self._buffered[partition]
        return partition not in self._resting and not any(partition in those for those in self._asked_of.values())

    def _learn(self, partition: Partition, nursery: trio.Nursery) -> None:
        """Look for the partition's leader, unless somebody looks for those of its topic."""
        if partition[0] not in self._learning:
            self._learning.add(partition[0])
            nursery.start_soon(self._learned, partition, nursery)

    async def _learned(self, partition: Partition, nursery: trio.Nursery) -> None:
        try:
            await self._client._routes.leader(self._client, *partition)
        except (KafkaError, UnreachableError, NoResponseError) as error:
            if isinstance(error, KafkaError) and error.code not in RETRIABLE:
                self._failed(error)
            self._rest(partition, nursery)
        self._learning.discard(partition[0])
        self._news()

    async def _fetch(self, address: Address, asked: list[_Asked], nursery: trio.Nursery) -> None:
        config = self._config
        try:
            wait_ms = self._client.config.request_timeout_ms + config.fetch_max_wait_ms
            response: FetchResponse = await self._client._ask(address, self._request(asked), wait_ms)
        except (UnreachableError, NoResponseError):
            for one in asked:
                self._preferred.forget(one.partition)
                self._rest(one.partition, nursery)
        else:
            for one, data in self._pairs(asked, response):
                self._arrived(one, data, response.error_code, nursery)
        finally:
            del self._asked_of[address]
        self._news()

    def _request(self, asked: list[_Asked]) -> FetchRequest:
        topics: dict[str, FetchTopic] = {}
        most = self._config.max_partition_fetch_bytes
        for one in asked:
            route = one.route
            topic = topics.setdefault(route.topic, FetchTopic(route.topic, route.topic_id, []))
            topic.partitions.append(FetchPartition(route.partition, one.position.offset, most, route.leader_epoch))
        config = self._config
        return FetchRequest(
            list(topics.values()),
            config.fetch_max_wait_ms,
            config.fetch_min_bytes,
            config.fetch_max_bytes,
            isolation_level=int(config.isolation_level == "read_committed"),
            rack_id=config.client_rack,
        )

    @staticmethod
    def _pairs(asked: list[_Asked], response: FetchResponse) -> Iterator[tuple[_Asked, PartitionFetched | None]]:
        """What each partition was told; None where that is nothing."""
        told = {(topic.topic_id, data.index): data for topic in response.topics for data in topic.partitions}
        return ((one, told.get((one.route.topic_id, one.route.partition))) for one in asked)

    def _arrived(self, one: _Asked, data: PartitionFetched | None, refused: ErrorCode, nursery: trio.Nursery) -> None:
        partition, offset = one.partition, one.position.offset
        position = self._positions.position(partition)
        if position is None or position.offset != offset:
            return
        try:
            if data is None:
                raise KafkaError(refused if refused is not ErrorCode.none else ErrorCode.unknown_server_error, "")
            batches, last = requests.fetched_batches(data, offset)
        except KafkaError as error:
            self._preferred.forget(partition)
            if one.is_of_leader:
                self._refused(partition, offset, error, nursery)
            else:
                self._rest(partition, nursery)
            return
        assert data is not None, "it is refused else"
        if one.is_of_leader and data.preferred_read_replica >= 0:
            preferred, epoch = data.preferred_read_replica, one.route.leader_epoch
            self._preferred.prefer(partition, preferred, epoch, trio.current_time())
        records = [
            ConsumerRecord(*partition, *record, header.partition_leader_epoch)  # type: ignore[arg-type]
            for header, those in batches
            for record in those
        ]
        if last is not None:
            end = Position(max(offset, last.next_offset), last.partition_leader_epoch, one.route.leader_epoch)
            self._buffered[partition] = buffered = _Buffered(offset, records, end)
            if not records:
                self._taken(partition, buffered, 0)

    def _refused(self, partition: Partition, offset: int, error: KafkaError, nursery: trio.Nursery) -> None:
        topic, number = partition
        if error.code is ErrorCode.offset_out_of_range:
            otherwise = self._config.reset_timestamp(self._now_ms())
            if not self._positions.out_of_range(partition, offset, otherwise):
                message = f"{topic}-{number} has no offset {offset}, and auto_offset_reset is none"
                self._failed(NoPositionError(error.code, message, (partition,)))
                self._rest(partition, nursery)
            return
        if error.code not in RETRIABLE:
            self._failed(KafkaError(error.code, f"{topic}-{number} cannot be fetched from offset {offset}: {error}"))
        self._rest(partition, nursery)

    def _rest(self, partition: Partition, nursery: trio.Nursery) -> None:
        """Try the partition again after a while, and learn who leads it then."""
        self._client._routes.forget(partition[0])
        if partition not in self._resting:
            self._resting.add(partition)
            nursery.start_soon(self._rested, partition)

    async def _rested(self, partition: Partition) -> None:
        await trio.sleep(self._client.config.retry_backoff_ms / 1000)
        self._resting.discard(partition)
        self._news()
