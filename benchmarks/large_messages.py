"""Large messages on a real disk: three brokers, replication factor 3, messages of 500 KB, acks=all.

`python -m benchmarks.large_messages [--quick] [DIRECTORY]` prints two rows and what they are to each other: MB/s of
values that are acknowledged, and MB for each second of CPU of the brokers' process; and the same of a process that does
nothing but receive, check and write the same bytes three times (`bytes_alone`), measured in turn with it. The brokers
run in a process of their own; the client is confluent-kafka in this one. The files are in DIRECTORY, or where temporary
files are; each MB is written three times.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence

import attrs
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from benchmarks.beside import bytes_alone
from benchmarks.broker import cluster, cpu_seconds
from benchmarks.options import parser

SIZE = 500_000
PARTITIONS = 6
ROUNDS = 3
IN_FLIGHT = 200
"""Messages that the client has queued at most."""
FRAMES_IN_FLIGHT = 6
"""Frames on their way to the process that has nothing to do but the bytes: more than it has in hand."""
TOPIC = "large"


def make_topic(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    config = {"min.insync.replicas": "2"}
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3, config=config)])[TOPIC].result(30)


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
    brokers, alone = Rates(), Rates()
    with (
        tempfile.TemporaryDirectory(dir=chosen.directory) as directory,
        cluster("ours", 3, directory) as (bootstrap, process_id),
        bytes_alone.server(chosen.directory) as (connection, alone_id),
    ):
        make_topic(bootstrap)
        for _ in range(ROUNDS):
            before = cpu_seconds(process_id)
            seconds = produce(bootstrap, messages)
            brokers.add(megabytes, seconds, cpu_seconds(process_id) - before)
            before = cpu_seconds(alone_id)
            seconds = bytes_alone.send(connection, SIZE, messages, FRAMES_IN_FLIGHT)
            alone.add(megabytes, seconds, cpu_seconds(alone_id) - before)
    title = "500 KB messages, three brokers, acks=all; the best round"
    table = Table(title, "MB/s", "MB for each CPU second", box=None, pad_edge=False)
    for name, rates in (("the brokers", brokers), ("their bytes alone", alone)):
        table.add_row(name, f"{max(rates.by_wall):.0f}", f"{max(rates.by_cpu):.0f}")
    by_wall, by_cpu = max(brokers.by_wall) / max(alone.by_wall), max(brokers.by_cpu) / max(alone.by_cpu)
    table.add_row("the former in the latter", f"{by_wall:.2f}", f"{by_cpu:.2f}")
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
