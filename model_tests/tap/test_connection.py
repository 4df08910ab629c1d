"""One client, one tap, and a broker that a test plays: what passes, what is closed, and what is recorded of it."""

from __future__ import annotations

import logging
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import attrs
import pytest
from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v7.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kio.schema.list_offsets.v7.response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kio.schema.metadata.v12.request import MetadataRequest
from kio.schema.metadata.v12.response import MetadataResponse
from kio.schema.sasl_handshake.v0.request import SaslHandshakeRequest
from kio.schema.sasl_handshake.v0.response import SaslHandshakeResponse
from kio.schema.types import BrokerId, TopicName

from tidegauge.impl.ports.network import Address
from tidegauge.impl.records.payload import Record, build_batch
from tidegauge.impl.tap.exchange import Exchange, Line
from tidegauge.impl.tap.memory import Memory
from tidegauge.impl.tap.reader import ReadingThread
from tidegauge.impl.tap.tap import Tap
from tidegauge.impl.wire.codecs import encode_request, encode_response
from tidegauge.impl.wire.primitives import NO_WAIT, i8, i32, i64
from tidegauge.impl.wire.produce_messages import (
    PartitionProduced,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
    TopicProduced,
)

UNKNOWN_API = 999
Play = Callable[[socket.socket], None]


@attrs.define(eq=False)
class Lines:
    """A recording in memory."""

    lines: list[Line] = attrs.field(factory=list)
    open: dict[int, Exchange] = attrs.field(factory=dict)
    reading: ReadingThread = attrs.field(init=False)
    _changed: threading.Condition = attrs.field(factory=threading.Condition)

    def begin(self, exchange: Exchange) -> None:
        self.open[exchange.number] = exchange

    def finish(self, exchange: Exchange, lines: Iterable[Line]) -> None:
        self.open.pop(exchange.number, None)
        self.emit(lines)

    def emit(self, lines: Iterable[Line]) -> None:
        with self._changed:
            self.lines += lines
            self._changed.notify_all()

    def of(self, kind: str, count: int = 1) -> list[Line]:
        """The lines of a kind, once there are so many."""

        def found() -> list[Line]:
            return [line for line in self.lines if line["kind"] == kind]

        with self._changed:
            assert self._changed.wait_for(lambda: len(found()) >= count, 20), self.lines
        return found()


