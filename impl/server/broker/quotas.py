"""Quotas in force at a broker: which clients are throttled, and for how long (KIP-13, 55, 124, 219, 599, 612).

Theory of operation
-------------------
The quota of a request is the most specific one of its user and client id, of eight kinds:

    user and client id, user and default client id, user,
    default user and client id, default user and default client id, default user,
    client id, default client id

A default holds for each client singly, not for all together. What a client does is recorded where its quota is found.
Two clients of a user share the user's quota; they do not share that of the default client id.

A client above its quota gets its response at once, with the time for which it is throttled in it. Nothing more is read
from its connection until that time is over (KIP-219). While the bucket of changes is overdrawn, requests that would
change the cluster are refused with THROTTLING_QUOTA_EXCEEDED, in versions that know that error (KIP-599).

Brokers' own fetches have no quota.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

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
from tidegauge.impl.server.error_responses.refused import refused
from tidegauge.impl.server.error_responses.table import making_error_response
from tidegauge.impl.wire.apis import ApiKey
from tidegauge.impl.wire.fetch_messages import FetchRequest, FetchResponse
from tidegauge.impl.wire.primitives import millis
from tidegauge.impl.wire.produce_messages import ProduceRequest, ProduceResponse

if TYPE_CHECKING:
    from kio.schema.create_partitions.v3.request import CreatePartitionsRequest
    from kio.schema.create_partitions.v3.response import CreatePartitionsResponse
    from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest
    from kio.schema.create_topics.v7.response import CreateTopicsResponse
    from kio.schema.delete_topics.v6.response import DeleteTopicsResponse

    from tidegauge.impl.ports.clock import Clock
    from tidegauge.impl.server.settings.server_config import ServerConfig
    from tidegauge.impl.server.transport.context import Handler, RequestContext

DEFAULT: Final = ""
MAX_CONNECTION_CREATION_RATE: Final = "max.connection.creation.rate"
PERCENT: Final = 100.0
MOST_METERS: Final = 10_000
"""Clients that are measured at a time; a new one displaces the one that was seen first."""

STRICT_FROM: Final[Mapping[int, int]] = {
    ApiKey.CREATE_TOPICS: 6,
    ApiKey.DELETE_TOPICS: 5,
    ApiKey.CREATE_PARTITIONS: 3,
}
"""APIs that change the cluster's partitions, and the version that knows THROTTLING_QUOTA_EXCEEDED."""

T = TypeVar("T")
Meter = tuple[str, str, str]
"""(quota, user, client id); "" is a part that clients share."""


class Quota(NamedTuple):
    """A limit, and the meter on which it is measured."""

    limit: float
    meter: Meter


