"""Transactions of real clients: commit, abort, a zombie that is fenced, what read_committed returns, crashes meanwhile.

librdkafka adds partitions itself and keeps its epoch (version 1 of the protocol). A consumer is assigned its
partitions.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as LibrdkafkaPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonPartition
from kio.schema.errors import ErrorCode
from kio.schema.update_features.v2.request import FeatureUpdateKey, UpdateFeaturesRequest

from tidegauge import running_cluster
from tidegauge.impl.wire.apis import ApiKey
from tidegauge.impl.wire.codecs import decode_response, encode_request
from tidegauge.impl.wire.primitives import i8, i16, millis
from tidegauge.model_tests.clients.conftest import FreshTopic, eventually
from tidegauge.model_tests.clients.test_confluent import SECONDS

_numbers = itertools.count()
UPGRADE, SAFE_DOWNGRADE = 1, 2
QUICK = {"broker.session.timeout.ms": 1_500, "broker.heartbeat.interval.ms": 200, "replica.lag.time.max.ms": 1_000}
"""A broker that crashed is missed soon, and one on a slow machine is not."""


class Confluent:
    """A transactional producer of librdkafka."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self.client = Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 0, "retry.backoff.ms": 20}
        )
        self.client.init_transactions(SECONDS)

    def write(self, topic: str, values: list[bytes], *, commit: bool) -> None:
        self.client.begin_transaction()
        for value in values:
            self.client.produce(topic, value, partition=0)
        if commit:
            self.client.commit_transaction(SECONDS)
        else:
            self.client.flush(SECONDS)
            self.client.abort_transaction(SECONDS)

    def close(self) -> None:
        with suppress(KafkaException):  # a fenced one says so once more, if it has not yet
            self.client.flush(0)

    @staticmethod
    def read(bootstrap: str, topic: str) -> list[bytes]:
        """What read_committed returns up to the end that there is now."""
        client = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "g",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "enable.auto.commit": False,
            }
        )
        client.assign([LibrdkafkaPartition(topic, 0, 0)])
        values = []
        while (message := client.poll(SECONDS)) is not None and message.error() is None:
            values.append(message.value())
        client.close()
        return values


class KafkaPython:
    """One of kafka-python."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self.client = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=name, retry_backoff_ms=20)
        self.client.init_transactions()

    def write(self, topic: str, values: list[bytes], *, commit: bool) -> None:
        self.client.begin_transaction()
        for value in values:
            self.client.send(topic, value, partition=0)
        if commit:
            self.client.commit_transaction()
        else:
            self.client.flush(SECONDS)
            self.client.abort_transaction()

    def close(self) -> None:
        self.client.close(timeout=1)

    @staticmethod
    def read(bootstrap: str, topic: str) -> list[bytes]:
        client = KafkaConsumer(bootstrap_servers=bootstrap, isolation_level="read_committed", consumer_timeout_ms=300)
        partition = PythonPartition(topic, 0)
        client.assign([partition])
        client.seek_to_beginning(partition)
        values = [record.value for record in client]
        client.close()
        return values


class AioKafka:
    """One of aiokafka."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self.loop = asyncio.new_event_loop()

        async def start() -> AIOKafkaProducer:
            client = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=name, retry_backoff_ms=20)
            await client.start()
            return client

        self.client = self.loop.run_until_complete(start())

    def write(self, topic: str, values: list[bytes], *, commit: bool) -> None:
        async def write() -> None:
            await self.client.begin_transaction()
            for value in values:
                await self.client.send_and_wait(topic, value, partition=0)
            await (self.client.commit_transaction() if commit else self.client.abort_transaction())

        self.loop.run_until_complete(asyncio.wait_for(write(), SECONDS))

    def close(self) -> None:
        self.loop.run_until_complete(self.client.stop())
        self.loop.close()

    @staticmethod
    def read(bootstrap: str, topic: str) -> list[bytes]:
        async def read() -> list[bytes]:
            client = AIOKafkaConsumer(bootstrap_servers=bootstrap, isolation_level="read_committed")
            await client.start()
            partition = AioPartition(topic, 0)
            client.assign([partition])
            await client.seek_to_beginning(partition)
            records = await client.getmany(partition, timeout_ms=500)
            await client.stop()
            return [record.value for record in records.get(partition, [])]

        return asyncio.run(asyncio.wait_for(read(), SECONDS))


