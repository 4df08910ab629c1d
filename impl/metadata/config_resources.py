"""What has configurations, and what a request does to one of them (KIP-133, KIP-339)."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

ALL_BROKERS: Final = ""
"""The broker resource that stands for all brokers."""
MOST_SETTINGS: Final = 1_000
"""Settings that a request changes of one resource; there are not half as many."""


class ConfigResourceType(IntEnum):
    """What can have configurations, with Kafka's codes."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class AlterOperation(IntEnum):
    """What IncrementalAlterConfigs does to a setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def too_many_settings(count: int) -> str:
    """What is wrong with so many settings of one resource; "" when nothing is."""
    return "" if count <= MOST_SETTINGS else f"{count} settings of one resource: name at most {MOST_SETTINGS}"
