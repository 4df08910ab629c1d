"""KAFKA-6880: a zombie follower's fetch counts."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.state import Acks, Error, FetchRequest, Replica


@attrs.frozen
class FetchWithoutEpoch(Replication):
    """The rule before KIP-320: a follower truncates once when it learns of an epoch, then fetches without naming it."""

    def fetch_error(self, leader: Replica, broker: int, request: FetchRequest) -> Error:
        return Error.OK if leader.leader == broker else Error.NOT_LEADER_OR_FOLLOWER

    def diverging_epoch(self, leader: Replica, request: FetchRequest) -> tuple[int, int] | None:
        """A follower that does not know of this epoch has not truncated for it."""
        return super().diverging_epoch(leader, request) if request.leader_epoch == leader.leader_epoch else None


BUG = Bug(
    name="kafka_6880",
    title="zombie follower",
    reference="KAFKA-6880, KIP-320",
    mechanism="A follower that missed an election fetches with its old tail, and its leader counts that as replicated.",
    violates=("LeaderCandidateCompleteness", "StrongIsr", "WeakIsr"),
    buggy=FetchWithoutEpoch,
    model=Replication(
        brokers=2,
        max_records=2,
        min_insync_replicas=2,
        acks=(Acks.LEADER,),
        initial_leader=1,
        bounds=Bounds(ExpireSession=2),
    ),
)
