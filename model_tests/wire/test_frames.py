"""Frames are read whole, however the bytes come, and nothing beyond the limit is believed."""

from __future__ import annotations

import sys
import tracemalloc
from itertools import cycle

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.impl.ports import network as ports
from tidegauge.impl.wire import frames
from tidegauge.impl.wire.frames import (
    KEPT_SIZE,
    LENGTH,
    MOST_AT_ONCE,
    MOST_IN_VAIN,
    READ_SIZE,
    READS_AT_ONCE,
    TRIES_AGAIN,
    ConnectionLostError,
    FrameMemory,
    FrameReader,
    FrameTooLargeError,
    OtherProtocolError,
)
from tidegauge.model_tests.simulated import simulated

LIMIT = 1 << 20


class Chunks(trio.abc.ReceiveStream):
    """A stream that brings these chunks, then ends."""

    def __init__(self, chunks: list[bytes]) -> None:
        self._chunks = [chunk for chunk in chunks if chunk]

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        if not self._chunks:
            return b""
        chunk = self._chunks.pop(0)
        if max_bytes is not None and len(chunk) > max_bytes:
            self._chunks.insert(0, chunk[max_bytes:])
            chunk = chunk[:max_bytes]
        return chunk

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


def framed(*payloads: bytes) -> bytes:
    return b"".join(LENGTH.pack(len(payload)) + payload for payload in payloads)


async def read_all(chunks: list[bytes]) -> list[bytes]:
    reader = FrameReader(Chunks(chunks), LIMIT)
    found = []
    while (frame := await reader.read_frame()) is not None:
        found.append(bytes(frame))
    return found


@given(st.lists(st.binary(max_size=40), max_size=8), st.lists(st.integers(1, 50), max_size=20))
def test_frames_are_the_same_however_the_bytes_are_cut(payloads: list[bytes], sizes: list[int]) -> None:
    data, chunks = framed(*payloads), []
    for size in sizes:
        chunks.append(data[:size])
        data = data[size:]
    assert trio.run(read_all, [*chunks, data]) == payloads


