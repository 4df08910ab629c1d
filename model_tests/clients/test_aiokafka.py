"""aiokafka: the oldest versions of the protocol that clients still speak."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import MessageSizeTooLargeError, OffsetOutOfRangeError

from tidegauge.model_tests.amounts import crossed
from tidegauge.model_tests.clients.conftest import FreshTopic

SECONDS = 20.0


async def read(bootstrap: str, topic: str, count: int, offset: int = 0) -> list[Any]:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="none")
    await consumer.start()
    try:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek(partition, offset)
        return [await asyncio.wait_for(consumer.getone(), SECONDS) for _ in range(count)]
    finally:
        await consumer.stop()


@pytest.mark.parametrize(("compression", "acks"), crossed([None, "gzip", "snappy", "lz4", "zstd"], ["all", 1]))
def test_what_is_produced_is_consumed(
    bootstrap: str, fresh_topic: FreshTopic, acks: Any, compression: str | None
) -> None:
    topic = fresh_topic()

    async def scenario() -> None:
        config = {"bootstrap_servers": bootstrap, "acks": acks, "compression_type": compression}
        async with AIOKafkaProducer(enable_idempotence=acks == "all", **config) as producer:
            for n in range(50):
                sent = await producer.send_and_wait(topic, b"value %d " % n * 20, key=b"k", partition=0)
                assert sent.offset == n
        records = await read(bootstrap, topic, 50)
        assert [(r.offset, r.value) for r in records] == [(n, b"value %d " % n * 20) for n in range(50)]

    asyncio.run(asyncio.wait_for(scenario(), 3 * SECONDS))


def test_offsets_are_listed(bootstrap: str, fresh_topic: FreshTopic) -> None:
    topic = fresh_topic()

    async def scenario() -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all") as producer:
            await producer.send_and_wait(topic, b"v", partition=0)
        partition = TopicPartition(topic, 0)
        async with AIOKafkaConsumer(bootstrap_servers=bootstrap) as consumer:
            assert await consumer.beginning_offsets([partition]) == {partition: 0}
            assert await consumer.end_offsets([partition]) == {partition: 1}

    asyncio.run(asyncio.wait_for(scenario(), 3 * SECONDS))


def test_what_cannot_be_is_told(bootstrap: str, fresh_topic: FreshTopic) -> None:
    topic = fresh_topic(max_message_bytes=1_000)

    async def scenario() -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            with pytest.raises(MessageSizeTooLargeError):
                await producer.send_and_wait(topic, b"x" * 5_000, partition=0)
        with pytest.raises(OffsetOutOfRangeError):
            await read(bootstrap, topic, 1, offset=99)

    asyncio.run(asyncio.wait_for(scenario(), 3 * SECONDS))


def test_topics_are_made_and_removed(bootstrap: str) -> None:
    name = f"aiokafka-{bootstrap.replace(':', '-').replace(',', '-')}"

    async def scenario() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            await admin.create_topics([NewTopic(name, 2, 1)])
            while [len(t["partitions"]) for t in await admin.describe_topics([name])] != [2]:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
            await admin.delete_topics([name])
            while name in await admin.list_topics():  # noqa: ASYNC110 - brokers learn one after the other
                await asyncio.sleep(0.02)
        finally:
            await admin.close()

    asyncio.run(asyncio.wait_for(scenario(), 3 * SECONDS))
