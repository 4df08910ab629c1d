"""What markers do to a replica: to what it remembers of their producers, and to where read_committed ends.

The rules are those of `spec.transactions` for a partition, applied to the batches of a log. What a marker decides is
what its coordinator has decided (`coordinators`): the index of aborted transactions is held against that. Which
coordinator sent a marker no trace says: whether one of an older coordinator is refused, lockstep shows.

Offsets that a transaction commits have a producer and no sequence: a group's coordinator appends them. Batches have the
last sequence there is for that, which no producer goes on from, for a marker has none; so has what replicas remember.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

import attrs

from tidegauge.impl.server.trace.contents import LoggedBatch as TracedBatch
from tidegauge.spec.idempotence.machine import Idempotence
from tidegauge.spec.idempotence.state import (
    Batch,
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

NOBODY: Final = -1
RULES: Final = Transactions()
MarkerKey: TypeAlias = tuple[int, int, int]
"""Producer id, epoch and checksum of a marker: in version 1 of the protocol one epoch has many transactions."""


class Ended(NamedTuple):
    """How a transaction ended, and the version of the protocol that it had."""

    decision: Decision
    version: int


Decided: TypeAlias = Mapping[MarkerKey, Ended]
"""What each marker decides; one that is not there is taken for a commit of version 1, which is taken most often."""
UNTOLD: Final = Ended(Decision.COMMIT, 1)
NOTHING_DECIDED: Final[Decided] = MappingProxyType({})


OF_COORDINATOR: Final = (1 << 31) - 1
"""What stands for the sequence of a batch of offsets."""


def last_sequence(said: int, offset_delta: int) -> int:
    """Of what a replica remembers; -1: of a batch of offsets."""
    return (OF_COORDINATOR + offset_delta) % (OF_COORDINATOR + 1) if said < 0 else said


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


def ended_by(marker: Batch, decided: Decided) -> Ended:
    """What a marker has ended."""
    return decided.get((marker.producer, marker.epoch, marker.first), UNTOLD)


def marker_error(entry: ProducerEntry | None, memory: Memory, batch: Batch, version: int) -> MarkerError:
    """Whether a leader may append a marker, for all that it knows of the producer."""
    if entry is None:
        return MarkerError.NONE
    held = memory.entry(batch.producer) or Transactional(entry.producer, entry.epoch)
    held = attrs.evolve(held, epoch=entry.epoch)
    request = MarkerRequest(0, 0, batch.producer, batch.epoch, 0, Decision.ABORT, version)
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
        marker = Marker(batch.producer, batch.epoch, 0, *ended_by(batch, decided))
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
