"""What a replica remembers of idempotent producers, and what follows from it for the next batch (KIP-98, 185, 360).

Theory of operation
-------------------
Of each producer id that has written to the partition the replica keeps the epoch and the last five batches: as many as
a producer may have in flight. The leader asks before it appends:

    a batch that is remembered    repeated          acknowledged with the offset that it got the first time
    an older epoch                refused           INVALID_PRODUCER_EPOCH
    not the next sequence         refused           OUT_OF_ORDER_SEQUENCE_NUMBER; a later epoch begins at 0
    an unknown producer           has to begin at 0 where nothing can have been forgotten (KAFKA-15591); is taken on
                                  trust elsewhere, as Kafka does since KIP-360: it never returns UNKNOWN_PRODUCER_ID

    no part of a transaction  refused              INVALID_TXN_STATE, while its producer has one open here

A repeat of a batch older than those five is out of order too, as in Kafka since KAFKA-6683: sequences wrap at 2^31, so
older and newer cannot be told apart by number. A follower checks nothing (KAFKA-6003): its leader has done so.

Markers end transactions (`transactions`). A coordinator's marker is held to the epochs (`marker_error`, KIP-1228): one
of a producer or a coordinator that was fenced is refused.

The memory is a function of the log. The log tells it of each append (`take_in`), after it and never before; after a
truncation or a restart it is made again, from a snapshot (one batch a producer), the batches in the log before the
snapshot that it leaves out (`fill`), and all batches since. It forgets a producer that has been idle for
`producer.id.expiration.ms`, and, at a restart, one whose records retention has deleted.

The rules have the names that the specification gives them (`spec.idempotence`). There is no clock here: the caller of
`expire` says what time it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, Final, NamedTuple

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.partition.transactions import AbortedTransaction, Transactions
from tidegauge.impl.records.batches import NO_TIMESTAMP, TRANSACTIONAL_FLAG, BatchHeader, RecordError
from tidegauge.impl.records.markers import (
    ABORT_MARKER,
    COMMIT_MARKER,
    UNKNOWN_COORDINATOR_EPOCH,
    MarkerRecord,
    TransactionMarker,
)

BATCHES_RETAINED: Final = 5
"""Kafka's number, and the most that `max.in.flight.requests.per.connection` may be for an idempotent producer."""
NO_SEQUENCE: Final = -1
NO_OFFSET: Final = -1
EPOCH_PER_TRANSACTION: Final = 2
"""The transaction version from which on a producer's epoch rises with each transaction (KIP-890)."""
TRANSACTION_VERSIONS: Final = range(3)
"""Those that a marker may have."""
LAST_PRODUCER_EPOCH: Final = 32_767
DEFAULT_EXPIRATION_MS: Final = 24 * 60 * 60 * 1000


class OutOfOrderSequenceError(RecordError):
    """A batch whose sequence is not the next one of its producer."""

    error_code: ClassVar[ErrorCode] = ErrorCode.out_of_order_sequence_number


class InvalidProducerEpochError(RecordError):
    """A batch of an epoch that its producer has left behind."""

    error_code: ClassVar[ErrorCode] = ErrorCode.invalid_producer_epoch


class InvalidTransactionStateError(RecordError):
    """A batch outside the transaction that its producer has open."""

    error_code: ClassVar[ErrorCode] = ErrorCode.invalid_txn_state


class RepeatedBatchError(Exception):
    """What was to be appended is in the log already, at [base_offset, end_offset), with this largest timestamp (ms)."""

    def __init__(self, base_offset: int, end_offset: int, timestamp: int) -> None:
        super().__init__(f"appended before, at offsets {base_offset} to {end_offset - 1}")
        self.base_offset = base_offset
        self.end_offset = end_offset
        self.timestamp = timestamp


class BatchMetadata(NamedTuple):
    """What is remembered of a batch, in the terms of Kafka's snapshot file."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    """Offset of the last record less that of the first."""
    timestamp: int
    """The batch's largest, in ms since 1970."""

    @property
    def base_offset(self) -> int:
        return self.last_offset - self.offset_delta


