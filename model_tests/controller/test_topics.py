"""Creating topics, and the records that it takes."""

from __future__ import annotations

import json

import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.metadata import records
from tidegauge.impl.metadata.records import (
    AccessControlEntryRecord,
    BrokerConfigRecord,
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    ConfigRecord,
    ControllerEpochRecord,
    MetadataFormatError,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    ReplicaDirectoryRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
    decode,
    encode,
)
from tidegauge.model_tests.controller.governed import Governed


def test_a_topic_is_placed_on_the_live_brokers() -> None:
    cluster = Governed(4)
    cluster.controller.lapse_session(1)
    assert cluster.controller.create_topic("a", "id", 3, 2, start=1).error is ErrorCode.none
    image = cluster.controller.image
    assert [image.topics["a"].partitions[p].replicas for p in range(3)] == [(2, 3), (3, 0), (0, 2)]
    for registration in image.topics["a"].partitions.values():
        assert registration.leader == registration.replicas[0]
        assert registration.isr == frozenset(registration.replicas)
        assert (registration.leader_epoch, registration.partition_epoch) == (0, 0)


def test_racks_are_those_of_the_live_brokers() -> None:
    cluster = Governed(4, racks={0: "a", 1: "a", 2: "b", 3: "b"})
    cluster.controller.create_topic("a", "id", 4, 2)
    racks = {0: "a", 1: "a", 2: "b", 3: "b"}
    for registration in cluster.controller.image.topics["a"].partitions.values():
        assert {racks[broker] for broker in registration.replicas} == {"a", "b"}


def test_a_replica_on_a_fenced_broker_starts_outside_the_isr() -> None:
    cluster = Governed()
    cluster.controller.lapse_session(0)
    cluster.create(0, 1, 2)
    assert cluster.standing == (1, [1, 2], [])


@pytest.mark.parametrize(
    ("name", "configs", "partitions", "factor", "error", "words"),
    [
        ("taken", {}, 1, 1, ErrorCode.topic_already_exists, "'taken' exists"),
        ("", {}, 1, 1, ErrorCode.invalid_topic_exception, "topic name ''"),
        ("..", {}, 1, 1, ErrorCode.invalid_topic_exception, "'..'"),
        ("a/b", {}, 1, 1, ErrorCode.invalid_topic_exception, "'a/b'"),
        ("x" * 250, {}, 1, 1, ErrorCode.invalid_topic_exception, "1 to 249"),
        ("a", {"min.insync": "1"}, 1, 1, ErrorCode.invalid_config, "'min.insync' is no topic setting"),
        ("a", {"min.insync.replicas": "0"}, 1, 1, ErrorCode.invalid_config, "must be at least 1"),
        ("a", {"min.insync.replicas": "many"}, 1, 1, ErrorCode.invalid_config, "min.insync.replicas='many'"),
        ("a", {"unclean.leader.election.enable": "yes"}, 1, 1, ErrorCode.invalid_config, "true or false"),
        ("a", {}, 0, 1, ErrorCode.invalid_partitions, "0 partitions"),
        ("a", {}, 1, 4, ErrorCode.invalid_replication_factor, "3 live brokers"),
    ],
)
def test_bad_input_is_refused_with_the_thing_the_value_and_the_way_out(
    name: str, configs: dict[str, str], partitions: int, factor: int, error: ErrorCode, words: str
) -> None:
    cluster = Governed()
    cluster.controller.create_topic("taken", "id", 1, 1)
    end = cluster.log.end_offset
    refused = cluster.controller.create_topic(name, "id2", partitions, factor, configs=configs)
    assert refused.error is error
    assert words in refused.message
    assert cluster.log.end_offset == end, "nothing is half-written"


@pytest.mark.parametrize("replicas", [((0, 0),), ((),), ((7,),), ((0, 1), (1, 7))])
def test_replicas_given_by_hand_must_be_registered_brokers(replicas: tuple[tuple[int, ...], ...]) -> None:
    refused = Governed().controller.create_topic_on("a", "id", replicas)
    assert refused.error is ErrorCode.invalid_replica_assignment


def test_replicas_given_by_hand_need_a_live_broker_and_a_partition() -> None:
    cluster = Governed()
    cluster.controller.lapse_session(0)
    assert cluster.controller.create_topic_on("a", "id", ((0,),)).error is ErrorCode.invalid_replica_assignment
    assert cluster.controller.create_topic_on("a", "id", ()).error is ErrorCode.invalid_partitions


RECORDS: tuple[MetadataRecord, ...] = (
    ControllerEpochRecord(3000, 4),
    RegisterBrokerRecord(1, 17, "localhost", 9092, rack=None),
    RegisterBrokerRecord(1, 17, "localhost", 9092, rack="b", fenced=False),
    BrokerRegistrationChangeRecord(1, 17, fenced=False),
    BrokerRegistrationChangeRecord(1, 17, in_controlled_shutdown=True),
    BrokerRegistrationChangeRecord(1, 17, directories=("a",)),
    ReplicaDirectoryRecord("t", 0, 1, "a"),
    ProducerIdsRecord(1, 17, 1_000),
    UnregisterBrokerRecord(1, 17),
    TopicRecord("orders", "00ff"),
    RemoveTopicRecord("00ff"),
    ConfigRecord("orders", "min.insync.replicas", "2"),
    ConfigRecord("orders", "min.insync.replicas", None),
    BrokerConfigRecord("", "log.retention.ms", "5"),
    BrokerConfigRecord("1", "log.retention.ms", None),
    ClientQuotaRecord("alice", "", None, "producer_byte_rate", 1024.0),
    ClientQuotaRecord(None, None, "127.0.0.1", "connection_creation_rate", None),
    PartitionRecord("orders", 3, (2, 0, 1), (0, 2), 2),
    PartitionChangeRecord("orders", 3, leader=-1, isr=(), elr=(0, 2), last_known_leader=2),
    PartitionChangeRecord("orders", 3),
    PartitionChangeRecord("orders", 3, leader=2, replicas=(2, 3), adding_replicas=(), removing_replicas=(0,)),
    RegisterBrokerRecord(1, 17, "localhost", 9092, listeners=(("SSL", "localhost", 9093, 1), ("B", "b", 9094, 0))),
    AccessControlEntryRecord(2, "orders", 3, "User:alice", "*", 3, 3),
    RemoveAccessControlEntryRecord(2, "orders", 3, "User:alice", "*", 3, 3),
    UserScramCredentialRecord("alice", 1, "00", "0a0b", "0c0d", 4096),
    RemoveUserScramCredentialRecord("alice", 1),
)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_a_record_is_read_back_as_it_was_written(record: MetadataRecord) -> None:
    assert decode(encode(record)) == record
    assert json.loads(encode(record))["type"] == type(record).__name__


def test_every_type_of_record_is_tried() -> None:
    assert {type(record).__name__ for record in RECORDS} == set(records.RECORD_TYPES)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"[]",
        b"{}",
        b'{"type":"Nothing"}',
        b'{"type":"TopicRecord","name":"a"}',
        b'{"type":"TopicRecord","x":1}',
        b"\xff",
    ],
)
def test_what_is_no_record_is_refused(value: bytes) -> None:
    with pytest.raises(MetadataFormatError, match="no metadata record"):
        decode(value)
