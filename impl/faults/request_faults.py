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

from collections.abc import Iterable, Mapping
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakKeyDictionary

import attrs
import trio

from tidegauge.impl.faults.injections import Delay, Disconnection, Failure, Hold, Injection
from tidegauge.impl.faults.links import Links
from tidegauge.impl.faults.request_parts import NameOf, evolved, merge, replace, split
from tidegauge.impl.server.error_responses.table import error_response
from tidegauge.impl.server.transport.context import Handler, PeerConnection, RequestContext
from tidegauge.impl.server.transport.refused import RefusedError
from tidegauge.impl.wire.apis import ApiKey

if TYPE_CHECKING:
    from kio.schema.errors import ErrorCode

I = TypeVar("I", bound=Injection)  # noqa: E741 - an injection

READ_ONLY: Final = frozenset({ApiKey.FETCH, ApiKey.METADATA})
"""APIs whose requests may mean topics that they do not list: failures change their responses, not their requests."""

NOTHING_READ: Final = {"records": None, "high_watermark": -1, "last_stable_offset": -1}
"""Values of a fetched partition's fields when it has an error."""

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
            response = part if response is None else merge(response, part)
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
                    request, taken = split(request, injection.where.matches_partition, self.name_of)
                    failed += [] if taken is None else [_failed(injection, taken)]
                    if request is None:
                        return None
            elif self._matches_topics(injection, request):
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
            elif self._matches_topics(injection, response):
                await self._apply(injection, context)
        return response

    def _matches_topics(self, injection: Injection, message: Any) -> bool:
        where = injection.where
        return where.topic is None or split(message, where.matches_partition, self.name_of)[1] is not None

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
        _, taken = split(request, injection.where.matches_partition, self.name_of)
        if taken is None:
            return response
        rest, _ = split(response, injection.where.matches_partition, self.name_of)
        failed = _failed(injection, taken)
        return failed if rest is None else merge(rest, failed)

    def _fail_partitions(self, injection: Failure, response: Any, context: RequestContext) -> Any:
        """The response with an error in each matching partition, in place of what the partition holds."""
        if injection.where.topic is None:
            return response
        whole = context.api_key == ApiKey.METADATA and injection.where.partition is None
        change = partial(_with_error, injection.error, {"partitions": ()} if whole else NOTHING_READ)
        changed = replace(response, injection.where.matches_partition, self.name_of, change, whole=whole)
        if changed is not response:
            injection.count_hit()
        return changed


def _failed(injection: Failure, request: Any) -> Any:
    """The response that says the error. Raises RefusedError for a request that gets no response."""
    injection.count_hit()
    if getattr(request, "acks", None) == 0:
        raise RefusedError(f"{injection.error.name} on purpose, and acks=0: no response can say so")
    return error_response(request, injection.error, injection.message)


def _with_error(error: ErrorCode, values: Mapping[str, Any], part: Any) -> Any:
    """A topic or partition of a response with an error, and with those of the values that it has fields for."""
    present = {name: value for name, value in values.items() if hasattr(part, name)}
    return evolved(part, error_code=error, **present)
