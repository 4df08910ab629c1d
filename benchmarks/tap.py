"""What a tap adds to a request: its latency beside a direct connection's, in the same run, and the tap's memory.

`python -m benchmarks.tap [--quick] [--service-us N]` prints a table. A stand-in for a broker, a process of its own,
has one response to each kind of request, and sends it N microseconds after the request (0 by default; a broker takes
some hundreds). A client sends one request directly, one through a bare proxy and one through the tap, in turn; both are
processes of their own, and the bare one has two threads of Python's that pass bytes on and look at none: less than it
adds no tap in Python can. The table has the median and the 99th percentile directly and through the tap, what both add
to the median, and the CPU time of the tap for a request, of the process that passes it on and of the one that reads it,
which says less about the load of the machine. Then eight
clients send as fast as they can, and the tap's memory is asked for before and after, of both processes. The last line
is the load of the machine, by `os.getloadavg`.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import attrs
from kio.schema.metadata.v12.request import MetadataRequest
from kio.schema.metadata.v12.response import MetadataResponse, MetadataResponseBroker
from kio.schema.types import BrokerId
from rich.console import Console
from rich.table import Table

from benchmarks.options import parser
from tidegauge.impl.records.batches import assign
from tidegauge.impl.records.payload import ProducerIdentity, Record, build_batch
from tidegauge.impl.wire.codecs import encode_request, encode_response, peek_request
from tidegauge.impl.wire.fetch_messages import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionFetched,
    TopicFetched,
)
from tidegauge.impl.wire.frames import LENGTH
from tidegauge.impl.wire.primitives import NO_WAIT, i32
from tidegauge.impl.wire.produce_messages import (
    PartitionProduced,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
    TopicProduced,
)

CLIENTS: Final = 8
NOT_COUNTED: Final = 50
"""Requests of a kind before those that are measured."""
_CORRELATION_ID_AT: Final = 4
"""In a response with its length."""


@attrs.frozen
class Kind:
    """A request and its response, both with their lengths."""

    name: str
    request: bytes
    response: bytes


def kinds() -> list[Kind]:
    """What is measured."""
    one = build_batch([Record(0, 0, b"key", bytes(100))], producer=ProducerIdentity(1, 0, 0))
    many = build_batch([Record(number, 0, b"key", bytes(100)) for number in range(100)])
    assign(kept := bytearray(many), 0, 0, 1)
    return [
        produce("Produce 9, 1 record", one, 9),
        produce("Produce 12, 1 record", one, 12),
        produce("Produce 12, 100 records", many, 12),
        fetch("Fetch 12, 100 records", bytes(kept), 12),
        fetch("Fetch 17, 100 records", bytes(kept), 17),
        fetch("Fetch 17, no record", b"", 17),
        Kind("Metadata 12", encode_request(asked(), 7, "me"), encode_response(cluster(), 7)),
        Kind("an API that passes unread", _unread(), LENGTH.pack(8) + struct.pack(">ii", 7, 0)),
    ]


def produce(name: str, batch: bytes, version: int) -> Kind:
    request = ProduceRequest(-1, 1000, [ProduceTopic("orders", "", [ProducePartition(0, batch)])])
    response = ProduceResponse([TopicProduced("orders", "", [PartitionProduced(0, base_offset=0)])])
    return Kind(name, encode_request(request, 7, "me", version=version), encode_response(response, 7, version=version))


def fetch(name: str, batch: bytes, version: int) -> Kind:
    topic_id = "00000000-0000-0000-0000-000000000007"
    request = FetchRequest([FetchTopic("orders", topic_id, [FetchPartition(0, 0, 1 << 20)])], 0, 1)
    fetched = PartitionFetched(0, high_watermark=100, last_stable_offset=100, records=batch)
    response = FetchResponse([TopicFetched("orders", topic_id, [fetched])])
    return Kind(name, encode_request(request, 7, "me", version=version), encode_response(response, 7, version=version))


def asked() -> MetadataRequest:
    return MetadataRequest(topics=(), allow_auto_topic_creation=False, include_topic_authorized_operations=False)


def cluster() -> MetadataResponse:
    brokers = tuple(
        MetadataResponseBroker(node_id=BrokerId(number), host="127.0.0.1", port=i32(20_000 + number))
        for number in range(3)
    )
    return MetadataResponse(throttle_time=NO_WAIT, brokers=brokers, topics=())


def _unread() -> bytes:
    body = struct.pack(">hhih", 35, 0, 7, -1) + bytes(100)
    return LENGTH.pack(len(body)) + body


# --- the stand-in for a broker ------------------------------------------------------------------------------------


def serve(service_us: int) -> None:
    """Respond to each kind of request, until standard input ends."""
    responses: dict[bytes, dict[int, bytes]] = {}
    for kind in kinds():
        responses.setdefault(kind.request[LENGTH.size : LENGTH.size + 4], {})[len(kind.request)] = kind.response
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)

    def respond(connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
        held = b""
        while data := connection.recv(1 << 20):
            held += data
            while len(held) >= LENGTH.size and len(held) >= (size := LENGTH.size + LENGTH.unpack_from(held)[0]):
                request, held = held[:size], held[size:]
                _, _, number = peek_request(request[LENGTH.size :])
                response = bytearray(responses[request[LENGTH.size : LENGTH.size + 4]][size])
                struct.pack_into(">i", response, _CORRELATION_ID_AT, number)
                until = time.perf_counter() + service_us / 1e6
                while time.perf_counter() < until:
                    pass
                connection.sendall(response)

    def accept() -> None:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=respond, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    sys.stdin.read()


def pass_on(upstream: int) -> None:
    """Pass bytes between clients and a port, until standard input ends."""
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)

    def pump(source: socket.socket, sink: socket.socket) -> None:
        while data := source.recv(64 << 10):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)

    def accept() -> None:
        while True:
            client, _ = listener.accept()
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
            broker = connected(upstream)
            for ends in ((client, broker), (broker, client)):
                threading.Thread(target=pump, args=ends, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    sys.stdin.read()


@contextmanager
def beside(call: str) -> Iterator[int]:
    """A process that makes a call of this module, and the port that it tells."""
    command = (sys.executable, "-c", f"from benchmarks import tap; tap.{call}")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        yield int(process.stdout.readline())
        process.stdin.close()


@contextmanager
def running(service_us: int, folder: Path) -> Iterator[tuple[tuple[int, int, int], tuple[int, int]]]:
    """Ports of the stand-in, of a bare proxy and of a tap before it; process ids of the tap and of who reads for it."""
    with beside(f"serve({service_us})") as port, beside(f"pass_on({port})") as bare:
        words = ("--upstream", f"127.0.0.1:{port}", "--listen", "0", "--out", str(folder), "--json", "--until-eof")
        tap = (sys.executable, "-m", "tidegauge", "tap", *words)
        with subprocess.Popen(tap, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as tapping:
            assert tapping.stdout is not None
            assert tapping.stdin is not None
            told = json.loads(tapping.stdout.readline())
            ports = port, bare, int(told["bootstrap_servers"].rpartition(":")[2])
            yield ports, (told["pid"], told["reader_pid"])
            tapping.stdin.close()
            tapping.wait()


# --- what is measured ----------------------------------------------------------------------------------------------


def connected(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
    return connection


def exchange(connection: socket.socket, request: bytes) -> float:
    """Send a request and receive its response; seconds."""
    began = time.perf_counter()
    connection.sendall(request)
    size, received = -1, b""
    while size < 0 or len(received) < size:
        received += connection.recv(1 << 20)
        if size < 0 and len(received) >= LENGTH.size:
            size = LENGTH.size + LENGTH.unpack_from(received)[0]
    return time.perf_counter() - began


def percentiles(times: list[float]) -> tuple[float, float]:
    """(median, 99th percentile), microseconds."""
    return statistics.median(times) * 1e6, statistics.quantiles(times, n=100)[98] * 1e6


def resident_kib(process: int) -> int:
    status = Path(f"/proc/{process}/status").read_text("ascii")
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])


def cpu_seconds(process: int) -> float:
    """CPU time of a process, all threads together: `clock_getcpuclockid(3)` makes its clock's number so."""
    return time.clock_gettime(~process << 3 | 2)


