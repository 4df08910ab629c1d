"""Minimal ISR: the leader commits without a replica that it has asked the controller to add (before KIP-497)."""

from __future__ import annotations

from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.replication import Roles


class HighWatermarkOverMinimalIsr(PartitionReplica):
    """Only what the controller has confirmed counts."""

    def next_high_watermark(self) -> int:
        if self.is_under_min_isr:
            return self.high_watermark
        return max(self.high_watermark, min(map(self.known_log_end_offset, self.isr)))


BUG = CoreBug("minimal_isr", Roles(replica=HighWatermarkOverMinimalIsr))
