"""KAFKA-6880: a zombie follower's fetch, of an older leader epoch, counts for the high watermark (before KIP-320)."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from impl.partition.messages import FollowerFetch
from impl.partition.replica import PartitionReplica
from model_tests.bugs.bug import CoreBug
from model_tests.lockstep.cores import Roles


class FetchWithoutEpochFence(PartitionReplica):
    """Whoever leads answers."""

    def fetch_error(self, fetch: FollowerFetch) -> ErrorCode:
        return ErrorCode.none if self.is_leader else ErrorCode.not_leader_or_follower


BUG = CoreBug("kafka_6880", Roles(replica=FetchWithoutEpochFence))
