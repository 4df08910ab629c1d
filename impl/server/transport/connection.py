"""One connection at a server: requests in, answers out, in the order in which the requests came.

Theory of operation
-------------------
At most one request of a connection is being handled; the next one is looked at when the answer to this one is written.
So a client that sends faster than it is served fills its own connection and waits, and what a server holds for it is
bounded: the request at hand, and at most `READ_AHEAD` bytes behind it. There is no queue between connections and
handlers: a task that has read a request handles it at once, unless `queued.max.requests` are being handled already;
then it waits for its turn and reads no more. It keeps its turn for what it has read together, and gives it up before it
waits for its peer, or in the purgatory.

Answers to requests that were received together are sent together. While a request waits in the purgatory a second task,
the watcher, reads on: when the peer is gone the request is dropped, for nobody would get the answer. A read cannot be
taken back without risk, so that one which has begun goes on when the wait is over, and the next request comes by it.

A connection is idle while it is the peer's move and nothing comes or goes; `idle_connections` closes it.

On a listener with SASL a gate takes the frames of a peer that has not authenticated (`security.sasl_gate`).

A frame that is too large, cannot be decoded, or asks for an API or version that is not served ends its connection and
nothing else. ApiVersions alone is answered in any version (KIP-511), so that a client can find out what is spoken here.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs
import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.ports.clock import Clock
from tidegauge.impl.ports.network import abort, peer_host, reset
from tidegauge.impl.server.api_versions import unsupported_version
from tidegauge.impl.server.error_responses.table import error_response
from tidegauge.impl.server.transport.authorization import ANONYMOUS, AllowAll, Authorizer, Principal
from tidegauge.impl.server.transport.context import Handler, RequestContext
from tidegauge.impl.server.transport.idle_connections import IdleConnections
from tidegauge.impl.server.transport.refused import RefusedError
from tidegauge.impl.server.transport.sending import send_parts
from tidegauge.impl.wire.apis import PRODUCE_SERVED_FROM, ApiKey, VersionRange
from tidegauge.impl.wire.codecs import (
    MalformedMessageError,
    api_name,
    decode_canonical,
    encode_response,
    encode_response_parts,
    peek_request,
)
from tidegauge.impl.wire.fields import Part
from tidegauge.impl.wire.frames import ConnectionLostError, FrameMemory, FrameReader, FrameTooLargeError, Payload

if TYPE_CHECKING:
    from tidegauge.impl.server.transport.request_hook import RequestHook
    from tidegauge.impl.server.transport.security.sasl_gate import SaslGate

T = TypeVar("T")

READ_AHEAD = 256 << 10
"""Bytes that are read from a connection while its request waits."""


GONE: Final = "the peer went away while its request was waiting"
MOST_UNSENT = 256 << 10
"""Bytes of answers beyond which they are sent, though the next request is there already."""


@attrs.frozen
class Service:
    """What all connections of a server have in common."""

    handlers: Mapping[ApiKey, Handler]
    versions: Mapping[ApiKey, VersionRange]
    """What is advertised; a request for anything else ends its connection."""
    clock: Clock
    max_frame_bytes: int
    authorizer: Authorizer = attrs.field(factory=AllowAll)
    listener: str = "PLAINTEXT"
    """The listener by which the peers came."""
    gate: Callable[[], SaslGate] | None = None
    """Makes a connection's gate, which its peer passes by authenticating; None lets everybody in."""
    request_faults: RequestHook | None = None
    """Faults that are injected into requests; None where nobody can inject any."""
    on_failure: Callable[[RequestContext, Exception], None] | None = None
    """Told of handlers that failed in a way that nobody foresaw; without it their errors go through."""
    turns: trio.Semaphore | None = None
    """Requests that may be handled at once, `queued.max.requests`; those in the purgatory do not count."""
    idle: IdleConnections | None = None
    """Closes connections that are idle."""
    memory: FrameMemory = attrs.field(factory=FrameMemory)
    """What large requests are received into."""
    served: frozenset[tuple[int, int]] = attrs.field(init=False)
    """The APIs and versions that are answered: what is advertised, but for what Kafka advertises and refuses."""

    @served.default
    def _all_served(self) -> frozenset[tuple[int, int]]:
        return frozenset(
            (key, version)
            for key, versions in self.versions.items()
            for version in range(versions.lowest, versions.highest + 1)
            if key != ApiKey.PRODUCE or version >= PRODUCE_SERVED_FROM
        )


FORESEEN: Final = (
    AssertionError,
    ConnectionLostError,
    FrameTooLargeError,
    MalformedMessageError,
    OSError,
    RefusedError,
    trio.BrokenResourceError,
    trio.ClosedResourceError,
)
"""What ends a connection, and what must end a server: a broken promise of ours, a disk that fails."""


