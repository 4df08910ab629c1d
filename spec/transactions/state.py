"""What the machine of transactions is made of: producers, the coordinator's log and cache, partitions, late requests.

Frozen attrs classes of integers and tuples, as everywhere in this room. A *producer* is one process; the processes of
one transactional id follow each other, and one that was replaced and does not know it is a zombie. A transaction has a
number that no message of Kafka carries: it says which transaction a record or a request is of, for the invariants.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Annotated, TypeVar

import attrs

from tidegauge.spec.kernel.bounds import Spent, spend
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.naming import named
from tidegauge.spec.kernel.piecemeal import IN_PARTS, PIECEMEAL, one_at_a_time, question

M = TypeVar("M")

NONE = -1

ProducerNumber = Annotated[int, "a producer of the machine"]
"""The index of a process, in an action or a message."""
PartitionNumber = Annotated[int, "a partition of the machine"]
"""The index of a partition, in an action or a message."""
IdNumber = Annotated[int, "a transactional id of the machine"]
"""The index of a transactional id, in an action or a message."""


class Error(IntEnum):
    """Kafka's error codes, those of transactions here."""

    NONE = 0
    COORDINATOR_LOAD_IN_PROGRESS = 14
    ILLEGAL_GENERATION = 22
    UNKNOWN_MEMBER_ID = 25
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    UNSTABLE_OFFSET_COMMIT = 88
    PRODUCER_FENCED = 90


RETRIABLE = (Error.COORDINATOR_LOAD_IN_PROGRESS, Error.CONCURRENT_TRANSACTIONS)
"""A producer sends the request again; nothing else has changed."""


class Decision(IntEnum):
    """How a transaction ends; NONE while that is open."""

    NONE = 0
    COMMIT = 1
    ABORT = 2


# --- requests ------------------------------------------------------------------------------------------------------


@attrs.frozen(order=True)
class InitRequest:
    """InitProducerId; with a producer id and an epoch if the producer goes on after an error (KIP-360)."""

    producer: ProducerNumber
    producer_id: int = NONE
    epoch: int = NONE
    keeps_prepared: bool = False
    """It takes over what an older process has left open, and ends it (KIP-939)."""


@attrs.frozen(order=True)
class AddRequest:
    """AddPartitionsToTxn of a client (version 1 of the protocol)."""

    producer: ProducerNumber
    producer_id: int
    epoch: int
    partition: PartitionNumber
    transaction: int


@attrs.frozen(order=True)
class ProduceRequest:
    """One transactional record on its way to the partition's leader; to the offsets' partition, a TxnOffsetCommit.

    That has no sequence: it is appended as often as it comes.
    """

    producer: ProducerNumber
    producer_id: int
    epoch: int
    partition: PartitionNumber
    sequence: int
    transaction: int
    version: int
    generation: int = NONE
    """Of the group's member that commits an offset (KIP-447)."""
    offset: int = NONE
    """What it commits: where the group goes on in its input."""
    is_member: bool = True
    """Whether the group knows who commits."""


@attrs.frozen(order=True)
class EndRequest:
    """EndTxn: commit or abort."""

    producer: ProducerNumber
    producer_id: int
    epoch: int
    decision: Decision
    transaction: int
    version: int


@attrs.frozen(order=True)
class MarkerRequest:
    """WriteTxnMarkers of a coordinator to the leader of one partition."""

    transactional_id: IdNumber
    partition: PartitionNumber
    producer_id: int
    epoch: int
    coordinator_epoch: int
    decision: Decision
    version: int


# --- partitions ----------------------------------------------------------------------------------------------------


@attrs.frozen
class Record:
    """A record in a log, as a batch of one; `offset` is what it commits in the offsets' partition."""

    producer_id: int
    epoch: int
    sequence: int
    transaction: int
    offset: int = NONE


@attrs.frozen
class Marker:
    """A control record that ends a producer's open transaction in a log."""

    producer_id: int
    epoch: int
    coordinator_epoch: int
    decision: Decision
    version: int


Log = tuple[Record | Marker, ...]
"""By offset, from 0."""


@attrs.frozen
class ProducerEntry:
    """What a replica remembers of one producer id."""

    producer_id: int
    epoch: int
    last_sequence: int = NONE
    coordinator_epoch: int = NONE
    open_from: int = NONE
    """The first offset of its open transaction."""


@attrs.frozen(order=True)
class Span:
    """A transaction that has ended in a log: its first offset and its marker's."""

    producer_id: int
    first: int
    last: int


