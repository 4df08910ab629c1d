"""KAFKA-18991: a follower acts on the answer to a fetch of an earlier leader epoch; only the offset is compared."""

from __future__ import annotations

from impl.partition.messages import FollowerFetch
from impl.partition.replica import PartitionReplica
from model_tests.bugs.bug import CoreBug
from model_tests.lockstep.cores import Roles


class AcceptsStaleResponse(PartitionReplica):
    """The epoch in which the fetch was sent does not matter."""

    def accepts_fetch_response(self, fetch: FollowerFetch) -> bool:
        return fetch.fetch_offset == self.log_end_offset


BUG = CoreBug("kafka_18991", Roles(replica=AcceptsStaleResponse))
