"""A node's settings, under Kafka's names with Kafka's defaults.

One mapping configures brokers and controller alike, as Kafka's server.properties does. Settings that a topic may
override (`min.insync.replicas`, …) stand here as the cluster's default for topics.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from impl.controller.topic_config import TOPIC_CONFIGS, config_error

LOG_PREFIX: Final = "log."

TOPIC_DEFAULT_NAMES: Final[Mapping[str, str]] = {
    "message.max.bytes": "max.message.bytes",
    "log.segment.bytes": "segment.bytes",
    "log.index.interval.bytes": "index.interval.bytes",
    "log.flush.interval.messages": "flush.messages",
    "log.flush.interval.ms": "flush.ms",
}
"""Settings whose name differs between the server's and the topic's level."""


def _at_least(least: int) -> Callable[[object, attrs.Attribute[int], int], None]:
    def check(_: object, attribute: attrs.Attribute[int], value: int) -> None:
        if value < least:
            raise ValueError(f"{property_name(attribute.name)} is {value}: it must be at least {least}")

    return check


def _setting(default: int, least: int = 1) -> int:
    return attrs.field(default=default, validator=_at_least(least))


def property_name(field: str) -> str:
    """Kafka's name of a field of `ServerConfig`."""
    return field.replace("_", ".")


@attrs.frozen
class ServerConfig:
    """Settings of brokers and controllers; times in ms, sizes in bytes."""

    socket_request_max_bytes: int = _setting(100 << 20)
    max_connections: int = _setting(1 << 31)
    retry_backoff_ms: int = _setting(100)
    num_partitions: int = _setting(1)
    default_replication_factor: int = _setting(1)

    replica_lag_time_max_ms: int = _setting(30_000)
    replica_fetch_wait_max_ms: int = _setting(500, least=0)
    replica_fetch_min_bytes: int = _setting(1, least=0)
    replica_fetch_max_bytes: int = _setting(1 << 20)
    replica_fetch_response_max_bytes: int = _setting(10 << 20)
    replica_fetch_backoff_ms: int = _setting(1_000)
    replica_socket_timeout_ms: int = _setting(30_000)
    replica_high_watermark_checkpoint_interval_ms: int = _setting(5_000)
    log_flush_scheduler_interval_ms: int = _setting((1 << 63) - 1)

    broker_heartbeat_interval_ms: int = _setting(2_000)
    broker_session_timeout_ms: int = _setting(9_000)
    controller_quorum_request_timeout_ms: int = _setting(2_000)
    metadata_fetch_wait_max_ms: int = _setting(500, least=0)
    """How long the controller holds a broker's fetch of metadata that finds nothing new."""

    topic_defaults: Mapping[str, str] = attrs.field(factory=dict)
    """What a topic gets that does not set it itself, under the topic's names."""

    @classmethod
    def from_properties(cls, properties: Mapping[str, Any]) -> ServerConfig:
        """A configuration from Kafka's property names; values may be text.

        Raises ValueError naming the setting, its value and what is allowed.
        """
        fields = {property_name(f.name): f.name for f in attrs.fields(cls) if f.name != "topic_defaults"}
        numbers: dict[str, int] = {}
        defaults: dict[str, str] = {}
        for name, value in properties.items():
            if name in fields:
                numbers[fields[name]] = _whole_number(name, value)
            elif (topic_name := TOPIC_DEFAULT_NAMES.get(name, name)) in TOPIC_CONFIGS:
                defaults[topic_name] = _text(value)
            else:
                raise ValueError(_unknown(name, [*fields, *TOPIC_DEFAULT_NAMES, *TOPIC_CONFIGS]))
        if wrong := config_error(defaults):
            raise ValueError(wrong)
        return cls(**numbers, topic_defaults=defaults)


def _whole_number(name: str, value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} is {value!r}: it must be a whole number") from None


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _unknown(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"{name!r} is not a setting" + (
        f": did you mean {close[0]!r}?" if close else f"; there are {', '.join(known)}"
    )
