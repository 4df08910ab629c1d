"""KAFKA-6880: a zombie follower's fetch, of an older leader epoch, counts for the high watermark (before KIP-320)."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from tidegauge.impl.partition.messages import EpochEndOffset, FollowerFetch
from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.replication import Roles


class FetchWithoutEpoch(PartitionReplica):
    """A follower truncates once, when it applies an epoch, then fetches without it; any leader responds."""

    def fetch_error(self, fetch: FollowerFetch) -> ErrorCode:
        return ErrorCode.none if self.is_leader else ErrorCode.not_leader_or_follower

    def diverging_epoch(self, fetch: FollowerFetch) -> EpochEndOffset | None:
        return super().diverging_epoch(fetch) if fetch.leader_epoch == self.leader_epoch else None


BUG = CoreBug("kafka_6880", Roles(replica=FetchWithoutEpoch))
