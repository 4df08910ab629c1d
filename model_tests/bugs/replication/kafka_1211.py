"""KAFKA-1211: a new follower truncates to its high watermark, which lags behind what is committed (before KIP-101)."""

from __future__ import annotations

from tidegauge.impl.partition.registration import NO_LEADER
from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.replication import Roles


class TruncatesToHighWatermark(PartitionReplica):
    """Becoming a follower cuts the log."""

    def become_follower(self) -> None:
        super().become_follower()
        if self.leader != NO_LEADER:
            self.truncate(self.high_watermark)


BUG = CoreBug("kafka_1211", Roles(replica=TruncatesToHighWatermark))
