"""The rules of the transaction coordinator: what a request makes of one transactional id.

Each rule is a function of the coordinator's record of the id and of the request. It returns a `Ruling`: the error of
the response, and the record that has to be in the transaction log first. The coordinator's core has the same shape.

The prepare record is the commit point. Markers are written after it, and the complete record after the last of them.
"""

from __future__ import annotations

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.guarded import EnumeratingMachine
from tidegauge.spec.transactions.state import (
    NONE,
    PREPARED,
    AddRequest,
    Decision,
    EndRequest,
    Error,
    InitRequest,
    MarkerRequest,
    Metadata,
    ProduceRequest,
    State,
    Status,
)


@attrs.frozen
class Ruling:
    """What the coordinator makes of a request."""

    error: Error = Error.NONE
    metadata: Metadata | None = None
    """What it writes to its log first; None where nothing changes."""


@attrs.frozen
class CoordinatorRules(EnumeratingMachine[State]):
    """What a coordinator decides."""

    max_epoch: int = 32767
    """The largest epoch there is. No producer is given it, so that every producer can be fenced."""
    two_phase: bool = False
    """Whether a database decides with the producer: an open transaction may not be aborted unasked (KIP-939)."""
    log_version: int = 1
    """Of the values in the transaction log. Version 0, which `transaction.version` 0 has written, says less."""

    # --- InitProducerId ------------------------------------------------------------------------------------------

    def init_ruling(self, metadata: Metadata, request: InitRequest, new_id: int) -> Ruling:
        """A producer begins: an epoch of its own, once what an older one left open has ended."""
        if metadata.epoch == NONE:
            return Ruling(metadata=evolve(metadata, producer_id=new_id, epoch=0))
        if request.epoch != NONE and (error := self.recovery_error(metadata, request)):
            return Ruling(error)
        if metadata.status in PREPARED:
            return Ruling(Error.CONCURRENT_TRANSACTIONS)
        if metadata.status is Status.ONGOING:
            return self.keeping_ruling(metadata, new_id) if request.keeps_prepared else self.fencing_ruling(metadata)
        if request.epoch != NONE and self.is_init_repeated(metadata, request):
            return Ruling()
        return Ruling(metadata=self.begun(metadata, request, new_id))

    def recovery_error(self, metadata: Metadata, request: InitRequest) -> Error:
        """Only the present producer goes on after an error, or one that did and was not told so (KIP-360)."""
        is_present = (request.producer_id, request.epoch) == (metadata.producer_id, metadata.epoch)
        return Error.NONE if is_present or self.is_init_repeated(metadata, request) else Error.PRODUCER_FENCED

    def is_init_repeated(self, metadata: Metadata, request: InitRequest) -> bool:
        """Whether the epoch has been raised for this very producer, which was not told."""
        if metadata.last_epoch == NONE or request.epoch != metadata.last_epoch:
            return False
        rotated = metadata.previous_producer_id == request.producer_id and self.is_exhausted(request.epoch)
        return request.producer_id == metadata.producer_id or rotated

    def is_exhausted(self, epoch: int) -> bool:
        """The last epoch is for fencing alone."""
        return epoch >= self.max_epoch - 1

    def begun(self, metadata: Metadata, request: InitRequest, new_id: int) -> Metadata:
        """The record of a producer that begins: the next epoch, or a new id where epochs are used up."""
        goes_on = request.epoch != NONE
        metadata = evolve(
            metadata,
            status=Status.EMPTY,
            partitions=(),
            transactions=(),
            last_epoch=metadata.epoch if goes_on else NONE,
            previous_producer_id=metadata.producer_id if goes_on else NONE,
        )
        if self.is_exhausted(metadata.epoch):
            return evolve(metadata, producer_id=new_id, epoch=0)
        return evolve(metadata, epoch=metadata.epoch + 1)

    def fencing_ruling(self, metadata: Metadata) -> Ruling:
        """An open transaction is aborted before a new producer begins, which tries again meanwhile."""
        return Ruling(Error.CONCURRENT_TRANSACTIONS, self.fenced(metadata))

    def keeping_ruling(self, metadata: Metadata, new_id: int) -> Ruling:
        """A new process takes an open transaction over, and fences the old one by an epoch (KIP-939).

        Which id and epoch the transaction was begun under is kept. Where epochs are used up, the process has a new id.
        """
        producer_id, epoch = self.ongoing(metadata)
        metadata = evolve(
            metadata,
            last_epoch=NONE,
            previous_producer_id=NONE,
            ongoing_producer_id=producer_id,
            ongoing_epoch=epoch,
        )
        if self.is_exhausted(metadata.epoch):
            return Ruling(metadata=evolve(metadata, producer_id=new_id, epoch=0))
        return Ruling(metadata=evolve(metadata, epoch=metadata.epoch + 1))

    def is_taken_over(self, metadata: Metadata) -> bool:
        """Whether the transaction was begun by a process before the present one, which ends it."""
        return metadata.ongoing_epoch != NONE

    def ongoing(self, metadata: Metadata) -> tuple[int, int]:
        """The producer id and the epoch that the open transaction was begun under: a database knows it by them."""
        if self.is_taken_over(metadata):
            return metadata.ongoing_producer_id, metadata.ongoing_epoch
        return metadata.producer_id, metadata.epoch

    def ending(self, metadata: Metadata) -> tuple[int, int]:
        """The producer id and the epoch of the markers: of the id that the partitions know, and no epoch before."""
        if self.is_taken_over(metadata) and metadata.ongoing_producer_id != metadata.producer_id:
            return metadata.ongoing_producer_id, metadata.ongoing_epoch + 1
        return metadata.producer_id, metadata.epoch

    def fenced(self, metadata: Metadata) -> Metadata:
        """The abort of a transaction whose producer is not asked: under a new epoch, raised once (KAFKA-19367)."""
        return evolve(
            metadata,
            status=Status.PREPARE_ABORT,
            epoch=min(metadata.epoch + 1, self.max_epoch),
            last_epoch=NONE,
            previous_producer_id=NONE,
        )

    # --- partitions of a transaction -----------------------------------------------------------------------------

    def add_ruling(self, metadata: Metadata, request: AddRequest | ProduceRequest) -> Ruling:
        """A partition joins the open transaction, or opens one: by the client's request, or by a record (version 2)."""
        if error := self.request_error(metadata, request):
            return Ruling(error)
        if metadata.status is Status.ONGOING and request.partition in metadata.partitions:
            return Ruling()
        return Ruling(metadata=self.with_partition(metadata, request))

    def with_partition(self, metadata: Metadata, request: AddRequest | ProduceRequest) -> Metadata:
        """The record with the partition in it."""
        is_open = metadata.status is Status.ONGOING
        return evolve(
            metadata,
            status=Status.ONGOING,
            partitions=tuple(sorted({*(metadata.partitions if is_open else ()), request.partition})),
            transactions=tuple(sorted({*(metadata.transactions if is_open else ()), request.transaction})),
            version=request.version if isinstance(request, ProduceRequest) else 1,
        )

    def verification_ruling(self, metadata: Metadata, request: ProduceRequest) -> Ruling:
        """A leader asks before it lets a transaction begin in its partition: version 1 verifies, version 2 adds."""
        if request.version >= 2:
            return self.add_ruling(metadata, request)
        if error := self.request_error(metadata, request):
            return Ruling(error)
        is_added = metadata.status is Status.ONGOING and request.partition in metadata.partitions
        return Ruling(Error.NONE if is_added else Error.INVALID_TXN_STATE)

    def request_error(self, metadata: Metadata, request: AddRequest | ProduceRequest) -> Error:
        """Whether the request is of the present producer, and none of its transactions has yet to be complete.

        Where epochs are used up, the producer has its next id already, which is not in force before (KAFKA-18660). What
        a process has taken over it can only end (KIP-939).
        """
        if metadata.status in PREPARED and self.is_of_next(metadata, request):
            return Error.CONCURRENT_TRANSACTIONS
        if metadata.producer_id != request.producer_id:
            return Error.INVALID_PRODUCER_ID_MAPPING
        if metadata.epoch != request.epoch:
            return Error.PRODUCER_FENCED
        if metadata.status is Status.ONGOING and self.is_taken_over(metadata):
            return Error.INVALID_TXN_STATE
        return Error.CONCURRENT_TRANSACTIONS if metadata.status in PREPARED else Error.NONE

    # --- EndTxn --------------------------------------------------------------------------------------------------

    def end_ruling(self, metadata: Metadata, request: EndRequest, new_id: int) -> Ruling:
        """A producer ends its transaction; a repeat of the request changes nothing."""
        if self.is_end_too_early(metadata, request):
            return Ruling(Error.CONCURRENT_TRANSACTIONS)
        is_repeated = self.is_end_repeated(metadata, request)
        if metadata.producer_id != request.producer_id and not is_repeated:
            return Ruling(Error.INVALID_PRODUCER_ID_MAPPING)
        if metadata.epoch != request.epoch and not is_repeated:
            return Ruling(Error.PRODUCER_FENCED)
        if metadata.status is Status.ONGOING:
            return Ruling(metadata=self.prepared(metadata, request, new_id))
        if is_repeated and metadata.decision is not request.decision:
            return Ruling(Error.INVALID_TXN_STATE)
        if is_repeated:
            return Ruling(Error.CONCURRENT_TRANSACTIONS if metadata.status in PREPARED else Error.NONE)
        if request.version >= 2 and request.decision is Decision.ABORT:
            return self.empty_abort_ruling(metadata, request, new_id)
        return Ruling(Error.INVALID_TXN_STATE)

    def is_end_too_early(self, metadata: Metadata, request: EndRequest) -> bool:
        """Whether the request ends the next transaction, and the last one has yet to be complete (version 2)."""
        return request.version >= 2 and metadata.status in PREPARED and self.is_of_next(metadata, request)

    def is_of_next(self, metadata: Metadata, request: AddRequest | ProduceRequest | EndRequest) -> bool:
        """Whether a request is of the producer that goes on once the prepared transaction is complete."""
        present = (metadata.producer_id, metadata.epoch)
        return (request.producer_id, request.epoch) in (present, (metadata.next_producer_id, 0))

    def is_end_repeated(self, metadata: Metadata, request: EndRequest) -> bool:
        """Whether the request has ended the last transaction; with version 2 its epoch says so (KAFKA-17754)."""
        if request.version < 2:
            return metadata.status not in (Status.EMPTY, Status.ONGOING) and metadata.epoch == request.epoch
        rotated = metadata.previous_producer_id == request.producer_id and self.is_exhausted(request.epoch)
        if metadata.status in (Status.EMPTY, Status.ONGOING) or metadata.last_epoch != request.epoch:
            return False
        return metadata.producer_id == request.producer_id or (rotated and metadata.epoch == 0)

    def prepared(self, metadata: Metadata, request: EndRequest, new_id: int) -> Metadata:
        """The prepare record. With version 2 each transaction has an epoch of its own (KIP-890)."""
        commits = request.decision is Decision.COMMIT
        metadata = evolve(
            metadata,
            status=Status.PREPARE_COMMIT if commits else Status.PREPARE_ABORT,
            version=request.version,
        )
        return self.with_next_epoch(metadata, new_id) if request.version >= 2 else metadata

    def with_next_epoch(self, metadata: Metadata, new_id: int) -> Metadata:
        """The epoch after a transaction; where the producer may not have it, a new id follows.

        At once after a transaction that was taken over: its markers have the id that it was begun under.
        """
        if self.is_taken_over(metadata) and self.is_exhausted(metadata.epoch):
            return evolve(
                metadata,
                producer_id=new_id,
                epoch=0,
                last_epoch=metadata.epoch,
                previous_producer_id=metadata.producer_id,
            )
        return evolve(
            metadata,
            epoch=min(metadata.epoch + 1, self.max_epoch),
            last_epoch=metadata.epoch,
            previous_producer_id=metadata.producer_id,
            next_producer_id=new_id if self.is_exhausted(metadata.epoch) else NONE,
        )

    def empty_abort_ruling(self, metadata: Metadata, request: EndRequest, new_id: int) -> Ruling:
        """An abort without a partition raises the epoch all the same: a record may be on its way (version 2)."""
        metadata = evolve(metadata, partitions=(), transactions=(request.transaction,))
        return Ruling(metadata=self.prepared(metadata, request, new_id))

    # --- markers -------------------------------------------------------------------------------------------------

    def marker(
        self, metadata: Metadata, transactional_id: int, partition: int, coordinator_epoch: int
    ) -> MarkerRequest:
        """What the coordinator writes to a partition of a prepared transaction."""
        return MarkerRequest(
            transactional_id,
            partition,
            *self.ending(metadata),
            coordinator_epoch,
            metadata.decision,
            metadata.version,
        )

    def unmarked(self, metadata: Metadata) -> tuple[int, ...]:
        """The partitions that have yet to acknowledge their marker."""
        return metadata.partitions if metadata.status in PREPARED else ()

    def acknowledged(self, metadata: Metadata, request: MarkerRequest) -> Metadata:
        """The record after a partition has acknowledged its marker, if it is one of this very end (KAFKA-16352)."""
        is_of_this_end = (*self.ending(metadata), metadata.decision) == (
            request.producer_id,
            request.epoch,
            request.decision,
        )
        if metadata.status not in PREPARED or not is_of_this_end:
            return metadata
        return evolve(metadata, partitions=tuple(p for p in metadata.partitions if p != request.partition))

    def completed(self, metadata: Metadata) -> Metadata | None:
        """The complete record, once every marker is acknowledged; a new producer id begins at epoch 0."""
        if metadata.status not in PREPARED or metadata.partitions:
            return None
        commits = metadata.status is Status.PREPARE_COMMIT
        metadata = evolve(
            metadata,
            status=Status.COMPLETE_COMMIT if commits else Status.COMPLETE_ABORT,
            transactions=(),
            ongoing_producer_id=NONE,
            ongoing_epoch=NONE,
        )
        if metadata.next_producer_id == NONE:
            return metadata
        return evolve(
            metadata,
            producer_id=metadata.next_producer_id,
            previous_producer_id=metadata.producer_id,
            next_producer_id=NONE,
            epoch=0,
        )

    def notices_the_last_marker(self, state: State) -> bool:
        """Whether the coordinator sees that the last marker is there, whatever it does meanwhile (KAFKA-9777)."""
        return True

    def takes_in(self, known: Metadata, committed: Metadata) -> bool:
        """Whether what is committed is known from then on, whatever the clock said when it was written (KAFKA-8803)."""
        return True

    def is_forgotten(self, metadata: Metadata) -> bool:
        """Whether an id may be forgotten that nobody has used for long: it has a producer, and no transaction."""
        is_at_rest = metadata.status in (Status.EMPTY, Status.COMPLETE_COMMIT, Status.COMPLETE_ABORT)
        return is_at_rest and metadata.producer_id != NONE

    def expired(self, metadata: Metadata) -> Metadata | None:
        """The abort of a transaction that its producer has not ended in time; none where a database decides as well."""
        return self.fenced(metadata) if metadata.status is Status.ONGOING and not self.two_phase else None

    def in_log(self, metadata: Metadata) -> Metadata:
        """What of a record the log keeps: version 0 has no place for other producer ids, nor for the client's version.

        After a failover a producer whose epoch has changed without its knowing is fenced, then, in place of being told
        the new one. A transaction that another process has taken over is written in version 1 always.
        """
        if self.log_version >= 1 or metadata.ongoing_producer_id != NONE:
            return metadata
        return evolve(metadata, last_epoch=NONE, previous_producer_id=NONE, next_producer_id=NONE, version=1)

    def loaded(self, logged: Metadata) -> Metadata:
        """What a coordinator knows of an id after it has read the log: what the log says, and nothing else."""
        return evolve(logged, last_epoch=self.last_epoch_of(logged))

    def last_epoch_of(self, logged: Metadata) -> int:
        """The epoch before the present one, if its producer may not know yet that it has changed.

        Kafka's log has no place for it. It has one for the producer id before, which is there if the epoch was raised
        for the producer that has it: by one, or, where the id is another, from the last one that a producer has.
        """
        if logged.previous_producer_id == NONE:
            return NONE
        same = logged.previous_producer_id == logged.producer_id
        return logged.epoch - 1 if same else self.max_epoch - 1
