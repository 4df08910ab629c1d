"""KAFKA-7692: the offset delta of a batch is taken from its sequences, which wrap."""

from __future__ import annotations

from tidegauge.impl.partition.producer_state import BatchMetadata, ProducerStates
from tidegauge.impl.records.batches import BatchHeader
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.replication import Roles


class OffsetDeltaFromSequences(ProducerStates):
    """As many offsets as the last sequence is above the first."""

    def metadata(self, header: BatchHeader, base_offset: int) -> BatchMetadata:
        right = super().metadata(header, base_offset)
        return right._replace(offset_delta=right.last_sequence - header.base_sequence)


BUG = CoreBug("kafka_7692", Roles(producers=OffsetDeltaFromSequences))
