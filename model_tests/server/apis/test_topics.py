"""CreateTopics, DeleteTopics and CreatePartitions over the wire, with every error that Kafka has for them."""

from __future__ import annotations

import dataclasses
from typing import Any
from uuid import UUID

import pytest
from kio.schema.create_partitions.v3 import request as growing
from kio.schema.create_topics.v7 import request as creating
from kio.schema.delete_topics.v1.request import DeleteTopicsRequest as DeleteTopicsByName
from kio.schema.delete_topics.v2.request import DeleteTopicsRequest as DeleteTopicsV2
from kio.schema.delete_topics.v6 import request as deleting
from kio.schema.errors import ErrorCode

from tidegauge.impl.server.transport.authorization import Operation, ResourceType
from tidegauge.impl.wire.apis import request_class
from tidegauge.impl.wire.primitives import BrokerId, TopicName, i16, i32, millis
from tidegauge.impl.wire.versions import convert
from tidegauge.model_tests.server.asking import asker, asking, forbid
from tidegauge.model_tests.simulated import simulated

E = ErrorCode


def new(
    name: str,
    partitions: int = 1,
    factor: int = 1,
    assignments: dict[int, list[int]] | None = None,
    configs: dict[str, str] | None = None,
) -> creating.CreatableTopic:
    return creating.CreatableTopic(
        name=TopicName(name),
        num_partitions=i32(partitions),
        replication_factor=i16(factor),
        assignments=tuple(
            creating.CreatableReplicaAssignment(
                partition_index=i32(index), broker_ids=tuple(BrokerId(broker) for broker in brokers)
            )
            for index, brokers in (assignments or {}).items()
        ),
        configs=tuple(creating.CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()),
    )


def create(*topics: creating.CreatableTopic, validate_only: bool = False) -> creating.CreateTopicsRequest:
    return creating.CreateTopicsRequest(topics=topics, timeout=millis(5_000), validate_only=validate_only)


@simulated
async def test_a_created_topic_is_described_with_its_settings_and_where_they_come_from() -> None:
    async with asking(3, {"log.retention.ms": 5_000}) as (cluster, peer):
        response = await peer.ask(create(new("a", 4, 2, configs={"cleanup.policy": "compact"})))
        (topic,) = response.topics
        assert (topic.error_code, topic.num_partitions, topic.replication_factor) == (E.none, 4, 2)
        assert str(topic.topic_id) == cluster.controller.controller.image.topics["a"].topic_id
        told = {config.name: (config.value, config.config_source) for config in topic.configs}
        assert told["cleanup.policy"] == ("compact", 1)
        assert told["retention.ms"] == ("5000", 4)
        assert told["max.message.bytes"] == ("1048588", 5)


@simulated
async def test_what_is_only_validated_has_the_same_response_and_is_not_created() -> None:
    async with asking(2) as (cluster, peer):
        response = await peer.ask(create(new("a", 3, 2), new("t"), validate_only=True))
        assert [(one.error_code, one.num_partitions) for one in response.topics] == [
            (E.none, 3),
            (E.topic_already_exists, -1),
        ]
        assert "a" not in cluster.controller.controller.image.topics
        assert response.topics[0].topic_id is not None, "Kafka tells an id, though there will be no such topic"


@simulated
async def test_more_than_10_000_partitions_at_once_are_refused_before_any_is_made() -> None:
    async with asking(1) as (cluster, peer):
        response = await peer.ask(create(new("a", 5_000), new("b", 5_000), new("c", -1)))
        assert {one.error_code for one in response.topics} == {E.policy_violation}
        (refused,) = (await peer.ask(create(new("a", (1 << 31) - 1)))).topics
        assert refused.error_code is E.policy_violation
        (refused,) = (await peer.ask(grow(("t", (1 << 31) - 1, None)))).results
        assert refused.error_code is E.policy_violation
        assert list(cluster.controller.controller.image.topics) == ["t"]
        (made,) = (await peer.ask(create(new("a", 10_000), validate_only=True))).topics
        assert made.error_code is E.none


