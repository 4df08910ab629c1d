"""A node's settings, under Kafka's names with Kafka's defaults.

One mapping configures brokers and controller, as Kafka's server.properties does. A broker's setting that topics may
override (`min.insync.replicas`, `log.retention.hours`, …) becomes the cluster's default for topics; so does the same
setting under its topic name (`retention.ms`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from tidegauge.impl.metadata.broker_configs import DynamicSettings, name_without_listener
from tidegauge.impl.metadata.config_types import ConfigType, Setting, as_text, split_list
from tidegauge.impl.metadata.group_configs import GROUP_BROKER_CONFIGS, brokers_group_settings_error
from tidegauge.impl.metadata.topic_configs import (
    BROKER_SYNONYMS,
    DYNAMIC_DEFAULTS,
    TOPIC_CONFIGS,
    broker_default,
    config_error,
    defaults_with,
)
from tidegauge.impl.server.settings import fields
from tidegauge.impl.server.settings.coordinators import CoordinatorSettings
from tidegauge.impl.server.settings.fields import Update, flag, property_name, update_of, whole
from tidegauge.impl.server.settings.security import JAAS, setting_for_listener
from tidegauge.impl.server.settings.voters import check_voters
from tidegauge.impl.server.settings.without_effect import WITHOUT_EFFECT

LONG: Final = ConfigType.LONG
CLUSTER_WIDE: Final = fields.Update.CLUSTER_WIDE
RACK_AWARE_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LEADER_SELECTOR: Final = "org.apache.kafka.common.replica.LeaderSelector"


def per_ip(text: str) -> None:
    """The rule of max.connections.per.ip.overrides."""
    limits_per_ip(text)


def limits_per_ip(text: str) -> Mapping[str, int]:
    """Address -> connections, from ADDRESS:NUMBER and so on. Raises ValueError saying what it must be."""
    limits = {}
    for part in split_list(text):
        address, _, number = part.rpartition(":")
        if not address or not (number.isascii() and number.isdigit()):
            raise ValueError("it must be a list of ADDRESS:NUMBER")
        limits[address.strip("[]")] = int(number)
    return limits


def _unthrottled(doc: str) -> Any:
    """A field for a limit of replication traffic. Tools set it when they move partitions; it has no effect here."""
    return whole((1 << 63) - 1, least=0, doc=doc, kind=LONG, update=CLUSTER_WIDE)


@attrs.frozen(eq=False, repr=False)
class ServerConfig(CoordinatorSettings):
    """Settings of brokers and controllers; times in ms, sizes in bytes."""

    socket_request_max_bytes: int = whole(100 << 20, doc="Bytes of the largest request that is accepted.")
    max_connections: int = whole(
        (1 << 31) - 1, least=0, doc="Connections that a broker serves at once.", update=CLUSTER_WIDE
    )
    max_connections_per_ip: int = whole(
        (1 << 31) - 1, least=0, doc="Connections from one address that a broker serves at once.", update=CLUSTER_WIDE
    )
    max_connections_per_ip_overrides: str = fields.text(
        "", "The same for some addresses: ADDRESS:NUMBER, separated by commas.", rule=per_ip, update=CLUSTER_WIDE
    )
    max_connection_creation_rate: int = whole(
        (1 << 31) - 1, doc="Connections that a broker begins to serve in a second.", update=CLUSTER_WIDE
    )
    retry_backoff_ms: int = whole(100, doc="Wait before a failed request is sent again.", kind=LONG)
    max_request_partition_size_limit: int = whole(2_000, doc="Most partitions in one DescribeTopicPartitions response.")
    num_partitions: int = whole(1, doc="Partitions of a topic whose creator gives no number.")
    default_replication_factor: int = whole(1, doc="Replicas of a partition whose creator gives no number.")
    auto_create_topics_enable: bool = flag(True, "Whether a Metadata request for an unknown topic may create it.")

    queued_max_requests: int = whole(
        500, doc="Requests that are handled or wait, over all connections; beyond it no more are read."
    )
    connections_max_idle_ms: int = whole(600_000, doc="A connection that is idle for this long is closed.", kind=LONG)
    fetch_max_bytes: int = whole(55 << 20, least=1024, doc="Most bytes of a fetch; its first batch may be larger.")
    max_incremental_fetch_session_cache_slots: int = whole(1_000, least=0, doc="Fetch sessions that a broker keeps.")
    replica_selector_class: str = fields.text(
        "",
        "The class that selects the replica that a consumer should read from; by default the leader.",
        allowed=("", LEADER_SELECTOR, RACK_AWARE_SELECTOR),
    )

    replica_lag_time_max_ms: int = whole(
        30_000, doc="A follower that has not caught up for this long leaves the ISR.", kind=LONG
    )
    replica_fetch_wait_max_ms: int = whole(500, least=0, doc="How long a leader may hold a follower's fetch.")
    replica_fetch_min_bytes: int = whole(1, least=0, doc="Bytes that a leader awaits before it responds to a follower.")
    replica_fetch_max_bytes: int = whole(1 << 20, doc="Bytes of one partition in a follower's fetch.")
    replica_fetch_response_max_bytes: int = whole(10 << 20, doc="Bytes of all partitions in a follower's fetch.")
    replica_fetch_backoff_ms: int = whole(1_000, doc="A follower's wait after a fetch that failed.")
    leader_replication_throttled_rate: int = _unthrottled("Bytes a second that throttled replicas are sent (KIP-73).")
    follower_replication_throttled_rate: int = _unthrottled("Bytes a second that throttled replicas fetch (KIP-73).")
    replica_alter_log_dirs_io_max_bytes_per_second: int = _unthrottled("Bytes a second between log directories.")
    replica_socket_timeout_ms: int = whole(30_000, doc="How long a follower waits for a response.")
    replica_high_watermark_checkpoint_interval_ms: int = whole(
        5_000, doc="How often high watermarks are written to disk.", kind=LONG
    )
    log_dir: str = fields.text("", "The log directory, where log.dirs names none.")
    log_dirs: tuple[str, ...] = fields.names((), "The log directories; relative ones in the node's directory.")
    log_cleaner_enable: bool = flag(True, "Whether logs with cleanup.policy=compact are compacted.")
    log_cleaner_threads: int = whole(1, doc="Logs that are compacted at once.", update=CLUSTER_WIDE)
    log_cleaner_backoff_ms: int = whole(
        15_000, least=0, doc="The cleaner's wait while no log is dirty.", kind=LONG, update=CLUSTER_WIDE
    )
    log_cleaner_dedupe_buffer_size: int = whole(
        128 << 20,
        doc="Bytes of all offset maps, 24 for each dirty key.",
        kind=LONG,
        update=CLUSTER_WIDE,
    )
    log_cleaner_io_buffer_load_factor: float = fields.ratio(
        0.9, "How full an offset map may become.", least=0.01, update=CLUSTER_WIDE
    )
    log_cleaner_io_max_bytes_per_second: float = fields.ratio(
        1.7976931348623157e308,
        "Bytes that the cleaner may read and write in a second.",
        least=1.0,
        most=1.7976931348623157e308,
        update=CLUSTER_WIDE,
    )
    log_flush_scheduler_interval_ms: int = whole((1 << 63) - 1, doc="How often logs are checked for a timed flush.")
    log_flush_offset_checkpoint_interval_ms: int = whole(60_000, doc="How often recovery points are written to disk.")
    log_flush_start_offset_checkpoint_interval_ms: int = whole(
        60_000, doc="How often log start offsets are written to disk."
    )
    log_retention_check_interval_ms: int = whole(300_000, doc="How often segments are deleted by retention.", kind=LONG)

    producer_id_expiration_ms: int = whole(
        86_400_000, doc="A producer id that is idle for this long is forgotten.", update=CLUSTER_WIDE
    )
    producer_id_expiration_check_interval_ms: int = whole(600_000, doc="How often idle producer ids are forgotten.")

    delete_topic_enable: bool = flag(True, "Whether topics can be deleted.")
    auto_leader_rebalance_enable: bool = flag(True, "Whether preferred leaders are elected on time.")
    leader_imbalance_check_interval_seconds: int = whole(
        300, doc="How often the controller checks for preferred leaders to elect.", kind=LONG
    )
    leader_imbalance_per_broker_percentage: int = whole(
        10, least=0, doc="Percentage of a broker's preferred partitions that other brokers may lead."
    )
    controlled_shutdown_enable: bool = flag(True, "Whether a broker hands over its leadership before it stops.")
    controlled_shutdown_max_retries: int = whole(
        3, least=0, doc="How often a stopping broker asks again before it leaves as the last in sync."
    )
    controlled_shutdown_retry_backoff_ms: int = whole(5_000, doc="Wait before a stopping broker asks again.", kind=LONG)

    quota_window_num: int = whole(11, doc="Windows over which client quotas are measured.")
    quota_window_size_seconds: int = whole(1, doc="Length of such a window, in seconds.")
    controller_quota_window_num: int = whole(11, doc="Windows over which the quota of changes is measured.")
    controller_quota_window_size_seconds: int = whole(1, doc="Length of such a window, in seconds.")

    broker_heartbeat_interval_ms: int = whole(2_000, doc="How often a broker sends a heartbeat.")
    broker_session_timeout_ms: int = whole(9_000, doc="A broker that sends no heartbeat for this long is fenced.")
    controller_quorum_voters: tuple[str, ...] = fields.names(
        (), "The controllers: ID@HOST:PORT, separated by commas.", rule=check_voters
    )
    controller_quorum_request_timeout_ms: int = whole(
        2_000, doc="How long a broker waits for the controller's response."
    )
    log_check_on_start_max_bytes: int = whole(
        1 << 30,
        least=0,
        doc="Logs whose checksums a start looks at from end to end, in bytes for each log directory; larger ones are "
        "looked at as they are read. Not a setting of Kafka's.",
        kind=LONG,
    )
    metadata_fetch_wait_max_ms: int = whole(
        2_000, least=0, doc="How long the controller may hold a broker's metadata fetch. Not a setting of Kafka's."
    )

    topic_defaults: Mapping[str, str] = attrs.field(factory=dict)
    """Defaults of topics' settings, under their topic names."""
    properties: Mapping[str, str] = attrs.field(factory=dict)
    """What was set, as it was given."""

    @classmethod
    def from_properties(cls, properties: Mapping[str, Any]) -> ServerConfig:
        """A configuration from properties under Kafka's names; values may be text.

        Raises ValueError naming the setting, its value and what is allowed.
        """
        values: dict[str, Any] = {}
        for name, value in properties.items():
            if (for_one := setting_for_listener(name)) in (*SERVER_CONFIGS, *JAAS.values()):
                if for_one in SERVER_CONFIGS:
                    fields.parse(SERVER_CONFIGS[for_one]._replace(name=name), value)
                continue
            if name not in SERVER_CONFIGS and name not in BROKER_SYNONYMS and name not in TOPIC_CONFIGS:
                raise ValueError(_unknown(name))
            if name in SERVER_CONFIGS:
                parsed = fields.parse(SERVER_CONFIGS[name], value)
                if name in FIELDS:
                    values[name.replace(".", "_")] = parsed
        if wrong := brokers_group_settings_error(group_settings(properties)):
            raise ValueError(wrong)
        given = {name: as_text(value) or "" for name, value in properties.items()}
        return cls(**values, topic_defaults=topic_defaults(properties), properties=given)


