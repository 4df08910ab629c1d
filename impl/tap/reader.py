"""Reads copies of what passes, and tells the observer of whole requests and responses.

It may be a thread of the tap's process, or a process of its own: then reading, which takes several times as long as
passing on, keeps no client waiting but where it is behind.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

import attrs

from tidegauge.impl.tap.copies import (
    AT,
    HEAD,
    READS,
    REQUEST_HEAD,
    RESPONSE_HEAD,
    UNREAD_HEAD,
    Copies,
    Kind,
)
from tidegauge.impl.tap.exchange import Exchange
from tidegauge.impl.tap.fetches import Sessions
from tidegauge.impl.tap.inbox import Inbox
from tidegauge.impl.tap.loading import load
from tidegauge.impl.tap.memory import Memory
from tidegauge.impl.tap.observer import Observer, Recording
from tidegauge.impl.wire.frames import LENGTH


@attrs.define(eq=False)
class _Frame:
    """A request or a response that is not whole yet."""

    exchange: Exchange
    size: int
    at: int
    is_held: bool
    """Whether there is memory for it."""
    filled: int = 0
    _whole: memoryview | None = None
    _collected: bytearray = attrs.field(factory=bytearray)

    def add(self, piece: memoryview) -> bool:
        """Whether it is whole with this piece."""
        self.filled += len(piece)
        if self.is_held and len(piece) == self.size:
            self._whole = piece
        elif self.is_held:
            self._collected += piece
        return self.filled >= self.size

    @property
    def body(self) -> memoryview:
        """All of it without its length."""
        whole = memoryview(self._collected).toreadonly() if self._whole is None else self._whole
        return whole[LENGTH.size :]


@attrs.define(eq=False)
class _Connection:
    """What has been read of a client's connection."""

    sessions: Sessions = attrs.field(factory=Sessions)
    open: dict[int, Exchange] = attrs.field(factory=dict)
    """Requests that wait for a response, by number."""
    request: _Frame | None = None
    response: _Frame | None = None


