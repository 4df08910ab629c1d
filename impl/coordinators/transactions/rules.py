"""What a request makes of one transactional id: the error of the response, and the record that is to be written first.

Theory of operation
-------------------
Each rule is a function of what is known of the id and of the request; nothing changes before the record is committed.
The prepare record is the commit point: markers are written after it, and the complete record after the last of them.

What is late is told from what is new by the epoch. It rises when a process begins, when the coordinator aborts without
being asked, and with every transaction from version 2 on (KIP-890). No producer is given the largest epoch; after the
last but one the producer id changes. A producer that was not told of a change of its epoch may ask again: the record
then has its `previous_producer_id`, and so the epoch before is known wherever the log is read. Kafka's log does not say
whether the epoch before may be asked with, and a repeat over a change of coordinator is refused there.

The rules have the names that the specification gives them (`spec.transactions.coordinator_rules`).
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Final, NamedTuple

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.transactions.messages import (
    AddPartitions,
    EndTxn,
    InitProducerId,
    Marker,
    VerifyPartitions,
)
from tidegauge.impl.coordinators.transactions.metadata import (
    EPOCH_PER_TRANSACTION,
    MAX_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    NO_TIME,
    NO_TIMEOUT,
    PREPARED,
    TopicPartition,
    TransactionMetadata,
    TransactionStatus,
)

Request = AddPartitions | VerifyPartitions | EndTxn


class Ruling(NamedTuple):
    """What the coordinator makes of a request."""

    error: ErrorCode = ErrorCode.none
    metadata: TransactionMetadata | None = None
    """What it writes to its log first; None where nothing changes."""


@attrs.frozen
class TransactionRules:
    """What a coordinator decides. `new_id` is a producer id that no producer had before."""

    max_epoch: int = MAX_EPOCH

    # --- InitProducerId ------------------------------------------------------------------------------------------

    def needs_producer_id(self, metadata: TransactionMetadata | None, request: InitProducerId | EndTxn) -> bool:
        """Whether a ruling on the request may need a new producer id."""
        return metadata is None or self.is_exhausted(metadata.epoch)

    def init_ruling(
        self, metadata: TransactionMetadata | None, request: InitProducerId, new_id: int, now_ms: int
    ) -> Ruling:
        """A producer begins: an epoch of its own, once what an older one left open has ended."""
        timeout_ms = NO_TIMEOUT if request.enables_two_phase else request.timeout_ms
        if metadata is None:
            return Ruling(metadata=TransactionMetadata(new_id, 0, timeout_ms=timeout_ms, last_update_ms=now_ms))
        if request.epoch != NO_EPOCH and (error := self.recovery_error(metadata, request)) is not ErrorCode.none:
            return Ruling(error)
        if metadata.status in PREPARED:
            return Ruling(ErrorCode.concurrent_transactions)
        if metadata.status is TransactionStatus.ONGOING:
            if not request.keeps_prepared:
                return self.fencing_ruling(metadata, now_ms)
            return self.keeping_ruling(attrs.evolve(metadata, timeout_ms=timeout_ms), new_id, now_ms)
        if request.epoch != NO_EPOCH and self.is_init_repeated(metadata, request):
            return Ruling()
        begun = self.begun(metadata, request, new_id)
        return Ruling(metadata=attrs.evolve(begun, timeout_ms=timeout_ms, last_update_ms=now_ms))

    def recovery_error(self, metadata: TransactionMetadata, request: InitProducerId) -> ErrorCode:
        """Only the present producer goes on after an error, or one that did and was not told so (KIP-360)."""
        is_present = (request.producer_id, request.epoch) == (metadata.producer_id, metadata.epoch)
        allowed = is_present or self.is_init_repeated(metadata, request)
        return ErrorCode.none if allowed else ErrorCode.producer_fenced

    def is_init_repeated(self, metadata: TransactionMetadata, request: InitProducerId) -> bool:
        """Whether the epoch has been raised for this very producer, which was not told."""
        last_epoch = self.last_epoch(metadata)
        if last_epoch == NO_EPOCH or request.epoch != last_epoch:
            return False
        rotated = metadata.previous_producer_id == request.producer_id and self.is_exhausted(request.epoch)
        return request.producer_id == metadata.producer_id or rotated

    def last_epoch(self, metadata: TransactionMetadata) -> int:
        """The epoch before, if its producer may not know yet that it has changed."""
        if metadata.previous_producer_id == NO_PRODUCER_ID:
            return NO_EPOCH
        same = metadata.previous_producer_id == metadata.producer_id
        return metadata.epoch - 1 if same else self.max_epoch - 1

    def is_exhausted(self, epoch: int) -> bool:
        """The last epoch is for fencing alone."""
        return epoch >= self.max_epoch - 1

    def begun(self, metadata: TransactionMetadata, request: InitProducerId, new_id: int) -> TransactionMetadata:
        """The record of a producer that begins: the next epoch, or a new id where epochs are used up."""
        goes_on = request.epoch != NO_EPOCH
        metadata = attrs.evolve(
            metadata,
            status=TransactionStatus.EMPTY,
            partitions=frozenset(),
            start_ms=NO_TIME,
            previous_producer_id=metadata.producer_id if goes_on else NO_PRODUCER_ID,
        )
        if self.is_exhausted(metadata.epoch):
            return attrs.evolve(metadata, producer_id=new_id, epoch=0)
        return attrs.evolve(metadata, epoch=metadata.epoch + 1)

    def fencing_ruling(self, metadata: TransactionMetadata, now_ms: int) -> Ruling:
        """An open transaction is aborted before a new producer begins, which tries again meanwhile."""
        return Ruling(ErrorCode.concurrent_transactions, self.fenced(metadata, now_ms))

    def keeping_ruling(self, metadata: TransactionMetadata, new_id: int, now_ms: int) -> Ruling:
        """A new process takes an open transaction over, and fences the old one by an epoch (KIP-939).

        Which id and epoch the transaction was begun under is kept. Where epochs are used up, the process has a new id.
        """
        producer_id, epoch = metadata.ongoing
        metadata = attrs.evolve(
            metadata,
            previous_producer_id=NO_PRODUCER_ID,
            ongoing_producer_id=producer_id,
            ongoing_epoch=epoch,
            last_update_ms=now_ms,
        )
        if self.is_exhausted(metadata.epoch):
            return Ruling(metadata=attrs.evolve(metadata, producer_id=new_id, epoch=0))
        return Ruling(metadata=attrs.evolve(metadata, epoch=metadata.epoch + 1))

    def ending(self, metadata: TransactionMetadata) -> tuple[int, int]:
        """The producer id and the epoch of the markers: of the id that the partitions know, and no epoch before."""
        if metadata.is_taken_over and metadata.ongoing_producer_id != metadata.producer_id:
            return metadata.ongoing_producer_id, metadata.ongoing_epoch + 1
        return metadata.producer_id, metadata.epoch

    def fenced(self, metadata: TransactionMetadata, now_ms: int) -> TransactionMetadata:
        """The abort of a transaction whose producer is not asked: under a new epoch, raised once (KAFKA-19367)."""
        return attrs.evolve(
            metadata,
            status=TransactionStatus.PREPARE_ABORT,
            epoch=min(metadata.epoch + 1, self.max_epoch),
            previous_producer_id=NO_PRODUCER_ID,
            last_update_ms=now_ms,
        )

    # --- partitions of a transaction -----------------------------------------------------------------------------

    def add_ruling(self, metadata: TransactionMetadata, request: AddPartitions, now_ms: int) -> Ruling:
        """Partitions join the open transaction, or open one."""
        if (error := self.request_error(metadata, request)) is not ErrorCode.none:
            return Ruling(error)
        if metadata.status is TransactionStatus.ONGOING and request.partitions <= metadata.partitions:
            return Ruling()
        return Ruling(metadata=self.with_partitions(metadata, request, now_ms))

    def with_partitions(
        self, metadata: TransactionMetadata, request: AddPartitions, now_ms: int
    ) -> TransactionMetadata:
        """The record with the partitions in it."""
        is_open = metadata.status is TransactionStatus.ONGOING
        return attrs.evolve(
            metadata,
            status=TransactionStatus.ONGOING,
            partitions=(metadata.partitions if is_open else frozenset()) | request.partitions,
            start_ms=metadata.start_ms if is_open else now_ms,
            last_update_ms=now_ms,
            client_version=request.client_version,
        )

    def verification(
        self, metadata: TransactionMetadata, request: VerifyPartitions
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Whether each partition is in the open transaction: a leader asks before it lets one begin (version 1)."""
        error = self.request_error(metadata, request)
        is_open = metadata.status is TransactionStatus.ONGOING
        return {
            partition: error
            if error is not ErrorCode.none or (is_open and partition in metadata.partitions)
            else ErrorCode.transaction_abortable
            for partition in request.partitions
        }

    def request_error(self, metadata: TransactionMetadata, request: Request) -> ErrorCode:
        """Whether the request is of the present producer, and none of its transactions has yet to be complete.

        Where epochs are used up, the producer has its next id already, which is not in force before (KAFKA-18660). What
        a process has taken over it can only end (KIP-939).
        """
        if metadata.status in PREPARED and self.is_of_next(metadata, request):
            return ErrorCode.concurrent_transactions
        if metadata.producer_id != request.producer_id:
            return ErrorCode.invalid_producer_id_mapping
        if metadata.epoch != request.epoch:
            return ErrorCode.producer_fenced
        if metadata.status is TransactionStatus.ONGOING and metadata.is_taken_over:
            return ErrorCode.invalid_txn_state
        return ErrorCode.concurrent_transactions if metadata.status in PREPARED else ErrorCode.none

    # --- EndTxn --------------------------------------------------------------------------------------------------

    def end_ruling(self, metadata: TransactionMetadata, request: EndTxn, new_id: int, now_ms: int) -> Ruling:
        """A producer ends its transaction; a repeat of the request changes nothing."""
        if self.is_end_too_early(metadata, request):
            return Ruling(ErrorCode.concurrent_transactions)
        is_repeated = self.is_end_repeated(metadata, request)
        if metadata.producer_id != request.producer_id and not is_repeated:
            return Ruling(ErrorCode.invalid_producer_id_mapping)
        if metadata.epoch != request.epoch and not is_repeated:
            return Ruling(ErrorCode.producer_fenced)
        if metadata.status is TransactionStatus.ONGOING:
            return Ruling(metadata=self.prepared(metadata, request, new_id, now_ms))
        if is_repeated and metadata.is_commit is not request.is_commit:
            return Ruling(ErrorCode.invalid_txn_state)
        if is_repeated:
            unfinished = metadata.status in PREPARED
            return Ruling(ErrorCode.concurrent_transactions if unfinished else ErrorCode.none)
        if request.client_version >= EPOCH_PER_TRANSACTION and not request.is_commit:
            return self.empty_abort_ruling(metadata, request, new_id, now_ms)
        return Ruling(ErrorCode.invalid_txn_state)

    def is_end_too_early(self, metadata: TransactionMetadata, request: EndTxn) -> bool:
        """Whether the request ends the next transaction, and the last one has yet to be complete (version 2)."""
        per_transaction = request.client_version >= EPOCH_PER_TRANSACTION
        return per_transaction and metadata.status in PREPARED and self.is_of_next(metadata, request)

    def is_of_next(self, metadata: TransactionMetadata, request: Request) -> bool:
        """Whether a request is of the producer that goes on once the prepared transaction is complete."""
        present = (metadata.producer_id, metadata.epoch)
        return (request.producer_id, request.epoch) in (present, (metadata.next_producer_id, 0))

    def is_end_repeated(self, metadata: TransactionMetadata, request: EndTxn) -> bool:
        """Whether the request has ended the last transaction; with version 2 its epoch says so (KAFKA-17754)."""
        if metadata.status in (TransactionStatus.EMPTY, TransactionStatus.ONGOING):
            return False
        if request.client_version < EPOCH_PER_TRANSACTION:
            return metadata.epoch == request.epoch
        if self.last_epoch(metadata) != request.epoch:
            return False
        rotated = metadata.previous_producer_id == request.producer_id and self.is_exhausted(request.epoch)
        return metadata.producer_id == request.producer_id or (rotated and metadata.epoch == 0)

    def prepared(self, metadata: TransactionMetadata, request: EndTxn, new_id: int, now_ms: int) -> TransactionMetadata:
        """The prepare record. With version 2 each transaction has an epoch of its own (KIP-890)."""
        metadata = attrs.evolve(
            metadata,
            status=TransactionStatus.PREPARE_COMMIT if request.is_commit else TransactionStatus.PREPARE_ABORT,
            client_version=request.client_version,
            last_update_ms=now_ms,
        )
        per_transaction = request.client_version >= EPOCH_PER_TRANSACTION
        return self.with_next_epoch(metadata, new_id) if per_transaction else metadata

    def with_next_epoch(self, metadata: TransactionMetadata, new_id: int) -> TransactionMetadata:
        """The epoch after a transaction; where the producer may not have it, a new id follows.

        At once after a transaction that was taken over: its markers have the id that it was begun under.
        """
        if metadata.is_taken_over and self.is_exhausted(metadata.epoch):
            return attrs.evolve(metadata, producer_id=new_id, epoch=0, previous_producer_id=metadata.producer_id)
        return attrs.evolve(
            metadata,
            epoch=min(metadata.epoch + 1, self.max_epoch),
            previous_producer_id=metadata.producer_id,
            next_producer_id=new_id if self.is_exhausted(metadata.epoch) else NO_PRODUCER_ID,
        )

    def empty_abort_ruling(self, metadata: TransactionMetadata, request: EndTxn, new_id: int, now_ms: int) -> Ruling:
        """An abort without a partition raises the epoch all the same: a record may be on its way (version 2)."""
        metadata = attrs.evolve(metadata, partitions=frozenset(), start_ms=now_ms)
        return Ruling(metadata=self.prepared(metadata, request, new_id, now_ms))

    # --- once a transaction is prepared --------------------------------------------------------------------------

    def awaits(self, metadata: TransactionMetadata, marker: Marker) -> bool:
        """Whether a marker is that of this very end, and not that of an earlier one of the same id (KAFKA-16352)."""
        waited_for = (*self.ending(metadata), metadata.is_commit)
        return metadata.status in PREPARED and waited_for == (marker.producer_id, marker.epoch, marker.is_commit)

    def acknowledged(self, metadata: TransactionMetadata, partitions: Set[TopicPartition]) -> TransactionMetadata:
        """What is known after partitions have acknowledged the marker of this very end."""
        return attrs.evolve(metadata, partitions=metadata.partitions - partitions)

    def completed(self, metadata: TransactionMetadata, now_ms: int) -> TransactionMetadata | None:
        """The complete record of a prepared transaction, once every marker is acknowledged.

        A new producer id begins at epoch 0.
        """
        if metadata.partitions:
            return None
        commits = metadata.is_commit
        metadata = attrs.evolve(
            metadata,
            status=TransactionStatus.COMPLETE_COMMIT if commits else TransactionStatus.COMPLETE_ABORT,
            last_update_ms=now_ms,
            ongoing_producer_id=NO_PRODUCER_ID,
            ongoing_epoch=NO_EPOCH,
        )
        if metadata.next_producer_id == NO_PRODUCER_ID:
            return metadata
        return attrs.evolve(
            metadata,
            producer_id=metadata.next_producer_id,
            previous_producer_id=metadata.producer_id,
            next_producer_id=NO_PRODUCER_ID,
            epoch=0,
        )

    # --- time ----------------------------------------------------------------------------------------------------

    def overdue(self, metadata: TransactionMetadata, now_ms: int) -> TransactionMetadata | None:
        """The abort of a transaction that its producer has not ended in time; none where a database decides as well."""
        is_open = metadata.status is TransactionStatus.ONGOING and metadata.timeout_ms != NO_TIMEOUT
        is_late = is_open and metadata.start_ms + metadata.timeout_ms < now_ms
        return self.fenced(metadata, now_ms) if is_late else None

    def is_idle(self, metadata: TransactionMetadata, now_ms: int, expiration_ms: int) -> bool:
        """Whether a transactional id is forgotten: it has no transaction, and nothing has changed for so long."""
        at_rest = metadata.status not in (TransactionStatus.ONGOING, *PREPARED)
        return at_rest and metadata.last_update_ms + expiration_ms <= now_ms

    def loaded(self, logged: TransactionMetadata) -> TransactionMetadata:
        """What a coordinator knows of an id after it has read the log: what the log says, and nothing else."""
        return logged


CORRECT: Final = TransactionRules()
"""Those of production."""
