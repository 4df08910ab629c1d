"""Frames: a 4-byte big-endian length, then as many bytes; everything on a Kafka connection is one.

A reader keeps a small buffer, so that many small frames cost one read; a frame larger than the buffer is received into
memory of its own, also what is read ahead of it, and handed out without another copy. Over plain TCP its reader is not
woken for each piece of it, but when it is there, or as much of it as is received at once.

It accepts no length beyond its
limit, so that what a peer claims is never allocated before it is known to be allowed.

Fresh memory is dear: the system clears it page by page, which takes longer than receiving a frame does. So readers that
share a `FrameMemory` receive into the same few buffers again and again. A view of a frame keeps its buffer:
it is used again when the last view is gone, and not before. Frames for which no buffer is free get memory that costs
nothing until it is written to, so that peers which announce much and send little are cheap.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from typing import Final

import trio

from tidegauge.impl.ports.network import plain_socket, receive_at_once, waiting_bytes, wake_at

READ_SIZE = 64 << 10
UNTOUCHED_SIZE = 256 << 10
"""Frames above this many bytes get memory from the system that costs nothing until it is written to."""
KEPT_SIZE = 2 << 20
"""Bytes of a buffer that is used again: a Produce request as clients send it by default is half of that."""
KEPT_BUFFERS = 8
READS_AT_ONCE = 4
"""So often a reader may find that something has come before it lets other tasks have their turn."""
MOST_AT_ONCE = 512 << 10
"""Bytes of a large frame that a reader receives before it lets other tasks have their turn."""
MOST_IN_VAIN = 8
"""After so many reads in a row that found nothing a reader waits before it reads."""
TRIES_AGAIN = 16
"""One read in so many finds out whether that is still so."""
LENGTH = struct.Struct(">i")

Payload = bytes | bytearray | memoryview


class FrameTooLargeError(Exception):
    """The peer announced a frame beyond the limit, or of negative length."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"a frame of {size} bytes: only 0 to {limit} are accepted (socket.request.max.bytes)")
        self.size = size
        self.limit = limit


class OtherProtocolError(FrameTooLargeError):
    """What came in place of a frame's length is how another protocol begins."""

    def __init__(self, protocol: str, size: int, limit: int) -> None:
        super().__init__(size, limit)
        self.protocol = protocol

    def __str__(self) -> str:
        return f"the peer speaks {self.protocol}, not Kafka's protocol: {super().__str__()}"


OTHER_PROTOCOLS: Final[Mapping[str, tuple[bytes, ...]]] = {
    "TLS": (b"\x16\x03", b"\x15\x03"),
    "HTTP": (b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"CONN", b"TRAC", b"PATC", b"PRI ", b"HTTP"),
}
"""How their connections begin, and responses to who speaks something else: lengths of 330 MB and more."""


def too_large(size: int, limit: int) -> FrameTooLargeError:
    """The error for a length that is not accepted, which names the protocol that begins so."""
    begin = LENGTH.pack(size)
    for protocol, begins in OTHER_PROTOCOLS.items():
        if begin.startswith(begins):
            return OtherProtocolError(protocol, size, limit)
    return FrameTooLargeError(size, limit)


class ConnectionLostError(Exception):
    """The connection ended in the middle of a frame, or before the response."""


class FrameMemory:
    """Buffers for large frames, made when they are first needed and used again. For readers of one thread."""

    def __init__(self, buffers: int = KEPT_BUFFERS) -> None:
        self._most = buffers
        self._kept: list[bytearray] = []

    @cached_property
    def received(self) -> memoryview:
        """Where a read puts what it receives; nobody lets another task run between the two."""
        return memoryview(bytearray(READ_SIZE))

    def take(self, size: int) -> memoryview:
        """Memory for a frame; it is the frame's until nobody has a view of it."""
        if size <= KEPT_SIZE:
            for buffer in self._kept:
                if _is_free(buffer):
                    return memoryview(buffer)[:size]
            if len(self._kept) < self._most:
                self._kept.append(bytearray(KEPT_SIZE))
                return memoryview(self._kept[-1])[:size]
        return memoryview(bytearray(size) if size <= UNTOUCHED_SIZE else mmap.mmap(-1, size))


def _is_free(buffer: bytearray) -> bool:
    """Whether nobody has a view of a buffer: one that somebody has cannot change its size."""
    try:
        buffer.append(buffer.pop())
    except BufferError:
        return False
    return True


