"""One connection at a server: requests in, responses out, in the order in which the requests came.

Theory of operation
-------------------
A connection handles one request at a time. It looks at the next one when the response to this one is written. A client
that sends faster than it is served fills its own connection and waits. What a server holds for a client is bounded: the
request at hand, and at most `peer_watch.READ_AHEAD` bytes behind it. There is no queue between connections and
handlers: the task that has read a request handles it, once it has a turn. `transport.states` has the states of a
connection and the rules of turns.

Responses to requests that were received together are sent together. While a request waits, the connection reads on and
drops the request when the peer leaves (`transport.peer_watch`).

A frame that is too large, cannot be decoded, or asks for an API or version that is not served ends its connection and
nothing else. ApiVersions alone has a response in any version (KIP-511), so that a client can find out what is spoken
here. A handler that fails unexpectedly harms nothing but its request: UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, TypeVar

import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.ports.disk_errors import Extent, extent_of, told
from tidegauge.impl.ports.network import abort, peer_host, reset
from tidegauge.impl.server.error_responses.table import error_response
from tidegauge.impl.server.error_responses.unsupported_version import unsupported_version
from tidegauge.impl.server.pace import SLICE, Pace
from tidegauge.impl.server.transport.authorization import ANONYMOUS, Principal
from tidegauge.impl.server.transport.context import RequestContext
from tidegauge.impl.server.transport.peer_watch import GONE, PEER_LEFT, PeerWatch
from tidegauge.impl.server.transport.peer_watch import READING as WATCH_READS
from tidegauge.impl.server.transport.refused import RefusedError
from tidegauge.impl.server.transport.sending import send_parts
from tidegauge.impl.server.transport.service import Gate, Service
from tidegauge.impl.server.transport.slow_requests import SLOW_S
from tidegauge.impl.server.transport.states import (
    CLOSED,
    HANDLING,
    NEXT,
    PEERS_MOVE,
    QUEUED,
    READING,
    READY,
    SENDING,
    WAITING,
    ConnectionState,
)
from tidegauge.impl.wire.apis import PRODUCE_SERVED_FROM, ApiKey
from tidegauge.impl.wire.codecs import (
    MalformedMessageError,
    api_name,
    decode_quickly,
    decoding_canonical,
    encode_quickly,
    encode_response,
    encoding_response,
    peek_request,
)
from tidegauge.impl.wire.fields import Part
from tidegauge.impl.wire.frames import (
    ConnectionLostError,
    FrameReader,
    FrameTooLargeError,
    OtherProtocolError,
    Payload,
)
from tidegauge.impl.wire.releasing import releasing

T = TypeVar("T")

LOGGER: Final = logging.getLogger(__name__)

PRODUCE: Final = ApiKey.PRODUCE
REQUEST_UNITS: Final = 40
"""Of work, as `impl.server.pace` counts it, for any request: one that sends many at once has others served between."""
PRODUCE_UNITS: Final = 15
"""The same for a Produce request, without its batches."""
MOST_UNSENT: Final = 256 << 10
"""Bytes of responses beyond which they are sent, though the next request is there already."""
MOST_FREED: Final = 64 << 10
"""Bytes of a request and its response beyond which their elements are freed in slices, where there may be many."""

WAYS_OUT: Final[Mapping[str, str]] = {
    "TLS": "its connection is closed: TLS is not spoken here, so give the client security.protocol PLAINTEXT or "
    "SASL_PLAINTEXT, or the port of a listener that has TLS",
    "HTTP": "its connection is closed: Kafka's protocol is spoken here, so give it a web server's port",
}
"""What the peer's operator can do, by the protocol that it speaks."""

EXPECTED: Final = (
    AssertionError,
    ConnectionLostError,
    FrameTooLargeError,
    MalformedMessageError,
    OSError,
    RefusedError,
    trio.BrokenResourceError,
    trio.ClosedResourceError,
)
"""Errors of handlers that end a connection, or must end a server: a broken promise of ours, a disk that fails."""


