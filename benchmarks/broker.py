"""A broker over TCP beside librdkafka's mock cluster, or any other: same client, same settings, same run.

`python -m benchmarks.broker [--quick] [--data DIR]` prints a table. Clusters run in processes of their own; the client
is confluent-kafka in this one, acks=all, its defaults otherwise. Throughput is batched as the client likes it; single
records are requests of one record each, many in flight; round trips are single records with linger 0, one after the
other. Three brokers means replication factor 3 and min.insync.replicas 2 here, and no replication at all in the mock.
The mock keeps only the last 5 MB of a partition, so that much is consumed from both. Broker CPU is that of the
cluster's process while it took the records. The mock writes no files; ours lie in memory (/dev/shm, where there is such
a thing), so that brokers are compared and not file systems: `--data DIR` puts them on a disk.

`--against HOST:PORT` compares with a cluster that is running (Apache Kafka, Redpanda, another of ours) in place of the
mock, with as many brokers here as it has: it makes a topic `tidegauge-bench` there and deletes it. The two are measured
in turn, three times each, and the best of each figure counts; the CPU of a cluster that somebody else started is not
known.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import trio
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from benchmarks.options import parser
from tidegauge.impl.cluster.cluster import Cluster

TOPIC = "tidegauge-bench"
MOCK_WINDOW = 4 << 20
"""Bytes that are consumed at a time: what the mock still has."""
WINDOW = 64 << 20
"""The same with brokers that keep what they are given."""
MEMORY = "/dev/shm"
TICKS = os.sysconf("SC_CLK_TCK")


@attrs.frozen
class Figures:
    """One row. Rates are MB/s of values, single records thousands of requests a second, round trips µs, CPU ms for each
    100 MB produced and µs for each request of a single record (nan of a process that is not known)."""

    small: float
    large: float
    consumed: float
    singles: float
    p50: float
    p99: float
    cpu: float
    single_cpu: float


LESS_IS_BETTER = {"p50", "p99", "cpu", "single_cpu"}


# --- the cluster's process ---------------------------------------------------------------------------------------


async def serve_ours(brokers: int, data: str) -> None:
    """Run our cluster, tell where it listens, until standard input ends."""
    config = {"min.insync.replicas": min(2, brokers)}
    with tempfile.TemporaryDirectory(dir=data) as directory:
        async with Cluster(brokers, 1, config, host="tcp", directory=directory, trace=False) as cluster:
            await cluster.create_topic(TOPIC, partitions=1)
            print(",".join(str(broker.advertised) for broker in cluster.brokers), flush=True)
            await trio.to_thread.run_sync(sys.stdin.read)


def serve_mock(brokers: int) -> None:
    """The same with the mock cluster."""
    owner = Producer({"bootstrap.servers": "localhost", "test.mock.num.brokers": brokers})
    known = owner.list_topics(TOPIC, timeout=10).brokers.values()
    print(",".join(f"{broker.host}:{broker.port}" for broker in known), flush=True)
    sys.stdin.read()


@contextlib.contextmanager
def cluster(kind: str, brokers: int, data: str) -> Iterator[tuple[str, int]]:
    """(bootstrap servers, process id) of a cluster in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.broker", f"--serve-{kind}", str(brokers), data]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip(), process.pid
        finally:
            process.stdin.close()
            process.wait(timeout=20)


