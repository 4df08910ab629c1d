"""Faults of requests at a server: injected ones, and those of the links that the requests come by.

Theory of operation
-------------------
A connection passes each decoded request, with its handler, to `ServerRequestFaults.handle`. It skips that call while
no fault `is_active`, except for the connection's first request, which makes the connection known here. The server
knows no more of faults than these two names. In this order, a request

1. crosses the link from its client, on the real host (`impl.faults.links`), where it may wait or be lost;
2. meets the injections that apply before it is carried out, oldest first;
3. goes to the handler, as far as they have left anything of it.

Its response then meets the injections that apply after it, and crosses the link back.

A real client sees what it would see of a broker that is slow, gone or wrong. The cores know nothing of it: every record
that is in a log was appended by the rules.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakKeyDictionary

import attrs
import trio

from tidegauge.impl.faults.injections import Delay, Disconnection, Failure, Hold, Injection
from tidegauge.impl.faults.links import Links
from tidegauge.impl.server.error_responses.table import error_response
from tidegauge.impl.server.transport.context import Handler, PeerConnection, RequestContext
from tidegauge.impl.server.transport.refused import RefusedError
from tidegauge.impl.wire.apis import ApiKey

if TYPE_CHECKING:
    from kio.schema.errors import ErrorCode
    from kio.schema.metadata.v13.response import MetadataResponsePartition, MetadataResponseTopic

    from tidegauge.impl.faults.message_topics import MessageTopics, NameOf
    from tidegauge.impl.wire.fetch_messages import PartitionFetched

I = TypeVar("I", bound=Injection)  # noqa: E741 - an injection

READ_ONLY: Final = frozenset({ApiKey.FETCH, ApiKey.METADATA})
"""APIs whose requests may mean topics that they do not list: failures change their responses, not their requests."""

MAX_CLIENT_IDS: Final = 10_000
"""Client ids that are remembered, to tell a client's name from a mistake."""


class RequestFaults:
    """The faults of the requests of a whole cluster."""

    def __init__(self, seed: int, nodes: Iterable[str], links: Links | None) -> None:
        """`nodes` are the names of the cluster's own nodes; `links` is None where the network has the links' faults."""
        self.nodes = frozenset(nodes)
        self.links = links
        self.injections: list[Injection] = []
        self.client_ids: dict[str, None] = {}
        """The client ids that have been seen, oldest first."""
        self.connections: WeakKeyDictionary[PeerConnection, tuple[str, str]] = WeakKeyDictionary()
        """(server, client id) of the connections that have sent a request."""
        self._random = Random(f"{seed}/request faults")

    def at(self, node: str, name_of: NameOf) -> ServerRequestFaults:
        """The faults as one server applies them; `name_of` gives a topic's name by its id."""
        return ServerRequestFaults(self, node, name_of)

    def inject(self, injection: I) -> I:
        """Apply an injection to requests from now on."""
        self.injections.append(injection)
        injection.begin(self.injections.remove)
        return injection

    def clear(self) -> None:
        """End all injections; what they hold is released."""
        for injection in list(self.injections):
            injection.cancel()

    def draw_ms(self, delay: Delay) -> float:
        """The delay of the next response, from the seed."""
        return self._random.uniform(delay.least_ms, delay.most_ms)

    def record_connection(self, connection: PeerConnection, node: str, client_id: str) -> None:
        """Remember who is connected with whom; after the first request of a connection nothing changes."""
        if connection not in self.connections:
            self.connections[connection] = node, client_id
            if client_id not in self.nodes:
                self.client_ids.setdefault(client_id)
                if len(self.client_ids) > MAX_CLIENT_IDS:
                    del self.client_ids[next(iter(self.client_ids))]

    def connections_of(self, node: str, peer: str | None = None) -> list[PeerConnection]:
        """The connections of a node, as a server or as a client; with `peer` only those between the two."""
        return [
            connection
            for connection, ends in self.connections.items()
            if node in ends and (peer is None or peer in ends)
        ]


@attrs.frozen
class ServerRequestFaults:
    """The faults of requests as one server applies them."""

    faults: RequestFaults
    node: str
    name_of: NameOf

    @property
    def is_active(self) -> bool:
        """Whether any request may meet a fault."""
        links = self.faults.links
        return bool(self.faults.injections) or (links is not None and links.has_faults)

    async def handle(self, handler: Handler, request: Any, context: RequestContext) -> Any:
        """Handle a request under the faults that apply to it; None where no response is to be sent.

        Raises RefusedError to have the connection closed.
        """
        faults = self.faults
        client_id = context.client_id or ""
        faults.record_connection(context.connection, self.node, client_id)
        if not await self._crosses_link(context, client_id, self.node):
            return None
        failed: list[Any] = []
        if faults.injections:
            request = await self._apply_before(request, context, client_id, failed)
        response = None if request is None else await handler(request, context)
        for part in failed:
            response = part if response is None else _merged(context.api_key, response, part)
        if faults.injections and response is not None:
            response = await self._apply_after(request, response, context, client_id)
        if not await self._crosses_link(context, self.node, client_id):
            return None
        return response

    async def _crosses_link(self, context: RequestContext, source: str, destination: str) -> bool:
        """Wait as long as the link asks for; False when it loses the message."""
        links = self.faults.links
        if links is None or not links.has_faults:
            return True
        return await context.while_connected(partial(links.carry, source, destination))

    def _matching(self, context: RequestContext, client_id: str, *, after: bool) -> list[Injection]:
        nodes = self.faults.nodes
        return [
            injection
            for injection in self.faults.injections
            if injection.after == after and injection.where.matches(context.api_key, self.node, client_id, nodes)
        ]

    async def _apply_before(self, request: Any, context: RequestContext, client_id: str, failed: list[Any]) -> Any:
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

    async def _apply_after(self, request: Any, response: Any, context: RequestContext, client_id: str) -> Any:
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
        return topics.split(request, injection.where.matches_partition, self.name_of)

    def _split_response(self, injection: Injection, response: Any, context: RequestContext) -> tuple[Any, Any]:
        """The response without the partitions that the injection matches, and with these alone."""
        topics = _response_topics().get(context.api_key)
        if topics is None:
            return response, None
        return topics.split(response, injection.where.matches_partition, self.name_of)

    async def _apply(self, injection: Injection, context: RequestContext) -> None:
        injection.count_hit()
        match injection:
            case Disconnection():
                raise RefusedError(f"disconnected on purpose: {injection.where}")
            case Delay():
                await context.while_connected(partial(trio.sleep, self.faults.draw_ms(injection) / 1000))
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
            changed = topics.change_topics(response, where.matches_partition, self.name_of, change_topic)
        else:
            fetched = context.api_key == ApiKey.FETCH
            change: Callable[[Any], Any] = partial(_fetched_with_error if fetched else _led_with_error, injection.error)
            changed = topics.change_partitions(response, where.matches_partition, self.name_of, change)
        if changed is not response:
            injection.count_hit()
        return changed


def _failed(injection: Failure, request: Any) -> Any:
    """The response that says the error. Raises RefusedError for a request that gets no response."""
    injection.count_hit()
    if getattr(request, "acks", None) == 0:
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
