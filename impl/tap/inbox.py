"""What has come from a socket and is not read yet, so that a frame that takes long to read keeps no client waiting.

After it has received little it waits two milliseconds before it receives more, and then again while there is little:
a write that wakes nobody takes a third of the time, and what has come meanwhile is received and read at once. To look
how much there is takes much less than to receive and read it.
"""

from __future__ import annotations

import socket
import threading
from array import array
from collections import deque
from collections.abc import Callable
from fcntl import ioctl
from termios import FIONREAD
from typing import Final

import attrs

from tidegauge.impl.ports.clock import steady_ns

READ_SIZE: Final = 256 << 10
LITTLE: Final = 64 << 10
"""Bytes received at once, below which there is time to wait for more."""
GATHER_SECONDS: Final = 0.002
FEW: Final = 16 << 10
"""Bytes that have come meanwhile, below which it waits again: many small messages need more room than their bytes."""
MOST_WAITS: Final = 5
MOST_BEHIND_NS: Final = 500_000_000
"""What has come is read by then, or nothing more is taken: a crash of the reader loses no more than that."""
MOST_UNREAD: Final = 32 << 20
"""Bytes that have come and are not read."""


@attrs.define(eq=False)
class Inbox:
    """One thread receives, another one takes."""

    source: socket.socket
    pause: Callable[[float], object] = attrs.field(factory=lambda: threading.Event().wait)
    _came: deque[tuple[int, bytes]] = attrs.field(factory=deque)
    """When it came, and what; the first of these is being read."""
    _size: int = 0
    _is_reading: bool = False
    _ended: bool = False
    _changed: threading.Condition = attrs.field(factory=threading.Condition)

    def receive(self) -> None:
        """Receive until the socket ends; for a thread of its own."""
        while data := self._received():
            with self._changed:
                self._came.append((steady_ns(), data))
                self._size += len(data)
                self._changed.notify_all()
                self._changed.wait_for(lambda: not self._is_behind())
            if len(data) < LITTLE:
                self._gather()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _gather(self) -> None:
        for _ in range(MOST_WAITS):
            self.pause(GATHER_SECONDS)
            if not 0 < self._waiting() < FEW:
                return

    def _waiting(self) -> int:
        """How many bytes there are to receive; 0 where nobody can say."""
        size = array("i", [0])
        try:
            ioctl(self.source, FIONREAD, size)
        except (OSError, ValueError):  # it is closed
            return 0
        return size[0]

    def take(self) -> bytes:
        """The next bytes, once there are some; none at the end. What it gave before is read by now."""
        with self._changed:
            if self._is_reading:
                self._size -= len(self._came.popleft()[1])
                self._is_reading = False
                self._changed.notify_all()
            self._changed.wait_for(lambda: self._came or self._ended)
            if not self._came:
                return b""
            self._is_reading = True
            return self._came[0][1]

    def _is_behind(self) -> bool:
        return bool(self._came) and (self._size > MOST_UNREAD or steady_ns() - self._came[0][0] > MOST_BEHIND_NS)

    def _received(self) -> bytes:
        try:
            return self.source.recv(READ_SIZE)
        except OSError:
            return b""