class Connection:
    """A peer's connection."""

    def __init__(self, stream: trio.abc.Stream, service: Service, principal: Principal = ANONYMOUS) -> None:
        self.principal = principal
        """Who the peer is; authentication changes it."""
        self.client_host = peer_host(stream)
        self.listener = service.listener
        self._stream = stream
        self._service = service
        self._gate = None if service.gate is None else service.gate()
        self._reader = FrameReader(
            stream, service.max_frame_bytes if self._gate is None else self._gate.max_frame_bytes, service.memory
        )
        self._answers: list[Part] = []
        self._unsent_bytes = 0
        self._has_turn = False
        self._was_seen = False
        """Whether the faults know this connection."""
        self._waits_for_peer = False
        self._progressed_at = trio.current_time()
        self._watchers: trio.Nursery
        self._watching: trio.Event | None = None
        """What the watcher sleeps on; None before there is one."""
        self._reading: trio.Event | None = None
        """Set when the read ends that the watcher has begun; None while it reads nothing."""
        self._waiting: trio.CancelScope | None = None
        """The wait that ends when the peer leaves."""
        self._peer_left = False
        self._muted_s = 0.0

    async def serve(self) -> str | None:
        """Serve until the peer closes (None), breaks the rules or is lost (the reason in words).

        The caller closes the stream; requests before the one that broke the rules have been answered.
        """
        async with trio.open_nursery() as nursery:
            self._watchers = nursery
            if self._service.idle is not None:
                self._service.idle.add(self)
            try:
                reason = await self._serve()
            finally:
                self._end_turn()
                if self._service.idle is not None:
                    self._service.idle.discard(self)
            nursery.cancel_scope.cancel()
        return reason

    async def _serve(self) -> str | None:
        try:
            try:
                while True:
                    if (frame := self._reader.buffered_frame()) is None and (frame := await self._next_frame()) is None:
                        return None
                    await self._service.clock.until_running()
                    if self._gate is None or not await self._taken_by_gate(self._gate, frame):
                        if not self._has_turn:
                            await self._take_turn()
                        await self._handle(frame)
                    del frame  # its memory is free for the next one
            except (RefusedError, MalformedMessageError, FrameTooLargeError) as error:
                if isinstance(error, RefusedError) and error.response:
                    self._answers.append(error.response)
                await self._send_answers()
                return str(error)
        except (ConnectionLostError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
            return str(error) or "the connection broke"

    # --- frames in and out -----------------------------------------------------------------------------------------

    async def _next_frame(self) -> Payload | None:
        """Wait for the next frame, of which not all has come; None when the peer has closed."""
        self._end_turn()
        await self._send_answers()
        self._waits_for_peer = True
        try:
            if self._reading is not None:
                await self._reading.wait()
            if not self._peer_left:
                return await self._reader.read_frame()
        finally:
            self._waits_for_peer = False
        if (frame := self._reader.buffered_frame()) is None and self._reader.buffered_bytes:
            raise ConnectionLostError(f"the connection ended after {self._reader.buffered_bytes} bytes of a frame")
        return frame

    async def _send_answers(self) -> None:
        if not self._answers:
            return
        answers, self._answers, self._unsent_bytes = self._answers, [], 0
        self._waits_for_peer = True
        self._progressed()
        try:
            await send_parts(self._stream, answers, self._progressed)
        except OSError as error:
            raise ConnectionLostError(f"an answer could not be sent: {error}") from error
        finally:
            self._waits_for_peer = False

    def _progressed(self) -> None:
        self._progressed_at = trio.current_time()

    @property
    def idle_since(self) -> float:
        """Since when nothing has come or gone, in trio's time; infinity while the peer is not to blame for that."""
        return max(self._progressed_at, self._reader.progressed_at) if self._waits_for_peer else math.inf

    async def abort(self) -> None:
        """Reset the connection: what is on its way is lost."""
        await abort(self._stream)

    def reset(self) -> None:
        """Reset the connection at once, as `abort`; its own task closes what is left of it."""
        reset(self._stream)

    # --- turns -----------------------------------------------------------------------------------------------------

    async def _take_turn(self) -> None:
        """Count among the requests that are handled; wait while they are too many."""
        turns = self._service.turns
        if turns is not None:
            try:
                turns.acquire_nowait()
            except trio.WouldBlock:
                await self._send_answers()
                await turns.acquire()
            self._has_turn = True

    def _end_turn(self) -> None:
        if self._has_turn:
            assert self._service.turns is not None, "who has a turn got it there"
            self._has_turn = False
            self._service.turns.release()

    async def _taken_by_gate(self, gate: SaslGate, frame: Payload) -> bool:
        """Whether a frame was one of those that authenticate the peer; they are answered here."""
        if (answer := await gate.take(frame)) is None:
            return False
        self._answers.append(answer)
        self.principal = gate.principal
        if gate.is_open:
            self._reader.limit = self._service.max_frame_bytes
        return True

    # --- requests --------------------------------------------------------------------------------------------------

    async def _handle(self, frame: Payload) -> None:
        """Carry a request out, and leave its answer with those that are sent when no more requests are there."""
        service = self._service
        api_key, version, correlation_id = peek_request(frame)
        if (api_key, version) not in service.served:
            self._answers.append(self._refused(api_key, version, correlation_id))
            return
        client_id, message = decode_canonical(frame, api_key, version)
        context = RequestContext(
            api_key, version, correlation_id, client_id, self, self.principal, self.client_host, service.authorizer
        )
        handler = service.handlers[api_key]  # type: ignore[index]
        try:
            if (faults := service.request_faults) is None or (self._was_seen and not faults.is_active):
                answer = await handler(message, context)
            else:
                self._was_seen = True
                answer = await faults.handle(handler, message, context)
        except FORESEEN:
            raise
        except Exception as error:
            answer = self._failed(message, context, error)
        if answer is not None:
            try:
                parts = encode_response_parts(answer, version, correlation_id)
            except Exception as error:
                raise self._unwritable(context, error) from error
            for part in parts:
                self._answers.append(part)
                self._unsent_bytes += len(part)
            if self._unsent_bytes > MOST_UNSENT:
                self._end_turn()  # others must not wait for a peer that reads slowly
                await self._send_answers()
        if self._muted_s:
            seconds, self._muted_s = self._muted_s, 0.0
            await self.while_connected(partial(trio.sleep, seconds))

    def _refused(self, api_key: int, version: int, correlation_id: int) -> bytes:
        """The answer to an ApiVersions request of an unknown version. Raises RefusedError for any other API."""
        if api_key == ApiKey.API_VERSIONS:
            return encode_response(unsupported_version(self._service.versions), correlation_id)
        if api_key == ApiKey.PRODUCE and version in range(PRODUCE_SERVED_FROM):
            raise RefusedError(f"PRODUCE version {version} was removed by Kafka 4: use {PRODUCE_SERVED_FROM} or later")
        raise RefusedError(f"{api_name(api_key)} version {version} is not served here")

    def _failed(self, message: Any, context: RequestContext, error: Exception) -> Any:
        """The answer to a request whose handler failed in a way that nobody foresaw: nothing else is harmed."""
        if self._service.on_failure is None:
            raise error
        self._service.on_failure(context, error)
        return error_response(message, ErrorCode.unknown_server_error)

    def _unwritable(self, context: RequestContext, error: Exception) -> Exception:
        """An answer that its version has no form for costs its connection, and nobody else's."""
        if self._service.on_failure is None:
            return error
        self._service.on_failure(context, error)
        return RefusedError(f"there is no form for the answer to {api_name(context.api_key)} {context.api_version}")

    def mute(self, seconds: float) -> None:
        """Look at no further request for so long, once the one at hand is answered (KIP-219)."""
        self._muted_s = seconds

    # --- waiting ---------------------------------------------------------------------------------------------------

    async def while_connected(self, wait: Callable[[], Awaitable[T]], *, watched: bool = True) -> T:
        """Wait for something on behalf of the peer. Raises ConnectionLostError when the peer is gone meanwhile.

        Unless `watched`, nobody looks whether it is: for waits that end soon, one way or the other.
        """
        self._end_turn()
        await self._send_answers()
        if not watched:
            return await wait()
        if self._peer_left:
            raise ConnectionLostError(GONE)
        with trio.CancelScope() as scope:
            self._waiting = scope
            try:
                self._watch()
                return await wait()
            finally:
                self._waiting = None
        raise ConnectionLostError(GONE)

    def _watch(self) -> None:
        """Have the watcher read ahead, unless it does."""
        if self._watching is None:
            self._watching = trio.Event()
            self._watchers.start_soon(self._read_ahead)
        else:
            self._watching.set()

    async def _read_ahead(self) -> None:
        """The watcher: reads while a request waits. A read that has begun goes on when the wait is over."""
        while True:
            if self._waiting is None or self._reader.buffered_bytes >= READ_AHEAD:
                self._watching = trio.Event()
                await self._watching.wait()
                continue
            reading = self._reading = trio.Event()
            try:
                self._peer_left = not await self._reader.read_ahead()
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                self._peer_left = True
            self._reading = None
            reading.set()
            if self._peer_left:
                if self._waiting is not None:
                    self._waiting.cancel()
                return
