"""What many partitions cost: making them, the first record of each, closing, opening again, and being idle.

`python -m benchmarks.partitions [--quick] [DIRECTORY]` prints two tables. The first is of one broker: seconds of wall
time, seconds of CPU (of all threads, the client's part included) and syncs that somebody waited for. The second is of
three brokers in one process with replication factor 3 to which nothing happens: CPU in percent of one core, what of it
is the followers' (the rest are heartbeats and metadata, as without a partition), and how long their end takes, files in
a temporary directory. With --quick 200 partitions instead of 1,000 and 10,000.
"""

from __future__ import annotations

import resource
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import attrs
import trio
from rich.console import Console
from rich.table import Table

from benchmarks.options import parser
from tidegauge.impl.client.client import Client
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.cluster.names import BROKER
from tidegauge.impl.ports.failing_disk import SYNCS, FailingDisk, Operation
from tidegauge.impl.wire.channel import Channel

IDLE_SECONDS = 10.0
PAIRS = 10
PERIOD_S = 0.5
"""How often a follower asks: replica.fetch.wait.max.ms."""
CLIENTS_AT_ONCE = 100
PATIENCE_MS = 120_000.0
"""On a slow machine the first records of all wait for each other."""


class Measured:
    """Rows of a table: what was done, and what it took."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, float, float, int]] = []
        self.syncs = 0

    def watch(self, disk: FailingDisk) -> None:
        """Count the syncs of a disk."""
        disk.watched_by(self._count)

    def _count(self, operation: Operation, _: str) -> None:
        self.syncs += operation in SYNCS

    @asynccontextmanager
    async def row(self, name: str) -> AsyncIterator[None]:
        wall, cpu, syncs = time.perf_counter(), time.process_time(), self.syncs
        yield
        self.rows.append((name, time.perf_counter() - wall, time.process_time() - cpu, self.syncs - syncs))


def one_broker(directory: str) -> Cluster:
    return Cluster(1, 1, host="tcp", directory=directory, trace=False)


async def hosts_all(cluster: Cluster, partitions: int) -> None:
    """Return when each broker has every partition."""
    while any(len(list(broker.replicas)) < partitions for broker in cluster.brokers):  # noqa: ASYNC110 - a few ms
        await trio.sleep(0.002)  # who runs it has a limit of time


async def life(directory: str, partitions: int, measured: Measured) -> None:
    """One broker's partitions from their making to the second start."""
    cluster = one_broker(directory)
    await cluster.__aenter__()
    measured.watch(cluster.host.disk(f"{BROKER}0"))
    async with measured.row(f"{partitions:,} partitions made"):
        await cluster.create_topic("many", partitions)
        await hosts_all(cluster, partitions)
    async with cluster.client() as client:
        await client.metadata("many")
        for which in ("first", "second"):
            async with measured.row(f"a {which} record in each, one after the other"):
                for partition in range(partitions):
                    await client.produce("many", b"x" * 100, partition=partition)
    async with measured.row("a clean shutdown"):
        await cluster.__aexit__(None, None, None)
    cluster = one_broker(directory)
    async with measured.row("started again, up to the first record"):
        await cluster.__aenter__()
        async with cluster.client() as client:
            await client.produce("many", b"x" * 100, partition=partitions - 1)
    measured.watch(cluster.host.disk(f"{BROKER}0"))
    async with measured.row("a clean shutdown, nothing to flush but one"):
        await cluster.__aexit__(None, None, None)


@attrs.frozen
class Idle:
    """What three brokers take to which nothing happens, and what their end takes."""

    cpu: float
    """Seconds of CPU for each second."""
    requests: float
    """Requests of brokers each second."""
    end: float
    """Seconds of wall time."""
    end_cpu: float


async def idle(partitions: int) -> Idle:
    """Three brokers that replicate so many partitions to which nothing happens; their directory is temporary."""
    async with Cluster(3, 1, host="tcp", trace=False) as cluster:
        if partitions:
            await cluster.create_topic("many", partitions)
            await write_to_each(cluster, partitions)
        await trio.sleep(5)
        with requests_counted() as count:
            wall, cpu = time.perf_counter(), time.process_time()
            await trio.sleep(IDLE_SECONDS)
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        ended, ended_cpu = time.perf_counter(), time.process_time()
    return Idle(cpu / wall, count() / wall, time.perf_counter() - ended, time.process_time() - ended_cpu)


