"""Dynamic configurations: what a request may change, and what follows from it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

import attrs
import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.controller.client_quotas import QuotaChange
from tidegauge.impl.controller.config import DEFAULT_CONTROLLER_ID as CONTROLLER
from tidegauge.impl.controller.config import ControllerConfig
from tidegauge.impl.controller.configs import LONGEST_VALUE, Altered, ConfigChange
from tidegauge.impl.controller.controller import Controller
from tidegauge.impl.controller.producer_ids import BLOCK_SIZE, LAST_PRODUCER_ID, ProducerIdsBlock
from tidegauge.impl.metadata.broker_configs import DynamicSettings
from tidegauge.impl.metadata.client_quotas import QuotaEntity
from tidegauge.impl.metadata.config_resources import ALL_BROKERS, AlterOperation, ConfigResourceType
from tidegauge.impl.metadata.topic_configs import DYNAMIC_DEFAULTS
from tidegauge.model_tests.controller.controlled_cluster import CONFIG, TOPIC, ControlledCluster

SET, DELETE, APPEND, SUBTRACT = AlterOperation
MIN_INSYNC = "min.insync.replicas"
UNCLEAN = "unclean.leader.election.enable"


class Configured(ControlledCluster):
    """A cluster whose brokers' settings can be changed."""

    def __init__(self, brokers: int = 3) -> None:
        super().__init__(brokers, config=attrs.evolve(CONFIG, dynamic_settings=DynamicSettings(DYNAMIC_DEFAULTS)))

    def alter(self, *changes: tuple[str, int, str | None], validate_only: bool = False) -> Altered:
        return self.commit(
            self.controller.configs.alter(
                ConfigResourceType.TOPIC,
                TOPIC,
                [ConfigChange(*change) for change in changes],
                validate_only=validate_only,
            )
        )

    def alter_brokers(self, *changes: tuple[str, int, str | None], broker: str = "") -> Altered:
        return self.commit(
            self.controller.configs.alter(
                ConfigResourceType.BROKER, broker, [ConfigChange(*change) for change in changes]
            )
        )

    @property
    def configs(self) -> dict[str, str]:
        return self.controller.image.topics[TOPIC].configs


def configured() -> Configured:
    cluster = Configured()
    cluster.create(configs={"retention.ms": "5"})
    return cluster


def test_settings_are_set_deleted_appended_and_subtracted() -> None:
    cluster = configured()
    assert cluster.alter(("retention.ms", DELETE, None), ("flush.ms", SET, "7")) == Altered()
    assert cluster.configs == {"flush.ms": "7"}
    cluster.alter(("cleanup.policy", APPEND, "compact,delete"))
    assert cluster.configs["cleanup.policy"] == "delete,compact", "appended to the default, without doubles"
    cluster.alter(("cleanup.policy", SUBTRACT, "delete"))
    assert cluster.configs["cleanup.policy"] == "compact"


def test_a_new_map_takes_the_place_of_the_old_one() -> None:
    cluster = configured()
    replaced = cluster.commit(cluster.controller.configs.replace(ConfigResourceType.TOPIC, TOPIC, {"flush.ms": "7"}))
    assert (replaced, cluster.configs) == (Altered(), {"flush.ms": "7"})


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ([("flush", SET, "1")], ErrorCode.invalid_config, "'flush' is no topic setting"),
        ([("flush.ms", SET, "x")], ErrorCode.invalid_config, "flush.ms='x': it must be a whole number"),
        ([("flush.ms", SET, "1_0")], ErrorCode.invalid_config, "flush.ms='1_0': it must be a whole number"),
        ([("flush.ms", SET, "١")], ErrorCode.invalid_config, "it must be a whole number"),
        ([("flush.ms", SET, "1" * 40_000)], ErrorCode.invalid_config, "flush.ms has more than 32767 characters"),
        ([("cleanup.policy", SET, "delete,delete")], ErrorCode.invalid_config, "it must have each word once"),
        ([("flush.ms", SET, None)], ErrorCode.invalid_request, "flush.ms has no value"),
        ([("flush.ms", APPEND, "1")], ErrorCode.invalid_config, "flush.ms is not a list"),
        ([("flush", APPEND, "1")], ErrorCode.invalid_config, "flush is not a list"),
        ([("flush.ms", 9, "1")], ErrorCode.invalid_request, "operation 9"),
        ([("flush.ms", SET, "1"), ("flush.ms", SET, "2")], ErrorCode.invalid_request, "named twice"),
        ([("segment.ms", SET, "1"), ("flush.ms", SET, "x")], ErrorCode.invalid_config, "flush.ms='x'"),
    ],
)
def test_a_request_is_done_as_a_whole_or_not_at_all(
    changes: list[tuple[str, int, str | None]], error: ErrorCode, words: str
) -> None:
    cluster = configured()
    end = cluster.log.end_offset
    altered = cluster.alter(*changes)
    assert altered.error is error
    assert words in altered.message
    assert cluster.log.end_offset == end


