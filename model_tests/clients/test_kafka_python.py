"""kafka-python."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic
from kafka.errors import MessageSizeTooLargeError, OffsetOutOfRangeError, TopicAlreadyExistsError

from tidegauge.model_tests.amounts import crossed
from tidegauge.model_tests.clients.conftest import FreshTopic, eventually

SECONDS = 20.0


@pytest.fixture
def admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield client
    client.close()


def read(bootstrap: str, topic: str, count: int, offset: int = 0, **config: Any) -> list[Any]:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=None, auto_offset_reset="none", **config)
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek(partition, offset)
    records: list[Any] = []
    deadline = time.monotonic() + SECONDS
    try:
        while len(records) < count and time.monotonic() < deadline:
            records += consumer.poll(200).get(partition, [])
    finally:
        consumer.close()
    return records


def test_the_release_is_recognised(bootstrap: str) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    assert producer.config["api_version"] == (4, 3)
    producer.close()


@pytest.mark.parametrize(("compression", "acks"), crossed([None, "gzip", "snappy", "lz4", "zstd"], ["all", 1]))
def test_what_is_produced_is_consumed(
    bootstrap: str, fresh_topic: FreshTopic, acks: Any, compression: str | None
) -> None:
    topic = fresh_topic()
    producer = KafkaProducer(
        bootstrap_servers=bootstrap, acks=acks, compression_type=compression, enable_idempotence=acks == "all"
    )
    futures = [producer.send(topic, b"value %d " % n * 20, key=b"k", partition=0) for n in range(100)]
    assert [future.get(SECONDS).offset for future in futures] == list(range(100))
    producer.close()
    records = read(bootstrap, topic, 100)
    assert [(r.offset, r.value) for r in records] == [(n, b"value %d " % n * 20) for n in range(100)]


def test_headers_timestamps_and_tombstones_come_back(bootstrap: str, fresh_topic: FreshTopic) -> None:
    topic = fresh_topic()
    now = int(time.time() * 1000)
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    producer.send(topic, b"v", headers=[("h", b"1")], timestamp_ms=now - 9, partition=0).get(SECONDS)
    producer.send(topic, None, key=b"k", timestamp_ms=now, partition=0).get(SECONDS)
    producer.close()
    first, second = read(bootstrap, topic, 2)
    assert (first.value, list(first.headers), first.timestamp) == (b"v", [("h", b"1")], now - 9)
    assert (second.key, second.value, second.timestamp) == (b"k", None, now)


def test_offsets_are_listed_by_time(bootstrap: str, fresh_topic: FreshTopic) -> None:
    topic = fresh_topic()
    now = int(time.time() * 1000)
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for age in (3_000, 2_000, 1_000):
        producer.send(topic, b"v", timestamp_ms=now - age, partition=0).get(SECONDS)
    producer.close()
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=None)
    partition = TopicPartition(topic, 0)
    assert consumer.beginning_offsets([partition]) == {partition: 0}
    assert consumer.end_offsets([partition]) == {partition: 3}
    assert consumer.offsets_for_times({partition: now - 2_500})[partition].offset == 1
    consumer.close()


def test_an_offset_outside_the_log_is_told(bootstrap: str, fresh_topic: FreshTopic) -> None:
    topic = fresh_topic()
    with pytest.raises(OffsetOutOfRangeError):
        read(bootstrap, topic, 1, offset=99)


def test_a_message_that_is_too_large_is_refused(bootstrap: str, fresh_topic: FreshTopic) -> None:
    topic = fresh_topic(max_message_bytes=1_000)
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    with pytest.raises(MessageSizeTooLargeError):
        producer.send(topic, b"x" * 5_000, partition=0).get(SECONDS)
    producer.close()


def test_topics_are_made_grown_and_removed(admin: KafkaAdminClient, bootstrap: str) -> None:
    name = f"kafka-python-{bootstrap.replace(':', '-').replace(',', '-')}"
    admin.create_topics([NewTopic(name, 2, 1)])
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([NewTopic(name, 2, 1)])
    admin.create_partitions({name: NewPartitions(4)})
    assert eventually(lambda: len(admin.describe_topics([name])[0]["partitions"]) == 4)
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, {"retention.ms": "5000"})])
    told = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)])
    assert "5000" in str(told)
    admin.delete_topics([name])
    assert eventually(lambda: name not in admin.list_topics())
