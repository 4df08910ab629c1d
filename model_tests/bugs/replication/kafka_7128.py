"""KAFKA-7128: a follower joins the ISR on the high watermark that the leader inherited, which lags behind."""

from __future__ import annotations

from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.replication import Roles


class JoinsBeforeEpochStart(PartitionReplica):
    """Where the leader's epoch began does not matter."""

    def may_join_isr(self, replica: int) -> bool:
        return self.known_log_end_offset(replica) >= self.high_watermark


BUG = CoreBug("kafka_7128", Roles(replica=JoinsBeforeEpochStart))
