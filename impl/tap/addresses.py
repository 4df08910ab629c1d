"""Where the tap listens for which broker: a port for each address that brokers tell clients."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import attrs

from tidegauge.impl.ports.log_lines import log_event
from tidegauge.impl.ports.network import Address

LOGGER: Final = logging.getLogger(__name__)

MOST: Final = 1000
"""Brokers that are listened for."""
PORTS_TRIED: Final = 100

Serve = Callable[[socket.socket, Address | None], None]
"""Accept connections on a listening socket, for what is at an upstream address, or for any broker; returns at once.
Who accepts closes the socket, when none comes any more."""


class NoPortError(Exception):
    """There is no port to listen on for a broker."""


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket that listens. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=512)


@attrs.define(eq=False)
class Addresses:
    """For all threads. The first listener is for clients that know no broker yet, and go to any."""

    host: str
    """Where to listen."""
    advertised_host: str
    """The host that clients are told."""
    port: int
    """The first port; each new broker gets the next one that is free. 0 lets the system choose."""
    serve: Serve
    _local: dict[Address, int] = attrs.field(factory=dict)
    _sockets: list[socket.socket] = attrs.field(factory=list)
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    def begin(self) -> Address:
        """Listen for clients that know no broker yet. Raises OSError."""
        listener = listening_socket(self.host, self.port)
        self._sockets.append(listener)
        self.serve(listener, None)
        return Address(self.advertised_host, int(listener.getsockname()[1]))

    @property
    def brokers(self) -> tuple[Address, ...]:
        """The brokers that responses have named."""
        return tuple(self._local)

    def local(self, host: str, port: int) -> Address:
        """Where the tap listens for what is at a host and port, from now on at the latest. Raises NoPortError."""
        upstream = Address(host, port)
        known = self._local.get(upstream)
        if known is None:
            with self._lock:
                known = self._local.get(upstream)
                if known is None:
                    known = self._listen(upstream, self._free_port()).port
        return Address(self.advertised_host, known)

    def close(self) -> None:
        """Listen no more."""
        with self._lock:
            for one in self._sockets:
                # Who waits in accept is woken, and closes it: closed here, it might be another socket's number by then.
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def _free_port(self) -> socket.socket:
        if len(self._local) >= MOST:
            raise NoPortError(f"{MOST} brokers have a port already")
        if not self.port:
            return listening_socket(self.host, 0)
        first = self.port + 1 + len(self._local)
        for port in range(first, min(first + PORTS_TRIED, 65536)):
            try:
                return listening_socket(self.host, port)
            except OSError:
                continue
        raise NoPortError(f"no port from {first} on is free")

    def _listen(self, upstream: Address, listener: socket.socket) -> Address:
        port = int(listener.getsockname()[1])
        self._local[upstream] = port
        self._sockets.append(listener)
        self.serve(listener, upstream)
        here = Address(self.advertised_host, port)
        log_event(LOGGER, logging.INFO, "broker tapped", upstream=upstream, clients_go_to=here)
        return here