class Connection:
    """A peer's connection."""

    def __init__(self, stream: trio.abc.Stream, service: Service, principal: Principal = ANONYMOUS) -> None:
        self.principal = principal
        """Who the peer is; authentication changes it."""
        self.client_host = peer_host(stream)
        self.listener = service.listener
        self.state = READY
        self._stream = stream
        self._service = service
        self._gate = None if service.gate is None else service.gate(self.client_host)
        self._pace = Pace(service.apart, service.clock.until_running)
        limit = service.max_frame_bytes if self._gate is None else self._gate.max_frame_bytes
        self._reader = FrameReader(stream, limit, service.memory, self._pace.pause)
        self._watch = PeerWatch(self._reader)
        self.time = trio.lowlevel.current_clock().current_time
        """Trio's time, without a look for the loop each time."""
        self.sent: dict[tuple[str, int], int] = {}
        self._nursery: trio.Nursery
        self._unsent: list[Part] = []
        self._unsent_bytes = 0
        self._is_known_to_hook = False
        self._progressed_at = trio.current_time()
        """When the peer last took something, in trio's time."""
        self._throttle_s = 0.0

    async def serve(self) -> str | None:
        """Serve until the peer closes (None), breaks the rules or is lost (the reason).

        The caller closes the stream. Requests before the one that broke the rules get their responses.
        """
        reason: str | None = GONE  # if what is cancelled is this connection alone
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            if self._service.idle is not None:
                self._service.idle.add(self)
            try:
                reason = await self._serve()
                if self._gate is not None:
                    self._gate.left()
            finally:
                self._enter(CLOSED)
                if self._service.idle is not None:
                    self._service.idle.discard(self)
            nursery.cancel_scope.cancel()
        return reason

    async def _serve(self) -> str | None:
        clock = self._service.clock
        try:
            try:
                while True:
                    if (frame := self._reader.buffered_frame()) is None and (frame := await self._next_frame()) is None:
                        return None
                    if clock.is_stopped:
                        await clock.until_running()
                    if self._gate is None or not await self._taken_by_gate(self._gate, frame):
                        if self.state is not HANDLING:
                            await self._take_turn()
                        await self._handle(frame)
                    del frame  # its memory is free for the next one
            except (RefusedError, MalformedMessageError, FrameTooLargeError) as error:
                if isinstance(error, RefusedError) and error.response:
                    self._unsent.append(error.response)
                if isinstance(error, OtherProtocolError):
                    self._note_other_protocol(error)
                await self._send_responses()
                return str(error)
        except (ConnectionLostError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
            return str(error) or "the connection broke"
        except OSError as error:  # an API's first request has its modules imported
            if extent_of(error) is not Extent.PASSING:
                raise
            self._note_lack(error)
            return str(error)

    def _note_other_protocol(self, error: OtherProtocolError) -> None:
        self._service.lines.log_event(
            LOGGER,
            logging.WARNING,
            "another protocol",
            listener=self._service.listener,
            peer=self.client_host or None,
            why=f"the peer speaks {error.protocol}",
            next=WAYS_OUT[error.protocol],
        )

    def _note_lack(self, error: OSError) -> None:
        self._service.lines.log_event(
            LOGGER,
            logging.WARNING,
            "no room",
            listener=self._service.listener,
            peer=self.client_host or None,
            why=told(error),
            next="the connection is closed: close others, or give the process more descriptors or memory",
        )

    # --- states ----------------------------------------------------------------------------------------------------

    def _enter(self, state: ConnectionState) -> None:
        """Go to another state; leaving HANDLING gives up the turn."""
        before = self.state
        assert state in NEXT[before], f"a connection does not go from {before.name} to {state.name}"
        self.state = state
        if before is HANDLING and self._service.turns is not None:
            self._service.turns.release()

    async def _take_turn(self) -> None:
        """Begin to handle requests; wait while too many others do."""
        turns = self._service.turns
        if turns is not None:
            try:
                turns.acquire_nowait()
            except trio.WouldBlock:
                await self._send_responses()
                self._enter(QUEUED)
                await turns.acquire()
        self._enter(HANDLING)

    @property
    def idle_since(self) -> float:
        """Since when nothing has come or gone, in trio's time; infinity while it is not the peer's move."""
        return max(self._progressed_at, self._reader.last_progress()) if self.state in PEERS_MOVE else math.inf

    @property
    def is_open(self) -> bool:
        """Whether the connection is served."""
        return self.state is not CLOSED

    async def abort(self) -> None:
        """Reset the connection: what is on its way is lost."""
        await abort(self._stream)

    def reset(self) -> None:
        """Reset the connection at once, as `abort`; its own task closes what is left of it."""
        reset(self._stream)

    # --- frames in and out -----------------------------------------------------------------------------------------

    async def _next_frame(self) -> Payload | None:
        """Wait for the next frame, of which not all has come; None when the peer has closed."""
        if self._unsent:
            await self._send_responses()
        self._pace.spent = 0  # others have their turn while the peer is waited for
        self._enter(READING)
        if self._watch.state is WATCH_READS:
            await self._watch.finish_read()
        if self._watch.state is PEER_LEFT:
            frame = self._last_frame()
        else:
            frame = await self._reader.read_frame()
        self._enter(READY)
        return frame

    def _last_frame(self) -> Payload | None:
        """A frame of what the peer sent before it left; None when there is none."""
        if (frame := self._reader.buffered_frame()) is None and self._reader.buffered_bytes:
            raise ConnectionLostError(f"the connection ended after {self._reader.buffered_bytes} bytes of a frame")
        return frame

    async def _send_responses(self) -> None:
        if not self._unsent:
            return
        parts, self._unsent, self._unsent_bytes = self._unsent, [], 0
        self._enter(SENDING)
        try:
            await send_parts(self._stream, parts, self._progressed)
        except OSError as error:
            raise ConnectionLostError(f"a response could not be sent: {error}") from error
        finally:
            self._enter(READY)

    def _progressed(self) -> None:
        self._progressed_at = self.time()

    async def _taken_by_gate(self, gate: Gate, frame: Payload) -> bool:
        """Whether a frame was one of those that authenticate the peer; it gets its response here."""
        if (response := await gate.take(frame)) is None:
            return False
        self._unsent.append(response)
        self.principal = gate.principal
        if gate.is_open:
            self._reader.limit = self._service.max_frame_bytes
        return True

    # --- requests --------------------------------------------------------------------------------------------------

    async def _handle(self, frame: Payload) -> None:
        """Carry a request out, and leave its response with those that are sent when no more requests are there."""
        service, pace = self._service, self._pace
        api_key, version, correlation_id = peek_request(frame)
        pace.spent += PRODUCE_UNITS if api_key == PRODUCE else REQUEST_UNITS
        if pace.spent >= SLICE:
            await pace.pause()
        if (api_key, version) not in service.served:
            self._unsent.append(self._refused(api_key, version, correlation_id))
            return
        decoded = decode_quickly(frame, api_key, version)
        is_long = decoded is None
        if decoded is None:  # it may be long work, so its first slice has its turn like the others
            await pace.pause()
            decoded = await pace.finish(decoding_canonical(frame, api_key, version))
        client_id, request = decoded
        context = RequestContext(
            api_key,
            version,
            correlation_id,
            client_id,
            self,
            self.principal,
            self.client_host,
            service.authorizer,
            pace,
        )
        begun_at = self.time()
        refusal = None
        try:
            handler = service.handlers[api_key]  # type: ignore[index]
            if (hook := service.request_hook) is None or (self._is_known_to_hook and not hook.is_active):
                response = await handler(request, context)
            else:
                self._is_known_to_hook = True
                response = await hook.handle(handler, request, context)
        except RefusedError as error:
            refusal, response = error.with_traceback(None), None  # a traceback keeps the request
        except EXPECTED:
            raise
        except Exception as error:
            await trio.lowlevel.checkpoint_if_cancelled()  # a server that has stopped has closed its files
            response = self._failed(request, context, error)
        self._progressed_at = self.time()  # from now on it is the peer's move
        seconds = self._progressed_at - begun_at - context.waited_s
        if seconds > SLOW_S:
            service.slow_requests.log(context, seconds)
        size = len(frame)
        if response is not None:
            try:
                if (parts := encode_quickly(response, version, correlation_id)) is None:
                    is_long = True
                    parts = await pace.finish(encoding_response(response, version, correlation_id))
            except Exception as error:
                raise self._unwritable(context, error) from error
            for part in parts:
                self._unsent.append(part)
                size += len(part)
            self._unsent_bytes += size - len(frame)
        if is_long and size > MOST_FREED:
            waste = releasing(request, response)
            del decoded, request, response
            await pace.finish(waste)
        if refusal is not None:
            raise refusal
        if self._unsent_bytes > MOST_UNSENT:
            await self._send_responses()
        if self._throttle_s:
            seconds, self._throttle_s = self._throttle_s, 0.0
            await self.while_connected(partial(trio.sleep, seconds))

    def _refused(self, api_key: int, version: int, correlation_id: int) -> bytes:
        """The response to an ApiVersions request of an unknown version. Raises RefusedError for any other API."""
        if api_key == ApiKey.API_VERSIONS:
            return encode_response(unsupported_version(self._service.versions), correlation_id)
        if api_key == ApiKey.PRODUCE and version in range(PRODUCE_SERVED_FROM):
            raise RefusedError(f"PRODUCE version {version} was removed by Kafka 4: use {PRODUCE_SERVED_FROM} or later")
        raise RefusedError(f"{api_name(api_key)} version {version} is not served here")

    def _failed(self, request: Any, context: RequestContext, error: Exception) -> Any:
        """The response to a request whose handler failed unexpectedly."""
        if self._service.on_failure is None:
            raise error
        self._service.on_failure(context, error)
        return error_response(request, ErrorCode.unknown_server_error)

    def _unwritable(self, context: RequestContext, error: Exception) -> Exception:
        """The error for a response that cannot be encoded in its version; it ends the connection and nothing else."""
        if self._service.on_failure is None:
            return error
        self._service.on_failure(context, error)
        return RefusedError(f"the response to {api_name(context.api_key)} {context.api_version} cannot be encoded")

    def throttle(self, seconds: float) -> None:
        """Look at no further request for so long, once the one at hand has its response (KIP-219)."""
        self._throttle_s = seconds

    # --- waiting ---------------------------------------------------------------------------------------------------

    async def while_connected(self, wait: Callable[[], Awaitable[T]], *, watched: bool = True) -> T:
        """Wait for something on behalf of the peer. When the peer leaves meanwhile the connection ends.

        With `watched=False` nobody looks whether it is gone: for waits that end soon anyway.
        """
        await self._send_responses()
        self._enter(WAITING)
        try:
            return await (self._watch.while_connected(self._nursery, wait) if watched else wait())
        finally:
            self._enter(READY)
