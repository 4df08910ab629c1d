"""The listeners of a broker together: opened, served, closed, and what clients and other nodes are told of them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from tidegauge.impl.ports.log_lines import NODE
from tidegauge.impl.ports.network import Address, peer_host
from tidegauge.impl.ports.repeated_lines import RepeatedLines
from tidegauge.impl.server.broker.listener import BrokerListener
from tidegauge.impl.server.broker.registration import Endpoint

if TYPE_CHECKING:
    from tidegauge.impl.server.broker.dynamic_config import DynamicConfig
    from tidegauge.impl.server.broker.quotas import Quotas
    from tidegauge.impl.server.node import Node
    from tidegauge.impl.server.transport.service import Service

LOGGER: Final = logging.getLogger(__name__)

MOST_REASONS: Final = 100
"""Reasons of closed connections that are kept."""


class BrokerListeners:
    """All listeners of one broker. The first is for other brokers."""

    def __init__(self, listeners: Iterable[BrokerListener], config: DynamicConfig, quotas: Quotas) -> None:
        self._listeners = list(listeners)
        self._config = config
        self._quotas = quotas
        self._names = [text.partition(":")[0] for text in config.current.listeners]
        self._connections = 0
        self._lines = RepeatedLines(trio.current_time)
        self._log_name = ""
        """The broker's name in log lines."""
        self.closed_connections: list[str] = []
        """Why connections were closed that broke the rules or were lost; the last `MOST_REASONS`."""

    def __iter__(self) -> Iterator[BrokerListener]:
        return iter(self._listeners)

    def attach(self, service: Service) -> None:
        """Serve requests by this service, which the listeners share."""
        for listener in self._listeners:
            listener.attach(service)

    async def open(self, node: Node) -> None:
        """Listen on every address. Raises OSError."""
        for listener in sorted(self._listeners, key=lambda listener: listener.spec.port == 0):
            await listener.open(node)  # those that take any free port last

    def serve(self, nursery: trio.Nursery) -> None:
        """Serve connections in tasks of the nursery."""
        self._log_name = NODE.get()
        for listener in self._listeners:
            nursery.start_soon(listener.serve, partial(self._serve_connection, listener))

    async def aclose(self) -> None:
        """Stop listening."""
        for listener in self._listeners:
            await listener.aclose()

    async def _serve_connection(self, listener: BrokerListener, stream: trio.abc.Stream) -> None:
        """Serve a peer, unless max.connections are served already."""
        NODE.set(self._log_name)  # on a simulated network the task is started by a task of the peer
        limit = self._config.current.max_connections
        if self._connections >= limit:
            why, after = f"max.connections={limit} are served", "close some, or raise max.connections"
            self._lines.log_event(
                LOGGER, logging.WARNING, "connection refused", peer=peer_host(stream), why=why, next=after
            )
            return
        self._connections += 1
        try:
            if wait_ms := self._quotas.connection_wait_ms(peer_host(stream)):
                await trio.sleep(wait_ms / 1000)
            if (reason := await listener.serve_stream(stream)) is not None:
                details = {"listener": listener.spec.name, "peer": peer_host(stream) or None, "why": reason}
                self._lines.log_event(LOGGER, logging.INFO, "connection closed", **details)
                self.closed_connections = [*self.closed_connections[1 - MOST_REASONS :], reason]
        finally:
            self._connections -= 1

    # --- addresses, once the listeners are open ----------------------------------------------------------------

    @property
    def address(self) -> Address:
        """Where other brokers connect."""
        return self._listeners[0].address

    @property
    def bound(self) -> dict[str, Address]:
        """Where the broker listens, by listener."""
        return {listener.spec.name: listener.address for listener in self._listeners}

    @property
    def advertised(self) -> dict[str, Address]:
        """Where clients are told to connect, by listener, in the order of the setting `listeners`."""
        for_clients = [listener for listener in self._listeners if not listener.spec.trusted]
        in_order = sorted(for_clients, key=lambda one: self._names.index(one.spec.name) if self._names else 0)
        return {listener.spec.name: listener.advertised for listener in in_order}

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """What the controller is told."""
        return tuple(Endpoint(one.spec.name, one.advertised, one.spec.protocol) for one in self._listeners)
