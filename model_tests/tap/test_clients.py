"""Real clients through a tap: their histories hold, and where a cluster does wrong they do not."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from tidegauge import running_cluster
from tidegauge.linearizability.anomaly import Name
from tidegauge.linearizability.history import Kind, Outcome
from tidegauge.linearizability.log import Level
from tidegauge.model_tests.bugs.replication import high_watermark_by_majority
from tidegauge.model_tests.tap.tapped import Tapped, tapped

PATIENCE = 20.0
_numbers = itertools.count()
IMPATIENT = {"broker.session.timeout.ms": 500, "broker.heartbeat.interval.ms": 100}
QUIET = {"log_level": 0, "retry.backoff.ms": 20, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with running_cluster(brokers=3, trace=False) as cluster:
        yield cluster


@pytest.fixture
def topic(cluster: Any) -> str:
    name = f"tapped-{next(_numbers)}"
    cluster.create_topic(name, partitions=2)
    return name


def produce(bootstrap: str, topic: str, count: int, **settings: Any) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, **QUIET, **settings})
    for number in range(count):
        producer.produce(topic, b"%d" % number, key=b"key", headers=[("header", b"value")])
        producer.poll(0)
    assert producer.flush(20) == 0


def consume(bootstrap: str, topic: str, count: int, partitions: int = 2, **settings: Any) -> list[bytes]:
    """Read from the beginning on, without a group."""
    from confluent_kafka import Consumer, TopicPartition

    alone = {"group.id": "none", "enable.auto.commit": False, **QUIET, **settings}
    consumer = Consumer({"bootstrap.servers": bootstrap, **alone})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    found: list[bytes] = []
    deadline = time.monotonic() + PATIENCE
    while len(found) < count and time.monotonic() < deadline:
        found += [message.value() for message in consumer.consume(count - len(found), 0.05) if message.error() is None]
    consumer.close()
    assert len(found) == count, found
    return found


def kinds(recorded: Tapped, kind: Kind, outcome: Outcome = Outcome.OK) -> int:
    operations = recorded.operations
    return int(((operations.kind == kind) & (operations.outcome == outcome)).sum())


@pytest.mark.parametrize(
    "compression", ["none", "zstd", *(pytest.param(name, marks=pytest.mark.deep) for name in ("gzip", "snappy", "lz4"))]
)
def test_what_librdkafka_sends_and_reads_is_one_history_that_holds(
    cluster: Any, topic: str, tmp_path: Path, compression: str
) -> None:
    with tapped(cluster.bootstrap_servers, tmp_path / "tap") as recorded:
        produce(recorded.bootstrap, topic, 20, **{"compression.type": compression})
        consume(recorded.bootstrap, topic, 20)
    assert recorded.resolved.others == 0, "each record that was read is one that was sent"
    operations = recorded.operations
    assert sum(len(row.values) for row in operations if row.kind is Kind.PRODUCE) == 20
    assert sum(len(row.values) for row in operations if row.kind is Kind.FETCH) == 20
    assert recorded.verdicts().valid, recorded.verdicts().anomalies


def test_what_kafka_python_sends_and_reads_is_one_history_that_holds(cluster: Any, topic: str, tmp_path: Path) -> None:
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition

    with tapped(cluster.bootstrap_servers, tmp_path / "tap") as recorded:
        producer = KafkaProducer(bootstrap_servers=recorded.bootstrap)
        for number in range(10):
            producer.send(topic, b"%d" % (number % 3), partition=number % 2)
        producer.flush()
        producer.close()
        consumer = KafkaConsumer(bootstrap_servers=recorded.bootstrap)
        consumer.assign([TopicPartition(topic, 0), TopicPartition(topic, 1)])
        consumer.seek_to_beginning()
        found = 0
        deadline = time.monotonic() + PATIENCE
        while found < 10 and time.monotonic() < deadline:
            found += sum(map(len, consumer.poll(500).values()))
        assert sum(consumer.end_offsets([TopicPartition(topic, 0), TopicPartition(topic, 1)]).values()) == 10
        consumer.close()
    assert recorded.resolved.others == 0
    assert kinds(recorded, Kind.LIST_OFFSETS) == 2
    assert recorded.verdicts().valid, recorded.verdicts().anomalies


def test_what_aiokafka_sends_and_reads_is_one_history_that_holds(cluster: Any, topic: str, tmp_path: Path) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

    async def work(bootstrap: str) -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True) as producer:
            for number in range(10):
                await producer.send_and_wait(topic, b"%d" % number, partition=number % 2)
        async with AIOKafkaConsumer(bootstrap_servers=bootstrap) as consumer:
            consumer.assign([TopicPartition(topic, 0), TopicPartition(topic, 1)])
            await consumer.seek_to_beginning()
            for _ in range(10):
                await consumer.getone()

    with tapped(cluster.bootstrap_servers, tmp_path / "tap") as recorded:
        asyncio.run(work(recorded.bootstrap))
    assert recorded.resolved.others == 0
    assert recorded.verdicts().valid, recorded.verdicts().anomalies


@pytest.mark.parametrize("idempotent", [False, True])
def test_a_batch_that_is_sent_again_is_one_operation_of_an_idempotent_producer_and_two_of_another(
    cluster: Any, topic: str, tmp_path: Path, idempotent: bool
) -> None:
    with tapped(cluster.bootstrap_servers, tmp_path / "tap") as recorded:
        cluster.drop_connections("Produce", topic=topic, carried_out=True)
        produce(recorded.bootstrap, topic, 1, **{"enable.idempotence": idempotent})
        consume(recorded.bootstrap, topic, 1 if idempotent else 2)
    assert kinds(recorded, Kind.PRODUCE) == 1
    assert kinds(recorded, Kind.PRODUCE, Outcome.INFO) == (0 if idempotent else 1)
    assert recorded.resolved.others == 0
    assert recorded.verdicts().valid, recorded.verdicts().anomalies


def test_records_that_others_sent_are_told_apart_unless_there_can_be_none(
    cluster: Any, topic: str, tmp_path: Path
) -> None:
    produce(cluster.bootstrap_servers, topic, 5)
    for alone in (False, True):
        with tapped(cluster.bootstrap_servers, tmp_path / f"tap-{alone}", alone=alone) as recorded:
            produce(recorded.bootstrap, topic, 5)
            consume(recorded.bootstrap, topic, 10 if not alone else 15)
        assert recorded.verdicts().valid is not alone, recorded.verdicts().anomalies
        assert recorded.resolved.others == (5 if not alone else 10)


@pytest.mark.deep
def test_leaders_that_crash_break_no_history(tmp_path: Path) -> None:
    from confluent_kafka import Producer

    with (
        running_cluster(brokers=3, config=IMPATIENT, trace=False) as cluster,
        tapped(cluster.bootstrap_servers, tmp_path / "tap") as recorded,
    ):
        cluster.create_topic("orders", partitions=2)
        producer = Producer({"bootstrap.servers": recorded.bootstrap, "enable.idempotence": True, **QUIET})
        for number in range(60):
            producer.produce("orders", b"%d" % number, partition=number % 2)
            producer.poll(0.005)
            if number == 30:
                cluster.crash(cluster.leader("orders", 0))
        assert producer.flush(30) == 0
        consume(recorded.bootstrap, "orders", 60)
    assert recorded.resolved.others == 0
    assert recorded.verdicts().valid, recorded.verdicts().anomalies


def test_a_record_that_is_committed_by_a_majority_and_lost_is_found_out(tmp_path: Path) -> None:
    """The zoo's high watermark of a majority: who is in the ISR without the records is elected."""
    bug = high_watermark_by_majority.BUG
    with (
        running_cluster(brokers=3, config=IMPATIENT, trace=False, replica_class=bug.roles.replica) as cluster,
        tapped(cluster.bootstrap_servers, tmp_path / "tap") as recorded,
    ):
        cluster.create_topic("orders")
        leader = cluster.leader("orders")
        follower, behind = (broker for broker in range(3) if broker != leader)
        cluster.block(f"broker-{behind}", f"broker-{leader}")
        produce(recorded.bootstrap, "orders", 3, **{"enable.idempotence": True})
        cluster.crash(leader)
        cluster.crash(follower)
        cluster.heal()
        produce(recorded.bootstrap, "orders", 3, **{"enable.idempotence": True})
    found = {anomaly.name for anomaly in recorded.verdicts().anomalies}
    assert {Name.INCONSISTENT_OFFSETS, Name.LOST_WRITE} <= found, found


