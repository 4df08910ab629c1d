"""KafkaAdminClient of kafka-python: what its other tests leave out, against one broker and three."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ConfigResource,
    ConfigResourceType,
    OffsetSpec,
    ResourcePattern,
    ResourceType,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka.errors import ElectionNotNeededError, NoError, OffsetOutOfRangeError

from tidegauge import running_cluster
from tidegauge.model_tests.clients.conftest import FreshTopic, eventually

SECONDS = 20.0
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@pytest.fixture
def admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield client
    client.close()


def produce(bootstrap: str, topic: str, count: int, **config: Any) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, **config)
    now = int(time.time() * 1000)
    for number in range(count):
        producer.send(topic, b"%d" % number, timestamp_ms=now + number, partition=0).get(SECONDS)
    producer.close()


def test_records_are_deleted_and_offsets_listed_by_every_spec(
    admin: KafkaAdminClient, bootstrap: str, fresh_topic: FreshTopic
) -> None:
    topic = fresh_topic()
    produce(bootstrap, topic, 5)
    partition = TopicPartition(topic, 0)
    assert admin.delete_records({partition: 2})[partition]["low_watermark"] == 2

    def offset(spec: OffsetSpec) -> int:
        listed: int = admin.list_partition_offsets({partition: spec})[partition].offset
        return listed

    assert offset(OffsetSpec.EARLIEST) == 2
    assert offset(OffsetSpec.LATEST) == 5
    assert offset(OffsetSpec.MAX_TIMESTAMP) == 4
    assert offset(OffsetSpec.EARLIEST_LOCAL) == 2
    assert offset(OffsetSpec.LATEST_TIERED) == -1
    with pytest.raises(OffsetOutOfRangeError):
        admin.delete_records({partition: 99})
    assert admin.delete_records({partition: -1})[partition]["low_watermark"] == 5, "-1 stands for all there is"


def test_settings_are_reset_to_what_they_were(admin: KafkaAdminClient, fresh_topic: FreshTopic) -> None:
    topic = fresh_topic(retention_ms=5_000)
    resource = ConfigResource(ConfigResourceType.TOPIC, topic)
    assert "5000" in str(admin.describe_configs([resource]))
    admin.reset_configs([ConfigResource(ConfigResourceType.TOPIC, topic, ["retention.ms"])])
    assert eventually(lambda: "5000" not in str(admin.describe_configs([resource])))


def test_a_broker_tells_where_it_listens(admin: KafkaAdminClient, bootstrap: str) -> None:
    described = admin.describe_configs([ConfigResource(ConfigResourceType.BROKER, "0")], config_filter="all")
    told = described["broker"]["0"]["advertised.listeners"]
    assert (told["value"], told["config_source"]) == (f"PLAINTEXT://{bootstrap.split(',')[0]}", "STATIC_BROKER_CONFIG")


def test_a_topic_has_a_directory_at_every_broker_that_has_a_replica(
    admin: KafkaAdminClient, cluster: Any, bootstrap: str, fresh_topic: FreshTopic
) -> None:
    topic = fresh_topic()
    produce(bootstrap, topic, 3)

    def sizes() -> dict[int, int]:
        return {
            described["broker"]: partition["partition_size"]
            for described in admin.describe_log_dirs([topic])
            for directory in described["log_dirs"]
            for found in directory["topics"]
            for partition in found["partitions"]
        }

    assert eventually(lambda: set(sizes()) == set(range(cluster.size)) and len(set(sizes().values())) == 1)
    assert all(size > 0 for size in sizes().values())


def test_partitions_are_reassigned_and_their_preferred_leaders_elected(
    admin: KafkaAdminClient, cluster: Any, fresh_topic: FreshTopic
) -> None:
    topic = fresh_topic()
    partition = TopicPartition(topic, 0)
    wanted = list(reversed(cluster.replicas(topic, 0)))
    assert admin.alter_partition_reassignments({partition: wanted})[partition] in (None, NoError)
    assert eventually(lambda: not admin.list_partition_reassignments())
    assert eventually(lambda: admin.describe_topics([topic])[0]["partitions"][0]["replica_nodes"] == wanted)
    if cluster.leader(topic, 0) != wanted[0]:
        admin.elect_leaders(0, {topic: [0]})
    assert eventually(lambda: bool(cluster.leader(topic, 0) == wanted[0]))
    again = admin.elect_leaders(0, {topic: [0]})
    (elected,) = again.replica_election_results
    assert [result.error_code for result in elected.partition_result] == [ElectionNotNeededError.errno]


def test_the_producers_of_a_partition_are_described(
    admin: KafkaAdminClient, bootstrap: str, fresh_topic: FreshTopic
) -> None:
    topic = fresh_topic()
    partition = TopicPartition(topic, 0)
    produce(bootstrap, topic, 3, enable_idempotence=True)
    (producer,) = admin.describe_producers([partition])[partition].active_producers
    assert producer.last_sequence == 2


def test_what_a_broker_speaks_is_told(admin: KafkaAdminClient) -> None:
    assert admin.get_broker_version_data(0).api_versions[0] == (0, 13)
    assert admin.api_versions()


@pytest.fixture
def guarded() -> Iterator[KafkaAdminClient]:
    config = {"authorizer.class.name": AUTHORIZER, "allow.everyone.if.no.acl.found": True}
    with running_cluster(config=config) as cluster:
        client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
        yield client
        client.close()


def test_acls_and_credentials_are_kept_described_and_deleted(guarded: KafkaAdminClient) -> None:
    pattern = ResourcePattern(ResourceType.TOPIC, "orders")
    acl = ACL("User:alice", "*", ACLOperation.READ, ACLPermissionType.ALLOW, pattern)
    assert guarded.create_acls([acl])["succeeded"] == [acl]
    wanted = ACLFilter("User:alice", "*", ACLOperation.ANY, ACLPermissionType.ANY, pattern)
    assert guarded.describe_acls(wanted)[0] == [acl]
    guarded.delete_acls([wanted])
    assert guarded.describe_acls(wanted)[0] == []
    mechanism = ScramMechanism.SCRAM_SHA_256
    upsertion = UserScramCredentialUpsertion("alice", mechanism, "secret")
    assert guarded.alter_user_scram_credentials([upsertion]) == {"alice": None}
    assert "alice" in str(guarded.describe_user_scram_credentials(["alice"]))
    assert guarded.alter_user_scram_credentials([UserScramCredentialDeletion("alice", mechanism)]) == {"alice": None}
