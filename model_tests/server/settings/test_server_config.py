"""A node's settings: types, defaults, what is refused and in which words, and brokers' names for topics' defaults."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from tidegauge.impl.metadata.config_types import ConfigType, Setting
from tidegauge.impl.metadata.topic_configs import (
    BROKER_SYNONYMS,
    TOPIC_CONFIGS,
    broker_default,
    config_error,
    config_value,
)
from tidegauge.impl.server.settings.fields import Configuration, flag, names, password, ratio, text, whole
from tidegauge.impl.server.settings.server_config import SERVER_CONFIGS, ServerConfig
from tidegauge.impl.storage.config import LogConfig

HOUR_MS = 3_600_000


@attrs.frozen
class Sample(Configuration):
    """One field of each kind."""

    some_number: int = whole(5, least=2, most=9)
    some_big_number: int = whole(1 << 40)
    some_ratio: float = ratio(0.5)
    some_flag: bool = flag(True)
    some_word: str = text("a", allowed=("a", "b"))
    some_secret: str = password()
    some_names: tuple[str, ...] = names(("x",))


def test_a_default_that_breaks_its_rule_is_refused_when_its_class_is_first_used() -> None:
    @attrs.frozen
    class Wrong(Configuration):
        some_number: int = whole(1, least=2)

    with pytest.raises(ValueError, match=r"some\.number is 1: it must be at least 2"):
        Wrong(some_number=5)


def test_defaults_are_kafkas() -> None:
    config = ServerConfig()
    assert (config.num_partitions, config.broker_session_timeout_ms, config.auto_create_topics_enable) == (
        1,
        9_000,
        True,
    )
    assert attrs.asdict(config) == attrs.asdict(ServerConfig.from_properties({}))


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"num.partitions": "many"}, "num.partitions is 'many': it must be a whole number"),
        ({"num.partitions": "0"}, "num.partitions is '0': it must be at least 1"),
        ({"num.partitions": True}, "num.partitions is True: it must be a whole number"),
        ({"num.partitions": 1.5}, "num.partitions is 1.5: it must be a whole number"),
        ({"num.partitions": 1 << 31}, "num.partitions is 2147483648: it must be a whole number of 32 bits"),
        ({"auto.create.topics.enable": "yes"}, "auto.create.topics.enable is 'yes': it must be true or false"),
        ({"num.partition": 3}, "'num.partition' is not a setting: did you mean 'num.partitions'?"),
        ({"log.retention.hour": 3}, "did you mean 'log.retention.hours'?"),
        ({"group.coordinator.threads": 4}, "'group.coordinator.threads' is not a setting"),
        ({"log.retention.hours": "x"}, "log.retention.hours is 'x': it must be a whole number"),
        ({"log.retention.hours": 1 << 31}, "whole number of 32 bits"),
        ({"log.roll.hours": 0}, "log.roll.hours is 0: it must be at least 1"),
        ({"log.cleanup.policy": "shred"}, "log.cleanup.policy is 'shred': it must be a list of delete, compact"),
        ({"min.insync.replicas": 0}, "min.insync.replicas is 0: it must be at least 1"),
        (
            {"group.share.min.session.timeout.ms": 45_001},
            "group.share.session.timeout.ms=45000: it must be at least 45001, the brokers' group.share.min.session",
        ),
        (
            {"group.streams.min.session.timeout.ms": 1, "group.streams.session.timeout.ms": 5_000},
            "group.streams.session.timeout.ms=5000: it must be more than group.streams.heartbeat.interval.ms=5000",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_value_and_the_way_out(properties: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=r"must be|not a setting") as refused:
        ServerConfig.from_properties(properties)
    assert words in str(refused.value)


def test_an_unknown_name_that_is_near_none_is_told_them_all() -> None:
    with pytest.raises(ValueError, match="'zzz' is not a setting; there are") as refused:
        ServerConfig.from_properties({"zzz": 1})
    assert all(name in str(refused.value) for name in (*SERVER_CONFIGS, *BROKER_SYNONYMS))


def test_values_may_be_text_or_of_their_type() -> None:
    as_text = ServerConfig.from_properties({"num.partitions": " 3 ", "auto.create.topics.enable": "FALSE"})
    typed = ServerConfig.from_properties({"num.partitions": 3, "auto.create.topics.enable": False})
    for config in (as_text, typed):
        assert (config.num_partitions, config.auto_create_topics_enable) == (3, False)
    assert typed.properties == {"num.partitions": "3", "auto.create.topics.enable": "false"}


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("some_number", 10, "some.number is 10: it must be from 2 to 9"),
        ("some_ratio", 1.5, "some.ratio is 1.5: it must be from 0.0 to 1.0"),
        ("some_ratio", float("nan"), "a finite number"),
        ("some_word", "c", "some.word is 'c': it must be one of a, b"),
        ("some_flag", 1, "some.flag is 1: it must be true or false"),
    ],
)
def test_fields_hold_their_rules_when_made_in_code(field: str, value: Any, words: str) -> None:
    with pytest.raises(ValueError, match="must be") as refused:
        Sample(**{field: value})
    assert words in str(refused.value)


def test_each_kind_of_field_has_kafkas_type() -> None:
    kinds = {field.name: field.metadata["setting"].kind for field in attrs.fields(Sample)}
    assert kinds == {
        "some_number": ConfigType.INT,
        "some_big_number": ConfigType.LONG,
        "some_ratio": ConfigType.DOUBLE,
        "some_flag": ConfigType.BOOLEAN,
        "some_word": ConfigType.STRING,
        "some_secret": ConfigType.PASSWORD,
        "some_names": ConfigType.LIST,
    }


@pytest.mark.parametrize(
    ("properties", "name", "value"),
    [
        ({"log.retention.hours": 2}, "retention.ms", 2 * HOUR_MS),
        ({"log.retention.hours": 2, "log.retention.minutes": 3}, "retention.ms", 180_000),
        ({"log.retention.minutes": 3, "log.retention.ms": 4}, "retention.ms", 4),
        ({"log.retention.hours": -1}, "retention.ms", -1),
        ({"log.roll.jitter.hours": 0}, "segment.jitter.ms", 0),
        ({"message.max.bytes": 77}, "max.message.bytes", 77),
        ({"max.message.bytes": 78}, "max.message.bytes", 78),
        ({"log.cleanup.policy": "compact, delete"}, "cleanup.policy", ("compact", "delete")),
        ({"log.flush.scheduler.interval.ms": 9}, "flush.ms", 9),
        ({"log.flush.scheduler.interval.ms": 9, "log.flush.interval.ms": 8}, "flush.ms", 8),
        ({"compression.type": "zstd"}, "compression.type", "zstd"),
        ({"log.preallocate": True}, "preallocate", True),
        ({"log.cleaner.min.cleanable.ratio": 0.25}, "min.cleanable.dirty.ratio", 0.25),
        ({}, "segment.bytes", 1 << 30),
    ],
)
def test_brokers_settings_say_topics_defaults(properties: dict[str, Any], name: str, value: Any) -> None:
    defaults = ServerConfig.from_properties(properties).topic_defaults
    assert config_value({}, name, defaults) == value


def test_a_topics_own_setting_goes_first() -> None:
    defaults = ServerConfig.from_properties({"log.retention.ms": 5}).topic_defaults
    assert config_value({"retention.ms": "6"}, "retention.ms", defaults) == 6


def test_a_setting_may_be_a_nodes_own_and_a_topics_default() -> None:
    config = ServerConfig.from_properties({"log.flush.scheduler.interval.ms": 9})
    assert config.log_flush_scheduler_interval_ms == 9


@pytest.mark.parametrize("setting", TOPIC_CONFIGS.values(), ids=lambda setting: setting.name)
def test_every_topic_setting_reads_its_own_default_and_says_what_it_means(setting: Setting) -> None:
    assert setting.parse(setting.default_text) == setting.default
    assert setting.documentation.endswith(".")
    for synonym, scale in setting.synonyms:
        assert broker_default(synonym, 1 if scale > 1 else setting.default_text)[0] == setting.name


def test_the_table_of_topic_settings_is_kafkas() -> None:
    assert sorted(TOPIC_CONFIGS) == [
        "cleanup.policy",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "delete.retention.ms",
        "file.delete.delay.ms",
        "flush.messages",
        "flush.ms",
        "follower.replication.throttled.replicas",
        "index.interval.bytes",
        "leader.replication.throttled.replicas",
        "local.retention.bytes",
        "local.retention.ms",
        "max.compaction.lag.ms",
        "max.message.bytes",
        "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.type",
        "min.cleanable.dirty.ratio",
        "min.compaction.lag.ms",
        "min.insync.replicas",
        "preallocate",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "remote.storage.enable",
        "retention.bytes",
        "retention.ms",
        "segment.bytes",
        "segment.index.bytes",
        "segment.jitter.ms",
        "segment.ms",
        "unclean.leader.election.enable",
    ]


@pytest.mark.parametrize(
    ("configs", "words"),
    [
        ({"cleanup.policy": "delete,shred"}, "cleanup.policy='delete,shred': it must be a list of delete, compact"),
        ({"compression.gzip.level": "0"}, "from 1 to 9, or -1"),
        ({"compression.lz4.level": "18"}, "it must be from 1 to 17"),
        ({"leader.replication.throttled.replicas": "0"}, "partition:broker pairs"),
        ({"min.cleanable.dirty.ratio": "1.5"}, "it must be from 0 to 1"),
        ({"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"}, "min.compaction.lag.ms=5 is more than"),
        ({"remote.storage.enable": "true"}, "there is no tiered storage here"),
        ({"retention": "1"}, "'retention' is no topic setting"),
        ({"retention.bytes": "-2"}, "retention.bytes='-2': it must be at least -1"),
    ],
)
def test_a_topics_settings_are_refused_in_words(configs: dict[str, str], words: str) -> None:
    assert words in config_error(configs)


@pytest.mark.parametrize(
    "configs",
    [
        {"cleanup.policy": ""},
        {"leader.replication.throttled.replicas": "0:1,1:2"},
        {"follower.replication.throttled.replicas": "*"},
        {"compression.gzip.level": "-1"},
        {"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "5"},
    ],
)
def test_a_topics_settings_may_be(configs: dict[str, str]) -> None:
    assert config_error(configs) == ""


def test_a_log_takes_the_defaults_and_the_least_values_that_a_topic_may_have() -> None:
    fields = {field.name.replace("_", ".") for field in attrs.fields(LogConfig)}
    shared = fields & TOPIC_CONFIGS.keys()
    assert shared >= {"segment.bytes", "retention.ms", "max.message.bytes"}
    for name in shared:
        value, default = getattr(LogConfig(), name.replace(".", "_")), TOPIC_CONFIGS[name].default
        assert value == (frozenset(default) if isinstance(default, tuple) else default), name
    for name in ("segment.bytes", "segment.index.bytes"):
        least = next(size for size in range(100) if not config_error({name: str(size)}))
        LogConfig.from_properties({name: least})
