"""What the batches of a log hold in a lockstep of its recovery, and what they say of producers and transactions.

A batch is known by where it begins and how many records it has: what else is in it follows from these. One in four is a
transaction's, one an idempotent producer's, one ends a transaction, if it has one record, and one in eight has no
record: a cleaner has left its offsets alone. Every third record holds a record batch of its own, which no recovery may
take for one of the log's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from enum import Enum
from random import Random
from typing import Final, NamedTuple

import attrs

from tidegauge.impl.partition.producer_state import ProducerStates
from tidegauge.impl.partition.transactions import AbortedTransaction
from tidegauge.impl.records.batches import MAGIC, BatchHeader, RecordError, assign, checked_header, empty_batch
from tidegauge.impl.records.markers import TransactionMarker, build_marker
from tidegauge.impl.records.payload import NO_PRODUCER, ProducerIdentity, Record, build_batch
from tidegauge.impl.storage.leader_epoch_cache import EpochEntry
from tidegauge.spec.kernel.changes import Change
from tidegauge.spec.recovery.epoch_lies import Lie
from tidegauge.spec.recovery.state import Batch, Rot

EMPTY: Final = 4
"""Where a batch begins that has no record, of every eight offsets."""
_MAGIC_POSITION: Final = 16
REMEMBERED: Final = 5
"""Batches of a producer, as many as it may have in flight."""


class Kind(Enum):
    """What a batch is to its producer."""

    PLAIN = "of no producer"
    IDEMPOTENT = "of an idempotent one"
    TRANSACTIONAL = "a part of its transaction"
    COMMIT = "the end of its transaction"
    ABORT = "its end, by which it has never been"


class Author(NamedTuple):
    """Whose a batch is."""

    kind: Kind
    producer: int


def author_of(start: int, records: int) -> Author:
    """Two producers have transactions, a third one has none."""
    turn, number = start % 4, 1 + start // 4 % 2
    if turn == 1:
        return Author(Kind.TRANSACTIONAL, number)
    if turn == 2:
        return Author(Kind.IDEMPOTENT, 3)
    if turn == 3 and records == 1:
        return Author(Kind.ABORT if start % 3 else Kind.COMMIT, number)
    return Author(Kind.PLAIN, -1)


def value_of(offset: int, epoch: int) -> bytes:
    """What the record at an offset says; of every third one it is a record batch that would fit in."""
    text = b"record %d of epoch %d" % (offset, epoch)
    return build_batch([Record(offset + 1, 0, None, text)], leader_epoch=epoch) if offset % 3 == 0 else text


def bytes_of(start: int, records: int, epoch: int) -> bytes:
    """A batch as its leader appends it. Its sequence and its time are where it begins."""
    kind, producer = author_of(start, records)
    if start % 8 == EMPTY:
        return empty_batch(start, start + records, epoch)
    if kind in (Kind.COMMIT, Kind.ABORT):
        return build_marker(TransactionMarker(producer, 0, kind is Kind.COMMIT, start), start)
    values = (value_of(start + number, epoch) for number in range(records))
    return build_batch(
        [Record(number, start, None, value) for number, value in enumerate(values)],
        producer=NO_PRODUCER if kind is Kind.PLAIN else ProducerIdentity(producer, 0, start),
        transactional=kind is Kind.TRANSACTIONAL,
    )


def bytes_from(start: int, records: int, epoch: int) -> bytes:
    """The same as a follower gets it, with its offset and its epoch."""
    batch = bytearray(bytes_of(start, records, epoch))
    assign(batch, 0, start, epoch)
    return bytes(batch)


def of_another_log(entries: Sequence[EpochEntry], lie: Lie, starts: Sequence[int], end: int) -> list[EpochEntry]:
    """Leader epochs that are not those of a log with batches that begin there, and with that end."""
    match lie:
        case Lie.BEYOND:
            return [*entries, EpochEntry(entries[-1].epoch + 1, end + 1)]
        case Lie.LARGER:
            return [*entries, EpochEntry(entries[-1].epoch + 1, starts[-1])]
    return [entries[0]._replace(epoch=entries[0].epoch - 1), *entries[1:]]


@attrs.define
class Memory:
    """What a replica has to know that has read these batches, by the definition of each word."""

    sent: dict[int, list[tuple[int, int, int]]] = attrs.field(factory=dict)
    """Of each producer its last batches: last sequence, last offset, offset delta. A snapshot has no time of theirs."""
    latest: dict[int, int] = attrs.field(factory=dict)
    """When each producer has last written, or its coordinator."""
    coordinators: dict[int, int] = attrs.field(factory=dict)
    open: dict[int, int] = attrs.field(factory=dict)
    aborted: list[AbortedTransaction] = attrs.field(factory=list)

    @classmethod
    def of(cls, batches: Iterable[Batch]) -> Memory:
        """What these batches say, of which none is missing."""
        memory = cls()
        for batch in batches:
            memory.take_in(batch)
        return memory

    def take_in(self, batch: Batch) -> None:
        """A batch follows."""
        kind, producer = author_of(batch.start, batch.end - batch.start)
        last, delta = batch.end - 1, batch.end - batch.start - 1
        if kind in (Kind.IDEMPOTENT, Kind.TRANSACTIONAL):
            mine = self.sent.setdefault(producer, [])
            mine.append((last, last, delta))
            del mine[:-REMEMBERED]
        if kind is not Kind.PLAIN:
            self.latest[producer] = batch.start
        if kind is Kind.TRANSACTIONAL:
            self.open.setdefault(producer, batch.start)
        if kind in (Kind.COMMIT, Kind.ABORT):
            self.coordinators[producer] = batch.start
            first = self.open.pop(producer, None)
            if first is not None and kind is Kind.ABORT:
                stable = min(self.open.values(), default=batch.end)
                self.aborted.append(AbortedTransaction(producer, first, last, stable))

    def differences(self, start: int, found: ProducerStates) -> Iterator[Change]:
        """What a replica knows otherwise of what lies from its log start on; of what lies before it may know less."""
        sent = {
            producer: [(one.last_sequence, one.last_offset, one.offset_delta) for one in entry.batches]
            for producer, entry in found.entries.items()
        }
        for producer in self.sent.keys() | sent.keys():
            wanted = [one for one in self.sent.get(producer, ()) if one[1] - one[2] >= start]
            known = [one for one in sent.get(producer, ()) if one[1] - one[2] >= start]
            if wanted != known:
                yield Change(f"batches of producer {producer}", wanted, known)
        for producer, time in self.latest.items():
            entry = found.entries.get(producer)
            if time >= start and (entry is None or entry.last_timestamp != time):
                yield Change(f"last time of producer {producer}", time, entry and entry.last_timestamp)
        for producer, coordinator in self.coordinators.items():
            known_epoch = found.entries[producer].coordinator_epoch if producer in found.entries else -1
            if coordinator >= start and known_epoch != coordinator:
                yield Change(f"coordinator of producer {producer}", coordinator, known_epoch)
        known_open = found.transactions.open
        before = {producer for open_in in (self.open, known_open) for producer in open_in if open_in[producer] < start}
        begun, known_open = (
            {producer: first for producer, first in open_in.items() if producer not in before}
            for open_in in (self.open, known_open)
        )
        if begun != known_open:
            yield Change("open transactions", begun, known_open)


def spot(rot: Rot, batch: Batch, size: int, beside: Batch | None, rng: Random) -> tuple[int, int]:
    """A bit of a batch, by byte and bit, that is damaged.

    In what the checksum covers and nothing else tells, so not in where the batch ends; in length and magic; in the
    epoch or the base offset, so that it becomes larger than that of `beside`, the batch behind, or farther than one can
    be; in the epoch, so that it becomes smaller than that of `beside`, the batch before the one before.
    """
    match rot:
        case Rot.CONTENT:
            return rng.choice((*range(17, 23), *range(27, size))), rng.randrange(8)
        case Rot.LENGTH:
            return rng.choice((*range(8, 12), 16)), rng.randrange(8)
        case Rot.EPOCH:
            value, after, end = batch.epoch, 0 if beside is None else beside.epoch, 16
        case Rot.OFFSET:
            value, after, end = batch.start, 0 if beside is None else beside.start, 8
        case Rot.LOW:
            low = 0 if beside is None else beside.epoch
            set_bits = [bit for bit in range(31) if batch.epoch >> bit & 1 and batch.epoch - (1 << bit) < low]
            bit = rng.choice(set_bits) if set_bits and rng.random() < 0.8 else 31  # which makes it negative
            return 15 - bit // 8, bit % 8
        case Rot.FAR:
            return rng.choice([(7 - bit // 8, bit % 8) for bit in range(31, 64) if not batch.start >> bit & 1])
    largest = 31 if rot is Rot.EPOCH else 63
    bits = [bit for bit in range(largest) if not value >> bit & 1 and value + (1 << bit) > after]
    bit = rng.choice(bits[:8] if rng.random() < 0.7 else bits)
    return end - 1 - bit // 8, bit % 8


def as_kept(
    found: Iterable[AbortedTransaction], kept: Iterable[AbortedTransaction], start: int
) -> Iterator[AbortedTransaction]:
    """Aborted transactions as if nothing were known of what lies below the log start.

    A log that was opened since it starts there has forgotten that, another one has not. What began there begins with
    its first batch that is kept, and is none if nothing of it is; and what was open from there on was not.
    """
    alike = {one.last_offset: one for one in kept}
    for one in found:
        like = alike.get(one.last_offset)
        if one.first_offset < start:
            if like is None:
                continue
            one = one._replace(first_offset=like.first_offset)
        if one.last_stable_offset < start and like is not None:
            one = one._replace(last_stable_offset=like.last_stable_offset)
        yield one


def intact(content: bytes) -> Iterator[BatchHeader]:
    """Every intact batch in a file, wherever it begins."""
    position = content.find(bytes([MAGIC]), _MAGIC_POSITION)
    while position >= 0:
        with suppress(RecordError):
            yield checked_header(content, position - _MAGIC_POSITION)
        position = content.find(bytes([MAGIC]), position + 1)
