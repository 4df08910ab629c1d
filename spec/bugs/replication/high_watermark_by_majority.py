"""The high watermark by majority, as in Raft, but with elections from the whole ISR: no version of Kafka did so."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.state import Replica


@attrs.frozen
class HighWatermarkByMajority(Replication):
    """What most of the ISR has counts as committed."""

    def next_high_watermark(self, leader: Replica, broker: int) -> int:
        ends = sorted(leader.log_end_offset if b == broker else leader.remote[b].end_offset for b in leader.maximal_isr)
        return max(leader.high_watermark, ends[(len(ends) - 1) // 2])


BUG = Bug(
    name="high_watermark_by_majority",
    title="high watermark by majority",
    reference="not historical: Raft's rule (Ongaro & Ousterhout 2014, §5.4) with Kafka's elections",
    mechanism="A member of the ISR that is not of the majority may be elected, and lacks what the majority committed.",
    violates=("WeakIsr", "StrongIsr", "LeaderCandidateCompleteness"),
    buggy=HighWatermarkByMajority,
    model=Replication(brokers=3, max_records=1, bounds=Bounds()),
)