async def write_to_each(cluster: Cluster, partitions: int) -> None:
    async with cluster.client() as client, trio.open_nursery() as nursery:
        turns = trio.CapacityLimiter(CLIENTS_AT_ONCE)
        await write(client, 0, turns)  # the leaders of all are learned once, and not by each of those at once
        for partition in range(1, partitions):
            nursery.start_soon(write, client, partition, turns)


@contextmanager
def requests_counted() -> Iterator[Callable[[], int]]:
    """How many requests the channels of this process have sent meanwhile."""
    sent = 0

    def request(channel: Channel, *given: Any, **named: Any) -> Any:
        nonlocal sent
        sent += 1
        return send(channel, *given, **named)

    send: Any = Channel.request
    with mock.patch.object(Channel, "request", request):
        yield lambda: sent


async def bare_round_trip() -> float:
    """Seconds of CPU of a round trip over TCP in trio: of `PAIRS` peers each `PERIOD_S`, all at the same times."""

    async def respond(stream: trio.abc.Stream) -> None:
        while await stream.receive_some():
            await trio.sleep(PERIOD_S - trio.current_time() % PERIOD_S)
            await stream.send_all(bytes(32))

    async def ask(stream: trio.abc.Stream) -> None:
        while True:
            await stream.send_all(bytes(64))
            await stream.receive_some()

    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, respond, [listener])
        for _ in range(PAIRS):
            nursery.start_soon(ask, await trio.open_tcp_stream(*listener.socket.getsockname()[:2]))
        await trio.sleep(2 * PERIOD_S)
        cpu = time.process_time()
        await trio.sleep(IDLE_SECONDS)
        cpu = time.process_time() - cpu
        nursery.cancel_scope.cancel()
    return cpu / (PAIRS * IDLE_SECONDS / PERIOD_S)


def removal_alone(replicas: int) -> float:
    """Seconds of CPU to remove the directories of so many replicas of one record, one after the other."""
    root = Path(tempfile.mkdtemp())
    for number in range(replicas):
        directory = root / f"broker-{number % 3}" / f"many-{number}"
        directory.mkdir(parents=True)
        (directory / "partition.metadata").write_bytes(bytes(43))
        (directory / "00000000000000000000.log").write_bytes(bytes(170))
    cpu = time.process_time()
    shutil.rmtree(root)
    return time.process_time() - cpu


async def write(client: Client, partition: int, turns: trio.CapacityLimiter) -> None:
    async with turns:
        await client.produce("many", b"x" * 100, partition=partition, timeout_ms=PATIENCE_MS)


def main(words: Sequence[str] | None = None) -> None:
    options = parser("partitions", __doc__, quick="200 partitions in place of 1,000 and 10,000")
    options.add_argument("directory", metavar="DIRECTORY", nargs="?", help="where the files of one broker are")
    chosen = options.parse_args(words)
    quick = chosen.quick
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    table = Table("one broker", "s", "CPU s", "ms each", "syncs", box=None, pad_edge=False)
    for partitions in (200,) if quick else (1_000, 10_000):
        measured = Measured()
        with tempfile.TemporaryDirectory(dir=chosen.directory) as directory:
            trio.run(life, directory, partitions, measured)
        for name, wall, cpu, syncs in measured.rows:
            table.add_row(name, f"{wall:.2f}", f"{cpu:.2f}", f"{wall / partitions * 1000:.2f}", f"{syncs:,}")
    Console(width=110).print(table)
    bare = trio.run(bare_round_trip)
    columns = "% of a core", "of followers", "requests/s", "µs each", "of a bare one", "their end, s", "CPU s"
    table = Table("three brokers, idle", *columns, "of removing", box=None, pad_edge=False)
    without = trio.run(idle, 0)
    for partitions in (0, 1, 200 if quick else 1_000):
        found = trio.run(idle, partitions) if partitions else without
        each = found.cpu / found.requests
        table.add_row(
            f"{partitions:,} partition(s)",
            f"{100 * found.cpu:.2f}",
            f"{100 * (found.cpu - without.cpu):.2f}",
            f"{found.requests:.0f}",
            f"{1e6 * each:.0f}",
            f"{each / bare:.1f}",
            f"{found.end:.2f}",
            f"{found.end_cpu:.2f}",
            f"{found.end_cpu / removal_alone(3 * partitions):.1f}" if partitions else "",
        )
    Console(width=130).print(table)


if __name__ == "__main__":
    main()
