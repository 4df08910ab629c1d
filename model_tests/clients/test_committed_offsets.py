"""Clients that assign partitions by hand commit offsets, also in transactions."""

from __future__ import annotations

import asyncio
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonPartition
from kafka.structs import OffsetAndMetadata

from tidegauge.model_tests.clients.conftest import FreshTopic, eventually

SECONDS = 20.0
QUICK = {
    "broker.session.timeout.ms": 600,
    "broker.heartbeat.interval.ms": 100,
    "replica.lag.time.max.ms": 1_000,
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
}


def consumer(bootstrap: str, group: str, **settings: Any) -> Consumer:
    """One that assigns partitions, and commits when it is told to."""
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "retry.backoff.ms": 20,
            "log_level": 0,
            **settings,
        }
    )


def told(client: Consumer, topic: str) -> int:
    """The committed offset."""
    (found,) = client.committed([TopicPartition(topic, 0)], timeout=SECONDS)
    return int(found.offset)


# --- commits ---------------------------------------------------------------------------------------------------------


def test_what_one_client_commits_every_other_is_told(bootstrap: str, fresh_topic: FreshTopic) -> None:
    topic = fresh_topic()
    group = f"group-of-{topic}"
    client = consumer(bootstrap, group)
    assert told(client, topic) == -1001, "none"
    client.commit(offsets=[TopicPartition(topic, 0, 3, "so far")], asynchronous=False)
    assert told(client, topic) == 3
    client.close()

    python = KafkaConsumer(bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False)
    place = PythonPartition(topic, 0)
    python.assign([place])
    known = python.committed(place, metadata=True)
    assert (known.offset, known.metadata.rstrip("\0")) == (3, "so far"), (
        "confluent-kafka sends the end of a C string too"
    )
    python.commit({place: OffsetAndMetadata(5, "more", -1)})
    python.close()

    async def aio() -> int:
        reader = AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False)
        await reader.start()
        try:
            reader.assign([AioPartition(topic, 0)])
            found = await reader.committed(AioPartition(topic, 0))
            await reader.commit({AioPartition(topic, 0): 7})
            return int(found)
        finally:
            await reader.stop()

    assert asyncio.run(aio()) == 5
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    (listed,) = (one for one in admin.list_consumer_groups().result().valid if one.group_id == group)
    assert (listed.is_simple_consumer_group, listed.state.name) == (True, "EMPTY")
    wanted = [ConsumerGroupTopicPartitions(group, None)]
    (everything,) = (admin.list_consumer_group_offsets(wanted)[group].result().topic_partitions,)
    assert [(one.topic, one.offset) for one in everything] == [(topic, 7)]
    admin.delete_consumer_groups([group])[group].result()
    again = consumer(bootstrap, group)
    assert told(again, topic) == -1001
    again.close()


# --- transactions ----------------------------------------------------------------------------------------------------


def test_offsets_of_a_transaction_count_when_it_commits(bootstrap: str, fresh_topic: FreshTopic) -> None:
    """kafka-python and aiokafka, each with the generation that a client without a membership sends."""
    topic = fresh_topic()
    group = f"group-of-{topic}"
    reader = consumer(bootstrap, group)
    place = PythonPartition(topic, 0)
    python = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=f"python-{topic}", retry_backoff_ms=20)
    python.init_transactions()
    for offset, commits in ((3, True), (4, False)):
        python.begin_transaction()
        python.send_offsets_to_transaction({place: OffsetAndMetadata(offset, "", -1)}, group)
        (python.commit_transaction if commits else python.abort_transaction)()
    assert eventually(lambda: told(reader, topic) == 3)
    python.close()

    async def aio() -> None:
        writer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=f"aio-{topic}", retry_backoff_ms=20)
        await writer.start()
        try:
            async with writer.transaction():
                await writer.send_and_wait(topic, b"x", partition=0)
                await writer.send_offsets_to_transaction({AioPartition(topic, 0): 9}, group)
        finally:
            await writer.stop()

    asyncio.run(aio())
    assert eventually(lambda: told(reader, topic) == 9)
    reader.close()