_OF_FIELDS: Final = fields.settings_of(ServerConfig)
FIELDS: Final[Mapping[str, Setting]] = {setting.name: setting for setting in _OF_FIELDS.values()}
"""The settings that are fields."""

SERVER_CONFIGS: Final[Mapping[str, Setting]] = {
    **FIELDS,
    **GROUP_BROKER_CONFIGS,
    **{name: one.setting for name, one in WITHOUT_EFFECT.items()},
}
"""Every setting of a node that is no topic's default."""


UPDATES: Final[Mapping[str, Update]] = {
    **dict.fromkeys(DYNAMIC_DEFAULTS, CLUSTER_WIDE),
    **{
        property_name(field.name): update
        for field in attrs.fields(ServerConfig)
        if field.name in _OF_FIELDS and (update := update_of(field)) is not Update.READ_ONLY
    },
    **{name: one.update for name, one in WITHOUT_EFFECT.items()},
}
"""How each setting can be changed that is not read-only."""

DYNAMIC_CONFIGS: Final = DynamicSettings(
    {name: DYNAMIC_DEFAULTS.get(name) or SERVER_CONFIGS[name] for name in UPDATES},
    frozenset(name for name, update in UPDATES.items() if update is Update.PER_BROKER),
    frozenset(name for name, update in UPDATES.items() if update is Update.PER_LISTENER),
    frozenset({"max.connections", "max.connection.creation.rate", "num.network.threads"}),
)
"""The settings that can be changed while brokers run."""


