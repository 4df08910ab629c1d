"""Configurations, client quotas, the quorum and features, over the wire and in force."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from kio.schema.alter_client_quotas.v1 import request as quotas
from kio.schema.alter_configs.v2 import request as replacing
from kio.schema.describe_client_quotas.v1.request import ComponentData, DescribeClientQuotasRequest
from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_quorum.v2 import request as quorum
from kio.schema.errors import ErrorCode
from kio.schema.incremental_alter_configs.v1 import request as incremental
from kio.schema.list_config_resources.v1.request import ListConfigResourcesRequest
from kio.schema.update_features.v2.request import UpdateFeaturesRequest

from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.metadata.config_resources import MOST_SETTINGS, AlterOperation, too_many_settings
from tidegauge.impl.metadata.config_types import ConfigType
from tidegauge.impl.metadata.topic_configs import TOPIC_CONFIGS
from tidegauge.impl.server.settings.server_config import BROKER_CONFIGS, UPDATES
from tidegauge.impl.server.settings.sources import ConfigSource
from tidegauge.impl.server.transport.authorization import CLUSTER_NAME, Operation, ResourceType
from tidegauge.impl.wire.primitives import TopicName, f64, i8, i32, millis
from tidegauge.model_tests.server.asking import Asker, asker, asking, forbid
from tidegauge.model_tests.simulated import simulated

TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32


async def described(peer: Asker, kind: int, name: str, *keys: str, synonyms: bool = True) -> Any:
    """The response for one resource."""
    resource = DescribeConfigsResource(resource_type=i8(kind), resource_name=name, configuration_keys=keys or None)
    response = await peer.ask(
        DescribeConfigsRequest(resources=(resource,), include_synonyms=synonyms, include_documentation=synonyms)
    )
    return response.results[0]


async def entry(peer: Asker, kind: int, name: str, key: str) -> Any:
    result = await described(peer, kind, name, key)
    assert result.error_code is ErrorCode.none, result.error_message
    return result.configs[0]


async def alter(
    peer: Asker,
    kind: int,
    name: str,
    *changes: tuple[str, AlterOperation, str | None],
    validate_only: bool = False,
) -> Any:
    """The response for one resource."""
    resource = incremental.AlterConfigsResource(
        resource_type=i8(kind),
        resource_name=name,
        configs=tuple(
            incremental.AlterableConfig(name=key, config_operation=i8(operation), value=value)
            for key, operation, value in changes
        ),
    )
    request = incremental.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=validate_only)
    return (await peer.ask(request)).responses[0]


def places(config: Any) -> list[tuple[str, str, int]]:
    return [(synonym.name, synonym.value, synonym.source) for synonym in config.synonyms]


@simulated
async def test_every_setting_of_a_topic_is_described() -> None:
    async with asking() as (_, peer):
        result = await described(peer, TOPIC, "t")
        assert [config.name for config in result.configs] == list(TOPIC_CONFIGS)
        for config in result.configs:
            setting = TOPIC_CONFIGS[config.name]
            assert (config.value, config.config_type) == (setting.default_text, setting.kind)
            assert config.documentation == setting.documentation
            assert not config.read_only
            assert not config.is_sensitive
        quiet = await described(peer, TOPIC, "t", "flush.ms", synonyms=False)
        assert [(c.name, c.documentation, c.synonyms) for c in quiet.configs] == [("flush.ms", None, ())]


@simulated
async def test_a_resource_that_is_named_twice_is_described_once() -> None:
    """Each name of a few bytes would have tens of thousands in the response."""
    names = ("t", "t", "nothing", "t")
    resources = tuple(
        DescribeConfigsResource(resource_type=i8(TOPIC), resource_name=name, configuration_keys=None) for name in names
    )
    async with asking() as (_, peer):
        response = await peer.ask(DescribeConfigsRequest(resources=resources))
        assert [result.resource_name for result in response.results] == ["t", "nothing"]
        listed = await peer.ask(ListConfigResourcesRequest(resource_types=(i8(TOPIC),) * 500))
        assert [(one.resource_name, one.resource_type) for one in listed.config_resources] == [("t", TOPIC)]


@simulated
async def test_every_setting_of_a_broker_is_described() -> None:
    async with asking() as (_, peer):
        result = await described(peer, BROKER, "0")
        assert [config.name for config in result.configs] == list(BROKER_CONFIGS)
        for config in result.configs:
            assert config.read_only == (config.name not in UPDATES)
            assert config.documentation
            if BROKER_CONFIGS[config.name].kind is ConfigType.PASSWORD:
                assert (config.value, config.is_sensitive) == (None, True)


@simulated
async def test_a_broker_tells_where_it_listens_though_nobody_has_set_it() -> None:
    async with asking() as (cluster, peer):
        where = f"PLAINTEXT://{cluster.broker(0).address}"
        for name in ("listeners", "advertised.listeners"):
            assert places(await entry(peer, BROKER, "0", name))[0] == (name, where, ConfigSource.STATIC)


@simulated
async def test_tools_that_move_partitions_may_set_throttles_and_take_them_away_again() -> None:
    """`kafka-reassign-partitions --throttle` moves nothing where a broker refuses them."""
    async with asking() as (cluster, peer):
        for name in ("leader.replication.throttled.rate", "follower.replication.throttled.rate"):
            await alter(peer, BROKER, "0", (name, AlterOperation.SET, "1000"))
            await cluster.settle_metadata()
            assert places(await entry(peer, BROKER, "0", name))[0] == (name, "1000", ConfigSource.BROKER)
            await alter(peer, BROKER, "0", (name, AlterOperation.DELETE, ""))
            await cluster.settle_metadata()
            assert [source for *_, source in places(await entry(peer, BROKER, "0", name))] == [ConfigSource.DEFAULT]


@simulated
async def test_a_value_comes_from_the_nearest_place_and_the_others_are_told() -> None:
    async with asking(config={"log.retention.hours": 2}) as (cluster, peer):
        config = await entry(peer, TOPIC, "t", "retention.ms")
        assert (config.value, config.config_source) == ("7200000", ConfigSource.STATIC)
        assert places(config) == [
            ("log.retention.hours", "2", ConfigSource.STATIC),
            ("log.retention.ms", "604800000", ConfigSource.DEFAULT),
        ]
        await alter(peer, BROKER, "", ("log.retention.ms", AlterOperation.SET, "3"))
        await alter(peer, BROKER, "0", ("log.retention.ms", AlterOperation.SET, "4"))
        await alter(peer, TOPIC, "t", ("retention.ms", AlterOperation.SET, "5"))
        await cluster.settle_metadata()
        config = await entry(peer, TOPIC, "t", "retention.ms")
        assert (config.value, config.config_source) == ("5", ConfigSource.TOPIC)
        assert places(config)[:3] == [
            ("retention.ms", "5", ConfigSource.TOPIC),
            ("log.retention.ms", "4", ConfigSource.BROKER),
            ("log.retention.ms", "3", ConfigSource.ALL_BROKERS),
        ]
        for name, value, source in (("0", "4", ConfigSource.BROKER), ("", "3", ConfigSource.ALL_BROKERS)):
            config = await entry(peer, BROKER, name, "log.retention.ms")
            assert (config.value, config.config_source) == (value, source)
        listed = await described(peer, BROKER, "")
        names = [config.name for config in listed.configs]
        assert names == ["log.retention.ms", "min.insync.replicas"], "only what was set for all brokers"


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (TOPIC, "nobody", ErrorCode.unknown_topic_or_partition),
        (TOPIC, "a b", ErrorCode.invalid_topic_exception),
        (BROKER, "1", ErrorCode.invalid_request),
        (GROUP, "", ErrorCode.invalid_request),
        (CLIENT_METRICS, "m", ErrorCode.invalid_request),
    ],
)
@simulated
async def test_what_cannot_be_described_is_refused(kind: int, name: str, error: ErrorCode) -> None:
    async with asking() as (_, peer):
        result = await described(peer, kind, name)
        assert (result.error_code, result.resource_name, result.configs) == (error, name, ())
        assert result.error_message


@simulated
async def test_a_topics_settings_are_in_force_at_once() -> None:
    async with asking() as (cluster, peer), cluster.client() as client:
        altered = await alter(peer, TOPIC, "t", ("max.message.bytes", AlterOperation.SET, "100"))
        assert (altered.error_code, altered.resource_name) == (ErrorCode.none, "t")
        await cluster.settle_metadata()
        with pytest.raises(KafkaError) as refused:
            await client.produce("t", bytes(200))
        assert refused.value.code is ErrorCode.message_too_large
        await alter(peer, TOPIC, "t", ("max.message.bytes", AlterOperation.DELETE, None))
        await cluster.settle_metadata()
        assert await client.produce("t", bytes(200)) == 0


@simulated
async def test_settings_of_all_brokers_are_in_force_at_once() -> None:
    async with asking(brokers=2, config={"min.insync.replicas": 1}) as (cluster, peer), cluster.client() as client:
        await alter(peer, BROKER, "", ("min.insync.replicas", AlterOperation.SET, "2"))
        await alter(peer, BROKER, "", ("message.max.bytes", AlterOperation.SET, "100"))
        await cluster.settle_metadata()
        with pytest.raises(KafkaError) as refused:
            await client.produce("t", bytes(200))
        assert refused.value.code is ErrorCode.message_too_large
        assert [broker.config.current.topic_defaults["min.insync.replicas"] for broker in cluster.brokers] == ["2", "2"]
        await alter(peer, BROKER, "", ("min.insync.replicas", AlterOperation.SET, "1"))
        await alter(peer, BROKER, "", ("message.max.bytes", AlterOperation.DELETE, None))
        await cluster.settle_metadata()
        assert [broker.config.current.topic_defaults["min.insync.replicas"] for broker in cluster.brokers] == ["1", "1"]
        await client.produce("t", bytes(200))


@simulated
async def test_the_controllers_min_insync_replicas_is_told_as_that_of_all_brokers() -> None:
    async with asking(config={"min.insync.replicas": 2}) as (cluster, peer):
        config = await entry(peer, TOPIC, "t", "min.insync.replicas")
        assert (config.value, config.config_source) == ("2", ConfigSource.ALL_BROKERS)
        assert places(config) == [
            ("min.insync.replicas", "2", ConfigSource.ALL_BROKERS),
            ("min.insync.replicas", "2", ConfigSource.STATIC),
            ("min.insync.replicas", "1", ConfigSource.DEFAULT),
        ]
        deleted = await alter(peer, BROKER, "", ("min.insync.replicas", AlterOperation.DELETE, None))
        assert deleted.error_code is ErrorCode.invalid_config
        assert deleted.error_message == "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
        await cluster.restart_controller()
        await cluster.settle_metadata()
        config = await entry(peer, TOPIC, "t", "min.insync.replicas")
        assert (config.value, config.config_source) == ("2", ConfigSource.ALL_BROKERS)


@simulated
async def test_a_brokers_own_setting_is_in_force_there_alone() -> None:
    async with asking(brokers=2) as (cluster, _):
        await alter(await asker(cluster, 1), BROKER, "1", ("max.connections", AlterOperation.SET, "7"))
        await cluster.settle_metadata()
        assert cluster.broker(1).config.current.max_connections == 7
        assert cluster.broker(0).config.current.max_connections > 7


@simulated
async def test_settings_survive_the_controller() -> None:
    async with asking() as (cluster, peer):
        await alter(peer, BROKER, "", ("log.retention.ms", AlterOperation.SET, "3"))
        await alter(peer, TOPIC, "t", ("flush.ms", AlterOperation.SET, "4"))
        await cluster.restart_controller()
        image = cluster.controller.controller.image
        assert image.broker_configs[""]["log.retention.ms"] == "3"
        assert image.topics["t"].configs == {"flush.ms": "4"}


@simulated
async def test_resources_are_altered_one_by_one_and_refused_one_by_one() -> None:
    async with asking() as (cluster, _):
        await cluster.create_topic("u")
        forbid(cluster, (Operation.ALTER_CONFIGS, ResourceType.TOPIC, "t"))
        peer = await asker(cluster)

        def resource(name: str, value: str) -> replacing.AlterConfigsResource:
            config = replacing.AlterableConfig(name="flush.ms", value=value)
            return replacing.AlterConfigsResource(resource_type=i8(TOPIC), resource_name=name, configs=(config,))

        request = replacing.AlterConfigsRequest(
            resources=(resource("t", "1"), resource("u", "2"), resource("v", "3"), resource("v", "4")),
            validate_only=False,
        )
        responses = {(r.resource_name, r.error_code) for r in (await peer.ask(request)).responses}
        assert responses == {
            ("t", ErrorCode.topic_authorization_failed),
            ("u", ErrorCode.none),
            ("v", ErrorCode.invalid_request),
        }
        topics = cluster.controller.controller.image.topics
        assert (topics["t"].configs, topics["u"].configs) == ({}, {"flush.ms": "2"})


@simulated
async def test_the_response_has_altered_resources_in_the_order_of_the_request() -> None:
    async with asking(brokers=2) as (_, peer):
        setting = (incremental.AlterableConfig(name="flush.ms", config_operation=i8(0), value="7"),)
        resources = [(TOPIC, "t", setting), (BROKER, "1", ()), (99, "x", ()), (TOPIC, "a b", ()), (BROKER, "0", ())]
        request = incremental.IncrementalAlterConfigsRequest(
            resources=tuple(
                incremental.AlterConfigsResource(resource_type=i8(kind), resource_name=name, configs=configs)
                for kind, name, configs in resources
            ),
            validate_only=False,
        )
        response = await peer.ask(request)
        assert [(one.resource_type, one.resource_name) for one in response.responses] == [one[:2] for one in resources]
        assert [one.error_code for one in response.responses] == [
            ErrorCode.none,
            ErrorCode.invalid_request,
            ErrorCode.invalid_request,
            ErrorCode.invalid_topic_exception,
            ErrorCode.none,
        ]
        assert "this is broker 0" in response.responses[1].error_message


@simulated
async def test_a_setting_that_a_new_map_names_twice_is_refused() -> None:
    async with asking() as (cluster, peer):
        twice = tuple(replacing.AlterableConfig(name="flush.ms", value=value) for value in ("1", "2"))
        resource = replacing.AlterConfigsResource(resource_type=i8(TOPIC), resource_name="t", configs=twice)
        response = await peer.ask(replacing.AlterConfigsRequest(resources=(resource,), validate_only=False))
        assert response.responses[0].error_code is ErrorCode.invalid_request
        assert cluster.controller.controller.image.topics["t"].configs == {}


@simulated
async def test_values_are_described_as_they_are_understood() -> None:
    async with asking() as (cluster, peer):
        given = (("preallocate", AlterOperation.SET, " TRUE"), ("flush.ms", AlterOperation.SET, "+7 "))
        await alter(peer, TOPIC, "t", *given)
        await cluster.settle_metadata()
        for name, value in (("preallocate", "true"), ("flush.ms", "7")):
            told = await entry(peer, TOPIC, "t", name)
            assert (told.value, told.synonyms[0].value) == (value, value)
        await alter(peer, BROKER, "", ("log.flush.interval.ms", AlterOperation.SET, " 9"))
        await alter(peer, TOPIC, "t", ("flush.ms", AlterOperation.DELETE, None))
        await cluster.settle_metadata()
        told = await entry(peer, TOPIC, "t", "flush.ms")
        assert (told.value, told.synonyms[0].value) == ("9", " 9"), "brokers' settings beside it as they were given"


@simulated
async def test_what_is_only_validated_changes_nothing() -> None:
    async with asking() as (cluster, peer):
        set_it = ("flush.ms", AlterOperation.SET, "4")
        assert (await alter(peer, TOPIC, "t", set_it, validate_only=True)).error_code is ErrorCode.none
        wrong = ("flush.ms", AlterOperation.SET, "x")
        refused = await alter(peer, TOPIC, "t", wrong, validate_only=True)
        assert refused.error_code is ErrorCode.invalid_config
        assert "flush.ms='x'" in refused.error_message
        assert cluster.controller.controller.image.topics["t"].configs == {}


@simulated
async def test_only_those_who_may_alter_and_describe_the_cluster_do() -> None:
    async with asking() as (cluster, _):
        forbid(
            cluster,
            (Operation.ALTER_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME),
            (Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME),
            (Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, "t"),
            (Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME),
            (Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME),
        )
        peer = await asker(cluster)
        refused = ErrorCode.cluster_authorization_failed
        assert (await described(peer, BROKER, "0")).error_code is refused
        assert (await described(peer, TOPIC, "t")).error_code is ErrorCode.topic_authorization_failed
        assert (await alter(peer, BROKER, "0", ("log.retention.ms", AlterOperation.SET, "3"))).error_code is refused
        assert (await peer.ask(quota_filter())).error_code is refused
        assert (await peer.ask(quota_change("producer_byte_rate", 1.0))).entries[0].error_code is refused
        assert (await peer.ask(quorum_of("__cluster_metadata"))).error_code is refused
        assert (await peer.ask(UpdateFeaturesRequest(timeout=millis(1_000), feature_updates=()))).error_code is refused


def quota_change(key: str, value: float | None, *, user: str | None = "alice") -> quotas.AlterClientQuotasRequest:
    entry = quotas.EntryData(
        entity=(quotas.EntityData(entity_type="user", entity_name=user),),
        ops=(quotas.OpData(key=key, value=f64(value or 0.0), remove=value is None),),
    )
    return quotas.AlterClientQuotasRequest(entries=(entry,), validate_only=False)


def quota_filter(*components: tuple[str, int, str | None], strict: bool = False) -> DescribeClientQuotasRequest:
    return DescribeClientQuotasRequest(
        components=tuple(
            ComponentData(entity_type=kind, match_type=i8(match_type), match=match)
            for kind, match_type, match in components
        ),
        strict=strict,
    )


@simulated
async def test_an_entry_of_more_than_an_entity_has_is_refused_and_what_is_removed_from_nobody_is_taken() -> None:
    def entry(users: int, *ops: tuple[str, bool]) -> quotas.EntryData:
        return quotas.EntryData(
            entity=tuple(quotas.EntityData(entity_type="user", entity_name=f"u{n}") for n in range(users)),
            ops=tuple(quotas.OpData(key=key, value=f64(1.0), remove=remove) for key, remove in ops),
        )

    removed = [(f"no-quota-{n}", True) for n in range(100)]
    entries = (
        entry(1000),
        entry(1, *removed, ("producer_byte_rate", False)),
        entry(2, *removed, ("no-quota-7", True)),
        entry(1, ("producer_byte_rate", False)),
    )
    async with asking() as (_, peer):
        response = await peer.ask(quotas.AlterClientQuotasRequest(entries=entries, validate_only=False))
        assert [len(one.entity) for one in response.entries] == [1000, 1, 2, 1]
        assert [one.error_message for one in response.entries] == [
            "the entity names a type twice: name each once",
            None,
            "the entity names a type twice: name each once",
            "the entity is named twice: name each once",
        ]
        twice = entry(1, *removed, ("no-quota-7", True))
        response = await peer.ask(quotas.AlterClientQuotasRequest(entries=(twice,), validate_only=False))
        assert response.entries[0].error_message == "a quota is named twice: name each once"


@simulated
async def test_more_settings_of_a_resource_than_there_may_be_are_refused() -> None:
    changes = [(f"setting-{n}", AlterOperation.DELETE, None) for n in range(MOST_SETTINGS + 1)]
    async with asking() as (_, peer):
        assert (await alter(peer, TOPIC, "t", *changes[1:])).error_code is ErrorCode.none
        refused = await alter(peer, TOPIC, "t", *changes)
        assert (refused.error_code, refused.error_message) == (ErrorCode.invalid_request, too_many_settings(1001))


@simulated
async def test_quotas_are_altered_and_described() -> None:
    async with asking() as (cluster, peer):
        for user, rate in (("alice", 5.0), ("bob", 6.0), (None, 7.0)):
            response = await peer.ask(quota_change("producer_byte_rate", rate, user=user))
            assert response.entries[0].error_code is ErrorCode.none
        await cluster.settle_metadata()

        async def users(*components: tuple[str, int, str | None], strict: bool = False) -> dict[str | None, float]:
            response = await peer.ask(quota_filter(*components, strict=strict))
            assert response.error_code is ErrorCode.none
            return {entry.entity[0].entity_name: entry.values[0].value for entry in response.entries}

        assert await users() == {"alice": 5.0, "bob": 6.0, None: 7.0}
        assert await users(strict=True) == {}
        assert await users(("user", 0, "bob"), strict=True) == {"bob": 6.0}
        assert await users(("user", 1, None)) == {None: 7.0}
        assert await users(("user", 2, None)) == {"alice": 5.0, "bob": 6.0, None: 7.0}
        assert await users(("client-id", 2, None)) == {}
        await peer.ask(quota_change("producer_byte_rate", None))
        await cluster.settle_metadata()
        assert await users() == {"bob": 6.0, None: 7.0}
        refused = (await peer.ask(quota_change("producer_byte_rate", -1.0))).entries[0]
        assert refused.error_code is ErrorCode.invalid_request
        assert "more than 0" in refused.error_message


@pytest.mark.parametrize(
    ("components", "words"),
    [
        ((("", 2, None),), "an entity type is empty"),
        ((("ip", 2, None), ("user", 2, None)), "by itself"),
        ((("user", 2, None), ("user", 2, None)), "twice"),
        ((("user", 3, None),), "match type 3"),
        ((("user", 0, None),), "a name goes with match type 0"),
        ((("user", 1, "a"),), "a name goes with match type 0"),
    ],
)
@simulated
async def test_filters_of_quotas_that_are_none_are_refused(
    components: tuple[tuple[str, int, str | None], ...], words: str
) -> None:
    async with asking() as (_, peer):
        response = await peer.ask(quota_filter(*components))
        assert response.error_code is ErrorCode.invalid_request
        assert words in response.error_message


@simulated
async def test_types_of_entities_that_are_not_known_yet_are_told_from_wrong_filters() -> None:
    async with asking() as (_, peer):
        response = await peer.ask(quota_filter(("group", 2, None)))
        assert response.error_code is ErrorCode.unsupported_version
        assert "'group' is no type of entity" in response.error_message
        assert response.entries is None, "a response that there is none, and not that there are no quotas"


@simulated
async def test_of_two_entries_about_one_entity_the_first_counts() -> None:
    async with asking() as (cluster, peer):
        entries = [quota_change("producer_byte_rate", rate).entries[0] for rate in (5.0, 6.0)]
        response = await peer.ask(quotas.AlterClientQuotasRequest(entries=tuple(entries), validate_only=False))
        assert [one.error_code for one in response.entries] == [ErrorCode.none, ErrorCode.invalid_request]
        (set_,) = cluster.controller.controller.image.client_quotas.values()
        assert set_ == {"producer_byte_rate": 5.0}


def quorum_of(topic: str) -> quorum.DescribeQuorumRequest:
    partition = quorum.PartitionData(partition_index=i32(0))
    return quorum.DescribeQuorumRequest(
        topics=(quorum.TopicData(topic_name=TopicName(topic), partitions=(partition,)),)
    )


@simulated
async def test_the_quorum_is_one_controller_observed_by_the_brokers() -> None:
    async with asking(brokers=2) as (cluster, peer):
        await trio.sleep(2)
        response = await peer.ask(quorum_of("__cluster_metadata"))
        assert response.error_code is ErrorCode.none
        partition = response.topics[0].partitions[0]
        end = cluster.controller.log.end_offset
        assert (partition.leader_id, partition.leader_epoch, partition.high_watermark) == (
            cluster.controller.id,
            cluster.controller.controller.controller_epoch,
            end,
        )
        assert [voter.replica_id for voter in partition.current_voters] == [cluster.controller.id]
        assert [(o.replica_id, o.log_end_offset) for o in partition.observers] == [(0, end), (1, end)]
        assert all(o.last_caught_up_timestamp == o.last_fetch_timestamp > 0 for o in partition.observers)
        assert [node.node_id for node in response.nodes] == [cluster.controller.id]
        assert (response.error_message, partition.error_message) == ("", ""), "no null"
        absent = await peer.ask(quorum_of("t"))
        other = absent.topics[0].partitions[0]
        assert (other.error_code, other.leader_id) == (ErrorCode.unknown_topic_or_partition, 0)
        assert absent.nodes == ()
        nothing = await peer.ask(quorum.DescribeQuorumRequest(topics=()))
        assert (nothing.error_code, nothing.topics, nothing.nodes) == (ErrorCode.none, (), ())


@simulated
async def test_the_partition_that_has_a_quorum_is_asked_for_alone() -> None:
    async with asking() as (_, peer):
        both = (*quorum_of("__cluster_metadata").topics, *quorum_of("t").topics)
        response = await peer.ask(quorum.DescribeQuorumRequest(topics=both))
        errors = [topic.partitions[0].error_code for topic in response.topics]
        assert errors == [ErrorCode.unknown_topic_or_partition] * 2


@simulated
async def test_a_broker_that_receives_nothing_lags_in_the_quorum() -> None:
    async with asking(brokers=2) as (cluster, peer):
        await trio.sleep(2)
        cluster.isolate(1)
        await cluster.create_topic("u", replication_factor=1)
        await trio.sleep(1)
        before, behind = (await peer.ask(quorum_of("__cluster_metadata"))).topics[0].partitions[0].observers
        assert behind.log_end_offset < before.log_end_offset
        assert behind.last_caught_up_timestamp < before.last_caught_up_timestamp


@simulated
async def test_an_update_of_no_feature_changes_nothing() -> None:
    async with asking() as (_, peer):
        response = await peer.ask(UpdateFeaturesRequest(timeout=millis(1_000), feature_updates=()))
        assert response.error_code is ErrorCode.none