@contextmanager
def playing(play: Play) -> Iterator[Address]:
    """A broker that does what `play` does with each connection."""

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=guarded, args=(connection,), daemon=True).start()

    def guarded(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            play(connection)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        try:
            yield Address("127.0.0.1", listener.getsockname()[1])
        finally:
            listener.shutdown(socket.SHUT_RDWR)


@contextmanager
def tapped(play: Play, memory: int = 1 << 20) -> Iterator[tuple[Tap, Lines, socket.socket]]:
    """A client's connection, by way of a tap, to such a broker."""
    lines = Lines()
    with playing(play) as upstream:
        lines.reading = ReadingThread.start(lines, Memory(memory))
        tap = Tap((upstream,), lines.reading.copies, iter(range(1_000_000)).__next__, memory=Memory(memory))
        address = tap.start()
        try:
            with socket.create_connection(address, 20) as client:
                yield tap, lines, client
        finally:
            tap.stop()
            lines.reading.close()


def received(connection: socket.socket) -> bytes:
    """The next frame with its length."""
    head = exactly(connection, 4)
    return head + exactly(connection, struct.unpack(">i", head)[0])


def exactly(connection: socket.socket, size: int) -> bytes:
    data = bytearray(size)
    filled = 0
    while filled < size:
        count = connection.recv_into(memoryview(data)[filled:])
        if not count:
            raise ConnectionResetError
        filled += count
    return bytes(data)


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def request(api_key: int, version: int, correlation_id: int, body: bytes = b"body") -> bytes:
    return frame(struct.pack(">hhih", api_key, version, correlation_id, -1) + body)


def produce(correlation_id: int, acks: int = -1, value: bytes = b"value", version: int = 9) -> bytes:
    batch = build_batch([Record(0, 1, None, value)])
    topics = [ProduceTopic("orders", "", [ProducePartition(0, batch)])]
    return encode_request(ProduceRequest(acks, 1000, topics), correlation_id, "me", version=version)


def produced(correlation_id: int, offset: int, error: ErrorCode = ErrorCode.none) -> bytes:
    topics = [TopicProduced("orders", "", [PartitionProduced(0, error, offset)])]
    return encode_response(ProduceResponse(topics), correlation_id, version=9)


def metadata(correlation_id: int) -> bytes:
    asked = MetadataRequest(topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=False)
    return encode_request(asked, correlation_id, "me")


def no_brokers(correlation_id: int) -> bytes:
    return encode_response(MetadataResponse(throttle_time=NO_WAIT, brokers=(), topics=()), correlation_id)


def in_turn(*responses: bytes | None) -> Play:
    """Respond so to one request after the other; with nothing where it is None."""

    def play(connection: socket.socket) -> None:
        for response in responses:
            received(connection)
            if response is not None:
                connection.sendall(response)
        connection.recv(1)

    return play


def test_what_nobody_knows_passes_unchanged_and_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    seen: list[bytes] = []

    def echo(connection: socket.socket) -> None:
        while True:
            seen.append(received(connection))
            connection.sendall(frame(seen[-1][8:12] + b"whatever"))

    with tapped(echo) as (_, lines, client):
        sent = [request(UNKNOWN_API, 0, 1), request(UNKNOWN_API, 0, 2, bytes(100_000)), request(3, 77, 3)]
        for number, each in enumerate(sent, 1):
            client.sendall(each)
            assert received(client) == frame(struct.pack(">i", number) + b"whatever")
        assert seen == sent
        told = lines.of("unread", 2)
    assert [(line["api"], line["version"]) for line in told[:2]] == [("API 999", 0), ("METADATA", 77)]
    assert sum("passed unread" in text and "999" in text for text in caplog.messages) == 1


def test_pipelined_requests_get_their_responses_and_those_without_one_do_not_wait() -> None:
    with tapped(in_turn(None, produced(2, 7), None, no_brokers(4))) as (_, lines, client):
        client.sendall(produce(1, acks=0, value=b"a") + produce(2, value=b"b"))
        assert received(client) == produced(2, 7)
        client.sendall(produce(3, acks=0, value=b"c") + metadata(4))
        assert received(client) == no_brokers(4)
        found = {line["values"][0]: line for line in lines.of("produce", 3)}
        assert len(found) == 3
        assert sorted((line["acks"], line.get("offset"), "return" in line) for line in found.values()) == [
            (-1, 7, True),
            (0, None, True),
            (0, None, True),
        ]
        assert not lines.open


def test_what_a_connection_leaves_open_has_no_end() -> None:
    with tapped(in_turn(None)) as (_, lines, client):
        client.sendall(produce(1))
        deadline = threading.Event()
        while not lines.open:
            deadline.wait(0.01)
        client.close()
        (line,) = lines.of("produce")
    assert "return" not in line
    assert "error" not in line
    assert line["values"]


def test_a_request_and_a_response_that_come_byte_by_byte_are_read() -> None:
    def play(connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
        for response in (produced(1, 7), no_brokers(2), listed(3)):
            received(connection)
            slowly(connection, response)
        connection.recv(1)

    with tapped(play) as (_, lines, client):
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
        for sent, response in ((produce(1), produced(1, 7)), (metadata(2), no_brokers(2)), (list_end(3), listed(3))):
            slowly(client, sent)
            assert received(client) == response
        (line,) = lines.of("produce")
        (end,) = lines.of("list_offsets")
    assert (line["offset"], end["offset"]) == (7, 9)
    assert not [line for line in lines.lines if line["kind"] == "unread"]


def list_end(correlation_id: int) -> bytes:
    partition = ListOffsetsPartition(partition_index=i32(0), timestamp=i64(-1))
    topics = (ListOffsetsTopic(name=TopicName("orders"), partitions=(partition,)),)
    asked = ListOffsetsRequest(replica_id=BrokerId(-1), isolation_level=i8(0), topics=topics)
    return encode_request(asked, correlation_id, "me")


def listed(correlation_id: int) -> bytes:
    partition = ListOffsetsPartitionResponse(
        partition_index=i32(0), error_code=ErrorCode.none, timestamp=i64(-1), offset=i64(9), leader_epoch=i32(0)
    )
    topics = (ListOffsetsTopicResponse(name=TopicName("orders"), partitions=(partition,)),)
    return encode_response(ListOffsetsResponse(throttle_time=NO_WAIT, topics=topics), correlation_id)


def slowly(connection: socket.socket, data: bytes) -> None:
    for byte in data:
        connection.sendall(bytes((byte,)))
        threading.Event().wait(0.0005)


def test_a_refused_batch_has_the_error_and_no_offset() -> None:
    with tapped(in_turn(produced(1, -1, ErrorCode.not_enough_replicas))) as (_, lines, client):
        client.sendall(produce(1))
        received(client)
        (line,) = lines.of("produce")
    assert line["error"] == ErrorCode.not_enough_replicas
    assert "offset" not in line


@pytest.mark.parametrize(
    "garbage",
    [b"\x16\x03\x01\x02\x00\x01\x00\x01", b"GET / HTTP/1.1\r\n\r\n", struct.pack(">i", -5) + b"lies"],
    ids=["TLS", "HTTP", "negative length"],
)
def test_what_is_no_frame_ends_its_connection_and_no_other(garbage: bytes, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    with tapped(in_turn(no_brokers(1), no_brokers(2))) as (_, _, client):
        client.sendall(metadata(1))
        received(client)
        here = client.getpeername()
        with socket.create_connection(here, 20) as other:
            other.sendall(garbage)
            with suppress(ConnectionResetError):
                assert other.recv(1) == b""
        client.sendall(metadata(2))
        assert received(client) == no_brokers(2)
    assert any("tapped connection ended" in text for text in caplog.messages)


@pytest.mark.parametrize("body", [b"", b"\xff", b"\x00" * 3, b"\xff" * 400, bytes(range(256))])
@pytest.mark.parametrize(
    ("key", "version"), [(0, 9), (1, 12), (2, 7), (3, 12), (8, 8), (9, 8), (14, 5), (26, 3), (68, 1)]
)
def test_requests_and_responses_that_are_damaged_pass_unchanged(key: int, version: int, body: bytes) -> None:
    response = frame(struct.pack(">i", 5) + body)
    with tapped(in_turn(response, no_brokers(6))) as (_, lines, client):
        client.sendall(request(key, version, 5, body))
        assert received(client) == response
        client.sendall(metadata(6))
        assert received(client) == no_brokers(6), "the connection goes on"
    assert not lines.open


def test_a_response_to_nothing_passes_unread() -> None:
    with tapped(in_turn(no_brokers(99), no_brokers(2))) as (_, lines, client):
        client.sendall(metadata(1))
        assert received(client) == no_brokers(99)
        client.sendall(metadata(2))
        assert received(client) == no_brokers(2)
    assert not lines.lines


def test_frames_without_headers_pass_between_a_handshake_and_the_first_request() -> None:
    handshake = encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, "me")
    accepted = encode_response(SaslHandshakeResponse(error_code=ErrorCode.none, mechanisms=("PLAIN",)), 1)
    token, empty = frame(b"\x00\x00\x00\x09 secret"), frame(b"")  # as a Produce request begins
    with tapped(in_turn(accepted, empty, produced(2, 3))) as (_, lines, client):
        client.sendall(handshake)
        assert received(client) == accepted
        client.sendall(token)
        assert received(client) == empty
        client.sendall(produce(2))
        assert received(client) == produced(2, 3)
        (line,) = lines.of("produce")
    assert line["offset"] == 3
    assert [one["kind"] for one in lines.lines] == ["produce"], "a token is no request"
    assert "secret" not in repr(lines.lines)


def test_a_handshake_that_comes_in_pieces_is_one() -> None:
    handshake = encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, "me")
    accepted = encode_response(SaslHandshakeResponse(error_code=ErrorCode.none, mechanisms=("PLAIN",)), 1)
    token, empty = frame(b"\x00\x00\x00\x09 secret"), frame(b"")
    with tapped(in_turn(accepted, empty, produced(2, 3))) as (_, lines, client):
        slowly(client, handshake)
        assert received(client) == accepted
        slowly(client, token)
        assert received(client) == empty
        client.sendall(produce(2))
        assert received(client) == produced(2, 3)
        (line,) = lines.of("produce")
    assert line["offset"] == 3
    assert [one["kind"] for one in lines.lines] == ["produce"]


@pytest.mark.parametrize(
    "handshake",
    [
        encode_request(SaslHandshakeRequest(mechanism="GSSAPI"), 1, "me"),
        frame(encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, "me")[4:] + bytes(70_000)),
    ],
    ids=["another mechanism", "too long to be read"],
)
def test_behind_a_handshake_of_which_nobody_can_say_more_all_passes_unread(handshake: bytes) -> None:
    with tapped(in_turn(frame(b"\0\0\0\1\0\0"), produced(2, 3))) as (_, lines, client):
        client.sendall(handshake)
        assert received(client) == frame(b"\0\0\0\1\0\0")
        client.sendall(produce(2))
        assert received(client) == produced(2, 3)
        (line,) = lines.of("unread")
    assert line["api"] == "SASL_HANDSHAKE"
    assert len(lines.lines) == 1


