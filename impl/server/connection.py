"""One connection at a server: requests in, answers out, in the order in which the requests came.

Theory of operation
-------------------
At most one request of a connection is being handled; the next one is looked at when the answer to this one is written.
So a client that sends faster than it is served fills its own connection and waits, and what a server holds for it is
bounded: the request at hand, and at most `READ_AHEAD` bytes behind it. There is no queue between connections and
handlers: a task that has read a request handles it at once, and no handler waits except in the purgatory.

Answers to requests that were received together are sent together. While a request waits in the purgatory the
connection is watched; when its peer is gone the request is dropped, for nobody would get the answer.

On a listener with SASL a gate takes the frames of a peer that has not authenticated (`impl.server.security.sasl_gate`).

A frame that is too large, cannot be decoded, or asks for an API or version that is not served ends its connection and
nothing else. ApiVersions alone is answered in any version (KIP-511), so that a client can find out what is spoken here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

import attrs
import trio

from impl.ports.clock import Clock
from impl.ports.network import abort, peer_host
from impl.server.api_versions import unsupported_version
from impl.server.authorization import ANONYMOUS, AllowAll, Authorizer, Principal
from impl.server.context import Handler, RequestContext
from impl.wire.apis import PRODUCE_SERVED_FROM, ApiKey, VersionRange
from impl.wire.codecs import (
    MalformedMessageError,
    api_name,
    decode_canonical_request,
    encode_answer,
    encode_response,
    peek_request,
)
from impl.wire.fields import Buffer
from impl.wire.frames import ConnectionLostError, FrameReader, FrameTooLargeError, Payload

if TYPE_CHECKING:
    from impl.server.interference import ServerInterference
    from impl.server.security.sasl_gate import SaslGate

T = TypeVar("T")

READ_AHEAD = 256 << 10
"""Bytes that are read from a connection while its request waits."""


MOST_UNSENT = 256 << 10
"""Bytes of answers beyond which they are sent, though the next request is there already."""
SMALL_PART = 32 << 10
"""Bytes up to which copying a part of an answer is cheaper than sending it by itself."""


def joined(parts: Iterable[Buffer]) -> Iterator[Buffer]:
    """The parts of answers as they are sent: neighbours that are small as one, large ones as they are."""
    small: list[Buffer] = []
    for part in parts:
        if len(part) <= SMALL_PART:
            small.append(part)
            continue
        if small:
            yield b"".join(small)
            small = []
        yield part
    if small:
        yield small[0] if len(small) == 1 else b"".join(small)


class RefusedError(Exception):
    """The peer's request cannot be served, and its connection is closed, after a last answer if there is one."""

    def __init__(self, reason: str, answer: bytes = b"") -> None:
        super().__init__(reason)
        self.answer = answer


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
    interference: ServerInterference | None = None
    """What befalls requests by order of whoever embeds the cluster."""


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
            stream, service.max_frame_bytes if self._gate is None else self._gate.max_frame_bytes
        )
        self._answers: list[Buffer] = []
        self._unsent_bytes = 0

    async def serve(self) -> str | None:
        """Serve until the peer closes (None), breaks the rules or is lost (the reason in words).

        The caller closes the stream; requests before the one that broke the rules have been answered.
        """
        try:
            try:
                while (frame := await self._next_frame()) is not None:
                    await self._service.clock.until_running()
                    await self._handle(frame)
            except (RefusedError, MalformedMessageError, FrameTooLargeError) as error:
                if isinstance(error, RefusedError) and error.answer:
                    self._answers.append(error.answer)
                await self._send_answers()
                return str(error)
        except (ConnectionLostError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
            return str(error) or "the connection broke"
        return None

    async def _next_frame(self) -> Payload | None:
        frame = self._reader.buffered_frame()
        if frame is None:
            await self._send_answers()
            frame = await self._reader.read_frame()
        return frame

    async def _send_answers(self) -> None:
        if self._answers:
            answers, self._answers, self._unsent_bytes = self._answers, [], 0
            for data in joined(answers):
                await self._stream.send_all(data)

    async def _handle(self, frame: Payload) -> None:
        if self._gate is not None and (answer := await self._gate.take(frame)) is not None:
            self._answers.append(answer)
            self.principal = self._gate.principal
            if self._gate.is_open:
                self._reader.limit = self._service.max_frame_bytes
            return
        api_key, version, correlation_id = peek_request(frame)
        served = self._service.versions.get(api_key)  # type: ignore[call-overload]
        if served is None or version not in served:
            if api_key != ApiKey.API_VERSIONS:
                raise RefusedError(f"{api_name(api_key)} version {version} is not served here")
            self._answers.append(encode_response(unsupported_version(self._service.versions), correlation_id))
            return
        if api_key == ApiKey.PRODUCE and version < PRODUCE_SERVED_FROM:
            raise RefusedError(f"PRODUCE version {version} was removed by Kafka 4: use {PRODUCE_SERVED_FROM} or later")
        request = decode_canonical_request(frame)
        context = RequestContext(
            api_key,
            version,
            correlation_id,
            request.client_id,
            self,
            self.principal,
            self.client_host,
            self._service.authorizer,
        )
        handler = self._service.handlers[ApiKey(api_key)]
        if (interference := self._service.interference) is None:
            answer = await handler(request.message, context)
        else:
            answer = await interference.handle(handler, request.message, context)
        if answer is not None:
            await self._answer(encode_answer(answer, version, correlation_id))

    async def _answer(self, parts: list[Buffer]) -> None:
        """Send an answer with those that follow at once, unless too much would gather."""
        self._answers += parts
        self._unsent_bytes += sum(map(len, parts))
        if self._unsent_bytes > MOST_UNSENT:
            await self._send_answers()

    async def abort(self) -> None:
        """Reset the connection: what is on its way is lost."""
        await abort(self._stream)

    async def while_connected(self, wait: Callable[[], Awaitable[T]]) -> T:
        """Wait for something on behalf of the peer. Raises ConnectionLostError when the peer is gone meanwhile."""
        await self._send_answers()
        result: list[T] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch, nursery.cancel_scope)
            result.append(await wait())
            nursery.cancel_scope.cancel()
        if not result:
            raise ConnectionLostError("the peer went away while its request was waiting")
        return result[0]

    async def _watch(self, scope: trio.CancelScope) -> None:
        try:
            while self._reader.buffered_bytes < READ_AHEAD:
                if not await self._reader.read_ahead():
                    scope.cancel()
                    return
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            scope.cancel()
