"""The watch over a peer whose request waits: which reads are its own, and which the connection's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from tidegauge.impl.server.transport.peer_watch import READ_AHEAD, PeerWatch, WatchState
from tidegauge.impl.wire.frames import LENGTH, READ_SIZE, ConnectionLostError, FrameReader
from tidegauge.model_tests.simulated import simulated

SMALL = LENGTH.pack(4) + b"next"
LARGE = bytes(2 * READ_SIZE)


class Watched:
    """A connection's reader and watch, and its peer."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.peer, stream = trio.testing.memory_stream_pair()
        self.reader = FrameReader(stream, 1 << 20)
        self.watch = PeerWatch(self.reader)
        self._nursery = nursery

    async def wait(self, sent: bytes = b"") -> None:
        """A request waits; meanwhile the peer sends this."""

        async def until_sent() -> None:
            await trio.testing.wait_all_tasks_blocked()
            await self.peer.send_all(sent)
            await trio.testing.wait_all_tasks_blocked()

        await self.watch.while_connected(self._nursery, until_sent)

    async def next_frame(self) -> bytes | None:
        """As a connection gets it."""
        if self.watch.state is WatchState.READING:
            await self.watch.finish_read()
        frame = await self.reader.read_frame()
        return None if frame is None else bytes(frame)


@asynccontextmanager
async def watched() -> AsyncIterator[Watched]:
    async with trio.open_nursery() as nursery:
        yield Watched(nursery)
        nursery.cancel_scope.cancel()


@simulated
async def test_a_watch_that_has_read_the_next_request_reads_on() -> None:
    async with watched() as connection:
        await connection.wait()
        for _ in range(3):
            assert connection.watch.state is WatchState.READING
            async with trio.open_nursery() as nursery:
                nursery.start_soon(connection.peer.send_all, SMALL)
                assert await connection.next_frame() == b"next"
                assert connection.watch.state is WatchState.READING, "its next request is likely to wait as well"
            await connection.wait()
        await connection.wait(SMALL * 2)
        assert [await connection.next_frame() for _ in range(2)] == [b"next"] * 2
        assert connection.watch.state is WatchState.READING


@simulated
@pytest.mark.parametrize("frame", [b"next", LARGE])
async def test_the_rest_of_a_frame_is_the_connections_to_read(frame: bytes) -> None:
    data, found = LENGTH.pack(len(frame)) + frame, list[bytes | None]()
    half = len(data) // 2
    async with watched() as connection:

        async def find() -> None:
            found.append(await connection.next_frame())

        await connection.wait()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(find)
            await connection.peer.send_all(data[:half])
            await trio.testing.wait_all_tasks_blocked()
            assert connection.watch.state is WatchState.ASLEEP
            await connection.peer.send_all(data[half:])
        await connection.wait(data + data[:half])
        await find()
        await connection.wait(data[half:])
        await find()
    assert found == [frame] * 3


@simulated
async def test_what_is_read_ahead_is_bounded_though_whole_frames_are_there() -> None:
    async with watched() as connection:
        for _ in range(2 * READ_AHEAD // READ_SIZE):
            await connection.wait(SMALL * (READ_SIZE // len(SMALL)))
        assert connection.reader.buffered_bytes == READ_AHEAD
        assert connection.watch.state is WatchState.ASLEEP


@simulated
async def test_a_peer_that_leaves_while_its_request_is_handled_is_gone_when_that_waits() -> None:
    async with watched() as connection:
        await connection.wait(SMALL)
        await connection.peer.aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert connection.watch.state is WatchState.PEER_LEFT
        assert await connection.next_frame() == b"next"
        with pytest.raises(ConnectionLostError):
            await connection.wait()
