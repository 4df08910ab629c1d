"""What a log holds, as a trace says it: its batches, what is known of their producers, what a disk took of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, Self

import attrs

from tidegauge.impl.records.batches import headers
from tidegauge.impl.records.checked import CheckedBatch
from tidegauge.impl.storage.errors import CorruptLogError

if TYPE_CHECKING:
    from tidegauge.impl.partition.log import ReplicaLog
    from tidegauge.impl.partition.producer_state import ProducerEntry
    from tidegauge.impl.records.batches import BatchHeader
    from tidegauge.impl.records.checked import Batches
    from tidegauge.impl.storage.log import Log


class LoggedBatch(NamedTuple):
    """A batch at its place. Two with one checksum have the same records, of the same producer and sequence."""

    base_offset: int
    end_offset: int
    """Of the next batch."""
    leader_epoch: int
    checksum: int
    producer_id: int
    """-1: its producer is not idempotent, and has neither epoch nor sequence."""
    producer_epoch: int
    base_sequence: int
    """-1 of a producer's: a marker, or offsets that a transaction commits."""
    is_transactional: bool = False
    is_marker: bool = False
    """Whether it ends a transaction."""

    @classmethod
    def of(cls, header: BatchHeader) -> Self:
        return cls(
            header.base_offset,
            header.next_offset,
            header.partition_leader_epoch,
            header.crc,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.is_transactional,
            header.is_control,
        )


class RememberedBatch(NamedTuple):
    """What is remembered of a batch."""

    last_sequence: int
    last_offset: int
    offset_delta: int


class RememberedProducer(NamedTuple):
    """What is remembered of a producer."""

    producer_id: int
    epoch: int
    batches: tuple[RememberedBatch, ...]
    """The latest, oldest first."""
    open_from: int = -1
    """The first offset of its open transaction; -1: it has none."""

    @classmethod
    def of(cls, entry: ProducerEntry) -> Self:
        batches = tuple(RememberedBatch(*batch[:3]) for batch in entry.batches)
        return cls(entry.producer_id, entry.epoch, batches, entry.current_txn_first_offset)


class TracedAbort(NamedTuple):
    """An aborted transaction in the index."""

    producer_id: int
    first_offset: int
    last_offset: int
    """Of its marker."""


class ProducerMemory(NamedTuple):
    """What a replica remembers of all producers, and of their transactions that were aborted."""

    forgot: bool
    """Whether a producer may have been forgotten, so that an unknown one is taken on trust."""
    producers: tuple[RememberedProducer, ...]
    """By id."""
    aborted: tuple[TracedAbort, ...] = ()
    """In the order of their markers, as far as the log reaches back and its index can be read."""

    @classmethod
    def of(cls, log: ReplicaLog) -> Self:
        states = log.producers
        aborted: list[TracedAbort] = []
        with suppress(CorruptLogError, OSError):
            found = log.aborted_transactions(log.log_start_offset, log.log_end_offset)
            aborted += [TracedAbort(one.producer_id, one.first_offset, one.last_offset) for one in found]
        return cls(
            states.forgot,
            tuple(RememberedProducer.of(entry) for _, entry in sorted(states.entries.items())),
            tuple(aborted),
        )


def logged(headers: Iterable[BatchHeader]) -> tuple[LoggedBatch, ...]:
    return tuple(map(LoggedBatch.of, headers))


def batches_in(records: Batches) -> tuple[LoggedBatch, ...]:
    """The batches of a produce request, which have no place in a log yet."""
    if isinstance(records, CheckedBatch):
        return logged((records.header,))
    return logged(header for _, header in headers(records))


def batches_appended(log: Log, records: Batches, base_offset: int, leader_epoch: int) -> tuple[LoggedBatch, ...]:
    """The batches that a leader has just appended: as its log has them, or as they came where it cannot be read."""
    found = batches_from(log, base_offset)
    if found and (found[0].base_offset, found[-1].end_offset) == (base_offset, log.log_end_offset):
        return found
    placed: list[LoggedBatch] = []
    for batch in batches_in(records):
        end = base_offset + batch.end_offset - batch.base_offset
        placed.append(batch._replace(base_offset=base_offset, end_offset=end, leader_epoch=leader_epoch))
        base_offset = end
    return tuple(placed)


def batches_from(log: Log, offset: int) -> tuple[LoggedBatch, ...]:
    """The batches of a log that reach beyond `offset`, as far as they can be read."""
    return logged(_headers_from(log, offset))


def _headers_from(log: Log, offset: int) -> Iterator[BatchHeader]:
    with suppress(CorruptLogError, OSError):
        for segment in log.segments:
            if segment.next_offset > offset:
                yield from segment.headers_from(offset)


@attrs.frozen
class LostReplica:
    """A replica whose log directory has failed, with what was in its log."""

    topic: str
    partition: int
    log_end_offset: int | None
    """None for a log that was not open."""
    log_start: int


@attrs.frozen
class DamagedLog:
    """A log with damage."""

    topic: str
    partition: int
    start: int
    """The first offset that cannot be read."""
    log_end_offset: int
    is_gone: bool = False
    """Whether its directory is missing."""
