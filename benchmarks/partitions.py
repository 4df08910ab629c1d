"""What many partitions cost: making them, the first record of each, closing, opening again, and being idle.

`python -m benchmarks.partitions [--quick] [DIRECTORY]` prints two tables. The first is of one broker: seconds of wall
time, seconds of CPU (of all threads, the client's part included) and syncs that somebody waited for. The second is of
three brokers in one process with replication factor 3 to which nothing happens: CPU in percent of one core, and how
long their end takes, files in a temporary directory. With --quick 200 partitions instead of 1,000 and 10,000.
"""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import trio
from rich.console import Console
from rich.table import Table

from benchmarks.options import parser
from tidegauge.impl.client.client import Client
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.cluster.names import BROKER
from tidegauge.impl.ports.failing_disk import SYNCS, FailingDisk, Operation

IDLE_SECONDS = 10.0
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


async def idle(partitions: int) -> tuple[float, float]:
    """Percent of a core that three brokers take that replicate so many partitions to which nothing happens.

    And the seconds that their end takes: their directory is temporary.
    """
    async with Cluster(3, 1, host="tcp", trace=False) as cluster:
        await cluster.create_topic("many", partitions)
        await hosts_all(cluster, partitions)
        async with cluster.client() as client, trio.open_nursery() as nursery:
            turns = trio.CapacityLimiter(CLIENTS_AT_ONCE)
            await write(client, 0, turns)  # the leaders of all are learned once, and not by each of those at once
            for partition in range(1, partitions):
                nursery.start_soon(write, client, partition, turns)
        await trio.sleep(5)
        wall, cpu = time.perf_counter(), time.process_time()
        await trio.sleep(IDLE_SECONDS)
        percent = 100 * (time.process_time() - cpu) / (time.perf_counter() - wall)
        wall = time.perf_counter()
    return percent, time.perf_counter() - wall


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
    table = Table("three brokers, replication factor 3, idle", "% of a core", "their end, s", box=None, pad_edge=False)
    for partitions in (1, 200) if quick else (1, 1_000):
        percent, end = trio.run(idle, partitions)
        table.add_row(f"{partitions:,} partition(s)", f"{percent:.1f}", f"{end:.2f}")
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