def test_a_client_that_does_not_read_is_waited_for_and_nothing_piles_up() -> None:
    size = 48 << 20
    sent = [0]
    stuck = threading.Event()

    def pour(connection: socket.socket) -> None:
        received(connection)
        connection.sendall(struct.pack(">ii", size, 1))
        connection.settimeout(0.3)
        left = size - 4
        while left:
            try:
                count = connection.send(bytes(min(left, 1 << 20)))
            except TimeoutError:
                stuck.set()
                connection.settimeout(20)
                continue
            left -= count
            sent[0] += count

    with tapped(pour) as (tap, _, client):
        client.sendall(request(35, 1, 1))
        assert stuck.wait(20)
        assert sent[0] < size // 2, "the broker waits as well"
        assert tap.memory.left == 1 << 20, "and no memory is held for it"
        assert len(received(client)) == size + 4


def test_what_memory_does_not_suffice_for_passes_unread() -> None:
    with tapped(in_turn(produced(1, 0)), memory=100_000) as (tap, lines, client):
        client.sendall(produce(1, value=bytes(200_000)))
        assert received(client) == produced(1, 0)
        assert lines.of("unread")[0]["api"] == "PRODUCE"
    assert tap.memory.left == lines.reading.reader.memory.left == 100_000
    assert not lines.open


