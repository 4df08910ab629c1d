"""Within how many seeds a campaign with transactions finds each bug, or why it does not.

Seeds begin with 1: `tidegauge simulate --transactions --bug X --seeds N`. What campaigns miss, lockstep finds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

FOUND_WITHIN: Final[Mapping[str, int]] = {
    "fenced_while_completing": 24,
    "kafka_5231": 1,
    "kafka_6119": 1,
    "kafka_9144": 10,
    "kafka_12153": 2,
    "kafka_14402": 1,
    "kafka_17754": 2,
    "kafka_18464": 24,
    "kafka_18575": 10,
    "kafka_19367": 1,
    "kafka_19999": 2,
}

NOT_FOUND: Final[Mapping[str, str]] = {
    "kafka_8803": "the clock of who coordinates has to be set back between two transactions of an id, and the second "
    "has to begin before anybody else takes over: not in eight seeds",
    "kafka_9600": "a client has to end its transaction under an epoch that nobody gave it, and clients of a campaign "
    "send the epochs that they were given",
    "kafka_9777": "the last marker has to be acknowledged in the moment in which its coordinator loads another "
    "partition of the log: not in three seeds",
    "kafka_14884": "clients of a campaign speak version 2, where each transaction has an epoch and so a verification "
    "of its own: one that outlives a marker is of no use to the next transaction",
    "kafka_16352": "a marker has to be acknowledged late, when the coordinator waits for that of a later end, and "
    "senders wait for the response to one request before they send the next: not in six seeds",
    "kafka_18660": "one process has to use up the epochs in a row, and its next transaction has to begin before the "
    "last one is complete: not in twelve seeds",
}
"""Bugs that campaigns do not show, and why."""
