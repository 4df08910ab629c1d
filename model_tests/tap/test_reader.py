"""Who reads copies of what passes: any beginning of them is a state that was; without a reader clients are served."""

from __future__ import annotations

import logging
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

from tidegauge.commands.tap_reader import ReadingProcess
from tidegauge.impl.records.batches import assign
from tidegauge.impl.records.payload import Record, build_batch
from tidegauge.impl.tap.copies import AT, HEAD, Copies, Kind, Passing
from tidegauge.impl.tap.frame_stream import READ_SIZE
from tidegauge.impl.tap.memory import Memory
from tidegauge.impl.tap.observer import Observer
from tidegauge.impl.tap.reader import Reader
from tidegauge.impl.tap.recording import Rotation
from tidegauge.impl.tap.tap import Tap
from tidegauge.impl.wire.apis import ApiKey
from tidegauge.impl.wire.codecs import encode_request, encode_response
from tidegauge.impl.wire.fetch_messages import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionFetched,
    TopicFetched,
)
from tidegauge.linearizability.tapped.reading import Reader as RecordingReader
from tidegauge.model_tests.tap.test_connection import (
    Lines,
    Play,
    frame,
    in_turn,
    playing,
    produce,
    produced,
    received,
    request,
)

LARGE = bytes(range(256)) * 1500


@attrs.define(eq=False)
class Captured:
    """What has been copied so far."""

    source: socket.socket
    data: bytes = b""

    def so_far(self) -> bytes:
        self.source.settimeout(0)
        try:
            while piece := self.source.recv(1 << 20):
                self.data += piece
        except BlockingIOError:
            pass
        return self.data

    def drain(self) -> None:
        """Take what comes until it ends, so that nobody waits."""
        self.source.settimeout(None)
        while piece := self.source.recv(1 << 20):
            self.data += piece


def read(data: bytes) -> Lines:
    """What a reader that got these bytes, and nothing after them, has seen while the connections were there."""
    lines = Lines()
    ours, theirs = socket.socketpair()
    reader = Reader(theirs, Observer(lines), Memory(1 << 20))
    reader._read(memoryview(data))
    ours.close()
    theirs.close()
    return lines


def messages(data: bytes) -> list[tuple[int, bytes]]:
    """(kind, payload) of each whole message."""
    found, position = [], 0
    while position + HEAD.size <= len(data):
        kind, _, _, size = HEAD.unpack_from(data, position)
        if position + HEAD.size + size > len(data):
            break
        found.append((kind, data[position + HEAD.size : position + HEAD.size + size]))
        position += HEAD.size + size
    return found


def fetch(correlation_id: int, version: int = 12) -> bytes:
    return encode_request(
        FetchRequest([FetchTopic("orders", "", [FetchPartition(0, 0, 1 << 20)])], 0, 1),
        correlation_id,
        "me",
        version=version,
    )


def fetched(correlation_id: int, value: bytes, version: int = 12) -> bytes:
    assign(batch := bytearray(build_batch([Record(0, 1, None, value)])), 0, 0, 1)
    response = FetchResponse(
        [TopicFetched("orders", "", [PartitionFetched(0, high_watermark=1, records=bytes(batch))])]
    )
    return encode_response(response, correlation_id, version=version)


def test_in_any_beginning_of_the_copies_what_was_read_was_sent() -> None:
    """The record is read before its sender has a response: each prefix of the messages knows of the sending by then."""
    written = threading.Event()

    def play(connection: socket.socket) -> None:
        request = received(connection)
        if request[4:6] == b"\0\0":
            written.set()
            connection.recv(1)
        else:
            connection.sendall(fetched(2, LARGE))
            connection.recv(1)

    captured = Captured((pair := socket.socketpair())[1])
    with playing(play) as upstream:
        tap = Tap((upstream,), Copies(pair[0]), iter(range(1_000_000)).__next__)
        address = tap.start()
        draining = threading.Thread(target=captured.drain)
        draining.start()
        with socket.create_connection(address, 20) as producer, socket.create_connection(address, 20) as consumer:
            producer.sendall(produce(1, value=LARGE))
            assert written.wait(20)
            consumer.sendall(fetch(2))
            assert received(consumer) == fetched(2, LARGE)
        tap.stop()
        tap.copies.finish()
        draining.join()
    shown = end = 0
    for _, payload in messages(captured.data):
        end += HEAD.size + len(payload)
        lines = read(captured.data[:end])
        seen = [line["values"] for line in lines.lines if line["kind"] == "fetch" and line.get("values")]
        shown += bool(seen)
        sent = [line["values"] for one in lines.open.values() for line in one.lines or ()]
        sent += [line["values"] for line in lines.lines if line["kind"] == "produce"]
        assert all(values in sent for values in seen)
    assert shown


