"""What markers do to a replica: to what it remembers of their producers, and to where read_committed ends.

The rules are those of `spec.transactions` for a partition, applied to the batches of a log. What a marker decides is
what its coordinator has decided (`coordinators`): the index of aborted transactions is held against that. Which
coordinator sent a marker no trace says: whether one of an older coordinator is refused, lockstep shows.

Offsets that a transaction commits have a producer and no sequence: a group's coordinator appends them. Batches have the
last sequence there is for that, which no producer goes on from, for a marker has none; a replica remembers none.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

import attrs

from tidegauge.impl.server.trace.contents import LoggedBatch as TracedBatch
from tidegauge.spec.idempotence.machine import Idempotence
from tidegauge.spec.idempotence.state import (
    Batch,
    BatchMetadata,
    Error,
    LoggedBatch,
    ProducerEntry,
    Producers,
    Replica,
    entry_of,
    with_entry,
)
from tidegauge.spec.transactions.machine import Transactions
from tidegauge.spec.transactions.state import Decision, Marker, MarkerRequest, Memory, Partition, Record
from tidegauge.spec.transactions.state import Error as MarkerError
from tidegauge.spec.transactions.state import ProducerEntry as Transactional

VERSION: Final = 2
"""Of the transactions protocol: that of the clients of a campaign."""
NOBODY: Final = -1
RULES: Final = Transactions()
Decided: TypeAlias = Mapping[tuple[int, int], Decision]
"""(producer id, epoch) of a marker -> what it decides; a marker that is not there is taken for a commit."""
NOTHING_DECIDED: Final[Decided] = MappingProxyType({})


NO_SEQUENCE: Final = -1
OF_COORDINATOR: Final = (1 << 31) - 1
"""What stands for the sequence of a batch of offsets."""


@attrs.frozen
class Logged(LoggedBatch):
    """A batch of a log, or the marker of a transaction, which has no sequence."""

    is_transactional: bool = False

    @property
    def is_marker(self) -> bool:
        return self.batch.sequence < 0


@attrs.frozen
class WithMarkers(Idempotence):
    """Idempotence where a marker may be all that is known of a producer."""

    def sequence_error(self, replica: Replica, batch: Batch) -> Error:
        entry = entry_of(replica.producers, batch.producer)
        if entry is None or entry.batches or batch.epoch != entry.epoch:
            return super().sequence_error(replica, batch)
        return Error.OK if batch.sequence == 0 else Error.OUT_OF_ORDER_SEQUENCE_NUMBER

    def with_batch(self, producers: Producers, batch: Batch, base_offset: int) -> Producers:
        if batch.sequence >= 0:
            return super().with_batch(producers, batch, base_offset)
        entry = entry_of(producers, batch.producer)
        kept = entry.batches if entry is not None and entry.epoch == batch.epoch else ()
        return with_entry(producers, ProducerEntry(batch.producer, batch.epoch, kept))

    def metadata(self, batch: Batch, base_offset: int) -> BatchMetadata:
        found = super().metadata(batch, base_offset)
        return attrs.evolve(found, last_sequence=NO_SEQUENCE) if batch.sequence == OF_COORDINATOR else found


def logged_batch(traced: TracedBatch) -> Logged:
    """A batch of an idempotent producer, or a marker, at its place."""
    batch = Batch(
        traced.producer_id,
        traced.producer_epoch,
        OF_COORDINATOR if traced.base_sequence < 0 and not traced.is_marker else traced.base_sequence,
        traced.checksum,
        traced.end_offset - traced.base_offset,
    )
    return Logged(traced.leader_epoch, traced.base_offset, batch, is_transactional=traced.is_transactional)


def marker_error(entry: ProducerEntry | None, memory: Memory, batch: Batch) -> MarkerError:
    """Whether a leader may append a marker, for all that it knows of the producer."""
    if entry is None:
        return MarkerError.NONE
    held = memory.entry(batch.producer) or Transactional(entry.producer, entry.epoch)
    held = attrs.evolve(held, epoch=entry.epoch)
    request = MarkerRequest(0, 0, batch.producer, batch.epoch, 0, Decision.ABORT, VERSION)
    return RULES.marker_epoch_error(held, request)


def coordinators_batch_error(entry: ProducerEntry | None, batch: Batch) -> MarkerError:
    """Whether a group's coordinator may append offsets to this producer's transaction, for all that is known of it."""
    fenced = entry is not None and batch.epoch < entry.epoch
    return MarkerError.INVALID_PRODUCER_EPOCH if fenced else MarkerError.NONE


def with_entry_of_log(memory: Memory, one: LoggedBatch, decided: Decided = NOTHING_DECIDED) -> Memory:
    """What a replica knows of transactions after one more batch of its log."""
    assert isinstance(one, Logged), "the validator's logs are made here"
    batch = one.batch
    if one.is_marker:
        decision = decided.get((batch.producer, batch.epoch), Decision.COMMIT)
        marker = Marker(batch.producer, batch.epoch, 0, decision, VERSION)
        return RULES.with_marker(memory, marker, one.base_offset)
    if not one.is_transactional:
        return memory
    return RULES.with_record(memory, Record(batch.producer, batch.epoch, batch.sequence, 0), one.base_offset)


def of_log(log: tuple[LoggedBatch, ...], decided: Decided = NOTHING_DECIDED) -> Memory:
    """What a replica knows of transactions that has read its log."""
    memory = Memory()
    for one in log:
        memory = with_entry_of_log(memory, one, decided)
    return memory


def last_stable_offset(memory: Memory, high_watermark: int) -> int:
    """Where read_committed ends."""
    if not memory.producers:
        return high_watermark
    memory = RULES.replicated(memory, high_watermark)
    return RULES.last_stable_offset(Partition(high_watermark=high_watermark, memory=memory))


def open_from(memory: Memory, producer: int) -> int:
    """Where the open transaction of a producer begins; NOBODY if none is open."""
    entry = memory.entry(producer)
    return NOBODY if entry is None else entry.open_from
