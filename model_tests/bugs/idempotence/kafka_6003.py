"""KAFKA-6003: a follower checks sequences, and refuses for ever what its leader has appended."""

from __future__ import annotations

from tidegauge.impl.partition.messages import FollowerFetch, PartitionFetchResponse
from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.impl.records.batches import BatchHeader, headers
from tidegauge.impl.records.lazy import in_memory
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.replication import Roles


class FollowerChecksSequences(PartitionReplica):
    """A batch has to be the next one of its producer, as at a leader; an unknown producer has to begin at 0."""

    def receive_fetch_response(self, fetch: FollowerFetch, response: PartitionFetchResponse, now_ms: int) -> bool:
        if self.accepts_fetch_response(fetch) and any(
            map(self._refuses, (h for _, h in headers(in_memory(response.records))))
        ):
            return False
        return super().receive_fetch_response(fetch, response, now_ms)

    def _refuses(self, header: BatchHeader) -> bool:
        if header.producer_id < 0:
            return False
        is_unknown = header.producer_id not in self.producers.entries
        return (is_unknown and header.base_sequence != 0) or self.producers.sequence_error(header) is not None


BUG = CoreBug("kafka_6003", Roles(replica=FollowerChecksSequences))
