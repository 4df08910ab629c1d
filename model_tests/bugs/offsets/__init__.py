"""The zoo's part on the offsets of groups, in the implementation: subclasses, each with the one rule that was wrong.

Two are of the log of the coordinator, which only a whole broker has: a cluster shows them, and no core.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.bugs.offsets import (
    kafka_5247,
    kafka_8069,
    kafka_8587_told,
    kafka_9235,
    kafka_13636,
    kafka_17507,
    kafka_19163,
)
from tidegauge.model_tests.harness.cores.offsets import OffsetRoles

OFFSET_BUGS: Mapping[str, CoreBug[OffsetRoles]] = {
    module.BUG.name: module.BUG
    for module in (kafka_5247, kafka_8069, kafka_8587_told, kafka_9235, kafka_13636, kafka_17507, kafka_19163)
}
"""By name, in the order of `spec.bugs.offsets`."""

WITHOUT_A_CORE: Mapping[str, str] = {
    "kafka_9235": "the log of a coordinator (`impl.server.broker.coordinator_log`): a broker's",
    "kafka_17507": "the log of the group's coordinator (`impl.server.broker.coordinator_log`): a broker's",
}
"""The bugs that no core has, and whose they are."""

__all__ = ["OFFSET_BUGS", "WITHOUT_A_CORE", "CoreBug"]