@attrs.frozen(cache_hash=True)
class Memory:
    """What a replica knows of its log: producers by id, the index of aborted transactions, what is not stable yet."""

    producers: tuple[ProducerEntry, ...] = ()
    aborted: tuple[Span, ...] = ()
    """The index of aborted transactions, by marker."""
    unreplicated: tuple[Span, ...] = ()
    """Transactions that have ended by a marker that is not committed yet."""

    def entry(self, producer_id: int) -> ProducerEntry | None:
        return next((entry for entry in self.producers if entry.producer_id == producer_id), None)

    def with_entry(self, entry: ProducerEntry) -> Memory:
        others = [other for other in self.producers if other.producer_id != entry.producer_id]
        return evolve(self, producers=tuple(sorted((*others, entry), key=lambda each: each.producer_id)))


@attrs.frozen(cache_hash=True)
class Partition:
    """A partition at its leader."""

    log: Log = ()
    high_watermark: int = 0
    memory: Memory = Memory()
    verified: tuple[tuple[int, int], ...] = attrs.field(default=(), metadata=PIECEMEAL)
    """Producer ids with their epochs whose next record the coordinator has let in. No log has it: a leader forgets."""


# --- the coordinator -----------------------------------------------------------------------------------------------


class Status(IntEnum):
    """The state of a transactional id at its coordinator."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5


PREPARED = (Status.PREPARE_COMMIT, Status.PREPARE_ABORT)


@attrs.frozen(cache_hash=True)
class Metadata:
    """A record of the transaction log: the last one of a transactional id says all."""

    status: Status = Status.EMPTY
    producer_id: int = NONE
    epoch: int = NONE
    last_epoch: int = NONE
    """The epoch before, if its producer may not know yet that it has changed."""
    previous_producer_id: int = NONE
    """The producer id before, as long as `last_epoch` is one."""
    next_producer_id: int = NONE
    """The id that replaces the present one when the transaction is complete: its epochs are used up."""
    partitions: tuple[int, ...] = ()
    version: int = 1
    """Of the protocol of transactions, as the client speaks it."""
    transactions: tuple[int, ...] = ()
    """Which transactions are open here: never two."""
    ongoing_producer_id: int = NONE
    """The producer id under which a transaction was begun that another process has taken over (KIP-939)."""
    ongoing_epoch: int = NONE
    """The epoch under which that was begun: with the id, what a database knows it by."""
    started: int = NONE
    """How often the coordinator's clock had been set back when the transaction began: the more often, the earlier."""

    @property
    def decision(self) -> Decision:
        commits = self.status in (Status.PREPARE_COMMIT, Status.COMPLETE_COMMIT)
        aborts = self.status in (Status.PREPARE_ABORT, Status.COMPLETE_ABORT)
        return Decision.COMMIT if commits else Decision.ABORT if aborts else Decision.NONE


@attrs.frozen
class Pending:
    """A record that the coordinator has appended and that is not committed; who waits for it."""

    metadata: Metadata
    waiting: InitRequest | AddRequest | ProduceRequest | EndRequest | None = None


@attrs.frozen(cache_hash=True)
class Coordination:
    """One transactional id: the truth in the log, and what its coordinator has loaded of it."""

    logged: Metadata = Metadata()
    cached: Metadata | None = attrs.field(default=Metadata(), metadata=IN_PARTS)
    """None while it is not loaded. Partitions leave it as they acknowledge their marker."""
    pending: Pending | None = attrs.field(default=None, metadata=IN_PARTS)
    unattended: bool = False
    """Every marker is acknowledged, and nobody looks: the right rules leave no transaction so."""


# --- producers -----------------------------------------------------------------------------------------------------


class Phase(IntEnum):
    """What a producer is doing."""

    DOWN = 0
    INITIALISING = 1
    READY = 2
    IN_TRANSACTION = 3
    COMMITTING = 4
    ABORTING = 5
    FENCED = 6
    CRASHED = 7


@attrs.frozen
class Slot:
    """What a producer has done with one partition in its transaction."""

    added: bool = False
    """The coordinator has acknowledged AddPartitionsToTxn (version 1)."""
    acknowledged: int = 0
    in_flight: bool = False
    given_up: bool = False
    """A record was given up: the transaction can only be aborted."""
    appended: int = NONE
    """Where an offset commit is in the log whose response has yet to come."""


@attrs.frozen(cache_hash=True)
class Producer:
    """A producer process."""

    phase: Phase = Phase.DOWN
    version: int = 1
    producer_id: int = NONE
    epoch: int = NONE
    transaction: int = NONE
    sequences: tuple[int, ...] = ()
    """The next one of each partition."""
    slots: tuple[Slot, ...] = ()
    generation: int = NONE
    """Of the group, as this member knows it."""
    position: int = NONE
    """Where it goes on in its input; NONE until it has asked for the group's offset."""

    def with_slot(self, partition: int, slot: Slot) -> Producer:
        return evolve(self, slots=(*self.slots[:partition], slot, *self.slots[partition + 1 :]))


