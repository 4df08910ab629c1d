"""Frames on their way through: each is taken whole, or piece by piece as it comes, so that a large one is never held.

A frame comes with the four bytes of its length, for it is passed on with them.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Final

from tidegauge.impl.wire.frames import LENGTH, ConnectionLostError, too_large

READ_SIZE: Final = 64 << 10
LARGEST_REQUEST: Final = 256 << 20
"""A length beyond this is no request's: brokers take 100 MiB by default, and other protocols begin so."""
LARGEST: Final = (1 << 31) - 1


class FrameStream:
    """The frames that come from a socket; for one thread."""

    def __init__(self, source: socket.socket, largest: int = LARGEST) -> None:
        self._source = source
        self._largest = largest
        self._held = b""
        self._left = 0
        """Bytes of the frame in hand that are not taken yet."""

    def whole_at_once(self, least: int) -> bytes | None:
        """The next frame with its length, where it comes whole in one receive and has `least` bytes besides.

        None where it does not, and at the end: `next_size` goes on from here. Most frames come so, in a third of the
        time. Raises OSError.
        """
        held = self._held or self._source.recv(READ_SIZE)
        if len(held) >= LENGTH.size + least:
            end = LENGTH.unpack_from(held)[0] + LENGTH.size
            if end == len(held):
                self._held = b""
                return held
            if LENGTH.size + least <= end < len(held):
                self._held = held[end:]
                return held[:end]
        self._held = held
        return None

    def next_size(self) -> int | None:
        """The size of the next frame without its length; None at the end. What is left of the last one is taken first.

        Raises OSError, FrameTooLargeError and ConnectionLostError.
        """
        assert not self._left, "the frame before is not taken"
        while len(self._held) < LENGTH.size:
            if not self._receive():
                if self._held:
                    raise ConnectionLostError("the connection ended within a frame's length")
                return None
        (size,) = LENGTH.unpack_from(self._held)
        if not 0 <= size <= self._largest:
            raise too_large(size, self._largest)
        self._left = LENGTH.size + int(size)
        return int(size)

    @property
    def is_taken(self) -> bool:
        """Whether all of the frame in hand has been taken."""
        return not self._left

    def peek(self, count: int) -> bytes:
        """The first bytes of the frame, its length not counted, as many as it has of these."""
        wanted = min(self._left, LENGTH.size + count)
        while len(self._held) < wanted:
            self._more()
        return self._held[LENGTH.size : wanted]

    def whole(self) -> bytes:
        """The frame with its length."""
        if len(self._held) == self._left:
            frame, self._held, self._left = self._held, b"", 0
            return frame
        return b"".join(self.pieces()) if len(self._held) < self._left else next(self.pieces())

    def pieces(self) -> Iterator[bytes]:
        """The frame with its length, as it comes."""
        while self._left:
            if not self._held:
                self._more()
            piece = self._held[: self._left]
            self._held = self._held[len(piece) :]
            self._left -= len(piece)
            yield piece

    def _more(self) -> None:
        if not self._receive():
            raise ConnectionLostError(f"the connection ended {self._left - len(self._held)} bytes before a frame did")

    def _receive(self) -> bool:
        data = self._source.recv(READ_SIZE)
        self._held = self._held + data if self._held else data
        return bool(data)