def test_a_broker_has_no_whole_request_that_is_not_copied() -> None:
    captured = Captured((pair := socket.socketpair())[1])
    copied: list[int] = []
    request = produce(1, value=bytes(20_000))

    def play(connection: socket.socket) -> None:
        received(connection)
        copied.append(sum(len(payload) for _, payload in messages(captured.so_far())))
        connection.sendall(produced(1, 0))
        connection.recv(1)

    with playing(play) as upstream:
        tap = Tap((upstream,), Copies(pair[0]), iter(range(1_000_000)).__next__)
        with socket.create_connection(tap.start(), 20) as client:
            client.sendall(request)
            assert received(client) == produced(1, 0)
        tap.stop()
    assert copied[0] > len(request)


def numbered(data: bytes) -> list[tuple[int, int]]:
    """(kind, exchange) of each whole message."""
    found, position = [], 0
    while position + HEAD.size <= len(data):
        kind, _, number, size = HEAD.unpack_from(data, position)
        found.append((kind, number))
        position += HEAD.size + size
    return found


@contextmanager
def copied(play: Play) -> Iterator[tuple[socket.socket, list[tuple[int, int]]]]:
    """A client's connection, by way of a tap, to such a broker; and, in the end, what was copied."""
    captured = Captured((pair := socket.socketpair())[1])
    found: list[tuple[int, int]] = []
    with playing(play) as upstream:
        tap = Tap((upstream,), Copies(pair[0]), iter(range(1_000_000)).__next__)
        draining = threading.Thread(target=captured.drain)
        draining.start()
        with socket.create_connection(tap.start(), 20) as client:
            yield client, found
        tap.stop()
        tap.copies.finish()
        draining.join()
    found += numbered(captured.data)


def test_requests_are_copied_in_their_order_and_each_before_its_response() -> None:
    """Also where some are copied with their responses, and others before they are passed on."""
    responses = [fetched(1, b"a"), fetched(2, b"b"), produced(3, 0), fetched(4, b"c"), fetched(5, LARGE)]

    def play(connection: socket.socket) -> None:
        for together in (responses[:1], responses[1:]):
            for _ in together:
                received(connection)
            connection.sendall(b"".join(together))
        connection.recv(1)

    with copied(play) as (client, found):
        client.sendall(fetch(1))
        assert received(client) == responses[0]
        client.sendall(fetch(2) + produce(3) + fetch(4) + fetch(5))
        for response in responses[1:]:
            assert received(client) == response
    requests = [number for kind, number in found if kind == Kind.REQUEST]
    assert requests == [number for kind, number in found if kind == Kind.RESPONSE] == list(range(5))
    for number in range(5):
        assert found.index((Kind.REQUEST, number)) < found.index((Kind.RESPONSE, number))
    assert found.index((Kind.REQUEST, 2)) < found.index((Kind.RESPONSE, 1)), "a Produce waits for no response"


@pytest.mark.parametrize("value", [b"small", LARGE], ids=["whole", "in pieces"])
def test_a_request_that_is_copied_at_once_comes_behind_one_that_was_not_copied_yet(value: bytes) -> None:
    responses = [fetched(1, b"a"), produced(2, 0)]

    def play(connection: socket.socket) -> None:
        for _ in responses:
            received(connection)
        connection.sendall(b"".join(responses))
        connection.recv(1)

    with copied(play) as (client, found):
        client.sendall(fetch(1) + produce(2, value=value))
        assert [received(client) for _ in responses] == responses
    assert [number for kind, number in found if kind == Kind.REQUEST] == [0, 1]
    assert found.index((Kind.REQUEST, 1)) < found.index((Kind.RESPONSE, 0))


