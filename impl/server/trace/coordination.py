"""What a transaction coordinator can decide, one class each, named as the action of `spec.transactions` if it is one.

A coordinator is a broker that leads a partition of `__transaction_state`. Each decision says of which partition and
leader epoch it is, so that two brokers that both think that they coordinate are told apart. What is *written* is
pending until `CommitRecord`, or `FailRecord`; where it is in the log, `AppendRecord` says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegauge.impl.server.trace.events import Decision

if TYPE_CHECKING:
    from kio.schema.errors import ErrorCode

    from tidegauge.impl.coordinators.transactions.messages import (
        AddPartitions,
        EndTxn,
        InitProducerId,
        VerifyPartitions,
    )
    from tidegauge.impl.coordinators.transactions.metadata import TopicPartition, TransactionMetadata


class OfCoordinator(Decision):
    """A decision of the coordinator of one partition of the transaction log."""

    log_partition: int
    leader_epoch: int


class FailOver(OfCoordinator):
    """The broker was elected: it coordinates once it has loaded what its log has now."""


class LoadIds(OfCoordinator):
    """The coordinator has read its log, and serves requests from now on."""

    ids: tuple[tuple[str, TransactionMetadata], ...]
    """What it knows of each transactional id, by name."""


class Resign(OfCoordinator):
    """The leader epoch has ended here: nothing of it counts any more."""


class OfTransactionalId(OfCoordinator):
    """A decision of a coordinator about one transactional id."""

    transactional_id: str


class Ruled(OfTransactionalId):
    """The coordinator rules on a request."""

    error: ErrorCode
    """Of the response, if all that is written is committed."""
    written: TransactionMetadata | None
    """The record that has to be committed first; None where nothing changes."""


class ReceiveInit(Ruled):
    """InitProducerId."""

    request: InitProducerId


class ReceiveAdd(Ruled):
    """AddPartitionsToTxn, of a client or of a leader that has a record (version 2)."""

    request: AddPartitions


class ReceiveEnd(Ruled):
    """EndTxn."""

    request: EndTxn


class Verify(OfTransactionalId):
    """A leader asks whether partitions are in a transaction (version 1)."""

    request: VerifyPartitions
    errors: tuple[tuple[TopicPartition, ErrorCode], ...]


class ExpireTransaction(OfTransactionalId):
    """A transaction's time is over."""

    written: TransactionMetadata


class ExpireId(OfTransactionalId):
    """Nobody has used the transactional id for long: a tombstone is written."""


class Complete(OfTransactionalId):
    """Every marker is acknowledged."""

    written: TransactionMetadata


class AppendRecord(OfTransactionalId):
    """What was written is about to be appended to the log at `offset`."""

    offset: int
    value_version: int
    """Of the record's value; -1 for a tombstone. Version 0 does not say all that was written."""


class CommitRecord(OfTransactionalId):
    """What was written is committed, and is what the coordinator knows from now on."""

    offset: int


class FailRecord(OfTransactionalId):
    """What was written will never be in the log."""


class AcknowledgeMarker(OfTransactionalId):
    """Partitions have a marker, or are gone."""

    producer_id: int
    epoch: int
    is_commit: bool
    partitions: tuple[TopicPartition, ...]
    left: tuple[TopicPartition, ...]
    """Those that have yet to acknowledge it."""
