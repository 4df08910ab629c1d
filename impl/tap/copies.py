"""Copies of what passes, for who reads it: messages on a stream socket.

All of a request that may change something is copied before its last byte is passed on, and a response after it was
passed on. So whatever a response in the copies shows was copied before it, and what has been read up to any point is a
state that was: nobody has to wait for anybody to see one. Any other request is only copied before its response, and
may be copied with it: so the broker has it earlier.
"""

from __future__ import annotations

import enum
import logging
import socket
import struct
import threading
from contextlib import suppress
from typing import Final

import attrs

from tidegauge.impl.ports.log_lines import log_event
from tidegauge.impl.wire.apis import ApiKey

LOGGER: Final = logging.getLogger(__name__)

HEAD: Final = struct.Struct("<BIQI")
"""Kind, connection, exchange and how many bytes follow."""
REQUEST_HEAD: Final = struct.Struct("<hhqI")
"""API key, version, call, and the bytes of the frame with its length; then the first of these."""
RESPONSE_HEAD: Final = struct.Struct("<qI")
"""Return, and the bytes of the frame with its length; then the first of these."""
UNREAD_HEAD: Final = struct.Struct("<hhq")
"""API key, version and call; then why, in UTF-8."""
AT: Final = struct.Struct("<q")

ROOM: Final = 4 << 20
"""Bytes that are written and not received, if the system allows as many: a writer waits where there is no room."""

CHANGES: Final = frozenset({ApiKey.PRODUCE, ApiKey.END_TXN, ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT})
"""What may have been done though no response comes."""
READS: Final = frozenset(
    {
        *CHANGES,
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.METADATA,
        ApiKey.OFFSET_FETCH,
        ApiKey.SYNC_GROUP,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.CREATE_TOPICS,
    }
)
"""APIs whose requests and responses are looked into."""
COPIED_BEFORE: Final = CHANGES | {ApiKey.CREATE_TOPICS}
"""What is copied before it is passed on: what it says matters though no response comes."""
NOT_RECORDED: Final = frozenset(
    {ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE, ApiKey.STREAMS_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_HEARTBEAT}
)
"""What clients do besides to records and groups, and no history has a row for."""


class Kind(enum.IntEnum):
    """What a message is."""

    REQUEST = 1
    """A request begins: `REQUEST_HEAD`."""
    REQUEST_REST = 2
    """More of it."""
    RESPONSE = 3
    """A response begins: `RESPONSE_HEAD`."""
    RESPONSE_REST = 4
    """More of it."""
    SENT = 5
    """A request that gets no response has been passed on: `AT`."""
    LOST = 6
    """A request gets no response any more."""
    UNREAD = 7
    """Something of a request is not recorded: `UNREAD_HEAD`."""
    ENDED = 8
    """A connection is over."""


_REQUEST: Final = int(Kind.REQUEST)
_RESPONSE: Final = int(Kind.RESPONSE)
_BEFORE_REQUEST: Final = struct.Struct(HEAD.format + REQUEST_HEAD.format.removeprefix("<"))
_BEFORE_RESPONSE: Final = struct.Struct(HEAD.format + RESPONSE_HEAD.format.removeprefix("<"))


@attrs.define(eq=False)
class Passing:
    """A request on its way, until its response has come. Times are steady nanoseconds."""

    number: int
    connection: int
    api_key: int
    version: int
    correlation_id: int
    call: int
    """Before the first byte of it is passed on."""


@attrs.define(eq=False)
class Copies:
    """For all threads. A write waits where the reader is too far behind; without a reader it does nothing."""

    _socket: socket.socket
    failed: bool = False
    """Whether nobody reads any more."""
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    def __attrs_post_init__(self) -> None:
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, ROOM)

    def begin_request(self, one: Passing, size: int, piece: bytes) -> None:
        """The first bytes of a request, of `size` bytes with its length."""
        follow = REQUEST_HEAD.size + len(piece)
        self._send([_request(one, size, follow), piece], HEAD.size + follow)

    def continue_request(self, one: Passing, piece: bytes) -> None:
        """More bytes of a request."""
        self._write(Kind.REQUEST_REST, one, piece)

    def begin_response(self, one: Passing, at: int, size: int, piece: bytes) -> None:
        """The first bytes of a response, of `size` bytes with its length. `at` is before any was passed on."""
        follow = RESPONSE_HEAD.size + len(piece)
        self._send([_response(one, at, size, follow), piece], HEAD.size + follow)

    def begin_response_with(self, request: bytes, one: Passing, at: int, size: int, piece: bytes) -> None:
        """The same, and before it the whole request with its length, of which nothing was copied yet."""
        before, follow = REQUEST_HEAD.size + len(request), RESPONSE_HEAD.size + len(piece)
        message = [_request(one, len(request), before), request, _response(one, at, size, follow), piece]
        self._send(message, 2 * HEAD.size + before + follow)

    def continue_response(self, one: Passing, piece: bytes) -> None:
        """More bytes of a response."""
        self._write(Kind.RESPONSE_REST, one, piece)

    def sent(self, one: Passing, at: int) -> None:
        """A request without a response has been passed on."""
        self._write(Kind.SENT, one, AT.pack(at))

    def lost(self, one: Passing) -> None:
        """No response will come: nobody knows what has become of the request."""
        self._write(Kind.LOST, one)

    def left_out(self, one: Passing, why: str) -> None:
        """Something of a request or its response is not recorded."""
        self._write(Kind.UNREAD, one, UNREAD_HEAD.pack(one.api_key, one.version, one.call), why.encode())

    def ended(self, connection: int) -> None:
        """A connection is over: none of its requests will get a response."""
        self._write(Kind.ENDED, Passing(0, connection, 0, 0, 0, 0))

    def finish(self) -> None:
        """Nothing follows."""
        with self._lock, suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Give the socket back, once nobody reads it."""
        with self._lock:
            self.failed = True
            self._socket.close()

    def _write(self, kind: Kind, one: Passing, *parts: bytes) -> None:
        follow = sum(map(len, parts))
        self._send([HEAD.pack(kind, one.connection, one.number, follow), *parts], HEAD.size + follow)

    def _send(self, message: list[bytes], size: int) -> None:
        """Write parts that have so many bytes together."""
        with self._lock:
            if self.failed:
                return
            try:
                count = self._socket.sendmsg(message)
                if count < size:
                    self._socket.sendall(memoryview(b"".join(message))[count:])
            except OSError as error:
                self.failed = True
                why = f"nobody reads what passes: {error.strerror or error}"
                next_step = "clients are served, and what they do is not recorded"
                log_event(LOGGER, logging.ERROR, "recording ended", why=why, next=next_step)


def _request(one: Passing, size: int, follow: int) -> bytes:
    """What stands before the first bytes of a request of `size` bytes."""
    return _BEFORE_REQUEST.pack(_REQUEST, one.connection, one.number, follow, one.api_key, one.version, one.call, size)


def _response(one: Passing, at: int, size: int, follow: int) -> bytes:
    """What stands before the first bytes of a response of `size` bytes."""
    return _BEFORE_RESPONSE.pack(_RESPONSE, one.connection, one.number, follow, at, size)
