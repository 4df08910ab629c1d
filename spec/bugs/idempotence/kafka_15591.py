"""KAFKA-15591: a new producer's second batch is taken for the continuation of something forgotten."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.idempotence.machine import Idempotence
from tidegauge.spec.idempotence.state import Replica
from tidegauge.spec.kernel.bounds import Bounds


@attrs.frozen
class AcceptsAnyUnknown(Idempotence):
    """The rule of KIP-360, from Kafka 2.5 on: an unknown producer may begin at any sequence."""

    def accepts_unknown(self, replica: Replica) -> bool:
        return True


BUG = Bug(
    name="kafka_15591",
    title="the first batch is overtaken and lost",
    reference="KAFKA-15591, KIP-360",
    mechanism=(
        "Of a new producer's first two batches the second arrives first and is appended, for the leader does not know "
        "that it has forgotten nothing; the first is then out of order for ever."
    ),
    violates=("NoGap", "HeadOfLineAccepted"),
    buggy=AcceptsAnyUnknown,
    model=Idempotence(max_records=2, max_attempts=2, bounds=Bounds()),
)
