"""A small trio-native client: produce, fetch, list offsets, metadata, and the requests that tests of a cluster need.

Theory of operation
-------------------
A client knows some brokers' addresses to begin with, learns from any of them who leads what, and talks to leaders
over one channel each. An operation is attempted again, after a backoff and with fresh metadata, as long as its time
lasts and another attempt is safe: reading always is, producing only while it is certain that nothing was appended.
That is so when the request was never sent, or was refused without a base offset. Otherwise the operation fails with
`KafkaError.maybe_done`, and the caller decides.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import attrs
import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.client import requests
from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.client.observer import Observer, Operation
from tidegauge.impl.client.requests import Fetched, ListedOffset
from tidegauge.impl.client.routes import Routes
from tidegauge.impl.ports.background_tasks import BackgroundTasks, require_trio
from tidegauge.impl.ports.clock import Clock
from tidegauge.impl.ports.network import Address, Network
from tidegauge.impl.ports.randomness import Randomness, SystemRandomness
from tidegauge.impl.wire.channel import Channel, Handshake, NoResponseError, UnreachableError

T = TypeVar("T")

ALL: Final = -1
EARLIEST: Final = -2
LATEST: Final = -1


@attrs.frozen
class ClientConfig:
    """Times in ms, sizes in bytes; Kafka's names and, but for the first two, Kafka's defaults."""

    request_timeout_ms: float = 5_000
    """How long to wait for a response, in addition to the time that the broker may hold the request."""
    default_api_timeout_ms: float = 15_000
    """How long an operation may take, with all attempts; the last one has its request_timeout_ms, unless it is a read
    or a commit whose caller says how long.
    """
    retry_backoff_ms: float = 100
    fetch_max_bytes: int = 1 << 20
    message_max_bytes: int = 1_048_588
    """A larger batch is refused before it is sent. Raise it for a topic whose max.message.bytes is larger."""


class Client:
    """A client of one cluster, to be used as `async with`."""

    def __init__(
        self,
        network: Network,
        bootstrap: Sequence[Address],
        clock: Clock,
        *,
        client_id: str = "client",
        config: ClientConfig | None = None,
        observer: Observer | None = None,
        login: Handshake | None = None,
        randomness: Randomness | None = None,
    ) -> None:
        """`login` authenticates on each new connection; `randomness` is what member ids are made of."""
        if not bootstrap:
            raise ValueError("bootstrap is empty: give the address of at least one broker")
        self.client_id = client_id
        self.config = config or ClientConfig()
        self.observer = observer
        self._network = network
        self._bootstrap = tuple(bootstrap)
        self._login = login
        self.randomness = randomness or SystemRandomness()
        self._clock = clock
        self._routes = Routes(bootstrap)
        self._channels: dict[Address, Channel] = {}
        self._nursery: trio.Nursery | None = None
        self._background = BackgroundTasks()

    async def __aenter__(self) -> Client:
        require_trio("a client")
        self._nursery = await self._background.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        try:
            await self.aclose()
        finally:
            self._nursery = None
            await self._background.__aexit__(*error)

    def another(self) -> Client:
        """A client with connections of its own: a request that waits at its broker holds up none of this one's."""
        return Client(
            self._network,
            self._bootstrap,
            self._clock,
            client_id=self.client_id,
            config=self.config,
            login=self._login,
            randomness=self.randomness,
        )

    async def aclose(self) -> None:
        """Close all connections; what was sent still arrives."""
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            await channel.aclose()

    # --- operations ----------------------------------------------------------------------------------------------

    async def produce(
        self,
        topic: str,
        *values: bytes,
        partition: int = 0,
        acks: int = ALL,
        timeout_ms: float | None = None,
    ) -> int | None:
        """Append one batch of records with these values; returns the offset of the first (None for acks=0).

        acks: 0, 1 or -1 (all). Raises KafkaError; with `maybe_done` the records may be in the log, now or later.
        """
        _check_partition(topic, partition)
        if acks not in (0, 1, ALL):
            raise ValueError(f"acks is {acks}: use 0, 1 or {ALL} (all)")
        if not values:
            raise ValueError("produce without values: give at least one")
        for value in values:
            if not isinstance(value, bytes | bytearray | memoryview | None):
                raise ValueError(f"a value is {value!r:.100}: give bytes, each record's as an argument of its own")
        operation = Operation(self.client_id, "produce", topic, partition, values, acks)
        return await self._observed(operation, lambda: self._produce(operation, timeout_ms))

    async def fetch(
        self,
        topic: str,
        offset: int,
        *,
        partition: int = 0,
        max_wait_ms: int = 0,
        min_bytes: int = 1,
        max_bytes: int | None = None,
        timeout_ms: float | None = None,
        read_committed: bool = False,
    ) -> Fetched:
        """Committed records from `offset` on, and the high watermark; waits up to `max_wait_ms` for `min_bytes`.

        With `read_committed` none of a transaction that was aborted, or is not decided.

        Raises KafkaError (OFFSET_OUT_OF_RANGE outside the log).
        """
        _check_partition(topic, partition)
        _check_whole("offset", offset)
        operation = Operation(self.client_id, "fetch", topic, partition, offset=offset)

        async def attempt() -> Fetched:
            route = await self._routes.leader(self, topic, partition)
            operation.topic_ids.append(route.topic_id)
            most = max_bytes or self.config.fetch_max_bytes
            request = requests.fetch(route, offset, max_wait_ms, min_bytes, most, read_committed=read_committed)
            response = await self._ask(route.address, request, self.config.request_timeout_ms + max_wait_ms)
            return requests.fetched(response, offset)

        return await self._observed(operation, lambda: self._read(attempt, topic, timeout_ms, max_wait_ms))

    async def list_offsets(
        self, topic: str, timestamp: int = LATEST, *, partition: int = 0, timeout_ms: float | None = None
    ) -> ListedOffset:
        """The offset for EARLIEST (-2), LATEST (-1: the high watermark), or the first record at or after a time in ms.

        The offset is -1 when no record is that late. Raises KafkaError.
        """
        _check_partition(topic, partition)
        _check_whole("timestamp", timestamp)
        operation = Operation(self.client_id, "list_offsets", topic, partition, offset=timestamp)

        async def attempt() -> ListedOffset:
            route = await self._routes.leader(self, topic, partition)
            operation.topic_ids.append(route.topic_id)
            response = await self._ask(route.address, requests.list_offsets(route, timestamp))
            return requests.listed_offset(response)

        return await self._observed(operation, lambda: self._read(attempt, topic, timeout_ms))

    async def metadata(self, *topics: str, timeout_ms: float | None = None) -> Any:
        """kio's MetadataResponse from any broker: of these topics, or of all."""
        for topic in topics:
            _check_topic(topic)

        async def attempt() -> Any:
            return await self.ask_any(requests.metadata(topics or None), repeatable=True)

        return await self._read(attempt, None, timeout_ms)

    async def create_topic(
        self,
        name: str,
        partitions: int = -1,
        replication_factor: int = -1,
        *,
        configs: Mapping[str, str] | None = None,
        assignments: Sequence[Sequence[int]] = (),
    ) -> None:
        """Create a topic; `assignments` names each partition's brokers by hand. Raises KafkaError."""
        _check_topic(name)
        _check_whole("partitions", partitions, 32)
        _check_whole("replication_factor", replication_factor, 16)
        request = requests.create_topic(name, partitions, replication_factor, configs or {}, assignments)
        requests.check_created(await self.ask_once(request))

    async def elect_leaders(self, topic: str, partition: int = 0, *, unclean: bool = False) -> None:
        """Give the leadership to the preferred replica or, `unclean`, to any live one. Raises KafkaError."""
        _check_partition(topic, partition)
        requests.check_elected(await self.ask_once(requests.elect_leaders(topic, partition, unclean=unclean)))

    async def ask_once(self, request: Any) -> Any:
        """Send a request once and return its response. Raises KafkaError when none comes."""
        try:
            return await self.ask_any(request)
        except NoResponseError as error:
            raise KafkaError(ErrorCode.network_exception, str(error), maybe_done=True) from error
        except UnreachableError as error:
            raise KafkaError(ErrorCode.network_exception, str(error)) from error

    async def ask_leader(self, topic: str, partition: int, request: Any) -> Any:
        """Send a request once to a partition's leader and return its response. Raises KafkaError when none comes."""
        _check_partition(topic, partition)
        try:
            route = await self._routes.leader(self, topic, partition)
            return await self._ask(route.address, request)
        except (NoResponseError, UnreachableError) as error:
            maybe_done = isinstance(error, NoResponseError)
            raise KafkaError(ErrorCode.network_exception, str(error), maybe_done=maybe_done) from error

    # --- attempts --------------------------------------------------------------------------------------------------

    async def _observed(self, operation: Operation, run: Callable[[], Awaitable[T]]) -> T:
        if self.observer is None:
            return await run()
        token = self.observer.invoked(operation)
        try:
            result = await run()
        except BaseException as error:
            self.observer.failed(token, error)
            raise
        self.observer.returned(token, result)
        return result

    async def _produce(self, operation: Operation, timeout_ms: float | None) -> int | None:
        budget_ms = self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        deadline = trio.current_time() + budget_ms / 1000

        async def attempt() -> int | None:
            route = await self._routes.leader(self, operation.topic, operation.partition)
            operation.topic_ids.append(route.topic_id)
            left_ms = max(1, math.ceil((deadline - trio.current_time()) * 1000))
            batch = requests.batch(operation.values, self._clock.now_ms(), self.config.message_max_bytes)
            request = requests.produce(route, batch, operation.acks, left_ms)
            if operation.acks == 0:
                await self._channel(route.address).send(request, left_ms)
                return None
            response = await self._ask(route.address, request, left_ms + self.config.request_timeout_ms)
            return requests.produced(response)

        return await self._repeat(attempt, operation.topic, budget_ms, is_safe=_nothing_was_done)

    async def _read(
        self, attempt: Callable[[], Awaitable[T]], topic: str | None, timeout_ms: float | None, held_ms: float = 0
    ) -> T:
        """Attempt what changes nothing. A caller who says how long waits no longer for a response, whatever comes.

        `held_ms`: how long the broker may hold a request besides.
        """
        limit_s = (timeout_ms + held_ms) / 1000 if timeout_ms else math.inf
        with trio.move_on_after(limit_s):
            return await self._repeat(attempt, topic, timeout_ms, is_safe=_is_always_safe)
        if topic is not None:
            self._routes.forget(topic)
        raise KafkaError(ErrorCode.request_timed_out, f"no response within {limit_s * 1000:.0f} ms")

    async def _repeat(
        self,
        attempt: Callable[[], Awaitable[T]],
        topic: str | None,
        timeout_ms: float | None,
        *,
        is_safe: Callable[[KafkaError], bool],
    ) -> T:
        """Attempt until it works, fails for good, or the time is over."""
        budget_ms = self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        deadline = trio.current_time() + budget_ms / 1000
        while True:
            try:
                return await attempt()
            except UnreachableError as error:
                failure = KafkaError(ErrorCode.leader_not_available, str(error))
            except NoResponseError as error:
                failure = KafkaError(ErrorCode.network_exception, str(error), maybe_done=True)
            except KafkaError as error:
                failure = error
            if topic is not None:
                self._routes.forget(topic)
            backoff = self.config.retry_backoff_ms / 1000
            retriable = failure.code in RETRIABLE and is_safe(failure)
            if not retriable or trio.current_time() + backoff >= deadline:
                raise failure
            await trio.sleep(backoff)

    async def _ask(
        self, address: Address, request: Any, timeout_ms: float | None = None, *, version: int | None = None
    ) -> Any:
        timeout_ms = self.config.request_timeout_ms if timeout_ms is None else timeout_ms
        return await self._channel(address).request(request, timeout_ms, version=version)

    async def ask_any(self, request: Any, *, repeatable: bool = False) -> Any:
        """Send a request to one broker after the other until one can be reached and, if `repeatable`, responds.

        Raises UnreachableError or NoResponseError.
        """
        failure: Exception = UnreachableError("no broker is known")
        for address in self._routes.addresses:
            try:
                return await self._ask(address, request)
            except (UnreachableError, NoResponseError) as error:
                self._routes.avoid(address)
                failure = error
                if isinstance(error, NoResponseError) and not repeatable:
                    break
            except trio.Cancelled:  # who gives up soon finds another one the next time
                self._routes.avoid(address)
                raise
        raise failure

    def _channel(self, address: Address) -> Channel:
        if self._nursery is None:
            raise RuntimeError("the client is not running: use it within `async with client:`")
        if address not in self._channels:
            self._channels[address] = Channel(
                self._network,
                address,
                self.client_id,
                self._nursery,
                timeout_ms=self.config.request_timeout_ms,
                handshake=self._login,
            )
        return self._channels[address]


def _is_always_safe(_: KafkaError) -> bool:
    return True


def _nothing_was_done(error: KafkaError) -> bool:
    return not error.maybe_done


RETRIABLE: Final = frozenset(
    {
        ErrorCode.network_exception,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.leader_not_available,
        ErrorCode.not_leader_or_follower,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.offset_not_available,
        ErrorCode.not_enough_replicas,
        ErrorCode.kafka_storage_error,
    }
)
"""Errors that another attempt, perhaps elsewhere, may not meet."""


def _check_whole(name: str, value: object, bits: int = 64) -> None:
    if not isinstance(value, int) or not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise ValueError(f"{name} is {value!r}: give a whole number of {bits} bits")


def _check_topic(name: object) -> None:
    if not isinstance(name, str):
        raise ValueError(f"a topic's name is {name!r}: give text")


def _check_partition(topic: object, partition: object) -> None:
    _check_topic(topic)
    _check_whole("partition", partition, 32)