@attrs.define(eq=False)
class Reader:
    """For one thread."""

    source: socket.socket
    observer: Observer
    memory: Memory
    _connections: dict[int, _Connection] = attrs.field(factory=dict)

    def run(self) -> None:
        """Read to the end. What has no end then never gets one."""
        inbox = Inbox(self.source)
        threading.Thread(target=inbox.receive, name="tap-inbox", daemon=True).start()
        held = b""
        while data := inbox.take():
            held = held + data if held else data
            held = held[self._read(memoryview(held)) :]
        for number in tuple(self._connections):
            self._end(number)

    def _read(self, data: memoryview) -> int:
        """Read the whole messages; how many bytes they have."""
        position = 0
        while len(data) - position >= HEAD.size:
            kind, connection, number, size = HEAD.unpack_from(data, position)
            if len(data) - position - HEAD.size < size:
                break
            begin = position + HEAD.size
            position = begin + size
            self._message(kind, connection, number, data[begin:position])
        return position

    def _message(self, kind: int, number: int, exchange: int, payload: memoryview) -> None:
        if kind == Kind.ENDED:
            self._end(number)
            return
        connection = self._connections.get(number)
        if connection is None:
            connection = self._connections[number] = _Connection()
        match kind:
            case Kind.REQUEST:
                self._begin_request(connection, number, exchange, payload)
            case Kind.REQUEST_REST if connection.request is not None:
                self._continue_request(connection, connection.request, payload)
            case Kind.RESPONSE:
                self._begin_response(connection, exchange, payload)
            case Kind.RESPONSE_REST if connection.response is not None:
                self._continue_response(connection, connection.response, payload)
            case Kind.SENT:
                if (sent := connection.open.pop(exchange, None)) is not None:
                    self.observer.is_sent(sent, AT.unpack(payload)[0])
            case Kind.LOST:
                if (lost := connection.open.pop(exchange, None)) is not None:
                    self.observer.lost(lost)
            case Kind.UNREAD:
                api_key, version, call = UNREAD_HEAD.unpack_from(payload)
                unread = Exchange(exchange, number, api_key, version, call)
                self.observer.left_out(unread, bytes(payload[UNREAD_HEAD.size :]).decode())

    def _end(self, number: int) -> None:
        connection = self._connections.pop(number, None)
        if connection is None:
            return
        for frame in (connection.request, connection.response):
            if frame is not None:
                self._give_back(frame)
        if connection.response is not None:
            self.observer.lost(connection.response.exchange)
        for exchange in connection.open.values():
            self.observer.lost(exchange)

    # --- requests --------------------------------------------------------------------------------------------------

    def _begin_request(self, connection: _Connection, number: int, exchange: int, payload: memoryview) -> None:
        api_key, version, call, size = REQUEST_HEAD.unpack_from(payload)
        begun = Exchange(exchange, number, api_key, version, call)
        self.observer.beginning(begun)
        connection.open[exchange] = begun
        connection.request = self._frame(begun, size, 0, "requests")
        self._continue_request(connection, connection.request, payload[REQUEST_HEAD.size :])

    def _continue_request(self, connection: _Connection, frame: _Frame, piece: memoryview) -> None:
        if not frame.add(piece):
            return
        connection.request = None
        if frame.is_held:
            self._guarded(frame, lambda: self.observer.requested(frame.exchange, frame.body, connection.sessions))
        self._give_back(frame)

    # --- responses -------------------------------------------------------------------------------------------------

    def _begin_response(self, connection: _Connection, exchange: int, payload: memoryview) -> None:
        asked = connection.open.pop(exchange, None)
        if asked is None:
            connection.response = None
            return
        at, size = RESPONSE_HEAD.unpack_from(payload)
        connection.response = self._frame(asked, size, at, "responses")
        self._continue_response(connection, connection.response, payload[RESPONSE_HEAD.size :])

    def _continue_response(self, connection: _Connection, frame: _Frame, piece: memoryview) -> None:
        if not frame.add(piece):
            return
        connection.response = None
        if not frame.is_held:
            self.observer.lost(frame.exchange)
        else:
            self._guarded(
                frame, lambda: self.observer.responded(frame.exchange, frame.body, frame.at, connection.sessions)
            )
        self._give_back(frame)

    # --- both ------------------------------------------------------------------------------------------------------

    def _frame(self, exchange: Exchange, size: int, at: int, what: str) -> _Frame:
        if self.memory.take(size):
            return _Frame(exchange, size, at, is_held=True)
        self.observer.left_out(exchange, f"there is no memory for what large {what} hold")
        return _Frame(exchange, size, at, is_held=False)

    def _give_back(self, frame: _Frame) -> None:
        if frame.is_held:
            self.memory.give_back(frame.size)

    def _guarded(self, frame: _Frame, read: Callable[[], None]) -> None:
        """What passes may be anything: whatever it does to who reads it, the next frame is read."""
        try:
            read()
        except Exception as error:
            self.observer.left_out(frame.exchange, f"{type(error).__name__}: {error}")
            self.observer.lost(frame.exchange)


@attrs.define(eq=False)
class ReadingThread:
    """A reader in this process, and where to write what it reads."""

    copies: Copies
    reader: Reader
    _thread: threading.Thread

    @classmethod
    def start(cls, recording: Recording, memory: Memory) -> ReadingThread:
        """Read in a thread of its own until `close`; the recording stays open then."""
        load(READS)
        ours, theirs = socket.socketpair()
        reader = Reader(theirs, Observer(recording), memory)
        thread = threading.Thread(target=reader.run, name="tap-reader", daemon=True)
        thread.start()
        return cls(Copies(ours), reader, thread)

    def close(self) -> None:
        """Wait until all has been read."""
        self.copies.finish()
        self._thread.join()
        self.reader.source.close()
        self.copies.close()
