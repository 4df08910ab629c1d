"""How fast a cluster starts and acknowledges, beside a raw framed echo in the same run.

`python -m benchmarks.cluster [--quick]` prints a table. Round trips carry one record of 100 bytes, one after the other;
throughput is batches of a thousand such records, several producers at a time, each waiting for its own. All produce
with acks=all. The echo sends frames of the same size through the same host and does nothing with them: a cluster's
ratio to it is what a broker's work costs. Times are real, on the simulated host too; each figure is from one run.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

import attrs
import trio
from rich.console import Console
from rich.table import Table

from benchmarks.options import parser
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.cluster.hosts import Host, SimulatedHost, TcpHost
from tidegauge.impl.wire.frames import LENGTH, FrameReader

HostKind = Literal["simulated", "tcp"]

VALUE = bytes(100)
BATCH = 1_000
PRODUCERS = 8
ECHO_FRAME = 170
"""Bytes of a Produce request with one such record, about."""


@attrs.frozen
class Figures:
    """One row: seconds, and records a second."""

    start: float
    round_trips: list[float]
    records_per_second: float

    def percentile(self, percent: float) -> float:
        return sorted(self.round_trips)[min(len(self.round_trips) - 1, int(len(self.round_trips) * percent / 100))]


async def timed(repetitions: int, operation: Callable[[], Awaitable[object]]) -> list[float]:
    """Seconds of each repetition."""
    times = []
    for _ in range(repetitions):
        begun = time.perf_counter()
        await operation()
        times.append(time.perf_counter() - begun)
    return times


async def cluster_figures(brokers: int, host: HostKind, repetitions: int) -> Figures:
    begun = time.perf_counter()
    async with Cluster(brokers=brokers, seed=1, host=host, trace=False) as cluster:
        start = time.perf_counter() - begun
        await cluster.create_topic("bench", partitions=PRODUCERS, config={"min.insync.replicas": min(2, brokers)})
        async with cluster.client() as client:
            await timed(repetitions // 10, lambda: client.produce("bench", VALUE))
            round_trips = await timed(repetitions, lambda: client.produce("bench", VALUE))
            rate = await throughput(
                max(1, repetitions // 100),
                lambda producer: client.produce("bench", *[VALUE] * BATCH, partition=producer),
            )
    return Figures(start, round_trips, rate)


async def throughput(repetitions: int, operation: Callable[[int], Awaitable[object]]) -> float:
    """Records a second of all producers together."""
    begun = time.perf_counter()
    async with trio.open_nursery() as nursery:
        for producer in range(PRODUCERS):

            async def repeat(producer: int = producer) -> None:
                for _ in range(repetitions):
                    await operation(producer)

            nursery.start_soon(repeat)
    return PRODUCERS * repetitions * BATCH / (time.perf_counter() - begun)


async def echo_figures(kind: HostKind, repetitions: int) -> Figures:
    """The floor: a frame there and back, and nothing else."""
    host: Host = SimulatedHost(1) if kind == "simulated" else TcpHost()
    begun = time.perf_counter()
    listener = await host.network("server").listen(host.listen_address("server"))
    start = time.perf_counter() - begun
    frame = LENGTH.pack(ECHO_FRAME) + bytes(ECHO_FRAME)
    large = LENGTH.pack(BATCH * (len(VALUE) + 8)) + bytes(BATCH * (len(VALUE) + 8))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(listener.serve, echo)
        stream = await host.network("client").connect(listener.address)
        reader = FrameReader(stream, 1 << 24)

        async def there_and_back() -> None:
            await stream.send_all(frame)
            await reader.read_frame()

        round_trips = await timed(repetitions, there_and_back)
        streams = [await host.network("client").connect(listener.address) for _ in range(PRODUCERS)]
        readers = [FrameReader(each, 1 << 24) for each in streams]

        async def batch_there(producer: int) -> None:
            await streams[producer].send_all(large)
            await readers[producer].read_frame()

        rate = await throughput(max(1, repetitions // 100), batch_there)
        nursery.cancel_scope.cancel()
    await listener.aclose()
    host.close()
    return Figures(start, round_trips, rate)


async def echo(stream: trio.abc.Stream) -> None:
    """Respond to each frame with a small one."""
    reader = FrameReader(stream, 1 << 24)
    response = LENGTH.pack(60) + bytes(60)
    while await reader.read_frame() is not None:
        await stream.send_all(response)


def table(rows: list[tuple[str, str, Figures, Figures]]) -> Table:
    result = Table(title="produce, acks=all; × is the ratio to a raw framed echo on the same host")
    for heading in ("host", "what", "start ms", "p50 µs", "×", "p99 µs", "×", "k records/s", "×"):
        result.add_column(heading, justify="left" if heading in ("host", "what") else "right")
    for host, what, figures, floor in rows:
        result.add_row(
            host,
            what,
            f"{figures.start * 1e3:.1f}",
            f"{figures.percentile(50) * 1e6:.0f}",
            f"{figures.percentile(50) / floor.percentile(50):.1f}",
            f"{figures.percentile(99) * 1e6:.0f}",
            f"{figures.percentile(99) / floor.percentile(99):.1f}",
            f"{figures.records_per_second / 1e3:.0f}",
            f"{figures.records_per_second / floor.records_per_second:.3f}",
        )
    return result


def main(words: Sequence[str] | None = None) -> None:
    options = parser("cluster", __doc__, quick="a tenth of the repetitions").parse_args(words)
    repetitions = 200 if options.quick else 2_000
    hosts: tuple[HostKind, ...] = ("simulated", "tcp")
    rows: list[tuple[str, str, Figures, Figures]] = []
    trio.run(cluster_figures, 1, "simulated", 10)  # imports, and kio's readers and writers
    for host in hosts:
        floor = trio.run(echo_figures, host, repetitions)
        rows.append((host, "echo", floor, floor))
        for brokers in (1, 3):
            figures = trio.run(cluster_figures, brokers, host, repetitions)
            rows.append((host, f"{brokers} broker{'s' * (brokers > 1)}", figures, floor))
    Console(width=110).print(table(rows))


if __name__ == "__main__":
    main()
