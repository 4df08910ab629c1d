"""A producer's side of idempotence, for one partition: which batch gets which sequence, and when it may be sent.

Theory of operation
-------------------
Batches are in a *line*, in the order of their sequences. Each has been sent to a broker, or must be sent again, or is
completed. A completed batch leaves the line when all older ones have. A new batch may join while the line is shorter
than `max_in_flight` and none in it must be sent again (KAFKA-3197); batches are sent again in their order. From its
oldest incomplete batch on the line is no longer than what a leader remembers, so that the leader recognises every
repeat.

OUT_OF_ORDER_SEQUENCE_NUMBER is temporary for an attempt that was sent behind an incomplete batch: it has overtaken it.
At the head of the line it means that producer and leader have diverged, and the producer can't continue without losing
or duplicating records. Giving up the line begins a new epoch, at sequence 0 (KIP-360); what was given up may be in the
log, or be appended until the first batch of the new epoch is.

No clock, no tasks, no sockets: the owner sends batches and reports what became of them. The rules have the names of the
specification (`spec.idempotence`).
"""

from __future__ import annotations

from typing import ClassVar, Final

import attrs
from kio.schema.errors import ErrorCode

AGAIN: Final = -1
COMPLETED: Final = -2
"""In place of the broker that a batch was sent to: the batch must be sent again; it is completed."""
MAX_IN_FLIGHT: Final = 5


@attrs.define(eq=False)
class InFlightBatch:
    """A batch in line."""

    epoch: int
    base_sequence: int
    count: int
    sent_to: int
    attempt: int = 0
    behind: bool = False
    """Whether an older batch was incomplete when this attempt was sent."""


class DesynchronisedError(Exception):
    """The leader refused a batch before which everything was acknowledged: the producer can't go on."""


class Sequencing:
    """The line of one producer to one partition."""

    sequences: ClassVar[int] = 1 << 31
    """Sequence numbers count modulo this."""

    def __init__(self, max_in_flight: int = MAX_IN_FLIGHT, *, idempotent: bool = True) -> None:
        self.max_in_flight = max_in_flight
        self.idempotent = idempotent
        self.epoch = 0
        self.next_sequence = 0
        self.line: list[InFlightBatch] = []
        self.desynchronised = False

    # --- sending -----------------------------------------------------------------------------------------------

    def may_send(self, leader: int) -> bool:
        """Whether a new batch may be sent to `leader` now."""
        return len(self.line) < self.max_in_flight and all(batch.sent_to != AGAIN for batch in self.line)

    def send(self, count: int, leader: int) -> InFlightBatch:
        """The next batch, of `count` records: it is being sent to `leader`."""
        sequence = self.next_sequence if self.idempotent else -1
        batch = InFlightBatch(self.epoch, sequence, count, leader, behind=bool(self.line))
        self.next_sequence = (self.next_sequence + count) % self.sequences
        self.line.append(batch)
        return batch

    def may_retry(self, batch: InFlightBatch) -> bool:
        """Whether a batch that is to be sent again may be now: none before an older one that waits for it as well."""
        return all(older.sent_to != AGAIN for older in self.line[: self.line.index(batch)])

    def retry(self, batch: InFlightBatch, leader: int) -> None:
        """The batch is being sent again, to `leader`."""
        batch.attempt += 1
        batch.sent_to = leader
        batch.behind = self.line.index(batch) > 0

    # --- what became of it -------------------------------------------------------------------------------------

    def complete(self, batch: InFlightBatch, attempt: int, error: ErrorCode) -> bool:
        """Take the response to an attempt; True when the batch is acknowledged, False when it is to be sent again.

        A response to an earlier attempt, or to a batch that was given up, says nothing (False). Raises
        DesynchronisedError.
        """
        if batch not in self.line or batch.attempt != attempt or batch.sent_to in (AGAIN, COMPLETED):
            return False
        if error is ErrorCode.none:
            batch.sent_to = COMPLETED
            while self.line and self.line[0].sent_to == COMPLETED:
                del self.line[0]
            return True
        out_of_step = error in (ErrorCode.out_of_order_sequence_number, ErrorCode.invalid_producer_epoch)
        temporary = error is ErrorCode.out_of_order_sequence_number and self.refusal_is_temporary(batch)
        if out_of_step and not temporary:
            self.desynchronised = True
            raise DesynchronisedError(f"{error.name.upper()} for sequence {batch.base_sequence} of epoch {batch.epoch}")
        batch.sent_to = AGAIN
        return False

    def refusal_is_temporary(self, batch: InFlightBatch) -> bool:
        """A gap in front of a batch closes by itself if an older one was incomplete when this attempt was sent."""
        return batch.behind

    def disconnected(self, broker: int) -> None:
        """No response will come to what was sent to `broker`: it is to be sent again."""
        for batch in self.line:
            if batch.sent_to == broker:
                batch.sent_to = AGAIN

    def give_up(self) -> None:
        """Abandon the line and begin a new epoch."""
        self.line.clear()
        self.epoch += 1
        self.next_sequence = 0
        self.desynchronised = False
