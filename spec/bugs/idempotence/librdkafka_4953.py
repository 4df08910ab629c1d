"""librdkafka 4953: what may be in the log is sent again under a new epoch."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.idempotence.machine import Idempotence
from tidegauge.spec.idempotence.state import COMPLETED, NONE, InFlight, Producer
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.evolving import evolve


@attrs.frozen
class SendsAgainUnderANewEpoch(Idempotence):
    """A producer that begins a new epoch numbers what was in flight anew."""

    def begun_again(self, producer: Producer) -> Producer:
        epoch, sequence = producer.epoch + 1, 0
        line: list[InFlight] = []
        for flight in producer.in_flight:
            if flight.sent_to != COMPLETED:
                line.append(evolve(flight, batch=evolve(flight.batch, epoch=epoch, sequence=sequence), sent_to=NONE))
                sequence = self.advanced(sequence, flight.batch.count)
        return evolve(producer, epoch=epoch, next_sequence=sequence, in_flight=tuple(line))


BUG = Bug(
    name="librdkafka_4953",
    title="what may be in the log is sent again under a new epoch",
    reference="librdkafka 4953, which is open: the rule is what the model shows, and not what the report has found",
    mechanism=(
        "A batch is appended, and its response is lost with the leader. The producer recovers by a new epoch, under "
        "which it numbers what was in flight anew: no leader can tell that the batch is a repeat."
    ),
    violates=("NoDuplicate",),
    buggy=SendsAgainUnderANewEpoch,
    model=Idempotence(max_records=1, max_attempts=2, bounds=Bounds(GiveUp=1)),
)
