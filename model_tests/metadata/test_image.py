"""Drafts of the metadata image: they change as the image would, and never change it."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import pytest

from tidegauge.impl.metadata.codec import RECORD_TYPES
from tidegauge.impl.metadata.image import ClusterImage
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

SESSION = "consumer.session.timeout.ms"
BEFORE: tuple[MetadataRecord, ...] = (
    ControllerEpochRecord(3000, 0),
    RegisterControllerRecord(3000, "c", 9093),
    RegisterBrokerRecord(0, 1, "a", 9092, fenced=False, directories=("one",)),
    RegisterBrokerRecord(1, 2, "b", 9092, fenced=False),
    TopicRecord("t", "id-t"),
    ConfigRecord("t", "flush.ms", "1"),
    PartitionRecord("t", 0, (0, 1), (0, 1), 0),
    ReplicaDirectoryRecord("t", 0, 0, "one"),
    TopicRecord("u", "id-u"),
    PartitionRecord("u", 0, (0, 1), (0, 1), 0),
    GroupConfigRecord("readers", SESSION, "50000"),
    BrokerConfigRecord("", "log.retention.ms", "5"),
    ClientQuotaRecord("alice", None, None, "producer_byte_rate", 1.0),
    AccessControlEntryRecord(2, "orders", 3, "User:alice", "*", 3, 3),
    UserScramCredentialRecord("alice", 1, "00", "0a0b", "0c0d", 4096),
)

CHANGES: tuple[tuple[MetadataRecord, ...], ...] = (
    (ControllerEpochRecord(3001, 1), RegisterControllerRecord(3001, "d", 9093)),
    (RegisterBrokerRecord(2, 9, "c", 9092),),
    (BrokerRegistrationChangeRecord(0, 1, fenced=True), PartitionChangeRecord("t", 0, leader=1, isr=(1,), elr=(0,))),
    (UnregisterBrokerRecord(1, 2),),
    (TopicRecord("v", "id-v"), ConfigRecord("v", "flush.ms", "2"), PartitionRecord("v", 0, (0,), (0,), 0)),
    (RemoveTopicRecord("id-t"), TopicRecord("t", "id-new"), PartitionRecord("t", 0, (1,), (1,), 1)),
    (ConfigRecord("t", "flush.ms", None), ConfigRecord("t", "retention.ms", "3")),
    (PartitionChangeRecord("t", 0, leader=1, replicas=(1,)), PartitionRecord("t", 1, (0,), (0,), 0)),
    (ReplicaDirectoryRecord("t", 0, 1, "two"),),
    (BrokerConfigRecord("", "log.retention.ms", None), BrokerConfigRecord("0", "log.retention.ms", "7")),
    (GroupConfigRecord("readers", "share.isolation.level", "read_committed"), GroupConfigRecord("r", "x", "7")),
    (GroupConfigRecord("readers", SESSION, None),),
    (ClientQuotaRecord("alice", None, None, "producer_byte_rate", None), ClientQuotaRecord("bob", "", None, "x", 2.0)),
    (ProducerIdsRecord(0, 1, 1_000),),
    (FeatureLevelRecord("transaction.version", 1),),
    (AccessControlEntryRecord(2, "payments", 3, "User:bob", "*", 3, 3),),
    (RemoveAccessControlEntryRecord(2, "orders", 3, "User:alice", "*", 3, 3),),
    (RemoveUserScramCredentialRecord("alice", 1), UserScramCredentialRecord("bob", 1, "00", "0a", "0c", 4096)),
)


def content(image: ClusterImage) -> dict[str, object]:
    """All that an image says, in objects of its own."""
    public = {name: value for name, value in vars(image).items() if not name.startswith("_") and name != "acls"}
    topics = {
        name: (topic.topic_id, topic.configs, dict(topic.partitions), dict(topic.directories), topic.succeeds)
        for name, topic in image.topics.items()
    }
    return copy.deepcopy({**public, "topics": topics, "acls": set(image.acls)})


def replayed(*records: MetadataRecord) -> ClusterImage:
    image = ClusterImage()
    image.replay(records)
    return image


@pytest.mark.parametrize("records", CHANGES, ids=lambda records: type(records[0]).__name__)
def test_a_draft_changes_as_the_image_would_and_the_image_does_not(records: Sequence[MetadataRecord]) -> None:
    image = replayed(*BEFORE)
    before = content(image)
    draft = image.draft()
    assert content(draft) == before
    draft.replay(records)
    assert content(image) == before
    assert content(draft) == content(replayed(*BEFORE, *records)) != before
    image.replay(records)
    assert content(image) == content(draft)


def test_a_draft_of_a_draft_changes_neither() -> None:
    image = replayed(*BEFORE)
    before = content(image)
    draft = image.draft()
    for records in CHANGES[:3]:
        draft.replay(records)
    second = draft.draft()
    between = content(draft)
    for records in CHANGES[4:]:
        second.replay(records)
    assert (content(image), content(draft)) == (before, between)


def test_an_image_that_adopts_its_draft_goes_on_as_if_it_had_replayed_the_records() -> None:
    image, applied = replayed(*BEFORE), list(BEFORE)
    for records in CHANGES[:3] + CHANGES[4:5] + CHANGES[7:]:
        before, draft, acls = content(image), image.draft(), image.acls
        draft.replay(records)
        assert content(image) == before
        image.adopt(draft)
        applied += records
        assert content(image) == content(replayed(*applied))
        assert image.acls is acls, "no chain of drafts grows"


def test_two_drafts_of_one_topic_do_not_see_each_other() -> None:
    image = replayed(*BEFORE)
    before = content(image)
    first, second = image.draft(), image.draft()
    for records in CHANGES:
        first.replay(records)
    assert content(second) == content(image) == before


def test_a_draft_adopts_nothing() -> None:
    draft = replayed(*BEFORE).draft()
    with pytest.raises(AssertionError, match="shares objects with its original"):
        draft.adopt(draft.draft())


def test_every_kind_of_record_is_tried_on_a_draft() -> None:
    tried = {type(record) for records in (BEFORE, *CHANGES) for record in records}
    assert {kind.__name__ for kind in tried} == set(RECORD_TYPES)
