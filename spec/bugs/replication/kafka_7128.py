"""KAFKA-7128: a follower joins the ISR before it has reached the start of the leader's epoch."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.state import Replica


@attrs.frozen
class JoinsBeforeEpochStart(Replication):
    """Caught up with the leader's high watermark, which lags just after an election, was enough."""

    def may_join_isr(self, leader: Replica, follower: int) -> bool:
        return leader.remote[follower].end_offset >= leader.high_watermark


BUG = Bug(
    name="kafka_7128",
    title="joins the ISR before the epoch start",
    reference="KAFKA-7128",
    mechanism=(
        "A new leader's high watermark is behind what its predecessor committed; a follower that has only reached that "
        "far joins the ISR without the committed records."
    ),
    violates=("LeaderCandidateCompleteness", "StrongIsr"),
    buggy=JoinsBeforeEpochStart,
    model=Replication(
        brokers=3,
        max_records=1,
        initial_leader=1,
        initial_isr=(0, 1),
        bounds=Bounds(PreferredElection=1),
    ),
)
