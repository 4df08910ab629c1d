"""KAFKA-6003: a follower checks what its leader has already appended."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.idempotence.machine import Idempotence
from tidegauge.spec.idempotence.state import NONE, Batch, Error, Replica, entry_of
from tidegauge.spec.kernel.bounds import Bounds


@attrs.frozen
class FollowerChecksSequences(Idempotence):
    """The rule of Kafka 0.11: an append is an append, wherever it comes from."""

    def replication_error(self, replica: Replica, batch: Batch) -> Error:
        if batch.sequence == NONE:
            return Error.OK
        if entry_of(replica.producers, batch.producer) is None and batch.sequence != 0:
            return Error.OUT_OF_ORDER_SEQUENCE_NUMBER
        return self.sequence_error(replica, batch)


BUG = Bug(
    name="kafka_6003",
    title="a follower that refuses its leader's batch",
    reference="KAFKA-6003",
    mechanism=(
        "A follower has forgotten a producer that its leader remembers (or the other way round); it takes the leader's "
        "next batch for out of order, refuses it for ever, and replication stands still."
    ),
    violates=("ReplicationGoesOn",),
    buggy=FollowerChecksSequences,
    model=Idempotence(
        max_records=2,
        max_attempts=2,
        batches_retained=2,
        reordering=False,
        bounds=Bounds(Expire=1),
    ),
)
