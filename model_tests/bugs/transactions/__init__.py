"""The zoo's part on transactions, in the implementation: subclasses, each with the one rule that was wrong.

What a client of version 1 does wrong (KAFKA-18227, librdkafka 3575), and what comes of a coordinator of groups (8587),
is in no core: beside the cores clients and groups are the specification's. librdkafka 3575 is switched on in the native
client (`model_tests/zoo/test_client_zoo.py`).
"""

from __future__ import annotations

from collections.abc import Mapping

from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.bugs.transactions import (
    fenced_while_completing,
    kafka_5231,
    kafka_6119,
    kafka_8803,
    kafka_9144,
    kafka_9600,
    kafka_9777,
    kafka_12153,
    kafka_14402,
    kafka_14884,
    kafka_16352,
    kafka_17754,
    kafka_18464,
    kafka_18575,
    kafka_18660,
    kafka_19367,
    kafka_19999,
)
from tidegauge.model_tests.harness.cores.transaction_roles import TransactionRoles

TRANSACTION_BUGS: Mapping[str, CoreBug[TransactionRoles]] = {
    module.BUG.name: module.BUG
    for module in (
        kafka_5231,
        kafka_6119,
        kafka_8803,
        kafka_9144,
        kafka_9600,
        kafka_9777,
        kafka_12153,
        kafka_14402,
        kafka_14884,
        kafka_16352,
        kafka_17754,
        kafka_18464,
        kafka_18575,
        kafka_18660,
        kafka_19367,
        kafka_19999,
        fenced_while_completing,
    )
}
"""By name, in the order of `spec.bugs.transactions`."""

WITHOUT_A_CORE: Mapping[str, str] = {
    "kafka_8587": "a group's coordinator, which has a machine of its own (`spec.offsets`)",
    "kafka_18227": "a client: no core here speaks for one",
    "librdkafka_3575": "a client of version 1: it is switched on in the native one",
}
"""The bugs that are in no core, and whose they are."""

__all__ = ["TRANSACTION_BUGS", "WITHOUT_A_CORE", "CoreBug"]