@simulated
async def test_a_setting_without_a_value_is_refused_where_a_topic_is_made() -> None:
    async with asking(1) as (cluster, peer):
        unset = creating.CreatableTopicConfig(name="retention.ms", value=None)
        response = await peer.ask(
            create(*(dataclasses.replace(new(name), configs=(unset,)) for name in ("a", "t", "a b")))
        )
        errors = [one.error_code for one in response.topics]
        assert errors == [E.invalid_config, E.topic_already_exists, E.invalid_topic_exception]
        assert "a" not in cluster.controller.controller.image.topics


@simulated
async def test_defaults_are_those_of_the_cluster() -> None:
    async with asking(3, {"num.partitions": 5, "default.replication.factor": 2}) as (_, peer):
        (topic,) = (await peer.ask(create(new("a", -1, -1)))).topics
        assert (topic.num_partitions, topic.replication_factor) == (5, 2)


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (new("t"), E.topic_already_exists),
        (new("a b"), E.invalid_topic_exception),
        (new(".."), E.invalid_topic_exception),
        (new("x" * 250), E.invalid_topic_exception),
        (new("dots_and"), E.invalid_topic_exception),
        (new("__cluster_metadata"), E.invalid_request),
        (new("a", 0), E.invalid_partitions),
        (new("a", -2), E.invalid_partitions),
        (new("a", 1, 0), E.invalid_replication_factor),
        (new("a", 0, 0), E.invalid_replication_factor),
        (new("a", 0, 3), E.invalid_partitions),
        (new("a", 1, 3), E.invalid_replication_factor),
        (new("a", configs={"no.such": "1"}), E.invalid_config),
        (new("a", configs={"segment.bytes": "some"}), E.invalid_config),
        (new("a", -1, -1, {0: [0, 0]}), E.invalid_replica_assignment),
        (new("a", -1, -1, {0: []}), E.invalid_replica_assignment),
        (new("a", -1, -1, {0: [9]}), E.invalid_replica_assignment),
        (new("a", -1, -1, {0: [0], 2: [1]}), E.invalid_replica_assignment),
        (new("a", -1, -1, {0: [0], 1: [0, 1]}), E.invalid_replica_assignment),
        (new("a", 1, -1, {0: [0]}), E.invalid_request),
        (new("a", -1, 1, {0: [0]}), E.invalid_request),
    ],
)
def test_what_cannot_be_created_is_refused_and_said_why(topic: creating.CreatableTopic, error: ErrorCode) -> None:
    @simulated
    async def ask() -> None:
        async with asking(2) as (cluster, peer):
            await cluster.create_topic("dots.and")
            (refused,) = (await peer.ask(create(topic))).topics
            assert refused.error_code is error
            assert refused.error_message

    ask()


@simulated
async def test_a_topic_that_is_named_twice_is_refused_and_the_others_are_created() -> None:
    async with asking(1, topic=None) as (cluster, peer):
        response = await peer.ask(create(new("a"), new("b"), new("a")))
        assert [(one.name, one.error_code) for one in response.topics] == [("a", E.invalid_request), ("b", E.none)]
        assert list(cluster.controller.controller.image.topics) == ["b"]


@simulated
async def test_a_client_that_may_not_create_is_refused_and_settings_are_for_those_that_may_read_them() -> None:
    async with asking(1) as (cluster, _):
        forbid(
            cluster,
            (Operation.CREATE, ResourceType.CLUSTER, "*"),
            (Operation.CREATE, ResourceType.TOPIC, "b"),
            (Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, "a"),
        )
        peer = await asker(cluster)
        one, other = (await peer.ask(create(new("a"), new("b")))).topics
        assert (one.error_code, one.topic_config_error_code) == (E.none, E.topic_authorization_failed.value)
        assert (one.num_partitions, one.configs) == (-1, ())
        assert other.error_code is E.topic_authorization_failed


