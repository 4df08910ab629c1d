"""Idempotent producers: no duplicate, no reordering and no gap, with several requests in flight (KIP-98, 185, 360).

Theory of operation
-------------------
A producer has an id and an epoch, and numbers the records that it sends to a partition. A batch that gets no response
is sent again under the same numbers. The partition's leader remembers of each producer its epoch and its latest
batches, and asks that memory before it appends:

* a batch that it remembers is acknowledged with the offset that it got the first time, and not appended again;
* the epoch must not be older than the one remembered (a late request of a session that was given up is *fenced*);
* the sequence must follow the last one; a later epoch begins at 0. What comes too early (its predecessor was lost, or
  overtaken on another connection) is refused, and its producer sends it again.

It remembers as many batches as a producer may have in flight. The memory is a function of the log: followers have it
because they append what the leader appended, unconditionally, and a replica that restarts or truncates has it again
from the newest snapshot and the log. A snapshot keeps one batch a producer (that is Kafka's file format), so the
batches before it are looked up in the log behind it.

Two things make a replica forget: a producer that was idle for `producer.id.expiration.ms` is dropped, and a restart
finds nothing of a producer whose records retention deleted. An unknown producer must begin at 0 where nothing can have
been forgotten (KAFKA-15591), and is taken on trust elsewhere, as KIP-360 wants it: there a gap may go unnoticed if
requests overtake each other.

Sequences count modulo `sequences` (2^31 on the wire; small models wrap at small numbers). Replication is here what
`spec.replication` proves of it, one step a fetch; the controller's part is a step as well. Actions are in
`idempotence_producer` and `idempotence_partition`, invariants in `idempotence_properties`; here are the constants and
the rules, of which a historical bug (`spec.bugs`) overrides one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import attrs

from tidegauge.spec.idempotence import partition, properties
from tidegauge.spec.idempotence import producer as producing
from tidegauge.spec.idempotence.actions import IdempotenceAction
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
from tidegauge.spec.kernel.machine import Action, Invariant, Machine, NotEnabled, check_processes

DEFAULT_BOUNDS = Bounds(LoseConnection=1)


@attrs.frozen
class Idempotence(Machine[State]):
    """The machine of idempotent producers; its fields are the constants of the model."""

    action_types: ClassVar[tuple[type[IdempotenceAction], ...]] = (
        producing.Send,
        producing.Retry,
        producing.LoseConnection,
        producing.RefreshMetadata,
        producing.GiveUp,
        producing.ReceiveProduceResponse,
        partition.ReceiveProduce,
        partition.Fetch,
        partition.Elect,
        partition.FillSegment,
        partition.Crash,
        partition.DeleteRecords,
        partition.Expire,
    )

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

    def __attrs_post_init__(self) -> None:
        """Raises ValueError for a bound on no action of the machine."""
        self.bounds.check(self.name, self.perturbations)

    # --- the machine -------------------------------------------------------------------------------------------

    def initial(self) -> Iterable[State]:
        """An empty partition that broker 0 leads, everybody in sync. Raises ValueError if the constants fit none."""
        check_processes("brokers", self.brokers)
        check_processes("producers", self.producers)
        remembered = max(self.batch_sizes) * max(self.max_in_flight, self.batches_retained)
        if self.sequences <= remembered:
            raise ValueError(
                f"sequences={self.sequences}: {remembered} are remembered, so a new batch looks like an old"
            )
        replicas = (Replica(epoch_start=0, known_ends=(NONE,) * self.brokers), *(Replica(),) * (self.brokers - 1))
        yield State((Producer(),) * self.producers, replicas, 0, 0, tuple(range(self.brokers)))

    def actions(self, state: State) -> Iterable[IdempotenceAction]:
        for kind in self.action_types:
            for action in kind.candidates(self, state):
                if not action.guard(self, state):
                    yield action

    def step(self, state: State, action: Action) -> State:
        if not isinstance(action, IdempotenceAction):
            raise TypeError(f"{action!r} is not an action of the idempotence machine")
        if failed := action.guard(self, state):
            raise NotEnabled(action, failed)
        return action.effect(self, state)

    def successors(self, state: State) -> Iterable[tuple[Action, State]]:
        for action in self.actions(state):
            yield action, action.effect(self, state)

    @property
    def invariants(self) -> Mapping[str, Invariant[State]]:
        return properties.invariants(self)

    @property
    def sometimes(self) -> Mapping[str, Invariant[State]]:
        return properties.goals(self)

    def explain(self, invariant: str, state: State) -> Mapping[str, Any]:
        return properties.explain(state)

    def may_perturb(self, state: State, name: str) -> bool:
        """Whether the bounds allow the perturbation once more."""
        return self.bounds.allow(name, state.spent)

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
        return replica.forgot or replica.log_start > 0

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
        return attrs.evolve(entry, batches=kept)

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
