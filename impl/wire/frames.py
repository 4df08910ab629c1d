"""Frames: a 4-byte big-endian length, then as many bytes; everything on a Kafka connection is one.

A reader keeps a small buffer, so that many small frames cost one read; a frame larger than the buffer is received into
memory of its own size and handed out without another copy. It accepts no length beyond its limit, so that what a peer
claims is never allocated before it is known to be allowed.
"""

from __future__ import annotations

import mmap
import struct

import trio

READ_SIZE = 64 << 10
UNTOUCHED_SIZE = 256 << 10
"""Frames above this many bytes get memory from the system that costs nothing until it is written to."""
LENGTH = struct.Struct(">i")

Payload = bytes | bytearray | memoryview


class FrameTooLargeError(Exception):
    """The peer announced a frame beyond the limit, or of negative length."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"a frame of {size} bytes: only 0 to {limit} are accepted (socket.request.max.bytes)")
        self.size = size
        self.limit = limit


class ConnectionLostError(Exception):
    """The connection ended in the middle of a frame, or before the answer."""


class FrameReader:
    """Reads frames from a stream, one at a time."""

    def __init__(self, stream: trio.abc.ReceiveStream, max_frame_bytes: int) -> None:
        self._stream = stream
        self.limit = max_frame_bytes
        """The largest frame that is accepted; it may be changed between frames."""
        self.progressed_at = trio.current_time()
        """When something was last received, in trio's time."""
        self._buffer: Payload = b""
        self._position = 0

    def buffered_frame(self) -> Payload | None:
        """The next frame if it has already been received as a whole. Raises FrameTooLargeError."""
        size = self._announced_size()
        if size is None or self._available - LENGTH.size < size:
            return None
        start = self._position + LENGTH.size
        self._position = start + size
        if start == LENGTH.size and self._position == len(self._buffer):
            frame, self._buffer, self._position = memoryview(self._buffer)[start:], b"", 0
            return frame
        return self._buffer[start : self._position]

    async def read_frame(self) -> Payload | None:
        """The next frame without its length; None when the peer closed between frames.

        Raises FrameTooLargeError, ConnectionLostError (closed inside a frame), and what the stream raises.
        """
        while (frame := self.buffered_frame()) is None:
            size = self._announced_size()
            if size is not None and size > READ_SIZE:
                return await self._read_large(size)
            if not await self.read_ahead():
                if self._available:
                    raise ConnectionLostError(f"the connection ended after {self._available} bytes of a frame")
                return None
        return frame

    async def read_ahead(self) -> bool:
        """Receive once more into the buffer; False at the end of the stream. Safe to cancel."""
        data = await self._stream.receive_some()
        self.progressed_at = trio.current_time()
        rest = self._buffer[self._position :] if self._available else b""
        self._buffer = bytes(rest) + data if rest else bytes(data)
        self._position = 0
        return bool(data)

    @property
    def buffered_bytes(self) -> int:
        """Received and not handed out yet."""
        return self._available

    @property
    def _available(self) -> int:
        return len(self._buffer) - self._position

    def _announced_size(self) -> int | None:
        if self._available < LENGTH.size:
            return None
        (size,) = LENGTH.unpack_from(self._buffer, self._position)
        if not 0 <= size <= self.limit:
            raise FrameTooLargeError(size, self.limit)
        return int(size)

    async def _read_large(self, size: int) -> Payload:
        received = self._buffer[self._position + LENGTH.size :]
        view = memoryview(bytearray(size) if size <= UNTOUCHED_SIZE else mmap.mmap(-1, size))
        view[: len(received)] = received
        filled = len(received)
        self._buffer, self._position = b"", 0
        while filled < size:
            count = await self._receive_into(view[filled:])
            if not count:
                raise ConnectionLostError(f"the connection ended after {filled} of the {size} bytes of a frame")
            filled += count
            self.progressed_at = trio.current_time()
        return view.toreadonly()

    async def _receive_into(self, view: memoryview) -> int:
        """Receive once into the view, without another copy where the stream can; the bytes received."""
        if isinstance(self._stream, trio.SocketStream):
            try:
                return await self._stream.socket.recv_into(view)
            except OSError as error:
                raise trio.BrokenResourceError(f"the connection broke: {error}") from error
        data = await self._stream.receive_some(min(len(view), 1 << 20))
        view[: len(data)] = data
        return len(data)
