"""KAFKA-3197: a batch overtakes the one before it by way of the new leader."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.idempotence.machine import Idempotence
from tidegauge.spec.idempotence.state import NONE, Producer
from tidegauge.spec.kernel.bounds import Bounds


@attrs.frozen
class InFlightByConnection(Idempotence):
    """The rule before partitions were muted: max.in.flight.requests.per.connection looks at one connection."""

    def may_send(self, producer: Producer) -> bool:
        to_leader = sum(flight.sent_to == producer.leader for flight in producer.in_flight)
        return to_leader < self.max_in_flight and all(flight.sent_to != NONE for flight in producer.in_flight)


BUG = Bug(
    name="kafka_3197",
    title="reordering with one request in flight",
    reference="KAFKA-3197",
    mechanism=(
        "While a batch is in flight to the former leader the producer sends the next one to the new leader; the first "
        "is refused, sent again and lands behind it, though max.in.flight.requests.per.connection is 1."
    ),
    violates=("NoReordering",),
    buggy=InFlightByConnection,
    model=Idempotence(
        max_records=2,
        max_in_flight=1,
        max_attempts=2,
        idempotent=False,
        bounds=Bounds(Elect=1),
    ),
)
