"""The bug zoo: historical bugs of Kafka's replication, each as the one rule that was wrong.

Two are not historical, as their references say: Raft's rule in Kafka's place, and a fence that is left out.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.bugs.replication import (
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
from tidegauge.spec.replication.machine import Replication

BUGS: Mapping[str, Bug[Replication]] = {
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
"""By name, oldest mechanism first."""

__all__ = ["BUGS", "Bug"]
