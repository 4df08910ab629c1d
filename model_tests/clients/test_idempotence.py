"""confluent-kafka (librdkafka) with enable.idempotence: acknowledged once, in the log once, in order."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from tidegauge import running_cluster
from tidegauge.model_tests.clients.conftest import FreshTopic
from tidegauge.model_tests.clients.test_confluent import SECONDS, consumed, consumer

QUICK = {"broker.session.timeout.ms": 600, "broker.heartbeat.interval.ms": 100, "replica.lag.time.max.ms": 1_000}


def idempotent(bootstrap: str, **config: Any) -> Producer:
    named = {name.replace("_", "."): value for name, value in config.items()}
    return Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0, **named})


def reports_of(client: Producer, topic: str, values: list[bytes], *, pause: float = 0.0) -> list[tuple[Any, int]]:
    """(error, offset) of each value's delivery report, in the order of the values."""
    reports: dict[bytes, tuple[Any, int]] = {}
    for value in values:
        client.produce(
            topic, value, partition=0, on_delivery=lambda e, m: reports.__setitem__(m.value(), (e, m.offset()))
        )
        client.poll(pause)
    assert client.flush(SECONDS) == 0
    return [reports[value] for value in values]


@pytest.mark.parametrize("config", [{}, {"linger_ms": 0, "batch_num_messages": 1}], ids=["batches", "one by one"])
def test_an_idempotent_producer_is_served(bootstrap: str, fresh_topic: FreshTopic, config: dict[str, Any]) -> None:
    topic = fresh_topic()
    values = [b"%d" % number for number in range(200)]
    reports = reports_of(idempotent(bootstrap, **config), topic, values)
    assert reports == [(None, offset) for offset in range(200)]
    reader = consumer(bootstrap)
    assert [message.value() for message in consumed(reader, topic, 200)] == values
    reader.close()


def test_two_producers_do_not_get_in_each_others_way(bootstrap: str, fresh_topic: FreshTopic) -> None:
    topic = fresh_topic()
    one, other = idempotent(bootstrap), idempotent(bootstrap)
    for number in range(5):
        assert reports_of(one, topic, [b"a%d" % number]) == [(None, 2 * number)]
        assert reports_of(other, topic, [b"b%d" % number]) == [(None, 2 * number + 1)]


def test_a_producer_outlives_its_topic(cluster: Any, bootstrap: str, fresh_topic: FreshTopic) -> None:
    """As with Kafka 4.3: it goes on with its sequences in a topic of the same name."""
    topic = fresh_topic()
    client = idempotent(bootstrap)
    assert reports_of(client, topic, [b"1", b"2"]) == [(None, 0), (None, 1)]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([topic])[topic].result()
    cluster.create_topic(topic, partitions=1)
    assert reports_of(client, topic, [b"3", b"4"]) == [(None, 0), (None, 1)]


def test_leaders_that_crash_in_mid_stream_double_and_lose_nothing() -> None:
    with running_cluster(brokers=3, config=QUICK) as cluster:
        cluster.create_topic("t", partitions=1, replication_factor=3, config={"min.insync.replicas": 2})

        def crash_leaders() -> None:
            for _ in range(2):
                time.sleep(0.7)
                leader = cluster.leader("t", 0)
                cluster.crash(leader)
                time.sleep(0.9)
                cluster.restart(leader)

        faults = threading.Thread(target=crash_leaders)
        faults.start()
        values = [b"%d" % number for number in range(1_500)]
        client = idempotent(str(cluster.bootstrap_servers), linger_ms=1, retry_backoff_ms=50)
        reports = reports_of(client, "t", values, pause=0.002)
        faults.join()
        assert [error for error, _ in reports if error is not None] == []
        reader = consumer(str(cluster.bootstrap_servers))
        found = [message.value() for message in consumed(reader, "t", len(values))]
        reader.close()
        assert found == values
        assert [offset for _, offset in reports] == list(range(len(values)))
