"""Reading ahead while a request waits, so that a peer that has left is noticed.

When the peer is gone its request is dropped, for nobody would get the response, and the connection with it: all tasks
that serve it are cancelled. A read cannot be taken back without risk. A read that has begun goes on when the wait is
over, and the next frame comes by it.
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
    """No request waits, or enough has been read."""
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
        """Set when the state changes next: by `_wake` out of ASLEEP, by the task out of READING."""
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
        """Wait until a read that has begun is over."""
        if self.state is READING:
            await self._changed.wait()

    def _wake(self, nursery: trio.Nursery) -> None:
        if self.state is ABSENT:
            self.state = ASLEEP
            nursery.start_soon(self._read_ahead)
        elif self.state is ASLEEP:
            self._changed.set()

    async def _read_ahead(self) -> None:
        while True:
            self._changed.clear()
            if self._waiting is None or self._reader.buffered_bytes >= READ_AHEAD:
                self.state = ASLEEP
                await self._changed.wait()
                continue
            self.state = READING
            try:
                has_more = await self._reader.read_ahead()
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                has_more = False
            self.state = ASLEEP if has_more else PEER_LEFT
            self._changed.set()
            if not has_more:
                if self._waiting is not None:
                    self._waiting.cancel_scope.cancel()
                return
