"""The native consumer shares a group with consumers of confluent-kafka and kafka-python: each leads in turn."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import trio
from confluent_kafka import Consumer as ConfluentConsumer
from kafka import KafkaConsumer
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from tidegauge import running_cluster
from tidegauge.impl.client.client import Client
from tidegauge.impl.client.consumer import Consumer
from tidegauge.impl.client.consumer_config import CLASSIC, CONSUMER, ConsumerConfig
from tidegauge.impl.ports.clock import SystemClock
from tidegauge.impl.ports.network import Address, TcpNetwork

PATIENCE_S = 60
SETTINGS = {
    "offsets.topic.num.partitions": 1,
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 100,
}


class Other:
    """A consumer of another library, which polls in a thread until it is told to end."""

    def __init__(self, poll: Any, owned: Any, close: Any) -> None:
        self.values: list[bytes] = []
        self.owned: set[int] = set()
        self._poll, self._owned, self._close = poll, owned, close
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._ends.is_set():
            self.values += self._poll()
            self.owned = self._owned()
        self._close()

    def close(self) -> None:
        self._ends.set()
        self._thread.join()


@contextmanager
def confluent(bootstrap: str, assignor: str) -> Iterator[Other]:
    consumer = ConfluentConsumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "log_level": 0,
            **(
                {"group.protocol": "consumer"}
                if assignor == CONSUMER
                else {
                    "partition.assignment.strategy": assignor,
                    "heartbeat.interval.ms": 100,
                    "session.timeout.ms": 6_000,
                }
            ),
        }
    )
    consumer.subscribe(["t"])

    def poll() -> list[bytes]:
        message = consumer.poll(0.05)
        return [] if message is None or message.error() else [message.value() or b""]

    other = Other(poll, lambda: {one.partition for one in consumer.assignment()}, consumer.close)
    try:
        yield other
    finally:
        other.close()


@contextmanager
def kafka_python(bootstrap: str, assignor: str) -> Iterator[Other]:
    consumer = KafkaConsumer(
        "t",
        bootstrap_servers=bootstrap,
        group_id="g",
        auto_offset_reset="earliest",
        partition_assignment_strategy=[StickyPartitionAssignor],
        heartbeat_interval_ms=100,
        session_timeout_ms=6_000,
    )

    def poll() -> list[bytes]:
        return [record.value for records in consumer.poll(50).values() for record in records]

    other = Other(poll, lambda: {one.partition for one in consumer.assignment()}, consumer.close)
    try:
        yield other
    finally:
        other.close()


@pytest.mark.parametrize(
    ("library", "assignor"),
    [(confluent, "range"), (confluent, "cooperative-sticky"), (kafka_python, "sticky"), (confluent, CONSUMER)],
    ids=["confluent-range", "confluent-cooperative", "kafka-python-sticky", "confluent-consumer"],
)
def test_members_of_two_libraries_share_and_each_leads(library: Any, assignor: str) -> None:
    with running_cluster(config=SETTINGS) as cluster:
        cluster.create_topic("t", partitions=4)
        trio.run(share_in_turn, str(cluster.bootstrap_servers), library, assignor)


async def share_in_turn(bootstrap: str, library: Any, assignor: str) -> None:
    """The native member leads, since it is first, and then the other one does."""
    config = ConsumerConfig(
        group_id="g",
        auto_offset_reset="earliest",
        group_protocol=CONSUMER if assignor == CONSUMER else CLASSIC,
        partition_assignment_strategy=("range" if assignor == CONSUMER else assignor,),
        heartbeat_interval_ms=100,
        session_timeout_ms=6_000,
    )
    host, _, port = bootstrap.partition(":")
    async with Client(TcpNetwork(), [Address(host, int(port))], SystemClock()) as client:
        values: list[bytes] = []
        async with Consumer(client, config) as first:
            await first.subscribe(["t"])
            await read_until(first, values, lambda: len(first.assignment) == 4)
            await send(client)
            await read_until(first, values, lambda: len(values) == 4)
            with library(bootstrap, assignor) as other:
                await read_until(first, values, lambda: shared(first, other))
                await send(client)
                await read_until(first, values, lambda: len(values) + len(other.values) == 8)
                await first.unsubscribe()
                await wait_until(lambda: len(other.owned) == 4)
                await first.subscribe(["t"])
                await read_until(first, values, lambda: shared(first, other))
                await send(client)
                await read_until(first, values, lambda: len(values) + len(other.values) == 12)
        assert sorted(values + other.values) == sorted([b"0", b"1", b"2", b"3"] * 3), "nothing twice"


def shared(consumer: Consumer, other: Other) -> bool:
    """Whether each has half of it."""
    own = {number for _, number in consumer.assignment}
    return len(own) == len(other.owned) == 2 and not own & other.owned


async def wait_until(true: Callable[[], bool]) -> None:
    with trio.fail_after(PATIENCE_S):
        while not true():  # noqa: ASYNC110 - another library's thread says so
            await trio.sleep(0.05)


async def read_until(consumer: Consumer, values: list[bytes], true: Callable[[], bool]) -> None:
    with trio.fail_after(PATIENCE_S):
        while not true():
            values += [record.value or b"" for record in await consumer.poll(50)]


async def send(client: Client) -> None:
    """One record into each partition."""
    for number in range(4):
        await client.produce("t", b"%d" % number, partition=number)