def measured(ports: Sequence[int], processes: Sequence[int], kind: Kind, rounds: int) -> list[float]:
    """The figures of a kind of request, microseconds, in the order of the table."""
    times: list[list[float]] = [[] for _ in ports]
    with ExitStack() as stack:
        connections = [stack.enter_context(connected(port)) for port in ports]
        for _ in range(NOT_COUNTED):
            for connection in connections:
                exchange(connection, kind.request)
        before = [cpu_seconds(process) for process in processes]
        for _ in range(rounds):
            for connection, taken in zip(connections, times, strict=True):
                taken.append(exchange(connection, kind.request))
        cpu = [(cpu_seconds(one) - then) / rounds * 1e6 for one, then in zip(processes, before, strict=True)]
    (half, most), (bare, _), (tapped, tapped_most) = map(percentiles, times)
    return [half, most, bare - half, tapped, tapped_most, tapped - half, tapped_most - most, *cpu]


def pour(port: int, kind: Kind, count: int) -> float:
    """Requests a second of eight clients at once."""

    def send() -> None:
        with connected(port) as connection:
            for _ in range(count // CLIENTS):
                exchange(connection, kind.request)

    threads = [threading.Thread(target=send) for _ in range(CLIENTS)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return count / (time.perf_counter() - began)


def main(words: Sequence[str] | None = None) -> None:
    options = parser("tap", __doc__, quick="a fifth of the requests")
    options.add_argument("--service-us", type=int, default=0, help="microseconds that the stand-in takes for a request")
    given = options.parse_args(words)
    rounds, load = (400, 4_000) if given.quick else (2_000, 40_000)
    out = Console()
    titles = ("direct p50", "p99", "bare adds", "tapped p50", "p99", "added p50", "p99", "CPU", "reading")
    table = Table("request, µs", *titles, box=None)
    with (
        tempfile.TemporaryDirectory() as folder,
        running(given.service_us, Path(folder) / "tap") as (ports, processes),
    ):
        port, _, tap = ports
        for kind in kinds():
            table.add_row(kind.name, *(f"{figure:.0f}" for figure in measured(ports, processes, kind, rounds)))
        out.print(table)
        before = sum(map(resident_kib, processes))
        for kind in (kinds()[1], kinds()[4]):
            rates = pour(port, kind, load), pour(tap, kind, load)
            resident = sum(map(resident_kib, processes))
            out.print(
                f"{kind.name}: {CLIENTS} clients send {rates[0]:,.0f}/s directly, {rates[1]:,.0f}/s through the tap; "
                f"its memory after {load:,} requests: {resident / 1024:.0f} MiB ({(resident - before) / 1024:+.0f})"
            )
            before = resident
    out.print(f"load of the machine: {os.getloadavg()}")


if __name__ == "__main__":
    main()
