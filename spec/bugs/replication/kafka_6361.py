"""KAFKA-6361: the leader tells where an epoch ends, but not which epoch it found."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.state import Acks, FetchRequest, Replica


@attrs.frozen
class EndOffsetWithoutEpoch(Replication):
    """The rule of KIP-101 before KIP-279: only the end offsets are compared."""

    def diverging_epoch(self, leader: Replica, request: FetchRequest) -> tuple[int, int] | None:
        epoch, end_offset = self.end_offset_for_epoch(leader.log, request.last_fetched_epoch)
        return (epoch, end_offset) if end_offset < request.offset else None


BUG = Bug(
    name="kafka_6361",
    title="fast leader changes diverge",
    reference="KAFKA-6361, KIP-279",
    mechanism=(
        "After two fast elections the follower's last epoch is unknown to the leader; an older epoch that ends as far "
        "out passes for it, and the follower keeps a record that the leader never had."
    ),
    violates=("LeaderCandidateCompleteness", "StrongIsr", "WeakIsr"),
    buggy=EndOffsetWithoutEpoch,
    model=Replication(
        brokers=2,
        max_records=2,
        min_insync_replicas=2,
        acks=(Acks.LEADER,),
        bounds=Bounds(ExpireSession=2),
    ),
)
