"""High watermark by majority: as in Raft, though any member of the ISR may be elected, not only one of the majority."""

from __future__ import annotations

from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.replication import Roles


class HighWatermarkByMajority(PartitionReplica):
    """What most of the ISR has counts as committed."""

    def next_high_watermark(self) -> int:
        ends = sorted(map(self.known_log_end_offset, self.maximal_isr))
        return max(self.high_watermark, ends[(len(ends) - 1) // 2])


BUG = CoreBug("high_watermark_by_majority", Roles(replica=HighWatermarkByMajority))
