"""KAFKA-6683: memory changes while an append is checked, so a snapshot taken on the way holds what comes after it."""

from __future__ import annotations

from collections.abc import Sequence

from tidegauge.impl.partition.messages import FollowerFetch, PartitionFetchResponse
from tidegauge.impl.partition.producer_state import ProducerStates
from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.impl.partition.transactions import AbortedTransaction
from tidegauge.impl.records.batches import BatchHeader, headers
from tidegauge.impl.records.lazy import in_memory
from tidegauge.impl.records.markers import MarkerRecord
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.replication import Roles


class RemembersWhileChecking(ProducerStates):
    """What is about to be appended is taken in at once; afterwards nothing is left to do."""

    def admit(self, headers: Sequence[BatchHeader]) -> None:
        super().admit(headers)
        for header in headers:
            self.take_in(header, self.end_offset)

    def take_in(
        self, header: BatchHeader, base_offset: int, marker: MarkerRecord | None = None
    ) -> AbortedTransaction | None:
        return super().take_in(header, base_offset, marker) if base_offset >= self.end_offset else None


class FollowerRemembersWhileChecking(PartitionReplica):
    """The same at a follower."""

    def receive_fetch_response(self, fetch: FollowerFetch, response: PartitionFetchResponse, now_ms: int) -> bool:
        if response.records and self.accepts_fetch_response(fetch):
            for _, header in headers(in_memory(response.records)):
                self.producers.take_in(header, header.base_offset)
        return super().receive_fetch_response(fetch, response, now_ms)


BUG = CoreBug("kafka_6683", Roles(replica=FollowerRemembersWhileChecking, producers=RemembersWhileChecking))
