"""A client's connection and the tap's own to the broker: a thread takes requests there, another one responses back.

Theory of operation
-------------------
Bytes go on as they come, and each thread reads what passed after it has passed it on. Where one side takes nothing the
thread waits in its send, and then takes nothing from the other side either: that is all the back-pressure there is. A
frame is held as a whole only where it is read, and where an address in it has to be replaced before it goes on; the
memory for that is bounded, and a frame for which there is none passes unread.

Threads, and not tasks of an event loop: two hops cost 70 µs more than none, where those of a loop cost 200.
"""

from __future__ import annotations

import logging
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import attrs

from tidegauge.impl.ports.log_lines import log_event
from tidegauge.impl.ports.network import Address
from tidegauge.impl.tap.addresses import Addresses, NoPortError
from tidegauge.impl.tap.exchange import TOKEN, Exchange
from tidegauge.impl.tap.fetches import Sessions
from tidegauge.impl.tap.frame_stream import LARGEST_REQUEST, FrameStream
from tidegauge.impl.tap.loading import loaded
from tidegauge.impl.tap.memory import Memory
from tidegauge.impl.tap.observer import CHANGES, Observer
from tidegauge.impl.tap.rewriting import may_have_addresses, rewritten
from tidegauge.impl.tap.sasl import tokens_after
from tidegauge.impl.wire.apis import ApiKey
from tidegauge.impl.wire.codecs import MalformedMessageError, decode_response, encode_response
from tidegauge.impl.wire.frames import LENGTH, ConnectionLostError, FrameTooLargeError

LOGGER: Final = logging.getLogger(__name__)

MOST_IN_FLIGHT: Final = 1000
"""Requests of a connection that wait for a response; the next one is taken when one of them has got it."""
_REQUEST_HEAD = struct.Struct(">hhi")
_CORRELATION_ID = struct.Struct(">i")
_HANDSHAKE_WITHOUT_HEADERS: Final = 0


class UnknownAddressError(Exception):
    """A response has addresses that cannot be replaced: the client would go past the tap."""