@pytest.mark.parametrize(("more", "error"), [(0, ErrorCode.none), (1, ErrorCode.invalid_config)])
def test_a_value_is_as_long_as_kafkas_strings_may_be(more: int, error: ErrorCode) -> None:
    value = "7".rjust(LONGEST_VALUE + more)
    assert configured().alter(("flush.ms", SET, value)).error is error


def test_a_setting_that_each_broker_has_for_itself_is_not_set_for_all() -> None:
    own = DynamicSettings(DYNAMIC_DEFAULTS, of_one_broker=frozenset({"log.retention.ms"}))
    cluster = ControlledCluster(config=attrs.evolve(CONFIG, dynamic_settings=own))
    change = [ConfigChange("log.retention.ms", SET, "9")]
    alter = cluster.controller.configs.alter
    assert cluster.commit(alter(ConfigResourceType.BROKER, "1", change)) == Altered()
    refused = cluster.commit(alter(ConfigResourceType.BROKER, ALL_BROKERS, change))
    assert (refused.error, refused.message) == (
        ErrorCode.invalid_request,
        "log.retention.ms is each broker's own: give a broker's id",
    )


def test_what_is_only_validated_is_not_written() -> None:
    cluster = configured()
    assert cluster.alter(("flush.ms", SET, "7"), validate_only=True) == Altered()
    assert cluster.configs == {"retention.ms": "5"}


@pytest.mark.parametrize(
    ("kind", "resource", "error"),
    [
        (ConfigResourceType.TOPIC, "nobody", ErrorCode.unknown_topic_or_partition),
        (ConfigResourceType.BROKER, "7", ErrorCode.broker_id_not_registered),
        (ConfigResourceType.BROKER, "-1", ErrorCode.invalid_request),
        (ConfigResourceType.BROKER, "\u0661", ErrorCode.invalid_request),
        (ConfigResourceType.GROUP, "", ErrorCode.invalid_request),
        (ConfigResourceType.CLIENT_METRICS, "m", ErrorCode.invalid_request),
        (99, "g", ErrorCode.invalid_request),
        (99, "1", ErrorCode.invalid_request),
        (ConfigResourceType.TOPIC, "", ErrorCode.invalid_request),
        (ConfigResourceType.TOPIC, "a b", ErrorCode.invalid_topic_exception),
    ],
)
def test_resources_that_are_none_are_refused(kind: int, resource: str, error: ErrorCode) -> None:
    cluster = configured()
    controller = cluster.controller
    assert cluster.commit(controller.configs.alter(kind, resource, [])).error is error
    assert cluster.commit(controller.configs.replace(kind, resource, {})).error is error


def test_wrong_settings_are_told_before_it_is_told_that_there_is_no_such_topic() -> None:
    change = ConfigChange("flush.ms", SET, "x")
    cluster = configured()
    altered = cluster.commit(cluster.controller.configs.alter(ConfigResourceType.TOPIC, "nobody", [change]))
    assert altered.error is ErrorCode.invalid_config


