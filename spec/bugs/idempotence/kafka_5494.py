"""KAFKA-5494: the leader remembers one batch, the producer has several in flight."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.idempotence.machine import Idempotence
from tidegauge.spec.kernel.bounds import Bounds


@attrs.frozen
class RemembersLastBatch(Idempotence):
    """The rule of Kafka 0.11, when a producer with idempotence could have one request in flight and no more."""

    def batches_to_retain(self) -> int:
        return 1


BUG = Bug(
    name="kafka_5494",
    title="several requests in flight, one batch remembered",
    reference="KAFKA-5494",
    mechanism=(
        "Two batches are appended and their responses lost; the repeat of the first is no longer known to the leader, "
        "which refuses it as out of order though it is in the log."
    ),
    violates=("ProducerStateMatchesLog", "HeadOfLineAccepted"),
    buggy=RemembersLastBatch,
    model=Idempotence(
        max_records=2,
        max_attempts=2,
        batches_retained=2,
        bounds=Bounds(LoseConnection=1),
    ),
)
