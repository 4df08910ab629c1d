"""Reading ahead while a request waits, so that a peer that has left is noticed.

When the peer is gone its request is dropped, for nobody would get the response, and the connection with it: all tasks
that serve it are cancelled. A read cannot be taken back without risk. A read that has begun goes on when the wait is
over, and the next frame comes by it. When all of that frame is there the watch reads on at once: its request may wait
as well, as a follower's nearly always does. Of a frame that has come in part the connection receives the rest itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import Enum, auto
from typing import Final, TypeVar

import trio

from tidegauge.impl.ports.deadlines import Signal
from tidegauge.impl.wire.frames import ConnectionLostError, FrameReader

T = TypeVar("T")

READ_AHEAD: Final = 256 << 10
"""Bytes that are read from a connection while its request waits."""
GONE: Final = "the peer went away while its request was waiting"


class WatchState(Enum):
    """What the task that reads ahead does."""

    ABSENT = auto()
    """There is none yet."""
    ASLEEP = auto()
    """No request waits or is there to be handled, or enough has been read."""
    READING = auto()
    PEER_LEFT = auto()
    """It has ended: the peer sends nothing more."""


ABSENT, ASLEEP, READING, PEER_LEFT = WatchState


class PeerWatch:
    """The watch over one connection's peer."""

    def __init__(self, reader: FrameReader) -> None:
        self.state = ABSENT
        self._reader = reader
        self._changed = Signal()
        """Set when a sleep ends, by `_wake`, and when a read is over, by the task."""
        self._waiting: trio.Nursery | None = None
        """While a request waits, the nursery that is cancelled when the peer leaves."""

    async def while_connected(self, nursery: trio.Nursery, wait: Callable[[], Awaitable[T]]) -> T:
        """Wait for something on behalf of the peer, whose connection `nursery` serves: it ends when the peer leaves.

        Raises ConnectionLostError when the peer is gone already.
        """
        if self.state is PEER_LEFT:
            raise ConnectionLostError(GONE)
        self._waiting = nursery
        try:
            self._wake(nursery)
            return await wait()
        finally:
            self._waiting = None

    async def finish_read(self) -> None:
        """Wait until the watch does not read, or has read all of a frame."""
        while self.state is READING and not self._reader.has_frame:
            self._changed.clear()
            await self._changed.wait()

    def _wake(self, nursery: trio.Nursery) -> None:
        if self.state is ABSENT:
            self.state = ASLEEP
            nursery.start_soon(self._read_ahead)
        elif self.state is ASLEEP:
            self._changed.set()

    async def _read_ahead(self) -> None:
        reader = self._reader
        while True:
            if reader.buffered_bytes >= READ_AHEAD or (self._waiting is None and not reader.has_frame):
                self.state = ASLEEP
                self._changed.clear()
                await self._changed.wait()
                continue
            self.state = READING
            try:
                has_more = await reader.read_ahead()
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                has_more = False
            self.state = ASLEEP if has_more else PEER_LEFT
            self._changed.set()
            if not has_more:
                if self._waiting is not None:
                    self._waiting.cancel_scope.cancel()
                return
