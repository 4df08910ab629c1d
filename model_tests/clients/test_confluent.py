"""confluent-kafka (librdkafka)."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec, ResourceType
from confluent_kafka.cimpl import NewPartitions, NewTopic

from tidegauge.model_tests.amounts import crossed
from tidegauge.model_tests.clients.conftest import FreshTopic, eventually

SECONDS = 20.0


def producer(bootstrap: str, **config: Any) -> Producer:
    named = {name if name.endswith("_cb") else name.replace("_", "."): value for name, value in config.items()}
    return Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "log_level": 0, **named})


def consumer(bootstrap: str, **config: Any) -> Consumer:
    named = {name if name.endswith("_cb") else name.replace("_", "."): value for name, value in config.items()}
    defaults = {"group.id": "none", "enable.auto.commit": False, "auto.offset.reset": "error", "log_level": 0}
    return Consumer({"bootstrap.servers": bootstrap, **defaults, **named})


def produced(client: Producer, topic: str, values: list[Any], **named: Any) -> list[Any]:
    """Send each; returns what the delivery reports say: offsets, or error codes."""
    reports: list[Any] = []
    for value in values:
        client.produce(topic, value, on_delivery=lambda e, m: reports.append(e.code() if e else m.offset()), **named)
    assert client.flush(SECONDS) == 0
    return reports


def consumed(client: Consumer, topic: str, count: int, offset: int = OFFSET_BEGINNING, partition: int = 0) -> list[Any]:
    client.assign([TopicPartition(topic, partition, offset)])
    messages: list[Any] = []
    deadline = time.monotonic() + SECONDS
    while len(messages) < count and time.monotonic() < deadline:
        messages += client.consume(count - len(messages), 0.2)
    assert [m.error() for m in messages if m.error()] == []
    return messages


@pytest.mark.parametrize(("compression", "acks"), crossed(["none", "gzip", "snappy", "lz4", "zstd"], ["all", "1"]))
def test_what_is_produced_is_consumed(bootstrap: str, fresh_topic: FreshTopic, acks: str, compression: str) -> None:
    topic = fresh_topic()
    values = [b"value %d " % n * 20 for n in range(300)]
    client = producer(bootstrap, acks=acks, compression_type=compression)
    assert produced(client, topic, values, partition=0) == list(range(300))
    reader = consumer(bootstrap)
    messages = consumed(reader, topic, 300)
    assert [(m.offset(), m.value()) for m in messages] == list(enumerate(values))
    assert reader.get_watermark_offsets(TopicPartition(topic, 0), timeout=SECONDS, cached=False) == (0, 300)
    reader.close()


def test_an_idempotent_producer_is_served(bootstrap: str, fresh_topic: FreshTopic) -> None:
    topic = fresh_topic(partitions=2)
    client = producer(bootstrap, enable_idempotence=True)
    assert sorted(produced(client, topic, [b"x"] * 50, partition=1)) == list(range(50))


def test_produce_without_acknowledgement(bootstrap: str, fresh_topic: FreshTopic) -> None:
    topic = fresh_topic()
    produced(producer(bootstrap, acks=0), topic, [b"a", b"b"], partition=0)
    reader = consumer(bootstrap)
    assert [m.value() for m in consumed(reader, topic, 2)] == [b"a", b"b"]
    reader.close()


def test_keys_headers_timestamps_and_tombstones_come_back(bootstrap: str, fresh_topic: FreshTopic) -> None:
    topic = fresh_topic()
    client = producer(bootstrap)
    now = int(time.time() * 1000)
    client.produce(topic, b"v", key=b"k", headers=[("h", b"1"), ("h", None)], timestamp=now - 5_000, partition=0)
    client.produce(topic, None, key=b"k", timestamp=now, partition=0)
    assert client.flush(SECONDS) == 0
    reader = consumer(bootstrap)
    first, second = consumed(reader, topic, 2)
    assert (first.key(), first.value(), first.headers()) == (b"k", b"v", [("h", b"1"), ("h", None)])
    assert (first.timestamp()[1], second.timestamp()[1]) == (now - 5_000, now)
    assert second.value() is None
    found = reader.offsets_for_times([TopicPartition(topic, 0, now - 1_000)], timeout=SECONDS)
    assert found[0].offset == 1
    reader.close()


def test_a_topic_may_have_the_time_of_its_appends(bootstrap: str, fresh_topic: FreshTopic) -> None:
    topic = fresh_topic(message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000)
    client = producer(bootstrap)
    client.produce(topic, b"v", timestamp=1_000, partition=0)
    assert client.flush(SECONDS) == 0
    reader = consumer(bootstrap)
    (message,) = consumed(reader, topic, 1)
    kind, timestamp = message.timestamp()
    assert (kind, timestamp >= before) == (2, True)
    reader.close()


def test_a_consumer_begins_where_it_is_told(bootstrap: str, fresh_topic: FreshTopic) -> None:
    topic = fresh_topic()
    produced(producer(bootstrap), topic, [b"%d" % n for n in range(10)], partition=0)
    reader = consumer(bootstrap, auto_offset_reset="latest")
    assert [m.offset() for m in consumed(reader, topic, 3, offset=7)] == [7, 8, 9]
    assert [m.offset() for m in consumed(reader, topic, 10)] == list(range(10))
    reader.assign([TopicPartition(topic, 0, OFFSET_END)])
    assert reader.consume(1, 0.5) == []
    reader.close()


def test_an_offset_beyond_the_end_is_told(bootstrap: str, fresh_topic: FreshTopic) -> None:
    topic = fresh_topic()
    reader = consumer(bootstrap, auto_offset_reset="error")
    reader.assign([TopicPartition(topic, 0, 99)])
    deadline = time.monotonic() + SECONDS
    messages: list[Any] = []
    while not messages and time.monotonic() < deadline:
        messages = reader.consume(1, 0.5)
    assert messages[0].error().code() == KafkaError._AUTO_OFFSET_RESET
    reader.close()


def test_a_message_that_is_too_large_is_refused(bootstrap: str, fresh_topic: FreshTopic) -> None:
    topic = fresh_topic(max_message_bytes=1_000)
    assert produced(producer(bootstrap), topic, [b"x" * 5_000], partition=0) == [KafkaError.MSG_SIZE_TOO_LARGE]


def test_topics_are_made_grown_described_and_removed(bootstrap: str, cluster: Any) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    name = f"admin-{id(cluster)}"
    factor = len(admin.list_topics(timeout=SECONDS).brokers)
    new = NewTopic(name, 2, factor, config={"retention.ms": "1000"})
    admin.create_topics([new])[name].result(SECONDS)
    with pytest.raises(Exception, match="TOPIC_ALREADY_EXISTS"):
        admin.create_topics([new])[name].result(SECONDS)
    admin.create_partitions([NewPartitions(name, 4)])[name].result(SECONDS)
    assert eventually(lambda: len(admin.list_topics(name, timeout=SECONDS).topics[name].partitions) == 4)
    found = admin.list_topics(name, timeout=SECONDS).topics[name]
    assert all(len(partition.replicas) == factor for partition in found.partitions.values())
    resource = ConfigResource(ResourceType.TOPIC, name)
    configs = admin.describe_configs([resource])[resource].result(SECONDS)
    assert configs["retention.ms"].value == "1000"
    admin.delete_topics([name])[name].result(SECONDS)
    assert eventually(lambda: name not in admin.list_topics(timeout=SECONDS).topics)


def test_the_admin_client_lists_offsets_and_deletes_records(bootstrap: str, fresh_topic: FreshTopic) -> None:
    topic = fresh_topic()
    produced(producer(bootstrap), topic, [b"%d" % n for n in range(10)], partition=0)
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    partition = TopicPartition(topic, 0)
    for spec, offset in ((OffsetSpec.earliest(), 0), (OffsetSpec.latest(), 10), (OffsetSpec.max_timestamp(), None)):
        listed = admin.list_offsets({partition: spec})[partition].result(SECONDS)
        assert offset in (None, listed.offset)
    deleted = admin.delete_records([TopicPartition(topic, 0, 4)])[TopicPartition(topic, 0, 4)].result(SECONDS)
    assert deleted.low_watermark == 4
    assert admin.list_offsets({partition: OffsetSpec.earliest()})[partition].result(SECONDS).offset == 4


def test_the_cluster_is_described(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    described = admin.describe_cluster(request_timeout=SECONDS).result(SECONDS)
    assert sorted(node.id for node in described.nodes) == list(range(len(described.nodes)))
    assert described.controller.id in {node.id for node in described.nodes}
