"""The rules of idempotent producing, and the constants that they ask: of a producer, its leader, and every replica.

A rule is a method, so that a historical bug (`spec.bugs`) can override it. `machine` tells how it works.
"""

from __future__ import annotations

import attrs

from tidegauge.spec.idempotence.state import (
    NONE,
    Batch,
    BatchMetadata,
    Error,
    InFlight,
    Log,
    LoggedBatch,
    Producer,
    ProducerEntry,
    Producers,
    Replica,
    Snapshot,
    State,
    entry_of,
    with_entry,
)
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.guarded import EnumeratingMachine

DEFAULT_BOUNDS = Bounds(LoseConnection=1)


@attrs.frozen
class IdempotenceRules(EnumeratingMachine[State]):
    """What a machine of idempotent producers decides; its fields are the constants of the model."""

    producers: int = 1
    brokers: int = 2
    max_records: int = 3
    """Of each producer."""
    batch_sizes: tuple[int, ...] = (1,)
    max_in_flight: int = 2
    batches_retained: int = 5
    sequences: int = 2**31
    max_attempts: int = 3
    """Of each batch: what a model is cut off at, no rule."""
    idempotent: bool = True
    reordering: bool = True
    """Whether requests of a producer to one broker may overtake each other."""
    segments: bool = False
    """Whether segments fill up, so that snapshots are written."""
    bounds: Bounds = DEFAULT_BOUNDS

    # --- rules of the producer ---------------------------------------------------------------------------------

    def may_send(self, producer: Producer) -> bool:
        """A new batch may follow those in line, and none that is to be sent again (KAFKA-3197).

        The line is counted from the oldest incomplete batch on: the leader remembers the latest, complete or not.
        """
        return len(producer.in_flight) < self.max_in_flight and all(f.sent_to != NONE for f in producer.in_flight)

    def may_retry(self, producer: Producer, place: int) -> bool:
        """Batches are sent again in their order: none before an older one that waits for it as well."""
        return all(older.sent_to != NONE for older in producer.in_flight[:place])

    def refusal_is_temporary(self, refused: InFlight) -> bool:
        """A gap in front of a batch closes by itself if an older one was incomplete when this attempt was sent."""
        return refused.behind

    def begun_again(self, producer: Producer) -> Producer:
        """A producer with a new epoch: what it has given up may be in the log, and is not sent again (KIP-360)."""
        return evolve(producer, epoch=producer.epoch + 1, next_sequence=0, in_flight=())

    # --- rules of the leader -----------------------------------------------------------------------------------

    def repeated(self, replica: Replica, batch: Batch) -> BatchMetadata | None:
        """The batch in the leader's memory of which this one is the repeat."""
        entry = entry_of(replica.producers, batch.producer)
        if entry is None or entry.epoch != batch.epoch:
            return None
        last = self.advanced(batch.sequence, batch.count - 1)
        for known in entry.batches:
            if (self.first_sequence(known), known.last_sequence) == (batch.sequence, last):
                return known
        return None

    def sequence_error(self, replica: Replica, batch: Batch) -> Error:
        """Whether a batch that is no repeat may be appended."""
        entry = entry_of(replica.producers, batch.producer)
        if entry is None:
            in_order = batch.sequence == 0 or self.accepts_unknown(replica)
        elif batch.epoch < entry.epoch:
            return Error.INVALID_PRODUCER_EPOCH
        elif batch.epoch > entry.epoch:
            in_order = batch.sequence == 0
        else:
            in_order = batch.sequence == self.advanced(entry.batches[-1].last_sequence, 1)
        return Error.OK if in_order else Error.OUT_OF_ORDER_SEQUENCE_NUMBER

    def accepts_unknown(self, replica: Replica) -> bool:
        """An unknown producer may have a past only where something may have been forgotten (KIP-360, KAFKA-15591)."""
        return replica.may_have_forgotten

    # --- rules of every replica --------------------------------------------------------------------------------

    def replication_error(self, replica: Replica, batch: Batch) -> Error:
        """What the leader has appended is appended: nothing could be done about it if it were wrong (KAFKA-6003)."""
        return Error.OK

    def with_batch(self, producers: Producers, batch: Batch, base_offset: int) -> Producers:
        """The memory after an append: a later epoch begins anew, an older batch makes room."""
        metadata = self.metadata(batch, base_offset)
        entry = entry_of(producers, batch.producer)
        older = entry.batches if entry is not None and entry.epoch == batch.epoch else ()
        kept = (*older, metadata)[-self.batches_to_retain() :]
        return with_entry(producers, ProducerEntry(batch.producer, batch.epoch, kept))

    def batches_to_retain(self) -> int:
        """As many as a producer may have in flight (KAFKA-5494)."""
        return self.batches_retained

    def metadata(self, batch: Batch, base_offset: int) -> BatchMetadata:
        """A batch's last sequence may be smaller than its first, its last offset may not (KAFKA-7692)."""
        last_sequence = self.advanced(batch.sequence, batch.count - 1)
        return BatchMetadata(last_sequence, base_offset + batch.count - 1, batch.count - 1)

    def advanced(self, sequence: int, by: int) -> int:
        """The sequence so many records on."""
        return (sequence + by) % self.sequences

    def first_sequence(self, metadata: BatchMetadata) -> int:
        return (metadata.last_sequence - metadata.offset_delta) % self.sequences

    def snapshot_at_roll(self, before: Producers, after: Producers) -> Producers:
        """A segment that begins with an append has the memory before that append beside it (KAFKA-6683)."""
        return before

    def rebuilt(self, replica: Replica) -> Producers:
        """The memory from the disk: the newest snapshot, what is behind it, and every batch since."""
        newest = replica.snapshots[-1] if replica.snapshots else Snapshot(replica.log_start, ())
        producers = tuple(self.filled(entry, replica, newest.offset) for entry in newest.producers)
        return self.replayed(producers, tuple(b for b in replica.log if b.base_offset >= newest.offset))

    def filled(self, entry: ProducerEntry, replica: Replica, offset: int) -> ProducerEntry:
        """A snapshot's entry with the batches before its last one, as far as the log still has them."""
        before = [
            self.metadata(logged.batch, logged.base_offset)
            for logged in replica.log
            if replica.log_start <= logged.base_offset < min(offset, entry.batches[-1].base_offset)
            and (logged.batch.producer, logged.batch.epoch) == (entry.producer, entry.epoch)
        ]
        kept = (*before, *entry.batches)[-self.batches_to_retain() :]
        return evolve(entry, batches=kept)

    def replayed(self, producers: Producers, log: Log) -> Producers:
        """The memory after these batches."""
        for logged in log:
            if logged.batch.sequence != NONE:
                producers = self.with_batch(producers, logged.batch, logged.base_offset)
        return producers

    def truncation_offset(self, follower: Replica, leader: Replica) -> int:
        """How far two logs agree: what `spec.replication` finds by leader epochs."""
        for own, other in zip(follower.log, leader.log, strict=False):
            if self._identity(own) != self._identity(other):
                return own.base_offset
        return min(follower.log_end, leader.log_end)

    @staticmethod
    def _identity(logged: LoggedBatch) -> tuple[int, int]:
        return logged.leader_epoch, logged.base_offset