CLIENTS: list[Any] = [Confluent, KafkaPython, AioKafka]
each = pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.__name__)


@contextmanager
def producing(client: Any, bootstrap: str, name: str) -> Iterator[Any]:
    producer = client(bootstrap, name)
    try:
        yield producer
    finally:
        producer.close()


@each
def test_what_is_committed_is_read_and_a_zombie_is_fenced(client: Any, bootstrap: str, fresh_topic: FreshTopic) -> None:
    topic, name = fresh_topic(), f"tx-{next(_numbers)}"
    with producing(client, bootstrap, name) as zombie:
        zombie.write(topic, [b"1", b"2"], commit=True)
        zombie.write(topic, [b"3"], commit=False)
        with producing(client, bootstrap, name) as young:
            young.write(topic, [b"4"], commit=True)
            with pytest.raises(Exception, match=r"(?i)fenced|epoch"):
                zombie.write(topic, [b"5"], commit=True)
            assert eventually(lambda: client.read(bootstrap, topic) == [b"1", b"2", b"4"])


def test_clients_go_on_where_the_level_of_transactions_changes_between_two_of_them() -> None:
    """From 2 down to 0 and up again, under the same producers: of version 1 all three."""
    with running_cluster() as cluster:
        bootstrap = cluster.bootstrap_servers
        for client in CLIENTS:
            cluster.create_topic(client.__name__)
        producers = [client(bootstrap, client.__name__) for client in CLIENTS]
        expected: list[bytes] = []
        for level, upgrade in ((1, SAFE_DOWNGRADE), (0, SAFE_DOWNGRADE), (1, UPGRADE), (2, UPGRADE)):
            set_transaction_version(bootstrap, level, upgrade)
            expected.append(b"%d, %d" % (level, upgrade))
            for producer in producers:
                producer.write(type(producer).__name__, [b"aborted"], commit=False)
                producer.write(type(producer).__name__, expected[-1:], commit=True)
        for producer in producers:
            producer.close()
        for client in CLIENTS:
            assert eventually(partial(has_read, client, bootstrap, expected)), client.__name__


def set_transaction_version(bootstrap: str, level: int, upgrade: int) -> None:
    """What `kafka-features` asks for; no library has it in its public interface."""
    update = FeatureUpdateKey(feature="transaction.version", max_version_level=i16(level), upgrade_type=i8(upgrade))
    request = UpdateFeaturesRequest(timeout=millis(10_000), feature_updates=(update,))
    host, port = bootstrap.split(":")
    with socket.create_connection((host, int(port)), SECONDS) as connection, connection.makefile("rb") as responses:
        connection.sendall(encode_request(request, 1, "operator"))
        (size,) = struct.unpack(">i", responses.read(4))
        response: Any = decode_response(responses.read(size), ApiKey.UPDATE_FEATURES, 2).message
    assert response.error_code is ErrorCode.none, response


def test_transactions_go_on_through_the_crash_of_every_broker() -> None:
    """kafka-python is left out: where its coordinator refuses the connection, it forgets the request for good."""
    clients: list[Any] = [Confluent, AioKafka]
    with running_cluster(brokers=3, config=QUICK) as cluster:
        bootstrap = cluster.bootstrap_servers
        for client in clients:
            cluster.create_topic(client.__name__, replication_factor=3)
        producers = [client(bootstrap, client.__name__) for client in clients]
        expected: list[bytes] = []
        for broker in range(3):
            for producer in producers:
                producer.write(type(producer).__name__, [b"%d before" % broker], commit=True)
                producer.write(type(producer).__name__, [b"aborted"], commit=False)
            cluster.crash(broker)
            for producer in producers:
                producer.write(type(producer).__name__, [b"%d after" % broker], commit=True)
            cluster.restart(broker)
            for client in clients:
                cluster.wait_for_isr(client.__name__, range(3))
            expected += [b"%d before" % broker, b"%d after" % broker]
        for producer in producers:
            producer.close()
        for client in clients:
            assert eventually(partial(has_read, client, bootstrap, expected)), client.__name__


def has_read(client: Any, bootstrap: str, expected: list[bytes]) -> bool:
    values: list[bytes] = client.read(bootstrap, client.__name__)
    return values == expected
