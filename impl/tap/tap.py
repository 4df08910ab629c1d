"""The tap: listens for clients, and connects each of them to the broker that it asks for."""

from __future__ import annotations

import itertools
import logging
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

import attrs

from tidegauge.impl.ports.clock import steady_ns
from tidegauge.impl.ports.network import Address
from tidegauge.impl.ports.repeated_lines import RepeatedLines
from tidegauge.impl.tap.addresses import Addresses
from tidegauge.impl.tap.connection import Connection, keep_alive
from tidegauge.impl.tap.copies import Copies
from tidegauge.impl.tap.loading import load
from tidegauge.impl.tap.memory import Memory
from tidegauge.impl.tap.replacing import Replacing
from tidegauge.impl.tap.rewriting import NAME_BROKERS
from tidegauge.impl.wire.apis import ApiKey

LOGGER: Final = logging.getLogger(__name__)

MOST_CONNECTIONS: Final = 2000
"""Connections at once, of two threads each; others are closed."""
CONNECT_SECONDS: Final = 5.0
NO_ROOM_SECONDS: Final = 0.1
DEFAULT_MEMORY: Final = 256 << 20


def _seconds() -> float:
    return steady_ns() / 1e9


@attrs.define(eq=False)
class Tap:
    """Clients go to `address`, and from there on where responses say."""

    upstream: tuple[Address, ...]
    """Brokers of the cluster; one that can be reached is enough."""
    copies: Copies
    """Where what passes is copied to."""
    now: Callable[[], int]
    """The recording's time, nanoseconds."""
    host: str = "127.0.0.1"
    port: int = 0
    advertised_host: str | None = None
    memory: Memory = attrs.field(factory=lambda: Memory(DEFAULT_MEMORY))
    addresses: Addresses = attrs.field(init=False)
    _replacing: Replacing = attrs.field(init=False)
    _numbers: Callable[[], int] = attrs.field(factory=lambda: itertools.count().__next__)
    _connections: dict[int, Connection] = attrs.field(factory=dict)
    _threads: list[threading.Thread] = attrs.field(factory=list)
    """One a listener: each ends after those that it has begun, so none of them is missed."""
    _lines: RepeatedLines = attrs.field(factory=lambda: RepeatedLines(_seconds))
    _next_connection: Callable[[], int] = attrs.field(factory=lambda: itertools.count().__next__)
    _stopped: threading.Event = attrs.field(factory=threading.Event)

    def __attrs_post_init__(self) -> None:
        self.addresses = Addresses(self.host, self.advertised_host or self.host, self.port, self._accept_on)
        self._replacing = Replacing(self.addresses)

    def start(self) -> Address:
        """Listen; the address for clients. Raises OSError."""
        return self.addresses.begin()

    @property
    def connections(self) -> int:
        """How many there are now."""
        return len(self._connections)

    def stop(self) -> None:
        """Listen no more, end all connections, and wait until what they did is copied."""
        self._stopped.set()
        self.addresses.close()
        for connection in tuple(self._connections.values()):
            connection.stop()
        for thread in tuple(self._threads):
            thread.join()

    def _accept_on(self, listener: socket.socket, upstream: Address | None) -> None:
        name = f"tap-accept-{upstream or 'any'}"
        thread = threading.Thread(target=self._accept, args=(listener, upstream), name=name, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _accept(self, listener: socket.socket, upstream: Address | None) -> None:
        serving: list[threading.Thread] = []
        with listener:
            while not self._stopped.is_set():
                try:
                    client, _ = listener.accept()
                except OSError as error:
                    if self._stopped.is_set():
                        break
                    self._lines.log_event(LOGGER, logging.WARNING, "client not accepted", upstream=upstream, why=error)
                    self._stopped.wait(NO_ROOM_SECONDS)
                    continue
                if len(self._connections) >= MOST_CONNECTIONS:
                    why = f"there are {MOST_CONNECTIONS} connections"
                    self._lines.log_event(LOGGER, logging.WARNING, "client not accepted", upstream=upstream, why=why)
                    client.close()
                    continue
                thread = threading.Thread(target=self._serve, args=(client, upstream), name="tap-client", daemon=True)
                thread.start()
                serving = [one for one in (*serving, thread) if one.is_alive()]
        for thread in serving:
            thread.join()

    def _serve(self, client: socket.socket, asked: Address | None) -> None:
        number = self._next_connection()
        found = self._connected((asked,) if asked is not None else (*self.upstream, *self.addresses.brokers))
        if found is None:
            client.close()
            return
        broker, upstream = found
        with client, broker:
            broker.settimeout(None)
            with suppress(OSError):
                keep_alive(client)
                keep_alive(broker)
            connection = Connection(
                number, client, broker, upstream, self.copies, self._replacing, self.memory, self.now, self._numbers
            )
            self._connections[number] = connection
            try:
                if not self._stopped.is_set():
                    connection.run()
            finally:
                self._connections.pop(number, None)

    def _connected(self, addresses: Sequence[Address]) -> tuple[socket.socket, Address] | None:
        """A connection to the first of these that can be reached; None where none can."""
        for upstream in addresses:
            try:
                return socket.create_connection(upstream, CONNECT_SECONDS), upstream
            except OSError as error:
                why = error.strerror or str(error)
                self._lines.log_event(LOGGER, logging.WARNING, "upstream not reached", upstream=upstream, why=why)
        return None


def load_messages() -> None:
    """Import the responses in which addresses are replaced."""
    load(NAME_BROKERS | {ApiKey.PRODUCE, ApiKey.FETCH})
