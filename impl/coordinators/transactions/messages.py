"""What goes into the transaction coordinator's core and comes out of it.

A request is a call, and its result an `Outcome`: `Respond` at once, `Append` a record first, or come again with a
producer id. Handlers translate; nobody changes one that is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.transactions.metadata import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    TopicPartition,
    TransactionMetadata,
)

Response = TypeVar("Response", covariant=True)


# --- requests --------------------------------------------------------------------------------------------------------


class InitProducerId(NamedTuple):
    """A producer begins; with a producer id and an epoch if it goes on after an error (KIP-360)."""

    transactional_id: str
    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_EPOCH
    keeps_prepared: bool = False
    """It takes over what an older process has left open, and ends it (KIP-939)."""
    enables_two_phase: bool = False
    """A database decides with the producer: a transaction has no time-out (KIP-939)."""


class AddPartitions(NamedTuple):
    """Partitions join a transaction: by the client's request, or by the leader's that has a record (version 2)."""

    transactional_id: str
    producer_id: int
    epoch: int
    partitions: Set[TopicPartition]
    client_version: int = 0
    """The transaction version that the client speaks: 2 where a leader adds, 0 where the client does."""


class VerifyPartitions(NamedTuple):
    """A leader asks whether partitions are in a transaction (version 1); it adds none."""

    transactional_id: str
    producer_id: int
    epoch: int
    partitions: Set[TopicPartition]


class EndTxn(NamedTuple):
    """A producer commits or aborts."""

    transactional_id: str
    producer_id: int
    epoch: int
    is_commit: bool
    client_version: int = 0
    """2 from version 5 of the API on, if the cluster's `transaction.version` is 2; else 0."""


# --- responses -------------------------------------------------------------------------------------------------------


class ProducerGiven(NamedTuple):
    """The response to InitProducerId, and to EndTxn, which gives the epoch of the next transaction (version 2)."""

    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_EPOCH
    ongoing: tuple[int, int] = (NO_PRODUCER_ID, NO_EPOCH)
    """The producer id and the epoch that a transaction was begun under which the producer has taken over (KIP-939)."""


PartitionErrors: TypeAlias = Mapping[TopicPartition, ErrorCode]


class TransactionDescription(NamedTuple):
    """What DescribeTransactions tells of one transactional id; without metadata if there is an error."""

    error: ErrorCode
    metadata: TransactionMetadata | None = None


class ListedTransaction(NamedTuple):
    """What ListTransactions tells of one transactional id."""

    transactional_id: str
    producer_id: int
    state: str


class TransactionFilter(NamedTuple):
    """Which transactional ids ListTransactions is to tell of; all that it leaves open."""

    states: Set[str] = frozenset()
    """By Kafka's names."""
    producer_ids: Set[int] = frozenset()
    duration_ms: int = -1
    """Transactions that have been open for longer (KIP-994); those that are not open, never."""


class TransactionList(NamedTuple):
    """The response to ListTransactions."""

    error: ErrorCode
    transactions: Sequence[ListedTransaction] = ()
    unknown_states: Sequence[str] = ()
    """Names in the filter that no state has."""


# --- outcomes --------------------------------------------------------------------------------------------------------


class Respond(NamedTuple, Generic[Response]):
    """Respond at once; nothing changes."""

    response: Response


class Append(NamedTuple, Generic[Response]):
    """Append this record, the only one pending of its id, to a partition of the transaction log in this leader epoch.

    When it is committed, tell the core (`committed`), and then respond. If it never comes into the log, tell the core
    that (`failed`), and respond with the error. An append whose outcome is open stays pending: other requests of the id
    are told CONCURRENT_TRANSACTIONS meanwhile.
    """

    number: int
    """Of the pending record; no two have the same."""
    partition: int
    leader_epoch: int
    transactional_id: str
    key: bytes
    value: bytes | None
    """None for a tombstone."""
    response: Response


class ProducerIdNeeded(NamedTuple):
    """Call again with a producer id that no producer had before."""


Outcome: TypeAlias = Respond[Response] | Append[Response] | ProducerIdNeeded


class Marker(NamedTuple):
    """The end of a transaction that partitions have yet to be told of; WriteTxnMarkers, again until each has it."""

    transactional_id: str
    log_partition: int
    """Of the transaction log, which has the prepare record."""
    coordinator_epoch: int
    """The leader epoch of that partition; partitions refuse markers of an older coordinator."""
    producer_id: int
    epoch: int
    is_commit: bool
    transaction_version: int
    """That the client speaks (KIP-1228)."""
    partitions: Set[TopicPartition]
    """Those that have not acknowledged it."""


class Outstanding(NamedTuple):
    """What is to be done for prepared transactions: markers to write, and complete records to append."""

    markers: Sequence[Marker] = ()
    appends: Sequence[Append[None]] = ()


class Committed(NamedTuple):
    """What follows once a record is committed."""

    error: ErrorCode = ErrorCode.none
    """NOT_COORDINATOR if another coordinator has taken over meanwhile; else the append's own response is sent."""
    outstanding: Outstanding = Outstanding()
