"""KAFKA-6683: a snapshot holds a batch that comes after it."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.idempotence.machine import Idempotence
from tidegauge.spec.idempotence.state import Producers
from tidegauge.spec.kernel.bounds import Bounds


@attrs.frozen
class RemembersBeforeAppending(Idempotence):
    """The rule of Kafka 1.0: the queue of batches was shared, and changed while the append was being checked."""

    def snapshot_at_roll(self, before: Producers, after: Producers) -> Producers:
        return after


BUG = Bug(
    name="kafka_6683",
    title="producer state ahead of its snapshot's offset",
    reference="KAFKA-6683",
    mechanism=(
        "Memory is changed before the append, and the append begins a segment, so the snapshot written then holds a "
        "batch at or above its own offset; a restart that lost the batch believes to have it."
    ),
    violates=("ProducerStateMatchesLog",),
    buggy=RemembersBeforeAppending,
    model=Idempotence(
        max_records=2,
        max_attempts=2,
        batches_retained=2,
        segments=True,
        bounds=Bounds(Crash=1),
    ),
)
