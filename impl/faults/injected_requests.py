"""A server's requests and responses under the injections that apply to them.

`impl.faults.request_faults` imports this with the first injection: few clusters have one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import attrs
import trio

from tidegauge.impl.faults.injections import Delay, Disconnection, Failure, Hold, Injection
from tidegauge.impl.server.error_responses.table import error_response
from tidegauge.impl.server.transport.context import RequestContext
from tidegauge.impl.server.transport.refused import RefusedError
from tidegauge.impl.wire.apis import ApiKey

if TYPE_CHECKING:
    from kio.schema.errors import ErrorCode
    from kio.schema.metadata.v13.response import MetadataResponsePartition, MetadataResponseTopic

    from tidegauge.impl.faults.message_topics import MessageTopics, NameOf
    from tidegauge.impl.wire.fetch_messages import PartitionFetched

READ_ONLY: Final = frozenset({ApiKey.FETCH, ApiKey.METADATA})
"""APIs whose requests may mean topics that they do not list: failures change their responses, not their requests."""


class InjectedRequests:
    """What injections make of one server's requests and of their responses."""

    def __init__(
        self,
        injections: Sequence[Injection],
        own_nodes: Collection[str],
        draw_ms: Callable[[Delay], float],
        node: str,
        name_of: NameOf,
    ) -> None:
        """`injections` are those of the whole cluster, oldest first, which come and go; `node` is the server's name."""
        self._injections = injections
        self._nodes = own_nodes
        self._draw_ms = draw_ms
        self._node = node
        self._name_of = name_of

    def _matching(self, context: RequestContext, client_id: str, *, after: bool) -> list[Injection]:
        return [
            injection
            for injection in self._injections
            if injection.after == after and injection.where.matches(context.api_key, self._node, client_id, self._nodes)
        ]

    async def before(self, request: Any, context: RequestContext, client_id: str, failed: list[Any]) -> Any:
        """What is left of the request, or None; responses to the parts that fail go to `failed`."""
        for injection in self._matching(context, client_id, after=False):
            if isinstance(injection, Failure):
                if injection.where.topic is None:
                    failed.append(_failed(injection, request))
                    return None
                if context.api_key not in READ_ONLY:
                    request, taken = self._split_request(injection, request, context)
                    failed += [] if taken is None else [_failed(injection, taken)]
                    if request is None:
                        return None
            elif injection.where.topic is None or self._split_request(injection, request, context)[1] is not None:
                await self._apply(injection, context)
        return request

    @staticmethod
    def with_failed(response: Any, failed: Sequence[Any], context: RequestContext) -> Any:
        """The response to what was carried out, if anything was, with those to the parts that have failed."""
        for part in failed:
            response = part if response is None else _merged(context.api_key, response, part)
        return response

    async def after(self, request: Any, response: Any, context: RequestContext, client_id: str) -> Any:
        if context.api_key in READ_ONLY:
            for injection in self._matching(context, client_id, after=False):
                if isinstance(injection, Failure):
                    response = self._fail_partitions(injection, response, context)
        for injection in self._matching(context, client_id, after=True):
            if isinstance(injection, Failure):
                if request is not None:
                    response = self._fail_after(injection, request, response, context)
            elif injection.where.topic is None or self._split_response(injection, response, context)[1] is not None:
                await self._apply(injection, context)
        return response

    def _split_request(self, injection: Injection, request: Any, context: RequestContext) -> tuple[Any, Any]:
        """The request without the partitions that the injection matches, and with these alone."""
        topics = _request_topics().get(context.api_key)
        if topics is None:
            return request, None
        return topics.split(request, injection.where.matches_partition, self._name_of)

    def _split_response(self, injection: Injection, response: Any, context: RequestContext) -> tuple[Any, Any]:
        """The response without the partitions that the injection matches, and with these alone."""
        topics = _response_topics().get(context.api_key)
        if topics is None:
            return response, None
        return topics.split(response, injection.where.matches_partition, self._name_of)

    async def _apply(self, injection: Injection, context: RequestContext) -> None:
        injection.count_hit()
        match injection:
            case Disconnection():
                raise RefusedError(f"disconnected on purpose: {injection.where}")
            case Delay():
                await context.while_connected(partial(trio.sleep, self._draw_ms(injection) / 1000))
            case Hold():
                await context.while_connected(injection.wait_until_released)

    def _fail_after(self, injection: Failure, request: Any, response: Any, context: RequestContext) -> Any:
        """An error in place of the response to a request that was carried out."""
        if injection.where.topic is None:
            return _failed(injection, request)
        if context.api_key in READ_ONLY:
            return self._fail_partitions(injection, response, context)
        _, taken = self._split_request(injection, request, context)
        if taken is None:
            return response
        rest, _ = self._split_response(injection, response, context)
        failed = _failed(injection, taken)
        return failed if rest is None else _merged(context.api_key, rest, failed)

    def _fail_partitions(self, injection: Failure, response: Any, context: RequestContext) -> Any:
        """The response with an error in each matching partition, in place of what the partition holds."""
        if injection.where.topic is None:
            return response
        topics, where = _response_topics()[context.api_key], injection.where
        if context.api_key == ApiKey.METADATA and where.partition is None:
            change_topic = partial(_described_with_error, injection.error)
            changed = topics.change_topics(response, where.matches_partition, self._name_of, change_topic)
        else:
            fetched = context.api_key == ApiKey.FETCH
            change: Callable[[Any], Any] = partial(_fetched_with_error if fetched else _led_with_error, injection.error)
            changed = topics.change_partitions(response, where.matches_partition, self._name_of, change)
        if changed is not response:
            injection.count_hit()
        return changed


def _failed(injection: Failure, request: Any) -> Any:
    """The response that says the error. Raises RefusedError for a request that gets no response."""
    injection.count_hit()
    if request.__api_key__ == ApiKey.PRODUCE and request.acks == 0:
        raise RefusedError(f"{injection.error.name} on purpose, and acks=0: no response can say so")
    return error_response(request, injection.error, injection.message)


def _request_topics() -> Mapping[int, MessageTopics[Any, Any, Any]]:
    """Imported with the first injection into a topic's requests: few clusters have one."""
    from tidegauge.impl.faults.request_topics import REQUEST_TOPICS

    return REQUEST_TOPICS


def _response_topics() -> Mapping[int, MessageTopics[Any, Any, Any]]:
    from tidegauge.impl.faults.response_topics import RESPONSE_TOPICS

    return RESPONSE_TOPICS


def _merged(api_key: int, response: Any, other: Any) -> Any:
    """One response of two to parts of a request."""
    topics = _response_topics().get(api_key)
    return response if topics is None else topics.merge(response, other)


def _fetched_with_error(error: ErrorCode, partition: PartitionFetched) -> PartitionFetched:
    return attrs.evolve(partition, error_code=error, records=None, high_watermark=-1, last_stable_offset=-1)


def _led_with_error(error: ErrorCode, partition: MetadataResponsePartition) -> MetadataResponsePartition:
    return dataclasses.replace(partition, error_code=error)


def _described_with_error(error: ErrorCode, topic: MetadataResponseTopic) -> MetadataResponseTopic:
    return dataclasses.replace(topic, error_code=error, partitions=())