def test_brokers_settings_are_kept_for_one_or_for_all() -> None:
    cluster = configured()
    assert cluster.alter_brokers(("log.retention.ms", SET, "9")) == Altered()
    assert cluster.alter_brokers(("log.retention.ms", SET, "8"), broker="1") == Altered()
    assert cluster.controller.image.broker_configs == {
        "": {MIN_INSYNC: "1", "log.retention.ms": "9"},
        "1": {"log.retention.ms": "8"},
    }
    cluster.alter_brokers(("log.retention.ms", DELETE, None))
    assert cluster.controller.image.broker_configs[""] == {MIN_INSYNC: "1"}
    refused = cluster.alter_brokers(("broker.session.timeout.ms", SET, "9"))
    assert refused.error is ErrorCode.invalid_request
    assert "cannot be changed while brokers run" in refused.message
    assert "log.retention.ms" in refused.message
    assert cluster.alter_brokers(("log.retention.ms", SET, "x")).error is ErrorCode.invalid_request


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        (MIN_INSYNC, "2", "Broker-level min.insync.replicas cannot be altered while ELR is enabled."),
        (UNCLEAN, "true", "the same for all brokers"),
    ],
)
def test_no_broker_has_its_own_idea_of_what_the_controller_decides_by(name: str, value: str, words: str) -> None:
    """A leader that commits with fewer than the controller believes would break what eligible leaders rest on."""
    cluster = configured()
    refused = cluster.alter_brokers((name, SET, value), broker="1")
    assert refused.error is ErrorCode.invalid_config
    assert words in refused.message
    assert cluster.alter_brokers((name, SET, value)) == Altered()


def test_a_controllers_own_defaults_count_where_nothing_is_set_for_all_brokers() -> None:
    config = attrs.evolve(CONFIG, topic_defaults={MIN_INSYNC: "2"})
    cluster = configured()
    cluster.controller.image.broker_configs.clear()
    assert config.min_insync_replicas(cluster.controller.image, TOPIC) == 2


def test_the_first_controller_writes_its_own_min_insync_replicas_for_all_brokers() -> None:
    cluster = ControlledCluster(config=attrs.evolve(CONFIG, topic_defaults={MIN_INSYNC: "2"}))
    assert cluster.controller.image.broker_configs == {"": {MIN_INSYNC: "2"}}
    later = Controller(CONTROLLER, attrs.evolve(CONFIG, topic_defaults={MIN_INSYNC: "3"}))
    cluster.log.elect(later, now_ms=0)
    assert later.image.broker_configs == {"": {MIN_INSYNC: "2"}}, "once written, no node's file counts"
    cluster.create(configs={})
    later.replay(cluster.log.read(later.image.offset))
    assert later.config.min_insync_replicas(later.image, TOPIC) == 2


@pytest.mark.parametrize("broker", ["", "1"])
def test_min_insync_replicas_is_neither_deleted_for_all_brokers_nor_touched_for_one(broker: str) -> None:
    """Each broker would fall back to its file, which the controller does not know."""
    cluster = configured()
    cluster.alter_brokers((MIN_INSYNC, SET, "2"))
    end = cluster.log.end_offset
    words = "Broker-level" if broker else "Cluster-level"
    deleted = cluster.alter_brokers((MIN_INSYNC, DELETE, None), ("log.retention.ms", SET, "9"), broker=broker)
    assert deleted.error is ErrorCode.invalid_config
    assert f"{words} min.insync.replicas cannot be" in deleted.message
    replace = cluster.controller.configs.replace
    values = {"log.retention.ms": "9"} | ({MIN_INSYNC: "2"} if broker else {})
    replaced = cluster.commit(replace(ConfigResourceType.BROKER, broker, values))
    assert (replaced.error, replaced.message) == (deleted.error, deleted.message)
    assert cluster.log.end_offset == end
    kept = cluster.commit(replace(ConfigResourceType.BROKER, "", {MIN_INSYNC: "3", "log.retention.ms": "9"}))
    assert kept == Altered()


def test_replicas_are_no_longer_eligible_when_fewer_must_be_in_sync() -> None:
    cluster = configured()
    cluster.alter((MIN_INSYNC, SET, "3"))
    cluster.commit(cluster.controller.members.fence(0))
    cluster.commit(cluster.controller.members.fence(1))
    assert cluster.standing == (2, [2], [0, 1])
    cluster.alter((MIN_INSYNC, SET, "1"))
    assert cluster.standing == (2, [2], []), "broker 2 may commit by itself now"


