"""Topic settings under Kafka's names: which there are, what their values may be, and what they mean.

The table is Kafka 4.3's. A topic that does not set one takes the brokers' setting of the same meaning (`synonyms`),
else Kafka's default. One rule is laxer than Kafka's on purpose: segments may be smaller than 1 MiB, so that tests roll
them soon.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from tidegauge.impl.metadata.config_types import (
    ConfigType,
    Rule,
    Setting,
    anything,
    at_least,
    between,
    members_of,
    one_of,
)

MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
UNCLEAN_LEADER_ELECTION_ENABLE: Final = "unclean.leader.election.enable"

LONG_MAX: Final = (1 << 63) - 1
MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS
WEEK_MS: Final = 7 * DAY_MS

COMPRESSION_TYPES: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
_THROTTLED: Final = re.compile(r"\d+:\d+")


def _gzip_level(level: int) -> None:
    if level != -1 and not 1 <= level <= 9:
        raise ValueError("it must be from 1 to 9, or -1 for gzip's own default")


def _throttled_replicas(replicas: tuple[str, ...]) -> None:
    if replicas != ("*",) and not all(_THROTTLED.fullmatch(replica) for replica in replicas):
        raise ValueError("it must be a list of partition:broker pairs, or * for all replicas")


def _setting(
    name: str,
    kind: ConfigType,
    default: Any,
    rule: Rule,
    documentation: str,
    *synonyms: str | tuple[str, int],
) -> Setting:
    scaled = tuple((synonym, 1) if isinstance(synonym, str) else synonym for synonym in synonyms)
    return Setting(name, kind, default, documentation, rule, scaled)


_BOOLEAN, _INT, _LONG = ConfigType.BOOLEAN, ConfigType.INT, ConfigType.LONG

_SETTINGS: Final = (
    _setting(
        "cleanup.policy",
        ConfigType.LIST,
        ("delete",),
        members_of("delete", "compact"),
        "What becomes of old segments: delete drops them by age and size, compact keeps the newest value of each key.",
        "log.cleanup.policy",
    ),
    _setting(
        "compression.type",
        ConfigType.STRING,
        "producer",
        one_of(*COMPRESSION_TYPES),
        "How batches are compressed on disk; producer keeps them as they came, uncompressed takes compression off.",
        "compression.type",
    ),
    _setting(
        "compression.gzip.level",
        _INT,
        -1,
        _gzip_level,
        "Effort of gzip where compression.type is gzip.",
        "compression.gzip.level",
    ),
    _setting(
        "compression.lz4.level",
        _INT,
        9,
        between(1, 17),
        "Effort of lz4 where compression.type is lz4.",
        "compression.lz4.level",
    ),
    _setting(
        "compression.zstd.level",
        _INT,
        3,
        between(-131072, 22),
        "Effort of zstd where compression.type is zstd.",
        "compression.zstd.level",
    ),
    _setting(
        "delete.retention.ms",
        _LONG,
        DAY_MS,
        at_least(0),
        "How long compaction keeps a tombstone, so that a reader from the start still learns of the deletion.",
        "log.cleaner.delete.retention.ms",
    ),
    _setting(
        "file.delete.delay.ms",
        _LONG,
        MINUTE_MS,
        at_least(0),
        "How long a file that was taken out of a log stays on disk under a name that ends in .deleted.",
        "log.segment.delete.delay.ms",
    ),
    _setting(
        "flush.messages",
        _LONG,
        LONG_MAX,
        at_least(1),
        "A log is synced to disk after this many records; by default durability comes from replication.",
        "log.flush.interval.messages",
    ),
    _setting(
        "flush.ms",
        _LONG,
        LONG_MAX,
        at_least(0),
        "A log is synced to disk when a record has been in it for this long.",
        "log.flush.interval.ms",
        "log.flush.scheduler.interval.ms",
    ),
    _setting(
        "follower.replication.throttled.replicas",
        ConfigType.LIST,
        (),
        _throttled_replicas,
        "Replicas (partition:broker, or *) whose fetching is throttled at the follower.",
    ),
    _setting(
        "index.interval.bytes",
        _INT,
        4096,
        at_least(0),
        "Bytes of log between two entries of its offset index.",
        "log.index.interval.bytes",
    ),
    _setting(
        "leader.replication.throttled.replicas",
        ConfigType.LIST,
        (),
        _throttled_replicas,
        "Replicas (partition:broker, or *) whose fetching is throttled at the leader.",
    ),
    _setting(
        "local.retention.bytes",
        _LONG,
        -2,
        at_least(-2),
        "With tiered storage: size of what stays on local disk; -2 is retention.bytes.",
        "log.local.retention.bytes",
    ),
    _setting(
        "local.retention.ms",
        _LONG,
        -2,
        at_least(-2),
        "With tiered storage: age of what stays on local disk; -2 is retention.ms.",
        "log.local.retention.ms",
    ),
    _setting(
        "max.compaction.lag.ms",
        _LONG,
        LONG_MAX,
        at_least(1),
        "A record stays uncompacted for no longer than this.",
        "log.cleaner.max.compaction.lag.ms",
    ),
    _setting(
        "max.message.bytes",
        _INT,
        (1 << 20) + 12,
        at_least(0),
        "Largest batch, in bytes after compression, that is taken from a producer.",
        "message.max.bytes",
    ),
    _setting(
        "message.timestamp.after.max.ms",
        _LONG,
        HOUR_MS,
        at_least(0),
        "With CreateTime: how far a record's timestamp may be ahead of the broker's clock.",
        "log.message.timestamp.after.max.ms",
    ),
    _setting(
        "message.timestamp.before.max.ms",
        _LONG,
        LONG_MAX,
        at_least(0),
        "With CreateTime: how far a record's timestamp may be behind the broker's clock.",
        "log.message.timestamp.before.max.ms",
    ),
    _setting(
        "message.timestamp.type",
        ConfigType.STRING,
        "CreateTime",
        one_of("CreateTime", "LogAppendTime"),
        "Whose time a record carries: its producer's or that of its append.",
        "log.message.timestamp.type",
    ),
    _setting(
        "min.cleanable.dirty.ratio",
        ConfigType.DOUBLE,
        0.5,
        between(0, 1),
        "Share of a compacted log that must not have been compacted yet before it is worth while.",
        "log.cleaner.min.cleanable.ratio",
    ),
    _setting(
        "min.compaction.lag.ms",
        _LONG,
        0,
        at_least(0),
        "A record stays uncompacted for at least this long.",
        "log.cleaner.min.compaction.lag.ms",
    ),
    _setting(
        MIN_INSYNC_REPLICAS,
        _INT,
        1,
        at_least(1),
        "In-sync replicas without which acks=all is refused, and below which no high watermark moves.",
        MIN_INSYNC_REPLICAS,
    ),
    _setting(
        "preallocate",
        _BOOLEAN,
        False,
        anything,
        "Whether a new segment's file gets its full size at once.",
        "log.preallocate",
    ),
    _setting(
        "remote.log.copy.disable",
        _BOOLEAN,
        False,
        anything,
        "With tiered storage: whether nothing more is copied to the remote tier.",
    ),
    _setting(
        "remote.log.delete.on.disable",
        _BOOLEAN,
        False,
        anything,
        "With tiered storage: whether turning it off deletes what is in the remote tier.",
    ),
    _setting(
        "remote.storage.enable",
        _BOOLEAN,
        False,
        anything,
        "Whether old segments go to a remote tier; there is none here, so that true is refused.",
    ),
    _setting(
        "retention.bytes",
        _LONG,
        -1,
        at_least(-1),
        "With the policy delete: size of a partition beyond which its oldest segments go; -1 is no limit.",
        "log.retention.bytes",
    ),
    _setting(
        "retention.ms",
        _LONG,
        WEEK_MS,
        at_least(-1),
        "With the policy delete: age of its newest record at which a segment goes; -1 is no limit.",
        "log.retention.ms",
        ("log.retention.minutes", MINUTE_MS),
        ("log.retention.hours", HOUR_MS),
    ),
    _setting(
        "segment.bytes",
        _INT,
        1 << 30,
        at_least(14),
        "Largest size of a segment's file; retention and compaction take whole segments.",
        "log.segment.bytes",
    ),
    _setting(
        "segment.index.bytes",
        _INT,
        10 << 20,
        at_least(12),
        "Largest size of a segment's index; a segment whose index is full is rolled.",
        "log.index.size.max.bytes",
    ),
    _setting(
        "segment.jitter.ms",
        _LONG,
        0,
        at_least(0),
        "At most this much is taken off segment.ms at random, so that not all logs roll at once.",
        "log.roll.jitter.ms",
        ("log.roll.jitter.hours", HOUR_MS),
    ),
    _setting(
        "segment.ms",
        _LONG,
        WEEK_MS,
        at_least(1),
        "Age at which a segment is rolled though it is not full.",
        "log.roll.ms",
        ("log.roll.hours", HOUR_MS),
    ),
    _setting(
        UNCLEAN_LEADER_ELECTION_ENABLE,
        _BOOLEAN,
        False,
        anything,
        "Whether a replica that is not in sync may lead when no other can; committed records may be lost.",
        UNCLEAN_LEADER_ELECTION_ENABLE,
    ),
)

TOPIC_CONFIGS: Final[Mapping[str, Setting]] = {setting.name: setting for setting in _SETTINGS}
"""Every topic setting of Kafka 4.3."""

BROKER_SYNONYMS: Final[Mapping[str, tuple[str, int]]] = {
    synonym: (setting.name, scale) for setting in _SETTINGS for synonym, scale in setting.synonyms
}
"""Brokers' settings that set a topic's default: the topic's name, and what one unit is in the topic's."""


DYNAMIC_DEFAULTS: Final[Mapping[str, Setting]] = {
    synonym: setting._replace(name=synonym) for setting in _SETTINGS for synonym, _ in setting.synonyms[:1]
}
"""Brokers' settings of topics' defaults that can be changed while brokers run: of each the one with precedence."""


def defaults_with(defaults: Mapping[str, str], dynamic: Mapping[str, str]) -> Mapping[str, str]:
    """Topics' defaults (under their names) with brokers' settings (under theirs) over them."""
    return {
        **defaults,
        **{BROKER_SYNONYMS[name][0]: value for name, value in dynamic.items() if name in DYNAMIC_DEFAULTS},
    }


def config_error(configs: Mapping[str, str]) -> str:
    """What is wrong with a topic's settings; "" when nothing is."""
    values: dict[str, Any] = {}
    for name, text in configs.items():
        if name not in TOPIC_CONFIGS:
            return f"{name!r} is no topic setting; there are {', '.join(TOPIC_CONFIGS)}"
        try:
            values[name] = TOPIC_CONFIGS[name].parse(text)
        except ValueError as error:
            return f"{name}={text!r}: {error}"
    return _conflict(values)


