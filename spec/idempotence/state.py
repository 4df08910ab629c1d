"""What idempotent producing is made of: batches, what a replica remembers of its producers, requests on their way.

Frozen attrs classes of integers and tuples, as everywhere in this room. An offset counts records; a replica's log keeps
the batches that retention has deleted, below `log_start`, for the invariants to look at.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Annotated

import attrs

from tidegauge.spec.kernel.bounds import Spent, spend
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.naming import named
from tidegauge.spec.kernel.piecemeal import PIECEMEAL

NONE = -1

BrokerId = Annotated[int, "a broker of the machine"]
"""The index of a replica, in an action or a message."""

ProducerId = Annotated[int, "a producer of the machine"]
"""The index of a producer, in an action or a message."""
COMPLETED = -2
"""In place of the broker that a batch was sent to."""


class Error(IntEnum):
    """Kafka's error codes, those of responses to produce requests here."""

    OK = 0
    NOT_LEADER_OR_FOLLOWER = 6
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    INVALID_PRODUCER_EPOCH = 47


@attrs.frozen(order=True)
class Batch:
    """`count` records of a producer, the first of which is its record number `first`: that is what they are, for good.

    Epoch and sequence are what the wire says of them; a batch without a sequence (-1) is not idempotent.
    """

    producer: ProducerId
    epoch: int
    sequence: int
    first: int
    count: int


@attrs.frozen(order=True)
class ProduceRequest:
    """A batch on its way to a broker, for the nth time."""

    batch: Batch
    broker: BrokerId
    attempt: int


@attrs.frozen(order=True)
class ProduceResponse:
    """The response to one attempt; `repeated` when the leader had the batch already."""

    request: ProduceRequest
    error: Error = Error.OK
    base_offset: int = NONE
    repeated: bool = False


@attrs.frozen
class BatchMetadata:
    """What a replica remembers of one batch, in the terms of Kafka's snapshot file."""

    last_sequence: int
    last_offset: int
    offset_delta: int

    @property
    def base_offset(self) -> int:
        return self.last_offset - self.offset_delta


@attrs.frozen
class ProducerEntry:
    """What a replica remembers of one producer: its epoch and its latest batches, oldest first, never none."""

    producer: int
    epoch: int
    batches: tuple[BatchMetadata, ...]


Producers = tuple[ProducerEntry, ...]
"""By producer id."""


def entry_of(producers: Producers, producer: int) -> ProducerEntry | None:
    return next((entry for entry in producers if entry.producer == producer), None)


def with_entry(producers: Producers, entry: ProducerEntry) -> Producers:
    others = [other for other in producers if other.producer != entry.producer]
    return tuple(sorted((*others, entry), key=lambda each: each.producer))


def without_entry(producers: Producers, producer: int) -> Producers:
    return tuple(entry for entry in producers if entry.producer != producer)


@attrs.frozen
class LoggedBatch:
    """A batch in a log; `on_trust` if the leader knew nothing of its producer and may have forgotten something."""

    leader_epoch: int
    base_offset: int
    batch: Batch
    on_trust: bool = False

    @property
    def end_offset(self) -> int:
        return self.base_offset + self.batch.count


Log = tuple[LoggedBatch, ...]


@attrs.frozen
class Snapshot:
    """A snapshot file: of each producer the last batch before `offset`, and no more."""

    offset: int
    producers: Producers


@attrs.frozen
class Waiting:
    """An attempt whose batch is in the leader's log and not committed yet."""

    request: ProduceRequest
    base_offset: int
    repeated: bool


@attrs.frozen(cache_hash=True)
class Replica:
    """One broker's replica: its log, and what it knows of producers and, as the leader, of followers."""

    log: Log = ()
    log_start: int = 0
    high_watermark: int = 0
    producers: Producers = ()
    snapshots: tuple[Snapshot, ...] = ()
    """By offset, ascending."""
    segment_full: bool = False
    """The next append begins a new segment, and a snapshot is written."""
    forgot: bool = False
    """A producer has expired here once."""
    stuck: bool = False
    """It refused what its leader has: replication has come to an end."""
    epoch_start: int = NONE
    known_ends: tuple[int, ...] = ()
    """A leader's: each broker's log end offset, as its last fetch in this epoch showed it."""
    waiting: tuple[Waiting, ...] = attrs.field(default=(), metadata=PIECEMEAL)

    @property
    def may_have_forgotten(self) -> bool:
        """Whether an unknown producer may have a past here: one has expired, or records were deleted."""
        return self.forgot or self.log_start > 0

    @property
    def log_end(self) -> int:
        return self.log[-1].end_offset if self.log else 0


@attrs.frozen
class InFlight:
    """A batch in line: sent to a broker, to be sent again (-1), or completed (-2) before an older one.

    `behind` says that an older batch was incomplete when this attempt was sent, so that it may come too early.
    """

    batch: Batch
    attempt: int
    sent_to: int
    behind: bool


@attrs.frozen(cache_hash=True)
class Producer:
    """A producer: its epoch, what it numbers next, whom it takes for the leader, and what is in flight.

    Batches leave the line at its head: one that is completed before an older one stays in it.
    """

    epoch: int = 0
    next_sequence: int = 0
    next_record: int = 0
    leader: int = 0
    in_flight: tuple[InFlight, ...] = attrs.field(default=(), metadata=PIECEMEAL)
    desynchronised: bool = False
    """It was refused a batch before which everything was acknowledged: it can't go on."""


@attrs.frozen(order=True)
class Acknowledged:
    """A promise: the batch's records are at this offset."""

    base_offset: int
    batch: Batch


@attrs.frozen(cache_hash=True)
class State:
    """A partition, its producers, and the requests and responses between them."""

    producers: tuple[Producer, ...]
    replicas: tuple[Replica, ...]
    leader: int
    leader_epoch: int
    in_sync: tuple[int, ...]
    requests: tuple[ProduceRequest, ...] = attrs.field(default=(), metadata=PIECEMEAL)
    responses: tuple[ProduceResponse, ...] = attrs.field(default=(), metadata=PIECEMEAL)
    acknowledged: tuple[Acknowledged, ...] = attrs.field(default=(), metadata=PIECEMEAL)
    spent: Spent = attrs.field(default=(), metadata=PIECEMEAL)

    def with_producer(self, number: int, producer: Producer) -> State:
        return evolve(self, producers=(*self.producers[:number], producer, *self.producers[number + 1 :]))

    def with_replica(self, broker: int, replica: Replica) -> State:
        return evolve(self, replicas=(*self.replicas[:broker], replica, *self.replicas[broker + 1 :]))

    def spend(self, perturbation: str) -> State:
        return evolve(self, spent=spend(self.spent, perturbation))


def named_brokers(value: object) -> Iterator[int]:
    """Every broker that `value`, an action or a message, names."""
    return named(value, BrokerId)


def named_producers(value: object) -> Iterator[int]:
    """Every producer that `value`, an action or a message, names."""
    return named(value, ProducerId)