def _topic_default_settings() -> dict[str, Setting]:
    """Brokers' settings of topics' defaults. Of several units the coarsest has the default value."""
    made = {}
    for setting in TOPIC_CONFIGS.values():
        for place, (synonym, scale) in enumerate(setting.synonyms, 1):
            last = place == len(setting.synonyms)
            made[synonym] = setting._replace(
                name=synonym,
                kind=setting.kind if scale == 1 else ConfigType.INT,
                default=(setting.default if scale == 1 else setting.default // scale) if last else None,
                synonyms=(),
            )
    return made


BROKER_CONFIGS: Final[Mapping[str, Setting]] = dict(sorted({**_topic_default_settings(), **SERVER_CONFIGS}.items()))
"""Every setting of a broker."""


def with_dynamic(config: ServerConfig, dynamic: Mapping[str, str]) -> ServerConfig:
    """The settings of a node that started with `config`, with these changed since, under brokers' names."""
    if not dynamic:
        return config
    own = {
        name.replace(".", "_"): fields.parse(SERVER_CONFIGS[name], value)
        for name, value in dynamic.items()
        if name in FIELDS
    }
    of_listeners = {name: value for name, value in dynamic.items() if name_without_listener(name) != name}
    properties = {**config.properties, **of_listeners}
    return attrs.evolve(
        config, **own, properties=properties, topic_defaults=defaults_with(config.topic_defaults, dynamic)
    )


def group_settings(properties: Mapping[str, Any]) -> Mapping[str, int]:
    """The defaults of groups in a node's settings, and the bounds of what groups may set, under brokers' names."""
    return {
        name: fields.parse(setting, properties[name]) if name in properties else setting.default
        for name, setting in GROUP_BROKER_CONFIGS.items()
    }


def topic_defaults(properties: Mapping[str, Any]) -> dict[str, str]:
    """The defaults of topics in a node's settings, under topics' names.

    Raises ValueError naming the setting, its value and what is allowed.
    """
    defaults: dict[str, str] = {}
    for name in (name for name in TOPIC_CONFIGS if name in properties):
        defaults[name] = as_text(properties[name]) or ""
    for setting in TOPIC_CONFIGS.values():
        for synonym, _ in reversed(setting.synonyms):
            if synonym in properties:
                try:
                    name, defaults_to = broker_default(synonym, properties[synonym])
                except ValueError as error:
                    raise ValueError(f"{synonym} is {properties[synonym]!r}: {error}") from None
                defaults[name] = defaults_to
    if wrong := config_error(defaults):
        raise ValueError(wrong)
    return defaults


def _unknown(name: str) -> str:
    import difflib

    known = [*SERVER_CONFIGS, *BROKER_SYNONYMS, *TOPIC_CONFIGS]
    close = difflib.get_close_matches(name, known, n=1)
    return f"{name!r} is not a setting" + (
        f": did you mean {close[0]!r}?" if close else f"; there are {', '.join(sorted(set(known)))}"
    )


__all__ = [
    "BROKER_CONFIGS",
    "DYNAMIC_CONFIGS",
    "SERVER_CONFIGS",
    "ServerConfig",
    "group_settings",
    "property_name",
    "topic_defaults",
    "with_dynamic",
]
