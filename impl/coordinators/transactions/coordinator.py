"""The transaction coordinator's core: the transactional ids of the log partitions that this broker leads.

Theory of operation
-------------------
The broker that leads a partition of `__transaction_state` coordinates the ids in it. Its log is the truth. A
coordinator loads a partition once all that was in its log at the election is committed, and then keeps the last record
of each id in memory. A request is ruled on by what is in memory (`rules`). If something is to change, the ruling is a
record: the shell appends it, and says when it is committed; only then does memory change, and only then is anybody
told. Of each id one record is pending at most, and other requests of the id are told CONCURRENT_TRANSACTIONS meanwhile.

Whatever happens between two calls, memory is what the log says: a partition that is given up, or loaded again in a
later leader epoch, forgets what was pending, and a record of before that is committed late is told NOT_COORDINATOR.

The partitions of a prepared transaction leave its entry in memory as they acknowledge their marker; the log keeps them
until the complete record, so that a new coordinator writes all markers again.

There is no clock and no I/O here: the shell appends, sends markers, and says what time it is (ms since 1970).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from typing import Final, TypeVar

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.fields import LONGEST_STRING
from tidegauge.impl.coordinators.hashing import partition_for
from tidegauge.impl.coordinators.transactions.listing import listed
from tidegauge.impl.coordinators.transactions.log_format import (
    TransactionLogError,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
    value_version,
)
from tidegauge.impl.coordinators.transactions.messages import (
    AddPartitions,
    Append,
    Committed,
    EndTxn,
    InitProducerId,
    Marker,
    Outcome,
    Outstanding,
    PartitionErrors,
    ProducerGiven,
    ProducerIdNeeded,
    Respond,
    TransactionDescription,
    TransactionFilter,
    TransactionList,
    VerifyPartitions,
)
from tidegauge.impl.coordinators.transactions.metadata import (
    NO_PRODUCER_ID,
    PREPARED,
    TopicPartition,
    TransactionMetadata,
)
from tidegauge.impl.coordinators.transactions.rules import CORRECT, Ruling, TransactionRules
from tidegauge.impl.records.slices import Sliced

DEFAULT_PARTITIONS: Final = 50
DEFAULT_MAX_TIMEOUT_MS: Final = 15 * 60 * 1000
DEFAULT_ID_EXPIRATION_MS: Final = 7 * 24 * 60 * 60 * 1000
RECORD_UNITS: Final = 10
"""Of work, as `impl.records.slices` counts it, to take in one record of the log."""
Given = TypeVar("Given")


@attrs.frozen
class TransactionConfig:
    """The settings that a coordinator acts on."""

    partitions: int = DEFAULT_PARTITIONS
    """Of `__transaction_state` (`transaction.state.log.num.partitions`)."""
    max_timeout_ms: int = DEFAULT_MAX_TIMEOUT_MS
    """The longest time-out that a producer may ask for (`transaction.max.timeout.ms`)."""
    id_expiration_ms: int = DEFAULT_ID_EXPIRATION_MS
    """How long a transactional id is kept that nobody uses (`transactional.id.expiration.ms`)."""
    transaction_version: int = 2
    """The level of the feature `transaction.version`."""
    allows_two_phase: bool = False
    """Whether transactions may have no time-out (`transaction.two.phase.commit.enable`)."""


@attrs.define
class Pending:
    """A record of an id that was appended, or is about to be, and whose commit is waited for."""

    number: int
    metadata: TransactionMetadata | None
    """None for a tombstone."""


@attrs.define
class CoordinatedId:
    """One transactional id, as the log says, and its pending record."""

    cached: TransactionMetadata | None
    """None until its first record is committed."""
    pending: Pending | None = None


@attrs.define
class CoordinatedPartition:
    """A partition of the log that this broker leads."""

    leader_epoch: int
    loading: bool = True
    ids: dict[str, CoordinatedId] = attrs.field(factory=dict)
    passed_over: int = 0
    """Records of the log whose versions are not known here: what an upgrade that was undone has left, perhaps."""


class TransactionCoordinator:
    """Rules on requests for the transactional ids in the partitions that it coordinates."""

    def __init__(self, config: TransactionConfig = TransactionConfig(), rules: TransactionRules = CORRECT) -> None:
        self.config = config
        """The shell may set another one; it applies from the next request on."""
        self.rules = rules
        self.partitions: dict[int, CoordinatedPartition] = {}
        self._appended = 0

    # --- which partitions are coordinated here -------------------------------------------------------------------

    def partition_of(self, transactional_id: str) -> int:
        """The partition of `__transaction_state` that has the id; its leader is the coordinator."""
        return partition_for(transactional_id, self.config.partitions)

    def begin_loading(self, partition: int, leader_epoch: int) -> None:
        """This broker was elected: until `load`, requests are told COORDINATOR_LOAD_IN_PROGRESS.

        An epoch that is not later than the present one changes nothing.
        """
        known = self.partitions.get(partition)
        if known is None or known.leader_epoch < leader_epoch:
            self.partitions[partition] = CoordinatedPartition(leader_epoch)

    def load(
        self, partition: int, leader_epoch: int, records: Iterable[tuple[bytes | None, bytes | None]]
    ) -> Sliced[None]:
        """The whole log in its order, as (key, value), up to its end at the election; all of it has to be committed.

        What prepared transactions have yet to do is `outstanding` then. A load of another leader epoch than the last
        election's is out of date, and changes nothing. Raises TransactionLogError.
        """
        found = self.partitions.get(partition)
        if found is None or found.leader_epoch != leader_epoch or not found.loading:
            return
        for key, value in records:
            self._take_in(found, key, value)
            yield RECORD_UNITS
        found.loading = False

    def _take_in(self, partition: CoordinatedPartition, key: bytes | None, value: bytes | None) -> None:
        """A record of the log; one of a version that is not known is passed over. Raises TransactionLogError."""
        transactional_id = decode_key(key) if key is not None else None
        if transactional_id is None:
            partition.passed_over += 1
            return
        if value is None:
            partition.ids.pop(transactional_id, None)
            return
        try:
            metadata = decode_value(value)
        except TransactionLogError as error:
            raise TransactionLogError(f"transactional id {transactional_id!r}: {error}") from None
        if metadata is None:
            partition.passed_over += 1
        else:
            partition.ids[transactional_id] = CoordinatedId(self.rules.loaded(metadata))

    def resign(self, partition: int, leader_epoch: int | None = None) -> None:
        """This broker does not lead the partition any more, or not its replica even; a later election stays."""
        known = self.partitions.get(partition)
        if known is not None and (leader_epoch is None or known.leader_epoch <= leader_epoch):
            del self.partitions[partition]

    # --- requests ------------------------------------------------------------------------------------------------

    def init_producer_id(
        self, request: InitProducerId, now_ms: int, new_id: int = NO_PRODUCER_ID
    ) -> Outcome[ProducerGiven]:
        """A producer begins.

        Errors: INVALID_REQUEST, INVALID_TRANSACTION_TIMEOUT, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS,
        CONCURRENT_TRANSACTIONS, PRODUCER_FENCED.
        """
        error = self._init_error(request)
        if error is not ErrorCode.none:
            return Respond(ProducerGiven(error))
        found = self._available(request.transactional_id)
        if isinstance(found, ErrorCode):
            return Respond(ProducerGiven(found))
        if new_id == NO_PRODUCER_ID and self.rules.needs_producer_id(found.cached, request):
            return ProducerIdNeeded()
        ruling = self.rules.init_ruling(found.cached, request, new_id, now_ms)
        return self._given(request.transactional_id, found, ruling, tells_ongoing=request.keeps_prepared)

    def _init_error(self, request: InitProducerId) -> ErrorCode:
        if not 0 < len(request.transactional_id.encode()) <= LONGEST_STRING:
            return ErrorCode.invalid_request
        if request.enables_two_phase:
            allowed = self.config.allows_two_phase
            return ErrorCode.none if allowed else ErrorCode.transactional_id_authorization_failed
        in_range = 0 < request.timeout_ms <= self.config.max_timeout_ms
        return ErrorCode.none if in_range else ErrorCode.invalid_transaction_timeout

    def add_partitions(self, request: AddPartitions, now_ms: int) -> Outcome[ErrorCode]:
        """Partitions join the transaction; the error is that of each of them.

        Errors: INVALID_REQUEST, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, CONCURRENT_TRANSACTIONS,
        INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED.
        """
        found = self._known(request.transactional_id)
        if isinstance(found, ErrorCode):
            return Respond(found)
        ruling = self.rules.add_ruling(_cached(found), request, now_ms)
        return self._ruled(request.transactional_id, found, ruling, ruling.error)

    def verify_partitions(self, request: VerifyPartitions) -> PartitionErrors:
        """Whether each partition is in the transaction: what was added before is, though another record is pending.

        Errors: those of `add_partitions`, and TRANSACTION_ABORTABLE where a partition is not in it: a leader whose
        client does not know that error says INVALID_TXN_STATE.
        """
        found = self._known(request.transactional_id, pending=False)
        if isinstance(found, ErrorCode):
            return dict.fromkeys(request.partitions, found)
        return self.rules.verification(_cached(found), request)

    def end(self, request: EndTxn, now_ms: int, new_id: int = NO_PRODUCER_ID) -> Outcome[ProducerGiven]:
        """A producer commits or aborts; with version 2 the response has the producer id and epoch to go on with.

        Errors: INVALID_REQUEST, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, CONCURRENT_TRANSACTIONS,
        INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, INVALID_TXN_STATE.
        """
        found = self._known(request.transactional_id)
        if isinstance(found, ErrorCode):
            return Respond(ProducerGiven(found))
        metadata = _cached(found)
        if new_id == NO_PRODUCER_ID and self.rules.needs_producer_id(metadata, request):
            return ProducerIdNeeded()
        return self._given(request.transactional_id, found, self.rules.end_ruling(metadata, request, new_id, now_ms))

    # --- what was appended ---------------------------------------------------------------------------------------

    def committed(self, append: Append[object], now_ms: int) -> Committed:
        """The record is committed: it is the truth now. Respond as the append says, unless there is an error."""
        found = self._pending(append)
        if found is None:
            return Committed(ErrorCode.not_coordinator)
        pending, found.pending = found.pending, None
        assert pending is not None
        found.cached = pending.metadata
        if pending.metadata is None:
            del self.partitions[append.partition].ids[append.transactional_id]
            return Committed()
        return Committed(outstanding=self.outstanding_of(append.partition, append.transactional_id, now_ms))

    def failed(self, append: Append[object]) -> None:
        """The record will never be in the log: all is as before. Not for one whose commit only takes too long."""
        found = self._pending(append)
        if found is not None:
            found.pending = None
            if found.cached is None:
                del self.partitions[append.partition].ids[append.transactional_id]

    def _pending(self, append: Append[object]) -> CoordinatedId | None:
        partition = self.partitions.get(append.partition)
        if partition is None or partition.leader_epoch != append.leader_epoch:
            return None
        found = partition.ids.get(append.transactional_id)
        is_pending = found is not None and found.pending is not None and found.pending.number == append.number
        return found if is_pending else None

    # --- markers -------------------------------------------------------------------------------------------------

    def outstanding(self, partition: int, now_ms: int) -> Iterator[Outstanding]:
        """Markers and complete records of the prepared transactions of a partition of the log: of one id at each step.

        Others may ask for something between two steps.
        """
        found = self.partitions.get(partition)
        for name in list(found.ids) if found is not None else ():
            yield self.outstanding_of(partition, name, now_ms)

    def outstanding_of(self, partition: int, transactional_id: str, now_ms: int) -> Outstanding:
        """The same of one id; nothing where the partition is not coordinated here, or the id is not known."""
        coordinated = self.partitions.get(partition)
        if coordinated is None or coordinated.loading:
            return Outstanding()
        found = coordinated.ids.get(transactional_id)
        metadata = None if found is None else found.cached
        if found is None or metadata is None or metadata.status not in PREPARED or found.pending is not None:
            return Outstanding()
        if (completed := self.rules.completed(metadata, now_ms)) is not None:
            return Outstanding(appends=[self._append(partition, transactional_id, found, completed, None)])
        return Outstanding([self._marker(transactional_id, partition, coordinated.leader_epoch, metadata)])

    def _marker(
        self, transactional_id: str, partition: int, leader_epoch: int, metadata: TransactionMetadata
    ) -> Marker:
        return Marker(
            transactional_id,
            partition,
            leader_epoch,
            *self.rules.ending(metadata),
            metadata.is_commit,
            metadata.client_version,
            metadata.partitions,
        )

    def unmarked(self, marker: Marker) -> Set[TopicPartition]:
        """The partitions that have yet to acknowledge a marker; none if the transaction is not waiting for it any more.

        A marker is one end of one transaction: that of an earlier end of the same id is not waited for (KAFKA-16352).
        """
        partition = self.partitions.get(marker.log_partition)
        if partition is None or partition.leader_epoch != marker.coordinator_epoch:
            return frozenset()
        found = partition.ids.get(marker.transactional_id)
        metadata = found.cached if found is not None else None
        if metadata is None or not self.rules.awaits(metadata, marker):
            return frozenset()
        return metadata.partitions

    def marker_written(self, marker: Marker, partitions: Set[TopicPartition], now_ms: int) -> Append[None] | None:
        """Partitions have acknowledged the marker, or are gone; returns the complete record after the last of them."""
        acknowledged = partitions & self.unmarked(marker)
        if not acknowledged:
            return None
        found = self.partitions[marker.log_partition].ids[marker.transactional_id]
        found.cached = self.rules.acknowledged(_cached(found), acknowledged)
        return next(iter(self.outstanding_of(marker.log_partition, marker.transactional_id, now_ms).appends), None)

    # --- time ----------------------------------------------------------------------------------------------------

    def overdue(self, now_ms: int) -> Iterator[Append[None] | None]:
        """The aborts of transactions that their producers have not ended in time.

        One id is looked at in each step, and what has nothing to abort says None. Others may ask for something between
        two steps; what is appended has to be, before the next one.
        """
        for number, name, found in self._at_rest():
            aborted = self.rules.overdue(_cached(found), now_ms)
            yield None if aborted is None else self._append(number, name, found, aborted, None)

    def expired(self, now_ms: int) -> Iterator[Append[None] | None]:
        """The tombstones of transactional ids that nobody has used for long; in steps, as `overdue`."""
        for number, name, found in self._at_rest():
            is_idle = self.rules.is_idle(_cached(found), now_ms, self.config.id_expiration_ms)
            yield self._append(number, name, found, None, None) if is_idle else None

    def _at_rest(self) -> Iterator[tuple[int, str, CoordinatedId]]:
        """The ids of loaded partitions without a pending record, each with the partition whose log has it."""
        for number, partition in list(self.partitions.items()):
            for name, found in list(partition.ids.items()) if not partition.loading else ():
                is_led = self.partitions.get(number) is partition
                if is_led and found.pending is None and found.cached is not None:
                    yield number, name, found

    # --- what operators ask --------------------------------------------------------------------------------------

    def describe(self, transactional_id: str) -> TransactionDescription:
        """What is known of an id.

        Errors: INVALID_REQUEST, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, TRANSACTIONAL_ID_NOT_FOUND.
        """
        found = self._known(transactional_id, pending=False)
        if found is ErrorCode.invalid_producer_id_mapping:
            return TransactionDescription(ErrorCode.transactional_id_not_found)
        if isinstance(found, ErrorCode):
            return TransactionDescription(found)
        return TransactionDescription(ErrorCode.none, found.cached)

    def list_transactions(self, wanted: TransactionFilter, now_ms: int) -> Sliced[TransactionList]:
        """The ids that this broker coordinates. Errors: COORDINATOR_LOAD_IN_PROGRESS."""
        if any(partition.loading for partition in self.partitions.values()):
            return TransactionList(ErrorCode.coordinator_load_in_progress)
        known = [one for partition in self.partitions.values() for one in partition.ids.items()]
        return (yield from listed(((name, found.cached) for name, found in known), wanted, now_ms))

    # --- what requests share -------------------------------------------------------------------------------------

    def _available(self, transactional_id: str, *, pending: bool = True) -> CoordinatedId | ErrorCode:
        """What is known of an id, or why no request of it is looked at now; `pending` asks whether a record is."""
        partition = self.partitions.get(self.partition_of(transactional_id))
        if partition is None:
            return ErrorCode.not_coordinator
        if partition.loading:
            return ErrorCode.coordinator_load_in_progress
        found = partition.ids.get(transactional_id) or CoordinatedId(None)
        return ErrorCode.concurrent_transactions if pending and found.pending is not None else found

    def _known(self, transactional_id: str, *, pending: bool = True) -> CoordinatedId | ErrorCode:
        """As `_available`, for requests that begin nothing."""
        if not transactional_id:
            return ErrorCode.invalid_request
        found = self._available(transactional_id, pending=pending)
        if isinstance(found, ErrorCode) or found.cached is not None:
            return found
        return ErrorCode.invalid_producer_id_mapping

    def _given(
        self, transactional_id: str, found: CoordinatedId, ruling: Ruling, *, tells_ongoing: bool = False
    ) -> Outcome[ProducerGiven]:
        """The outcome of a ruling whose response has the producer id and the epoch to go on with.

        `tells_ongoing`: and those of the transaction that is taken over, if one is.
        """
        metadata = ruling.metadata or found.cached
        if ruling.error is not ErrorCode.none or metadata is None:
            return self._ruled(transactional_id, found, ruling, ProducerGiven(ruling.error))
        rotates = metadata.next_producer_id != NO_PRODUCER_ID
        given = (
            ProducerGiven(ErrorCode.none, metadata.next_producer_id, 0)
            if rotates
            else ProducerGiven(ErrorCode.none, metadata.producer_id, metadata.epoch)
        )
        if tells_ongoing and metadata.is_taken_over:
            given = given._replace(ongoing=metadata.ongoing)
        return self._ruled(transactional_id, found, ruling, given)

    def _ruled(self, transactional_id: str, found: CoordinatedId, ruling: Ruling, response: Given) -> Outcome[Given]:
        if ruling.metadata is None:
            return Respond(response)
        number = self.partition_of(transactional_id)
        return self._append(number, transactional_id, found, ruling.metadata, response)

    def _append(
        self,
        number: int,
        transactional_id: str,
        found: CoordinatedId,
        metadata: TransactionMetadata | None,
        response: Given,
    ) -> Append[Given]:
        """The record becomes the pending one of its id, in the partition whose log has the id.

        That need not be `partition_of` the id: the topic may have got more partitions since the id came into the log.
        """
        partition = self.partitions[number]
        self._appended += 1
        found.pending = Pending(self._appended, metadata)
        partition.ids[transactional_id] = found
        value = None
        if metadata is not None:
            value = encode_value(metadata, value_version(self.config.transaction_version, metadata))
        key = encode_key(transactional_id)
        return Append(self._appended, number, partition.leader_epoch, transactional_id, key, value, response)


def _cached(found: CoordinatedId) -> TransactionMetadata:
    assert found.cached is not None, "it has been asked"
    return found.cached