def test_the_same_goes_for_the_default_of_all_brokers() -> None:
    cluster = configured()
    cluster.alter_brokers((MIN_INSYNC, SET, "3"))
    cluster.commit(cluster.controller.members.fence(0))
    assert cluster.standing == (1, [1, 2], [0])
    cluster.alter_brokers((MIN_INSYNC, SET, "1"))
    assert cluster.standing == (1, [1, 2], [])


def test_a_leader_that_has_not_seen_more_must_be_in_sync_changes_no_isr() -> None:
    """It would commit with fewer in the ISR, while the controller keeps those that left eligible."""
    cluster = configured()
    stale = cluster.proposal(0)
    cluster.alter((MIN_INSYNC, SET, "2"))
    response = cluster.commit(cluster.controller.isr_changes.alter(TOPIC, 0, stale))
    assert response.error is ErrorCode.invalid_update_version
    assert cluster.standing == (0, [0, 1, 2], [])
    fresh = cluster.commit(cluster.controller.isr_changes.alter(TOPIC, 0, cluster.proposal(0)))
    assert fresh.error is ErrorCode.none
    assert cluster.standing == (0, [0], [1, 2])


def test_other_settings_raise_no_epoch() -> None:
    cluster = configured()
    epoch = cluster.partition.partition_epoch
    cluster.alter(("flush.ms", SET, "1"))
    cluster.alter_brokers(("log.flush.interval.ms", SET, "1"))
    assert cluster.partition.partition_epoch == epoch


def test_a_partition_that_waits_gets_its_leader_when_unclean_elections_are_allowed() -> None:
    cluster = configured()
    for broker in (0, 1, 2):
        cluster.commit(cluster.controller.members.fence(broker))
    cluster.join(0)
    assert cluster.standing == (-1, [], [2])
    cluster.alter((UNCLEAN, SET, "true"))
    assert cluster.standing == (0, [0], [])


def test_quotas_are_set_and_taken_away() -> None:
    cluster = configured()
    controller = cluster.controller
    alice = (("user", "alice"), ("client-id", None))
    quotas = [QuotaChange("producer_byte_rate", 1024.0), QuotaChange("request_percentage", 12.5)]
    assert cluster.commit(controller.client_quotas.alter(alice, quotas)).error is ErrorCode.none
    entity = QuotaEntity("alice", "", None)
    assert controller.image.client_quotas == {entity: {"producer_byte_rate": 1024.0, "request_percentage": 12.5}}
    cluster.commit(controller.client_quotas.alter(alice, [QuotaChange("producer_byte_rate", None)]))
    assert controller.image.client_quotas == {entity: {"request_percentage": 12.5}}
    cluster.commit(controller.client_quotas.alter(alice, [QuotaChange("request_percentage", None)]))
    assert controller.image.client_quotas == {}


@pytest.mark.parametrize(
    ("entity", "key", "value", "words"),
    [
        ((), "producer_byte_rate", 1.0, "the entity is empty"),
        ((("group", "g"),), "producer_byte_rate", 1.0, "'group' is no type of entity"),
        ((("user", "a"), ("user", "b")), "producer_byte_rate", 1.0, "twice"),
        ((("user", "a"), ("ip", "::1")), "producer_byte_rate", 1.0, "by itself"),
        ((("user", ""),), "producer_byte_rate", 1.0, "empty name"),
        ((("user", "a"), ("client-id", "")), "producer_byte_rate", 1.0, "empty name"),
        ((("ip", "localhost"),), "connection_creation_rate", 1.0, "ip 'localhost' is no IP address"),
        ((("user", "a"),), "connection_creation_rate", 1.0, "no quota of such an entity"),
        ((("ip", "::1"),), "producer_byte_rate", 1.0, "no quota of such an entity"),
        ((("user", "a"),), "producer_byte_rate", 0.0, "more than 0"),
        ((("user", "a"),), "request_percentage", float("nan"), "more than 0"),
        ((("user", "a"),), "producer_byte_rate", 1.5, "a whole number of 64 bits"),
        ((("ip", None),), "connection_creation_rate", float(1 << 31), "a whole number of 32 bits"),
    ],
)
def test_quotas_that_are_none_are_refused(
    entity: tuple[tuple[str, str | None], ...], key: str, value: float, words: str
) -> None:
    cluster = configured()
    end = cluster.log.end_offset
    altered = cluster.commit(cluster.controller.client_quotas.alter(entity, [QuotaChange(key, value)]))
    assert altered.error is ErrorCode.invalid_request
    assert words in altered.message
    assert cluster.log.end_offset == end


