"""KAFKA-6361: only the end offsets of epochs are compared; another that ends as far out passes (before KIP-279)."""

from __future__ import annotations

from tidegauge.impl.partition.messages import EpochEndOffset, FollowerFetch
from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.replication import Roles


class EndOffsetWithoutEpoch(PartitionReplica):
    """The leader does not look at which epoch it found."""

    def diverging_epoch(self, fetch: FollowerFetch) -> EpochEndOffset | None:
        epoch, end_offset = self.log.end_offset_for(fetch.last_fetched_epoch)
        return EpochEndOffset(epoch, end_offset) if end_offset < fetch.fetch_offset else None


BUG = CoreBug("kafka_6361", Roles(replica=EndOffsetWithoutEpoch))