def test_transactions_are_recorded_with_their_ends(cluster: Any, topic: str, tmp_path: Path) -> None:
    with tapped(cluster.bootstrap_servers, tmp_path / "tap") as recorded:
        transact(recorded.bootstrap, topic)
        assert consume(recorded.bootstrap, topic, 4) == [b"a", b"b", b"e", b"f"]
    for kind, count in ((Kind.COMMIT, 2), (Kind.ABORT, 1), (Kind.PRODUCE, 3)):
        assert kinds(recorded, kind) >= count, kind
    assert recorded.resolved.others == 0
    assert recorded.verdicts().valid, recorded.verdicts().anomalies


def transact(bootstrap: str, topic: str) -> None:
    """Three transactions, of which the second is aborted."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic, **QUIET})
    producer.init_transactions(20)
    for values, ends in (("ab", producer.commit_transaction), ("cd", producer.abort_transaction)):
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value.encode(), partition=0)
        producer.flush(20)
        ends(20)
    producer.begin_transaction()
    producer.produce(topic, b"e", partition=0)
    producer.produce(topic, b"f", partition=0)
    producer.commit_transaction(20)


def test_offsets_that_are_committed_in_a_transaction_are_part_of_it(cluster: Any, topic: str, tmp_path: Path) -> None:
    from confluent_kafka import Consumer, Producer

    with tapped(cluster.bootstrap_servers, tmp_path / "tap") as recorded:
        produce(recorded.bootstrap, topic, 1)
        joins = {"group.id": f"group-{topic}", "auto.offset.reset": "earliest", "enable.auto.commit": False, **QUIET}
        consumer = Consumer({"bootstrap.servers": recorded.bootstrap, **joins})
        consumer.subscribe([topic])
        assert consumer.poll(PATIENCE) is not None
        producer = Producer({"bootstrap.servers": recorded.bootstrap, "transactional.id": topic, **QUIET})
        producer.init_transactions(20)
        for ends in (producer.abort_transaction, producer.commit_transaction):
            producer.begin_transaction()
            producer.produce(topic, b"made of it", partition=1)
            producer.send_offsets_to_transaction(
                consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), 20
            )
            ends(20)
        committed = consumer.committed(consumer.assignment(), 20)
        assert max(one.offset for one in committed) == 1
        consumer.close()
    commits = [row for row in recorded.operations if row.kind is Kind.COMMIT_OFFSETS]
    assert {row.transaction for row in commits} == {0, 1}
    read = [row for row in recorded.operations if row.kind is Kind.READ_OFFSETS and row.found is not None]
    assert {recorded.operations.row(row.found or 0).transaction for row in read} == {1}, "that of the committed one"
    for level in Level:
        assert recorded.verdicts(level).valid, recorded.verdicts(level).anomalies


def test_a_cluster_that_tells_of_no_abort_is_found_out(tmp_path: Path) -> None:
    """What clients are told to leave out is gone from every response."""
    with (
        patch("tidegauge.impl.storage.log_reads.LogReads.aborted_transactions", lambda *_: []),
        running_cluster(brokers=1, trace=False) as cluster,
        tapped(cluster.bootstrap_servers, tmp_path / "tap", alone=False) as recorded,
    ):
        cluster.create_topic("orders")
        transact(recorded.bootstrap, "orders")
        consume(recorded.bootstrap, "orders", 6, partitions=1)
    assert Name.ABORTED_READ in {anomaly.name for anomaly in recorded.verdicts().anomalies}


def consume_in_group(bootstrap: str, topic: str, count: int, **settings: Any) -> None:
    """Be the only member of a group until so many records have come, and commit."""
    from confluent_kafka import Consumer

    joins = {"group.id": f"group-{topic}", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": bootstrap, **joins, **QUIET, **settings})
    consumer.subscribe([topic])
    found = 0
    deadline = time.monotonic() + PATIENCE
    while found < count and time.monotonic() < deadline:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            found += 1
            consumer.commit(message, asynchronous=False)
    consumer.close()
    assert found == count


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_of_a_group_are_recorded(cluster: Any, topic: str, tmp_path: Path, protocol: str) -> None:
    with tapped(cluster.bootstrap_servers, tmp_path / "tap") as recorded:
        produce(recorded.bootstrap, topic, 6)
        consume_in_group(recorded.bootstrap, topic, 6, **{"group.protocol": protocol})
        produce(recorded.bootstrap, topic, 2)
        consume_in_group(recorded.bootstrap, topic, 2, **{"group.protocol": protocol})
    assert kinds(recorded, Kind.ASSIGN) >= 2
    assert kinds(recorded, Kind.COMMIT_OFFSETS) == 8
    reads = [row for row in recorded.operations if row.kind is Kind.READ_OFFSETS]
    assert any(row.found is not None for row in reads), "the second member finds what the first has committed"
    for level in Level:
        assert recorded.verdicts(level).valid, recorded.verdicts(level).anomalies


def test_a_coordinator_that_forgets_what_was_committed_is_found_out(tmp_path: Path) -> None:
    with (
        patch("tidegauge.impl.coordinators.groups.coordinator.GroupCoordinator.fetch", lambda *_, **__: None),
        running_cluster(brokers=1, trace=False) as cluster,
        tapped(cluster.bootstrap_servers, tmp_path / "tap") as recorded,
    ):
        cluster.create_topic("orders")
        produce(recorded.bootstrap, "orders", 1)
        consume_in_group(recorded.bootstrap, "orders", 1)
        consume_in_group(recorded.bootstrap, "orders", 1)
    found = {anomaly.name for anomaly in recorded.verdicts(Level.STRICT).anomalies}
    assert Name.COMMITTED_OFFSET_ORDER in found