@contextlib.contextmanager
def running(bootstrap: str) -> Iterator[int]:
    """The number of brokers of a cluster that somebody else runs; it has the topic for as long as this lasts."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    try:
        known = admin.list_topics(timeout=10)
    except KafkaException as error:
        raise SystemExit(f"--against {bootstrap}: no broker responds there ({error.args[0].str()})") from error
    if TOPIC in known.topics:
        raise SystemExit(f"--against {bootstrap}: there is a topic {TOPIC} already; delete it first")
    brokers = len(known.brokers)
    config = {"min.insync.replicas": str(min(2, brokers))}
    topic = NewTopic(TOPIC, num_partitions=1, replication_factor=min(3, brokers), config=config)
    admin.create_topics([topic])[TOPIC].result(30)
    try:
        yield brokers
    finally:
        admin.delete_topics([TOPIC])[TOPIC].result(30)


def cpu_seconds(process_id: int | None) -> float:
    """CPU time of a process so far, nan of one that is not known."""
    if process_id is None:
        return float("nan")
    with open(f"/proc/{process_id}/stat", encoding="ascii") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


# --- the client --------------------------------------------------------------------------------------------------


def producer(bootstrap: str, **settings: Any) -> Producer:
    return Producer({"bootstrap.servers": bootstrap, "acks": "all", "enable.metrics.push": False, **settings})


def check(error: Any, _message: Any) -> None:
    if error is not None:
        raise RuntimeError(f"a record was not delivered: {error}")


def produce(bootstrap: str, size: int, records: int) -> float:
    """MB/s of values."""
    client = producer(bootstrap)
    client.produce(TOPIC, b"warm", on_delivery=check)
    client.flush()
    value = bytes(size)
    begun = time.perf_counter()
    for _ in range(records):
        while True:
            try:
                client.produce(TOPIC, value, on_delivery=check)
                break
            except BufferError:
                client.poll(0.01)
        client.poll(0)
    client.flush()
    return size * records / (time.perf_counter() - begun) / 1e6


def round_trips(bootstrap: str, repetitions: int) -> list[float]:
    """Seconds from handing over a record until its delivery is reported, sorted."""
    client = producer(bootstrap, **{"linger.ms": 0})
    times = []
    for _ in range(repetitions + repetitions // 10):
        begun = time.perf_counter()
        client.produce(TOPIC, bytes(100), on_delivery=check)
        while not client.poll(1):
            pass
        times.append(time.perf_counter() - begun)
    return sorted(times[repetitions // 10 :])


def single_records(bootstrap: str, records: int) -> float:
    """Thousands of requests a second, each with one record of 100 B, as many in flight as the client likes."""
    client = producer(bootstrap, **{"linger.ms": 0, "batch.num.messages": 1})
    client.produce(TOPIC, b"warm", on_delivery=check)
    client.flush()
    begun = time.perf_counter()
    for _ in range(records):
        client.produce(TOPIC, bytes(100), on_delivery=check)
        client.poll(0)
    client.flush()
    return records / (time.perf_counter() - begun) / 1e3


def consume(bootstrap: str, size: int, repetitions: int, window: int) -> float:
    """MB/s of values, of the latest records; the connection and the first response are not counted."""
    best = 0.0
    for _ in range(repetitions):
        client = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "bench",
                "enable.auto.commit": False,
                "enable.metrics.push": False,
            }
        )
        low, high = client.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=10)
        client.assign([TopicPartition(TOPIC, 0, max(low, high - window // size))])
        position = client.consume(1, 10)[0].offset() + 1
        begun, left = time.perf_counter(), high - position
        while position < high:
            if batch := client.consume(min(1_000, high - position), 1):
                position = batch[-1].offset() + 1
        best = max(best, left * size / (time.perf_counter() - begun) / 1e6)
        client.close()
    return best


def figures(bootstrap: str, process_id: int | None, scale: int, window: int) -> Figures:
    """One round."""
    produce(bootstrap, 100, 1_000)
    trips = round_trips(bootstrap, scale // 50)
    begun = cpu_seconds(process_id)
    singles = single_records(bootstrap, scale // 15)
    single_cpu = (cpu_seconds(process_id) - begun) * 1e6 / (scale // 15)
    small = produce(bootstrap, 100, scale)
    begun = cpu_seconds(process_id)
    large = produce(bootstrap, 1024, scale)
    cpu = (cpu_seconds(process_id) - begun) * 1e3 / (scale * 1024 / 1e8)
    consumed = consume(bootstrap, 1024, 5, window)
    p50, p99 = (percentile(trips, percent) * 1e6 for percent in (50, 99))
    return Figures(small, large, consumed, singles, p50, p99, cpu, single_cpu)


def best(rounds: list[Figures]) -> Figures:
    """The best of each figure: what else the machine does only ever makes them worse."""
    chosen = {}
    for name in attrs.fields_dict(Figures):
        values = [getattr(one, name) for one in rounds]
        chosen[name] = min(values) if name in LESS_IS_BETTER else max(values)
    return Figures(**chosen)


def compared(
    ours: tuple[str, int], other: tuple[str, int | None], *, scale: int, rounds: int, window: int
) -> tuple[Figures, Figures]:
    """Ours and the other, in turn, so that both see the same machine."""
    results: tuple[list[Figures], list[Figures]] = ([], [])
    for _ in range(rounds):
        for (bootstrap, process_id), found in zip((ours, other), results, strict=True):
            found.append(figures(bootstrap, process_id, scale, window))
    return best(results[0]), best(results[1])


def percentile(ordered: list[float], percent: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def table(rows: list[tuple[int, Figures, Figures]], other: str) -> Table:
    result = Table(
        title=f"confluent-kafka, acks=all; × is the ratio to {other}; CPU for 100 MB, and for a single record"
    )
    result.add_column("brokers")
    headings = ("100 B MB/s", "1 KiB MB/s", "consume MB/s", "1-record k/s", "p50 µs", "p99 µs", "CPU ms", "1-rec. µs")
    for heading in headings:
        result.add_column(heading, justify="right")
        result.add_column("×", justify="right")
    for brokers, ours, others in rows:
        cells = []
        for mine, theirs in zip(attrs.astuple(ours), attrs.astuple(others), strict=True):
            cells += [f"{mine:.0f}", f"{mine / theirs:.2f}" if theirs > 0 else "-"]
        result.add_row(str(brokers), *cells)
    return result


def main(words: Sequence[str] | None = None) -> None:
    if words is None and sys.argv[1:2] == ["--serve-ours"]:
        return trio.run(serve_ours, int(sys.argv[2]), sys.argv[3])
    if words is None and sys.argv[1:2] == ["--serve-mock"]:
        return serve_mock(int(sys.argv[2]))
    memory = MEMORY if os.path.isdir(MEMORY) else tempfile.gettempdir()
    options = parser("broker", __doc__, quick="a sixth of the records, and one round")
    options.add_argument("--data", metavar="DIR", default=memory, help="where our brokers' files are")
    options.add_argument("--against", metavar="HOST:PORT", help="compare with a cluster that is running")
    chosen = options.parse_args(words)
    scale, rounds = (50_000, 1) if chosen.quick else (300_000, 3)
    data, against = chosen.data, chosen.against
    rows = []
    if against is not None:
        with running(against) as brokers, cluster("ours", brokers, data) as ours:
            found = compared(ours, (against, None), scale=scale, rounds=rounds, window=WINDOW)
            rows.append((brokers, *found))
        return Console(width=155).print(table(rows, against))
    for brokers in (1, 3):
        with cluster("mock", brokers, data) as mock, cluster("ours", brokers, data) as ours:
            found = compared(ours, mock, scale=scale, rounds=rounds, window=MOCK_WINDOW)
            rows.append((brokers, *found))
    return Console(width=155).print(table(rows, "librdkafka's mock cluster"))


if __name__ == "__main__":
    main()
