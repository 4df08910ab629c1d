"""The rules of a partition: which transactional records and markers its leader appends, and what replicas remember.

A record that begins a transaction in the partition needs the coordinator's verification (KIP-890); that holds until a
marker of that producer is appended. A marker of version 2 carries a greater epoch than every record that it ends.
"""

from __future__ import annotations

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.piecemeal import one_at_a_time
from tidegauge.spec.transactions.coordinator_rules import CoordinatorRules
from tidegauge.spec.transactions.state import (
    NONE,
    Decision,
    Error,
    Log,
    Marker,
    MarkerRequest,
    Memory,
    Partition,
    ProducerEntry,
    ProduceRequest,
    Record,
    Span,
)


@one_at_a_time
def without_producer(verified: tuple[tuple[int, int], ...], producer_id: int) -> tuple[tuple[int, int], ...]:
    """What is verified of other producers."""
    return tuple(one for one in verified if one[0] != producer_id)


@attrs.frozen
class PartitionRules(CoordinatorRules):
    """What the leader of a partition decides, and what every replica does."""

    # --- records -------------------------------------------------------------------------------------------------

    def record_error(self, memory: Memory, request: ProduceRequest) -> Error:
        """Whether a record that is no repeat may be appended, for all that the partition knows of its producer."""
        entry = memory.entry(request.producer_id)
        if entry is not None and request.epoch < entry.epoch:
            return Error.INVALID_PRODUCER_EPOCH
        if request.sequence == NONE:
            return Error.NONE
        if entry is None:
            return Error.NONE if request.sequence == 0 else Error.OUT_OF_ORDER_SEQUENCE_NUMBER
        expected = entry.last_sequence + 1 if request.epoch == entry.epoch else 0
        return Error.NONE if request.sequence == expected else Error.OUT_OF_ORDER_SEQUENCE_NUMBER

    def is_repeat(self, memory: Memory, request: ProduceRequest) -> bool:
        """Whether the record is in the log, as its sequence says."""
        entry = memory.entry(request.producer_id)
        if entry is None or request.sequence == NONE:
            return False
        return entry.epoch == request.epoch and request.sequence <= entry.last_sequence

    def is_open_for(self, memory: Memory, request: ProduceRequest) -> bool:
        """Whether the record goes on with a transaction that is open here: one of its own epoch (KAFKA-18575)."""
        entry = memory.entry(request.producer_id)
        return entry is not None and entry.open_from != NONE and entry.epoch == request.epoch

    def is_verified(self, partition: Partition, request: ProduceRequest) -> bool:
        """Whether the coordinator has said that the transaction is open, with no end since (KAFKA-14402)."""
        return (request.producer_id, request.epoch) in partition.verified

    def with_record(self, memory: Memory, record: Record, offset: int) -> Memory:
        """What a replica knows after a record; replicas that follow check nothing."""
        entry = memory.entry(record.producer_id) or ProducerEntry(record.producer_id, record.epoch)
        open_from = entry.open_from if entry.open_from != NONE else offset
        entry = evolve(entry, epoch=record.epoch, last_sequence=record.sequence, open_from=open_from)
        return memory.with_entry(entry)

    def verified_after(self, partition: Partition, producer_id: int) -> tuple[tuple[int, int], ...]:
        """What is verified after a record or a marker of the producer: its own is used up, or no longer true."""
        return without_producer(partition.verified, producer_id)

    # --- markers -------------------------------------------------------------------------------------------------

    def marker_error(self, memory: Memory, request: MarkerRequest) -> Error:
        """Whether a marker may be appended."""
        entry = memory.entry(request.producer_id)
        if entry is None:
            return Error.NONE
        if error := self.marker_epoch_error(entry, request):
            return error
        is_old = request.coordinator_epoch < entry.coordinator_epoch
        return Error.TRANSACTION_COORDINATOR_FENCED if is_old else Error.NONE

    def marker_epoch_error(self, entry: ProducerEntry, request: MarkerRequest) -> Error:
        """Version 2 takes a greater epoch, and an equal one where nothing is open: a repeat (KIP-1228, KAFKA-19999).

        No epoch is greater than the largest: there an equal one is taken too, so that whatever is open can be ended.
        """
        if request.epoch > entry.epoch:
            return Error.NONE
        is_repeat = entry.open_from == NONE
        taken = request.epoch == entry.epoch and (request.version < 2 or is_repeat or entry.epoch == self.max_epoch)
        return Error.NONE if taken else Error.INVALID_PRODUCER_EPOCH

    def with_marker(self, memory: Memory, marker: Marker, offset: int) -> Memory:
        """What a replica knows after a marker: the producer's transaction has ended, the index has it if aborted."""
        entry = memory.entry(marker.producer_id) or ProducerEntry(marker.producer_id, marker.epoch)
        if entry.open_from != NONE:
            span = Span(marker.producer_id, entry.open_from, offset)
            aborted = (*memory.aborted, span) if marker.decision is Decision.ABORT else memory.aborted
            memory = evolve(memory, aborted=aborted, unreplicated=(*memory.unreplicated, span))
        kept = entry.last_sequence if marker.epoch == entry.epoch else NONE
        return memory.with_entry(
            evolve(
                entry,
                epoch=marker.epoch,
                last_sequence=kept,
                coordinator_epoch=self.coordinator_epoch_after(entry, marker),
                open_from=NONE,
            )
        )

    def coordinator_epoch_after(self, entry: ProducerEntry, marker: Marker) -> int:
        """Markers of an older coordinator are refused from now on."""
        return marker.coordinator_epoch

    # --- every replica -------------------------------------------------------------------------------------------

    def last_stable_offset(self, partition: Partition) -> int:
        """Where read_committed ends: nothing below is open, and every marker below is committed."""
        memory, stable = partition.memory, partition.high_watermark
        for entry in memory.producers:
            if entry.open_from != NONE:
                stable = min(stable, entry.open_from)
        for span in memory.unreplicated:
            stable = min(stable, span.first)
        return stable

    def replicated(self, memory: Memory, high_watermark: int) -> Memory:
        """What is not stable yet once the log is committed up to here."""
        unreplicated = tuple(span for span in memory.unreplicated if span.last >= high_watermark)
        return memory if unreplicated == memory.unreplicated else evolve(memory, unreplicated=unreplicated)

    def rebuilt(self, log: Log, high_watermark: int) -> Memory:
        """What a replica knows that has read its log from the disk, or has followed."""
        memory = Memory()
        for offset, entry in enumerate(log):
            if isinstance(entry, Record):
                memory = self.with_record(memory, entry, offset)
            else:
                memory = self.with_marker(memory, entry, offset)
        return self.replicated(memory, high_watermark)

    def memory_after_cut(self, partition: Partition, log: Log) -> Memory:
        """What a replica knows whose log was cut, or that has read it anew: of what is gone, nothing (KAFKA-12153)."""
        return self.rebuilt(log, partition.high_watermark)

    def returned(self, partition: Partition) -> tuple[int, ...]:
        """The offsets of the records that read_committed returns: a consumer leaves out what the index says."""
        stable, aborted, found = self.last_stable_offset(partition), partition.memory.aborted, []
        for offset, entry in enumerate(partition.log[:stable]):
            if isinstance(entry, Record) and not any(
                span.producer_id == entry.producer_id and span.first <= offset <= span.last for span in aborted
            ):
                found.append(offset)
        return tuple(found)