@pytest.mark.parametrize(
    ("entity", "key", "most"),
    [
        ((("user", "a"),), "producer_byte_rate", float(2**63 - 1024)),
        ((("ip", None),), "connection_creation_rate", float(2**31 - 1)),
    ],
)
def test_a_quota_is_as_large_as_its_type(entity: tuple[tuple[str, str | None], ...], key: str, most: float) -> None:
    """1024 is what a float of 2^63 leaves out."""
    altered = configured().controller.client_quotas.alter(entity, [QuotaChange(key, most)])
    assert altered.response.error is ErrorCode.none


def test_a_quota_is_named_once_in_a_request() -> None:
    cluster = configured()
    changes = [QuotaChange("producer_byte_rate", 1.0), QuotaChange("producer_byte_rate", 2.0)]
    altered = cluster.commit(cluster.controller.client_quotas.alter((("user", "a"),), changes))
    assert (altered.error, altered.message) == (
        ErrorCode.invalid_request,
        "a quota is named twice: name each once",
    )
    assert cluster.controller.image.client_quotas == {}


def test_a_quota_that_is_none_is_not_there_to_be_taken_away_and_that_is_no_error() -> None:
    cluster = configured()
    controller = cluster.controller
    assert (
        cluster.commit(controller.client_quotas.alter((("user", "a"),), [QuotaChange("none", None)])).error
        is ErrorCode.none
    )
    assert controller.image.client_quotas == {}


def test_a_quota_that_is_validated_is_not_written() -> None:
    cluster = configured()
    controller = cluster.controller
    assert (
        cluster.commit(
            controller.client_quotas.alter(
                (("user", None),), [QuotaChange("request_percentage", 1.0)], validate_only=True
            )
        ).error
        is ErrorCode.none
    )
    assert not controller.image.client_quotas


def calls_of(work: Callable[[], object]) -> int:
    """How many functions are called, Python's and built-in ones."""
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def test_a_decision_about_one_topics_settings_costs_the_same_however_many_topics_there_are() -> None:
    cluster = ControlledCluster()
    cluster.create()
    changes = [ConfigChange("retention.ms", AlterOperation.SET, "1000")]

    def alter() -> object:
        return cluster.controller.configs.alter(ConfigResourceType.TOPIC, TOPIC, changes)

    alter()
    few = calls_of(alter)
    for number in range(100):
        cluster.commit(cluster.controller.topics.create_on(f"u{number}", f"id-{number}", ((0, 1, 2),)))
    assert calls_of(alter) == few


def test_a_setting_of_all_brokers_says_nothing_of_another_setting() -> None:
    cluster = ControlledCluster()
    cluster.create()
    image = cluster.controller.image
    image.broker_configs[ALL_BROKERS] = {"min.insync.replicas": "2"}
    config = ControllerConfig(topic_defaults={"unclean.leader.election.enable": "true"})
    assert config.min_insync_replicas(image, TOPIC) == 2
    assert config.unclean_leader_election(image, TOPIC) is True


def test_a_new_map_with_a_setting_without_a_value_is_refused() -> None:
    cluster = ControlledCluster()
    cluster.create()
    values = {"retention.ms": "7", "segment.ms": None}
    refused = cluster.commit(cluster.controller.configs.replace(ConfigResourceType.TOPIC, TOPIC, values))
    assert refused == Altered(ErrorCode.invalid_request, "segment.ms has no value: leave it out to unset it")
    assert cluster.controller.image.topics[TOPIC].configs == {}


def test_the_last_block_of_producer_ids_is_given_and_none_after_it() -> None:
    cluster = ControlledCluster(brokers=1)
    ids, image = cluster.controller.producer_ids, cluster.controller.image
    image.next_producer_id = LAST_PRODUCER_ID - BLOCK_SIZE
    assert cluster.commit(ids.allocate(0, cluster.epochs[0])) == ProducerIdsBlock(LAST_PRODUCER_ID - BLOCK_SIZE)
    assert cluster.commit(ids.allocate(0, cluster.epochs[0])) is ErrorCode.unknown_server_error