def _conflict(values: Mapping[str, Any]) -> str:
    if values.get("remote.storage.enable"):
        return "remote.storage.enable='true': there is no tiered storage here, leave it false"
    least, most = (values.get(name, TOPIC_CONFIGS[name].default) for name in _COMPACTION_LAGS)
    if least > most:
        return f"min.compaction.lag.ms={least} is more than max.compaction.lag.ms={most}: it must not be"
    return ""


_COMPACTION_LAGS: Final = ("min.compaction.lag.ms", "max.compaction.lag.ms")


def config_value(configs: Mapping[str, str], name: str, defaults: Mapping[str, str]) -> Any:
    """The topic's setting, else the cluster's default (under the topic's name), else Kafka's."""
    text = configs.get(name)
    if text is None:
        text = defaults.get(name)
    return TOPIC_CONFIGS[name].default if text is None else _parsed(name, text)


@lru_cache(maxsize=4096)
def _parsed(name: str, text: str) -> Any:
    return TOPIC_CONFIGS[name].parse(text)


def broker_default(synonym: str, value: object) -> tuple[str, str]:
    """(topic setting, value) that a broker's setting makes the default. Raises ValueError with a message.

    Times that brokers count in minutes or hours come out in ms; a negative one is -1, no limit.
    """
    name, scale = BROKER_SYNONYMS[synonym]
    if scale == 1:
        text = str(value).lower() if isinstance(value, bool) else str(value)
        TOPIC_CONFIGS[name].parse(text)
        return name, text
    number = Setting(synonym, ConfigType.INT, None, "").parse(value)
    milliseconds = -1 if number < 0 else number * scale
    TOPIC_CONFIGS[name].parse(milliseconds)
    return name, str(milliseconds)
