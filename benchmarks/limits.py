"""What a broker bears: connections, clients that send half or read nothing, partitions; in memory and round trips.

`python -m benchmarks.limits [--quick]` prints a table. The broker runs in a process of its own; memory is its resident
set, the round trip that of another client's single record with acks=all meanwhile. Each load is taken away before
the next one comes. --quick does a tenth of it. With --amplification it searches for the requests that cost most instead
(`benchmarks.amplification`).
"""

from __future__ import annotations

import os
import resource
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import trio
from kio.schema.api_versions.v0.request import ApiVersionsRequest
from rich.console import Console
from rich.table import Table

from benchmarks import amplification
from benchmarks.options import parser
from tidegauge.impl.client.client import Client
from tidegauge.impl.cluster.hosts import TcpHost
from tidegauge.impl.ports.network import Address
from tidegauge.impl.wire.codecs import encode_request
from tidegauge.impl.wire.fetch_messages import FetchPartition, FetchRequest, FetchTopic

CONNECTIONS = 1_000
PARTITIONS = 10_000
ANNOUNCED = 100 << 20
"""Bytes of a frame that is begun and never ended."""
SENT = 64 << 10
ROUND_TRIPS = 200


@attrs.frozen
class Figures:
    """One row: MiB, µs, open files."""

    load: str
    seconds: float
    memory: float
    p50: float
    p99: float
    files: int


@contextmanager
def broker_process() -> Iterator[tuple[Address, int]]:
    """A broker's address and process id."""
    command = [sys.executable, "-m", "benchmarks.beside.limited_broker"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        host, _, port = process.stdout.readline().strip().rpartition(":")
        yield Address(host, int(port)), process.pid
    finally:
        process.stdin.close()
        process.wait(60)


def memory(pid: int) -> float:
    """MiB that are resident."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"process {pid} has no VmRSS: the broker is gone")


def open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


async def round_trips(client: Client) -> list[float]:
    times = []
    for _ in range(ROUND_TRIPS):
        begun = time.perf_counter()
        await client.produce("meanwhile", b"x" * 100)
        times.append((time.perf_counter() - begun) * 1e6)
    return sorted(times)


async def figures(load: str, began: float, client: Client, pid: int) -> Figures:
    seconds = time.perf_counter() - began
    print(f"{load}: {memory(pid):.0f} MiB, {seconds:.1f} s", file=sys.stderr)
    times = await round_trips(client)
    return Figures(load, seconds, memory(pid), times[len(times) // 2], times[len(times) * 99 // 100], open_files(pid))


def connected(address: Address) -> socket.socket:
    return socket.create_connection((address.host, address.port), timeout=10)


def idle(address: Address, _: str) -> socket.socket:
    """A client that has asked for the versions, and then nothing."""
    peer = connected(address)
    peer.sendall(encode_request(ApiVersionsRequest(), 1, "idle"))
    size = int.from_bytes(peer.recv(4, socket.MSG_WAITALL), "big")
    peer.recv(size, socket.MSG_WAITALL)
    return peer


def half_sent(address: Address, _: str) -> socket.socket:
    """A client that announces a large frame and stops in its middle."""
    peer = connected(address)
    peer.sendall(struct.pack(">i", ANNOUNCED) + bytes(SENT))
    return peer


def unread(address: Address, topic_id: str) -> socket.socket:
    """A client that asks for 50 MiB eight times and reads none of it."""
    peer = connected(address)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    topic = FetchTopic("large", topic_id, [FetchPartition(0, 0, 50 << 20)])
    request = FetchRequest([topic], max_wait_ms=0, min_bytes=1, max_bytes=50 << 20)
    peer.sendall(b"".join(encode_request(request, number, "slow") for number in range(8)))
    return peer


async def loads(address: Address, pid: int, share: int) -> list[Figures]:
    host = TcpHost(None)
    connections, partitions = CONNECTIONS // share, PARTITIONS // share
    rows = []
    async with Client(host.network("bench"), [address], host.clock("bench"), client_id="bench") as client:
        rows.append(await figures("nothing else", time.perf_counter(), client, pid))
        topic_id = await id_of(client, "large")
        for name, open_one in (
            ("idle connections", idle),
            (f"frames of {ANNOUNCED >> 20} MiB begun and not ended", half_sent),
            ("clients that ask for 50 MiB 8 times and read nothing", unread),
        ):
            began = time.perf_counter()
            peers = [await trio.to_thread.run_sync(open_one, address, topic_id) for _ in range(connections)]
            await trio.sleep(1)
            rows.append(await figures(f"{connections:,} {name}", began, client, pid))
            for peer in peers:
                peer.close()
            await trio.sleep(1)
        began = time.perf_counter()
        await client.create_topic("many", partitions, 1)
        rows.append(await figures(f"{partitions:,} more partitions", began, client, pid))
        began = time.perf_counter()
        for partition in range(partitions):
            await client.produce("many", b"x" * 100, partition=partition)
        rows.append(await figures("a record in each of them", began, client, pid))
    host.close()
    return rows


async def id_of(client: Client, topic: str) -> str:
    return str((await client.metadata(topic)).topics[0].topic_id)


def main(words: Sequence[str] | None = None) -> None:
    options = parser("limits", __doc__, quick="a tenth of each load")
    options.add_argument("--amplification", action="store_true", help="search for the requests that cost most")
    options.add_argument("--seed", type=int, default=1, help="of that search (default: 1)")
    chosen = options.parse_args(words)
    if chosen.amplification:
        trio.run(partial(amplification.measured, chosen.seed, quick=chosen.quick))
        return
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with broker_process() as (address, pid):
        rows = trio.run(loads, address, pid, 10 if chosen.quick else 1)
    table = Table("load", "s to set up", "broker, MiB", "p50, µs", "p99, µs", "open files", box=None, pad_edge=False)
    for row in rows:
        shown: list[Any] = [f"{row.seconds:.1f}", f"{row.memory:.0f}", f"{row.p50:.0f}", f"{row.p99:.0f}"]
        table.add_row(row.load, *shown, f"{row.files:,}")
    Console(width=130).print(table)


if __name__ == "__main__":
    main()
