"""Frames on their way through: whole or in pieces, however they come, and lengths that lie."""

from __future__ import annotations

import itertools
import socket
import struct
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.impl.tap.frame_stream import LARGEST_REQUEST, FrameStream
from tidegauge.impl.wire.frames import ConnectionLostError, FrameTooLargeError, OtherProtocolError


def framed(*bodies: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, FrameStream]]:
    near, far = socket.socketpair()
    with near, far:
        far.settimeout(10)
        yield near, FrameStream(far, LARGEST_REQUEST)


def test_frames_that_come_together_are_taken_one_by_one(pair: tuple[socket.socket, FrameStream]) -> None:
    near, stream = pair
    near.sendall(framed(b"first", b"", b"third"))
    near.close()
    frames = []
    while (size := stream.next_size()) is not None:
        assert stream.peek(3) == {5: b"fir", 0: b""}.get(size, b"thi") or size == 5
        frames.append(stream.whole())
    assert frames == [framed(b"first"), framed(b""), framed(b"third")]


def test_a_frame_that_comes_byte_by_byte_is_one_frame(pair: tuple[socket.socket, FrameStream]) -> None:
    near, stream = pair
    for byte in framed(b"slowly"):
        near.sendall(bytes((byte,)))
    assert stream.next_size() == 6
    assert stream.peek(100) == b"slowly"
    assert b"".join(stream.pieces()) == framed(b"slowly")


def test_pieces_of_a_large_frame_hold_no_more_than_a_read(pair: tuple[socket.socket, FrameStream]) -> None:
    near, stream = pair
    body = bytes(200_000)
    near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    near.sendall(framed(body, b"next"))
    assert stream.next_size() == len(body)
    pieces = list(stream.pieces())
    assert max(map(len, pieces)) <= 64 << 10
    assert b"".join(pieces) == framed(body)
    assert stream.next_size() == 4
    assert stream.whole() == framed(b"next")


@pytest.mark.parametrize("size", [-1, -(1 << 31), LARGEST_REQUEST + 1])
def test_a_length_that_cannot_be_is_refused(pair: tuple[socket.socket, FrameStream], size: int) -> None:
    near, stream = pair
    near.sendall(struct.pack(">i", size))
    with pytest.raises(FrameTooLargeError):
        stream.next_size()


def test_another_protocol_is_named(pair: tuple[socket.socket, FrameStream]) -> None:
    near, stream = pair
    near.sendall(b"\x16\x03\x01\x02\x00\x01")
    near.close()
    with pytest.raises(OtherProtocolError, match="TLS"):
        stream.next_size()


@pytest.mark.parametrize("cut", [2, 6])
def test_an_end_within_a_frame_is_no_end(pair: tuple[socket.socket, FrameStream], cut: int) -> None:
    near, stream = pair
    near.sendall(framed(b"whole")[:cut])
    near.close()
    with pytest.raises(ConnectionLostError):
        taken(stream)


def taken(stream: FrameStream) -> bytes:
    assert stream.next_size() is not None
    return stream.whole()


LEAST = 4


def test_frames_that_come_whole_are_taken_at_once(pair: tuple[socket.socket, FrameStream]) -> None:
    near, stream = pair
    near.sendall(framed(b"alone"))
    assert stream.whole_at_once(LEAST) == framed(b"alone")
    near.sendall(framed(b"first", b"second", b"third"))
    near.close()
    assert [stream.whole_at_once(LEAST) for _ in range(3)] == [framed(b"first"), framed(b"second"), framed(b"third")]
    assert stream.whole_at_once(LEAST) is None
    assert stream.next_size() is None


@pytest.mark.parametrize("body", [b"", b"few", bytes(100_000)], ids=["empty", "too few bytes", "long"])
def test_a_frame_that_is_not_taken_at_once_is_there_in_pieces(
    pair: tuple[socket.socket, FrameStream], body: bytes
) -> None:
    near, stream = pair
    near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    near.sendall(framed(body, b"next"))
    assert stream.whole_at_once(LEAST) is None
    assert stream.next_size() == len(body)
    assert b"".join(stream.pieces()) == framed(body)
    frame = stream.whole_at_once(LEAST)
    if frame is None:
        frame = taken(stream)
    assert frame == framed(b"next")


@pytest.mark.parametrize("body", [b"", b"few"])
def test_a_frame_with_too_few_bytes_is_not_taken_at_once_where_it_is_alone(
    pair: tuple[socket.socket, FrameStream], body: bytes
) -> None:
    near, stream = pair
    near.sendall(framed(body))
    assert stream.whole_at_once(LEAST) is None
    assert taken(stream) == framed(body)


@given(st.lists(st.binary(max_size=30), max_size=8), st.lists(st.integers(1, 40), min_size=1, max_size=20))
def test_however_frames_come_each_is_taken_once(bodies: list[bytes], cuts: list[int]) -> None:
    data, pieces = framed(*bodies), []
    for cut in itertools.cycle(cuts):
        if not data:
            break
        pieces.append(data[:cut])
        data = data[cut:]
    stream = FrameStream(Coming(pieces))  # type: ignore[arg-type]
    frames = []
    while True:
        frame = stream.whole_at_once(LEAST)
        if frame is None:
            if stream.next_size() is None:
                break
            frame = stream.whole()
        frames.append(frame)
    assert frames == [framed(body) for body in bodies]


@pytest.mark.parametrize("size", [-1, -5, -(1 << 31), LARGEST_REQUEST + 1])
def test_a_length_that_cannot_be_is_not_taken_at_once(pair: tuple[socket.socket, FrameStream], size: int) -> None:
    near, stream = pair
    near.sendall(struct.pack(">i", size) + b"whatever follows")
    assert stream.whole_at_once(LEAST) is None
    with pytest.raises(FrameTooLargeError):
        stream.next_size()


class Coming:
    """A socket from which these pieces come."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces

    def recv(self, _: int) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""