def delete(*names: str | UUID) -> deleting.DeleteTopicsRequest:
    return deleting.DeleteTopicsRequest(
        topics=tuple(
            deleting.DeleteTopicState(name=None, topic_id=name)
            if isinstance(name, UUID)
            else deleting.DeleteTopicState(name=TopicName(name), topic_id=None)
            for name in names
        ),
        timeout=millis(5_000),
    )


@simulated
async def test_topics_are_deleted_by_name_and_by_id_in_every_version() -> None:
    async with asking(2) as (cluster, peer):
        image = cluster.controller.controller.image
        for version in range(1, 6):
            await cluster.create_topic("a")
            request = convert(
                DeleteTopicsByName(topic_names=(TopicName("a"),), timeout=millis(1)), request_class(20, version)
            )
            (result,) = (await peer.ask(request)).responses
            assert result.error_code is E.none
            assert "a" not in image.topics
        wanted = UUID(image.topics["t"].topic_id)
        (result,) = (await peer.ask(delete(wanted))).responses
        assert (result.error_code, result.name, result.topic_id) == (E.none, "t", wanted)


@simulated
async def test_what_cannot_be_deleted_is_refused() -> None:
    async with asking(1) as (_, peer):
        response = await peer.ask(delete("absent", UUID(int=5), "t", "t"))
        assert [one.error_code for one in response.responses] == [
            E.unknown_topic_or_partition,
            E.unknown_topic_id,
            E.invalid_request,
        ]


@simulated
async def test_one_malformed_entry_keeps_no_other_topic_from_being_deleted() -> None:
    async with asking(1) as (cluster, peer):
        await cluster.create_topic("a")
        both = deleting.DeleteTopicState(name=TopicName("t"), topic_id=UUID(int=5))
        neither = deleting.DeleteTopicState(name=None, topic_id=None)
        request = deleting.DeleteTopicsRequest(topics=(both, neither, *delete("a").topics), timeout=millis(1))
        response = await peer.ask(request)
        assert [one.error_code for one in response.responses] == [E.invalid_request, E.invalid_request, E.none]
        assert list(cluster.controller.controller.image.topics) == ["t"]


@simulated
async def test_a_topic_that_is_named_by_name_and_by_id_is_deleted_in_neither_way() -> None:
    async with asking(1) as (cluster, peer):
        known = UUID(cluster.controller.controller.image.topics["t"].topic_id)
        response = await peer.ask(delete("t", known))
        assert [(one.name, one.error_code) for one in response.responses] == [("t", E.invalid_request)]
        assert "t" in cluster.controller.controller.image.topics


@simulated
async def test_a_client_that_may_delete_on_the_cluster_may_delete_every_topic() -> None:
    async with asking(1) as (cluster, _):
        forbid(cluster, (Operation.DELETE, ResourceType.TOPIC, "*"))
        (deleted,) = (await (await asker(cluster)).ask(delete("t"))).responses
        assert deleted.error_code is E.none


@simulated
async def test_what_a_client_may_describe_and_not_delete_is_not_there() -> None:
    async with asking(1) as (cluster, _):
        forbid(cluster, (Operation.DELETE, ResourceType.CLUSTER, "*"), (Operation.DELETE, ResourceType.TOPIC, "*"))
        response = await (await asker(cluster)).ask(delete("t", "absent"))
        errors = [one.error_code for one in response.responses]
        assert errors == [E.topic_authorization_failed, E.unknown_topic_or_partition]


@simulated
async def test_deletion_may_be_disabled() -> None:
    async with asking(1, {"delete.topic.enable": False}) as (_, peer):
        (result,) = (await peer.ask(delete("t"))).responses
        assert result.error_code is E.topic_deletion_disabled
        old = DeleteTopicsV2(topic_names=(TopicName("t"),), timeout=millis(1))
        (result,) = (await peer.ask(old)).responses
        assert result.error_code is E.invalid_request