def test_a_response_takes_no_request_with_it_but_its_own() -> None:
    responses = [produced(1, 0), fetched(2, b"a")]

    def play(connection: socket.socket) -> None:
        for _ in responses:
            received(connection)
        connection.sendall(b"".join(responses))
        connection.recv(1)

    with copied(play) as (client, found):
        client.sendall(produce(1) + fetch(2))
        assert [received(client) for _ in responses] == responses
    assert found == [
        (Kind.REQUEST, 0),
        (Kind.RESPONSE, 0),
        (Kind.REQUEST, 1),
        (Kind.RESPONSE, 1),
        (Kind.ENDED, 0),
    ]


def test_a_request_that_only_asks_is_copied_when_its_response_has_come() -> None:
    captured = Captured((pair := socket.socketpair())[1])
    before: list[bytes] = []

    def play(connection: socket.socket) -> None:
        received(connection)
        before.append(captured.so_far())
        connection.sendall(fetched(1, b"a"))
        connection.recv(1)

    with playing(play) as upstream:
        tap = Tap((upstream,), Copies(pair[0]), iter(range(1_000_000)).__next__)
        with socket.create_connection(tap.start(), 20) as client:
            client.sendall(fetch(1))
            assert received(client) == fetched(1, b"a")
        tap.stop()
        assert before == [b""]
        assert numbered(captured.so_far()) == [(Kind.REQUEST, 0), (Kind.RESPONSE, 0), (Kind.ENDED, 0)]


def test_a_request_that_gets_no_response_any_more_keeps_no_other_from_being_copied() -> None:
    with copied(in_turn(None, fetched(2, b"b"), fetched(3, b"c"))) as (client, found):
        client.sendall(fetch(1) + fetch(2))
        assert received(client) == fetched(2, b"b")
        client.sendall(fetch(3))
        assert received(client) == fetched(3, b"c")
    assert found == [
        (Kind.REQUEST, 0),
        (Kind.REQUEST, 1),
        (Kind.LOST, 0),
        (Kind.RESPONSE, 1),
        (Kind.REQUEST, 2),
        (Kind.RESPONSE, 2),
        (Kind.ENDED, 0),
    ]


def test_a_request_that_was_not_copied_yet_may_get_no_response_any_more() -> None:
    response = frame(struct.pack(">i", 2))
    with copied(in_turn(None, response, fetched(3, b"c"))) as (client, found):
        client.sendall(fetch(1) + request(ApiKey.API_VERSIONS, 0, 2))
        assert received(client) == response
        client.sendall(fetch(3))
        assert received(client) == fetched(3, b"c")
    assert [number for kind, number in found if kind == Kind.REQUEST] == [0, 2]
    assert found.index((Kind.REQUEST, 0)) < found.index((Kind.LOST, 0)) < found.index((Kind.RESPONSE, 2))


def test_no_message_is_larger_than_what_is_received_at_once() -> None:
    """Who reads joins what is not whole yet: of one large message it would join all of it again and again."""
    captured = Captured((pair := socket.socketpair())[1])
    large = fetched(1, bytes(300_000), version=17)

    with playing(in_turn(large)) as upstream:
        tap = Tap((upstream,), Copies(pair[0]), iter(range(1_000_000)).__next__)
        draining = threading.Thread(target=captured.drain)
        draining.start()
        with socket.create_connection(tap.start(), 20) as client:
            client.sendall(fetch(1, version=17))
            assert received(client) == large
        tap.stop()
        tap.copies.finish()
        draining.join()
    sizes = [len(payload) for kind, payload in messages(captured.data) if kind in (Kind.RESPONSE, Kind.RESPONSE_REST)]
    assert sum(sizes) > len(large)
    assert max(sizes) < 2 * READ_SIZE


@attrs.define(eq=False)
class LateCopies(Copies):
    """Tells that a connection is over when the tap has stopped, or a while after it was told to."""

    stopping: threading.Event = attrs.field(factory=threading.Event)
    stopped: threading.Event = attrs.field(factory=threading.Event)

    def ended(self, connection: int) -> None:
        assert self.stopping.wait(20)
        self.stopped.wait(0.2)
        super().ended(connection)


