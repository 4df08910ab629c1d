"""A change that an admin client was told of is in force at the broker that told it: the next call sees it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewPartitions as AioPartitions
from aiokafka.admin import NewTopic as AioTopic
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)
from confluent_kafka.cimpl import NewPartitions, NewTopic
from kafka import KafkaAdminClient

from tidegauge import running_cluster

SECONDS = 20.0
TIMES = 5
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": True,
}


def results(futures: dict[Any, Any]) -> list[Any]:
    return [future.result(SECONDS) for future in futures.values()]


@pytest.fixture
def bootstrap(clusters: dict[int, Any]) -> str:
    """One broker: there is nobody else that could response the next call."""
    return str(clusters[1].bootstrap_servers)


def test_by_confluent_kafka(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for number in range(TIMES):
        name = f"seen-confluent-{number}"
        results(admin.create_topics([NewTopic(name, 1, 1)]))
        entry = ConfigEntry("retention.ms", "99", incremental_operation=AlterConfigOpType.SET)
        results(
            admin.incremental_alter_configs([ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])])
        )
        (configs,) = results(admin.describe_configs([ConfigResource(ResourceType.TOPIC, name)]))
        assert configs["retention.ms"].value == "99"
        results(admin.create_partitions([NewPartitions(name, 3)]))
        assert len(admin.list_topics(name, timeout=SECONDS).topics[name].partitions) == 3
        results(admin.delete_topics([name]))
        assert name not in admin.list_topics(timeout=SECONDS).topics


def test_by_kafka_python(bootstrap: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        for number in range(TIMES):
            name = f"seen-kafka-python-{number}"
            admin.create_topics({name: {"num_partitions": 1, "replication_factor": 1}})
            assert len(admin.describe_topics([name])[0]["partitions"]) == 1
            admin.create_partitions({name: 2})
            assert len(admin.describe_topics([name])[0]["partitions"]) == 2
            admin.delete_topics([name])
            assert name not in admin.list_topics()
    finally:
        admin.close()


def test_by_aiokafka(bootstrap: str) -> None:
    async def scenario() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            for number in range(TIMES):
                name = f"seen-aiokafka-{number}"
                await admin.create_topics([AioTopic(name, 1, 1)])
                await admin.create_partitions({name: AioPartitions(2)})
                (described,) = await admin.describe_topics([name])
                assert len(described["partitions"]) == 2
                await admin.delete_topics([name])
                assert name not in await admin.list_topics()
        finally:
            await admin.close()

    asyncio.run(asyncio.wait_for(scenario(), 3 * SECONDS))


def test_acls() -> None:
    with running_cluster(config=AUTHORIZER) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        for number in range(TIMES):
            names = (ResourceType.TOPIC, f"t-{number}", ResourcePatternType.LITERAL, "User:x", "*")
            rights = (AclOperation.READ, AclPermissionType.ALLOW)
            results(admin.create_acls([AclBinding(*names, *rights)]))
            wanted = AclBindingFilter(*names, *rights)
            assert len(admin.describe_acls(wanted).result(SECONDS)) == 1
            results(admin.delete_acls([wanted]))
            assert admin.describe_acls(wanted).result(SECONDS) == []
