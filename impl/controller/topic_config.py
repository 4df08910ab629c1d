"""Topic settings under Kafka's names: which there are, and what their values may be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
UNCLEAN_LEADER_ELECTION_ENABLE: Final = "unclean.leader.election.enable"


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError("must be at least 1")
    return number


def _not_negative(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError("must be at least 0")
    return number


def _boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError("must be true or false")
    return text == "true"


TOPIC_CONFIGS: Final[Mapping[str, tuple[Callable[[str], Any], str]]] = {
    MIN_INSYNC_REPLICAS: (_positive, "1"),
    UNCLEAN_LEADER_ELECTION_ENABLE: (_boolean, "false"),
    "max.message.bytes": (_not_negative, "1048588"),
    "segment.bytes": (_positive, "1073741824"),
    "index.interval.bytes": (_not_negative, "4096"),
    "flush.messages": (_positive, "9223372036854775807"),
    "flush.ms": (_not_negative, "9223372036854775807"),
}
"""Each setting with its parser and Kafka's default."""


def config_error(configs: Mapping[str, str]) -> str:
    """What is wrong with a topic's settings, in words; "" when nothing is."""
    for name, value in configs.items():
        if name not in TOPIC_CONFIGS:
            return f"{name!r} is no topic setting; there are {', '.join(TOPIC_CONFIGS)}"
        try:
            TOPIC_CONFIGS[name][0](value)
        except ValueError as error:
            return f"{name}={value!r}: {error}"
    return ""


def config_value(configs: Mapping[str, str], name: str, defaults: Mapping[str, str]) -> Any:
    """The topic's setting, else the cluster's default, else Kafka's."""
    parse, kafka_default = TOPIC_CONFIGS[name]
    return parse(configs.get(name, defaults.get(name, kafka_default)))
