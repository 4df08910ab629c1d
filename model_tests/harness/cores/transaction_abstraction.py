"""Coordinators and partitions as the specification of transactions has them: beside the cores, and beside a cluster.

An implementation may have other producer ids: `number` says which one of the specification each of them is.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol, TypeAlias

from tidegauge.impl.coordinators.groups.log_entries import OffsetWritten, log_entries
from tidegauge.impl.coordinators.transactions.metadata import NO_TIME, PREPARED, TopicPartition, TransactionMetadata
from tidegauge.impl.coordinators.transactions.rules import TransactionRules
from tidegauge.impl.partition.log import Buffer
from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.impl.records.batches import BatchHeader, headers
from tidegauge.impl.records.markers import ABORT_MARKER, TransactionMarker, marker_record
from tidegauge.impl.records.payload import ProducerIdentity, Record, build_batch, decode_records
from tidegauge.spec.kernel.changes import Change
from tidegauge.spec.transactions import state as spec
from tidegauge.spec.transactions.partition_rules import PartitionRules

SET_BACK_MS: Final = 3_600_000
"""By how much the coordinator's clock is set back at a time: more than all actions of a walk take."""
VALUE: Final = struct.Struct(">qq")
Numbers: TypeAlias = Callable[[int], int]


class AbortedIn(Protocol):
    """An aborted transaction in a response to a consumer."""

    @property
    def producer_id(self) -> int: ...

    @property
    def first_offset(self) -> int: ...


def itself(number: int) -> int:
    """The producer ids, and the offsets, are the specification's."""
    return number


def index_of(partition: TopicPartition) -> int:
    """The partitions are those of one topic."""
    return partition.partition


def produced(request: spec.ProduceRequest, now_ms: int = 0) -> bytes:
    """What a producer sends; the value says what no message of Kafka carries."""
    who = ProducerIdentity(request.producer_id, request.epoch, request.sequence)
    value = VALUE.pack(request.transaction, request.offset)
    return build_batch([Record(0, now_ms, None, value)], producer=who, transactional=True)


def transaction_marker(request: spec.MarkerRequest) -> TransactionMarker:
    """What the coordinator asks a leader to append."""
    is_commit = request.decision is spec.Decision.COMMIT
    return TransactionMarker(request.producer_id, request.epoch, is_commit, request.coordinator_epoch)


def known_version(transaction_version: int) -> int:
    """The version of the protocol, of a client that has told Kafka this."""
    return 2 if transaction_version >= 2 else 1