@attrs.frozen
class Transaction:
    """What is true of a transaction, whether anybody knows it or not."""

    producer: int
    asked: Decision = Decision.NONE
    """What its producer has asked for."""
    outcome: Decision = Decision.NONE
    """What the coordinator's log says."""
    told: Decision = Decision.NONE
    """What its producer was told."""
    consumed: int = NONE
    """The record of the input that it is made of."""


@attrs.frozen(cache_hash=True)
class Late:
    """Requests that nobody waits for any more, and that may yet arrive."""

    inits: tuple[InitRequest, ...] = attrs.field(default=(), metadata=PIECEMEAL)
    adds: tuple[AddRequest, ...] = attrs.field(default=(), metadata=PIECEMEAL)
    produces: tuple[ProduceRequest, ...] = attrs.field(default=(), metadata=PIECEMEAL)
    ends: tuple[EndRequest, ...] = attrs.field(default=(), metadata=PIECEMEAL)
    markers: tuple[MarkerRequest, ...] = attrs.field(default=(), metadata=PIECEMEAL)


@attrs.frozen
class Group:
    """A group of consumers with one input partition, which one member owns."""

    generation: int = 0
    owner: int = 0


@attrs.frozen(cache_hash=True)
class State:
    """Producers, their coordinator, partitions, and what is late."""

    producers: tuple[Producer, ...]
    coordination: tuple[Coordination, ...]
    partitions: tuple[Partition, ...]
    coordinator_epoch: int = 0
    producer_ids: int = 0
    """How many producer ids were given."""
    transactions: tuple[Transaction, ...] = attrs.field(default=(), metadata=PIECEMEAL)
    late: Late = Late()
    group: Group = Group()
    spent: Spent = attrs.field(default=(), metadata=PIECEMEAL)

    def with_producer(self, number: int, producer: Producer) -> State:
        return evolve(self, producers=(*self.producers[:number], producer, *self.producers[number + 1 :]))

    def with_partition(self, number: int, partition: Partition) -> State:
        return evolve(self, partitions=(*self.partitions[:number], partition, *self.partitions[number + 1 :]))

    def with_coordination(self, number: int, one: Coordination) -> State:
        return evolve(self, coordination=(*self.coordination[:number], one, *self.coordination[number + 1 :]))

    def with_fact(self, number: int, fact: str, decision: Decision) -> State:
        """The state with one of a transaction's facts: what its producer asked for, what it came to or was told."""
        return evolve(self, transactions=with_fact(self.transactions, (number, fact, decision)))

    def spend(self, perturbation: str) -> State:
        return evolve(self, spent=spend(self.spent, perturbation))


@one_at_a_time
def with_fact(transactions: tuple[Transaction, ...], what: tuple[int, str, Decision]) -> tuple[Transaction, ...]:
    """The transactions with one fact of one of them: its number, the fact's name, what it is."""
    number, fact, decision = what
    changed = evolve(transactions[number], **{fact: decision})
    return (*transactions[:number], changed, *transactions[number + 1 :])


@one_at_a_time
def with_begun(transactions: tuple[Transaction, ...], new: Transaction) -> tuple[Transaction, ...]:
    """The transactions with one more."""
    return (*transactions, new)


@one_at_a_time
def with_one(values: tuple[M, ...], value: M) -> tuple[M, ...]:
    """The values, which are in order, with this one."""
    return tuple(sorted({*values, value}))  # type: ignore[type-var]


@one_at_a_time
def without_one(values: tuple[M, ...], value: M) -> tuple[M, ...]:
    """The values without this one."""
    return tuple(each for each in values if each != value)


@question
def begun_by(transactions: tuple[Transaction, ...], producer: int) -> int:
    """How many a producer has begun."""
    return sum(each.producer == producer for each in transactions)


@question
def outcome_of(transactions: tuple[Transaction, ...], number: int) -> Decision:
    """What the coordinator's log says of a transaction."""
    return transactions[number].outcome


@question
def producer_of(transactions: tuple[Transaction, ...], number: int) -> int:
    """Who has begun a transaction."""
    return transactions[number].producer


def named_producers(value: object) -> Iterator[int]:
    """Every producer that `value`, an action or a message, names."""
    return named(value, ProducerNumber)


def named_partitions(value: object) -> Iterator[int]:
    """Every partition that `value`, an action or a message, names."""
    return named(value, PartitionNumber)


def named_ids(value: object) -> Iterator[int]:
    """Every transactional id that `value`, an action or a message, names."""
    return named(value, IdNumber)
