"""A channel: one peer, requests out, responses in, matched by correlation id.

A channel connects when it first has something to send, and again after it lost its connection. Requests are pipelined:
several may be in flight, and each response finds its request by its correlation id. A response that no request waits
for is dropped. A request without a response in time closes the connection, because the responses behind it might not
come either; all requests that wait get `NoResponseError`: they may or may not have been carried out. Only
`UnreachableError` says that nothing was sent.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs
import trio

from tidegauge.impl.ports.deadlines import Signal, deadlines
from tidegauge.impl.ports.disk_errors import NO_DESCRIPTORS, told
from tidegauge.impl.ports.network import Address, Network, abort, plain_socket, reset, send_at_once
from tidegauge.impl.wire.codecs import MalformedMessageError, decoding_response, encode_request, response_correlation_id
from tidegauge.impl.wire.frames import ConnectionLostError, FrameMemory, FrameReader, FrameTooLargeError
from tidegauge.impl.wire.frames import Payload as Bytes

if TYPE_CHECKING:
    from kio.static.protocol import Payload

MAX_RESPONSE_BYTES = 256 << 20
UNITS_AT_ONCE: Final = 500
"""Of work on a response (`records.slices`), after which others have their turn."""

Handshake = Callable[["Channel"], Awaitable[None]]


class UnreachableError(Exception):
    """The peer cannot be reached: nothing was sent."""


class NoResponseError(Exception):
    """The request was sent, no response came: it may or may not have been carried out."""


@attrs.define(eq=False, repr=False)
class _Waiting:
    api_key: int
    api_version: int
    done: Signal = attrs.field(factory=Signal)
    response: Any = None
    failure: str | None = None


async def _decoded(frame: Bytes, waiting: _Waiting) -> Any:
    """The message of a response, in slices. Raises MalformedMessageError."""
    work, units = decoding_response(frame, waiting.api_key, waiting.api_version), 0
    while True:
        try:
            step = next(work)
        except StopIteration as done:
            return done.value.message
        assert isinstance(step, int), "to read a response is no work to be done apart"
        units += step
        if units >= UNITS_AT_ONCE:
            units = 0
            await trio.lowlevel.checkpoint()


class TaskStarter(Protocol):
    """Starts tasks: a nursery, or the owner of one."""

    def start_soon(self, async_fn: Callable[..., Awaitable[Any]], /, *args: Any) -> None: ...


class Channel:
    """Requests to one address. Its reader is a task of the owner's."""

    def __init__(
        self,
        network: Network,
        address: Address,
        client_id: str,
        tasks: TaskStarter,
        *,
        timeout_ms: float = math.inf,
        handshake: Handshake | None = None,
        memory: FrameMemory | None = None,
    ) -> None:
        """`timeout_ms` bounds connecting, and requests that name no other; `handshake` runs on a new connection.

        `memory` is the buffers that large responses are received into.
        """
        self.address = address
        self._network = network
        self._client_id = client_id
        self._tasks = tasks
        self._timeout_ms = timeout_ms
        self._handshake = handshake
        self._memory = memory
        self._stream: trio.abc.Stream | None = None
        self._ready: trio.abc.Stream | None = None
        """The stream once its handshake is done: until then it is not for requests."""
        self._opening = trio.Lock()
        self._sending = trio.Lock()
        self._waiting: dict[int, _Waiting] = {}
        self._next_correlation_id = 0
        self._closed = False
        self._idle: trio.Event | None = None
        """Set when no request waits any more; None while nobody wants to know."""

    @property
    def outstanding(self) -> int:
        """Requests that wait for a response."""
        return len(self._waiting)

    async def connect(self) -> None:
        """Open the connection unless it is; without a checkpoint when it is. Raises UnreachableError."""
        if self._ready is None:
            await self._open()

    async def request(self, message: Any, timeout_ms: float | None = None, *, version: int | None = None) -> Any:
        """Send a request and return the response, kio's response class of the same version or this project's.

        `version` is for messages that have one class for all versions, as in `codecs.encode_request`.
        Raises UnreachableError when it was not sent, NoResponseError when no response came.
        """
        stream = self._ready or await self._open()
        timeout_ms = self._timeout_ms if timeout_ms is None else timeout_ms
        return await self._exchange(stream, message, timeout_ms, message.__version__ if version is None else version)

    async def request_here(self, message: Payload) -> Any:
        """Send a request on the connection that is being opened; for handshakes.

        Raises NoResponseError when none comes, or when the connection was lost since the last one.
        """
        if self._stream is None:
            raise NoResponseError(f"the connection to {self.address} broke before its handshake was done")
        return await self._exchange(self._stream, message, self._timeout_ms, message.__version__)

    async def send(self, message: Any, timeout_ms: float | None = None) -> None:
        """Send a request that has no response (Produce with acks=0). Raises UnreachableError or NoResponseError."""
        stream = self._ready or await self._open()
        timeout_ms = self._timeout_ms if timeout_ms is None else timeout_ms
        frame = encode_request(message, self._correlation_id(), self._client_id)
        if not await self._send(stream, frame, deadlines().time() + timeout_ms / 1000):
            raise NoResponseError(f"{self.address} does not take a request within {timeout_ms:.0f} ms")

    async def _exchange(self, stream: trio.abc.Stream, message: Any, timeout_ms: float, version: int) -> Any:
        correlation_id = self._correlation_id()
        waiting = self._waiting[correlation_id] = _Waiting(message.__api_key__, version)
        try:
            waits = deadlines()
            deadline = waits.time() + timeout_ms / 1000
            frame = encode_request(message, correlation_id, self._client_id, version=version)
            await self._send(stream, frame, deadline)
            await waits.wait(waiting.done, deadline)
        finally:
            self._waiting.pop(correlation_id, None)
            if not self._waiting and self._idle is not None:
                self._idle.set()
        if not waiting.done.is_set:
            await self._lose(stream, f"no response from {self.address} within {timeout_ms:.0f} ms")
            raise NoResponseError(f"no response from {self.address} within {timeout_ms:.0f} ms")
        if waiting.failure is not None:
            raise NoResponseError(waiting.failure)
        return waiting.response

    def _correlation_id(self) -> int:
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        return correlation_id

    async def _send(self, stream: trio.abc.Stream, frame: bytes, deadline: float) -> bool:
        """Send a request, and give up at the deadline (False); a checkpoint only where it has to wait."""
        try:
            sent = 0 if self._sending.locked() else send_at_once(stream, frame)
            if sent < len(frame):
                with trio.CancelScope(deadline=deadline) as scope:
                    await self._send_rest(stream, memoryview(frame), sent)
                return not scope.cancelled_caught
            return True
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            await self._lose(stream, f"the connection to {self.address} broke")
            raise NoResponseError(f"the connection to {self.address} broke: {self._why(error)}") from error

    async def _send_rest(self, stream: trio.abc.Stream, frame: memoryview, sent: int) -> None:
        """Send what is left of a request; nothing can follow a part of one, should it be given up."""
        if self._sending.locked():
            await self._sending.acquire()
        else:
            self._sending.acquire_nowait()  # spares a turn of the scheduler
        try:
            socket = plain_socket(stream)
            if socket is None:  # one of TLS is broken by itself when it is given up
                await stream.send_all(frame[sent:])
                return
            while (sent := sent + send_at_once(stream, frame[sent:])) < len(frame):
                await trio.lowlevel.wait_writable(socket)
        except trio.Cancelled:
            if sent:
                self._give_up(stream, f"a request to {self.address} was given up when a part of it was sent")
                reset(stream)
            raise
        finally:
            self._sending.release()

    async def _open(self) -> trio.abc.Stream:
        async with self._opening:
            if self._ready is not None:
                return self._ready
            if self._closed:
                raise UnreachableError(f"the channel to {self.address} is closed")
            try:
                with trio.fail_after(self._timeout_ms / 1000):
                    stream = await self._network.connect(self.address)
            except (OSError, trio.TooSlowError) as error:
                raise UnreachableError(f"{self.address} cannot be reached: {self._why(error)}") from error
            self._stream = stream
            self._tasks.start_soon(self._read_responses, stream)
            if self._handshake is not None:
                try:
                    await self._handshake(self)
                except NoResponseError as error:
                    raise UnreachableError(f"{self.address} does not respond: {error}") from error
                except UnreachableError as error:
                    await self._lose(stream, str(error))
                    raise
            if self._stream is not stream:
                raise UnreachableError(f"the connection to {self.address} broke before it could be used")
            self._ready = stream
            return stream

    def _why(self, error: BaseException) -> str:
        """What an error of the connection says; some of trio's say nothing, or have it in their cause."""
        if isinstance(error, trio.TooSlowError):
            return f"no connection within {self._timeout_ms:.0f} ms"
        if isinstance(error, OSError):
            lacks = error.errno in NO_DESCRIPTORS
            return told(error) + (": close connections, or give the process more descriptors" if lacks else "")
        return str(error) or (type(error).__name__ if error.__cause__ is None else self._why(error.__cause__))

    async def _read_responses(self, stream: trio.abc.Stream) -> None:
        reader = FrameReader(stream, MAX_RESPONSE_BYTES, self._memory)
        reason = f"{self.address} closed the connection"
        try:
            while (frame := await reader.read_frame()) is not None:
                waiting = self._waiting.get(response_correlation_id(frame))
                if waiting is not None and not waiting.done.is_set:
                    waiting.response = await _decoded(frame, waiting)
                    waiting.done.set()
                del frame, waiting  # its memory is free for others, however long the next one takes
        except (trio.BrokenResourceError, trio.ClosedResourceError, ConnectionLostError) as error:
            reason = f"the connection to {self.address} broke: {self._why(error)}"
        except (FrameTooLargeError, MalformedMessageError) as error:
            reason = f"{self.address} sent what cannot be understood: {error}"
        finally:
            with trio.CancelScope(shield=True):
                await self._lose(stream, reason)

    async def _lose(self, stream: trio.abc.Stream, reason: str) -> None:
        """Reset the connection, and tell all that waited on it."""
        self._give_up(stream, reason)
        await abort(stream)

    def _give_up(self, stream: trio.abc.Stream, reason: str) -> None:
        if self._stream is stream:
            self._stream = self._ready = None
            for waiting in self._waiting.values():
                if not waiting.done.is_set:
                    waiting.failure = reason
                    waiting.done.set()

    async def aclose_when_idle(self) -> None:
        """Close the connection once no request waits for a response."""
        if self._waiting:
            self._idle = trio.Event()
            await self._idle.wait()
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connection after what was sent; requests that wait get NoResponseError."""
        self._closed = True
        stream, self._stream, self._ready = self._stream, None, None
        for waiting in self._waiting.values():
            waiting.failure = "the channel was closed"
            waiting.done.set()
        if stream is not None:
            await stream.aclose()
