"""Interference: what befalls requests at a server by order of whoever embeds the cluster.

Theory of operation
-------------------
A connection hands each decoded request, with its handler, to `ServerInterference.handle`, unless that `is_quiet`; more
than that a server does not know of it. On its way a request meets, in this order,

1. the link from its peer, on the real host (`impl.faults.links`), where it may wait or be lost;
2. the injections that strike before it is carried out, oldest first;
3. the handler, with what is left of the request;
4. the injections that strike after;
5. the link back.

So a real client sees what it would see of a broker that is slow, gone or wrong, while the cores know nothing of it:
whatever was appended was appended by the rules. Where nothing is ordered, only the first request of a connection comes
by here, so that the connection is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakKeyDictionary

import attrs
import trio

from tidegauge.impl.faults.injections import Disconnection, Failure, Hold, Injection, Slowness
from tidegauge.impl.faults.links import Links
from tidegauge.impl.server.apis.request_parts import NameOf, evolved, merge, replace, split
from tidegauge.impl.server.transport.connection import Connection, RefusedError
from tidegauge.impl.server.transport.context import Handler, RequestContext
from tidegauge.impl.wire.apis import ApiKey

if TYPE_CHECKING:
    from kio.schema.errors import ErrorCode

I = TypeVar("I", bound=Injection)  # noqa: E741 - an injection

READ_ONLY = frozenset({ApiKey.FETCH, ApiKey.METADATA})
"""APIs that may name topics without listing them: their answers are changed, not their requests."""

NOTHING_READ: Final = {"records": None, "high_watermark": -1, "last_stable_offset": -1}

MOST_CLIENTS = 10_000
"""Client ids that are remembered, to tell a name from a mistake."""


class Interference:
    """The orders for a whole cluster."""

    def __init__(self, seed: int, nodes: Iterable[str], links: Links | None) -> None:
        """`nodes` are the names of the cluster's own; `links` is None where the network itself has the faults."""
        self.nodes = frozenset(nodes)
        self.links = links
        self.injections: list[Injection] = []
        self.clients: dict[str, None] = {}
        """The client ids that have been seen, oldest first."""
        self.connections: WeakKeyDictionary[Connection, tuple[str, str]] = WeakKeyDictionary()
        """(server, client id) of the connections that have sent a request."""
        self._draws = Random(f"{seed}/interference")

    def at(self, node: str, name_of: NameOf) -> ServerInterference:
        """One server's part; `name_of` gives a topic's name by its id."""
        return ServerInterference(self, node, name_of)

    def inject(self, injection: I) -> I:
        """Obey an order from now on."""
        injection.owner = self
        self.injections.append(injection)
        return injection

    def forget(self, injection: Injection) -> None:
        """Obey it no more."""
        injection.owner = None
        if injection in self.injections:
            self.injections.remove(injection)

    def clear(self) -> None:
        """Obey no order any more; what is held goes on."""
        for injection in list(self.injections):
            injection.cancel()

    def draw(self, least: float, most: float) -> float:
        return self._draws.uniform(least, most)

    def saw(self, connection: Connection, node: str, client: str) -> None:
        if connection not in self.connections:
            self.connections[connection] = node, client
            if client not in self.nodes:
                self.clients.setdefault(client)
                if len(self.clients) > MOST_CLIENTS:
                    del self.clients[next(iter(self.clients))]

    def connections_of(self, node: str, peer: str | None = None) -> list[Connection]:
        """The connections of a node, as a server or as a client; with `peer` only those between the two."""
        return [
            connection
            for connection, ends in self.connections.items()
            if node in ends and (peer is None or peer in ends)
        ]


