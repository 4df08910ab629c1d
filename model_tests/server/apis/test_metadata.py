"""Metadata, ApiVersions, DescribeCluster, DescribeTopicPartitions: what clients learn of a cluster."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from kio.schema.api_versions.v0.request import ApiVersionsRequest as ApiVersionsRequestV0
from kio.schema.api_versions.v3.request import ApiVersionsRequest as ApiVersionsRequestV3
from kio.schema.api_versions.v4.request import ApiVersionsRequest
from kio.schema.describe_cluster.v2.request import DescribeClusterRequest
from kio.schema.describe_topic_partitions.v0.request import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from kio.schema.errors import ErrorCode
from kio.schema.list_config_resources.v0.request import (
    ListConfigResourcesRequest as ListConfigResourcesRequestV0,
)
from kio.schema.list_config_resources.v1.request import ListConfigResourcesRequest
from kio.schema.metadata.v0.request import MetadataRequest as MetadataRequestV0
from kio.schema.metadata.v0.request import MetadataRequestTopic as TopicV0
from kio.schema.metadata.v4.request import MetadataRequest as MetadataRequestV4
from kio.schema.metadata.v9.request import MetadataRequest as MetadataRequestV9
from kio.schema.metadata.v9.request import MetadataRequestTopic as TopicV9
from kio.schema.metadata.v13.request import MetadataRequest, MetadataRequestTopic

from tidegauge.impl.server.transport.authorization import CLUSTER_NAME, Operation, ResourceType
from tidegauge.impl.wire.apis import request_class
from tidegauge.impl.wire.primitives import TopicName, i8, i32, topic_uuid
from tidegauge.impl.wire.unions import UNASKED
from tidegauge.impl.wire.versions import convert
from tidegauge.model_tests.server.asking import asker, asking, forbid
from tidegauge.model_tests.simulated import simulated

TOPIC, CLUSTER = ResourceType.TOPIC, ResourceType.CLUSTER


def named(*names: str, create: bool = False, operations: bool = False) -> MetadataRequest:
    return MetadataRequest(
        topics=tuple(MetadataRequestTopic(topic_id=None, name=TopicName(name)) for name in names),
        allow_auto_topic_creation=create,
        include_topic_authorized_operations=operations,
    )


def by_id(topic_id: UUID) -> MetadataRequest:
    return MetadataRequest(
        topics=(MetadataRequestTopic(topic_id=topic_id, name=None),), include_topic_authorized_operations=False
    )


def found(response: Any) -> list[tuple[ErrorCode, str | None]]:
    return [(topic.error_code, topic.name) for topic in response.topics]


@simulated
async def test_version_0_asks_for_all_topics_by_naming_none_and_later_ones_by_null() -> None:
    async with asking() as (_, peer):
        everything = await peer.ask(MetadataRequestV0(topics=()))
        assert found(everything) == [(ErrorCode.none, "t")]
        assert found(await peer.ask(MetadataRequestV4(topics=(), allow_auto_topic_creation=False))) == []
        assert found(await peer.ask(MetadataRequestV4(topics=None, allow_auto_topic_creation=False))) == [
            (ErrorCode.none, "t")
        ]


@simulated
async def test_version_0_leaves_replicas_out_that_are_down() -> None:
    async with asking(brokers=2) as (cluster, _):
        await cluster.expire_session(0)
        await cluster.settle_metadata()
        peer = await asker(cluster, 1)
        response = await peer.ask(MetadataRequestV0(topics=(TopicV0(name=TopicName("t")),)))
        partition = response.topics[0].partitions[0]
        assert (partition.error_code, partition.leader_id) == (ErrorCode.replica_not_available, 1)
        assert (partition.replica_nodes, partition.isr_nodes) == ((1,), (1,))


@simulated
async def test_a_name_that_is_unknown_makes_a_topic_where_the_request_allows_it() -> None:
    async with asking(config={"num.partitions": 3}) as (cluster, peer):
        assert found(await peer.ask(named("new"))) == [(ErrorCode.unknown_topic_or_partition, "new")]
        response = await peer.ask(named("new", "a/b", create=True))
        assert found(response) == [(ErrorCode.none, "new"), (ErrorCode.invalid_topic_exception, "a/b")]
        assert [partition.leader_id for partition in response.topics[0].partitions] == [0, 0, 0]
        assert set(cluster.controller.controller.image.topics) == {"t", "new"}


@simulated
async def test_versions_before_4_always_allow_it() -> None:
    async with asking() as (_, peer):
        response = await peer.ask(MetadataRequestV0(topics=(TopicV0(name=TopicName("old")),)))
        assert found(response) == [(ErrorCode.none, "old")]


@simulated
async def test_no_topic_is_made_where_the_cluster_forbids_it() -> None:
    async with asking(config={"auto.create.topics.enable": False}) as (cluster, peer):
        assert found(await peer.ask(named("new", create=True))) == [(ErrorCode.unknown_topic_or_partition, "new")]
        assert set(cluster.controller.controller.image.topics) == {"t"}


@simulated
async def test_no_topic_is_made_while_the_controller_cannot_be_reached() -> None:
    async with asking() as (cluster, peer):
        cluster.block(0, "controller")
        cluster.reset_connections(0, "controller")
        assert found(await peer.ask(named("new", create=True))) == [(ErrorCode.unknown_topic_or_partition, "new")]


@simulated
async def test_topics_are_asked_for_by_id() -> None:
    async with asking() as (cluster, peer):
        topic_id = topic_uuid(cluster.controller.controller.image.topics["t"].topic_id)
        assert found(await peer.ask(by_id(topic_id))) == [(ErrorCode.none, "t")]
        unknown = UUID("11111111-1111-4111-8111-111111111111")
        response = await peer.ask(by_id(unknown))
        assert found(response) == [(ErrorCode.unknown_topic_id, None)]
        assert response.topics[0].topic_id == unknown


@simulated
async def test_a_topic_that_is_asked_for_twice_is_told_once_and_ids_go_before_names() -> None:
    async with asking() as (cluster, peer):
        assert found(await peer.ask(named("t", "u", "t"))) == [
            (ErrorCode.none, "t"),
            (ErrorCode.unknown_topic_or_partition, "u"),
        ]
        one = by_id(topic_uuid(cluster.controller.controller.image.topics["t"].topic_id)).topics or ()
        both = MetadataRequest(
            topics=(*(named("u").topics or ()), *one, *one), include_topic_authorized_operations=False
        )
        assert found(await peer.ask(both)) == [(ErrorCode.none, "t")]


@simulated
async def test_versions_that_have_ids_and_no_use_for_them_are_refused_as_a_whole() -> None:
    async with asking() as (cluster, peer):
        known = topic_uuid(cluster.controller.controller.image.topics["t"].topic_id)
        for version in (10, 11):
            response = await peer.ask(convert(by_id(known), request_class(3, version)))
            assert [(one.error_code, one.topic_id) for one in response.topics] == [(ErrorCode.invalid_request, known)]


@simulated
async def test_a_leader_without_the_clients_listener_is_none_for_it() -> None:
    async with asking(brokers=2) as (cluster, peer):
        image = cluster.broker(0).metadata.image
        leader = image.topics["t"].partitions[0].leader
        registered = image.brokers[leader]
        elsewhere = tuple(("OTHER", *listener[1:]) for listener in registered.listeners)
        image.brokers[leader] = registered._replace(listeners=elsewhere)
        told = (await peer.ask(named("t"))).topics[0].partitions[0]
        assert (told.error_code, told.leader_id) == (ErrorCode.listener_not_found, -1)
        assert (told.replica_nodes, told.offline_replicas) == ((0, 1), (leader,))
        old = (await peer.ask(convert(named("t"), request_class(3, 5)))).topics[0].partitions[0]
        assert (old.error_code, old.leader_id) == (ErrorCode.leader_not_available, -1)
        described = (await peer.ask(partitions("t"))).topics[0].partitions[0]
        assert (described.leader_id, described.offline_replicas) == (-1, (leader,))


@simulated
async def test_topics_that_may_not_be_described_are_refused_where_named_and_hidden_elsewhere() -> None:
    async with asking() as (cluster, _):
        topic_id = topic_uuid(cluster.controller.controller.image.topics["t"].topic_id)
        forbid(cluster, (Operation.DESCRIBE, TOPIC, "t"), (Operation.DESCRIBE, TOPIC, "u"))
        peer = await asker(cluster)
        refused = ErrorCode.topic_authorization_failed
        assert found(await peer.ask(named("t", "u", "v"))) == [
            (refused, "t"),
            (refused, "u"),
            (ErrorCode.unknown_topic_or_partition, "v"),
        ]
        assert found(await peer.ask(by_id(topic_id))) == [(refused, None)]
        everything = MetadataRequest(topics=None, include_topic_authorized_operations=False)
        assert found(await peer.ask(everything)) == []


@simulated
async def test_topics_are_made_only_for_those_who_may_create_them() -> None:
    async with asking() as (cluster, _):
        forbid(cluster, (Operation.CREATE, CLUSTER, CLUSTER_NAME), (Operation.CREATE, TOPIC, "mine"))
        peer = await asker(cluster)
        assert found(await peer.ask(named("mine", "yours", create=True))) == [
            (ErrorCode.topic_authorization_failed, "mine"),
            (ErrorCode.none, "yours"),
        ]


@simulated
async def test_authorized_operations_are_told_to_who_asks_for_them() -> None:
    async with asking() as (cluster, _):
        forbid(cluster, (Operation.WRITE, TOPIC, "t"), (Operation.CREATE, CLUSTER, CLUSTER_NAME))
        peer = await asker(cluster)
        asked = MetadataRequestV9(
            topics=(TopicV9(name=TopicName("t")),),
            include_cluster_authorized_operations=True,
            include_topic_authorized_operations=True,
        )
        response = await peer.ask(asked)
        topic_operations = response.topics[0].topic_authorized_operations
        assert topic_operations & (1 << Operation.READ)
        assert not topic_operations & (1 << Operation.WRITE)
        assert response.cluster_authorized_operations & (1 << Operation.ALTER)
        assert not response.cluster_authorized_operations & (1 << Operation.CREATE)
        assert (await peer.ask(named("t"))).topics[0].topic_authorized_operations == UNASKED
        (absent,) = (await peer.ask(named("u", operations=True))).topics
        assert absent.topic_authorized_operations & (1 << Operation.WRITE), "of a topic that is not there, too"
        quiet = MetadataRequestV9(
            topics=(), include_cluster_authorized_operations=False, include_topic_authorized_operations=False
        )
        assert (await peer.ask(quiet)).cluster_authorized_operations == UNASKED


@simulated
async def test_the_controller_that_clients_are_told_is_a_live_broker() -> None:
    async with asking(brokers=2) as (cluster, _):
        peer = await asker(cluster, 1)
        assert (await peer.ask(named("t"))).controller_id == 0
        await cluster.expire_session(0)
        await cluster.settle_metadata()
        assert (await peer.ask(named("t"))).controller_id == 1


@simulated
async def test_the_broker_that_is_asked_is_listed_where_all_are_fenced() -> None:
    """librdkafka gives up all brokers that it is not told of."""
    seldom = {"broker.heartbeat.interval.ms": 10_000, "broker.session.timeout.ms": 30_000}
    async with asking(brokers=3, config=seldom) as (cluster, _):
        peers = [await asker(cluster, broker) for broker in range(3)]
        for broker in (0, 1):
            await cluster.expire_session(broker)
        await cluster.settle_metadata()
        for peer in peers:
            assert [known.node_id for known in (await peer.ask(named("t"))).brokers] == [2], "it is not fenced"
        await cluster.expire_session(2)
        await cluster.settle_metadata()
        for broker, peer in enumerate(peers):
            told = await peer.ask(named("t"))
            (known,) = told.brokers
            address = cluster.broker(broker).address
            assert (known.node_id, known.host, known.port) == (broker, address.host, address.port)
            assert (told.controller_id, told.topics[0].partitions[0].leader_id) == (-1, -1)
        await cluster.wait_for_isr("t", {0, 1, 2})
        await cluster.settle_metadata()
        assert [known.node_id for known in (await peers[1].ask(named("t"))).brokers] == [0, 1, 2]


@simulated
async def test_internal_topics_are_told_as_such() -> None:
    async with asking(topic="__consumer_offsets") as (_, peer):
        assert (await peer.ask(named("__consumer_offsets"))).topics[0].is_internal
        assert not (await peer.ask(named("x"))).topics[0].is_internal


@pytest.mark.parametrize(
    ("name", "version", "error"),
    [
        ("librdkafka", "2.11.1", ErrorCode.none),
        ("a", "1", ErrorCode.none),
        ("", "1", ErrorCode.invalid_request),
        ("kafka python", "1", ErrorCode.invalid_request),
        ("-a", "1", ErrorCode.invalid_request),
        ("a", "1.", ErrorCode.invalid_request),
    ],
)
@simulated
async def test_clients_name_their_software_properly(name: str, version: str, error: ErrorCode) -> None:
    async with asking() as (_, peer):
        response = await peer.ask(ApiVersionsRequest(client_software_name=name, client_software_version=version))
        assert response.error_code is error
        assert bool(response.api_keys) == (error is ErrorCode.none)


@simulated
async def test_features_are_told_and_those_that_may_be_off_to_new_clients_alone() -> None:
    async with asking() as (_, peer):
        new = await peer.ask(ApiVersionsRequest(client_software_name="a", client_software_version="1"))
        assert {feature.name for feature in new.supported_features} == {
            "metadata.version",
            "kraft.version",
            "eligible.leader.replicas.version",
            "transaction.version",
            "group.version",
        }
        assert {(f.name, f.min_version_level, f.max_version_level) for f in new.finalized_features} == {
            ("metadata.version", 30, 30),
            ("eligible.leader.replicas.version", 1, 1),
            ("transaction.version", 2, 2),
            ("group.version", 1, 1),
        }
        assert new.finalized_features_epoch >= 0
        old = await peer.ask(ApiVersionsRequestV3(client_software_name="a", client_software_version="1"))
        assert [feature.name for feature in old.supported_features] == ["metadata.version"]
        assert (await peer.ask(ApiVersionsRequestV0())).error_code is ErrorCode.none


@simulated
async def test_brokers_are_described_and_fenced_ones_to_who_asks_for_them() -> None:
    async with asking(brokers=2) as (cluster, _):
        cluster.isolate(1)
        await cluster.expire_session(1)
        await cluster.settle_metadata()
        peer = await asker(cluster, 0)
        described = await peer.ask(
            DescribeClusterRequest(include_cluster_authorized_operations=True, include_fenced_brokers=True)
        )
        assert [(broker.broker_id, broker.is_fenced) for broker in described.brokers] == [(0, False), (1, True)]
        assert (described.cluster_id, described.controller_id) == (cluster.broker(0).registration.cluster_id, 0)
        assert described.cluster_authorized_operations > 0
        described = await peer.ask(
            DescribeClusterRequest(include_cluster_authorized_operations=False, include_fenced_brokers=False)
        )
        assert [broker.broker_id for broker in described.brokers] == [0]
        assert described.cluster_authorized_operations == UNASKED


@pytest.mark.parametrize(
    ("endpoint_type", "error"),
    [(2, ErrorCode.mismatched_endpoint_type), (3, ErrorCode.unsupported_endpoint_type)],
)
@simulated
async def test_brokers_do_not_list_controllers(endpoint_type: int, error: ErrorCode) -> None:
    async with asking() as (_, peer):
        request = DescribeClusterRequest(
            include_cluster_authorized_operations=False,
            endpoint_type=i8(endpoint_type),
            include_fenced_brokers=False,
        )
        assert (await peer.ask(request)).error_code is error


def partitions(*names: str, limit: int = 100, cursor: Cursor | None = None) -> DescribeTopicPartitionsRequest:
    return DescribeTopicPartitionsRequest(
        topics=tuple(TopicRequest(name=TopicName(name)) for name in names),
        response_partition_limit=i32(limit),
        cursor=cursor,
    )


def pages(response: Any) -> list[tuple[str, list[int]]]:
    return [(topic.name, [partition.partition_index for partition in topic.partitions]) for topic in response.topics]


@simulated
async def test_partitions_are_described_page_by_page() -> None:
    async with asking(topic=None) as (cluster, peer):
        for name, count in (("b", 3), ("a", 2), ("c", 1)):
            await cluster.create_topic(name, partitions=count)
        seen: list[tuple[str, list[int]]] = []
        cursor = None
        for _ in range(3):
            response = await peer.ask(partitions(limit=2, cursor=cursor))
            seen += pages(response)
            cursor = response.next_cursor and Cursor(
                topic_name=response.next_cursor.topic_name, partition_index=response.next_cursor.partition_index
            )
        assert seen == [("a", [0, 1]), ("b", [0, 1]), ("b", [2]), ("c", [0])]
        assert cursor is None
        assert pages(await peer.ask(partitions("c", "b"))) == [("b", [0, 1, 2]), ("c", [0])]


@simulated
async def test_a_page_begins_at_a_topic_that_is_named_and_at_a_partition_that_can_be() -> None:
    async with asking() as (_, peer):
        negative = Cursor(topic_name=TopicName("t"), partition_index=i32(-1))
        assert found(await peer.ask(partitions("t", cursor=negative))) == [(ErrorCode.invalid_request, "t")]
        elsewhere = Cursor(topic_name=TopicName("a"), partition_index=i32(0))
        assert found(await peer.ask(partitions("t", cursor=elsewhere))) == [(ErrorCode.invalid_request, "t")]
        assert pages(await peer.ask(partitions(cursor=elsewhere))) == [("t", [0])], "all topics, from there on"
        beyond = Cursor(topic_name=TopicName("t"), partition_index=i32(7))
        assert pages(await peer.ask(partitions("t", cursor=beyond))) == [("t", [])]


@simulated
async def test_topics_that_are_not_there_are_told_on_their_page() -> None:
    async with asking() as (_, peer):
        first = await peer.ask(partitions("t", "u", "a b", limit=1))
        assert found(first) == [(ErrorCode.invalid_topic_exception, "a b"), (ErrorCode.none, "t")]
        assert (first.next_cursor.topic_name, first.next_cursor.partition_index) == ("u", 0)
        rest = Cursor(topic_name=TopicName("u"), partition_index=i32(0))
        second = await peer.ask(partitions("t", "u", "a b", limit=1, cursor=rest))
        assert found(second) == [(ErrorCode.unknown_topic_or_partition, "u")]
        assert second.topics[0].topic_authorized_operations > 0
        assert second.next_cursor is None


@simulated
async def test_the_largest_page_is_the_brokers_to_say() -> None:
    async with asking(config={"max.request.partition.size.limit": 1}, topic=None) as (cluster, peer):
        await cluster.create_topic("a", partitions=2)
        assert pages(await peer.ask(partitions())) == [("a", [0])]


@simulated
async def test_eligible_leaders_are_told_and_never_null() -> None:
    async with asking(brokers=2, config={"min.insync.replicas": 2}) as (cluster, _):
        peer = await asker(cluster, 1)
        described = (await peer.ask(partitions("t"))).topics[0].partitions[0]
        assert (described.eligible_leader_replicas, described.last_known_elr) == ((), ())
        await cluster.expire_session(0)
        await cluster.settle_metadata()
        described = (await peer.ask(partitions("t"))).topics[0].partitions[0]
        assert (described.leader_id, described.isr_nodes, described.eligible_leader_replicas) == (1, (1,), (0,))
        assert (described.last_known_elr, described.offline_replicas) == ((), (0,)), "somebody leads"
        registered = cluster.broker(1).metadata.image.topics["t"].partitions
        registered[0] = registered[0]._replace(leader=-1, isr=frozenset(), elr=frozenset(), last_known_leader=1)
        described = (await peer.ask(partitions("t"))).topics[0].partitions[0]
        assert (described.error_code, described.leader_id, described.last_known_elr) == (ErrorCode.none, -1, (1,))


@simulated
async def test_partitions_of_topics_that_may_not_be_described_are_hidden() -> None:
    async with asking() as (cluster, _):
        forbid(cluster, (Operation.DESCRIBE, TOPIC, "t"))
        peer = await asker(cluster)
        assert found(await peer.ask(partitions())) == []
        assert found(await peer.ask(partitions("t", "u"))) == [
            (ErrorCode.topic_authorization_failed, "t"),
            (ErrorCode.unknown_topic_or_partition, "u"),
        ]


@simulated
async def test_resources_with_configurations_are_listed() -> None:
    async with asking(brokers=2) as (cluster, peer):
        response = await peer.ask(ListConfigResourcesRequest(resource_types=()))
        listed = [(resource.resource_type, resource.resource_name) for resource in response.config_resources]
        assert listed == [(2, "t"), (4, "0"), (4, "1"), (8, "0"), (8, "1")]
        response = await peer.ask(ListConfigResourcesRequest(resource_types=(i8(2),)))
        assert [resource.resource_name for resource in response.config_resources] == ["t"]
        assert (await peer.ask(ListConfigResourcesRequestV0())).config_resources == ()
        unknown = await peer.ask(ListConfigResourcesRequest(resource_types=(i8(99),)))
        assert unknown.error_code is ErrorCode.unsupported_version
        forbid(cluster, (Operation.DESCRIBE_CONFIGS, CLUSTER, CLUSTER_NAME))
        refused = await (await asker(cluster)).ask(ListConfigResourcesRequest(resource_types=()))
        assert refused.error_code is ErrorCode.cluster_authorization_failed
