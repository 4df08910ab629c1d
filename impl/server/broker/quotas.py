"""Quotas in force at a broker: who is throttled, for how long, and how he is told (KIP-13, 55, 124, 219, 599, 612).

Theory of operation
-------------------
The quota that counts for a request is the most specific one of its user and client id, of eight kinds:

    user and client id, user and default client id, user,
    default user and client id, default user and default client id, default user,
    client id, default client id

A default counts for everybody singly, not for all together. What a client does is recorded where its quota is found;
so two clients of a user share the user's quota, and do not share that of the default client id.

Whoever is above his quota gets his answer at once, with the time for which he is throttled in it; nothing more is read
from his connection until that time is over (KIP-219). Requests that would change the cluster are refused beforehand
with THROTTLING_QUOTA_EXCEEDED while their bucket is overdrawn, where their version knows that error (KIP-599).

Brokers' own fetches are under no quota.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs
import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.metadata.client_quotas import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    QuotaEntity,
)
from tidegauge.impl.metadata.image import ClusterImage
from tidegauge.impl.server.broker.rates import Rate, TokenBucket, Windows
from tidegauge.impl.server.error_responses.table import error_response
from tidegauge.impl.wire.apis import ApiKey
from tidegauge.impl.wire.fetch_messages import FetchRequest, FetchResponse
from tidegauge.impl.wire.primitives import millis
from tidegauge.impl.wire.produce_messages import ProduceRequest, ProduceResponse

if TYPE_CHECKING:
    from kio.schema.create_topics.v7.request import CreatableTopic

    from tidegauge.impl.ports.clock import Clock
    from tidegauge.impl.server.config import ServerConfig
    from tidegauge.impl.server.transport.context import RequestContext

DEFAULT: Final = ""
PERCENT: Final = 100.0
MOST_METERS: Final = 10_000
"""Clients that are measured at a time; the one that was first seen is forgotten for a new one."""

STRICT_FROM: Final[Mapping[int, int]] = {
    ApiKey.CREATE_TOPICS: 6,
    ApiKey.DELETE_TOPICS: 5,
    ApiKey.CREATE_PARTITIONS: 3,
}
"""APIs that change the cluster's partitions, and the version that knows THROTTLING_QUOTA_EXCEEDED."""

T = TypeVar("T")
Meter = tuple[str, str, str]
"""(quota, user, client id); "" is a part that is not told apart."""


@attrs.frozen
class Quota:
    """A limit, and the meter on which it is measured."""

    limit: float
    meter: Meter


