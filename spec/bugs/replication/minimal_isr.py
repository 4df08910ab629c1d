"""Minimal ISR: a joiner is not waited for until the leader knows that it has joined."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.state import Replica


@attrs.frozen
class HighWatermarkOverMinimalIsr(Replication):
    """The high watermark over the ISR as last confirmed, instead of the maximal one (KIP-497)."""

    def next_high_watermark(self, leader: Replica, broker: int) -> int:
        return super().next_high_watermark(evolve(leader, pending_isr=()), broker)


BUG = Bug(
    name="minimal_isr",
    title="joiner not counted until confirmed",
    reference="KIP-497",
    mechanism="The controller has written the joiner into the ISR; the leader does not know, and commits without it.",
    violates=("LeaderCandidateCompleteness", "StrongIsr"),
    buggy=HighWatermarkOverMinimalIsr,
    model=Replication(brokers=2, max_records=1, bounds=Bounds(ShrinkIsr=1)),
)
