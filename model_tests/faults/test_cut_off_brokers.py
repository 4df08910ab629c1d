"""Brokers that are cut off, and a cluster whose brokers are all fenced: real clients go on, over TCP."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer
from kafka import KafkaProducer
from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v5.request import InitProducerIdRequest
from kio.schema.types import TransactionalId

from tidegauge import RunningCluster, running_cluster
from tidegauge.impl.metadata.topic_names import TRANSACTION_STATE
from tidegauge.impl.server.broker import transactions
from tidegauge.impl.wire.codecs import decode_response, encode_request
from tidegauge.impl.wire.primitives import millis

QUICK = {
    "broker.session.timeout.ms": 1_500,
    "broker.heartbeat.interval.ms": 200,
    "replica.lag.time.max.ms": 1_000,
    "transaction.state.log.num.partitions": 1,
}
SECONDS = 40.0
IMPATIENCE_MS = 1_500
"""How long a client waits for a response, before it looks for another broker."""
RECORDS = 4
"""In the coordinator's log, of an id that has had one transaction: it begins, adds, decides, and is complete."""


@pytest.fixture
def cluster() -> Iterator[RunningCluster]:
    with running_cluster(brokers=3, config=QUICK) as made:
        yield made


Write = Callable[[str], None]
"""Carries out a transaction of one record, for this topic."""


@contextmanager
def by_librdkafka(bootstrap: str) -> Iterator[Write]:
    settings = {"transactional.id": "librdkafka", "socket.timeout.ms": IMPATIENCE_MS, "log_level": 0}
    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    producer.init_transactions(SECONDS)

    def write(topic: str) -> None:
        producer.begin_transaction()
        producer.produce(topic, b"", partition=0)
        assert producer.flush(SECONDS) == 0
        producer.commit_transaction(SECONDS)

    yield write


@contextmanager
def by_aiokafka(bootstrap: str) -> Iterator[Write]:
    loop = asyncio.new_event_loop()

    async def begin() -> AIOKafkaProducer:
        settings = {"transactional_id": "aiokafka", "request_timeout_ms": IMPATIENCE_MS}
        made = AIOKafkaProducer(bootstrap_servers=bootstrap, **settings)
        await made.start()
        return made

    producer: Any = loop.run_until_complete(begin())

    def write(topic: str) -> None:
        async def write() -> None:
            async with producer.transaction():
                await producer.send_and_wait(topic, b"", partition=0)

        loop.run_until_complete(asyncio.wait_for(write(), SECONDS))

    yield write
    loop.run_until_complete(producer.stop())
    loop.close()


@contextmanager
def by_kafka_python(bootstrap: str) -> Iterator[Write]:
    settings = {"transactional_id": "kafka-python", "request_timeout_ms": IMPATIENCE_MS, "delivery_timeout_ms": 40_000}
    producer = KafkaProducer(bootstrap_servers=bootstrap, **settings)
    producer.init_transactions()

    def write(topic: str) -> None:
        producer.begin_transaction()
        producer.send(topic, b"", partition=0).get(SECONDS)
        producer.commit_transaction()

    yield write
    producer.close(timeout=1)


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("client", [by_librdkafka, by_aiokafka, by_kafka_python])
def test_a_transaction_goes_on_when_its_partitions_leader_is_cut_off_from_everybody(
    client: Callable[[str], AbstractContextManager[Write]], cluster: RunningCluster
) -> None:
    with client(cluster.bootstrap_servers) as write:
        coordinator = cluster.leader(TRANSACTION_STATE)
        leader, follower = (coordinator + 1) % 3, (coordinator + 2) % 3
        cluster.create_topic("t", assignments=[[leader, follower, coordinator]])
        write("t")
        eventually(lambda: cluster.run(lambda c: c.replica(coordinator, TRANSACTION_STATE).high_watermark) == RECORDS)
        cluster.isolate(leader)
        begun = time.monotonic()
        write("t")
        assert time.monotonic() - begun < SECONDS / 2
        assert cluster.leader("t") != leader
        cluster.heal()


def test_a_coordinator_that_is_cut_off_from_other_brokers_sends_its_clients_to_another_one(
    cluster: RunningCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first request waits for a commit that does not come; the next one is refused for the first one's record."""
    monkeypatch.setattr(transactions, "APPEND_TIMEOUT_MS", 1_000)
    with by_librdkafka(cluster.bootstrap_servers):
        former = cluster.leader(TRANSACTION_STATE)
    others: set[int | str] = {0, 1, 2, "controller"}
    for other in others - {former}:
        cluster.block(former, other)
        cluster.block(other, former)
    address = cluster.run(lambda c: c.broker(former).address)
    request = InitProducerIdRequest(transactional_id=TransactionalId("x"), transaction_timeout=millis(60_000))
    for _ in range(2):
        assert ask(address.host, address.port, request).error_code is ErrorCode.coordinator_not_available


def ask(host: str, port: int, request: Any) -> Any:
    with socket.create_connection((host, port), SECONDS) as connection, connection.makefile("rb") as responses:
        connection.sendall(encode_request(request, 1, "asker"))
        (size,) = struct.unpack(">i", responses.read(4))
        return decode_response(responses.read(size), request.__api_key__, request.__version__).message


def test_a_client_goes_on_after_all_brokers_were_fenced() -> None:
    """Each looks at the metadata meanwhile. Told of no broker, librdkafka would never ask one again."""
    with running_cluster(brokers=3, config={**QUICK, "broker.heartbeat.interval.ms": 1_200}) as cluster:
        cluster.create_topic("t")
        producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "topic.metadata.refresh.interval.ms": 100,
                "linger.ms": 0,
                "log_level": 0,
            }
        )
        for _ in range(5):
            producer.produce("t", b"")
            assert producer.flush(SECONDS / 2) == 0
            for broker in range(3):
                cluster.expire_session(broker)
            time.sleep(0.5)
        producer.produce("t", b"")
        assert producer.flush(SECONDS / 2) == 0
