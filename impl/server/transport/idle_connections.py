"""Connections on which nothing comes or goes though it is the peer's move: after `connections.max.idle.ms` they end.

That is a client that has nothing to ask, one that stops in the middle of a request, one that does not read its
responses, and one that has gone without closing. A client that waits for the broker is never idle. One task looks at
all connections a few times in that span, so that idleness costs no request anything.
"""

from __future__ import annotations

from typing import Final, Protocol

import trio

from tidegauge.impl.ports.clock import Clock

LOOKS: Final = 4
"""How often connections are looked at in the time that they may be idle."""


class MayBeIdle(Protocol):
    """A connection."""

    @property
    def idle_since(self) -> float:
        """Since when nothing has come or gone, in trio's time; infinity while it is not the peer's move."""
        ...

    async def abort(self) -> None:
        """Reset the connection."""
        ...


class IdleConnections:
    """The open connections of one server."""

    def __init__(self, clock: Clock, max_idle_ms: int) -> None:
        self.closed = 0
        """How many connections were closed for being idle."""
        self._clock = clock
        self._max_idle_s = max_idle_ms / 1000
        self._open: dict[MayBeIdle, None] = {}

    def __len__(self) -> int:
        return len(self._open)

    def add(self, connection: MayBeIdle) -> None:
        self._open[connection] = None

    def discard(self, connection: MayBeIdle) -> None:
        del self._open[connection]

    async def run(self) -> None:
        """Close what is idle, until cancelled."""
        while True:
            await trio.sleep(self._max_idle_s / LOOKS)
            await self._clock.until_running()
            now = trio.current_time()
            for connection in [one for one in self._open if now - one.idle_since > self._max_idle_s]:
                self.closed += 1
                await connection.abort()