def test_a_tap_that_stops_waits_for_a_connection_of_which_it_learns_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who accepts may have begun a connection's thread and get no turn before that thread is nearly done."""
    ours, theirs = socket.socketpair()
    copies = LateCopies(ours)
    start = threading.Thread.start

    def start_and_rest(thread: threading.Thread) -> None:
        start(thread)
        if thread.name == "tap-client":
            assert copies.stopping.wait(20)
            copies.stopped.wait(0.1)

    monkeypatch.setattr(threading.Thread, "start", start_and_rest)
    captured = Captured(theirs)
    with playing(in_turn(produced(1, 0))) as upstream:
        tap = Tap((upstream,), copies, iter(range(1_000_000)).__next__)
        with socket.create_connection(tap.start(), 20) as client:
            client.sendall(produce(1))
            assert received(client) == produced(1, 0)
        copies.stopping.set()
        tap.stop()
        copies.stopped.set()
        copies.finish()
        captured.drain()
    assert [kind for kind, _ in numbered(captured.data)] == [Kind.REQUEST, Kind.RESPONSE, Kind.ENDED]
    assert not copies.failed
    copies.close()
    theirs.close()


def test_what_makes_reading_fail_is_told_and_the_next_frame_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = Lines()
    ours, theirs = socket.socketpair()
    reader = Reader(theirs, Observer(lines), Memory(1 << 20))
    copies = Copies(ours)
    note = Observer.requested
    told = iter([RecursionError("deep")])

    def fail_once(*given: Any) -> None:
        if (error := next(told, None)) is not None:
            raise error
        note(*given)

    monkeypatch.setattr(Observer, "requested", fail_once)
    for number in (1, 2):
        one = Passing(number, 7, 0, 9, number, number)
        copies.begin_request(one, len(frame := produce(number)), frame)
        copies.begin_response(one, 10, len(frame := produced(number, number)), frame)
    copies.finish()
    reader.run()
    assert [line.get("why") for line in lines.lines if line["kind"] == "unread"] == ["RecursionError: deep"]
    assert [line["offset"] for line in lines.lines if line["kind"] == "produce"] == [2]
    assert not lines.open
    copies.close()
    theirs.close()


@pytest.mark.parametrize("kind", [Kind.REQUEST_REST, Kind.RESPONSE, Kind.RESPONSE_REST, Kind.SENT, Kind.LOST, 99])
def test_a_message_about_nothing_changes_nothing(kind: int) -> None:
    lines = read(HEAD.pack(kind, 1, 1, AT.size) + AT.pack(0))
    assert not lines.lines
    assert not lines.open


def test_a_reader_that_is_killed_ends_the_recording_and_no_client(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    reading = ReadingProcess.start(tmp_path / "tap", {}, Rotation(), 1 << 20, "warning")
    with playing(in_turn(produced(1, 0), produced(2, 1), produced(3, 2))) as upstream:
        tap = Tap((upstream,), reading.copies, reading.now)
        with socket.create_connection(tap.start(), 20) as client:
            client.sendall(produce(1))
            assert received(client) == produced(1, 0)
            reading.process.kill()
            reading.process.wait()
            for number in (2, 3):
                client.sendall(produce(number))
                assert received(client) == produced(number, number - 1)
        tap.stop()
    written = reading.close()
    assert (written.operations, written.failure) == (None, "the process that writes it ended early")
    assert sum("recording ended" in text for text in caplog.messages) == 1


def test_a_process_reads_all_that_was_copied_before_the_end(tmp_path: Path) -> None:
    reading = ReadingProcess.start(tmp_path / "tap", {"alone": True}, Rotation(), 1 << 20, "warning")
    has_all = threading.Event()

    def play(connection: socket.socket) -> None:
        for number in range(50):
            received(connection)
            connection.sendall(produced(number, number))
        received(connection)
        has_all.set()

    with playing(play) as upstream:
        tap = Tap((upstream,), reading.copies, reading.now)
        with socket.create_connection(tap.start(), 20) as client:
            for number in range(50):
                client.sendall(produce(number))
                received(client)
            client.sendall(produce(50))
            assert has_all.wait(20)
        tap.stop()
    assert reading.close().operations == 51
    recorded = RecordingReader.of(tmp_path / "tap")
    recorded.read_on()
    assert recorded.alone
    assert sorted(getattr(line, "offset", None) or 0 for line in recorded.lines.values()) == [0, *range(50)]


def test_a_recording_that_cannot_be_made_is_told_by_the_process(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(FileExistsError):
        ReadingProcess.start(tmp_path / "file", {}, Rotation(), 1, "warning")
    with pytest.raises(OSError, match="Not a directory"):
        ReadingProcess.start(tmp_path / "file" / "tap", {}, Rotation(), 1, "warning")
