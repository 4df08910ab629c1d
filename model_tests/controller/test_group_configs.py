"""Configurations of groups: what they may be, the brokers' bounds, and the metadata log that keeps them."""

from __future__ import annotations

import attrs
import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.controller.configs import Altered, ConfigChange
from tidegauge.impl.metadata.broker_configs import DynamicSettings
from tidegauge.impl.metadata.config_resources import AlterOperation, ConfigResourceType
from tidegauge.impl.metadata.group_configs import DEFAULT_GROUP_SETTINGS
from tidegauge.impl.metadata.topic_configs import DYNAMIC_DEFAULTS
from tidegauge.model_tests.controller.controlled_cluster import CONFIG, ControlledCluster, successor

GROUP = ConfigResourceType.GROUP
SET, DELETE, APPEND, _ = AlterOperation
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


def alter(
    cluster: ControlledCluster,
    *changes: tuple[str, int, str | None],
    group: str = "readers",
    validate_only: bool = False,
) -> Altered:
    given = [ConfigChange(*change) for change in changes]
    return cluster.commit(cluster.controller.configs.alter(GROUP, group, given, validate_only=validate_only))


def test_a_groups_settings_are_kept_and_every_later_controller_has_them() -> None:
    cluster = ControlledCluster()
    assert alter(cluster, (SESSION, SET, "50000"), ("share.auto.offset.reset", SET, "earliest")) == Altered()
    assert alter(cluster, (HEARTBEAT, SET, "6000"), group="writers") == Altered()
    kept = {"readers": {SESSION: "50000", "share.auto.offset.reset": "earliest"}, "writers": {HEARTBEAT: "6000"}}
    assert cluster.controller.image.group_configs == kept
    assert successor(cluster.log).image.group_configs == kept
    assert alter(cluster, (HEARTBEAT, DELETE, None), group="writers") == Altered()
    replaced = cluster.commit(cluster.controller.configs.replace(GROUP, "readers", {HEARTBEAT: "7000"}))
    assert replaced == Altered()
    assert cluster.controller.image.group_configs == {"readers": {HEARTBEAT: "7000"}}, "without settings, without entry"


@pytest.mark.parametrize("name", [SESSION, "nothing", "log.cleanup.policy"])
def test_nothing_is_appended_to_a_groups_settings_since_none_of_them_is_a_list(name: str) -> None:
    """Not to one that brokers have a list of either."""
    cluster = ControlledCluster(config=attrs.evolve(CONFIG, dynamic_settings=DynamicSettings(DYNAMIC_DEFAULTS)))
    refused = alter(cluster, (name, APPEND, "1"))
    assert refused.error is ErrorCode.invalid_config
    assert f"{name} is not a list" in refused.message


def test_what_is_only_validated_is_not_written() -> None:
    cluster = ControlledCluster()
    assert alter(cluster, (SESSION, SET, "50000"), validate_only=True) == Altered()
    assert cluster.controller.image.group_configs == {}


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("session.timeout.ms", "50000", "'session.timeout.ms' is no group setting; there are consumer."),
        (SESSION, "soon", f"{SESSION}='soon': it must be a whole number"),
        (SESSION, "0", f"{SESSION}='0': it must be at least 1"),
        (SESSION, "44999", f"{SESSION}=44999: it must be at least 45000, the brokers' group.consumer.min.session"),
        (SESSION, "60001", f"{SESSION}=60001: it must be at most 60000, the brokers' group.consumer.max.session"),
        (HEARTBEAT, "4999", "it must be at least 5000, the brokers' group.consumer.min.heartbeat.interval.ms"),
        ("consumer.assignment.interval.ms", "15001", "the brokers' group.consumer.max.assignment.interval.ms"),
        ("share.heartbeat.interval.ms", "15001", "the brokers' group.share.max.heartbeat.interval.ms"),
        ("share.record.lock.duration.ms", "14999", "the brokers' group.share.min.record.lock.duration.ms"),
        ("share.delivery.count.limit", "11", "the brokers' group.share.max.delivery.count.limit"),
        ("share.partition.max.record.locks", "4001", "the brokers' group.share.max.partition.max.record.locks"),
        ("share.auto.offset.reset", "by_duration:-PT1S", "by_duration: and a duration such as"),
        ("share.auto.offset.reset", "by_duration:P", "by_duration: and a duration such as"),
        ("share.isolation.level", "serializable", "it must be one of read_committed, read_uncommitted"),
        ("share.renew.acknowledge.enable", "1", "it must be true or false"),
        ("streams.session.timeout.ms", "1", "the brokers' group.streams.min.session.timeout.ms"),
        ("streams.num.standby.replicas", "3", "it must be at most 2, the brokers' group.streams.max.standby.replicas"),
        ("streams.initial.rebalance.delay.ms", "-1", "it must be at least 0"),
    ],
)
def test_what_no_group_may_have_is_refused_in_words(name: str, value: str, words: str) -> None:
    cluster = ControlledCluster()
    end = cluster.log.end_offset
    altered = alter(cluster, (name, SET, value))
    assert altered.error is ErrorCode.invalid_config
    assert words in altered.message
    assert cluster.log.end_offset == end


@pytest.mark.parametrize("value", ["latest", "earliest", "by_duration:PT10S", "by_duration:P1DT2H3M4.5S"])
def test_a_share_group_may_begin_at_an_end_or_some_time_ago(value: str) -> None:
    assert alter(ControlledCluster(), ("share.auto.offset.reset", SET, value)) == Altered()


def test_brokers_bounds_are_those_of_the_controllers_settings() -> None:
    bounds = {**DEFAULT_GROUP_SETTINGS, "group.consumer.min.session.timeout.ms": 1_000}
    cluster = ControlledCluster(config=attrs.evolve(CONFIG, group_settings=bounds))
    assert alter(cluster, (SESSION, SET, "6000")) == Altered()
    refused = alter(cluster, (SESSION, SET, "5000"))
    assert refused.error is ErrorCode.invalid_config
    assert "more than consumer.heartbeat.interval.ms=5000" in refused.message


def test_nothing_can_be_appended_to_a_number() -> None:
    altered = alter(ControlledCluster(), (SESSION, APPEND, "1"))
    assert (altered.error, "is not a list" in altered.message) == (ErrorCode.invalid_config, True)
