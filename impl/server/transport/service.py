"""What all connections of a server have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Protocol

import attrs

from tidegauge.impl.ports.clock import Clock
from tidegauge.impl.ports.repeated_lines import RepeatedLines
from tidegauge.impl.server.pace import Apart, called_here
from tidegauge.impl.server.transport.authorization import AllowAll, Authorizer, Principal
from tidegauge.impl.server.transport.context import Handler, RequestContext
from tidegauge.impl.server.transport.slow_requests import SlowRequests
from tidegauge.impl.wire.apis import PRODUCE_SERVED_FROM, ApiKey, VersionRange
from tidegauge.impl.wire.frames import FrameMemory, Payload

if TYPE_CHECKING:
    import trio

    from tidegauge.impl.server.transport.idle_connections import IdleConnections
    from tidegauge.impl.server.transport.request_hook import RequestHook


class Gate(Protocol):
    """Takes the frames of a peer that has not authenticated (`impl.server.transport.security.sasl_gate`)."""

    @property
    def principal(self) -> Principal:
        """Who the peer is."""
        ...

    @property
    def is_open(self) -> bool:
        """Whether the peer has authenticated."""
        ...

    @property
    def max_frame_bytes(self) -> int:
        """The largest frame that the peer may send before it has authenticated."""
        ...

    async def take(self, frame: Payload) -> bytes | None:
        """Look at a frame; returns the frame of its response, or None for a request that may pass.

        Raises RefusedError and MalformedMessageError.
        """
        ...

    def left(self) -> None:
        """The peer has closed the connection, or was refused."""
        ...


@attrs.frozen(eq=False, repr=False)
class Service:
    """How a server's connections serve requests."""

    handlers: Mapping[ApiKey, Handler]
    versions: Mapping[ApiKey, VersionRange]
    """What is advertised; a request for anything else ends its connection."""
    clock: Clock
    max_frame_bytes: int
    authorizer: Authorizer = attrs.field(factory=AllowAll)
    listener: str = "PLAINTEXT"
    """The listener by which the peers came."""
    gate: Callable[[str], Gate] | None = None
    """Makes a connection's gate, given the peer's address; the peer passes by authenticating. None lets everybody in.
    """
    request_hook: RequestHook | None = None
    """Comes between connections and handlers; None where nobody can inject faults."""
    on_failure: Callable[[RequestContext, Exception], None] | None = None
    """Called with every unexpected error of a handler; without it these errors go through."""
    turns: trio.Semaphore | None = None
    """Requests that may be handled at once, `queued.max.requests`; those that wait do not count."""
    idle: IdleConnections | None = None
    """Closes connections that are idle."""
    slow_requests: SlowRequests = attrs.field(factory=SlowRequests)
    """Logs them."""
    lines: RepeatedLines = attrs.field(factory=RepeatedLines)
    """What is logged of peers that anybody may be."""
    memory: FrameMemory = attrs.field(factory=FrameMemory)
    """What large requests are received into."""
    apart: Apart = called_here
    """Calls what must not be cut in slices apart from the loop."""
    served: frozenset[tuple[int, int]] = attrs.field(init=False)
    """The APIs and versions that have a response: what is advertised, without what Kafka advertises and refuses."""

    @served.default
    def _all_served(self) -> frozenset[tuple[int, int]]:
        return _served(tuple(self.versions.items()))


@cache
def _served(versions: tuple[tuple[int, VersionRange], ...]) -> frozenset[tuple[int, int]]:
    return frozenset(
        (key, version)
        for key, spoken in versions
        for version in range(spoken.lowest, spoken.highest + 1)
        if key != ApiKey.PRODUCE or version >= PRODUCE_SERVED_FROM
    )
