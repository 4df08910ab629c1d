"""The admin clients of confluent-kafka and kafka-python: configurations, quotas, groups and what a cluster is like."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ResourceType,
)
from kafka import KafkaAdminClient

from tidegauge.model_tests.clients.conftest import FreshTopic

SECONDS = 20.0


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


def alter(admin: AdminClient, resource: ConfigResource) -> None:
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(SECONDS)


def configs_of(admin: AdminClient, kind: ResourceType, name: str) -> dict[str, ConfigEntry]:
    described: dict[str, ConfigEntry]
    for future in admin.describe_configs([ConfigResource(kind, name)]).values():
        described = future.result(SECONDS)
    return described


def test_configurations_are_altered_and_described(admin: AdminClient, fresh_topic: FreshTopic) -> None:
    topic = fresh_topic()
    entry = ConfigEntry("retention.ms", "1234", incremental_operation=AlterConfigOpType.SET)
    append = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND)
    alter(admin, ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry, append]))
    deadline = time.monotonic() + SECONDS
    while (configs := configs_of(admin, ResourceType.TOPIC, topic))["retention.ms"].value != "1234":
        assert time.monotonic() < deadline, "the brokers never learned of the setting"
    assert configs["retention.ms"].source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    assert configs["cleanup.policy"].value == "delete,compact"
    assert configs["flush.ms"].is_default
    source = configs["min.insync.replicas"].source
    assert source == ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG.value, "the controller has written it for all brokers"
    wrong = ConfigEntry("retention.ms", "soon", incremental_operation=AlterConfigOpType.SET)
    with pytest.raises(KafkaException, match=r"retention\.ms='soon': it must be a whole number"):
        alter(admin, ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[wrong]))


def test_a_brokers_settings_are_described(admin: AdminClient) -> None:
    configs = configs_of(admin, ResourceType.BROKER, "0")
    assert configs["num.partitions"].is_read_only
    assert not configs["log.retention.ms"].is_read_only


def test_a_cluster_is_described(admin: AdminClient, cluster: Any) -> None:
    described = admin.describe_cluster(request_timeout=SECONDS).result(SECONDS)
    assert sorted(node.id for node in described.nodes) == list(range(cluster.size))
    assert described.controller.id in range(cluster.size)


def test_a_consumer_that_was_assigned_partitions_begins_where_it_is_told_to(
    bootstrap: str, fresh_topic: FreshTopic
) -> None:
    """Its group has no offsets, so that auto.offset.reset decides."""
    topic = fresh_topic()
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    producer.produce(topic, b"x")
    assert producer.flush(SECONDS) == 0
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "earliest", "log_level": 0}
    )
    try:
        consumer.assign([TopicPartition(topic, 0)])
        message = consumer.poll(SECONDS)
        assert message is not None
        assert (message.error(), message.value()) == (None, b"x")
    finally:
        consumer.close()


@pytest.fixture
def python_admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield client
    client.close()


def test_what_there_is_and_is_not_is_told_to_kafka_python(
    python_admin: KafkaAdminClient, cluster: Any, fresh_topic: FreshTopic
) -> None:
    topic = fresh_topic(partitions=3)
    assert sorted(b["broker_id"] for b in python_admin.describe_cluster()["brokers"]) == list(range(cluster.size))
    features = python_admin.describe_features()
    assert "metadata.version" in str(features)
    assert "__cluster_metadata" in str(python_admin.describe_metadata_quorum())
    assert topic in str(python_admin.list_config_resources())
    described = python_admin.describe_topic_partitions([topic])
    assert topic in str(described)
    assert not [group for group in python_admin.list_groups() if group["group_state"] != "Empty"]
    assert set(python_admin.list_transactions()) == set(range(cluster.size))
