"""The bug zoo in the implementation: each historical bug as a subclass that overrides the one rule that was wrong.

The production code holds no switch for any of them. Each has a twin of the same name in `spec.bugs`.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.bugs.replication import (
    high_watermark_by_majority,
    isr_write_without_epoch_fence,
    kafka_1211,
    kafka_6361,
    kafka_6880,
    kafka_7128,
    kafka_13916,
    kafka_14139,
    kafka_18991,
    last_replica_standing,
    minimal_isr,
)
from tidegauge.model_tests.harness.cores.replication import Roles

BUGS: Mapping[str, CoreBug[Roles]] = {
    module.BUG.name: module.BUG
    for module in (
        kafka_1211,
        kafka_6361,
        kafka_6880,
        kafka_7128,
        kafka_18991,
        kafka_13916,
        kafka_14139,
        minimal_isr,
        last_replica_standing,
        high_watermark_by_majority,
        isr_write_without_epoch_fence,
    )
}
"""By name, in the order of `spec.bugs`."""

__all__ = ["BUGS", "CoreBug"]