@attrs.frozen
class ServerInterference:
    """The orders as one server obeys them."""

    orders: Interference
    node: str
    name_of: NameOf

    @property
    def is_quiet(self) -> bool:
        """Whether nothing befalls any request: one of a connection that is known need not come by here."""
        links = self.orders.links
        return not self.orders.injections and (links is None or links.quiet)

    async def handle(self, handler: Handler, request: Any, context: RequestContext) -> Any:
        """Handle a request, with what befalls it; None where there is to be no answer.

        Raises RefusedError to have the connection closed.
        """
        orders = self.orders
        client = context.client_id or ""
        orders.saw(context.connection, self.node, client)
        links = orders.links
        if links is not None and not links.quiet and not await self._carried(context, links, client, self.node):
            return None
        failed: list[Any] = []
        if orders.injections:
            request = await self._strike(request, context, client, failed)
        answer = None if request is None else await handler(request, context)
        for part in failed:
            answer = part if answer is None else merge(answer, part)
        if orders.injections and answer is not None:
            answer = await self._strike_after(request, answer, context, client)
        if links is not None and not links.quiet and not await self._carried(context, links, self.node, client):
            return None
        return answer

    @staticmethod
    async def _carried(context: RequestContext, links: Links, source: str, destination: str) -> bool:
        return await context.while_connected(partial(links.carry, source, destination))

    def _fitting(self, context: RequestContext, client: str, *, after: bool) -> list[Injection]:
        nodes = self.orders.nodes
        return [
            injection
            for injection in self.orders.injections
            if injection.after == after and injection.where.fits(context.api_key, self.node, client, nodes)
        ]

    async def _strike(self, request: Any, context: RequestContext, client: str, failed: list[Any]) -> Any:
        """What is left of the request; the answers for what is not go to `failed`."""
        for injection in self._fitting(context, client, after=False):
            if isinstance(injection, Failure):
                if injection.where.topic is None:
                    failed.append(_failure(injection, request))
                    return None
                if context.api_key not in READ_ONLY:
                    request, taken = split(request, injection.where.names, self.name_of)
                    failed += [] if taken is None else [_failure(injection, taken)]
                    if request is None:
                        return None
            elif self._is_meant(injection, request):
                await self._obey(injection, context)
        return request

    async def _strike_after(self, request: Any, answer: Any, context: RequestContext, client: str) -> Any:
        if context.api_key in READ_ONLY:
            for injection in self._fitting(context, client, after=False):
                if isinstance(injection, Failure):
                    answer = self._spoil(injection, answer, context)
        for injection in self._fitting(context, client, after=True):
            if isinstance(injection, Failure):
                if request is not None:
                    answer = self._disown(injection, request, answer, context)
            elif self._is_meant(injection, answer):
                await self._obey(injection, context)
        return answer

    def _is_meant(self, injection: Injection, message: Any) -> bool:
        where = injection.where
        return where.topic is None or split(message, where.names, self.name_of)[1] is not None

    async def _obey(self, injection: Injection, context: RequestContext) -> None:
        injection.strike()
        match injection:
            case Disconnection():
                raise RefusedError(f"disconnected on purpose: {injection.where}")
            case Slowness():
                wait_s = self.orders.draw(injection.least_ms, injection.most_ms) / 1000
                await context.while_connected(partial(trio.sleep, wait_s))
            case Hold():
                await context.while_connected(injection.wait_until_released)

    def _disown(self, injection: Failure, request: Any, answer: Any, context: RequestContext) -> Any:
        """An error in place of the answer to what has been carried out."""
        if injection.where.topic is None:
            return _failure(injection, request)
        if context.api_key in READ_ONLY:
            return self._spoil(injection, answer, context)
        _, taken = split(request, injection.where.names, self.name_of)
        if taken is None:
            return answer
        rest, _ = split(answer, injection.where.names, self.name_of)
        failed = _failure(injection, taken)
        return failed if rest is None else merge(rest, failed)

    def _spoil(self, injection: Failure, answer: Any, context: RequestContext) -> Any:
        """Partitions of an answer with an error in place of what they hold."""
        if injection.where.topic is None:
            return answer
        whole = context.api_key == ApiKey.METADATA and injection.where.partition is None
        change = partial(_spoiled, injection.error, {"partitions": ()} if whole else NOTHING_READ)
        changed = replace(answer, injection.where.names, self.name_of, change, whole=whole)
        if changed is not answer:
            injection.strike()
        return changed


def _failure(injection: Failure, request: Any) -> Any:
    from tidegauge.impl.server.apis.error_answers import error_answer  # knows every API: imported where something fails

    injection.strike()
    if getattr(request, "acks", None) == 0:
        raise RefusedError(f"{injection.error.name} on purpose, and acks=0: there is no answer to say so")
    return error_answer(request, injection.error, injection.message)


def _spoiled(error: ErrorCode, values: Mapping[str, Any], part: Any) -> Any:
    """A topic or partition of an answer with an error, and with those of the values that it has fields for."""
    present = {name: value for name, value in values.items() if hasattr(part, name)}
    return evolved(part, error_code=error, **present)