@simulated
async def test_a_client_that_may_not_delete_learns_nothing() -> None:
    async with asking(1) as (cluster, _):
        forbid(
            cluster,
            (Operation.DELETE, ResourceType.CLUSTER, "*"),
            (Operation.DELETE, ResourceType.TOPIC, "t"),
            (Operation.DESCRIBE, ResourceType.TOPIC, "t"),
        )
        peer = await asker(cluster)
        wanted = UUID(cluster.controller.controller.image.topics["t"].topic_id)
        response = await peer.ask(delete("t", wanted))
        assert [(one.name, one.error_code) for one in response.responses] == [
            ("t", E.topic_authorization_failed),
            (None, E.topic_authorization_failed),
        ]


def grow(*topics: tuple[str, int, list[list[int]] | None], validate_only: bool = False) -> Any:
    return growing.CreatePartitionsRequest(
        topics=tuple(
            growing.CreatePartitionsTopic(
                name=TopicName(name),
                count=i32(count),
                assignments=None
                if given is None
                else tuple(
                    growing.CreatePartitionsAssignment(broker_ids=tuple(BrokerId(broker) for broker in brokers))
                    for brokers in given
                ),
            )
            for name, count, given in topics
        ),
        timeout=millis(5_000),
        validate_only=validate_only,
    )


@simulated
async def test_topics_grow_where_they_are_told_and_not_when_they_are_only_looked_at() -> None:
    async with asking(3) as (cluster, peer):
        (result,) = (await peer.ask(grow(("t", 3, None), validate_only=True))).results
        assert result.error_code is E.none
        assert len(cluster.controller.controller.image.topics["t"].partitions) == 1
        (result,) = (await peer.ask(grow(("t", 3, [[2, 0, 1], [1, 2, 0]])))).results
        assert result.error_code is E.none
        assert cluster.replicas("t", 2) == (1, 2, 0)


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (("absent", 3, None), E.unknown_topic_or_partition),
        (("t", 1, None), E.invalid_partitions),
        (("t", 0, None), E.invalid_partitions),
        (("t", 3, [[0, 1]]), E.invalid_replica_assignment),
        (("t", 2, [[0]]), E.invalid_replica_assignment),
        (("t", 2, [[0, 0]]), E.invalid_replica_assignment),
        (("t", 2, [[0, 7]]), E.invalid_replica_assignment),
    ],
)
def test_what_cannot_grow_is_refused_and_said_why(topic: Any, error: ErrorCode) -> None:
    @simulated
    async def ask() -> None:
        async with asking(2) as (_, peer):
            (refused,) = (await peer.ask(grow(topic))).results
            assert refused.error_code is error
            assert refused.error_message

    ask()


@simulated
async def test_a_topic_that_is_being_reassigned_does_not_grow() -> None:
    async with asking(3) as (cluster, peer):
        await cluster.create_topic("a", assignments=[[0]])
        await cluster.crash(2)
        await cluster.reassign("a", [2], wait=False)
        (refused,) = (await peer.ask(grow(("a", 2, None)))).results
        assert refused.error_code is E.reassignment_in_progress


@simulated
async def test_growth_needs_the_right_and_each_topic_once() -> None:
    async with asking(1) as (cluster, _):
        await cluster.create_topic("a")
        forbid(cluster, (Operation.ALTER, ResourceType.TOPIC, "t"))
        peer = await asker(cluster)
        response = await peer.ask(grow(("t", 2, None), ("a", 2, None), ("a", 3, None)))
        assert [(one.name, one.error_code) for one in response.results] == [
            ("t", E.topic_authorization_failed),
            ("a", E.invalid_request),
        ]


@simulated
async def test_without_a_controller_everything_that_was_named_has_an_error() -> None:
    async with asking(1) as (cluster, peer):
        cluster.isolate("controller")
        (created,) = (await peer.ask(create(new("a")))).topics
        (deleted,) = (await peer.ask(delete("t"))).responses
        (grown,) = (await peer.ask(grow(("t", 2, None)))).results
        for result in (created, deleted, grown):
            assert result.error_code in (E.not_controller, E.request_timed_out)
