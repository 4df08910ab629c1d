"""The seed by which a campaign with groups finds each bug of their coordinators, or why none does.

`tidegauge simulate --groups --seed N --bug X`. The same tables are in docs/extending.md, with what each is found by.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

FOUND_BY: Final[Mapping[str, int]] = {
    # classic groups
    "kafka_5600": 11,
    "kafka_8715": 10,
    "kafka_9752": 1,
    "kafka_9801": 14,
    "kafka_10284": 10,
    "kafka_12890": 5,
    "kafka_14422": 20,
    # KIP-848
    "kafka_16147": 1,
    "kafka_19233": 2,
    "kafka_19974": 19,
    "kafka_20442": 1,
    # a log that is loaded
    "kafka_17306": 5,
    "kafka_19862": 5,
    # offsets
    "kafka_8587_told": 1,
    "kafka_9235": 11,
}

OF_CLIENT: Final = "it is the native client's, and simulated members are others"
NOT_FOUND: Final[Mapping[str, str]] = {
    "kafka_9823": OF_CLIENT,
    "kafka_12984": OF_CLIENT,
    "kafka_13419": OF_CLIENT,
    "kafka_5247": "it needs offsets in transactions, of several producers",
    "kafka_8069": "it needs a log of brokers before 2.1",
    "kafka_13636": "it needs a group that rebalances for longer than offsets are kept",
    "kafka_17507": "it needs offsets in transactions: `simulate --transactions` finds it, by the second seed",
    "kafka_19163": "it needs offsets in transactions that are open for longer than offsets are kept",
}
"""Bugs that campaigns with groups do not show, and why."""
