"""KAFKA-18991: a follower acts on the response to a fetch of an earlier leader epoch; only the offset is compared."""

from __future__ import annotations

from tidegauge.impl.partition.messages import FollowerFetch
from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.replication import Roles


class AcceptsStaleResponse(PartitionReplica):
    """The epoch in which the fetch was sent does not matter."""

    def accepts_fetch_response(self, fetch: FollowerFetch) -> bool:
        return fetch.fetch_offset == self.log_end_offset


BUG = CoreBug("kafka_18991", Roles(replica=AcceptsStaleResponse))
