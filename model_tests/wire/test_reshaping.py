"""Versions that put the same things in another place lose nothing on their way to the canonical one and back."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.leave_group.v2.response import LeaveGroupResponse as LeaveGroupResponseV2
from kio.schema.leave_group.v5.response import LeaveGroupResponse, MemberResponse

from tidegauge.impl.wire.apis import ApiKey, canonical_request_class, request_class
from tidegauge.impl.wire.primitives import NO_WAIT
from tidegauge.impl.wire.versions import convert
from tidegauge.model_tests.wire.sample_messages import sample


def lifted(key: ApiKey, version: int) -> Any:
    return convert(sample(request_class(key, version)), canonical_request_class(key))


@pytest.mark.parametrize("version", range(4))
def test_one_key_becomes_a_list_of_one(version: int) -> None:
    assert lifted(ApiKey.FIND_COORDINATOR, version).coordinator_keys == ("s",)


@pytest.mark.parametrize("version", range(1, 8))
def test_one_group_becomes_a_list_of_one(version: int) -> None:
    (group,) = lifted(ApiKey.OFFSET_FETCH, version).groups
    assert group.group_id == "s"
    assert [(topic.name, topic.topic_id, topic.partition_indexes) for topic in group.topics] == [
        ("s", None, (1, 2)),
        ("s2", None, (1, 2)),
    ]


@pytest.mark.parametrize("version", range(4))
def test_one_transaction_becomes_a_list_of_one(version: int) -> None:
    (transaction,) = lifted(ApiKey.ADD_PARTITIONS_TO_TXN, version).transactions
    assert (transaction.transactional_id, transaction.producer_id, transaction.producer_epoch) == ("s", 1, 1)
    assert not transaction.verify_only
    assert [(topic.name, topic.partitions) for topic in transaction.topics] == [("s", (1, 2)), ("s2", (1, 2))]


@pytest.mark.parametrize("version", range(1, 6))
def test_names_become_topics(version: int) -> None:
    topics = lifted(ApiKey.DELETE_TOPICS, version).topics
    assert [(topic.name, topic.topic_id) for topic in topics] == [("s", None), ("s2", None)]


@pytest.mark.parametrize("version", range(3))
def test_one_member_becomes_a_list_of_one(version: int) -> None:
    assert [member.member_id for member in lifted(ApiKey.LEAVE_GROUP, version).members] == ["s"]


@pytest.mark.parametrize("version", range(8, 11))
def test_what_only_some_versions_of_metadata_ask_is_there(version: int) -> None:
    assert lifted(ApiKey.METADATA, version).include_cluster_authorized_operations


@pytest.mark.parametrize(
    ("top", "members", "told"),
    [
        (ErrorCode.none, ErrorCode.unknown_member_id, ErrorCode.unknown_member_id),
        (ErrorCode.none, ErrorCode.none, ErrorCode.none),
        (ErrorCode.not_coordinator, ErrorCode.none, ErrorCode.not_coordinator),
    ],
)
def test_the_error_of_the_only_member_is_that_of_the_response(
    top: ErrorCode, members: ErrorCode, told: ErrorCode
) -> None:
    member = MemberResponse(member_id="s", group_instance_id=None, error_code=members)
    response = LeaveGroupResponse(throttle_time=NO_WAIT, error_code=top, members=(member,))
    assert convert(response, LeaveGroupResponseV2).error_code is told


def test_an_isr_without_broker_epochs_means_whichever_process_is_registered() -> None:
    sent = sample(request_class(ApiKey.ALTER_PARTITION, 2)).topics[0].partitions[0].new_isr
    members = lifted(ApiKey.ALTER_PARTITION, 2).topics[0].partitions[0].new_isr_with_epochs
    assert [(member.broker_id, member.broker_epoch) for member in members] == [(broker, -1) for broker in sent]
    assert sent