@attrs.define
class ProducerEntry:
    """What is remembered of one producer."""

    producer_id: int
    epoch: int
    batches: list[BatchMetadata] = attrs.field(factory=list)
    """The latest, oldest first; none when all that is known comes from control records."""
    last_timestamp: int = NO_TIMESTAMP
    coordinator_epoch: int = UNKNOWN_COORDINATOR_EPOCH
    current_txn_first_offset: int = NO_OFFSET

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


class ProducerStates:
    """The producers of one partition, as far as one replica remembers them."""

    sequences: ClassVar[int] = 1 << 31
    """Sequence numbers count modulo this."""
    batches_retained: ClassVar[int] = BATCHES_RETAINED

    def __init__(self) -> None:
        self.entries: dict[int, ProducerEntry] = {}
        self.transactions = Transactions()
        self.end_offset = 0
        """The log end offset that this memory is of."""
        self.log_start_offset = 0
        self.forgot = False
        """Whether a producer has expired, or may have in an earlier life of this replica, or of its topic."""
        self.oldest_timestamp: int | None = None
        """Of the log's first batch, in ms since 1970; None while the log is empty."""

    # --- the leader's rules ------------------------------------------------------------------------------------

    def admit(self, headers: Sequence[BatchHeader]) -> None:
        """Whether these batches, all or none, may be appended now; nothing is remembered yet.

        Raises RepeatedBatchError, OutOfOrderSequenceError or InvalidProducerEpochError.
        """
        if len(headers) == 1 and headers[0].producer_id < 0:
            return
        admitted: dict[int, BatchHeader] = {}
        repeats: list[BatchMetadata] = []
        for header in headers:
            if header.producer_id < 0:
                continue
            known = None if header.producer_id in admitted else self.repeated(header)
            if known is not None:
                repeats.append(known)
            elif (error := self.sequence_error(header, admitted.get(header.producer_id))) is not None:
                raise error
            elif header.producer_id in self.transactions.open and not header.is_transactional:
                raise InvalidTransactionStateError(
                    f"producer {header.producer_id} has a transaction open here, and the batch is no part of it"
                )
            else:
                admitted[header.producer_id] = header
        if repeats and len(repeats) < len(headers):
            raise OutOfOrderSequenceError(
                f"{len(repeats)} of {len(headers)} batches were appended before: send each in a request of its own"
            )
        if repeats:
            raise RepeatedBatchError(
                repeats[0].base_offset, repeats[-1].last_offset + 1, max(known.timestamp for known in repeats)
            )

    def repeated(self, header: BatchHeader) -> BatchMetadata | None:
        """The batch that is remembered of which this one is the repeat."""
        entry = self.entries.get(header.producer_id)
        if entry is None or entry.epoch != header.producer_epoch:
            return None
        first, last = header.base_sequence, self.advanced(header.base_sequence, header.last_offset_delta)
        for known in entry.batches:
            if known.last_sequence == last and self.first_sequence(known) == first:
                return known
        return None

    def sequence_error(self, header: BatchHeader, before: BatchHeader | None = None) -> RecordError | None:
        """What is wrong with a batch that is no repeat; `before` is one of its producer in the same request."""
        epoch, last_sequence = self._last(header.producer_id, before)
        sequence = header.base_sequence
        who = f"producer {header.producer_id} (epoch {header.producer_epoch})"
        if epoch is None:
            if sequence == 0 or self.accepts_unknown():
                return None
            return OutOfOrderSequenceError(f"{who} is new here and begins at sequence {sequence}: it must begin at 0")
        if header.producer_epoch < epoch:
            return InvalidProducerEpochError(f"{who} was fenced by its epoch {epoch}")
        if header.producer_epoch > epoch:
            if sequence == 0:
                return None
            return OutOfOrderSequenceError(f"{who} begins at sequence {sequence}: a new epoch must begin at 0")
        if sequence == self.advanced(last_sequence, 1):
            return None
        return OutOfOrderSequenceError(f"{who} goes on at sequence {sequence}, its last one here was {last_sequence}")

    def is_open_for(self, header: BatchHeader) -> bool:
        """Whether a batch goes on with a transaction that is open here: one of its own epoch (KAFKA-18575)."""
        entry = self.entries.get(header.producer_id)
        if entry is None or entry.current_txn_first_offset == NO_OFFSET:
            return False
        return entry.epoch == header.producer_epoch

    def marker_error(self, marker: TransactionMarker, transaction_version: int) -> ErrorCode:
        """What is wrong with a marker that a coordinator writes; none if nothing is.

        Errors: INVALID_REQUEST (of no producer, or of a transaction version that is not known),
        INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED.
        """
        is_known = transaction_version in TRANSACTION_VERSIONS
        if marker.producer_id < 0 or marker.producer_epoch < 0 or not is_known:
            return ErrorCode.invalid_request
        entry = self.entries.get(marker.producer_id)
        if entry is None:
            return ErrorCode.none
        if not self.takes_marker_epoch(entry, marker, transaction_version):
            return ErrorCode.invalid_producer_epoch
        if marker.coordinator_epoch < entry.coordinator_epoch:
            return ErrorCode.transaction_coordinator_fenced
        return ErrorCode.none

    def takes_marker_epoch(self, entry: ProducerEntry, marker: TransactionMarker, transaction_version: int) -> bool:
        """From transaction version 2 on each transaction has an epoch of its own, and its marker the next one.

        One with the same epoch is sent again, unless a transaction is open (KIP-890, KIP-1228). Before, it has the
        same epoch. No epoch is greater than the largest: there an equal one is taken too, so that whatever is open can
        be ended.
        """
        is_open = marker.producer_id in self.transactions.open
        least = entry.epoch + (is_open and transaction_version >= EPOCH_PER_TRANSACTION)
        return marker.producer_epoch >= min(least, LAST_PRODUCER_EPOCH)

    def _last(self, producer_id: int, before: BatchHeader | None) -> tuple[int | None, int]:
        """A producer's epoch and last sequence; (None, -1) when it is unknown."""
        if before is not None:
            return before.producer_epoch, self.advanced(before.base_sequence, before.last_offset_delta)
        entry = self.entries.get(producer_id)
        return (None, NO_SEQUENCE) if entry is None else (entry.epoch, entry.last_sequence)

    def accepts_unknown(self) -> bool:
        """An unknown producer may have a past only where something may have been forgotten (KIP-360, KAFKA-15591)."""
        return self.forgot or self.log_start_offset > 0

    # --- every replica's ---------------------------------------------------------------------------------------

    def take_in(
        self, header: BatchHeader, base_offset: int, marker: MarkerRecord | None = None
    ) -> AbortedTransaction | None:
        """Remember a batch that was appended with its first record at `base_offset`; the transaction that it aborts.

        `marker` is what a control batch says; None when the cleaner has taken that.
        """
        self.end_offset = base_offset + header.last_offset_delta + 1
        if self.oldest_timestamp is None:
            self.oldest_timestamp = header.max_timestamp
        if header.producer_id < 0:
            return None
        entry = self.entries.get(header.producer_id)
        if entry is None:
            entry = self.entries[header.producer_id] = ProducerEntry(header.producer_id, header.producer_epoch)
        elif entry.epoch != header.producer_epoch:
            entry.epoch = header.producer_epoch
            entry.batches.clear()
        entry.last_timestamp = header.max_timestamp
        if header.is_control:
            return self._end_transaction(entry, self.end_offset - 1, marker)
        entry.batches.append(self.metadata(header, base_offset))
        del entry.batches[: -self.batches_to_retain()]
        if header.attributes & TRANSACTIONAL_FLAG and entry.current_txn_first_offset == NO_OFFSET:
            entry.current_txn_first_offset = base_offset
            self.transactions.begin(header.producer_id, base_offset)
        return None

    def _end_transaction(
        self, entry: ProducerEntry, offset: int, marker: MarkerRecord | None
    ) -> AbortedTransaction | None:
        if marker is not None and marker.kind not in (ABORT_MARKER, COMMIT_MARKER):
            return None  # another control record ends nothing
        entry.current_txn_first_offset = NO_OFFSET
        if marker is not None and marker.coordinator_epoch != UNKNOWN_COORDINATOR_EPOCH:
            entry.coordinator_epoch = marker.coordinator_epoch
        aborted = marker is not None and marker.kind == ABORT_MARKER
        return self.transactions.end(entry.producer_id, offset, aborted=aborted)

    def batches_to_retain(self) -> int:
        """As many as a producer may have in flight (KAFKA-5494)."""
        return self.batches_retained

    def metadata(self, header: BatchHeader, base_offset: int) -> BatchMetadata:
        """A batch's last sequence may be smaller than its first, its last offset may not (KAFKA-7692).

        A batch of the group's coordinator has none at all.
        """
        delta = header.last_offset_delta
        has_sequence = header.base_sequence != NO_SEQUENCE
        last_sequence = self.advanced(header.base_sequence, delta) if has_sequence else NO_SEQUENCE
        return BatchMetadata(last_sequence, base_offset + delta, delta, header.max_timestamp)

    def advanced(self, sequence: int, by: int) -> int:
        """The sequence so many records on."""
        return (sequence + by) % self.sequences

    def first_sequence(self, known: BatchMetadata) -> int:
        return (known.last_sequence - known.offset_delta) % self.sequences

    # --- from the disk -----------------------------------------------------------------------------------------

    def restart(self, entries: Iterable[ProducerEntry], offset: int, log_start_offset: int) -> None:
        """Begin again with a snapshot's entries, as of the log end offset `offset`; what has expired stays so."""
        self.entries = {entry.producer_id: entry for entry in entries}
        self.transactions = self.transactions.ended_before(offset)
        opened = [entry for entry in self.entries.values() if entry.current_txn_first_offset != NO_OFFSET]
        for entry in sorted(opened, key=lambda entry: entry.current_txn_first_offset):
            self.transactions.begin(entry.producer_id, entry.current_txn_first_offset)
        self.end_offset = offset
        self.log_start_offset = log_start_offset
        self.oldest_timestamp = None

    def incomplete(self) -> set[int]:
        """The producers of whom the log may have batches that should be remembered and are not."""
        return {
            producer_id
            for producer_id, entry in self.entries.items()
            if 0 < len(entry.batches) < self.batches_to_retain() and not self.is_first(entry.batches[0])
        }

    def is_first(self, known: BatchMetadata) -> bool:
        """Whether its producer has certainly sent nothing before: what begins at 0 may have wrapped after 2^31."""
        return self.first_sequence(known) == 0 and known.base_offset < self.sequences

    def fill(self, headers: Sequence[BatchHeader]) -> None:
        """Remember batches that lie in the log before those that are remembered; `headers` is in the log's order."""
        for header in reversed(headers):
            entry = self.entries.get(header.producer_id)
            if entry is None or entry.epoch != header.producer_epoch or header.is_control:
                continue
            room = len(entry.batches) < self.batches_to_retain()
            if entry.batches and room and header.last_offset < entry.batches[0].base_offset:
                entry.batches.insert(0, self.metadata(header, header.base_offset))

    # --- time --------------------------------------------------------------------------------------------------

    def expire(self, now_ms: int, expiration_ms: int = DEFAULT_EXPIRATION_MS) -> list[int]:
        """Forget the producers without an open transaction that were idle for so long; returns their ids."""
        if self.oldest_timestamp is not None and now_ms - self.oldest_timestamp >= expiration_ms:
            self.forgot = True
        idle = [
            entry.producer_id
            for entry in self.entries.values()
            if now_ms - entry.last_timestamp >= expiration_ms and entry.current_txn_first_offset == NO_OFFSET
        ]
        for producer_id in idle:
            del self.entries[producer_id]
        self.forgot |= bool(idle)
        return idle