def keep_alive(connection: socket.socket) -> None:
    """Send at once what is sent, and find out in the end that a peer is gone without a word."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, True)


@attrs.define(eq=False)
class Connection:
    """One client's connection. `run` returns when it is over."""

    number: int
    client: socket.socket
    broker: socket.socket
    upstream: Address
    observer: Observer
    addresses: Addresses
    memory: Memory
    now: Callable[[], int]
    next_number: Callable[[], int]
    """Numbers exchanges, over all connections."""
    _sessions: Sessions = attrs.field(factory=Sessions)
    _waiting: deque[Exchange] = attrs.field(factory=deque)
    _room: threading.Semaphore = attrs.field(factory=lambda: threading.Semaphore(MOST_IN_FLIGHT))
    _reading: threading.Condition = attrs.field(factory=threading.Condition)
    """Held while what has passed is read; a response is read after its request."""
    _tokens: float = 0
    """How many requests to come are tokens without a header."""
    _closed: bool = False

    def run(self) -> None:
        """Pass requests on in this thread, and responses back in another, until one side ends."""
        responses = threading.Thread(target=self._guarded, args=(self._responses,), name=f"tap-{self.number}-back")
        responses.daemon = True
        responses.start()
        try:
            self._guarded(self._requests)
        finally:
            responses.join()
            self._end()
            for one in self._waiting:
                self.observer.lost(one)
            self._waiting.clear()

    def stop(self) -> None:
        """End it, from another thread."""
        self._end()

    def _guarded(self, run: Callable[[], None]) -> None:
        why: object = None
        try:
            run()
        except OSError:
            pass  # a peer is gone
        except ConnectionLostError:
            pass
        except (FrameTooLargeError, UnknownAddressError) as error:
            why = error
        except Exception as error:  # what passes may be anything: it ends this connection, and no other
            why = f"{type(error).__name__}: {error}"
        if why is not None:
            log_event(LOGGER, logging.WARNING, "tapped connection ended", upstream=self.upstream, why=why)
        if run == self._requests and why is None and not self._closed:
            with suppress(OSError):
                self.broker.shutdown(socket.SHUT_WR)  # responses may be on their way
        else:
            self._end()

    def _end(self) -> None:
        self._closed = True
        for one in (self.client, self.broker):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self._room.release()

    # --- requests --------------------------------------------------------------------------------------------------

    def _requests(self) -> None:
        stream = FrameStream(self.client, LARGEST_REQUEST)
        while (size := stream.next_size()) is not None:
            head = stream.peek(_REQUEST_HEAD.size)
            if self._tokens > 0 or len(head) < _REQUEST_HEAD.size:
                self._tokens -= 1
                self._enqueue(Exchange(0, self.number, TOKEN, 0, 0, 0))
                self._pass(stream, self.broker)
                continue
            api_key, version, correlation_id = _REQUEST_HEAD.unpack(head)
            exchange = Exchange(self.next_number(), self.number, api_key, version, correlation_id, self.now())
            self._request(exchange, stream, size)
            if self._closed:
                return

    def _request(self, exchange: Exchange, stream: FrameStream, size: int) -> None:
        self.observer.beginning(exchange)
        self._enqueue(exchange)
        handshake = exchange.api_key == ApiKey.SASL_HANDSHAKE and exchange.version == _HANDSHAKE_WITHOUT_HEADERS
        is_read = handshake or self.observer.reads(exchange.api_key)
        if not is_read:
            exchange.is_read = True
            self._pass(stream, self.broker)
            return
        if not self.memory.take(size):
            exchange.is_read = True
            self.observer.left_out(exchange, "there is no memory for what large requests hold")
            self._pass(stream, self.broker)
            return
        try:
            frame = memoryview(self._collect(stream, self.broker, exchange))[LENGTH.size :]
            with self._reading:
                self._read(exchange, frame, handshake=handshake)
        finally:
            self.memory.give_back(size)
            with self._reading:
                exchange.is_read = True
                self._reading.notify_all()

    def _read(self, exchange: Exchange, frame: memoryview, *, handshake: bool) -> None:
        """Read a request that has been passed on."""
        if handshake:
            tokens = tokens_after(frame, exchange.api_key, exchange.version)
            if tokens is None:
                self.observer.left_out(exchange, "this mechanism has frames without headers: all that follows")
            self._tokens = float("inf") if tokens is None else tokens
        else:
            self.observer.requested(exchange, frame, self._sessions)
        if not exchange.responds:
            self._without_response(exchange)

    def _enqueue(self, exchange: Exchange) -> None:
        self._room.acquire()
        self._waiting.append(exchange)

    def _without_response(self, exchange: Exchange) -> None:
        """A request that gets none waits for none."""
        self.observer.is_sent(exchange, self.now())
        with suppress(ValueError):  # a later response was faster
            self._waiting.remove(exchange)
            self._room.release()

    # --- responses -------------------------------------------------------------------------------------------------

    def _responses(self) -> None:
        stream = FrameStream(self.broker)
        while (size := stream.next_size()) is not None:
            head = stream.peek(_CORRELATION_ID.size)
            at = self.now()
            exchange = self._exchange_of(head)
            if exchange is None or exchange.api_key == TOKEN:
                self._pass(stream, self.client)
            else:
                self._response(exchange, stream, size, at)

    def _exchange_of(self, head: bytes) -> Exchange | None:
        """The request of a response: the first that waits with its correlation id. Those before it get none."""
        waiting = self._waiting
        if waiting and waiting[0].api_key == TOKEN:
            return self._taken()
        if len(head) < _CORRELATION_ID.size:
            return None
        (correlation_id,) = _CORRELATION_ID.unpack(head)
        if not any(one.correlation_id == correlation_id for one in tuple(waiting)):
            return None
        while True:
            exchange = self._taken()
            if exchange.correlation_id == correlation_id:
                return exchange
            with self._reading:
                self._until_read(exchange)
                if exchange.responds:
                    self.observer.lost(exchange)

    def _taken(self) -> Exchange:
        exchange = self._waiting.popleft()
        self._room.release()
        return exchange

    def _response(self, exchange: Exchange, stream: FrameStream, size: int, at: int) -> None:
        reads = self.observer.reads(exchange.api_key)
        rewrites = may_have_addresses(exchange.api_key, exchange.version)
        if not reads and not rewrites:
            self._pass(stream, self.client)
            return
        if not self.memory.take(size):
            if rewrites:
                raise UnknownAddressError(f"no memory for a response of {size} bytes that may have addresses")
            self.observer.left_out(exchange, "there is no memory for what large responses hold")
            self._pass(stream, self.client)
            self.observer.lost(exchange)
            return
        try:
            message = self._rewrite(exchange, stream) if rewrites else self._passed(exchange, stream)
            with self._reading:
                self._until_read(exchange)
                if message is None:
                    self.observer.lost(exchange)
                elif reads:
                    self.observer.responded(exchange, message, at, self._sessions)
        finally:
            self.memory.give_back(size)

    def _until_read(self, exchange: Exchange) -> None:
        """Wait until a request is read. It has been passed on, for its response is here: that will not take long."""
        while not exchange.is_read:
            self._reading.wait()

    def _rewrite(self, exchange: Exchange, stream: FrameStream) -> Any | None:
        """Replace the addresses in a response and pass it on; the message, None where it cannot be read."""
        frame = stream.whole()
        message = self._decoded(exchange, frame)
        if message is not None:
            try:
                changed = rewritten(message, exchange.api_key, self.addresses.local)
            except (NoPortError, OSError) as error:
                raise UnknownAddressError(f"no port for a broker that a response names: {error}") from error
            if changed is not None:
                kind = exchange.api_key, exchange.version, "encoded"
                number, version = exchange.correlation_id, exchange.version
                frame = loaded(kind, lambda: encode_response(changed, number, version=version))
        self.client.sendall(frame)
        return message

    def _passed(self, exchange: Exchange, stream: FrameStream) -> Any | None:
        return self._decoded(exchange, self._collect(stream, self.client))

    def _decoded(self, exchange: Exchange, frame: bytes) -> Any | None:
        try:
            key, version, view = exchange.api_key, exchange.version, memoryview(frame)[LENGTH.size :]
            return loaded((key, version, "response"), lambda: decode_response(view, key, version)).message
        except MalformedMessageError as error:
            self.observer.left_out(exchange, str(error))
            return None

    # --- both ------------------------------------------------------------------------------------------------------

    def _pass(self, stream: FrameStream, to: socket.socket) -> None:
        for piece in stream.pieces():
            to.sendall(piece)

    def _collect(self, stream: FrameStream, to: socket.socket, request: Exchange | None = None) -> bytes:
        """Pass a frame on as it comes; returns it as a whole. `request` is told before its last piece is sent."""
        pieces = []
        for piece in stream.pieces():
            if request is not None and stream.is_taken:
                request.is_passed = True
            to.sendall(piece)
            pieces.append(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


__all__ = ["CHANGES", "Connection", "keep_alive"]
