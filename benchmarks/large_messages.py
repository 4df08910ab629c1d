"""Large messages on a real disk: three brokers, replication factor 3, messages of 500 KB, acks=all.

`python -m benchmarks.large_messages [--quick] [DIRECTORY]` prints MB/s of values that are acknowledged, and MB for each
second of CPU of the brokers: of three brokers in one process, and of three in a process each. Beside them the same of a
process that does nothing but receive, check and write the same bytes three times (`bytes_alone`), and how many times
its CPU the brokers take. All are measured in turn; the client is confluent-kafka in this process. The files are in
DIRECTORY, or where temporary files are; each MB is written three times.

Before each round a file of as many bytes is written there and removed, so that the system has the memory that the
round's files take. A virtual machine that gives free memory back to its host pays for every page that it takes again:
measured here, that was three quarters of all CPU time of the bytes alone, and half of the brokers'.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import attrs
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from benchmarks.beside import bytes_alone
from benchmarks.broker import cluster, cpu_seconds
from benchmarks.options import parser
from tidegauge.impl.cluster.process_cluster import ProcessCluster

SIZE = 500_000
PARTITIONS = 6
ROUNDS = 3
COPIES = 3
IN_FLIGHT = 200
"""Messages that the client has queued at most."""
FRAMES_IN_FLIGHT = 6
"""Frames on their way to the process that has nothing to do but the bytes: more than it has in hand."""
TOPIC = "large"
TOGETHER = "three brokers in one process"
APART = "three brokers in a process each"
ALONE = "their bytes alone"


def make_topic(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    config = {"min.insync.replicas": "2"}
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, COPIES, config=config)])[TOPIC].result(30)


def produce(bootstrap: str, messages: int) -> float:
    """Seconds until all are acknowledged."""
    failures: list[KafkaError] = []

    def acknowledged(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 5, "log_level": 0})
    value, begun = b"x" * SIZE, time.perf_counter()
    for number in range(messages):
        while len(producer) >= IN_FLIGHT:
            producer.poll(0.01)
        producer.produce(TOPIC, value, partition=number % PARTITIONS, callback=acknowledged)
        producer.poll(0)
    producer.flush()
    assert not failures, failures[0]
    return time.perf_counter() - begun


def hold_memory(directory: str | None, megabytes: float) -> None:
    """Have the system hold as much memory as files of this size take in its page cache."""
    with tempfile.TemporaryFile(dir=directory) as file:
        for _ in range(round(megabytes)):
            file.write(b"x" * 1_000_000)


@attrs.frozen
class Rates:
    """MB/s, and MB for each second of CPU, of each round."""

    by_wall: list[float] = attrs.field(factory=list)
    by_cpu: list[float] = attrs.field(factory=list)

    def add(self, megabytes: float, seconds: float, cpu: float) -> None:
        """Note a round."""
        self.by_wall.append(megabytes / seconds)
        self.by_cpu.append(megabytes / cpu)


def main(words: Sequence[str] | None = None) -> None:
    options = parser("large_messages", __doc__, quick="a tenth of the messages")
    options.add_argument("directory", metavar="DIRECTORY", nargs="?", help="where the files are")
    chosen = options.parse_args(words)
    messages = 100 if chosen.quick else 1_000
    megabytes = messages * SIZE / 1e6
    rates = {name: Rates() for name in (TOGETHER, APART, ALONE)}
    with (
        tempfile.TemporaryDirectory(dir=chosen.directory) as directory,
        cluster("ours", 3, directory) as (bootstrap, process_id),
        tempfile.TemporaryDirectory(dir=chosen.directory) as apart_in,
        ProcessCluster(3, {"min.insync.replicas": 2}, directory=Path(apart_in) / "cluster") as apart,
        bytes_alone.server(chosen.directory) as (connection, alone_id),
    ):
        measured = {
            TOGETHER: (partial(produce, bootstrap, messages), [process_id]),
            APART: (partial(produce, apart.bootstrap_servers, messages), [apart.pid(broker) for broker in range(3)]),
            ALONE: (partial(bytes_alone.send, connection, SIZE, messages, FRAMES_IN_FLIGHT), [alone_id]),
        }
        make_topic(bootstrap)
        make_topic(apart.bootstrap_servers)
        for _ in range(ROUNDS):
            for name, (send, process_ids) in measured.items():
                hold_memory(chosen.directory, COPIES * megabytes)
                before = sum(map(cpu_seconds, process_ids))
                seconds = send()
                rates[name].add(megabytes, seconds, sum(map(cpu_seconds, process_ids)) - before)
    title = "500 KB messages, three brokers, acks=all; the best round"
    table = Table(title, "MB/s", "MB for each CPU second", "times their bytes by CPU", box=None, pad_edge=False)
    for name, found in rates.items():
        by_cpu = max(found.by_cpu)
        table.add_row(name, f"{max(found.by_wall):.0f}", f"{by_cpu:.0f}", f"{max(rates[ALONE].by_cpu) / by_cpu:.1f}")
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
