"""What has configurations, and what a request does to one of them (KIP-133, KIP-339)."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

ALL_BROKERS: Final = ""
"""The broker resource that stands for all brokers."""


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
