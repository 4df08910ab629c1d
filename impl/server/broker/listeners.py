"""The listeners of a broker together: opened, served, closed, and what clients and other nodes are told of them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs
import trio

from tidegauge.impl.ports.log_lines import NODE
from tidegauge.impl.ports.network import Address, peer_host
from tidegauge.impl.ports.repeated_lines import RepeatedLines
from tidegauge.impl.server.broker.listener import BrokerListener
from tidegauge.impl.server.broker.registration import Endpoint
from tidegauge.impl.server.settings.fields import INT_MAX
from tidegauge.impl.server.settings.server_config import FIELDS, ServerConfig, limits_per_ip

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
        self._served: Counter[str] = Counter()
        """Connections by listener."""
        self._served_to: Counter[str] = Counter()
        """Connections by the peer's address."""
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

    def reconfigure(self) -> None:
        """The settings have changed: listeners show and trust by the new ones from the next connection on."""
        for listener in self._listeners:
            listener.reconfigure(self._config)

    def tls_error(self, properties: Mapping[str, str]) -> str:
        """What is wrong with how a listener would show itself by these settings; "" when nothing is."""
        config = attrs.evolve(self._config.initial, properties={**self._config.initial.properties, **properties})
        return next((wrong for listener in self._listeners if (wrong := listener.tls_error(config))), "")

    async def _serve_connection(self, listener: BrokerListener, stream: trio.abc.Stream) -> None:
        """Serve a peer, unless so many are served already as there may be."""
        NODE.set(self._log_name)  # on a simulated network the task is started by a task of the peer
        host, name = peer_host(stream), listener.spec.name
        if refusal := self._refusal(name, host):
            after = "close some, or raise the limit"
            self._lines.log_event(LOGGER, logging.WARNING, "connection refused", peer=host, why=refusal, next=after)
            return
        self._served[name] += 1
        self._served_to[host] += 1
        try:
            if wait_ms := self._wait_ms(name, host):
                await trio.sleep(wait_ms / 1000)
            if (reason := await listener.serve_stream(stream)) is not None:
                details = {"listener": name, "peer": host or None, "why": reason}
                self._lines.log_event(LOGGER, logging.INFO, "connection closed", **details)
                self.closed_connections = [*self.closed_connections[1 - MOST_REASONS :], reason]
        finally:
            self._served[name] -= 1
            self._served_to[host] -= 1
            if not self._served_to[host]:
                del self._served_to[host]

    def _refusal(self, listener: str, host: str) -> str:
        """Why one more connection is not served; "" when it is."""
        config = self._config.current
        if self._served.total() >= config.max_connections:
            return f"max.connections={config.max_connections} are served"
        most = _of_listener(config, listener, "max.connections")
        if most is not None and self._served[listener] >= most:
            return f"listener.name.{listener.lower()}.max.connections={most} are served"
        per_ip = limits_per_ip(config.max_connections_per_ip_overrides).get(host, config.max_connections_per_ip)
        if self._served_to[host] >= per_ip:
            return f"max.connections.per.ip={per_ip} of this address are served"
        return ""

    def _wait_ms(self, listener: str, host: str) -> int:
        """How long a new connection waits before it is served."""
        config = self._config.current
        rates = {"": config.max_connection_creation_rate}
        if (own := _of_listener(config, listener, "max.connection.creation.rate")) is not None:
            rates[listener] = own
        waits = [self._quotas.creation_wait_ms(name, rate) for name, rate in rates.items() if rate < INT_MAX]
        return max(*waits, 0, self._quotas.connection_wait_ms(host))

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


def _of_listener(config: ServerConfig, listener: str, setting: str) -> int | None:
    """A limit of one listener; None when it has none of its own."""
    text = config.properties.get(f"listener.name.{listener.lower()}.{setting}")
    return None if text is None else int(FIELDS[setting].parse(text))
