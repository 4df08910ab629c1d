"""KAFKA-7692: a batch across the end of the sequence numbers."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.idempotence.machine import Idempotence
from tidegauge.spec.idempotence.state import Batch, BatchMetadata
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.evolving import evolve


@attrs.frozen
class OffsetDeltaFromSequences(Idempotence):
    """The rule before Kafka 2.2: as many offsets as the last sequence is above the first."""

    def metadata(self, batch: Batch, base_offset: int) -> BatchMetadata:
        right = super().metadata(batch, base_offset)
        return evolve(right, offset_delta=right.last_sequence - batch.sequence)


BUG = Bug(
    name="kafka_7692",
    title="sequence numbers overflow within a batch",
    reference="KAFKA-7692",
    mechanism=(
        "The last sequence of a batch that wraps is below its first, so the difference taken for the offset delta is "
        "negative, and the first offset that is remembered of the batch lies behind its last."
    ),
    violates=("ProducerStateMatchesLog",),
    buggy=OffsetDeltaFromSequences,
    model=Idempotence(
        brokers=1,
        max_records=6,
        batch_sizes=(2,),
        max_attempts=2,
        batches_retained=2,
        sequences=5,
        reordering=False,
        bounds=Bounds(LoseConnection=1),
    ),
)