class FrameReader:
    """Reads frames from a stream, one at a time."""

    def __init__(
        self,
        stream: trio.abc.ReceiveStream,
        max_frame_bytes: int,
        memory: FrameMemory | None = None,
        pause: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint,
    ) -> None:
        """Without a `memory` that it shares with others each large frame has its own.

        `pause` is awaited between the parts of a large frame.
        """
        self.limit = max_frame_bytes
        """The largest frame that is accepted; it may be changed between frames."""
        self._time = trio.lowlevel.current_clock().current_time
        self.progressed_at = self._time()
        """When something was last received, in trio's time; `last_progress` knows of what the system has besides."""
        self._stream = stream
        self._socket = plain_socket(stream)
        self._memory = FrameMemory(0) if memory is None else memory
        self._pause = pause
        self._reads_at_once = 0
        self._in_vain = 0
        """Reads in a row that found nothing: a peer that waits for each response sends nothing before it has it."""
        self._wakes_at = 1
        """Bytes that must have come before a wait for the socket ends."""
        self._noticed = 0
        """Bytes that were seen to have come while the reader waits for more."""
        self._buffer: Payload = b""
        self._position = 0
        self._large: memoryview | None = None
        """The memory of a large frame that is not handed out yet; the buffer has what comes after it."""
        self._filled = 0
        """Bytes of it."""

    def buffered_frame(self) -> Payload | None:
        """The next frame if it has already been received as a whole. Raises FrameTooLargeError."""
        if (large := self._large) is not None:
            if self._filled < len(large):
                return None
            self._large = None
            return large.toreadonly()
        buffer, start = self._buffer, self._position + LENGTH.size
        if len(buffer) < start:
            return None
        (size,) = LENGTH.unpack_from(buffer, start - LENGTH.size)
        if not 0 <= size <= self.limit:
            raise too_large(size, self.limit)
        end = start + size
        if len(buffer) < end:
            return None
        if start == LENGTH.size and end == len(buffer):
            self._buffer, self._position = b"", 0
            return memoryview(buffer)[start:]
        self._position = end
        return buffer[start:end]

    @property
    def has_frame(self) -> bool:
        """Whether `buffered_frame` has a frame or an error."""
        if (large := self._large) is not None:
            return self._filled == len(large)
        start = self._position + LENGTH.size
        if len(self._buffer) < start:
            return False
        (size,) = LENGTH.unpack_from(self._buffer, self._position)
        return not 0 <= size <= self.limit or len(self._buffer) >= start + size

    async def read_frame(self) -> Payload | None:
        """The next frame without its length; None when the peer closed between frames.

        Raises FrameTooLargeError, ConnectionLostError (closed inside a frame), and what the stream raises.
        """
        frame = self.buffered_frame() if self._buffer else None
        while frame is None:
            if self._begin_large():
                await self._fill_large()
            elif not await self.read_ahead():
                if self.buffered_bytes:
                    raise self._lost()
                return None
            frame = self.buffered_frame()
        return frame

    async def read_ahead(self) -> bool:
        """Receive once more, `READ_SIZE` at most; False at the end of the stream. Safe to cancel."""
        if self._begin_large() and self._large is not None and self._filled < len(self._large):
            count = await self._receive_into(self._large[self._filled : self._filled + READ_SIZE])
            self._filled += count
            self.progressed_at = self._time()
            return bool(count)
        if self._socket is None:
            data = bytes(await self._stream.receive_some())
        else:
            received = self._memory.received
            data = bytes(received[: await self._receive_at_once(self._socket, received)])
        self.progressed_at = self._time()
        rest = self._buffer[self._position :]
        self._buffer = bytes(rest) + data if rest else data
        self._position = 0
        return bool(data)

    def last_progress(self) -> float:
        """When something last came, in trio's time, as was seen by now: a part of a large frame wakes nobody."""
        if self._wakes_at > 1 and self._socket is not None:
            noticed, self._noticed = self._noticed, waiting_bytes(self._socket)
            if self._noticed > noticed:
                self.progressed_at = self._time()
        return self.progressed_at

    @property
    def buffered_bytes(self) -> int:
        """Received and not handed out yet."""
        if self._large is not None:
            return LENGTH.size + self._filled + len(self._buffer)
        return len(self._buffer) - self._position

    def _lost(self) -> ConnectionLostError:
        if self._large is None:
            return ConnectionLostError(f"the connection ended after {self.buffered_bytes} bytes of a frame")
        return ConnectionLostError(
            f"the connection ended after {self._filled} of the {len(self._large)} bytes of a frame"
        )

    def _begin_large(self) -> bool:
        """Whether the next frame is a large one, that is allowed; from now on it has memory of its own."""
        if self._large is not None:
            return True
        received = len(self._buffer) - self._position - LENGTH.size
        if received < 0:
            return False
        (size,) = LENGTH.unpack_from(self._buffer, self._position)
        if not READ_SIZE < size <= self.limit or received >= size:
            return False
        view = self._memory.take(size)
        view[:received] = self._buffer[self._position + LENGTH.size :]
        self._large, self._filled = view, received
        self._buffer, self._position = b"", 0
        return True

    async def _fill_large(self) -> None:
        """Receive the rest of a large frame."""
        view = self._large
        assert view is not None, "somebody has looked"
        paused_at = self._filled
        while self._filled < len(view):
            if self._filled - paused_at >= MOST_AT_ONCE:
                paused_at = self._filled
                await self._pause()
            part = view[self._filled : paused_at + MOST_AT_ONCE]
            count = await self._receive_into(part, wakes_at=len(part))
            if not count:
                raise self._lost()
            self._filled += count
            self.progressed_at = self._time()

    async def _receive_into(self, view: memoryview, *, wakes_at: int = 1) -> int:
        """Receive once into the view, without another copy where the stream can; the bytes received."""
        if self._socket is not None:
            return await self._receive_at_once(self._socket, view, wakes_at)
        data = await self._stream.receive_some(min(len(view), 1 << 20))
        view[: len(data)] = data
        return len(data)

    async def _receive_at_once(self, socket: trio.socket.SocketType, into: memoryview, wakes_at: int = 1) -> int:
        """Receive once; a checkpoint where it has to wait, and now and then where it has not.

        A wait ends when `wakes_at` bytes have come, or when no more come.
        """
        if self._reads_at_once == READS_AT_ONCE:
            self._reads_at_once = 0
            await trio.lowlevel.checkpoint()
        count = None
        if self._in_vain < MOST_IN_VAIN or not self._in_vain % TRIES_AGAIN or socket.fileno() < 0:
            count = receive_at_once(socket, into)
        if count is not None:
            self._reads_at_once += 1
            self._in_vain = 0
            return count
        self._reads_at_once = 0
        self._in_vain += 1
        self._noticed = 0
        if wakes_at != self._wakes_at:
            self._wakes_at = wakes_at
            wake_at(socket, wakes_at)
        while count is None:
            await trio.lowlevel.wait_readable(socket)
            count = receive_at_once(socket, into)
        return count
