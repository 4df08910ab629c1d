"""The metadata log's codec: every record is read back as it was written, one decision is one batch."""

from __future__ import annotations

import json

import pytest

from tidegauge.impl.metadata.codec import (
    RECORD_TYPES,
    MetadataFormatError,
    decode,
    decode_decisions,
    encode,
    encode_decision,
)
from tidegauge.impl.metadata.records import (
    AccessControlEntryRecord,
    BrokerConfigRecord,
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    ConfigRecord,
    ControllerEpochRecord,
    FeatureLevelRecord,
    GroupConfigRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    ReplicaDirectoryRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
)
from tidegauge.impl.records.batches import extents

RECORDS: tuple[MetadataRecord, ...] = (
    ControllerEpochRecord(3000, 4),
    RegisterControllerRecord(3000, "localhost", 9093),
    RegisterBrokerRecord(1, 17, "localhost", 9092, rack=None),
    RegisterBrokerRecord(1, 17, "localhost", 9092, rack="b", fenced=False),
    BrokerRegistrationChangeRecord(1, 17, fenced=False),
    BrokerRegistrationChangeRecord(1, 17, in_controlled_shutdown=True),
    BrokerRegistrationChangeRecord(1, 17, directories=("a",)),
    ReplicaDirectoryRecord("t", 0, 1, "a"),
    ProducerIdsRecord(1, 17, 1_000),
    FeatureLevelRecord("transaction.version", 1),
    UnregisterBrokerRecord(1, 17),
    TopicRecord("orders", "00ff"),
    RemoveTopicRecord("00ff"),
    ConfigRecord("orders", "min.insync.replicas", "2"),
    ConfigRecord("orders", "min.insync.replicas", None),
    GroupConfigRecord("readers", "consumer.session.timeout.ms", "50000"),
    GroupConfigRecord("readers", "consumer.session.timeout.ms", None),
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
    assert {type(record).__name__ for record in RECORDS} == set(RECORD_TYPES)


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


def test_a_decision_is_one_batch_and_can_be_read_from_its_middle() -> None:
    batch = encode_decision(RECORDS, 7, now_ms=5)
    assert len(list(extents(batch))) == 1
    assert list(decode_decisions(batch, 0)) == list(enumerate(RECORDS, start=7))
    assert list(decode_decisions(batch, 9)) == list(enumerate(RECORDS, start=7))[2:]
