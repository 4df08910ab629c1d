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

from collections.abc import Iterable
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakKeyDictionary

from tidegauge.impl.faults.links import Links
from tidegauge.impl.server.transport.context import Handler, PeerConnection, RequestContext

if TYPE_CHECKING:
    from tidegauge.impl.faults.injected_requests import InjectedRequests
    from tidegauge.impl.faults.injections import Delay, Injection
    from tidegauge.impl.faults.message_topics import NameOf

I = TypeVar("I", bound="Injection")  # noqa: E741 - an injection

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


class ServerRequestFaults:
    """The faults of requests as one server applies them."""

    def __init__(self, faults: RequestFaults, node: str, name_of: NameOf) -> None:
        self.faults = faults
        self.node = node
        self._name_of = name_of
        self._requests: InjectedRequests | None = None

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
            request = await self._injected().before(request, context, client_id, failed)
        response = None if request is None else await handler(request, context)
        if failed:
            response = self._injected().with_failed(response, failed, context)
        if faults.injections and response is not None:
            response = await self._injected().after(request, response, context, client_id)
        if not await self._crosses_link(context, self.node, client_id):
            return None
        return response

    async def _crosses_link(self, context: RequestContext, source: str, destination: str) -> bool:
        """Wait as long as the link asks for; False when it loses the message."""
        links = self.faults.links
        if links is None or not links.has_faults:
            return True
        return await context.while_connected(partial(links.carry, source, destination))

    def _injected(self) -> InjectedRequests:
        if self._requests is None:
            from tidegauge.impl.faults.injected_requests import InjectedRequests  # few clusters have an injection

            faults = self.faults
            self._requests = InjectedRequests(faults.injections, faults.nodes, faults.draw_ms, self.node, self._name_of)
        return self._requests
