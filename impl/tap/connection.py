"""A client's connection and the tap's own to the broker: a thread takes requests there, another one responses back.

Theory of operation
-------------------
Bytes go on as they come, and copies of them go to who reads them. Where one side takes nothing the thread waits in its
send, and then takes nothing from the other side either: that is all the back-pressure there is. A frame is held as a
whole only where an address in it has to be replaced before it goes on; the memory for that is bounded.

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
from typing import Final

import attrs

from tidegauge.impl.ports.log_lines import log_event
from tidegauge.impl.ports.network import Address
from tidegauge.impl.tap.acks import Acks, asks_for_none
from tidegauge.impl.tap.copies import READS, Copies, Passing
from tidegauge.impl.tap.frame_stream import LARGEST_REQUEST, READ_SIZE, FrameStream
from tidegauge.impl.tap.memory import SMALL, Memory
from tidegauge.impl.tap.replacing import Replacing, UnknownAddressError
from tidegauge.impl.tap.sasl import tokens_after
from tidegauge.impl.tap.ways import Way, way_of
from tidegauge.impl.wire.codecs import MalformedMessageError
from tidegauge.impl.wire.frames import LENGTH, ConnectionLostError, FrameTooLargeError

LOGGER: Final = logging.getLogger(__name__)

MOST_IN_FLIGHT: Final = 1000
"""Requests of a connection that wait for a response; the next one is taken when one of them has got it."""
TOKEN: Final = -1
"""In place of an API key: a frame of an authentication, which has no header (SaslHandshake 0)."""
_REQUEST_HEAD = struct.Struct(">hhi")
_CORRELATION_ID = struct.Struct(">i")


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
    copies: Copies
    replacing: Replacing
    memory: Memory
    now: Callable[[], int]
    next_number: Callable[[], int]
    """Numbers exchanges, over all connections."""
    _waiting: deque[Passing] = attrs.field(factory=deque)
    _room: threading.Condition = attrs.field(factory=threading.Condition)
    """For who waits until fewer requests are in flight."""
    _held: tuple[Passing, bytes] | None = None
    """A request that has been passed on and is copied with its response: only the thread of requests puts one here."""
    _copying: threading.Lock = attrs.field(factory=threading.Lock)
    """Taken by who takes that away, until it is copied."""
    _acks: Acks = attrs.field(factory=Acks)
    _tokens: float = 0
    """How many requests to come are tokens without a header."""
    _unread: set[tuple[int, int]] = attrs.field(factory=set)
    """APIs and versions of which it has told that nothing of them is recorded."""
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
            self.copies.ended(self.number)

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
        with self._room:
            self._room.notify()

    # --- requests --------------------------------------------------------------------------------------------------

    def _requests(self) -> None:
        stream = FrameStream(self.client, LARGEST_REQUEST)
        while not self._closed:
            frame = None if self._tokens > 0 else stream.whole_at_once(_REQUEST_HEAD.size)
            if frame is not None:
                self._whole_request(frame)
            elif (size := stream.next_size()) is None:
                return
            else:
                self._piecewise_request(stream, size)

    def _whole_request(self, frame: bytes) -> None:
        api_key, version, correlation_id = _REQUEST_HEAD.unpack_from(frame, LENGTH.size)
        way = way_of(api_key, version)
        one = Passing(self.next_number(), self.number, api_key, version, correlation_id, self.now())
        if way.is_read:
            self._read_request(one, way, frame)
            return
        self._enqueue(one)
        if way.begins_tokens:
            self._note_tokens(one, tokens_after(memoryview(frame)[LENGTH.size :], api_key, version))
        elif way.is_left_out:
            self._leave_out(one, "nothing of it is recorded")
        self.broker.sendall(frame)

    def _read_request(self, one: Passing, way: Way, frame: bytes) -> None:
        responds = not (way.has_acks and self._acks.are_none(frame, one.version))
        if responds:
            self._enqueue(one)
        if way.is_copied_before or self._held is not None:
            self._copy_held()
            self.copies.begin_request(one, len(frame), frame)
        else:
            self._held = one, frame
        self.broker.sendall(frame)
        if not responds:
            self.copies.sent(one, self.now())

    def _piecewise_request(self, stream: FrameStream, size: int) -> None:
        head = stream.peek(_REQUEST_HEAD.size)
        if self._tokens > 0 or len(head) < _REQUEST_HEAD.size:
            self._tokens -= 1
            self._enqueue(Passing(0, self.number, TOKEN, 0, 0, 0))
            self._pass(stream, self.broker)
            return
        api_key, version, correlation_id = _REQUEST_HEAD.unpack(head)
        way = way_of(api_key, version)
        one = Passing(self.next_number(), self.number, api_key, version, correlation_id, self.now())
        if way.is_read:
            self._read_piecewise(one, way, stream, size)
        elif way.begins_tokens and size <= SMALL:
            self._whole_request(stream.whole())
        else:
            self._enqueue(one)
            if way.begins_tokens:
                self._note_tokens(one, None)
            elif way.is_left_out:
                self._leave_out(one, "nothing of it is recorded")
            self._pass(stream, self.broker)

    def _read_piecewise(self, one: Passing, way: Way, stream: FrameStream, size: int) -> None:
        responds = not (way.has_acks and asks_for_none(stream.peek, one.version))
        if responds:
            self._enqueue(one)
        self._copy_held()
        pieces = stream.pieces()
        first = next(pieces)
        self.copies.begin_request(one, LENGTH.size + size, first)
        self.broker.sendall(first)
        for piece in pieces:
            self.copies.continue_request(one, piece)
            self.broker.sendall(piece)
        if not responds:
            self.copies.sent(one, self.now())

    def _note_tokens(self, one: Passing, tokens: int | None) -> None:
        """Note how many frames without headers follow a SaslHandshake 0; None: all that follow may be such."""
        if tokens is None:
            self._leave_out(one, "this mechanism has frames without headers: all that follows")
        self._tokens = float("inf") if tokens is None else tokens

    def _copy_held(self) -> None:
        """Copy the request that would be copied with its response, before another one is."""
        if self._held is not None:
            with self._copying:
                if self._held is not None:
                    one, frame = self._held
                    self._held = None
                    self.copies.begin_request(one, len(frame), frame)

    def _enqueue(self, one: Passing) -> None:
        waiting = self._waiting
        if len(waiting) >= MOST_IN_FLIGHT:
            with self._room:
                self._room.wait_for(lambda: self._closed or len(waiting) < MOST_IN_FLIGHT)
        waiting.append(one)

    def _leave_out(self, one: Passing, why: str) -> None:
        if (one.api_key, one.version) not in self._unread:
            self._unread.add((one.api_key, one.version))
            self.copies.left_out(one, why)

    # --- responses -------------------------------------------------------------------------------------------------

    def _responses(self) -> None:
        stream = FrameStream(self.broker)
        while True:
            frame = stream.whole_at_once(_CORRELATION_ID.size)
            if frame is not None:
                self._whole_response(frame)
            elif (size := stream.next_size()) is None:
                return
            else:
                self._piecewise_response(stream, size)

    def _whole_response(self, frame: bytes) -> None:
        at = self.now()
        one = self._asked(frame[LENGTH.size : LENGTH.size + _CORRELATION_ID.size])
        if one is None:
            self.client.sendall(frame)
            return
        way = way_of(one.api_key, one.version)
        if way.has_addresses and (changed := self._changed(one, frame)) is not None:
            frame = changed
        self.client.sendall(frame)
        if way.is_read:
            self._begin_response(one, at, len(frame), frame)

    def _piecewise_response(self, stream: FrameStream, size: int) -> None:
        head = stream.peek(_CORRELATION_ID.size)
        at = self.now()
        one = self._asked(head)
        way = None if one is None else way_of(one.api_key, one.version)
        if one is None or way is None or not (way.has_addresses or way.is_read):
            self._pass(stream, self.client)
        elif way.has_addresses:
            self._rewrite(one, stream, size, at)
        else:
            self._read_response(one, stream, size, at)

    def _asked(self, head: bytes) -> Passing | None:
        """The request of a response: the first that waits with its correlation id. Those before it get none."""
        waiting = self._waiting
        if waiting and waiting[0].api_key == TOKEN:
            return self._taken()
        if len(head) < _CORRELATION_ID.size:
            return None
        (correlation_id,) = _CORRELATION_ID.unpack(head)
        if waiting and waiting[0].correlation_id == correlation_id:
            return self._taken()
        if not any(one.correlation_id == correlation_id for one in tuple(waiting)):
            return None
        while (one := self._taken()).correlation_id != correlation_id:
            self._copy_held()
            self.copies.lost(one)
        return one

    def _taken(self) -> Passing:
        one = self._waiting.popleft()
        if len(self._waiting) == MOST_IN_FLIGHT - 1:
            with self._room:
                self._room.notify()
        return one

    def _read_response(self, one: Passing, stream: FrameStream, size: int, at: int) -> None:
        pieces = stream.pieces()
        first = next(pieces)
        self.client.sendall(first)
        self._begin_response(one, at, LENGTH.size + size, first)
        for piece in pieces:
            self.client.sendall(piece)
            self.copies.continue_response(one, piece)

    def _begin_response(self, one: Passing, at: int, size: int, piece: bytes) -> None:
        with self._copying:
            held = self._held
            if held is None or held[0] is not one:
                self.copies.begin_response(one, at, size, piece)
            else:
                self._held = None
                self.copies.begin_response_with(held[1], one, at, size, piece)

    def _rewrite(self, one: Passing, stream: FrameStream, size: int, at: int) -> None:
        """Pass a response on whose addresses are replaced."""
        if not self.memory.take(size):
            raise UnknownAddressError(f"no memory for a response of {size} bytes that may have addresses")
        try:
            frame = stream.whole()
            changed = self._changed(one, frame)
            self.client.sendall(frame if changed is None else changed)
        finally:
            self.memory.give_back(size)
        if one.api_key in READS:
            self._begin_response(one, at, len(frame), frame[:READ_SIZE])
            for begin in range(READ_SIZE, len(frame), READ_SIZE):
                self.copies.continue_response(one, frame[begin : begin + READ_SIZE])

    def _changed(self, one: Passing, frame: bytes) -> bytes | None:
        """The response with the tap's own addresses; None where there are none to replace, or it cannot be read."""
        try:
            return self.replacing.changed(frame, one.api_key, one.version)
        except MalformedMessageError as error:
            if one.api_key not in READS:  # who reads it finds that out
                self._leave_out(one, str(error))
            return None

    # --- both ------------------------------------------------------------------------------------------------------

    def _pass(self, stream: FrameStream, to: socket.socket) -> None:
        for piece in stream.pieces():
            to.sendall(piece)
