"""Requests about groups, their offsets in transactions, share and streams groups fail as in a Kafka that has none."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.describe_groups.v5.request import DescribeGroupsRequest as DescribeGroupsRequestV5
from kio.schema.describe_groups.v6.request import DescribeGroupsRequest
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v3.request import FindCoordinatorRequest as FindCoordinatorRequestV3
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.list_groups.v5.request import ListGroupsRequest
from kio.schema.offset_commit.v9 import request as commit_9
from kio.schema.offset_fetch.v1 import request as fetch_1
from kio.schema.offset_fetch.v9 import request as fetch_9
from kio.schema.offset_fetch.v10 import request as fetch_10
from kio.schema.types import GroupId

from tidegauge.impl.server.broker_handlers import BROKER_HANDLERS
from tidegauge.impl.server.transport.authorization import CLUSTER_NAME, Operation, ResourceType
from tidegauge.impl.server.transport.handlers import Deferred
from tidegauge.impl.wire.apis import ApiKey, canonical_version, request_class
from tidegauge.impl.wire.primitives import TopicName, i8, i32, i64, topic_uuid
from tidegauge.impl.wire.unions import UNASKED
from tidegauge.model_tests.server.asking import asker, asking, forbid
from tidegauge.model_tests.server.error_responses.test_error_responses import errors
from tidegauge.model_tests.simulated import simulated
from tidegauge.model_tests.wire.sample_messages import sample

GROUP, SHARE = 0, 2
ABSENT = [
    ApiKey.ADD_RAFT_VOTER,
    ApiKey.REMOVE_RAFT_VOTER,
    *(key for key, found in BROKER_HANDLERS.items() if isinstance(found, Deferred) and "absent" in found.module),
]
"""APIs of what a broker does not have."""
NO_SUCH = ErrorCode.invalid_producer_id_mapping


def coordinator_of(key: str, key_type: int = GROUP) -> FindCoordinatorRequest:
    return FindCoordinatorRequest(key_type=i8(key_type), coordinator_keys=(key,))


@simulated
async def test_a_broker_is_the_coordinator_of_every_group_and_of_no_share_group() -> None:
    async with asking(brokers=2) as (cluster, _):
        peer = await asker(cluster, 1)
        found = (await peer.ask(coordinator_of("g"))).coordinators[0]
        address = cluster.broker(1).address
        assert (found.key, found.node_id, found.host, found.port) == ("g", 1, address.host, address.port)
        old = await peer.ask(FindCoordinatorRequestV3(key="g"))
        assert (old.error_code, old.node_id, old.port) == (ErrorCode.none, 1, address.port)
        for key_type in (SHARE, 9):
            refused = (await peer.ask(coordinator_of("x", key_type))).coordinators[0]
            assert refused.error_code is ErrorCode.invalid_request


@simulated
async def test_a_broker_that_has_not_joined_is_no_coordinator() -> None:
    async with asking() as (cluster, peer):
        metadata: Any = cluster.broker(0).metadata
        metadata.endpoints = lambda listener: iter(())
        found = (await peer.ask(coordinator_of("g"))).coordinators[0]
        assert found.error_code is ErrorCode.coordinator_not_available


@simulated
async def test_a_group_has_no_offsets_and_that_is_no_error() -> None:
    async with asking() as (cluster, peer):
        topic_id = topic_uuid(cluster.controller.controller.image.topics["t"].topic_id)
        unknown_id = UUID("11111111-1111-4111-8111-111111111111")
        old = await peer.ask(
            fetch_1.OffsetFetchRequest(
                group_id=GroupId("g"),
                topics=(fetch_1.OffsetFetchRequestTopic(name=TopicName("t"), partition_indexes=(i32(0), i32(7))),),
            )
        )
        assert [(p.partition_index, p.committed_offset, p.error_code) for p in old.topics[0].partitions] == [
            (0, -1, ErrorCode.none),
            (7, -1, ErrorCode.none),
        ]
        topics = tuple(
            fetch_10.OffsetFetchRequestTopics(topic_id=one, partition_indexes=(i32(0),))
            for one in (topic_id, unknown_id)
        )
        group = fetch_10.OffsetFetchRequestGroup(group_id=GroupId("g"), topics=topics)
        new = await peer.ask(fetch_10.OffsetFetchRequest(groups=(group,)))
        assert [(topic.topic_id, topic.partitions[0].error_code) for topic in new.groups[0].topics] == [
            (topic_id, ErrorCode.none),
            (unknown_id, ErrorCode.unknown_topic_id),
        ]
        everything = fetch_9.OffsetFetchRequestGroup(group_id=GroupId("g"), topics=None)
        response = await peer.ask(fetch_9.OffsetFetchRequest(groups=(everything,)))
        assert (response.groups[0].error_code, response.groups[0].topics) == (ErrorCode.none, ())


def commit(topic: str) -> commit_9.OffsetCommitRequest:
    partition = commit_9.OffsetCommitRequestPartition(
        partition_index=i32(0), committed_offset=i64(1), committed_metadata=None
    )
    return commit_9.OffsetCommitRequest(
        group_id=GroupId("g"),
        member_id="",
        topics=(commit_9.OffsetCommitRequestTopic(name=TopicName(topic), partitions=(partition,)),),
    )


@simulated
async def test_offsets_are_not_taken_where_nothing_keeps_them() -> None:
    async with asking() as (_, peer):
        response = await peer.ask(commit("t"))
        assert (response.topics[0].name, response.topics[0].partitions[0].error_code) == (
            "t",
            ErrorCode.unsupported_version,
        )


@simulated
async def test_groups_are_not_found() -> None:
    async with asking() as (_, peer):
        new = await peer.ask(DescribeGroupsRequest(groups=(GroupId("g"),), include_authorized_operations=True))
        assert (new.groups[0].error_code, new.groups[0].group_state) == (ErrorCode.group_id_not_found, "Dead")
        assert new.groups[0].authorized_operations & (1 << Operation.READ)
        old = await peer.ask(DescribeGroupsRequestV5(groups=(GroupId("g"),), include_authorized_operations=False))
        assert (old.groups[0].error_code, old.groups[0].group_state) == (ErrorCode.none, "Dead")
        assert old.groups[0].authorized_operations == UNASKED
        listed = await peer.ask(ListGroupsRequest())
        assert (listed.error_code, listed.groups) == (ErrorCode.none, ())
        deleted = await peer.ask(DeleteGroupsRequest(groups_names=(GroupId("g"), GroupId("h"))))
        assert [(result.group_id, result.error_code) for result in deleted.results] == [
            ("g", ErrorCode.group_id_not_found),
            ("h", ErrorCode.group_id_not_found),
        ]


EXPECTED = {
    ApiKey.JOIN_GROUP: ErrorCode.unsupported_version,
    ApiKey.SYNC_GROUP: ErrorCode.unknown_member_id,
    ApiKey.HEARTBEAT: ErrorCode.unknown_member_id,
    ApiKey.LEAVE_GROUP: ErrorCode.unknown_member_id,
    ApiKey.DELETE_GROUPS: ErrorCode.group_id_not_found,
    ApiKey.OFFSET_DELETE: ErrorCode.group_id_not_found,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: ErrorCode.unsupported_version,
    ApiKey.CONSUMER_GROUP_DESCRIBE: ErrorCode.group_id_not_found,
    ApiKey.ADD_OFFSETS_TO_TXN: NO_SUCH,
    ApiKey.TXN_OFFSET_COMMIT: NO_SUCH,
    ApiKey.SHARE_GROUP_HEARTBEAT: ErrorCode.unsupported_version,
    ApiKey.SHARE_FETCH: ErrorCode.unsupported_version,
    ApiKey.STREAMS_GROUP_HEARTBEAT: ErrorCode.unsupported_version,
    ApiKey.STREAMS_GROUP_DESCRIBE: ErrorCode.unsupported_version,
    ApiKey.ADD_RAFT_VOTER: ErrorCode.unsupported_version,
    ApiKey.REMOVE_RAFT_VOTER: ErrorCode.unsupported_version,
}


@pytest.mark.parametrize(("key", "error"), EXPECTED.items(), ids=lambda value: value.name)
@simulated
async def test_what_there_is_not_is_said_by_its_error_everywhere(key: ApiKey, error: ErrorCode) -> None:
    async with asking() as (_, peer):
        response: Any = await peer.ask(sample(request_class(key, canonical_version(key))))
        assert set(errors(response)) - {ErrorCode.none} == {error}


@pytest.mark.parametrize(
    "key",
    [key for key in ABSENT if key is not ApiKey.LIST_GROUPS],
    ids=lambda key: key.name,
)
@simulated
async def test_who_may_not_ask_is_told_nothing(key: ApiKey) -> None:
    denials = {
        ErrorCode.group_authorization_failed,
        ErrorCode.transactional_id_authorization_failed,
        ErrorCode.cluster_authorization_failed,
    }
    async with asking() as (cluster, _):
        everything = [
            (operation, kind, "*" if kind is not ResourceType.CLUSTER else CLUSTER_NAME)
            for kind in (ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID, ResourceType.CLUSTER)
            for operation in Operation
        ]
        forbid(cluster, *everything)
        peer = await asker(cluster)
        response = await peer.ask(sample(request_class(key, canonical_version(key)), {"int8": 0}))
        assert set(errors(response)) - {ErrorCode.none} <= denials
        assert set(errors(response)) & denials
