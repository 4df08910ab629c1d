"""Large messages on a real disk: three brokers, replication factor 3, messages of 500 KB, acks=all.

`python -m benchmarks.large_messages [--quick] [DIRECTORY]` prints one row: MB/s of values that are acknowledged, and
the CPU of the brokers' process for 100 MB. The brokers run in a process of their own; the client is confluent-kafka in
this one. The files are in DIRECTORY, or where temporary files are; each MB is written three times.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from benchmarks.broker import cluster, cpu_seconds
from benchmarks.options import parser

SIZE = 500_000
PARTITIONS = 6
ROUNDS = 3
IN_FLIGHT = 200
"""Messages that the client has queued at most."""
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


def main(words: Sequence[str] | None = None) -> None:
    options = parser("large_messages", __doc__, quick="a tenth of the messages")
    options.add_argument("directory", metavar="DIRECTORY", nargs="?", help="where the files are")
    chosen = options.parse_args(words)
    messages = 100 if chosen.quick else 1_000
    with (
        tempfile.TemporaryDirectory(dir=chosen.directory) as directory,
        cluster("ours", 3, directory) as (bootstrap, process_id),
    ):
        make_topic(bootstrap)
        rates, cpu = [], []
        for _ in range(ROUNDS):
            before = cpu_seconds(process_id)
            seconds = produce(bootstrap, messages)
            rates.append(messages * SIZE / seconds / 1e6)
            cpu.append((cpu_seconds(process_id) - before) * 1000 / (messages * SIZE / 1e8))
    table = Table("500 KB messages, three brokers, acks=all", "MB/s", "CPU ms for 100 MB", box=None, pad_edge=False)
    table.add_row("the best round", f"{max(rates):.0f}", f"{min(cpu):.0f}")
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
