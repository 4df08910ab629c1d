"""KAFKA-6361: only the end offsets of epochs are compared; another that ends as far out passes (before KIP-279)."""

from __future__ import annotations

from impl.partition.messages import EpochEndOffset, FollowerFetch
from impl.partition.replica import PartitionReplica
from model_tests.bugs.bug import CoreBug
from model_tests.lockstep.cores import Roles


class EndOffsetWithoutEpoch(PartitionReplica):
    """The leader does not look at which epoch it found."""

    def diverging_epoch(self, fetch: FollowerFetch) -> EpochEndOffset | None:
        epoch, end_offset = self.log.end_offset_for(fetch.last_fetched_epoch)
        return EpochEndOffset(epoch, end_offset) if end_offset < fetch.fetch_offset else None


BUG = CoreBug("kafka_6361", Roles(replica=EndOffsetWithoutEpoch))
