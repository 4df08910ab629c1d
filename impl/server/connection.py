"""One connection at a server: requests in, answers out, in the order in which the requests came.

Theory of operation
-------------------
At most one request of a connection is being handled; the next one is looked at when the answer to this one is written.
So a client that sends faster than it is served fills its own connection and waits, and what a server holds for it is
bounded: the request at hand, and at most `READ_AHEAD` bytes behind it. There is no queue between connections and
handlers: a task that has read a request handles it at once, and no handler waits except in the purgatory.

Answers to requests that were received together are sent together. While a request waits in the purgatory the
connection is watched; when its peer is gone the request is dropped, for nobody would get the answer.

A frame that is too large, cannot be decoded, or asks for an API or version that is not served ends its connection and
nothing else. ApiVersions alone is answered in any version (KIP-511), so that a client can find out what is spoken here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import trio
from kio.schema.errors import ErrorCode

from impl.ports.clock import Clock
from impl.wire.apis import SPOKEN, ApiKey
from impl.wire.codecs import MalformedMessageError, api_name, decode_request, encode_response, peek_request
from impl.wire.frames import ConnectionLostError, FrameReader, FrameTooLargeError, Payload
from impl.wire.primitives import NO_WAIT, i16, i64

T = TypeVar("T")

READ_AHEAD = 256 << 10
"""Bytes that are read from a connection while its request waits."""


class RefusedError(Exception):
    """The peer's request cannot be served, and its connection is closed."""


class Connection:
    """A peer's connection, served by `handlers`."""

    def __init__(
        self, stream: trio.abc.Stream, handlers: Mapping[ApiKey, Handler], clock: Clock, max_frame_bytes: int
    ) -> None:
        self._stream = stream
        self._handlers = handlers
        self._clock = clock
        self._reader = FrameReader(stream, max_frame_bytes)
        self._answers: list[bytes] = []

    async def serve(self) -> str | None:
        """Serve until the peer closes (None), breaks the rules or is lost (the reason in words).

        The caller closes the stream; requests before the one that broke the rules have been answered.
        """
        try:
            try:
                while (frame := await self._next_frame()) is not None:
                    await self._clock.until_running()
                    await self._handle(frame)
            except (RefusedError, MalformedMessageError, FrameTooLargeError) as error:
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
            answers, self._answers = self._answers, []
            await self._stream.send_all(answers[0] if len(answers) == 1 else b"".join(answers))

    async def _handle(self, frame: Payload) -> None:
        api_key, version, correlation_id = peek_request(frame)
        if api_key == ApiKey.API_VERSIONS and version != SPOKEN[ApiKey.API_VERSIONS]:
            self._answers.append(encode_response(_unsupported_version(list(self._handlers)), correlation_id))
            return
        handler = self._handlers.get(api_key)  # type: ignore[call-overload]
        if handler is None or version != SPOKEN[ApiKey(api_key)]:
            raise RefusedError(f"{api_name(api_key)} version {version} is not served here")
        answer = await handler(decode_request(frame).message, self)
        if answer is not None:
            self._answers.append(encode_response(answer, correlation_id))

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


Handler: TypeAlias = Callable[[Any, Connection], Awaitable[Any]]
"""Answers a decoded request; None is no answer (Produce with acks=0)."""


def _unsupported_version(served: Sequence[ApiKey]) -> Any:
    """ApiVersions version 0, with what is spoken: what a client gets that asks in a version unknown here."""
    from kio.schema.api_versions.v0.response import ApiVersion, ApiVersionsResponse

    return ApiVersionsResponse(
        error_code=ErrorCode.unsupported_version,
        api_keys=tuple(
            ApiVersion(api_key=i16(key), min_version=i16(SPOKEN[key]), max_version=i16(SPOKEN[key])) for key in served
        ),
    )


def api_versions_response(served: Sequence[ApiKey], epoch: int) -> Any:
    """What is spoken here; `epoch` is that of the cluster's finalized features."""
    from kio.schema.api_versions.v4.response import ApiVersion, ApiVersionsResponse

    return ApiVersionsResponse(
        error_code=ErrorCode.none,
        api_keys=tuple(
            ApiVersion(api_key=i16(key), min_version=i16(SPOKEN[key]), max_version=i16(SPOKEN[key])) for key in served
        ),
        throttle_time=NO_WAIT,
        finalized_features_epoch=i64(epoch),
    )
