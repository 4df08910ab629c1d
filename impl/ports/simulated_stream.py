"""One connection of the simulated network: two stream ends, and the frames between them.

Theory of operation
-------------------
A stream end cuts what its node sends into whole Kafka frames (4-byte length, then as many bytes), for faults apply to
frames, not bytes. Each complete frame goes to the network, which decides when, whether and how often it arrives; the
other end collects what arrived. What isn't a frame (a length that is negative or beyond `LARGEST_FRAME`, or a torn
frame before the connection closes) passes as it is, so that a server gets to see malformed input.

The end of a stream travels behind its frames: the peer sees it when none of them is on its way any more. A node that is
paused neither reads nor sends: it stops at its next use of the network, as a stopped process would.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import Any, Protocol

import attrs
import trio

LARGEST_FRAME = 256 << 20
"""A length beyond this is taken for garbage."""

WINDOW = 16 << 20
"""Bytes that may wait at the reader before the writer waits too."""

REMEMBERED_REQUESTS = 4096
"""Requests of a connection whose API is remembered, to tell what the responses are and which are yet to come."""

_LENGTH = struct.Struct(">i")
_REQUEST_HEAD = struct.Struct(">ihhi")
_RESPONSE_HEAD = struct.Struct(">ii")


@attrs.define(eq=False)
class Frame:
    """A request or response on its way from one node to another; equal only to itself."""

    source: str
    destination: str
    number: int
    """Its place among all frames of this link, from 0."""
    end: SimulatedStream
    """The end at which it arrives."""
    is_request: bool
    api_key: int
    """The API of the request, or of the request that this responds to; -1 when the bytes tell none."""
    api_version: int
    correlation_id: int
    data: bytes
    """Everything on the wire, the length prefix included."""

    @property
    def connection_id(self) -> int:
        return self.end.connection.id

    @property
    def deliverable(self) -> bool:
        """Whether the receiving end is still open."""
        return not self.end.closed

    def __str__(self) -> str:
        kind = "request" if self.is_request else "response"
        return f"{self.source}→{self.destination} {kind} api={self.api_key} correlation={self.correlation_id}"


class Carrier(Protocol):
    """What a stream end asks of the network."""

    def carry(self, frame: Frame) -> None:
        """Take a frame that was sent."""

    def next_number(self, source: str, destination: str) -> int:
        """The next frame number of a link."""

    def is_blocked(self, source: str, destination: str) -> bool:
        """Whether nothing passes from `source` to `destination`."""

    async def until_running(self, node: str) -> None:
        """Return when `node` is not paused; at once, without a checkpoint, when it is not."""

    def is_paused(self, node: str) -> bool: ...

    def lose_frames_to(self, end: SimulatedStream) -> None:
        """Drop every frame that is on its way to `end`."""

    def forget(self, connection: Connection) -> None:
        """Both ends are closed."""


@attrs.define(eq=False)
class Connection:
    """A pair of ends. `apis` maps correlation ids to (api key, version), newest last."""

    id: int
    carrier: Carrier
    client: SimulatedStream = attrs.field(init=False)
    server: SimulatedStream = attrs.field(init=False)
    apis: dict[int, tuple[int, int]] = attrs.field(factory=dict)
    awaited: dict[int, int] = attrs.field(factory=dict)
    """Correlation id -> API key of a request that was sent and has not been responded to."""

    def open(self, client: str, server: str) -> None:
        self.client = SimulatedStream(self, client, server, opened=True)
        self.server = SimulatedStream(self, server, client, opened=False)

    def peer_of(self, end: SimulatedStream) -> SimulatedStream:
        return self.server if end is self.client else self.client

    def remember(self, correlation_id: int, api_key: int, api_version: int) -> None:
        self.apis[correlation_id] = api_key, api_version
        self.awaited[correlation_id] = api_key
        for remembered in (self.apis, self.awaited):
            if len(remembered) > REMEMBERED_REQUESTS:
                del remembered[next(iter(remembered))]

    def settle(self) -> None:
        """Let the end of each direction arrive, where nothing is on its way and nothing blocks it."""
        for end in (self.client, self.server):
            peer = self.peer_of(end)
            silent = end.closed and not peer.ended and not peer.arriving
            if silent and not self.carrier.is_blocked(end.node, peer.node):
                peer.end_of_stream()
        if self.client.closed and self.server.closed:
            self.carrier.forget(self)


class SimulatedStream(trio.abc.Stream):
    """One end of a connection."""

    def __init__(self, connection: Connection, node: str, peer: str, *, opened: bool) -> None:
        self.connection = connection
        self.node = node
        self.peer = peer
        self.closed = False
        self.ended = False
        self.arriving = 0
        """Frames on their way to this end."""
        self.last_arrival = 0.0
        """Time at which the latest frame in order arrives here, for the network's use."""
        self._opened = opened
        self._carrier = connection.carrier
        self._unsent = bytearray()
        self._incoming: deque[bytes] = deque()
        self._unread = 0
        self._readable = trio.lowlevel.ParkingLot()
        self._writable = trio.lowlevel.ParkingLot()
        self._sending = False
        self._receiving = False

    # --- sending -----------------------------------------------------------------------------------------------

    async def send_all(self, data: Any) -> None:
        if self._sending:
            raise trio.BusyResourceError("another task is sending on this stream")
        self._sending = True
        try:
            await trio.lowlevel.checkpoint()
            await self.wait_send_all_might_not_block()
            self._check_open()
            self._send(bytes(data))
        finally:
            self._sending = False

    async def wait_send_all_might_not_block(self) -> None:
        peer = self.connection.peer_of(self)
        await self._carrier.until_running(self.node)
        while peer._unread > WINDOW and not self.closed and not peer.closed:
            await peer._writable.park()
            await self._carrier.until_running(self.node)

    def _check_open(self) -> None:
        if self.closed:
            raise trio.ClosedResourceError("this stream is closed")
        if self.ended:
            raise trio.BrokenResourceError(f"{self.peer} closed the connection")

    def _send(self, data: bytes) -> None:
        if self._unsent:
            self._unsent += data
            data = bytes(self._unsent)
            self._unsent.clear()
        start = 0
        while len(data) - start >= 4:
            (length,) = _LENGTH.unpack_from(data, start)
            end = start + 4 + length
            if not 0 <= length <= LARGEST_FRAME:
                end = len(data)
            if end > len(data):
                break
            self._carrier.carry(self._frame(data[start:end] if start or end < len(data) else data))
            start = end
        self._unsent += data[start:]

    def _frame(self, data: bytes) -> Frame:
        number = self._carrier.next_number(self.node, self.peer)
        api_key = api_version = correlation_id = -1
        if self._opened and len(data) >= _REQUEST_HEAD.size:
            _, api_key, api_version, correlation_id = _REQUEST_HEAD.unpack_from(data)
            self.connection.remember(correlation_id, api_key, api_version)
        elif not self._opened and len(data) >= _RESPONSE_HEAD.size:
            _, correlation_id = _RESPONSE_HEAD.unpack_from(data)
            api_key, api_version = self.connection.apis.get(correlation_id, (-1, -1))
            self.connection.awaited.pop(correlation_id, None)
        peer = self.connection.peer_of(self)
        return Frame(self.node, self.peer, number, peer, self._opened, api_key, api_version, correlation_id, data)

    # --- receiving ---------------------------------------------------------------------------------------------

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        if self._receiving:
            raise trio.BusyResourceError("another task is receiving from this stream")
        self._receiving = True
        try:
            if self._incoming or self.ended or self.closed:
                await trio.lowlevel.checkpoint()
            await self._carrier.until_running(self.node)
            while not self._incoming and not self.ended and not self.closed:
                await self._readable.park()
                await self._carrier.until_running(self.node)
            if self.closed:
                raise trio.ClosedResourceError("this stream is closed")
            return self._take(max_bytes)
        finally:
            self._receiving = False

    def _take(self, max_bytes: int | None) -> bytes:
        if not self._incoming:
            return b""
        data = self._incoming.popleft()
        if max_bytes is not None and len(data) > max_bytes:
            self._incoming.appendleft(data[max_bytes:])
            data = data[:max_bytes]
        self._unread -= len(data)
        self._writable.unpark_all()
        return data

    def arrive(self, data: bytes) -> None:
        """Bytes reach this end; a closed end drops them."""
        if not self.closed:
            self._incoming.append(data)
            self._unread += len(data)
            self._readable.unpark_all()

    def end_of_stream(self) -> None:
        """The peer will send nothing more."""
        self.ended = True
        self._readable.unpark_all()
        self._writable.unpark_all()

    # --- closing -----------------------------------------------------------------------------------------------

    async def aclose(self) -> None:
        self.close()
        await trio.lowlevel.checkpoint()

    def close(self) -> None:
        """Close this end: what was sent still arrives, a torn frame included; what comes is dropped."""
        if self.closed:
            return
        if self._unsent and not self.ended and not self._carrier.is_paused(self.node):
            torn, self._unsent = bytes(self._unsent), bytearray()
            self._carrier.carry(self._frame(torn))
        self.closed = True
        self.forget_unread()
        self._readable.unpark_all()
        self._writable.unpark_all()
        self.connection.settle()

    def abort(self) -> None:
        """Reset the connection: nothing that is on its way arrives, and the peer loses what it has not read yet.

        Behind a partition the peer learns of that when it heals, and keeps what it has.
        """
        if self.closed:
            return
        self._unsent.clear()
        peer = self.connection.peer_of(self)
        self._carrier.lose_frames_to(self)
        self._carrier.lose_frames_to(peer)
        if not self._carrier.is_blocked(self.node, peer.node):
            peer.forget_unread()
        self.close()

    def forget_unread(self) -> None:
        """Drop what arrived and was not read."""
        self._incoming.clear()
        self._unread = 0