@pytest.mark.parametrize("size", [READ_SIZE - 4, READ_SIZE, READ_SIZE + 1, LIMIT])
def test_large_frames_are_read_between_small_ones(size: int) -> None:
    payloads = [b"before", bytes(range(256)) * (size // 256) + b"x" * (size % 256), b"after"]
    data = framed(*payloads)
    chunks = [data[start : start + 5000] for start in range(0, len(data), 5000)]
    assert trio.run(read_all, chunks) == payloads


@pytest.mark.parametrize("size", [10, READ_SIZE + 1])
def test_a_frame_can_be_decoded_in_place(size: int) -> None:
    """kio's readers take no writable buffer."""

    async def main() -> None:
        data = framed(bytes(size))
        frame = await FrameReader(Chunks([data[:7], data[7:]]), LIMIT).read_frame()
        assert frame is not None
        assert memoryview(frame).readonly

    trio.run(main)


@pytest.mark.parametrize("size", [-1, -(1 << 31), LIMIT + 1, (1 << 31) - 1])
def test_a_length_that_is_not_allowed_is_refused_before_anything_is_allocated(size: int) -> None:
    with pytest.raises(FrameTooLargeError, match=f"a frame of {size} bytes: only 0 to {LIMIT}"):
        trio.run(read_all, [LENGTH.pack(size)])


@pytest.mark.parametrize(
    ("begin", "protocol"),
    [
        (b"\x16\x03\x01\x02\x00\x01", "TLS"),
        (b"\x15\x03\x03\x00\x02\x02F", "TLS"),
        (b"GET / HTTP/1.1\r\n", "HTTP"),
        (b"PRI * HTTP/2.0\r\n", "HTTP"),
        (b"HTTP/1.1 400 Bad Request\r\n", "HTTP"),
    ],
)
def test_another_protocol_is_named(begin: bytes, protocol: str) -> None:
    with pytest.raises(
        OtherProtocolError, match=f"the peer speaks {protocol}, not Kafka's protocol: a frame of "
    ) as why:
        trio.run(read_all, [begin])
    assert why.value.protocol == protocol


@pytest.mark.parametrize("data", [b"\x00\x00", framed(b"whole") + b"\x00\x00\x00\x05torn", LENGTH.pack(LIMIT) + b"x"])
def test_an_end_inside_a_frame_is_a_lost_connection(data: bytes) -> None:
    with pytest.raises(ConnectionLostError, match="the connection ended after"):
        trio.run(read_all, [data])


def test_reading_ahead_keeps_what_was_read() -> None:
    async def main() -> None:
        reader = FrameReader(Chunks([framed(b"first")[:6], framed(b"first")[6:], framed(b"second")]), LIMIT)
        assert await reader.read_ahead()
        assert await reader.read_ahead()
        assert reader.buffered_bytes == 9
        assert bytes(await reader.read_frame() or b"") == b"first"
        assert reader.buffered_frame() is None
        assert bytes(await reader.read_frame() or b"") == b"second"
        assert not await reader.read_ahead()

    trio.run(main)


class CountedMemory(FrameMemory):
    """Memory that counts the frames that it was taken for."""

    taken = 0

    def take(self, size: int) -> memoryview:
        self.taken += 1
        return super().take(size)


@simulated
async def test_what_is_read_ahead_of_a_large_frame_is_received_where_the_frame_is_handed_out() -> None:
    """While a request waits, most of the next one comes: to join its pieces and to copy them cost more than they."""
    payload = bytes(range(256)) * 1_200
    data = framed(payload)
    pieces = [data[at : at + READ_SIZE] for at in range(0, len(data), READ_SIZE)]
    memory = CountedMemory()
    reader = FrameReader(Chunks([*pieces, framed(b"behind")]), LIMIT, memory)
    for number in range(1, len(pieces)):
        await trio.sleep(1)
        assert await reader.read_ahead()
        assert reader.progressed_at == trio.current_time()
        assert reader.buffered_bytes == number * READ_SIZE
        assert memory.taken == (number > 1)
        assert not reader.has_frame
        assert reader.buffered_frame() is None
    assert await reader.read_ahead()
    assert await reader.read_ahead(), "what is behind it comes too"
    assert reader.buffered_bytes == len(data) + len(framed(b"behind"))
    assert reader.has_frame
    frame = reader.buffered_frame()
    assert frame == payload
    assert isinstance(frame, memoryview)
    assert frame.readonly
    assert memory.taken == 1
    assert await reader.read_frame() == b"behind"
    assert reader.buffered_bytes == 0


def test_a_large_frame_that_came_as_a_whole_is_handed_out_as_it_lies() -> None:
    payload = bytes(range(256)) * 300

    async def main() -> None:
        data = framed(b"small", payload, b"last")
        reader = FrameReader(Chunks([data[:-3], data[-3:]]), LIMIT)
        assert await reader.read_ahead()
        assert await reader.read_frame() == b"small"
        assert await reader.read_ahead()
        assert await reader.read_frame() == payload
        assert await reader.read_frame() == b"last"

    trio.run(main)


@given(
    st.lists(st.binary(max_size=90), max_size=6),
    st.lists(st.integers(1, 60), max_size=20),
    st.lists(st.booleans(), min_size=1, max_size=20),
)
def test_large_frames_are_the_same_however_much_of_them_is_read_ahead(
    payloads: list[bytes], sizes: list[int], ahead: list[bool]
) -> None:
    data, chunks = framed(*payloads), []
    for size in sizes:
        chunks.append(data[:size])
        data = data[size:]

    async def main() -> None:
        reader, found, turns = FrameReader(Chunks([*chunks, data]), LIMIT), [], cycle(ahead)
        while True:
            if next(turns) and (await reader.read_ahead() or reader.buffered_bytes):
                is_there = reader.has_frame
                frame = reader.buffered_frame()
                assert is_there == (frame is not None)
                if frame is None:
                    continue
            elif (frame := await reader.read_frame()) is None:
                break
            found.append(bytes(frame))
        assert found == payloads

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frames, "READ_SIZE", 16)
        trio.run(main)


def test_a_length_that_is_not_allowed_is_refused_though_more_of_it_is_read_ahead() -> None:
    async def main() -> None:
        memory = CountedMemory()
        reader = FrameReader(Chunks([LENGTH.pack(LIMIT + 1) + bytes(9), bytes(99)]), LIMIT, memory)
        while await reader.read_ahead():
            pass
        assert reader.has_frame, "or an error, which somebody has to be told"
        with pytest.raises(FrameTooLargeError):
            await reader.read_frame()
        assert memory.taken == 0

    trio.run(main)


def test_an_end_inside_a_large_frame_that_was_read_ahead_is_a_lost_connection() -> None:
    async def main() -> None:
        reader = FrameReader(Chunks([LENGTH.pack(LIMIT) + bytes(9), bytes(99)]), LIMIT)
        while await reader.read_ahead():
            pass
        with pytest.raises(ConnectionLostError, match=f"the connection ended after 108 of the {LIMIT} bytes"):
            await reader.read_frame()

    trio.run(main)


@simulated
async def test_between_the_parts_of_a_large_frame_others_have_their_turn() -> None:
    pauses = 0

    async def pause() -> None:
        nonlocal pauses
        pauses += 1
        await trio.lowlevel.checkpoint()

    for parts in (1, 4):
        pauses, data = 0, bytes(parts * MOST_AT_ONCE)
        sent = framed(data)
        chunks = [sent[at : at + READ_SIZE] for at in range(0, len(sent), READ_SIZE)]
        reader = FrameReader(Chunks(chunks), 8 * MOST_AT_ONCE, pause=pause)
        assert await reader.read_frame() == data
        assert parts - 1 <= pauses <= parts


@simulated
async def test_a_frame_that_is_announced_takes_no_memory_until_it_comes() -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    announced = 64 << 20
    reader = FrameReader(theirs, announced)
    tracemalloc.start()
    try:
        await ours.send_all(LENGTH.pack(announced) + bytes(1_000))
        with trio.move_on_after(1) as waited:
            await reader.read_frame()
        assert waited.cancelled_caught
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_memory_is_used_again_when_nobody_has_a_view_of_the_frame() -> None:
    memory = FrameMemory(buffers=2)
    frame = memory.take(READ_SIZE)
    frame[:4] = b"mine"
    part = frame[:4].toreadonly()
    others = memory.take(KEPT_SIZE), memory.take(READ_SIZE)
    for other in others:
        other[:4] = b"that"
    assert bytes(part) == b"mine", "a part of a frame keeps its memory"
    first = frame.obj
    del frame, part
    assert memory.take(100).obj is first


@pytest.mark.parametrize(("buffers", "size"), [(0, READ_SIZE), (0, KEPT_SIZE), (2, KEPT_SIZE + 1)])
def test_what_is_not_kept_has_memory_of_its_own(buffers: int, size: int) -> None:
    memory = FrameMemory(buffers)
    frame = memory.take(size)
    first = frame.obj
    del frame
    assert memory.take(size).obj is not first


def test_frames_of_readers_that_share_memory_do_not_touch_each_other() -> None:
    async def main() -> None:
        memory = FrameMemory()
        payloads = [bytes([number]) * (READ_SIZE + 1 + number) for number in range(12)]
        readers = [FrameReader(Chunks([framed(payload)]), LIMIT, memory) for payload in payloads]
        assert [await reader.read_frame() for reader in readers] == payloads

    trio.run(main)


def test_a_stream_that_never_lets_its_reader_wait_lets_other_tasks_have_their_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def receive_at_once(_: object, into: memoryview) -> int:
        into[:8] = framed(b"more")
        return 8

    monkeypatch.setattr(frames, "plain_socket", lambda stream: stream)
    monkeypatch.setattr(frames, "receive_at_once", receive_at_once)
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    async def main() -> None:
        reader = FrameReader(Chunks([]), LIMIT)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(count_turns)
            for _ in range(10 * READS_AT_ONCE):
                assert await reader.read_frame() == b"more"
            nursery.cancel_scope.cancel()
        assert turns >= 8

    trio.run(main)


def test_frames_come_over_tcp_as_they_were_sent() -> None:
    payloads = [b"", b"small", bytes(range(256)) * 1024, b"x" * READ_SIZE, bytes(3 * KEPT_SIZE)]

    async def receive(stream: trio.SocketStream) -> None:
        reader = FrameReader(stream, 4 * KEPT_SIZE, FrameMemory())
        for payload in payloads * 3:
            assert await reader.read_frame() == payload
        assert await reader.read_frame() is None

    async def main() -> None:
        client, server = await tcp_pair()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(receive, server)
            await client.send_all(framed(*payloads * 3))
            await client.send_eof()
        for end in (client, server):
            await end.aclose()

    trio.run(main)


def test_a_reader_that_finds_nothing_again_and_again_waits_first_until_it_finds_something(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A peer that waits for each response; one that sends ahead; one whose connection is closed."""
    tries: list[int | None] = []

    def receive_at_once(socket: trio.socket.SocketType, into: memoryview) -> int | None:
        tries.append(ports.receive_at_once(socket, into))
        return tries[-1]

    monkeypatch.setattr(frames, "receive_at_once", receive_at_once)

    async def send_when_waited_for(stream: trio.SocketStream, count: int) -> None:
        for _ in range(count):
            await trio.testing.wait_all_tasks_blocked()
            await stream.send_all(framed(b"response"))

    async def main() -> None:
        client, server = await tcp_pair()
        reader = FrameReader(client, LIMIT)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send_when_waited_for, server, 60)
            for _ in range(60):
                assert await reader.read_frame() == b"response"
        most = MOST_IN_VAIN + 60 // TRIES_AGAIN
        assert MOST_IN_VAIN <= tries.count(None) <= 2 * most  # the system may wake who waits for nothing
        for _ in range(TRIES_AGAIN):  # among these is a try, which finds something
            await server.send_all(framed(b"ahead"))
            assert await reader.read_frame() == b"ahead"
        await server.send_all(framed(b"ahead"))
        tries.clear()
        assert await reader.read_frame() == b"ahead"
        assert len(tries) == 1
        for _ in range(TRIES_AGAIN + 1):
            with trio.move_on_after(0):
                await reader.read_frame()
        await client.aclose()
        with pytest.raises(trio.ClosedResourceError):
            await reader.read_frame()
        await server.aclose()

    trio.run(main)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not count what has come")
def test_a_reader_is_woken_when_all_of_a_large_frame_is_there_or_no_more_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[int | None] = []

    def receive_at_once(socket: trio.socket.SocketType, into: memoryview) -> int | None:
        found.append(ports.receive_at_once(socket, into))
        return found[-1]

    monkeypatch.setattr(frames, "receive_at_once", receive_at_once)
    payload, piece = bytes(range(256)) * 1_500, 20_000

    async def send_in_pieces(stream: trio.SocketStream, data: bytes) -> None:
        for at in range(0, len(data), piece):
            await trio.testing.wait_all_tasks_blocked()
            await stream.send_all(data[at : at + piece])

    async def main() -> None:
        client, server = await tcp_pair()
        reader = FrameReader(client, LIMIT)
        for _ in range(3):
            found.clear()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(send_in_pieces, server, framed(payload))
                assert await reader.read_frame() == payload
            assert len([count for count in found if count]) <= 4, "twenty pieces were sent"
            async with trio.open_nursery() as nursery:
                nursery.start_soon(send_in_pieces, server, framed(b"small"))
                assert await reader.read_frame() == b"small"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send_in_pieces, server, framed(payload)[: 5 * piece])
            with trio.move_on_after(0.05):
                await reader.read_frame()
            await server.aclose()
            with pytest.raises(ConnectionLostError, match=f"after {5 * piece - 4} of the {len(payload)} bytes"):
                await reader.read_frame()
        await client.aclose()

    trio.run(main)


async def tcp_pair() -> tuple[trio.SocketStream, trio.SocketStream]:
    """The two ends of a connection over TCP."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    client = await trio.open_tcp_stream("127.0.0.1", listener.socket.getsockname()[1])
    server = await listener.accept()
    await listener.aclose()
    return client, server
