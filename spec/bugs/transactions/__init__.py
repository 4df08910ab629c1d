"""The zoo's part on transactions: each a historical bug, as the one rule that was wrong."""

from __future__ import annotations

from collections.abc import Mapping

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.bugs.transactions import (
    fenced_while_completing,
    kafka_5231,
    kafka_6119,
    kafka_8587,
    kafka_8803,
    kafka_9144,
    kafka_9600,
    kafka_9777,
    kafka_12153,
    kafka_14402,
    kafka_14884,
    kafka_16352,
    kafka_17754,
    kafka_18227,
    kafka_18464,
    kafka_18575,
    kafka_18660,
    kafka_19367,
    kafka_19999,
    librdkafka_3575,
)
from tidegauge.spec.transactions.machine import Transactions

TRANSACTION_BUGS: Mapping[str, Bug[Transactions]] = {
    module.BUG.name: module.BUG
    for module in (
        kafka_5231,
        kafka_6119,
        kafka_8587,
        kafka_8803,
        kafka_9144,
        kafka_9600,
        kafka_9777,
        kafka_12153,
        kafka_14402,
        kafka_14884,
        kafka_16352,
        kafka_17754,
        kafka_18227,
        kafka_18464,
        kafka_18575,
        kafka_18660,
        kafka_19367,
        kafka_19999,
        librdkafka_3575,
        fenced_while_completing,
    )
}
"""By name, oldest first; the last one has no number."""

__all__ = ["TRANSACTION_BUGS", "Bug"]