def test_memory_is_given_back() -> None:
    with tapped(in_turn(produced(1, 0), produced(2, 1)), memory=100_000) as (tap, lines, client):
        for number in (1, 2):
            client.sendall(produce(number, value=bytes(70_000)))
            assert received(client) == produced(number, number - 1)
        assert len(lines.of("produce", 2)) == 2
    assert tap.memory.left == lines.reading.reader.memory.left == 100_000


def test_a_client_is_closed_while_the_cluster_cannot_be_reached(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    reading = ReadingThread.start(Lines(), Memory(0))
    tap = Tap((Address("127.0.0.1", port),), reading.copies, iter(range(100)).__next__)
    address = tap.start()
    with socket.create_connection(address, 20) as client:
        assert client.recv(1) == b""
    tap.stop()
    reading.close()
    assert any("upstream not reached" in text and "Connection refused" in text for text in caplog.messages)


def test_a_broker_that_a_response_names_is_reached_by_a_port_of_its_own() -> None:
    from kio.schema.metadata.v12.response import MetadataResponseBroker
    from kio.schema.types import BrokerId

    def second(connection: socket.socket) -> None:
        received(connection)
        connection.sendall(frame(struct.pack(">i", 8) + b"from the second"))

    with playing(second) as other:
        broker: Any = MetadataResponseBroker(node_id=BrokerId(2), host=other.host, port=i32(other.port))
        named = encode_response(MetadataResponse(throttle_time=NO_WAIT, brokers=(broker,), topics=()), 1)
        with tapped(in_turn(named)) as (tap, _, client):
            client.sendall(metadata(1))
            response = received(client)
            assert response != named
            (port,) = tap.addresses._local.values()
            with socket.create_connection(("127.0.0.1", port), 20) as there:
                there.sendall(request(35, 1, 8))
                assert received(there) == frame(struct.pack(">i", 8) + b"from the second")
