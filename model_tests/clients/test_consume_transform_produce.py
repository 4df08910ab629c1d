"""Real clients copy a topic, each record in a transaction with its offset, while brokers crash: exactly once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from aiokafka.errors import KafkaError as AioError
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonPartition
from kafka.errors import KafkaError as PythonError
from kafka.structs import OffsetAndMetadata

from tidegauge import running_cluster
from tidegauge.model_tests.clients.conftest import eventually
from tidegauge.model_tests.clients.test_committed_offsets import QUICK, SECONDS, consumer, told

RECORDS = 12
STALLED_S = 20.0
"""After so long a process is taken for dead, and another one follows it."""
PROCESSES = 20
Copy = Callable[[str, int], int]
"""A new process: it copies on up to an offset, and returns where it has come to. Raises what its library raises."""


def copy_by_librdkafka(bootstrap: str, until: int) -> int:
    writer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": "librdkafka",
            "transaction.timeout.ms": 10_000,
            "retry.backoff.ms": 20,
            "linger.ms": 0,
            "log_level": 0,
        }
    )
    reader = consumer(bootstrap, "librdkafka")
    try:
        writer.init_transactions(SECONDS)
        position = max(0, told(reader, "input"))
        reader.assign([TopicPartition("input", 0, position)])
        while position < until:
            position = copied_one(writer, reader, position)
        return position
    finally:
        reader.close()


def copied_one(writer: Producer, reader: Consumer, position: int) -> int:
    """One transaction; the next position, which a failure leaves where it was. Each fourth is aborted first."""
    message = reader.poll(SECONDS)
    if message is None or message.error() is not None:
        return position
    assert message.offset() == position
    aborts = position % 4 == 3 and position not in ABORTED
    writer.begin_transaction()
    writer.produce("librdkafka", message.value(), partition=0)
    offsets = [TopicPartition("input", 0, position + 1)]
    writer.send_offsets_to_transaction(offsets, reader.consumer_group_metadata(), SECONDS)
    if aborts:
        ABORTED.add(position)
        writer.abort_transaction(SECONDS)
        assert told(reader, "input") == position
        reader.seek(TopicPartition("input", 0, position))
        return position
    writer.commit_transaction(SECONDS)
    return position + 1


ABORTED: set[int] = set()
"""The positions whose first transaction was aborted."""


def copy_by_kafka_python(bootstrap: str, until: int) -> int:
    """Where its coordinator refuses the connection it forgets the request for good: such a process dies soon."""
    with ExitStack() as closing:
        writer = KafkaProducer(
            bootstrap_servers=bootstrap,
            transactional_id="kafka-python",
            transaction_timeout_ms=10_000,
            retry_backoff_ms=20,
            reconnect_backoff_max_ms=100,
            max_block_ms=5_000,
        )
        closing.callback(writer.close, timeout=0)
        reader = KafkaConsumer(
            bootstrap_servers=bootstrap, group_id="kafka-python", enable_auto_commit=False, reconnect_backoff_max_ms=100
        )
        closing.callback(reader.close)
        place = PythonPartition("input", 0)
        writer.init_transactions()
        reader.assign([place])
        position = reader.committed(place) or 0
        reader.seek(place, position)
        while position < until:
            for record in reader.poll(timeout_ms=1_000, max_records=1).get(place, []):
                assert record.offset == position
                writer.begin_transaction()
                writer.send("kafka-python", record.value, partition=0)
                writer.send_offsets_to_transaction({place: OffsetAndMetadata(position + 1, "", -1)}, "kafka-python")
                writer.commit_transaction()
                position += 1
        return int(position)


def copy_by_aiokafka(bootstrap: str, until: int) -> int:
    async def copy() -> int:
        writer = AIOKafkaProducer(
            bootstrap_servers=bootstrap, transactional_id="aiokafka", transaction_timeout_ms=10_000, retry_backoff_ms=20
        )
        reader = AIOKafkaConsumer(
            bootstrap_servers=bootstrap, group_id="aiokafka", enable_auto_commit=False, retry_backoff_ms=20
        )
        place = AioPartition("input", 0)
        try:
            await writer.start()
            await reader.start()
            reader.assign([place])
            position = await reader.committed(place) or 0
            reader.seek(place, position)
            while position < until:
                record = await reader.getone(place)
                assert record.offset == position
                async with writer.transaction():
                    await writer.send("aiokafka", record.value, partition=0)
                    await writer.send_offsets_to_transaction({place: position + 1}, "aiokafka")
                position += 1
            return int(position)
        finally:
            await writer.stop()
            await reader.stop()

    return asyncio.run(asyncio.wait_for(copy(), STALLED_S))


COPIES: dict[str, Copy] = {
    "librdkafka": copy_by_librdkafka,
    "kafka-python": copy_by_kafka_python,
    "aiokafka": copy_by_aiokafka,
}


def copy_or_die(name: str, bootstrap: str, until: int) -> int | str:
    """Where it has come to, or what it died of."""
    try:
        return COPIES[name](bootstrap, until)
    except (KafkaException, PythonError, AioError, TimeoutError) as error:
        return repr(error)


def copied(name: str, bootstrap: str, until: int, elsewhere: Executor) -> int:
    """Copy on; where a process dies the next one ends what it has begun.

    A producer of kafka-python that cannot send what it has raises when it is closed, and goes on to connect for as
    long as the operating system's process lives: so it has one of its own.
    """
    for _ in range(PROCESSES):
        if name == "kafka-python":
            came = elsewhere.submit(copy_or_die, name, bootstrap, until).result()
        else:
            came = copy_or_die(name, bootstrap, until)
        if isinstance(came, int):
            return came
    raise AssertionError(f"{name} died {PROCESSES} times, the last time of {came}")


def read_committed(bootstrap: str, topic: str) -> list[bytes]:
    """All that read_committed tells."""
    reader = consumer(bootstrap, "readers", **{"isolation.level": "read_committed", "enable.partition.eof": True})
    reader.assign([TopicPartition(topic, 0, 0)])
    values: list[bytes] = []

    def ended() -> bool:
        message = reader.poll(1.0)
        if message is None:
            return False
        if message.error() is None:
            values.append(message.value() or b"")
            return False
        return len(values) >= RECORDS

    assert eventually(ended), values
    reader.close()
    return values


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_every_client_copies_a_topic_exactly_once_while_brokers_crash() -> None:
    """The coordinators' and the leaders' brokers, one after the other."""
    processes = ProcessPoolExecutor(1, get_context("spawn"))
    with processes as elsewhere, running_cluster(brokers=3, config=QUICK) as cluster:
        for topic in ("input", *COPIES):
            cluster.create_topic(topic, replication_factor=3, config={"min.insync.replicas": 2})
        bootstrap = str(cluster.bootstrap_servers)
        source = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
        for number in range(RECORDS):
            source.produce("input", str(number), partition=0)
        assert source.flush(SECONDS) == 0
        for turn in range(3):
            before = {name: copied(name, bootstrap, (turn + 1) * RECORDS // 4, elsewhere) for name in COPIES}
            cluster.crash(turn)
            for name, position in before.items():
                copied(name, bootstrap, min(position + 2, RECORDS), elsewhere)
            cluster.restart(turn)
            for topic in ("input", *COPIES):
                cluster.wait_for_isr(topic, range(3))
        assert {copied(name, bootstrap, RECORDS, elsewhere) for name in COPIES} == {RECORDS}
        expected = [str(number).encode() for number in range(RECORDS)]
        assert {name: read_committed(bootstrap, name) for name in COPIES} == dict.fromkeys(COPIES, expected)