class Quotas:
    """One broker's."""

    def __init__(self, clock: Clock, config: ServerConfig, image: Callable[[], ClusterImage]) -> None:
        self._clock = clock
        self._image = image
        self._windows = Windows(config.quota_window_num, config.quota_window_size_seconds * 1000)
        self._mutation_windows = Windows(
            config.controller_quota_window_num, config.controller_quota_window_size_seconds * 1000
        )
        self._num_partitions = config.num_partitions
        self._limits: Mapping[QuotaEntity, Mapping[str, float]] = {}
        self._rates: dict[Meter, Rate] = {}
        self._buckets: dict[Meter, TokenBucket] = {}

    def apply(self, limits: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """From now on these are the quotas; what was measured counts on."""
        self._limits = limits

    def governing(
        self, handle: Callable[[Any, RequestContext], Awaitable[Any]]
    ) -> Callable[[Any, RequestContext], Awaitable[Any]]:
        """The handler under the quotas."""

        def handle_governed(request: Any, context: RequestContext) -> Awaitable[Any]:
            if not self._limits or (isinstance(request, FetchRequest) and request.replica_id >= 0):
                return handle(request, context)
            return self._govern(handle, request, context)

        return handle_governed

    async def _govern(
        self, handle: Callable[[Any, RequestContext], Awaitable[Any]], request: Any, context: RequestContext
    ) -> Any:
        mutations = self._quota(CONTROLLER_MUTATION_RATE, context) if context.api_key in STRICT_FROM else None
        throttle_ms = 0 if mutations is None else self._mutation_throttle_ms(mutations)
        if throttle_ms and context.api_version >= STRICT_FROM[context.api_key]:
            answer = error_response(request, ErrorCode.throttling_quota_exceeded, "the quota of changes is used up")
        else:
            if isinstance(request, FetchRequest):
                self._limit_fetch(request, context)
            before = {} if mutations is None else self._partition_counts()
            begun = trio.current_time() - context.waited_s
            answer = await handle(request, context)
            spent_s = trio.current_time() - context.waited_s - begun
            throttle_ms = max(
                self._charge(request, answer, context, spent_s),
                0 if mutations is None else self._charge_mutations(mutations, self._mutations(request, answer, before)),
            )
        if throttle_ms > 0:
            context.connection.throttle(throttle_ms / 1000)
            answer = _told(answer, throttle_ms)
        return answer

    def connection_wait_ms(self, host: str) -> int:
        """How long a new connection from an address has to wait before it is served (KIP-612)."""
        if not self._limits:
            return 0
        for ip in (host, DEFAULT):
            limit = self._limits.get(QuotaEntity(ip=ip), {}).get(CONNECTION_CREATION_RATE)
            if limit is not None:
                return self._record(Quota(limit, (CONNECTION_CREATION_RATE, host, "")), 1)
        return 0

    # --- measuring -------------------------------------------------------------------------------------------------

    def _charge(self, request: Any, answer: Any, context: RequestContext, spent_s: float) -> int:
        """Record what a request took; returns for how long its sender is throttled."""
        throttle_ms = 0
        if isinstance(request, ProduceRequest):
            size = sum(len(p.records or b"") for topic in request.topics for p in topic.partitions)
            throttle_ms = self._charge_one(PRODUCER_BYTE_RATE, size, context)
        elif isinstance(answer, FetchResponse):
            size = sum(len(p.records or b"") for topic in answer.topics for p in topic.partitions)
            throttle_ms = self._charge_one(CONSUMER_BYTE_RATE, size, context)
        of_time_ms = self._charge_one(REQUEST_PERCENTAGE, spent_s * PERCENT, context)
        return max(throttle_ms, min(of_time_ms, self._windows.size_ms))

    def _charge_one(self, key: str, value: float, context: RequestContext) -> int:
        quota = self._quota(key, context)
        return 0 if quota is None else self._record(quota, value)

    def _record(self, quota: Quota, value: float) -> int:
        rate = _kept(self._rates, quota.meter, lambda: Rate(self._windows))
        now_ms = self._clock.now_ms()
        rate.record(value, now_ms)
        return rate.throttle_ms(quota.limit, now_ms)

    def _mutation_throttle_ms(self, quota: Quota) -> int:
        bucket = self._buckets.get(quota.meter)
        return 0 if bucket is None else bucket.throttle_ms(quota.limit, self._clock.now_ms())

    def _charge_mutations(self, quota: Quota, count: int) -> int:
        bucket = _kept(self._buckets, quota.meter, lambda: TokenBucket(self._mutation_windows))
        now_ms = self._clock.now_ms()
        if count:
            bucket.spend(count, quota.limit, now_ms)
        return bucket.throttle_ms(quota.limit, now_ms)

    def _limit_fetch(self, request: FetchRequest, context: RequestContext) -> None:
        """Nobody gets more at once than his quota lets through in all windows."""
        quota = self._quota(CONSUMER_BYTE_RATE, context)
        if quota is not None:
            request.max_bytes = min(request.max_bytes, max(1, int(quota.limit * self._windows.span_s)))

    def _partition_counts(self) -> dict[str, int]:
        """Partitions of each topic, by its name and by its id."""
        topics = self._image().topics.values()
        return {key: len(topic.partitions) for topic in topics for key in (topic.name, topic.topic_id)}

    def _mutations(self, request: Any, answer: Any, before: Mapping[str, int]) -> int:
        """How many partitions a request has made or deleted, of topics that had so many before.

        They are counted by what was asked: an answer hides numbers and names from those who may not know them.
        """
        if getattr(request, "validate_only", False):
            return 0
        if request.__api_key__ == ApiKey.DELETE_TOPICS:
            done = (item for item in answer.responses if item.error_code is ErrorCode.none)
            return sum(before.get(str(item.topic_id), before.get(item.name, 0)) for item in done)
        if request.__api_key__ == ApiKey.CREATE_TOPICS:
            created = {topic.name: self._partitions_of(topic) for topic in request.topics}
            return sum(created[topic.name] for topic in answer.topics if topic.error_code is ErrorCode.none)
        asked = {topic.name: topic.count for topic in request.topics}
        grown = (item.name for item in answer.results if item.error_code is ErrorCode.none)
        return sum(asked[name] - before.get(name, 0) for name in grown)

    def _partitions_of(self, topic: CreatableTopic) -> int:
        by_number = topic.num_partitions if topic.num_partitions > 0 else self._num_partitions
        return len(topic.assignments) or by_number

    # --- finding ---------------------------------------------------------------------------------------------------

    def _quota(self, key: str, context: RequestContext) -> Quota | None:
        """The most specific quota of a request; None where there is none."""
        user, client_id = context.principal.name, context.client_id or DEFAULT
        for entity, meter in _candidates(user, client_id):
            limit = self._limits.get(entity, {}).get(key)
            if limit is not None:
                return Quota(limit, (key, *meter))
        return None


def _candidates(user: str, client_id: str) -> Iterator[tuple[QuotaEntity, tuple[str, str]]]:
    """Whose quotas may count, the most specific one first, and what each one tells apart."""
    for named_user in (user, DEFAULT):
        yield QuotaEntity(named_user, client_id), (user, client_id)
        yield QuotaEntity(named_user, DEFAULT), (user, client_id)
        yield QuotaEntity(named_user), (user, DEFAULT)
    yield QuotaEntity(client_id=client_id), (DEFAULT, client_id)
    yield QuotaEntity(client_id=DEFAULT), (DEFAULT, client_id)


def _kept(meters: dict[Meter, T], meter: Meter, make: Callable[[], T]) -> T:
    if meter not in meters:
        if len(meters) >= MOST_METERS:
            del meters[next(iter(meters))]
        meters[meter] = make()
    return meters[meter]


def _told(answer: Any, throttle_ms: int) -> Any:
    """The answer, with the time for which its receiver is throttled."""
    if isinstance(answer, ProduceResponse | FetchResponse):
        answer.throttle_time_ms = throttle_ms
        return answer
    if answer is None or not any(field.name == "throttle_time" for field in dataclasses.fields(answer)):
        return answer
    return dataclasses.replace(answer, throttle_time=millis(throttle_ms))
