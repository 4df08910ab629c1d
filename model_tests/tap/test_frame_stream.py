"""Frames on their way through: whole or in pieces, however they come, and lengths that lie."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest

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