class Quotas:
    """The quotas of one broker."""

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
        """Bring quotas into force. What was measured before still counts."""
        self._limits = limits

    def enforced(self, handle: Handler) -> Handler:
        """The handler, with the quotas enforced on its requests."""

        def handle_within_quotas(request: Any, context: RequestContext) -> Awaitable[Any]:
            if not self._limits or (isinstance(request, FetchRequest) and request.replica_id >= 0):
                return handle(request, context)
            return self._enforce(handle, request, context)

        return handle_within_quotas

    async def _enforce(self, handle: Handler, request: Any, context: RequestContext) -> Any:
        mutations = self._quota(CONTROLLER_MUTATION_RATE, context) if context.api_key in STRICT_FROM else None
        throttle_ms = 0 if mutations is None else self._mutation_throttle_ms(mutations)
        if throttle_ms and context.api_version >= STRICT_FROM[context.api_key]:
            message = "the quota of changes is used up"
            error = ErrorCode.throttling_quota_exceeded
            response = await refused(context.pace, request, making_error_response, error, message)
        else:
            if isinstance(request, FetchRequest):
                self._limit_fetch(request, context)
            before = {} if mutations is None else self._partition_counts()
            begun = trio.current_time() - context.waited_s
            response = await handle(request, context)
            spent_s = trio.current_time() - context.waited_s - begun
            throttle_ms = max(
                self._charge(request, response, context, spent_s),
                0
                if mutations is None
                else self._charge_mutations(mutations, self._mutations(request, response, before)),
            )
        if throttle_ms > 0:
            context.connection.throttle(throttle_ms / 1000)
            response = _with_throttle_time(response, throttle_ms)
        return response

    def connection_wait_ms(self, host: str) -> int:
        """How long a new connection from an address has to wait before it is served (KIP-612)."""
        if not self._limits:
            return 0
        for ip in (host, DEFAULT):
            limit = self._limits.get(QuotaEntity(ip=ip), {}).get(CONNECTION_CREATION_RATE)
            if limit is not None:
                return self._record(Quota(limit, (CONNECTION_CREATION_RATE, host, "")), 1)
        return 0

    def creation_wait_ms(self, listener: str, rate: int) -> int:
        """The same where a listener, or all of them (""), may begin to serve `rate` connections a second."""
        return self._record(Quota(rate, (MAX_CONNECTION_CREATION_RATE, listener, "")), 1)

    # --- measuring -------------------------------------------------------------------------------------------------

    def _charge(self, request: Any, response: Any, context: RequestContext, spent_s: float) -> int:
        """Record what a request took; returns for how long its client is throttled."""
        throttle_ms = 0
        if isinstance(request, ProduceRequest):
            size = sum(len(p.records or b"") for topic in request.topics for p in topic.partitions)
            throttle_ms = self._charge_one(PRODUCER_BYTE_RATE, size, context)
        elif isinstance(response, FetchResponse):
            size = sum(len(p.records or b"") for topic in response.topics for p in topic.partitions)
            throttle_ms = self._charge_one(CONSUMER_BYTE_RATE, size, context)
        of_time_ms = self._charge_one(REQUEST_PERCENTAGE, spent_s * PERCENT, context)
        return max(throttle_ms, min(of_time_ms, self._windows.size_ms))

    def _charge_one(self, key: str, value: float, context: RequestContext) -> int:
        quota = self._quota(key, context)
        return 0 if quota is None else self._record(quota, value)

    def _record(self, quota: Quota, value: float) -> int:
        rate = _kept(self._rates, quota.meter, lambda: Rate(self._windows))
        now_ms = self._clock.steady_ms()
        rate.record(value, now_ms)
        return rate.throttle_ms(quota.limit, now_ms)

    def _mutation_throttle_ms(self, quota: Quota) -> int:
        bucket = self._buckets.get(quota.meter)
        return 0 if bucket is None else bucket.throttle_ms(quota.limit, self._clock.steady_ms())

    def _charge_mutations(self, quota: Quota, count: int) -> int:
        bucket = _kept(self._buckets, quota.meter, lambda: TokenBucket(self._mutation_windows))
        now_ms = self._clock.steady_ms()
        if count:
            bucket.spend(count, quota.limit, now_ms)
        return bucket.throttle_ms(quota.limit, now_ms)

    def _limit_fetch(self, request: FetchRequest, context: RequestContext) -> None:
        """Fetch no more at once than the client's quota allows in all windows."""
        quota = self._quota(CONSUMER_BYTE_RATE, context)
        if quota is not None:
            request.max_bytes = min(request.max_bytes, max(1, int(quota.limit * self._windows.span_s)))

    def _partition_counts(self) -> dict[str, int]:
        """Partitions of each topic, by its name and by its id."""
        topics = self._image().topics.values()
        return {key: len(topic.partitions) for topic in topics for key in (topic.name, topic.topic_id)}

    def _mutations(self, request: Any, response: Any, before: Mapping[str, int]) -> int:
        """How many partitions a request has made or deleted, of topics that had so many before.

        They are counted by what the request asked for: a response hides numbers and names from clients that may not
        know them.
        """
        if request.__api_key__ == ApiKey.DELETE_TOPICS:
            return self._deleted(response, before)
        if request.validate_only:
            return 0
        if request.__api_key__ == ApiKey.CREATE_TOPICS:
            return self._created(request, response)
        return self._grown(request, response, before)

    @staticmethod
    def _deleted(response: DeleteTopicsResponse, before: Mapping[str, int]) -> int:
        done = (topic for topic in response.responses if topic.error_code is ErrorCode.none)
        return sum(before.get(str(topic.topic_id), before.get(topic.name or "", 0)) for topic in done)

    def _created(self, request: CreateTopicsRequest, response: CreateTopicsResponse) -> int:
        counts = {topic.name: self._partitions_of(topic) for topic in request.topics}
        return sum(counts[topic.name] for topic in response.topics if topic.error_code is ErrorCode.none)

    @staticmethod
    def _grown(request: CreatePartitionsRequest, response: CreatePartitionsResponse, before: Mapping[str, int]) -> int:
        counts = {topic.name: topic.count for topic in request.topics}
        grown = (topic.name for topic in response.results if topic.error_code is ErrorCode.none)
        return sum(counts[name] - before.get(name, 0) for name in grown)

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
    """The entities whose quota may be that of a request, the most specific one first; and each one's meter."""
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


def _with_throttle_time(response: Any, throttle_ms: int) -> Any:
    """The response, with the time for which its client is throttled."""
    if isinstance(response, ProduceResponse | FetchResponse):
        response.throttle_time_ms = throttle_ms
        return response
    if response is None or not any(field.name == "throttle_time" for field in dataclasses.fields(response)):
        return response
    return dataclasses.replace(response, throttle_time=millis(throttle_ms))