def set_back_by(time_ms: int, beginning_ms: int) -> int:
    """How often the clock had been set back when it said a time; NONE where there is no time."""
    return spec.NONE if time_ms == NO_TIME else -((time_ms - beginning_ms) // SET_BACK_MS)


def metadata_of(
    found: TransactionMetadata | None,
    beside: spec.Metadata,
    rules: TransactionRules,
    number: Numbers = itself,
    place: Callable[[TopicPartition], int] = index_of,
    beginning_ms: int | None = None,
) -> spec.Metadata:
    """A record of the transaction log; which transactions are open is the specification's.

    The coordinator's clock began at `beginning_ms`; without it the specification says by which clock one began.
    """
    if found is None:
        return spec.Metadata()
    return spec.Metadata(
        spec.Status(found.status),
        number(found.producer_id),
        found.epoch,
        rules.last_epoch(found),
        number(found.previous_producer_id),
        number(found.next_producer_id),
        tuple(sorted(map(place, found.partitions))),
        known_version(found.client_version),
        beside.transactions,
        number(found.ongoing_producer_id),
        found.ongoing_epoch,
        beside.started if beginning_ms is None else set_back_by(found.start_ms, beginning_ms),
    )


def has_all_markers(cached: TransactionMetadata | None) -> bool:
    """Whether a transaction is prepared, and every marker of it is acknowledged."""
    return cached is not None and cached.status in PREPARED and not cached.partitions


def entries_in(batches: Buffer, beside: spec.Log, number: Numbers = itself) -> Iterator[spec.Record | spec.Marker]:
    """A log; no control record says of which version it is. The records of a group's members are in no transaction."""
    transactional = (one for one in headers(batches) if one[1].producer_id >= 0)
    for at, (position, header) in enumerate(transactional):
        producer_id = number(header.producer_id)
        if header.is_control:
            told = marker_record(batches, position)
            assert told is not None
            decision = spec.Decision.ABORT if told.kind == ABORT_MARKER else spec.Decision.COMMIT
            known = beside[at] if at < len(beside) else None
            version = known.version if isinstance(known, spec.Marker) else spec.NONE
            yield spec.Marker(producer_id, header.producer_epoch, told.coordinator_epoch, decision, version)
        else:
            (record,) = decode_records(batches, position)
            transaction, offset = _said(header, record)
            yield spec.Record(producer_id, header.producer_epoch, header.base_sequence, transaction, offset)


def _said(header: BatchHeader, record: Record) -> tuple[int, int]:
    """Of which transaction a record is, and what it commits; of a group's offset the metadata says the first."""
    if record.key is None:
        transaction, offset = VALUE.unpack(record.value or b"")
        return transaction, offset
    (written,) = log_entries(header, [record], None)
    assert isinstance(written, OffsetWritten)
    assert written.value is not None
    return int(written.value.metadata), written.value.offset


def partition_of(
    leader: PartitionReplica, batches: Buffer, beside: spec.Log, number: Numbers = itself, at: Numbers = itself
) -> spec.Partition:
    """What the leader of a partition has, in these batches, and remembers; `at` says which offset the entries have."""
    log = tuple(entries_in(batches, beside, number))
    verified = sorted((number(asked.producer_id), asked.epoch) for asked in leader.verifications)
    return spec.Partition(log, at(leader.high_watermark), _memory(leader, batches, log, number, at), tuple(verified))


def _memory(leader: PartitionReplica, batches: Buffer, log: spec.Log, number: Numbers, at: Numbers) -> spec.Memory:
    entries = [
        spec.ProducerEntry(
            number(entry.producer_id),
            entry.epoch,
            entry.last_sequence,
            entry.coordinator_epoch,
            _first(entry.current_txn_first_offset, at),
        )
        for entry in leader.producers.entries.values()
    ]
    aborted = [
        spec.Span(number(one.producer_id), at(one.first_offset), at(one.last_offset))
        for one in leader.log.aborted_in(0, batches)
    ]
    ended = [
        spec.Span(log[at(one.last_offset)].producer_id, at(one.first_offset), at(one.last_offset))
        for one in leader.producers.transactions.ended
        if one.last_offset >= leader.high_watermark
    ]
    return spec.Memory(tuple(sorted(entries, key=lambda each: each.producer_id)), tuple(aborted), tuple(ended))


def _first(offset: int, at: Numbers) -> int:
    return offset if offset == spec.NONE else at(offset)


def returned(batches: Buffer, aborted: Iterable[AbortedIn]) -> Iterator[int]:
    """The offsets of the records that a consumer with read_committed gives to its application, of a response."""
    waiting = sorted(aborted, key=lambda one: one.first_offset)
    aborting: set[int] = set()
    for position, header in headers(batches):
        while waiting and waiting[0].first_offset <= header.base_offset:
            aborting.add(waiting.pop(0).producer_id)
        if header.is_control:
            told = marker_record(batches, position)
            if told is not None and told.kind == ABORT_MARKER:
                aborting.discard(header.producer_id)
        elif header.producer_id >= 0 and header.producer_id not in aborting:
            yield header.base_offset


def read_otherwise(
    rules: PartitionRules, name: str, expected: spec.Partition, stable: int, offsets: tuple[int, ...]
) -> Iterator[Change]:
    """Where a reader of committed records stops or reads otherwise than the specification says."""
    if (wanted := rules.last_stable_offset(expected)) != stable:
        yield Change(f"{name}.last_stable_offset", wanted, stable)
    if (wanted_offsets := rules.returned(expected)) != offsets:
        yield Change(f"{name}.returned", wanted_offsets, offsets)
