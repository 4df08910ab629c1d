"""What producers offer besides sending: partitioners, lingering, purging, timeouts, errors of delivery, statistics."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaError
from confluent_kafka import TopicPartition as LibrdkafkaPartition
from kafka import KafkaProducer
from kafka.errors import MessageSizeTooLargeError, NotEnoughReplicasError

from tidegauge import running_cluster
from tidegauge.model_tests.clients.conftest import FreshTopic, eventually
from tidegauge.model_tests.clients.test_confluent import SECONDS, consumed, consumer, produced, producer

KEYS = [b"key-%d" % number for number in range(40)]


def partitions_by_librdkafka(bootstrap: str, topic: str, partitioner: str) -> list[int]:
    client = producer(bootstrap, partitioner=partitioner)
    placed: dict[bytes, int] = {}
    for key in KEYS:
        client.produce(topic, b"v", key=key, on_delivery=lambda e, m: placed.__setitem__(m.key(), m.partition()))
    assert client.flush(SECONDS) == 0
    return [placed[key] for key in KEYS]


def test_keys_go_where_all_clients_agree_that_they_go(bootstrap: str, fresh_topic: FreshTopic) -> None:
    topic = fresh_topic(partitions=5)
    expected = partitions_by_librdkafka(bootstrap, topic, "murmur2")
    assert len(set(expected)) == 5
    by_python = KafkaProducer(bootstrap_servers=bootstrap)
    assert [by_python.send(topic, b"v", key=key).get(SECONDS).partition for key in KEYS] == expected
    by_python.close()

    async def by_aiokafka() -> list[int]:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as client:
            return [(await client.send_and_wait(topic, b"v", key=key)).partition for key in KEYS]

    assert asyncio.run(asyncio.wait_for(by_aiokafka(), 3 * SECONDS)) == expected


@pytest.mark.parametrize("partitioner", ["random", "consistent", "consistent_random", "murmur2_random", "fnv1a"])
def test_every_partitioner_of_librdkafka_is_served(bootstrap: str, fresh_topic: FreshTopic, partitioner: str) -> None:
    topic = fresh_topic(partitions=5)
    assert set(partitions_by_librdkafka(bootstrap, topic, partitioner)) <= set(range(5))


def test_what_lingers_comes_in_one_batch_and_statistics_say_so(bootstrap: str, fresh_topic: FreshTopic) -> None:
    topic = fresh_topic()
    told: list[dict[str, Any]] = []
    client = producer(
        bootstrap,
        linger_ms=60_000,
        batch_num_messages=100,
        statistics_interval_ms=50,
        stats_cb=lambda text: told.append(json.loads(text)),
    )
    assert produced(client, topic, [b"v"] * 100, partition=0) == list(range(100))

    def one_request_was_sent() -> bool:
        client.poll(0.1)
        sent = told[-1]["topics"].get(topic, {}).get("batchcnt", {}) if told else {}
        return bool(
            sent.get("max") == 100 or sum(b["req"].get("Produce", 0) for b in told[-1]["brokers"].values()) == 1
        )

    assert eventually(one_request_was_sent)


def test_what_is_purged_is_told_and_never_comes(bootstrap: str, fresh_topic: FreshTopic) -> None:
    topic = fresh_topic()
    client = producer(bootstrap, linger_ms=60_000)
    reports: list[Any] = []
    for _ in range(5):
        client.produce(topic, b"purged", partition=0, on_delivery=lambda error, _message: reports.append(error.code()))
    client.purge()
    assert client.flush(SECONDS) == 0
    assert reports == [KafkaError._PURGE_QUEUE] * 5
    assert produced(client, topic, [b"kept"], partition=0) == [0]


def test_a_message_for_what_is_not_there_fails(bootstrap: str, fresh_topic: FreshTopic) -> None:
    topic = fresh_topic()
    client = producer(bootstrap)
    assert produced(client, topic, [b"v"], partition=9) == [KafkaError._UNKNOWN_PARTITION]
    assert produced(client, "not/a/topic", [b"v"]) == [KafkaError.TOPIC_EXCEPTION]
    compacted = fresh_topic(cleanup_policy="compact")
    assert produced(client, compacted, [b"no key"], partition=0) == [KafkaError.INVALID_RECORD]


def test_too_few_in_sync_is_told_and_passes() -> None:
    with running_cluster(brokers=2) as cluster:
        bootstrap = str(cluster.bootstrap_servers)
        cluster.create_topic("t", assignments=[[0, 1]], config={"min.insync.replicas": 2})
        assert produced(producer(bootstrap, acks="all"), "t", [b"v"], partition=0) == [0]
        by_python = KafkaProducer(bootstrap_servers=bootstrap, acks="all", retries=0, enable_idempotence=False)
        cluster.crash(1)
        cluster.wait_for_isr("t", {0})
        refused = produced(producer(bootstrap, acks="all", retries=0), "t", [b"v"], partition=0)
        assert refused == [KafkaError.NOT_ENOUGH_REPLICAS]
        with pytest.raises(NotEnoughReplicasError):
            by_python.send("t", b"v", partition=0).get(SECONDS)
        by_python.close()
        assert produced(producer(bootstrap, acks=1), "t", [b"v"], partition=0) == [1]
        cluster.restart(1)
        assert produced(producer(bootstrap, acks="all"), "t", [b"v"], partition=0) == [2]


def test_a_cluster_that_is_silent_is_told_as_a_timeout() -> None:
    with running_cluster(brokers=1) as cluster:
        cluster.create_topic("t")
        client = producer(str(cluster.bootstrap_servers), message_timeout_ms=500)
        assert produced(client, "t", [b"v"], partition=0) == [0]
        cluster.pause(0)
        assert produced(client, "t", [b"v"], partition=0) == [KafkaError._MSG_TIMED_OUT]
        cluster.resume(0)


def test_what_is_too_large_for_the_client_never_leaves_it(bootstrap: str, fresh_topic: FreshTopic) -> None:
    topic = fresh_topic()
    client = KafkaProducer(bootstrap_servers=bootstrap, max_request_size=1_000, linger_ms=5, batch_size=500)
    with pytest.raises(MessageSizeTooLargeError):
        client.send(topic, b"x" * 2_000, partition=0).get(SECONDS)
    futures = [client.send(topic, b"%d" % number, partition=0) for number in range(200)]
    client.flush(SECONDS)
    assert [future.get(0).offset for future in futures] == list(range(200))
    assert client.partitions_for(topic) == {0}
    assert client.metrics()
    client.close()


def test_a_batch_of_aiokafka_is_sent_as_it_was_built(bootstrap: str, fresh_topic: FreshTopic) -> None:
    topic = fresh_topic()

    async def scenario() -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, linger_ms=10, compression_type="gzip") as client:
            batch = client.create_batch()
            while batch.append(key=b"k", value=b"v" * 100, timestamp=None) is not None and batch.record_count() < 50:
                pass
            sent = await client.send_batch(batch, topic, partition=0)
            assert (await asyncio.wait_for(sent, SECONDS)).offset == 0
            await client.flush()

    asyncio.run(asyncio.wait_for(scenario(), 3 * SECONDS))
    reader = consumer(bootstrap)
    assert len(consumed(reader, topic, 50)) == 50
    assert reader.get_watermark_offsets(LibrdkafkaPartition(topic, 0), timeout=SECONDS, cached=False) == (0, 50)
    reader.close()
